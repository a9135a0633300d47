"""The causal decoder of Gemma 3 (Gemma Team 2025, arXiv 2503.19786).

Rotary positions, one key head for several query heads, normalised queries and keys with learned
gains, and layers that look back over a window between layers that see everything.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax, softmax

from sqrtdk.core.shapes import Floats
from sqrtdk.models.encoder import Activations

Weights = Mapping[str, Floats]


@dataclass(frozen=True)
class Decoder:
    """Weights of a decoder and what its configuration says.

    `layers` has for each layer `attn_q`, `attn_k`, `attn_v`, `attn_output`, `ffn_gate`, `ffn_up`,
    `ffn_down` [out, in], the gains `attn_norm`, `post_attention_norm`, `ffn_norm`,
    `post_ffw_norm` [d_model] and `attn_q_norm`, `attn_k_norm` [d]. Gains multiply as they are.
    `embedding` [words, d_model] serves the input and the output. `window` is how many keys a query
    of a local layer sees, itself among them; every `global_every`-th layer sees all.
    """

    embedding: Floats
    output_norm: Floats
    layers: Sequence[Weights]
    n_heads: int
    window: int
    global_every: int = 6
    local_base: float = 1e4
    global_base: float = 1e6
    eps: float = 1e-6

    def forward(self, tokens: np.ndarray, *, temperature: float = 1.0) -> Activations:
        """Run the decoder on token ids [n].

        Attention logits are `temperature`/√d times q·k; 1 is the model as it was trained. The keys
        and values in the result have the model's own number of heads.
        """
        hidden = self.embedding[tokens] * math.sqrt(self.embedding.shape[1])
        found: tuple[list[Floats], ...] = ([], [], [])
        for place, layer in enumerate(self.layers):
            is_global = (place + 1) % self.global_every == 0
            normed = self._norm(hidden, layer["attn_norm"])
            q, k, v = (self._heads(normed @ layer[f"attn_{x}"].T, layer, x) for x in "qkv")
            base = self.global_base if is_global else self.local_base
            q, k = _rotate(q, base), _rotate(k, base)
            mask = np.tri(len(tokens), dtype=np.bool_)
            if not is_global:
                mask &= ~np.tri(len(tokens), k=-self.window, dtype=np.bool_)
            shared = self.n_heads // len(k)
            scores = q @ np.swapaxes(np.repeat(k, shared, axis=0), -1, -2)
            logits = np.where(mask, temperature / math.sqrt(q.shape[-1]) * scores, -np.inf)
            out = softmax(logits, axis=-1) @ np.repeat(v, shared, axis=0)
            joined = np.swapaxes(out, 0, 1).reshape(len(tokens), -1) @ layer["attn_output"].T
            hidden = hidden + self._norm(joined, layer["post_attention_norm"])
            normed = self._norm(hidden, layer["ffn_norm"])
            inner = _gelu(normed @ layer["ffn_gate"].T) * (normed @ layer["ffn_up"].T)
            hidden = hidden + self._norm(inner @ layer["ffn_down"].T, layer["post_ffw_norm"])
            for kept, array in zip(found, (q, k, v), strict=True):
                kept.append(array)
        return Activations(self._norm(hidden, self.output_norm), *found)

    def loss(self, tokens: np.ndarray, *, temperature: float = 1.0) -> float:
        """Return the mean negative log-likelihood of each token after the first, in nats."""
        return float(np.mean(self.losses(tokens, temperature=temperature)))

    def losses(self, tokens: np.ndarray, *, temperature: float = 1.0) -> Floats:
        """Return the negative log-likelihood of each token after the first, in nats."""
        hidden = self.forward(tokens, temperature=temperature).hidden[:-1]
        log_p = log_softmax(hidden @ self.embedding.T, axis=-1)
        found: Floats = -log_p[np.arange(len(tokens) - 1), tokens[1:]]
        return found

    def visible(self, layer: int) -> int | None:
        """Return the window of a layer for `measurement.measure`, None where it sees everything."""
        return None if (layer + 1) % self.global_every == 0 else self.window - 1

    def _heads(self, x: Floats, layer: Weights, kind: str) -> Floats:
        """Turn [n, heads d] into [heads, n, d], with queries and keys normalised."""
        size = len(layer["attn_q_norm"])
        split = np.swapaxes(x.reshape(len(x), -1, size), 0, 1)
        gain = layer.get(f"attn_{kind}_norm")
        return split if gain is None else self._norm(split, gain)

    def _norm(self, x: Floats, gain: Floats) -> Floats:
        mean_square = np.mean(x**2, axis=-1, keepdims=True)
        normed: Floats = x / np.sqrt(mean_square + self.eps)
        return normed * gain


def _rotate(x: Floats, base: float) -> Floats:
    """Rotate each pair (i, i + d/2) of [heads, n, d] by its position (Su et al. 2021)."""
    half = x.shape[-1] // 2
    rate = base ** (-np.arange(half) / half)
    angle = np.outer(np.arange(x.shape[-2]), rate)
    cos, sin = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def _gelu(x: Floats) -> Floats:
    slope: Floats = np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
    return 0.5 * x * (1 + slope)
