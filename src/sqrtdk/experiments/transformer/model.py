"""A causal transformer, forward and backward, on NumPy arrays.

Pre-LN layers (Xiong et al. 2020) of attention and of a hidden layer of 4 d_model rectified units:
x + attention(LN(x)), then x + mlp(LN(x)); a last LN and a linear map give the logits of the
outputs. Positions are learned. An input is a sum of embeddings, one for each symbol of a position.

Everything has a leading axis of runs: independent models with their own data. Not even the last bit
of a run depends on the other runs. Further axes: batch, n_tokens (positions), d_model, heads. The
gradients are derived by hand.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import numpy as np

from sqrtdk.core.attention import ScaleRule, causal_mask, sink_of
from sqrtdk.core.shapes import Float, Floats, Int, Ints, Mask

Parameters: TypeAlias = dict[str, Floats]
"""Parameters by name, each [n_runs, ...]; see `shapes`."""

LAYERS = 2
WIDER = 4
"""Units of the hidden layer over d_model."""

EPSILON = 1e-5
"""Added to the variance in LayerNorm."""


class Sequences(NamedTuple):
    """Symbols by kind and the output of each position, all [n_runs, batch, n_tokens]."""

    symbols: Mapping[str, Int[Ints, "runs batch n_tokens"]]
    targets: Int[Ints, "runs batch n_tokens"]


class Sizes(NamedTuple):
    """Sizes of a model: `symbols` are the numbers of symbols by kind."""

    n_tokens: int
    d_model: int
    d_head: int
    symbols: Mapping[str, int]
    n_outputs: int


def shapes(sizes: Sizes) -> dict[str, tuple[int, int]]:
    """Return the parameters and their shapes without the axis of runs.

    `e_` are embeddings; `w_` are matrices that multiply rows from the right; `b_` are biases; `g_`
    are gains of LayerNorm. A number is that of the layer.
    """
    d = sizes.d_model
    found = {f"e_{kind}": (count, d) for kind, count in sizes.symbols.items()}
    found["e_position"] = (sizes.n_tokens, d)
    for layer in range(LAYERS):
        found |= {
            f"g_attention_{layer}": (1, d), f"b_attention_{layer}": (1, d),
            f"w_qkv_{layer}": (d, 3 * d), f"w_o_{layer}": (d, d),
            f"g_mlp_{layer}": (1, d), f"b_mlp_{layer}": (1, d),
            f"w_up_{layer}": (d, WIDER * d), f"b_up_{layer}": (1, WIDER * d),
            f"w_down_{layer}": (WIDER * d, d), f"b_down_{layer}": (1, d),
        }  # fmt: skip
    return found | {"g_y": (1, d), "b_y": (1, d), "w_y": (d, sizes.n_outputs)}


def deviation(name: str, shape: tuple[int, int], n_kinds: int) -> float:
    """Return the standard deviation of a parameter at the start; NaN for a gain, which is 1.

    Entries of queries and keys begin with variance 1, and so do inputs. What a layer adds is
    smaller by √(2 layers), as in GPT-2. The outputs begin nearly equal.
    """
    kind, rows = name.partition("_")[0], shape[0]
    if kind == "g":
        return math.nan
    if kind == "b":
        return 0.0
    if kind == "e":
        return float((n_kinds + 1) ** -0.5)
    if name == "w_y":
        return float(0.1 * rows**-0.5)
    added = name.startswith(("w_o", "w_down"))
    return float(rows**-0.5 * ((2 * LAYERS) ** -0.5 if added else 1.0))


# Parts


class Normed(NamedTuple):
    """LayerNorm of x: rows of mean 0 and variance 1, and one over the standard deviation."""

    rows: Floats
    inverse: Floats


def normalize(x: Float[Floats, "*shape"]) -> Normed:
    """Return the rows of x with mean 0 and variance 1."""
    centred = x - np.mean(x, axis=-1, keepdims=True)
    inverse = 1 / np.sqrt(np.vecdot(centred, centred)[..., np.newaxis] / x.shape[-1] + EPSILON)
    centred *= inverse
    return Normed(centred, inverse.astype(x.dtype, copy=False))


def normalize_backward(found: Normed, d_rows: Float[Floats, "*shape"]) -> Float[Floats, "*shape"]:
    """Return the gradient with respect to x for one with respect to its normalized rows."""
    along = np.vecdot(d_rows, found.rows)[..., np.newaxis] / d_rows.shape[-1]
    d_x = d_rows - np.mean(d_rows, axis=-1, keepdims=True)
    d_x -= found.rows * along
    d_x *= found.inverse
    return np.asarray(d_x)


class Attended(NamedTuple):
    """Attention of one layer.

    q, k, v and output are [n_runs, batch, heads, n_tokens, d_head], scores (unscaled), logits
    (hidden ones -inf) and weights [n_runs, batch, heads, n_tokens, n_tokens].
    """

    q: Floats
    k: Floats
    v: Floats
    scores: Floats
    logits: Floats
    weights: Floats
    output: Floats


def attend(q: Floats, k: Floats, v: Floats, rule: ScaleRule, mask: Mask) -> Attended:
    """Attend to the positions that the mask [n_tokens, n_tokens] shows."""
    scores = q @ np.swapaxes(k, -1, -2)
    logits = rule.logits(scores, q, k, mask)
    # A number added is faster than a choice; no logit that is seen changes.
    logits = logits + np.where(mask, 0, -np.inf).astype(scores.dtype)
    top = np.max(logits, axis=-1, keepdims=True)
    sink = sink_of(rule)
    if sink is not None:
        top = np.maximum(top, sink)
    weights = logits - top
    np.exp(weights, out=weights)
    total = np.sum(weights, axis=-1, keepdims=True)
    if sink is not None:
        total += np.exp(sink - top)
    weights /= total
    return Attended(q, k, v, scores, logits, weights, weights @ v)


def attend_backward(
    found: Attended, d_output: Floats, rule: ScaleRule, mask: Mask
) -> tuple[Floats, Floats, Floats]:
    """Return the gradients with respect to q, k and v."""
    d_v = np.swapaxes(found.weights, -1, -2) @ d_output
    d_logits = d_output @ np.swapaxes(found.v, -1, -2)
    d_logits -= np.vecdot(found.weights, d_logits)[..., np.newaxis]
    d_logits *= found.weights
    back = rule.backward(d_logits, found.scores, found.q, found.k, mask)
    d_q = back.scores @ found.k
    d_k = np.swapaxes(back.scores, -1, -2) @ found.q
    if back.q is not None:
        d_q = d_q + back.q
    if back.k is not None:
        d_k = d_k + back.k
    return d_q, d_k, d_v


def split(qkv: Floats, batch: int, heads: int) -> tuple[Floats, Floats, Floats]:
    """Return q, k and v [runs, batch, heads, n_tokens, d_head] of [runs, batch n_tokens, 3 d]."""
    runs, rows, width = qkv.shape
    parts = qkv.reshape(runs, batch, rows // batch, 3, heads, width // (3 * heads))
    q, k, v = (parts[:, :, :, i].swapaxes(2, 3) for i in range(3))
    return q, k, v


def merge(parts: Floats) -> Floats:
    """Return [runs, batch n_tokens, heads d_head] of [runs, batch, heads, n_tokens, d_head]."""
    runs, batch, heads, n_tokens, d_head = parts.shape
    return parts.swapaxes(2, 3).reshape(runs, batch * n_tokens, heads * d_head)


# The model


class Layer(NamedTuple):
    """What the backward pass of a layer needs."""

    before: Normed
    read: Floats
    attended: Attended
    mixed: Floats
    between: Normed
    seen: Floats
    hidden: Floats


class Forward(NamedTuple):
    """A forward pass: its layers, the last LayerNorm and the logits of the outputs."""

    layers: list[Layer]
    last: Normed
    normed: Floats
    logits: Floats


def embed(parameters: Parameters, data: Sequences) -> Float[Floats, "runs rows d_model"]:
    """Return the sum of the embeddings of each position's symbols, [n_runs, batch n_tokens, d]."""
    n_runs = len(data.targets)
    runs = np.arange(n_runs)[:, np.newaxis, np.newaxis]
    x = sum(parameters[f"e_{kind}"][runs, found] for kind, found in data.symbols.items())
    return np.asarray(x).reshape(n_runs, -1, np.shape(x)[-1])


def embed_backward(
    into: Parameters, data: Sequences, d_x: Float[Floats, "runs rows d_model"]
) -> None:
    """Write the gradients of the embeddings."""
    for kind, found in data.symbols.items():
        target = into[f"e_{kind}"]
        # A product with ones and zeros is faster than adding row by row, in an order of its own.
        ones = found.reshape(len(found), 1, -1) == np.arange(target.shape[1])[:, np.newaxis]
        np.matmul(ones.astype(d_x.dtype), d_x, out=target)


def forward(parameters: Parameters, data: Sequences, sizes: Sizes, rule: ScaleRule) -> Forward:
    """Compute the logits of the outputs at every position, [n_runs, batch n_tokens, n_outputs]."""
    p = parameters
    _, batch, n_tokens = data.targets.shape
    mask, heads = causal_mask(n_tokens, n_tokens), sizes.d_model // sizes.d_head
    x = embed(p, data)
    x = x + np.tile(p["e_position"][:, :n_tokens], (1, batch, 1))
    layers = []
    for i in range(LAYERS):
        before = normalize(x)
        read = before.rows * p[f"g_attention_{i}"] + p[f"b_attention_{i}"]
        attended = attend(*split(read @ p[f"w_qkv_{i}"], batch, heads), rule, mask)
        mixed = merge(attended.output)
        x = x + mixed @ p[f"w_o_{i}"]
        between = normalize(x)
        seen = between.rows * p[f"g_mlp_{i}"] + p[f"b_mlp_{i}"]
        hidden = seen @ p[f"w_up_{i}"]
        hidden += p[f"b_up_{i}"]
        np.maximum(hidden, 0, out=hidden)
        x = x + hidden @ p[f"w_down_{i}"]
        x += p[f"b_down_{i}"]
        layers.append(Layer(before, read, attended, mixed, between, seen, hidden))
    last = normalize(x)
    normed = last.rows * p["g_y"] + p["b_y"]
    return Forward(layers, last, normed, normed @ p["w_y"])


def backward(
    parameters: Parameters,
    data: Sequences,
    sizes: Sizes,
    rule: ScaleRule,
    found: Forward,
    d_logits: Floats,
    into: Parameters,
) -> None:
    """Write the gradients of all parameters for one of the logits of the outputs."""
    p = parameters
    n_runs, batch, n_tokens = data.targets.shape
    mask, heads = causal_mask(n_tokens, n_tokens), sizes.d_model // sizes.d_head
    d_x = _linear(into, "w_y", p, found.normed, d_logits)
    d_x = _affine(into, "y", p, found.last, d_x)
    for i in reversed(range(LAYERS)):
        layer = found.layers[i]
        into[f"b_down_{i}"][...] = np.sum(d_x, axis=1, keepdims=True)
        d_hidden = _linear(into, f"w_down_{i}", p, layer.hidden, d_x)
        d_hidden *= layer.hidden > 0
        into[f"b_up_{i}"][...] = np.sum(d_hidden, axis=1, keepdims=True)
        d_seen = _linear(into, f"w_up_{i}", p, layer.seen, d_hidden)
        d_x = d_x + _affine(into, f"mlp_{i}", p, layer.between, d_seen)
        d_mixed = _linear(into, f"w_o_{i}", p, layer.mixed, d_x)
        d_output = d_mixed.reshape(n_runs, batch, n_tokens, heads, -1).swapaxes(2, 3)
        parts = attend_backward(layer.attended, d_output, rule, mask)
        d_qkv = np.concatenate([merge(part) for part in parts], axis=-1)
        d_read = _linear(into, f"w_qkv_{i}", p, layer.read, d_qkv)
        d_x = d_x + _affine(into, f"attention_{i}", p, layer.before, d_read)
    of_position = d_x.reshape(n_runs, batch, n_tokens, -1).sum(axis=1)
    into["e_position"][...] = 0
    into["e_position"][:, :n_tokens] = of_position
    embed_backward(into, data, d_x)


def _linear(into: Parameters, name: str, p: Parameters, rows: Floats, d_rows: Floats) -> Floats:
    """Write the gradient of a matrix and return that of the rows it multiplied."""
    np.matmul(np.swapaxes(rows, -1, -2), d_rows, out=into[name])
    return np.asarray(d_rows @ np.swapaxes(p[name], -1, -2))


def _affine(into: Parameters, name: str, p: Parameters, normed: Normed, d_rows: Floats) -> Floats:
    """Write the gradients of a LayerNorm's gain and bias, and return that of its input."""
    into[f"g_{name}"][...] = np.sum(d_rows * normed.rows, axis=1, keepdims=True)
    into[f"b_{name}"][...] = np.sum(d_rows, axis=1, keepdims=True)
    return normalize_backward(normed, d_rows * p[f"g_{name}"])


def cross_entropy(
    logits: Float[Floats, "runs rows n_outputs"], targets: Int[Ints, "runs rows"]
) -> tuple[Float[Floats, "runs"], Float[Floats, "runs rows n_outputs"]]:
    """Return the mean over rows of the cross-entropy in nats, and its gradient."""
    shifted = logits - np.max(logits, axis=-1, keepdims=True)
    e = np.exp(shifted)
    total = np.sum(e, axis=-1, keepdims=True)
    at = targets[..., np.newaxis]
    own = np.take_along_axis(shifted, at, axis=-1) - np.log(total)
    d_logits = e / total
    np.put_along_axis(d_logits, at, np.take_along_axis(d_logits, at, axis=-1) - 1, axis=-1)
    d_logits /= logits.shape[1]
    return np.asarray(-np.mean(own[..., 0], axis=-1, dtype=np.float64)), d_logits
