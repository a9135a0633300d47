"""The two tasks of the transformer: characters of a novel, and associative recall.

Streams of random numbers are keyed by task, seed and array, never by model: all models of a seed
see the same sequences.
"""

import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sqrtdk.core import random_streams
from sqrtdk.core.random_streams import Purpose
from sqrtdk.core.shapes import Ints
from sqrtdk.experiments.transformer.model import Sequences

Task = Literal["text", "recall"]
TASKS: tuple[Task, ...] = get_args(Task)

TEXT = Path(__file__).with_name("pride_and_prejudice.txt")
"""Jane Austen, Pride and Prejudice (1813), the first chapters; in the public domain. The lines are
those of the package janeaustenr 1.0.0 (J. Silge), without its marks of italics."""

TEXT_SHA256 = "5023dffeae8e2051b932b77455efd8b95c4ee3d813f0175457651fa5d13e3bff"
"""Its content, so that the code digest of a shard covers the text."""

HELD_OUT_SHARE = 0.1
"""Share of the text, at its end, that training never sees."""

HELD_OUT = 32
"""Sequences of a seed for measuring, from separate streams."""

N_VALUES = 8
"""Number of possible values of recall; chance is 1/8."""

# The position of a name is part of a stream's key: append, never reorder.
_ARRAYS = ("batches", "held_out", "transformer", "gru")


def stream(array: str, *, task: Task, seed: int) -> np.random.Generator:
    """Return the random stream of one purpose of one seed."""
    places = TASKS.index(task), _ARRAYS.index(array)
    return random_streams.stream(Purpose.TRANSFORMER, seed, *places)


@cache
def text() -> tuple[NDArray[np.intp], int]:
    """Return the text as numbers of characters, in order of their code, and their count.

    Raises ValueError if the file was changed.
    """
    content = TEXT.read_bytes()
    if hashlib.sha256(content).hexdigest() != TEXT_SHA256:
        raise ValueError(f"{TEXT.name} is not the text that this code is for")
    codes = np.frombuffer(content, np.uint8)
    known, places = np.unique(codes, return_inverse=True)
    return places, len(known)


def border(length: int) -> int:
    """Return where the part of a text that training never sees begins."""
    return round((1 - HELD_OUT_SHARE) * length)


def symbols(task: Task, n_tokens: int) -> dict[str, int]:
    """Return the number of symbols of each kind."""
    if task == "text":
        return {"character": text()[1]}
    return {"key": n_tokens, "value": N_VALUES, "question": n_tokens}


def outputs(task: Task) -> int:
    """Return the number of possible outputs."""
    return text()[1] if task == "text" else N_VALUES


def batches(
    task: Task, seeds: Sequence[int], *, n_tokens: int, batch: int, held: bool
) -> Iterator[Sequences]:
    """Yield batches of sequences endlessly, one run a seed; `held` ones are for measuring.

    text: the characters of a stretch, each with the next one as its target. recall: every position
    has a pair of a key that occurs once and a random value, and asks for the value of a key so far.
    """
    streams = [stream("held_out" if held else "batches", task=task, seed=seed) for seed in seeds]
    draw = _stretches if task == "text" else _pairs
    while True:
        yield draw(streams, n_tokens, batch, held=held)


def _stretches(
    streams: list[np.random.Generator], n_tokens: int, batch: int, *, held: bool
) -> Sequences:
    known, _ = text()
    part = known[border(len(known)) :] if held else known[: border(len(known))]
    starts = np.stack([one.integers(0, len(part) - n_tokens, batch) for one in streams])
    found = part[starts[..., np.newaxis] + np.arange(n_tokens + 1)]
    return Sequences({"character": found[..., :-1]}, found[..., 1:])


def _pairs(
    streams: list[np.random.Generator], n_tokens: int, batch: int, *, held: bool
) -> Sequences:
    shape = len(streams), batch, n_tokens
    keys, values, asked = (np.empty(shape, np.intp) for _ in range(3))
    for run, one in enumerate(streams):
        keys[run] = np.argsort(one.random(shape[1:]), axis=-1)
        values[run] = one.integers(0, N_VALUES, shape[1:])
        asked[run] = one.integers(0, np.arange(1, n_tokens + 1), shape[1:])

    def at(symbols: Ints) -> Ints:
        return np.asarray(np.take_along_axis(symbols, asked, axis=-1))

    return Sequences({"key": keys, "value": values, "question": at(keys)}, at(values))
