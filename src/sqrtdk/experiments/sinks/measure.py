"""Associative retrieval of which half of the queries have no match, with and without a sink.

A slab is one combination of sizes. Its cells are seeds × kinds of attention × first keys ×
learning rates, one row each. All cells of a seed use the same libraries and queries, and all cells
of a d_k start with the same projections.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from sqrtdk import schema
from sqrtdk.core import random_streams
from sqrtdk.core.random_streams import Purpose
from sqrtdk.core.shapes import Floats
from sqrtdk.experiments.cells import Cell, seed_cells
from sqrtdk.experiments.sinks import model
from sqrtdk.experiments.sinks.model import ATTENTIONS, Attention, Head, Task
from sqrtdk.experiments.training import lookup
from sqrtdk.experiments.training import measure as training
from sqrtdk.schema import Column, Key
from sqrtdk.storage.tables import Row

SHARE = 0.5
"""Share of the queries that have a match."""

ATTENTION = Key(
    "attention",
    "choice",
    "How logits become weights. softmax; softmax1: with 1 added to the denominator; sink_logit: "
    "with a learned logit in it; sigmoid: of each logit minus ln n_k; sigmoid_bias: of each logit "
    "plus a learned constant.",
    choices=ATTENTIONS,
)
FIRST_KEY = Key(
    "first_key",
    "choice",
    "A further key, the same for all queries, whose item and value are learned: learned or none.",
    choices=("none", "learned"),
)

CONFIG_KEYS: tuple[Key, ...] = (
    *training.TASK_KEYS,
    ATTENTION,
    FIRST_KEY,
    training.LEARNING_RATE,
    schema.SEED,
)

BATCHED_AXES: tuple[str, ...] = ("attention", "first_key", "learning_rate")

_DIVERGED = "Empty if the run has diverged."
_FIRST = f"{_DIVERGED} Empty without a first key."
_SINK = f"{_DIVERGED} Empty without a sink logit."


def _pair(
    name: str, meaning: str, where: str, within: tuple[float, float] = schema.SHARE
) -> tuple[Column, Column]:
    """Return the columns of a number for queries with a match and for those without."""
    other = f"The same for queries without a match. {where}"
    return (
        Column(f"{name}_matched", f"{meaning} {where}", optional=True, within=within),
        Column(f"{name}_unmatched", other, optional=True, within=within),
    )


AXES: tuple[Key, ...] = (schema.D_K, schema.N_K, training.BATCH_SIZE, ATTENTION, FIRST_KEY)

COLUMNS: tuple[Column, ...] = (
    *(schema.axis_column(key) for key in (*AXES, training.LEARNING_RATE, schema.SEED)),
    Column(
        "loss_matched",
        "Held-out loss of queries with a match, after the last step: half the squared distance of "
        f"the output to the item's value. {_DIVERGED}",
        optional=True,
        within=schema.NOT_NEGATIVE,
    ),
    Column(
        "loss_unmatched",
        f"Held-out loss of queries without a match, whose wanted output is 0. {_DIVERGED}",
        optional=True,
        within=schema.NOT_NEGATIVE,
    ),
    Column(
        "best_matched",
        "Loss of the best possible output on the same queries with a match: the expected value "
        "given the query and the library.",
        within=schema.NOT_NEGATIVE,
    ),
    Column("best_unmatched", "The same for queries without a match.", within=schema.NOT_NEGATIVE),
    Column(
        "accuracy",
        f"Share of matched queries whose largest weight on an item is on theirs. {_DIVERGED}",
        "share",
        counted=(training.HELD_OUT,),
        optional=True,
    ),
    *_pair(
        "item_weight",
        "Sum of a matched query's weights on items, mean over queries.",
        _DIVERGED,
        # Sigmoids may sum to more than 1.
        schema.NOT_NEGATIVE,
    ),
    Column(
        "max_weight_unmatched",
        f"Largest weight of an unmatched query on an item, mean over queries. {_DIVERGED}",
        optional=True,
        within=schema.SHARE,
    ),
    *_pair(
        "first_weight", "Weight of a matched query on the first key, mean over queries.", _FIRST
    ),
    *_pair("sink_weight", "Weight of a matched query on the sink logit, mean over queries.", _SINK),
    Column(
        "first_value_rms",
        f"Root mean square of the entries of the first key's value; 1 at the start. {_FIRST}",
        optional=True,
        within=schema.NOT_NEGATIVE,
    ),
    Column(
        "bias",
        "Logit of the sink, or what sigmoids add to the logits, after the last step; 0 with "
        f"softmax, which has neither. {_DIVERGED}",
        optional=True,
    ),
    Column("diverged", "1 if held-out logits are not finite numbers, else 0.", within=schema.SHARE),
)


class Settings(training.Settings, total=False):
    """The values of the experiment's keys in a run, as far as its derived tables need them."""

    attention: list[str]
    first_key: list[str]


class Slab(training.Slab, total=False):
    """The work of one shard job. All learning rates of a seed are trained together."""

    attention: list[Attention]
    first_key: list[str]


class Variant(NamedTuple):
    """One run of a seed."""

    attention: Attention
    first_key: str
    learning_rate: float


def memory(slab: Slab) -> int:
    """Return the peak memory of one seed's runs in bytes, from the sizes of their arrays."""
    n_k, d_model, d_v = slab["n_k"] + 1, slab["d_model"], slab["d_v"]
    batch = n_k * (d_model + d_v) + slab["batch_size"] * (3 * d_model + 2)
    asked = 2 * training.held_out_queries(slab["n_k"])
    run = asked * (5 * n_k + 2 * d_model + 4 * d_v) + 12 * slab["d_k"] * d_model
    # Tasks need twice their memory while they are drawn.
    return int(8 * (2 * slab["steps"] * batch + len(slab["learning_rate"]) * run))


def seconds(slab: Slab) -> float:
    """Return the approximate time of one seed of a slab on one core."""
    kinds = len(slab["attention"]) * len(slab["first_key"])
    entries = 2 * slab["d_k"] * slab["d_model"]
    return float(kinds * slab["steps"] * (4e-4 + len(slab["learning_rate"]) * 4e-9 * entries))


def cells(slab: Slab) -> Iterator[Cell]:
    """Yield the cells of one slab; those of a seed are trained together on first use."""
    runs = itertools.product(slab["attention"], slab["first_key"], slab["learning_rate"])
    return seed_cells(slab, training.SIZES, [Variant(*run) for run in runs], measure)


def measure(slab: Slab, seed: int, variants: Sequence[Variant]) -> list[Row]:
    """Return the rows of several runs of one seed."""
    tasks, held_out = draw(slab, seed, slab["steps"], ""), draw_held_out(slab, seed)
    w_q, w_k = projections(slab, seed)
    best = model.posterior_losses(held_out, noise_sd=slab["noise_sd"], share=SHARE)
    rows: list[Row] = []
    for (attention, first_key), group in groupby(variants, lambda one: one[:2]):
        rates = np.array([one.learning_rate for one in group])[:, np.newaxis, np.newaxis]
        first = draw_first(slab, seed) if first_key == "learned" else None
        with np.errstate(over="ignore", invalid="ignore"):
            head = Head(w_q, w_k, attention, first, rate=rates, n_k=slab["n_k"])
            model.train(head, tasks)
            found = model.measure(head, held_out)
        rows += [_row(found, best, place) for place in range(len(rates))]
    return rows


def _row(found: model.Measured, best: tuple[float, float], place: int) -> Row:
    row: Row = {
        "accuracy": float(found.accuracy[place]),
        "first_value_rms": float(found.first_value_rms[place]),
        "bias": float(found.bias[place]),
        "best_matched": best[0],
        "best_unmatched": best[1],
        "diverged": float(math.isnan(found.accuracy[place])),
    }
    for name, pair in (
        ("loss", found.loss),
        ("item_weight", found.item_weight),
        ("first_weight", found.first_weight),
        ("sink_weight", found.sink_weight),
        ("max_weight", found.max_weight),
    ):
        row |= {
            f"{name}_{kind}": float(one[place])
            for kind, one in zip(("matched", "unmatched"), pair, strict=True)
        }
    del row["max_weight_matched"]
    return row


# Random draws

# The position of a name is part of its key: append, never reorder.
_ARRAYS = (
    *("strangers", "noise", "matched", "first_item", "first_value"),
    *("held_out_strangers", "held_out_noise"),
)


def stream(array: str, *, seed: int, sizes: Sequence[int]) -> np.random.Generator:
    """Return the random stream of one array, keyed by its purpose: its sizes and the seed."""
    # The 2 separates the keys from those of `training` and of `recall.stream`.
    return random_streams.stream(Purpose.TRAINING, 2, seed, _ARRAYS.index(array), *sizes)


def draw(slab: Slab, seed: int, count: int, prefix: str) -> Task:
    """Draw the tasks of all steps: the batches of `training`, half of whose queries lose theirs."""
    batch = training.draw_batches(slab, seed, prefix, count)
    shape = (count, slab["batch_size"], slab["d_model"])
    matched = _stream(slab, seed, "matched").random(shape[:2]) < SHARE
    return _strangers(slab, seed, prefix, batch, matched)


def draw_held_out(slab: Slab, seed: int) -> Task:
    """Draw the held-out task: every item of the libraries once, and as many strangers."""
    batch = training.draw_held_out(slab, seed)
    twice = batch._replace(
        queries=np.concatenate([batch.queries, batch.queries], axis=-2),
        targets=np.concatenate([batch.targets, batch.targets], axis=-1),
    )
    matched = np.arange(2 * slab["n_k"]) < slab["n_k"]
    return _strangers(slab, seed, "held_out_", twice, np.broadcast_to(matched, twice.targets.shape))


def _strangers(
    slab: Slab, seed: int, prefix: str, batch: lookup.Batch, matched: np.ndarray
) -> Task:
    def normal(array: str) -> Floats:
        return _stream(slab, seed, f"{prefix}{array}").standard_normal(batch.queries.shape)

    return model.make_task(
        batch, normal("strangers"), normal("noise"), matched, noise_sd=slab["noise_sd"]
    )


def projections(slab: Slab, seed: int) -> tuple[Floats, Floats]:
    """Draw initial projections; their last row is for the entry that all queries share."""
    return training.projections({"d_k": slab["d_k"], "d_model": slab["d_model"] + 1}, seed)


def draw_first(slab: Slab, seed: int) -> tuple[Floats, Floats]:
    """Draw the item and the value that the first key begins with, of the size of other keys."""
    item = _stream(slab, seed, "first_item").standard_normal(slab["d_model"] + 1)
    value = _stream(slab, seed, "first_value").standard_normal(slab["d_v"])
    return item / np.linalg.norm(item) * math.sqrt(slab["d_model"]), value


def _stream(slab: Slab, seed: int, array: str) -> np.random.Generator:
    sizes = slab["n_k"], slab["batch_size"], slab["d_model"], slab["d_v"]
    return stream(array, seed=seed, sizes=sizes)
