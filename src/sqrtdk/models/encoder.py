"""A post-norm transformer encoder, as BERT (Devlin et al. 2018) and ALBERT (Lan et al. 2019).

ALBERT is the same network with one set of weights for all layers and a narrower embedding. Tensors
have the names and shapes of Hugging Face's `BertModel`; a dense layer's weight is [out, in].
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import erf, softmax

from sqrtdk.core.shapes import Floats

Weights = Mapping[str, Floats]


class Activations(NamedTuple):
    """Results of a forward pass: `hidden` [n, d_model]; q, k, v [heads, n, d] of each layer."""

    hidden: Floats
    q: list[Floats]
    k: list[Floats]
    v: list[Floats]


@dataclass(frozen=True)
class Encoder:
    """Weights of an encoder and what its configuration says.

    `layers` has the weights of each layer, the same mapping many times where they are shared.
    `tanh_gelu` chooses the approximate GELU (`gelu_new`).
    """

    embedding: Weights
    layers: tuple[Weights, ...]
    n_heads: int
    eps: float = 1e-12
    tanh_gelu: bool = False

    def forward(self, tokens: Floats, *, temperature: float = 1.0) -> Activations:
        """Run the encoder on token ids [n], without padding.

        Attention logits are `temperature`/√d times q·k; 1 is the model as it was trained.
        """
        weights = self.embedding
        hidden = (
            weights["word_embeddings.weight"][tokens]
            + weights["position_embeddings.weight"][: len(tokens)]
            + weights["token_type_embeddings.weight"][0]
        )
        hidden = self._norm(hidden, weights, "LayerNorm")
        if "projection.weight" in weights:
            hidden = _dense(hidden, weights, "projection")
        found: tuple[list[Floats], ...] = ([], [], [])
        for layer in self.layers:
            q, k, v = (
                self._split(_dense(hidden, layer, name)) for name in ("query", "key", "value")
            )
            scale = temperature / math.sqrt(q.shape[-1])
            weights_of = softmax(scale * (q @ np.swapaxes(k, -1, -2)), axis=-1)
            joined = np.swapaxes(weights_of @ v, 0, 1).reshape(hidden.shape)
            hidden = self._norm(
                hidden + _dense(joined, layer, "attention_output"), layer, "attention_norm"
            )
            inner = self._gelu(_dense(hidden, layer, "intermediate"))
            hidden = self._norm(hidden + _dense(inner, layer, "output"), layer, "output_norm")
            for kept, array in zip(found, (q, k, v), strict=True):
                kept.append(array)
        return Activations(hidden, *found)

    def _split(self, x: Floats) -> Floats:
        """Turn [n, heads d] into [heads, n, d]."""
        return np.swapaxes(x.reshape(len(x), self.n_heads, -1), 0, 1)

    def _norm(self, x: Floats, weights: Weights, name: str) -> Floats:
        centred = x - np.mean(x, axis=-1, keepdims=True)
        variance = np.mean(centred**2, axis=-1, keepdims=True)
        normed: Floats = centred / np.sqrt(variance + self.eps)
        return normed * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def _gelu(self, x: Floats) -> Floats:
        root = math.sqrt(2 / math.pi)
        slope: Floats = np.tanh(root * (x + 0.044715 * x**3)) if self.tanh_gelu else erf(x / 2**0.5)
        return 0.5 * x * (1 + slope)


def _dense(x: Floats, weights: Weights, name: str) -> Floats:
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


BERT_NAMES = {
    "attention.self.query": "query",
    "attention.self.key": "key",
    "attention.self.value": "value",
    "attention.output.dense": "attention_output",
    "attention.output.LayerNorm": "attention_norm",
    "intermediate.dense": "intermediate",
    "output.dense": "output",
    "output.LayerNorm": "output_norm",
}
"""Names in a BERT checkpoint, below `encoder.layer.N.`, and here."""

ALBERT_NAMES = {
    "attention.query": "query",
    "attention.key": "key",
    "attention.value": "value",
    "attention.dense": "attention_output",
    "attention.LayerNorm": "attention_norm",
    "ffn": "intermediate",
    "ffn_output": "output",
    "full_layer_layer_norm": "output_norm",
}
"""The same below `encoder.albert_layer_groups.0.albert_layers.0.`."""


def bert(tensors: Weights, n_layers: int, n_heads: int) -> Encoder:
    """Return the encoder of a BERT checkpoint, its tensors named from `embeddings.` on."""
    layers = tuple(
        _renamed(tensors, f"encoder.layer.{layer}.", BERT_NAMES) for layer in range(n_layers)
    )
    return Encoder(_below(tensors, "embeddings."), layers, n_heads)


def albert(tensors: Weights, n_layers: int, n_heads: int, *, tanh_gelu: bool = False) -> Encoder:
    """Return the encoder of an ALBERT checkpoint, its tensors named from `embeddings.` on."""
    layer = _renamed(tensors, "encoder.albert_layer_groups.0.albert_layers.0.", ALBERT_NAMES)
    projection = {
        f"projection.{what}": tensors[f"encoder.embedding_hidden_mapping_in.{what}"]
        for what in ("weight", "bias")
    }
    embedding = {**_below(tensors, "embeddings."), **projection}
    return Encoder(embedding, (layer,) * n_layers, n_heads, tanh_gelu=tanh_gelu)


def _below(tensors: Weights, prefix: str) -> Weights:
    return {
        name.removeprefix(prefix): array
        for name, array in tensors.items()
        if name.startswith(prefix)
    }


def _renamed(tensors: Weights, prefix: str, names: Mapping[str, str]) -> Weights:
    return {
        f"{new}.{what}": tensors[f"{prefix}{old}.{what}"]
        for old, new in names.items()
        for what in ("weight", "bias")
    }
