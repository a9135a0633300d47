"""Reach: how far back gradients go, for a fixed vector and attention, untrained and trained.

Measures the derivative of the answer with respect to each state of the encoder, through the reader
and all later states, against the distance of that state from the end. Also measures the accuracy of
questions about the pair at that distance. A cell has a row for each distance, before and after
training.
"""

from collections.abc import Iterator, Sequence
from typing import Unpack

import numpy as np

from sqrtdk import schema
from sqrtdk.core.shapes import Floats
from sqrtdk.experiments.cells import Cell
from sqrtdk.experiments.encoder_decoder import measure as encoder_decoder
from sqrtdk.experiments.encoder_decoder import model, recall
from sqrtdk.experiments.encoder_decoder.measure import (
    AXES,
    BATCH,
    GAIN,
    STEPS,
    UNASKED,
    Slab,
    batched_training_cells,
)
from sqrtdk.experiments.encoder_decoder.model import Parameters, Sequences
from sqrtdk.schema import Column, Key
from sqrtdk.storage.tables import Row

CONFIG_KEYS: tuple[Key, ...] = (*AXES, STEPS, BATCH, schema.TRAINING_DTYPE)

BATCHED_AXES: tuple[str, ...] = ("reader",)

STAGES = ("initial", "trained")

COLUMNS: tuple[Column, ...] = (
    *(schema.axis_column(key) for key in AXES),
    Column("stage", f"Before training ({STAGES[0]}) or after ({STAGES[1]}).", read=str, axis=True),
    Column(
        "distance",
        "Pairs between a state and the end of the sequence: 0 is the last state.",
        "pairs",
        read=int,
        axis=True,
    ),
    Column(
        "jacobian_norm",
        "Frobenius norm of the derivative of the answer's logits with respect to the state at this "
        f"distance, root mean square over {recall.HELD_OUT} held-out sequences with questions "
        "about random pairs.",
        pool="rms",
    ),
    Column(
        "log10_jacobian_norm",
        "Its logarithm to base 10, whose mean over seeds is a geometric mean. Empty where the norm "
        "is 0.",
        "decades",
        optional=True,
    ),
    Column(
        "relative_log10_norm",
        "Logarithm to base 10 of its ratio to the norm at distance 0. Empty where a norm is 0.",
        "decades",
        optional=True,
    ),
    Column(
        "accuracy",
        "Share of the held-out sequences that are answered correctly if the question is about the "
        f"pair at this distance; chance is 1/{recall.N_VALUES}.",
        "share",
        counted=(recall.HELD_OUT,),
    ),
    Column(
        GAIN.name,
        "Gain of the accuracy, mean over all distances, compared with that after half of the "
        "training steps: near 0 if training has settled. Empty before training, and after a "
        "single step.",
        "difference of shares",
        optional=True,
    ),
    UNASKED,
)


def memory(slab: Slab) -> int:
    """Return the peak memory, in bytes, of the seeds that are trained together."""
    # The Jacobian is backpropagated through time for the held-out sequences.
    return encoder_decoder.peak(slab, states=6, layers=2, precise=True)


def seconds(slab: Slab) -> float:
    """Return the approximate time of one seed of a slab on one core."""
    return encoder_decoder.seconds(slab)


def cells(slab: Slab) -> Iterator[Cell]:
    """Return the cells of one slab, trained like those of `encoder_decoder`."""
    return batched_training_cells(slab, measure)


def measure(
    reader: str,
    seeds: Sequence[int],
    *,
    length: int,
    steps: int,
    **training: Unpack[recall.Training],
) -> list[list[Row]]:
    """Return the rows of each seed: all distances before training, then after it."""
    data = recall.held_out(seeds, length)
    unasked = recall.unasked_accuracy(data.values)
    half = max(1, steps // 2)
    moments = recall.train(reader, seeds, length=length, steps=steps, log_every=half, **training)
    found: list[list[Row]] = [[] for _ in seeds]
    before = np.full(len(seeds), np.nan)
    for moment in moments:
        if moment.step not in (0, steps):
            if moment.step == half:
                before = np.mean(accuracies(reader, moment.parameters, data), axis=-1)
            continue
        stage = STAGES[int(moment.step > 0)]
        norms, accuracy = gradient_reach(reader, moment.parameters, data)
        gain = np.mean(accuracy, axis=-1) - before
        for run, rows in enumerate(found):
            last = norms[run, 0]
            rows += [
                {
                    "stage": stage,
                    "distance": distance,
                    "jacobian_norm": float(norm),
                    "log10_jacobian_norm": _log10(norm),
                    "relative_log10_norm": _log10(norm) - _log10(last),
                    "accuracy": float(accuracy[run, distance]),
                    GAIN.name: float(gain[run]) if moment.step else np.nan,
                    "unasked_accuracy": float(unasked[run]),
                }
                for distance, norm in enumerate(norms[run])
            ]
    return found


def _log10(norm: float) -> float:
    return float(np.log10(norm)) if norm > 0 else np.nan


def gradient_reach(reader: str, parameters: Parameters, data: Sequences) -> tuple[Floats, Floats]:
    """Return Jacobian norm and accuracy by distance from the end, [n_runs, length] each.

    Both are computed in float64: squares of norms may be below the smallest float32.
    """
    parameters = {name: one.astype(np.float64) for name, one in parameters.items()}
    norms = model.state_jacobian(reader, parameters, data)
    by_position = np.sqrt(np.mean(norms * norms, axis=-1))
    return by_position[:, ::-1], accuracies(reader, parameters, data)


def accuracies(reader: str, parameters: Parameters, data: Sequences) -> Floats:
    """Return the accuracy of questions by distance from the end, [n_runs, length]."""
    states = model.encode(parameters, data)
    runs, length, *_ = states.shape
    accuracy = np.empty((runs, length))
    for position in range(length):
        found = model.read_out(reader, parameters, states, data.keys[:, position])
        right = np.argmax(found.logits, axis=-1) == data.values[:, position]
        accuracy[:, position] = np.mean(right, axis=-1)
    return accuracy[:, ::-1]
