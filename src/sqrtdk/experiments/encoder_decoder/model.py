"""A recurrent encoder and its readers, forward and backward, on NumPy arrays.

An encoder of tanh units reads pairs of a key and a value, a reader computes one context vector from
its states, and a head with one hidden layer answers a question about one pair. The readers are the
last state alone, a fixed vector (Sutskever et al. 2014), or attention over all states with additive
scores (Bahdanau et al. 2015), dot products (Luong et al. 2015) or scaled dot products (Vaswani et
al. 2017, section 3.2.1).

Everything has a leading axis of runs: independent models with their own data, so that one array
operation serves many seeds. Not even the last bit of a run depends on the other runs. Further axes:
length (time), batch, n (units of a state), d_k (score width), n_keys and n_values (symbols).
Gradients are derived by hand, through time.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from sqrtdk.core.attention import softmax
from sqrtdk.core.gradients import softmax_backward
from sqrtdk.core.shapes import Float, Floats, Int, Ints

Parameters: TypeAlias = dict[str, Floats]
"""Parameters by name, each [n_runs, ...]; see `shapes`."""

READERS = ("fixed", "additive", "dot", "scaled_dot")

BLOCK = 2**16
"""Entries of the additive score that are processed at once: half a MiB, which fits a cache."""

ONE_HOT_MAX = 32
"""Number of symbols up to which a product with ones and zeros sums faster than bins. For more
symbols the memory of the zeros would grow with the square of the length. Changes the order of a
sum."""


class Sequences(NamedTuple):
    """Sequences of pairs: `keys` and `values` [n_runs, length, batch] are numbers of symbols.

    `asked` [n_runs, batch] is the position of the pair that the question is about.
    """

    keys: Int[Ints, "runs length batch"]
    values: Int[Ints, "runs length batch"]
    asked: Int[Ints, "runs batch"]

    @property
    def question(self) -> Int[Ints, "runs batch"]:
        """Return the key that the question names, [n_runs, batch]."""
        return _at(self.keys, self.asked)

    @property
    def answer(self) -> Int[Ints, "runs batch"]:
        """Return the value of that key, [n_runs, batch]."""
        return _at(self.values, self.asked)


def _at(
    symbols: Int[Ints, "runs length batch"], position: Int[Ints, "runs batch"]
) -> Int[Ints, "runs batch"]:
    found: Ints = np.take_along_axis(symbols, position[:, np.newaxis], axis=1)[:, 0]
    return found


def shapes(
    reader: str, *, n_keys: int, n_values: int, n: int, d_k: int
) -> dict[str, tuple[int, int]]:
    """Return the parameters of a model and their shapes without the axis of runs.

    `e_` are embeddings, a row for each symbol; `w_` are matrices that multiply rows from the right;
    `b_` are biases; `v_a` reduces the additive score to a number.

    >>> shapes("dot", n_keys=2, n_values=3, n=5, d_k=7)["w_k"]
    (5, 7)
    """
    encoder = {"e_key": (n_keys, n), "e_value": (n_values, n), "w_h": (n, n), "b_h": (1, n)}
    scores = {} if reader == "fixed" else {"w_q": (n_keys, d_k), "w_k": (n, d_k)}
    if reader == "additive":
        scores["v_a"] = (1, d_k)
    head = {"w_c": (n, n), "e_question": (n_keys, n), "b_r": (1, n)}
    return encoder | scores | head | {"w_y": (n, n_values), "b_y": (1, n_values)}


# Forward


class Forward(NamedTuple):
    """Every stage of the forward pass. Those of attention are empty for the fixed vector.

    states   [n_runs, length, batch, n]
    query    [n_runs, batch, d_k]
    match    input of a score. dot: the query as a vector in the space of the states, [n_runs,
             batch, n]; additive: tanh(query + key), [n_runs, length, batch, d_k]
    scores   of attention, after scaling, [n_runs, batch, length]
    weights  softmax of them
    context  [n_runs, batch, n]
    hidden   the head's layer, [n_runs, batch, n]
    logits   of the answer, [n_runs, batch, n_values]
    """

    states: Floats
    query: Floats
    match: Floats
    scores: Floats
    weights: Floats
    context: Floats
    hidden: Floats
    logits: Floats


def forward(
    reader: str, parameters: Parameters, data: Sequences, *, for_backward: bool = True
) -> Forward:
    """Read the sequences and answer the questions; see `read_out`."""
    states = encode(parameters, data)
    return read_out(reader, parameters, states, data.question, for_backward=for_backward)


def encode(parameters: Parameters, data: Sequences) -> Float[Floats, "runs length batch n"]:
    """Return the states h_t = tanh(e_key + e_value + b_h + h_{t-1} w_h), from h_0 = 0."""
    # All inputs at once, then one step of the recurrence after the other.
    states = _rows_of(parameters["e_key"], data.keys)
    states += _rows_of(parameters["e_value"], data.values)
    states += parameters["b_h"][:, np.newaxis]
    step = np.empty_like(states[:, 0])
    for t in range(states.shape[1]):
        state = states[:, t]
        if t:
            np.matmul(states[:, t - 1], parameters["w_h"], out=step)
            state += step
        np.tanh(state, out=state)
    return states


def read_out(
    reader: str,
    parameters: Parameters,
    states: Float[Floats, "runs length batch n"],
    question: Int[Ints, "runs batch"],
    *,
    for_backward: bool = True,
) -> Forward:
    """Answer the questions from the states. Raises ValueError for another reader.

    Without `for_backward` the result lacks `match` of the additive score, by far its largest array.
    """
    if reader not in READERS:
        raise ValueError(f"reader is {reader!r}; allowed: {' or '.join(READERS)}")
    # The context: the last state, or the states weighted by their scores.
    nothing: Floats = np.empty(0)
    query, match, scores, weights = (nothing,) * 4
    if reader == "fixed":
        context = states[:, -1]
    else:
        query = _rows_of(parameters["w_q"], question)
        if reader == "additive":
            match, scores = _additive(parameters, states, query, keep=for_backward)
        else:
            # q · (h w_k) = (q w_kᵀ) · h: one product of width d_k for a query, none for a state.
            match = query @ _transpose(parameters["w_k"])
            scores = np.vecdot(states, match[:, np.newaxis]) * _scale(reader, parameters)
        scores = _last(scores)
        weights = softmax(scores)
        context = np.sum(_over_states(weights) * states, axis=1)
    # The head: context and question in one hidden layer, then the answer.
    hidden = context @ parameters["w_c"]
    hidden += _rows_of(parameters["e_question"], question)
    hidden += parameters["b_r"]
    np.tanh(hidden, out=hidden)
    logits = hidden @ parameters["w_y"] + parameters["b_y"]
    return Forward(states, query, match, scores, weights, context, hidden, logits)


def _scale(reader: str, parameters: Parameters) -> float:
    d_k: int = parameters["w_q"].shape[-1]
    return d_k**-0.5 if reader == "scaled_dot" else 1.0


def _additive(
    parameters: Parameters,
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
    scores = np.empty((*shape[:-1], 1), query.dtype)
    for run, times in _blocks(shape):
        block = match[run, times] if keep else scratch[: times.stop - times.start]
        np.matmul(states[run, times], parameters["w_k"][run], out=block)
        block += query[run]
        np.tanh(block, out=block)
        np.matmul(block, parameters["v_a"][run].T, out=scores[run, times])
    return match, scores[..., 0]


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


def cross_entropy(
    logits: Float[Floats, "runs batch n_values"], answer: Int[Ints, "runs batch"]
) -> tuple[Float[Floats, "runs"], Float[Floats, "runs batch n_values"]]:
    """Return the mean of -ln p(answer) over the batch, in nats [n_runs], and its logit gradient.

    >>> loss, _ = cross_entropy(np.zeros((1, 1, 4)), np.array([[2]]))
    >>> loss.round(4)
    array([1.3863])
    """
    top = logits - np.max(logits, axis=-1, keepdims=True)
    picked = answer[..., np.newaxis]
    losses = np.log(np.sum(np.exp(top), axis=-1)) - np.take_along_axis(top, picked, -1)[..., 0]
    d_logits = softmax(logits)
    d_logits -= picked == np.arange(logits.shape[-1])
    d_logits /= answer.shape[-1]
    return np.mean(losses, axis=-1), d_logits


# Backward


def backward(
    reader: str,
    parameters: Parameters,
    data: Sequences,
    found: Forward,
    d_logits: Float[Floats, "runs batch n_values"],
) -> Parameters:
    """Return the gradients of all parameters for logit gradients [n_runs, batch, n_values]."""
    # The reader and the head, then the encoder back through time.
    d_states, gradients = read_out_backward(reader, parameters, data.question, found, d_logits)
    states = found.states
    _, inputs = bptt(parameters, states, d_states)
    # Each parameter of the encoder serves all positions, so its gradient is a sum over them.
    rows = _rows(inputs)
    return gradients | {
        "e_key": _by_symbol(data.keys, rows, len(parameters["e_key"][0])),
        "e_value": _by_symbol(data.values, rows, len(parameters["e_value"][0])),
        "w_h": _transpose(_rows(states[:, :-1])) @ _rows(inputs[:, 1:]),
        "b_h": np.sum(rows, axis=1, keepdims=True),
    }


def read_out_backward(
    reader: str,
    parameters: Parameters,
    question: Int[Ints, "runs batch"],
    found: Forward,
    d_logits: Float[Floats, "runs batch n_values"],
) -> tuple[Float[Floats, "runs length batch n"], Parameters]:
    """Return the gradient of the states through the reader only, and those of reader and head.

    The path from a state to later states is left to `bptt`.
    """
    states, weights = found.states, found.weights
    # The head, from the answer back to the context.
    d_layer = d_logits @ _transpose(parameters["w_y"])
    d_layer *= _slope(found.hidden)
    d_context = d_layer @ _transpose(parameters["w_c"])
    asked = _transpose(_one_hot(question, len(parameters["e_question"][0]), states.dtype))
    gradients = {
        "w_c": _transpose(found.context) @ d_layer,
        "e_question": asked @ d_layer,
        "b_r": np.sum(d_layer, axis=1, keepdims=True),
        "w_y": _transpose(found.hidden) @ d_logits,
        "b_y": np.sum(d_logits, axis=1, keepdims=True),
    }
    # From the context back to the states.
    if reader == "fixed":
        d_states = np.zeros_like(states)
        d_states[:, -1] = d_context
        return d_states, gradients
    # Each state gets its weight's share of the context, and what its score changes.
    d_weights = _last(np.vecdot(states, d_context[:, np.newaxis]))
    d_scores = _over_states(softmax_backward(weights, d_weights))
    d_states = _over_states(weights) * d_context[:, np.newaxis]
    if reader == "additive":
        d_query, more = _additive_backward(parameters, found, d_scores, d_states)
        gradients |= more
    else:
        d_scores = d_scores * _scale(reader, parameters)
        d_states += d_scores * found.match[:, np.newaxis]
        d_match = np.sum(d_scores * states, axis=1)
        d_query = d_match @ parameters["w_k"]
        gradients["w_k"] = _transpose(d_match) @ found.query
    return d_states, gradients | {"w_q": asked @ d_query}


def _additive_backward(
    parameters: Parameters,
    found: Forward,
    d_scores: Float[Floats, "runs length batch 1"],
    d_states: Float[Floats, "runs length batch n"],
) -> tuple[Float[Floats, "runs batch d_k"], Parameters]:
    """Return gradients of the query, w_k and v_a; add the gradient of the states to `d_states`."""
    d_query = np.zeros_like(found.query)
    d_w_k, d_v_a = (np.zeros_like(parameters[name]) for name in ("w_k", "v_a"))
    for run, times in _blocks(found.match.shape):
        # The product with v_a, then the derivative of tanh, then query, states and w_k.
        match, flow = found.match[run, times], d_scores[run, times]
        d_v_a[run] += flow.reshape(1, -1) @ match.reshape(-1, match.shape[-1])
        inside = _slope(match)
        inside *= parameters["v_a"][run]
        inside *= flow
        d_states[run, times] += inside @ parameters["w_k"][run].T
        d_query[run] += np.sum(inside, axis=0)
        flat = inside.reshape(-1, inside.shape[-1])
        d_w_k[run] += found.states[run, times].reshape(len(flat), -1).T @ flat
    return d_query, {"w_k": d_w_k, "v_a": d_v_a}


def bptt(
    parameters: Parameters,
    states: Float[Floats, "runs length batch n"],
    d_states: Float[Floats, "runs length batch n"],
) -> tuple[Float[Floats, "runs length batch n"], Float[Floats, "runs length batch n"]]:
    """Return the total gradient of each state, through all later ones, and the one before its tanh.

    Backpropagation through time: δ_t = d_t + (1 - h_{t+1}²) δ_{t+1} w_hᵀ. Shapes as the states'.
    """
    total, inputs = d_states.copy(), _slope(states)
    w_back = np.ascontiguousarray(_transpose(parameters["w_h"]))
    step = np.empty_like(states[:, 0])
    for t in reversed(range(states.shape[1])):
        flow = total[:, t]
        if t + 1 < states.shape[1]:
            np.matmul(inputs[:, t + 1], w_back, out=step)
            flow += step
        inputs[:, t] *= flow
    return total, inputs


def _slope(y: Floats) -> Floats:
    """Return the derivative of tanh where its value is y, 1 - y²."""
    found = y * y
    np.subtract(1.0, found, out=found)
    return found


def state_jacobian(
    reader: str, parameters: Parameters, data: Sequences
) -> Float[Floats, "runs length batch"]:
    """Return norms of the derivative of the logits with respect to each state.

    The result [n_runs, length, batch] is the Frobenius norm of ∂ logits / ∂ h_t, an n_values x n
    matrix for each sequence: the total derivative, through the reader and all states after h_t.
    """
    found = forward(reader, parameters, data)
    squares = np.zeros(found.states.shape[:-1])
    for value in range(found.logits.shape[-1]):
        d_logits = np.zeros_like(found.logits)
        d_logits[..., value] = 1.0
        d_states, _ = read_out_backward(reader, parameters, data.question, found, d_logits)
        total, _ = bptt(parameters, found.states, d_states)
        squares += np.vecdot(total, total)
    norms: Floats = np.sqrt(squares)
    return norms


# Axes


def _transpose(x: Float[Floats, "*batch n m"]) -> Float[Floats, "*batch m n"]:
    return np.swapaxes(x, -1, -2)


def _last(x: Float[Floats, "runs length batch"]) -> Float[Floats, "runs batch length"]:
    """Turn [n_runs, length, batch] into [n_runs, batch, length], the axes of the softmax."""
    return np.ascontiguousarray(np.swapaxes(x, 1, 2))


def _over_states(x: Float[Floats, "runs batch length"]) -> Float[Floats, "runs length batch 1"]:
    """Turn [n_runs, batch, length] into [n_runs, length, batch, 1], to multiply the states."""
    return np.ascontiguousarray(np.swapaxes(x, 1, 2))[..., np.newaxis]


def _rows(x: Float[Floats, "runs length batch n"]) -> Float[Floats, "runs length*batch n"]:
    """Turn [n_runs, length, batch, n] into [n_runs, length * batch, n]."""
    n_runs, length, batch, n = x.shape
    return x.reshape(n_runs, length * batch, n)


def _by_symbol(
    symbols: Int[Ints, "runs length batch"], rows: Float[Floats, "runs rows n"], count: int
) -> Float[Floats, "runs {count} n"]:
    """Sum the rows [n_runs, length * batch, n] of each symbol, [n_runs, count, n]."""
    if count <= ONE_HOT_MAX:
        return _transpose(_rows(_one_hot(symbols, count, rows.dtype))) @ rows
    found = np.empty((len(rows), count, rows.shape[-1]), rows.dtype)
    for run, unit in np.ndindex(len(rows), rows.shape[-1]):
        # Row by row, so that the order of a sum does not depend on the other runs.
        found[run, :, unit] = np.bincount(symbols[run].ravel(), rows[run, :, unit], count)
    return found


def _one_hot(
    symbols: Int[Ints, "*symbols"], count: int, dtype: np.dtype[Any]
) -> Float[Floats, "*symbols {count}"]:
    """Turn symbols [...] into one-hot vectors [..., count]."""
    found: Floats = (symbols[..., np.newaxis] == np.arange(count)).astype(dtype)
    return found


def _rows_of(
    table: Float[Floats, "runs count n"], symbols: Int[Ints, "runs *symbols"]
) -> Float[Floats, "runs *symbols n"]:
    """Return the row of each symbol [n_runs, ...] from the table of its run, [n_runs, ..., n]."""
    n_runs, count, n = table.shape
    first = count * np.arange(n_runs).reshape(-1, *[1] * (symbols.ndim - 1))
    # One index for both axes: NumPy copies whole rows then, which is three times faster.
    found: Floats = np.take(table.reshape(n_runs * count, n), first + symbols, axis=0)
    return found
