"""The additive score v · tanh(query + key) of every state, forward and backward, block by block.

Its layer has d_k units for every state, which is most of the memory and time of a large d_k.
Arrays have the axes of `model`.
"""

import numpy as np

from sqrtdk.core.shapes import Float, Floats

BLOCK = 2**17
"""Entries of the layer that are processed at once, which fit a cache."""


def scores(
    parameters: dict[str, Floats],
    states: Float[Floats, "runs length batch n"],
    query: Float[Floats, "runs batch d_k"],
    *,
    keep: bool,
) -> tuple[Floats, Float[Floats, "runs length batch"]]:
    """Return tanh(query + key) and its product with v_a, [n_runs, length, batch, ...].

    The first is empty unless it is to be kept.
    """
    n_runs, length, batch, _ = states.shape
    shape = (n_runs, length, batch, query.shape[-1])
    match = np.empty(shape if keep else 0, query.dtype)
    # A block that stays in the cache.
    scratch = np.empty((0 if keep else _times(shape), *shape[2:]), query.dtype)
    found = np.empty((*shape[:-1], 1), query.dtype)
    for run, times in _blocks(shape):
        block = match[run, times] if keep else scratch[: times.stop - times.start]
        np.matmul(states[run, times], parameters["w_k"][run], out=block)
        block += query[run]
        np.tanh(block, out=block)
        np.matmul(block, parameters["v_a"][run].T, out=found[run, times])
    return match, found[..., 0]


def backward(
    parameters: dict[str, Floats],
    states: Float[Floats, "runs length batch n"],
    match: Float[Floats, "runs length batch d_k"],
    d_scores: Float[Floats, "runs length batch 1"],
    d_states: Float[Floats, "runs length batch n"],
) -> tuple[Float[Floats, "runs batch d_k"], dict[str, Floats]]:
    """Return gradients of the query, w_k and v_a; add the gradient of the states to `d_states`.

    `match` is the layer that `scores` kept.
    """
    n_runs, _, batch, d_k = match.shape
    d_query = np.zeros((n_runs, batch, d_k), match.dtype)
    d_w_k, d_v_a = (np.zeros_like(parameters[name]) for name in ("w_k", "v_a"))
    # The factors v_a are the same in every row, so they multiply sums of rows and not the rows.
    w_back = np.swapaxes(parameters["w_k"] * parameters["v_a"], -1, -2)
    scratch = np.empty((_times(match.shape), batch, d_k), match.dtype)
    # So do the gradients of the scores, one for each row, where rows are narrower than d_k.
    of_states = states * d_scores
    for run, times in _blocks(match.shape):
        layer, flow = match[run, times], d_scores[run, times]
        d_v_a[run] += flow.reshape(1, -1) @ layer.reshape(-1, d_k)
        # The derivative of tanh where its value is y, 1 - y².
        inside = np.multiply(layer, layer, out=scratch[: times.stop - times.start])
        np.subtract(1.0, inside, out=inside)
        by_query = np.matmul(flow.transpose(1, 2, 0), inside.transpose(1, 0, 2))
        d_query[run] += by_query[:, 0]
        flat = inside.reshape(-1, d_k)
        d_states[run, times] += (flat @ w_back[run]).reshape(*inside.shape[:-1], -1) * flow
        d_w_k[run] += of_states[run, times].reshape(len(flat), -1).T @ flat
    d_query *= parameters["v_a"]
    d_w_k *= parameters["v_a"]
    return d_query, {"w_k": d_w_k, "v_a": d_v_a}


def _blocks(shape: tuple[int, ...]) -> list[tuple[int, slice]]:
    """Cut [n_runs, length, batch, d_k] into blocks of at most `BLOCK` entries of one run."""
    n_runs, length, step = *shape[:2], _times(shape)
    return [
        (run, slice(t, min(t + step, length)))
        for run in range(n_runs)
        for t in range(0, length, step)
    ]


def _times(shape: tuple[int, ...]) -> int:
    """Return how many positions of [n_runs, length, batch, d_k] a block has."""
    _, length, batch, d_k = shape
    return min(length, max(1, BLOCK // (batch * d_k)))
