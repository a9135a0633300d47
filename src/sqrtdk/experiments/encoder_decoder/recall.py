"""The associative recall task, and training the models of `encoder_decoder.model` on it.

A sequence has one pair for each of its keys: as many keys as it is long, in random order, each
with a random value. The question names a key, the answer is its value. Nothing of a sequence can
be left out. A model that keeps only which values occurred is correct as often as the most frequent
value is (`unasked_accuracy`).

Streams of random numbers are keyed by seed and array, never by reader: all readers of a seed see
the same sequences and start from the same encoder and head.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Required, TypedDict, Unpack

import numpy as np

from sqrtdk.core import adam, metrics, random_streams
from sqrtdk.core.adam import AdamState
from sqrtdk.core.random_streams import Purpose
from sqrtdk.core.shapes import Floats, Ints
from sqrtdk.experiments.encoder_decoder import model
from sqrtdk.experiments.encoder_decoder.model import Parameters, Sequences

N_VALUES = 8
"""Number of possible values; chance is 1/8."""

HELD_OUT = 128
"""Number of sequences of a seed for measuring accuracy, drawn from separate streams."""

CHUNK = 64
"""Training batches that are drawn at once. Affects memory, never a result."""

# The position of a name is part of a stream's key: append, never reorder.
_ARRAYS = (
    *("keys", "values", "asked", "held_keys", "held_values", "held_asked"),
    *("e_key", "e_value", "w_h", "b_h", "w_q", "w_k", "v_a"),
    *("w_c", "e_question", "b_r", "w_y", "b_y"),
)


def stream(array: str, seed: int) -> np.random.Generator:
    """Return the random stream of one array of one seed."""
    return random_streams.stream(Purpose.TRAINING, seed, _ARRAYS.index(array))


# Data


def batches(seeds: Sequence[int], *, length: int, batch: int, held: bool) -> Iterator[Sequences]:
    """Yield batches of sequences endlessly, one run a seed; `held` ones have their own streams."""
    prefix = "held_" if held else ""
    # Runs with one seed see the same sequences, which are drawn once.
    distinct = sorted(set(seeds))
    of_runs = np.array([distinct.index(seed) for seed in seeds])
    streams = [
        [stream(f"{prefix}{name}", seed) for name in ("keys", "values", "asked")]
        for seed in distinct
    ]
    # Only one held-out batch is used.
    chunk = 1 if held else CHUNK
    while True:
        drawn = _draw(streams, (chunk, batch, length))
        for place in range(chunk):
            # A view would keep the whole chunk while the next one is drawn.
            yield Sequences(*(one[place].take(of_runs, axis=0) for one in drawn))
        del drawn


def _draw(streams: list[list[np.random.Generator]], shape: tuple[int, int, int]) -> list[Ints]:
    """Draw keys and values [chunk, n_runs, length, batch] and questions [chunk, n_runs, batch].

    Each run is drawn into its place, so that no second copy is needed.
    """
    chunk, batch, length = shape
    keys, values = (np.empty((chunk, len(streams), length, batch), dtype=int) for _ in range(2))
    asked = np.empty((chunk, len(streams), batch), dtype=int)
    for run, (of_keys, of_values, of_asked) in enumerate(streams):
        keys[:, run] = np.argsort(of_keys.random(shape), axis=-1).swapaxes(1, 2)
        values[:, run] = of_values.integers(0, N_VALUES, shape).swapaxes(1, 2)
        asked[:, run] = of_asked.integers(0, length, shape[:-1])
    return [keys, values, asked]


def held_out(seeds: Sequence[int], length: int) -> Sequences:
    """Return the sequences for measuring accuracy, one run a seed."""
    return next(batches(seeds, length=length, batch=HELD_OUT, held=True))


def unasked_accuracy(values: Ints) -> Floats:
    """Return the share of the pairs that have the most frequent value of their sequence, [n_runs].

    This is the accuracy of always answering with the most frequent of the values
    [n_runs, length, batch], the best answer that does not use the keys.

    >>> unasked_accuracy(np.array([[[3], [5], [3], [1]]]))
    array([0.5])
    """
    counts = (values[..., np.newaxis] == np.arange(N_VALUES)).sum(axis=1)
    share: Floats = counts.max(axis=-1).mean(axis=-1) / values.shape[1]
    return share


# Training


def initial(
    reader: str, seeds: Sequence[int], *, length: int, n: int, d_k: int, dtype: str = "float64"
) -> tuple[Floats, Parameters]:
    """Draw initial parameters as one array [n_runs, count], and return views of it by name.

    They are normal, with variance 1 over the rows that a matrix sums, so queries and the sum of the
    embeddings have entries of variance 1. Biases are 0. They are drawn in float64 and then cast.
    """
    shapes = model.shapes(reader, n_keys=length, n_values=N_VALUES, n=n, d_k=d_k)
    deviation = {"w_q": 1.0, "e_question": 1.0, "v_a": d_k**-0.5, "b_h": 0, "b_r": 0, "b_y": 0}
    deviation |= dict.fromkeys(("e_key", "e_value"), 0.5**0.5)
    count = sum(math.prod(shape) for shape in shapes.values())
    flat = np.empty((len(seeds), count), dtype)
    parameters = adam.views(flat, shapes)
    for name, shape in shapes.items():
        for run, seed in enumerate(seeds):
            drawn = stream(name, seed).standard_normal(shape)
            parameters[name][run] = deviation.get(name, n**-0.5) * drawn
    return flat, parameters


class Training(TypedDict, total=False):
    """Settings of training other than the length of the sequences and the number of steps.

    `learning_rate` is a number, or one for each run [n_runs].
    `training_dtype` is float64 if it is missing.
    """

    d_k: Required[int]
    n: Required[int]
    batch: Required[int]
    learning_rate: Required[float | Floats]
    training_dtype: str


class Moment(NamedTuple):
    """Training at one step: the parameters, which later steps change in place.

    `grad_norm` [n_runs] is the norm of the gradient of all parameters for the batch of this step.
    """

    step: int
    parameters: Parameters
    grad_norm: Floats


def train(
    reader: str,
    seeds: Sequence[int],
    *,
    length: int,
    steps: int,
    log_every: int,
    **training: Unpack[Training],
) -> Iterator[Moment]:
    """Train one run for each of the seeds with Adam.

    Yield step 0, every `log_every`-th, and the last step.
    """
    d_k, n, batch = training["d_k"], training["n"], training["batch"]
    rates = np.broadcast_to(training["learning_rate"], len(seeds))[:, np.newaxis]
    dtype = training.get("training_dtype", "float64")
    flat, parameters = initial(reader, seeds, length=length, n=n, d_k=d_k, dtype=dtype)
    gradient, scratch = np.empty_like(flat), np.empty_like(flat)
    moments = AdamState(flat)
    shapes = model.shapes(reader, n_keys=length, n_values=N_VALUES, n=n, d_k=d_k)
    into = adam.views(gradient, shapes)
    data = batches(seeds, length=length, batch=batch, held=False)
    for step in range(steps + 1):
        sequences = next(data)
        found = model.forward(reader, parameters, sequences)
        d_logits = model.logit_gradient(found.logits, sequences.answer)
        for name, one in model.backward(reader, parameters, sequences, found, d_logits).items():
            into[name][...] = one
        if step % log_every == 0 or step == steps:
            yield Moment(step, parameters, metrics.row_norms(gradient))
        if step < steps:
            moments.step(flat, gradient, scratch, rate=rates)
