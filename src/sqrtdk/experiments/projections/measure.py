"""Projections: what attention loses if queries, keys and values do not each have their own.

The lookup of `model`, trained with Adam and the scale 1/√d_k. A slab is one combination of sizes
and relation; its cells are projections × learning rates × seeds, a row for each logged step. All
cells of a seed see the same libraries and queries and begin with the same matrices.
"""

import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from typing import cast

import numpy as np

from sqrtdk import schema
from sqrtdk.core import random_streams
from sqrtdk.core.adam import AdamState
from sqrtdk.core.random_streams import Purpose
from sqrtdk.core.shapes import Floats
from sqrtdk.experiments.cells import Cell, lazy_batch
from sqrtdk.experiments.projections import model
from sqrtdk.experiments.projections.model import Projections, Task, Weights
from sqrtdk.experiments.training import measure as training
from sqrtdk.experiments.training.measure import BATCH_SIZE, D_MODEL, LEARNING_RATE, NOISE_SD, STEPS
from sqrtdk.schema import Column, Key
from sqrtdk.storage.tables import Row

HELD_OUT = 32
"""Number of held-out libraries, with one query for each item."""

PROJECTIONS = Key(
    "projections",
    "choice",
    "Which projections the head has. separate: W_q, W_k and W_v each their own. shared_qk: one "
    "matrix for queries and keys. identity_v: items are their own values, W_v = I.",
    choices=model.PROJECTIONS,
)
RELATION = Key(
    "relation",
    "choice",
    "How a query and its answer relate to their item. same: the query is the item, noisy, and the "
    "answer the item. turned: the query is turned by a right angle in each pair of entries, the "
    "answer by the opposite angle.",
    choices=model.RELATIONS,
)

AXES: tuple[Key, ...] = (
    schema.D_K,
    schema.N_K,
    BATCH_SIZE,
    RELATION,
    PROJECTIONS,
    LEARNING_RATE,
    schema.SEED,
)
CONFIG_KEYS: tuple[Key, ...] = (*AXES, D_MODEL, NOISE_SD, STEPS)

BATCHED_AXES: tuple[str, ...] = ("projections", "learning_rate")

SEEDS_PER_BATCH = 8
"""Number of seeds that are trained together, with all learning rates. Affects the cost of a run,
never its numbers."""

COLUMNS: tuple[Column, ...] = (
    *(schema.axis_column(key) for key in AXES),
    Column("step", "Number of steps taken; 0 is initialisation.", "steps", read=int, axis=True),
    Column(
        "accuracy",
        "Share of held-out queries whose output is nearer to their item's answer than to those of "
        "the other items of the library; chance is 1/n_k.",
        "share",
    ),
    Column(
        "accuracy_gain",
        "Gain of the accuracy compared with the last logged step of the first half of "
        "these steps: near 0 if training has settled. Empty before the first step.",
        "difference of shares",
        optional=True,
    ),
    Column("asked_weight", "Weight on the wanted item, mean over held-out queries.", "share"),
    Column(
        "held_out_loss",
        "Half the squared distance of the output to the answer per entry, mean over held-out "
        "queries; 1/2 is that of an output of 0.",
        within=schema.NOT_NEGATIVE,
    ),
)


class Slab(schema.Slab, total=False):
    """The work of one shard job, which measures all combinations of projections."""

    batch_size: int
    d_model: int
    noise_sd: float
    relation: model.Relation
    steps: int
    learning_rate: list[float]
    projections: list[Projections]


def memory(slab: Slab) -> int:
    """Return the peak memory, in bytes, of the seeds that are trained together."""
    n_k, d_model, d_k, n_q = slab["n_k"], slab["d_model"], slab["d_k"], slab["batch_size"]
    asked = HELD_OUT * n_k
    held = 3 * asked * (2 * d_model + d_k) + 5 * asked * n_k
    weights = 6 * (2 * d_model * d_k + d_model**2)
    batch = 6 * (n_k + n_q) * (d_model + d_k) + 4 * n_q * n_k
    drawn = slab["steps"] * (2 * n_k + 2 * n_q) * d_model
    # Rates share what is drawn for a seed.
    rates = len(slab.get("learning_rate", [1.0]))
    start, stop = slab.get("seeds", (0, SEEDS_PER_BATCH))
    together = min(SEEDS_PER_BATCH, stop - start)
    return int(8 * together * (rates * (held + weights + batch) + 2 * drawn))


def seconds(slab: Slab) -> float:
    """Return the approximate time of one seed of a slab on one core."""
    entries = slab["d_model"] * (2 * slab["d_k"] + slab["d_model"])
    runs = len(slab["projections"]) * len(slab["learning_rate"])
    return float(runs * slab["steps"] * (1e-5 + 4e-9 * entries))


def cells(slab: Slab) -> Iterator[Cell]:
    """Yield the cells of one slab; some seeds are trained together on first use."""
    names = [key.name for key in AXES if key.name not in ("projections", "learning_rate", "seed")]
    values, rates = cast(Row, slab), slab["learning_rate"]
    start, stop = slab["seeds"]
    for projections in slab["projections"]:
        for first in range(start, stop, SEEDS_PER_BATCH):
            seeds = range(first, min(first + SEEDS_PER_BATCH, stop))
            found = lazy_batch(partial(measure, slab, projections), rates, seeds)
            for (place, rate), (run, seed) in itertools.product(enumerate(rates), enumerate(seeds)):
                axes = {name: values[name] for name in names}
                axes |= {"projections": projections, "learning_rate": rate, "seed": seed}
                yield axes, partial(found, place, run)


def measure(
    slab: Slab, projections: Projections, rates: Sequence[float], seeds: Sequence[int]
) -> list[list[list[Row]]]:
    """Train a run for each rate and seed and return its rows, one a logged step."""
    drawn = [draw(slab, seed) for seed in seeds]
    tasks = model.stack([of_steps for of_steps, _ in drawn])
    held = model.stack([others for _, others in drawn])
    # Arrays of the runs are [n_rates, n_seeds, ...].
    weights = Weights(*(np.array([w] * len(rates)) for w in initial(slab, seeds, projections)))
    rate = np.array(rates)[:, np.newaxis, np.newaxis, np.newaxis]
    moments, scratch = [AdamState(w) for w in weights], [np.empty_like(w) for w in weights]
    logged = {*training.logged(slab["steps"]), slab["steps"] // 2}
    rows = [[list[Row]() for _ in seeds] for _ in rates]
    earlier: dict[int, Floats] = {}
    for step in range(slab["steps"] + 1):
        if step in logged:
            now = evaluate(weights, held)
            half = max((at for at in earlier if 2 * at <= step), default=None)
            before = np.full(now["accuracy"].shape, np.nan) if half is None else earlier[half]
            earlier[step] = now["accuracy"]
            now["accuracy_gain"] = now["accuracy"] - before
            for place, run in np.ndindex(now["accuracy"].shape):
                row: Row = {name: float(x[place, run]) for name, x in now.items()}
                rows[place][run].append(row | {"step": step})
        if step < slab["steps"]:
            batch = model.at(tasks, step)
            gradients = model.gradient(weights, batch, projections)
            for one, w, g, space in zip(moments, weights, gradients, scratch, strict=True):
                # A copy, because a step overwrites the gradient, which two matrices may share.
                one.step(w, g.copy() if projections == "shared_qk" else g, space, rate=rate)
    return rows


def evaluate(weights: Weights, held: Task) -> dict[str, Floats]:
    """Return the metrics of held-out libraries, each [n_rates, n_seeds]."""
    each = Weights(*(w[:, :, np.newaxis] for w in weights))
    p, _ = model.output(each, held)
    at = np.broadcast_to(held.targets[..., np.newaxis], (*p.shape[:-1], 1))
    asked = np.take_along_axis(p, at, axis=-1)
    return {
        "accuracy": np.mean(model.accuracy(each, held), axis=-1),
        "asked_weight": np.mean(asked, axis=(-3, -2, -1)),
        "held_out_loss": np.mean(model.loss(each, held), axis=-1),
    }


# Random draws

# The position of a name is part of its key: append, never reorder.
_ARRAYS = ("items", "noise", "targets", "held_items", "held_noise", "w_q", "w_k", "w_v")


def stream(array: str, *, seed: int, sizes: Sequence[int]) -> np.random.Generator:
    """Return the random stream of one array, keyed by its purpose: its sizes and the seed."""
    return random_streams.stream(Purpose.PROJECTIONS, seed, _ARRAYS.index(array), *sizes)


def draw(slab: Slab, seed: int) -> tuple[Task, Task]:
    """Draw the tasks of all steps, and the held-out libraries, with one query for each item."""
    n_k, n_q, d_model = slab["n_k"], slab["batch_size"], slab["d_model"]
    sizes = (n_k, n_q, d_model)

    def normal(array: str, *shape: int) -> Floats:
        return stream(array, seed=seed, sizes=sizes).standard_normal((*shape, d_model))

    targets = stream("targets", seed=seed, sizes=sizes).integers(0, n_k, (slab["steps"], n_q))
    every = np.tile(np.arange(n_k), (HELD_OUT, 1))
    task = partial(model.make_task, noise_sd=slab["noise_sd"], relation=slab["relation"])
    items, noise = normal("items", slab["steps"], n_k), normal("noise", slab["steps"], n_q)
    others, blur = normal("held_items", HELD_OUT, n_k), normal("held_noise", HELD_OUT, n_k)
    return (
        task(items, noise, targets),
        task(others, blur, every),
    )


def initial(slab: Slab, seeds: Sequence[int], projections: Projections) -> Weights:
    """Draw the initial projections [n_runs, d_model, ...], entries N(0, 1/d_model)."""
    d_k, d_model = slab["d_k"], slab["d_model"]

    def normal(array: str, width: int) -> Floats:
        sizes = (d_model, width)
        drawn = [stream(array, seed=seed, sizes=sizes).standard_normal(sizes) for seed in seeds]
        found: Floats = d_model**-0.5 * np.stack(drawn)
        return found

    w_q, w_k, w_v = normal("w_q", d_k), normal("w_k", d_k), normal("w_v", d_model)
    if projections == "shared_qk":
        w_k = w_q.copy()
    if projections == "identity_v":
        # Its gradient is 0, and Adam's step of a gradient of 0 is 0.
        w_v = np.tile(np.eye(d_model), (len(seeds), 1, 1))
    return Weights(w_q, w_k, w_v)
