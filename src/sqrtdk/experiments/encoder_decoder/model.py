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

from typing import NamedTuple, TypeAlias

import numpy as np

from sqrtdk.core import row_softmax
from sqrtdk.core.shapes import Float, Floats, Int, Ints
from sqrtdk.experiments.encoder_decoder import additive, symbols

Parameters: TypeAlias = dict[str, Floats]
"""Parameters by name, each [n_runs, ...]; see `shapes`."""

READERS = ("fixed", "additive", "dot", "scaled_dot")


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
    runs, length, batch = symbols.shape
    first = length * np.arange(runs)[:, np.newaxis]
    found: Ints = symbols.reshape(-1).take((position + first) * batch + np.arange(batch))
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
    """Every stage of the forward pass. Those that a reader does not have are empty.

    states   [n_runs, length, batch, n]
    query    of additive scores, [n_runs, batch, d_k]
    match    input of a score. dot: the query as a vector in the space of the states, [n_runs,
             batch, n]; additive: tanh(query + key), [n_runs, length, batch, d_k]
    scores   of attention, after scaling, [n_runs, batch, length]
    weights  softmax of them
    top      place of the largest weight of each row in the flat array, [n_runs * batch]
    context  [n_runs, batch, n]
    hidden   the head's layer, [n_runs, batch, n]
    logits   of the answer, [n_runs, batch, n_values]
    """

    states: Floats
    query: Floats
    match: Floats
    scores: Floats
    weights: Floats
    top: Ints
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
    # All inputs at once, each a row of the table of pairs; then one step of the recurrence after
    # the other.
    of_value = parameters["e_value"] + parameters["b_h"]
    pairs = parameters["e_key"][:, :, np.newaxis] + of_value[:, np.newaxis]
    n_runs, n_keys, n_values, n = pairs.shape
    table = pairs.reshape(n_runs, n_keys * n_values, n)
    states = symbols.rows_of(table, n_values * data.keys + data.values)
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
    top: Ints = np.empty(0, dtype=int)
    if reader == "fixed":
        context = states[:, -1]
    else:
        if reader == "additive":
            query = symbols.rows_of(parameters["w_q"], question)
            match, found = additive.scores(parameters, states, query, keep=for_backward)
            scores = np.ascontiguousarray(np.swapaxes(found, 1, 2))
        else:
            # q · (h w_k) = (q w_kᵀ) · h: one product of width d_k for a symbol, none for a state.
            match = symbols.rows_of(parameters["w_q"] @ _transpose(parameters["w_k"]), question)
            scores = _dot_states(states, match)
            scores *= _scale(reader, parameters)
        weights = scores.copy()
        top = row_softmax.softmax(weights.reshape(-1, weights.shape[-1]))
        context = _sum_states(weights, states)
    # The head: context and question in one hidden layer, then the answer.
    hidden = context @ parameters["w_c"]
    hidden += symbols.rows_of(parameters["e_question"], question)
    hidden += parameters["b_r"]
    np.tanh(hidden, out=hidden)
    logits = hidden @ parameters["w_y"] + parameters["b_y"]
    return Forward(states, query, match, scores, weights, top, context, hidden, logits)


def _scale(reader: str, parameters: Parameters) -> float:
    d_k: int = parameters["w_q"].shape[-1]
    return d_k**-0.5 if reader == "scaled_dot" else 1.0


def _dot_states(
    states: Float[Floats, "runs length batch n"], vectors: Float[Floats, "runs batch n"]
) -> Float[Floats, "runs batch length"]:
    """Return the dot products of each sequence's states with its vector."""
    found: Floats = np.matmul(np.swapaxes(states, 1, 2), vectors[..., np.newaxis])[..., 0]
    return found


def _sum_states(
    factors: Float[Floats, "runs batch length"], states: Float[Floats, "runs length batch n"]
) -> Float[Floats, "runs batch n"]:
    """Return the sum of each sequence's states, with a factor for each state."""
    found: Floats = np.matmul(factors[:, :, np.newaxis], np.swapaxes(states, 1, 2))[:, :, 0]
    return found


def cross_entropy(
    logits: Float[Floats, "runs batch n_values"], answer: Int[Ints, "runs batch"]
) -> tuple[Float[Floats, "runs"], Float[Floats, "runs batch n_values"]]:
    """Return the mean of -ln p(answer) over the batch, in nats [n_runs], and its logit gradient.

    >>> loss, _ = cross_entropy(np.zeros((1, 1, 4)), np.array([[2]]))
    >>> loss.round(4)
    array([1.3863])
    """
    shifted = logits - np.max(logits, axis=-1, keepdims=True)
    at = np.take_along_axis(shifted, answer[..., np.newaxis], -1)[..., 0]
    losses = np.log(np.sum(np.exp(shifted), axis=-1)) - at
    return np.mean(losses, axis=-1), logit_gradient(logits, answer)


def logit_gradient(
    logits: Float[Floats, "runs batch n_values"], answer: Int[Ints, "runs batch"]
) -> Float[Floats, "runs batch n_values"]:
    """Return the gradient of the mean of -ln p(answer) with respect to the logits."""
    found = logits.copy()
    n_values = found.shape[-1]
    row_softmax.softmax(found.reshape(-1, n_values))
    found.reshape(-1)[n_values * np.arange(answer.size) + answer.reshape(-1)] -= 1.0
    found /= answer.shape[-1]
    return found


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
    e_value = symbols.by_symbol(data.values, rows, len(parameters["e_value"][0]))
    return gradients | {
        "e_key": symbols.by_symbol(data.keys, rows, len(parameters["e_key"][0])),
        "e_value": e_value,
        "w_h": _transpose(_rows(states[:, :-1])) @ _rows(inputs[:, 1:]),
        # Every pair has one of the values.
        "b_h": np.sum(e_value, axis=1, keepdims=True),
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
    asked = _transpose(symbols.one_hot(question, len(parameters["e_question"][0]), states.dtype))
    of_question = asked @ d_layer
    gradients = {
        "w_c": _transpose(found.context) @ d_layer,
        "e_question": of_question,
        # Every question is about one of the keys.
        "b_r": np.sum(of_question, axis=1, keepdims=True),
        "w_y": _transpose(found.hidden) @ d_logits,
        "b_y": np.sum(d_logits, axis=1, keepdims=True),
    }
    # From the context back to the states.
    if reader == "fixed":
        d_states = np.zeros_like(states)
        d_states[:, -1] = d_context
        return d_states, gradients
    # Each state gets its weight's share of the context, and what its score changes.
    d_rows = _dot_states(states, d_context)
    n_states = d_rows.shape[-1]
    row_softmax.softmax_backward(
        weights.reshape(-1, n_states), d_rows.reshape(-1, n_states), found.top
    )
    if reader != "additive":
        d_rows *= _scale(reader, parameters)
    d_scores = _over_states(d_rows)
    d_states = _over_states(weights) * d_context[:, np.newaxis]
    if reader == "additive":
        d_query, more = additive.backward(parameters, states, found.match, d_scores, d_states)
        gradients |= more | {"w_q": asked @ d_query}
    else:
        d_states += d_scores * found.match[:, np.newaxis]
        of_symbol = asked @ _sum_states(d_rows, states)
        gradients["w_q"] = of_symbol @ parameters["w_k"]
        gradients["w_k"] = _transpose(of_symbol) @ parameters["w_q"]
    return d_states, gradients


def bptt(
    parameters: Parameters,
    states: Float[Floats, "runs length batch n"],
    d_states: Float[Floats, "runs length batch n"],
) -> tuple[Float[Floats, "runs length batch n"], Float[Floats, "runs length batch n"]]:
    """Return the total gradient of each state, through all later ones, and the one before its tanh.

    Backpropagation through time: δ_t = d_t + (1 - h_{t+1}²) δ_{t+1} w_hᵀ. Shapes as the states'.
    The first is `d_states`, in place.
    """
    total, inputs = d_states, _slope(states)
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


def _over_states(x: Float[Floats, "runs batch length"]) -> Float[Floats, "runs length batch 1"]:
    """Turn [n_runs, batch, length] into [n_runs, length, batch, 1], to multiply the states."""
    return np.ascontiguousarray(np.swapaxes(x, 1, 2))[..., np.newaxis]


def _rows(x: Float[Floats, "runs length batch n"]) -> Float[Floats, "runs length*batch n"]:
    """Turn [n_runs, length, batch, n] into [n_runs, length * batch, n]."""
    n_runs, length, batch, n = x.shape
    return x.reshape(n_runs, length * batch, n)
