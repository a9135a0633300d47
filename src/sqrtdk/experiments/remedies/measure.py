"""Remedies for unscaled scores against 1/√d_k, each at several learning rates, under Adam.

A slab is one combination of sizes. Its cells are seeds × remedies × learning rates, one row each.
All cells of a seed use the libraries and queries of `training`, and all cells of a d_k start with
the same projections.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from sqrtdk import schema
from sqrtdk.experiments.cells import Cell, seed_cells
from sqrtdk.experiments.remedies import model
from sqrtdk.experiments.remedies.model import REMEDIES, Head
from sqrtdk.experiments.training import measure as training
from sqrtdk.experiments.training.lookup import Batch
from sqrtdk.experiments.training.measure import LEARNT_ACCURACY
from sqrtdk.schema import Column, Key
from sqrtdk.storage.tables import Row

REMEDY = Key(
    "remedy",
    "choice",
    "What is done about large scores. off: nothing, on: 1/√d_k, inverse_64: 8/d_k. Without a "
    "scale: warmup (of the learning rate, 50 steps), adamw (weight decay 0.1), clipping (gradient "
    "norm at most 0.1), temperature (learned, from 1), soft_cap (at 50), qk_clip (at 100). "
    "qk_norm_1, qk_norm_8, qk_norm_32: cosines times a learned scale from 1, 8 or 32.",
    choices=tuple(REMEDIES),
)

CONFIG_KEYS: tuple[Key, ...] = (
    *training.TASK_KEYS,
    REMEDY,
    training.LEARNING_RATE,
    schema.SEED,
)

BATCHED_AXES: tuple[str, ...] = ("remedy", "learning_rate")

_DIVERGED = "Empty if the run has diverged."

COLUMNS: tuple[Column, ...] = (
    *(
        schema.axis_column(key)
        for key in (
            *training.SIZES,
            REMEDY,
            training.LEARNING_RATE,
            schema.SEED,
        )
    ),
    Column(
        "steps_to_90",
        f"First step after which held-out accuracy was at least {LEARNT_ACCURACY}; checked at "
        "every step. Empty if there is none. Its mean in summary.csv is only over the seeds that "
        "reached it; ladder.csv counts the others.",
        "steps",
        optional=True,
    ),
    Column(
        "accuracy",
        "Share of held-out queries whose largest weight is on the wanted item, after the last "
        f"step. {_DIVERGED}",
        "share",
        counted=(training.HELD_OUT,),
        optional=True,
    ),
    Column(
        "start_loss",
        "Held-out loss at initialisation: half the squared distance of the output to the value.",
        within=schema.NOT_NEGATIVE,
    ),
    Column(
        "held_out_loss",
        f"Held-out loss after the last step. {_DIVERGED}",
        optional=True,
        within=schema.NOT_NEGATIVE,
    ),
    Column(
        "entropy_nats",
        f"Entropy of the weights of a held-out query, after the last step. {_DIVERGED}",
        "nats",
        optional=True,
    ),
    Column("start_max_logit", "Largest logit of the held-out queries at initialisation."),
    Column(
        "max_logit",
        f"Largest logit of the held-out queries after the last step. {_DIVERGED}",
        optional=True,
    ),
    Column(
        "peak_logit",
        "Largest logit of any batch of the training. Empty beyond the largest float.",
        optional=True,
    ),
    Column(
        "start_alignment",
        "Cosine of a held-out query and its key at initialisation, mean over queries.",
    ),
    Column("alignment", f"The same after the last step. {_DIVERGED}", optional=True),
    Column(
        "logit_scale",
        "Factor that multiplies the scores, or the cosines with QK-norm, after the last step.",
        optional=True,
    ),
    Column("diverged", "1 if held-out logits are not finite numbers, else 0.", within=schema.SHARE),
)


class Settings(training.Settings, total=False):
    """The values of the experiment's keys in a run, as far as its derived tables need them."""

    remedy: list[str]


class Slab(training.Slab, total=False):
    """The work of one shard job. All remedies and learning rates of a seed are trained together."""

    remedy: list[str]


class Variant(NamedTuple):
    """One run of a seed."""

    remedy: str
    learning_rate: float


def memory(slab: Slab) -> int:
    """Return the peak memory of one seed's runs in bytes, from the sizes of their arrays."""
    n_k, n_q, d_model, d_v = slab["n_k"], slab["batch_size"], slab["d_model"], slab["d_v"]
    batch = n_k * (d_model + d_v) + n_q * (d_model + 1)
    asked = training.held_out_queries(n_k)
    families = Counter(REMEDIES[name].family for name in slab["remedy"])
    runs = min(_side_by_side(slab), max(families.values()) * len(slab["learning_rate"]))
    # Arrays of scores and of products of queries while a step is checked, Adam's of both
    # projections, and of cross matrices.
    scores = asked * (6 * n_k + 2 * d_model) + n_q * n_k
    run = scores + 5 * 2 * slab["d_k"] * d_model + 3 * d_model**2
    # Batches need twice their memory while they are drawn.
    return int(8 * (2.1 * slab["steps"] * batch + asked * (2 * d_model + d_v) + runs * run))


def seconds(slab: Slab) -> float:
    """Return the approximate time of one seed of a slab on one core."""
    runs = len(slab["remedy"]) * len(slab["learning_rate"])
    entries = 2 * slab["d_k"] * slab["d_model"]
    return float(runs * slab["steps"] * (3e-5 + 6e-9 * entries))


def cells(slab: Slab) -> Iterator[Cell]:
    """Yield the cells of one slab; those of a seed are trained together on first use."""
    # By family, so that neighbours can be trained together.
    order = sorted(slab["remedy"], key=lambda name: REMEDIES[name].family)
    runs = itertools.product(order, slab["learning_rate"])
    return seed_cells(slab, training.SIZES, [Variant(*run) for run in runs], measure)


def measure(slab: Slab, seed: int, variants: Sequence[Variant]) -> list[Row]:
    """Return the rows of several runs of one seed, each with its remedy and its learning rate."""
    batches, held_out = draw(slab, seed)
    w_q, w_k = training.projections(slab, seed)
    rows: list[Row] = []
    for part in _groups(slab, variants):
        remedies = [REMEDIES[name] for name, _ in part]
        rate = np.array([rate for _, rate in part])[:, np.newaxis, np.newaxis]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            found = model.train(
                Head(w_q, w_k, remedies, rate=rate), batches, held_out, level=LEARNT_ACCURACY
            )
        rows += [_row(found, place) for place in range(len(part))]
    return rows


def draw(slab: Slab, seed: int) -> tuple[Batch, Batch]:
    """Draw the batches of all steps and the held-out ones, those of `training`."""
    batches = training.draw_batches(slab, seed, "", slab["steps"])
    return batches, training.draw_held_out(slab, seed)


def _side_by_side(slab: Slab) -> int:
    """Return the maximum number of runs that are trained together, so that a cache has them."""
    widest = max(training.HELD_OUT * max(slab["n_k"], slab["d_model"]), slab["batch_size"])
    return max(1, training.ENTRIES // max(2 * slab["d_k"] * slab["d_model"], widest))


def _groups(slab: Slab, variants: Sequence[Variant]) -> Iterator[Sequence[Variant]]:
    """Yield the runs that are trained together: of one family, side by side."""
    most = _side_by_side(slab)
    start = 0
    while start < len(variants):
        family = REMEDIES[variants[start].remedy].family
        end = start
        while (
            end < len(variants)
            and end - start < most
            and REMEDIES[variants[end].remedy].family == family
        ):
            end += 1
        yield variants[start:end]
        start = end


def _row(found: model.Outcome, place: int) -> Row:
    return {
        "steps_to_90": float(found.steps_to_level[place]),
        "accuracy": float(found.end.accuracy[place]),
        "start_loss": float(found.start.loss[place]),
        "held_out_loss": float(found.end.loss[place]),
        "entropy_nats": float(found.end.entropy_nats[place]),
        "start_max_logit": float(found.start.max_logit[place]),
        "max_logit": float(found.end.max_logit[place]),
        "peak_logit": _finite(float(found.peak_logit[place])),
        "start_alignment": float(found.start.alignment[place]),
        "alignment": float(found.end.alignment[place]),
        "logit_scale": _finite(float(found.scale[place])),
        "diverged": float(found.diverged[place]),
    }


def _finite(value: float) -> float:
    return value if math.isfinite(value) else math.nan
