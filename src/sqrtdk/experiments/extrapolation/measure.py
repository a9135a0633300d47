"""A head trained at n_k keys and asked at more, with scale rules that depend on that number.

A slab is one combination of sizes. Its cells are seeds × scale rules × multipliers × learning
rates, with a row for each number of keys asked. Training is that of `training` under Adam, with the
loss `values`. All cells of a seed use the same libraries and queries, and begin with the same
projections.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from sqrtdk import schema
from sqrtdk.core import random_streams, scale_rules
from sqrtdk.core.attention import Factor, sink_of, with_sink, without_sink
from sqrtdk.core.gaps import separation
from sqrtdk.core.metrics import row_metrics
from sqrtdk.core.qk_clip import QKClip
from sqrtdk.core.random_streams import Purpose
from sqrtdk.core.shapes import Floats
from sqrtdk.experiments.cells import Cell, seed_cells
from sqrtdk.experiments.remedies import model
from sqrtdk.experiments.remedies.model import Head, Products, Remedy
from sqrtdk.experiments.training import lookup
from sqrtdk.experiments.training import measure as training
from sqrtdk.experiments.training.lookup import Batch
from sqrtdk.schema import Column, Key
from sqrtdk.storage.tables import Row
from sqrtdk.system.errors import UserError

MOST_ASKED = 64
"""Maximum queries of a library: more would cost more and be less independent."""

N_ASKED = Key(
    "n_asked",
    "whole",
    "Number of keys that a query attends to after training with n_k of them.",
    "keys",
    minimum=2,
    maximum=10**6,
)
MULTIPLIER = Key(
    "multiplier",
    "choice",
    "Whether a factor of the scale is learned, from 1 (learned), or not (fixed).",
    choices=("fixed", "learned"),
)

AXES: tuple[Key, ...] = (
    *training.SIZES,
    schema.SCALING,
    MULTIPLIER,
    training.LEARNING_RATE,
    schema.SEED,
)

CONFIG_KEYS: tuple[Key, ...] = (
    *training.TASK_KEYS,
    N_ASKED,
    schema.SCALING,
    MULTIPLIER,
    training.LEARNING_RATE,
    schema.SEED,
)

BATCHED_AXES: tuple[str, ...] = ("n_asked", "multiplier", "learning_rate")

_DIVERGED = "Empty if the run has diverged."

COLUMNS: tuple[Column, ...] = (
    *(schema.axis_column(key) for key in (*AXES, N_ASKED)),
    Column(
        "scale",
        "Factor that multiplies the scores at n_asked keys, with qk_norm and ngpt the cosines. "
        f"{_DIVERGED}",
        optional=True,
    ),
    Column(
        "held_out_loss",
        "Half the squared distance of the output to the wanted value, mean over held-out queries. "
        f"{_DIVERGED}",
        optional=True,
        within=schema.NOT_NEGATIVE,
    ),
    Column(
        "match_weight",
        f"Weight on the wanted item, mean over held-out queries. {_DIVERGED}",
        optional=True,
        within=schema.SHARE,
    ),
    Column(
        "entropy_nats",
        f"Entropy of the weights, mean over held-out queries. {_DIVERGED}",
        "nats",
        optional=True,
    ),
    Column(
        "accuracy",
        "Share of held-out queries whose largest weight is on the wanted item, which no scale "
        f"changes. {_DIVERGED}",
        "share",
        counted=(training.HELD_OUT,),
        optional=True,
    ),
    Column(
        "best_loss",
        "Loss of the best possible output on the same queries: the expected value given the query "
        "and the library.",
        within=schema.NOT_NEGATIVE,
    ),
    Column(
        "best_match_weight", "Weight on the wanted item by the best weights.", within=schema.SHARE
    ),
    Column("best_accuracy", "Accuracy of the best weights.", "share"),
    Column("diverged", "1 if held-out scores are not finite numbers, else 0.", within=schema.SHARE),
)


class Settings(training.Settings, total=False):
    """The values of the experiment's keys in a run, as far as its derived tables need them."""

    n_asked: list[int]
    multiplier: list[str]


class Slab(training.Slab, total=False):
    """The work of one shard job. All runs of a seed are trained together."""

    n_asked: list[int]
    multiplier: list[str]


class Variant(NamedTuple):
    """One run of a seed."""

    scaling: str
    multiplier: str
    learning_rate: float


def memory(slab: Slab) -> int:
    """Return the peak memory of one seed's runs in bytes, from the sizes of their arrays."""
    asked = max(slab["n_asked"])
    runs = len(slab["learning_rate"]) * len(slab["multiplier"]) * len(slab.get("scaling", {"": {}}))
    libraries, queries = _sizes(asked)
    scores = 8 * libraries * queries * asked
    held = libraries * asked * (slab["d_model"] + slab["d_v"]) * 2
    batch = slab["n_k"] * (slab["d_model"] + slab["d_v"]) + slab["batch_size"] * slab["d_model"]
    run = 12 * slab["d_k"] * slab["d_model"] + 8 * slab["batch_size"] * slab["n_k"]
    return int(8 * (scores + held + 2 * slab["steps"] * batch + runs * run))


def seconds(slab: Slab) -> float:
    """Return the approximate time of one seed of a slab on one core."""
    runs = len(slab["learning_rate"]) * len(slab["multiplier"]) * len(slab["scaling"])
    training_time = slab["steps"] * (2e-4 + runs * 1e-8 * slab["d_k"] * slab["d_model"])
    return float(training_time + runs * sum(slab["n_asked"]) * 1e-5)


def cells(slab: Slab) -> Iterator[Cell]:
    """Yield the cells of one slab; those of a seed are trained together on first use."""
    runs = itertools.product(slab["scaling"], slab["multiplier"], slab["learning_rate"])
    return seed_cells(slab, training.SIZES, [Variant(*run) for run in runs], measure)


def measure(slab: Slab, seed: int, variants: Sequence[Variant]) -> list[list[Row]]:
    """Return the rows of several runs of one seed, one for each number of keys asked."""
    batches = training.draw_batches(slab, seed, "", slab["steps"])
    w_q, w_k = training.projections(slab, seed)
    held_out = {n: draw(slab, seed, n) for n in {*slab["n_asked"], slab["n_k"]}}
    best = {n: _best(held_out[n], slab["noise_sd"]) for n in slab["n_asked"]}
    rows: dict[int, list[Row]] = {place: [] for place in range(len(variants))}
    at_start = [_remedy(slab, variant, slab["n_k"]) for variant in variants]
    order = sorted(rows, key=lambda place: at_start[place].family)
    for _, group in itertools.groupby(order, key=lambda place: at_start[place].family):
        places = list(group)
        rates = [variants[place].learning_rate for place in places]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            head = Head(
                w_q,
                w_k,
                [at_start[place] for place in places],
                rate=np.array(rates)[:, np.newaxis, np.newaxis],
            )
            for step in range(slab["steps"]):
                model.learn(head, head.products(), batches.at(step))
            products, learned = head.products(), np.exp(head.log_scale)[:, 0, 0]
            for run, place in enumerate(places):
                own, at_n_k = products.beside(slice(run, run + 1)), math.nan
                counts = counts_gaps(slab["scaling"][variants[place].scaling])
                if counts:
                    at_n_k = _separation(held_out[slab["n_k"]], own)
                for n_asked in slab["n_asked"]:
                    factor = float(learned[run])
                    if counts:
                        factor *= _separation(held_out[n_asked], own) / at_n_k
                    remedy = _remedy(slab, variants[place], n_asked)
                    found = ask(held_out[n_asked], own, factor, remedy)
                    rows[place].append({"n_asked": n_asked} | found | best[n_asked])
    return list(rows.values())


def counts_gaps(entry: schema.Entry) -> bool:
    """Return whether a rule counts the gaps between the scores of the trained head."""
    return entry["rule"] == "gap_counting"


def _separation(held_out: Batch, products: Products) -> float:
    """Return the median over queries of the factor at which the largest scores come apart.

    No query is told its match, so that a model in use can count its own gaps.
    """
    scores = model.forward(held_out, products, np.ones((1, 1, 1, 1))).logits[0]
    if not np.all(np.isfinite(scores)):
        return math.nan
    return float(np.median(separation(scores.reshape(-1, scores.shape[-1]))))


def refuse(settings: Settings) -> None:
    """Raise UserError for a scale rule that is neither one factor nor one of `RULES`.

    Also for one that counts gaps where there are too few of them.
    """
    for name, entry in settings["scaling"].items():
        few = [n for n in (*settings["n_k"], *settings["n_asked"]) if n < FEWEST_COUNTED]
        if counts_gaps(entry) and few:
            raise UserError(
                f"scaling: {name} counts gaps, of which {few[0]} keys have too few; allowed with "
                f"it in n_k and n_asked: from {FEWEST_COUNTED}"
            )
        if not scale_rules.is_factor(entry) and entry["rule"] not in RULES:
            raise UserError(
                f"scaling: {name} has the rule {entry['rule']}; allowed in extrapolation: one "
                f"factor of d_k and n_k, {', '.join(RULES)}"
            )


FEWEST_COUNTED = 3
"""Keys without whose second competitor no factor separates the largest score."""

RULES = ("qk_norm", "ngpt", "soft_cap", "qk_clip", "sink")
"""Rules that are not one factor: they do not depend on the number of keys."""


def _remedy(slab: Slab, variant: Variant, n_k: int) -> Remedy:
    """Return how a run differs from plain Adam, with the scale of its rule at a number of keys."""
    rule = scale_rules.rule(slab["scaling"][variant.scaling], d_k=slab["d_k"], n_k=n_k)
    sink, inner, is_learned = sink_of(rule), without_sink(rule), variant.multiplier == "learned"
    if isinstance(inner, scale_rules.QKNorm):
        return Remedy(normalized=True, multiplier=inner.scale, learned=is_learned)
    if isinstance(inner, QKClip):
        return Remedy(multiplier=inner.factor, qk_clip=inner.limit, learned=is_learned)
    if isinstance(inner, scale_rules.SoftCap):
        return Remedy(multiplier=inner.factor, cap=inner.cap, learned=is_learned)
    if isinstance(inner, Factor):
        return Remedy(multiplier=inner.value, sink=sink, learned=is_learned)
    raise ValueError(f"{variant.scaling} is not a rule of this experiment")


def ask(held_out: Batch, products: Products, factor: float, remedy: Remedy) -> Row:
    """Measure one run on held-out queries, with the scale of a remedy times another factor."""
    scale = factor * remedy.multiplier
    one, capped = np.ones((1, 1, 1, 1)), math.isfinite(remedy.cap)
    made = model.forward(held_out, products, scale * one, remedy.cap * one if capped else None)
    logits = made.logits[0]
    if not (np.all(np.isfinite(logits)) and math.isfinite(scale)):
        names = ("scale", "held_out_loss", "match_weight", "entropy_nats", "accuracy")
        lost: Row = dict.fromkeys(names, math.nan)
        return lost | {"diverged": 1.0}
    loss, weight, accuracy = _measured(held_out, logits, remedy.sink)
    all_logits = logits if remedy.sink is None else with_sink(logits, remedy.sink)
    return {
        "scale": scale,
        "held_out_loss": loss,
        "match_weight": weight,
        "entropy_nats": float(np.mean(row_metrics(all_logits).entropy_nats)),
        "accuracy": accuracy,
        "diverged": 0.0,
    }


def _measured(
    held_out: Batch, logits: Floats, sink: float | None = None
) -> tuple[float, float, float]:
    """Return the mean loss, the mean weight on the match and the accuracy of logits."""
    weights = model.weights_of(logits, sink)
    at = held_out.targets[..., np.newaxis]
    wanted = np.take_along_axis(held_out.values, at, axis=-2)
    error = weights @ held_out.values - wanted
    hits = np.equal(np.argmax(logits, axis=-1), held_out.targets)
    return (
        float(np.mean(np.sum(error * error, axis=-1))) / 2,
        float(np.mean(np.take_along_axis(weights, at, axis=-1))),
        float(np.mean(hits)),
    )


def _best(held_out: Batch, noise_sd: float) -> Row:
    """Return what the best output gives.

    All items have the same length, so that item x has the likelihood exp(x·y / noise²) given the
    query y, up to a factor that all share. The best weights are the softmax of x·y / noise², at
    any number of items.
    """
    logits = held_out.queries @ np.swapaxes(held_out.items, -1, -2) / noise_sd**2
    loss, weight, accuracy = _measured(held_out, logits)
    return {"best_loss": loss, "best_match_weight": weight, "best_accuracy": accuracy}


# Random draws

# The position of a name is part of its key: append, never reorder.
_ARRAYS = ("items", "values", "noise", "targets")


def stream(array: str, *, seed: int, sizes: Sequence[int]) -> np.random.Generator:
    """Return the random stream of one array, keyed by its purpose: its sizes and the seed."""
    # The 3 separates the keys from those of `training`, `sinks` and `recall.stream`.
    return random_streams.stream(Purpose.TRAINING, 3, seed, _ARRAYS.index(array), *sizes)


def _sizes(n_asked: int) -> tuple[int, int]:
    """Return the numbers of libraries and of queries of each.

    >>> _sizes(16), _sizes(4096)
    ((16, 16), (4, 64))
    """
    queries = min(n_asked, MOST_ASKED)
    return math.ceil(training.HELD_OUT / queries), queries


def draw(slab: Slab, seed: int, n_asked: int) -> Batch:
    """Draw held-out libraries of this many items, and queries about different ones of them."""
    libraries, queries = _sizes(n_asked)

    def drawn(array: str) -> np.random.Generator:
        return stream(array, seed=seed, sizes=(n_asked, slab["d_model"], slab["d_v"]))

    # The items are in random order, so that the first ones are as good as any.
    targets = np.tile(np.arange(queries), (libraries, 1))
    return lookup.make_batch(
        drawn("items").standard_normal((libraries, n_asked, slab["d_model"])),
        drawn("values").standard_normal((libraries, n_asked, slab["d_v"])),
        drawn("noise").standard_normal((libraries, queries, slab["d_model"])),
        targets,
        noise_sd=slab["noise_sd"],
    )
