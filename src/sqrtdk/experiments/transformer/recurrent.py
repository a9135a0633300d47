"""A gated recurrent network, forward and backward, that reads what the transformer reads.

One layer of gated recurrent units (Cho et al. 2014, with the reset gate after the product as in
cuDNN) over the embeddings, then a linear map to the outputs. Leading axes are as in `model`.
"""

from typing import NamedTuple

import numpy as np

from sqrtdk.core.shapes import Floats
from sqrtdk.experiments.transformer import model
from sqrtdk.experiments.transformer.model import Parameters, Sequences, Sizes


def shapes(sizes: Sizes, hidden: int) -> dict[str, tuple[int, int]]:
    """Return the parameters and their shapes without the axis of runs; gates are r, z, n."""
    found = {f"e_{kind}": (count, sizes.d_model) for kind, count in sizes.symbols.items()}
    return found | {
        "w_x": (sizes.d_model, 3 * hidden), "w_h": (hidden, 3 * hidden),
        "b_x": (1, 3 * hidden), "b_h": (1, 3 * hidden), "w_y": (hidden, sizes.n_outputs),
    }  # fmt: skip


def same_size(sizes: Sizes) -> int:
    """Return the number of units at which the network has as many parameters as the transformer.

    At most one unit too few.
    """
    wanted = _count(model.shapes(sizes))
    hidden = 1
    while _count(shapes(sizes, hidden + 1)) <= wanted:
        hidden += 1
    return hidden


def _count(shapes: dict[str, tuple[int, int]]) -> int:
    return sum(rows * columns for rows, columns in shapes.values())


class Forward(NamedTuple):
    """A forward pass.

    x       inputs, [n_runs, batch n_tokens, d_model]
    states  [n_runs, n_tokens + 1, batch, hidden], the first is 0
    gates   r, z and n, [n_runs, n_tokens, batch, 3 hidden]
    fed     the recurrent part of n before its gate, [n_runs, n_tokens, batch, hidden]
    logits  of the outputs, [n_runs, batch n_tokens, n_outputs]
    """

    x: Floats
    states: Floats
    gates: Floats
    fed: Floats
    logits: Floats


def forward(parameters: Parameters, data: Sequences) -> Forward:
    """Compute the logits of the outputs at every position."""
    p = parameters
    n_runs, batch, n_tokens = data.targets.shape
    n = p["w_h"].shape[1]
    x = model.embed(p, data)
    inputs = (x @ p["w_x"] + p["b_x"]).reshape(n_runs, batch, n_tokens, 3 * n)
    states = np.zeros((n_runs, n_tokens + 1, batch, n), x.dtype)
    gates = np.empty((n_runs, n_tokens, batch, 3 * n), x.dtype)
    fed = np.empty((n_runs, n_tokens, batch, n), x.dtype)
    for t in range(n_tokens):
        before = states[:, t]
        of_state = before @ p["w_h"] + p["b_h"]
        gate, given = gates[:, t], inputs[:, :, t]
        # 1/(1 + e^-a) = (1 + tanh(a/2))/2, which does not overflow.
        gate[..., : 2 * n] = (1 + np.tanh((given + of_state)[..., : 2 * n] / 2)) / 2
        fed[:, t] = of_state[..., 2 * n :]
        gate[..., 2 * n :] = np.tanh(given[..., 2 * n :] + gate[..., :n] * fed[:, t])
        z, new = gate[..., n : 2 * n], gate[..., 2 * n :]
        states[:, t + 1] = new + z * (before - new)
    return Forward(x, states, gates, fed, _rows(states) @ p["w_y"])


def _rows(states: Floats) -> Floats:
    """Return the states after each position, [n_runs, batch n_tokens, hidden]."""
    n_runs, _, _, n = states.shape
    return states[:, 1:].swapaxes(1, 2).reshape(n_runs, -1, n)


def backward(
    parameters: Parameters, data: Sequences, found: Forward, d_logits: Floats, into: Parameters
) -> None:
    """Write the gradients of all parameters for one of the logits of the outputs."""
    p = parameters
    n_runs, batch, n_tokens = data.targets.shape
    n = p["w_h"].shape[1]
    np.matmul(np.swapaxes(_rows(found.states), -1, -2), d_logits, out=into["w_y"])
    d_states = (d_logits @ np.swapaxes(p["w_y"], -1, -2)).reshape(n_runs, batch, n_tokens, n)
    d_inputs = np.empty((n_runs, batch, n_tokens, 3 * n), d_logits.dtype)
    # The part of a gate's gradient that the recurrent product sees.
    d_products = np.empty((n_runs, n_tokens, batch, 3 * n), d_logits.dtype)
    d_h = np.zeros((n_runs, batch, n), d_logits.dtype)
    back = np.swapaxes(p["w_h"], -1, -2)
    for t in reversed(range(n_tokens)):
        d_h = d_h + d_states[:, :, t]
        gate, before = found.gates[:, t], found.states[:, t]
        r, z, new = gate[..., :n], gate[..., n : 2 * n], gate[..., 2 * n :]
        d_new = d_h * (1 - z) * (1 - new * new)
        d_given = d_inputs[:, :, t]
        d_given[..., 2 * n :] = d_new
        d_given[..., n : 2 * n] = d_h * (before - new) * z * (1 - z)
        d_given[..., :n] = d_new * found.fed[:, t] * r * (1 - r)
        d_product = d_products[:, t]
        d_product[..., : 2 * n] = d_given[..., : 2 * n]
        d_product[..., 2 * n :] = d_new * r
        d_h = d_h * z + d_product @ back
    flat = d_products.reshape(n_runs, -1, 3 * n)
    states = found.states[:, :-1].reshape(n_runs, -1, n)
    np.matmul(np.swapaxes(states, -1, -2), flat, out=into["w_h"])
    into["b_h"][...] = np.sum(flat, axis=1, keepdims=True)
    d_rows = d_inputs.reshape(n_runs, -1, 3 * n)
    np.matmul(np.swapaxes(found.x, -1, -2), d_rows, out=into["w_x"])
    into["b_x"][...] = np.sum(d_rows, axis=1, keepdims=True)
    model.embed_backward(into, data, np.asarray(d_rows @ np.swapaxes(p["w_x"], -1, -2)))
