"""Training associative retrieval against d_k: when scaling helps, and when it does not.

Noisy queries retrieve their item among n_k, through one attention head with trained projections
W_q and W_k. A slab is one combination of sizes, optimizer and loss. Its cells are seeds ×
learning rates × scale rules, and a cell gives a row for each logged step. All cells of a seed use
the same libraries and queries, and all cells of a d_k start with the same projections.
"""

import math
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from sqrtdk import schema
from sqrtdk.core import random_streams, scale_rules
from sqrtdk.core.random_streams import Purpose
from sqrtdk.core.shapes import Floats
from sqrtdk.experiments.cells import Cell, lazy_batch
from sqrtdk.experiments.training import lookup, loop
from sqrtdk.experiments.training.lookup import Batch, Loss
from sqrtdk.schema import Column, Key
from sqrtdk.storage.tables import Row

LEARNT_ACCURACY = 0.9
"""The retrieval accuracy for `steps_to_90`."""

HELD_OUT = 256
"""Minimum number of held-out queries: one for each item of whole libraries."""

PROBES = 1024
"""Number of batches for the estimate of the signal-to-noise ratio at initialisation."""

ENTRIES = 2**17
"""Maximum entries of W_q and W_k of the runs that Adam updates together, to fit into a cache: in
float64, and twice as many in float32."""

SCORES = 2**18
"""Maximum entries of an array of the runs that are trained together, so that the memory does not
grow with the grid. Four times more or less is slower."""

BATCH_SIZE = Key(
    "batch_size",
    "whole",
    "Queries in the batch of one step; they share its library.",
    "queries",
    maximum=10**6,
)
D_MODEL = Key(
    "d_model",
    "whole",
    "Dimension of the items that queries and keys are projections of.",
    "dimensions",
    axis=False,
    maximum=10**5,
)
NOISE_SD = Key(
    "noise_sd",
    "number",
    "Standard deviation of the noise on each entry of a query; items have mean square 1.",
    axis=False,
)
STEPS = Key("steps", "whole", "Training steps.", "steps", axis=False, maximum=10**6)
OPTIMIZER = Key(
    "optimizer",
    "choice",
    "Optimizer: gradient descent on fresh batches, or Adam with its usual constants.",
    choices=("sgd", "adam"),
)
LOSS = Key(
    "loss",
    "choice",
    "Input of the loss. values: the output, half its squared distance to the value of the "
    "wanted item. weights: the attention weights directly, with cross-entropy.",
    choices=lookup.LOSSES,
)
LEARNING_RATE = Key("learning_rate", "number", "Learning rate of the optimizer.")

SIZES: tuple[Key, ...] = (schema.D_K, schema.N_K, BATCH_SIZE)
"""Axes of the retrieval, also in other experiments that train it."""

TASK_KEYS: tuple[Key, ...] = (*SIZES, D_MODEL, schema.D_V, NOISE_SD, STEPS)
"""Keys of the retrieval, also in other experiments that train it."""

CONFIG_KEYS: tuple[Key, ...] = (
    *TASK_KEYS,
    OPTIMIZER,
    LOSS,
    LEARNING_RATE,
    schema.SCALING,
    schema.SEED,
    schema.TRAINING_DTYPE,
)

BATCHED_AXES: tuple[str, ...] = ("learning_rate",)

_DIVERGED = "Empty where the run has diverged"
_OVERFLOW = f"{_DIVERGED}, and where it needs a number beyond the largest float."

COLUMNS: tuple[Column, ...] = (
    *(
        schema.axis_column(key)
        for key in (
            *SIZES,
            OPTIMIZER,
            LOSS,
            schema.SCALING,
            LEARNING_RATE,
            schema.SEED,
        )
    ),
    Column("step", "Number of steps taken; 0 is initialisation.", "steps", read=int, axis=True),
    Column(
        "held_out_loss",
        f"Loss, mean over held-out queries. {_OVERFLOW}",
        optional=True,
        within=schema.NOT_NEGATIVE,
    ),
    Column(
        "accuracy",
        f"Share of held-out queries whose largest weight is on the wanted item. {_DIVERGED}.",
        "share",
        counted=(HELD_OUT,),
        optional=True,
    ),
    Column(
        "entropy_nats",
        f"Entropy of the attention weights, mean over held-out queries. {_OVERFLOW}",
        "nats",
        optional=True,
    ),
    Column(
        "max_weight",
        f"Largest weight of a query, mean over held-out queries. {_OVERFLOW}",
        optional=True,
        within=schema.SHARE,
    ),
    Column(
        "grad_w_q_norm",
        f"Norm of the gradient of the next batch with respect to W_q. {_OVERFLOW}",
        optional=True,
        within=schema.NOT_NEGATIVE,
    ),
    Column(
        "grad_w_k_norm",
        f"Norm of the gradient of the next batch with respect to W_k. {_OVERFLOW}",
        optional=True,
        within=schema.NOT_NEGATIVE,
    ),
    Column(
        "grad_snr",
        "Signal-to-noise ratio of the gradient of one batch with respect to W_q and W_k: norm of "
        "its expectation over the root mean square of its deviation from it, estimated from "
        f"{PROBES} batches. Empty after step 0, and where every gradient is the same.",
        optional=True,
    ),
    Column(
        "steps_to_90",
        f"First step, up to this one, at which accuracy was at least {LEARNT_ACCURACY}; checked at "
        "every step. Empty before it. Its mean in summary.csv is only over the seeds that reached "
        "it; rates.csv counts the others.",
        "steps",
        optional=True,
    ),
    Column(
        "diverged",
        "1 if held-out scores, before the scale, are not finite numbers, else 0.",
        within=schema.SHARE,
    ),
)


class Settings(schema.Settings, total=False):
    """The values of the experiment's keys in a run, as far as its derived tables need them."""

    steps: int
    learning_rate: list[float]


class Slab(schema.Slab, total=False):
    """The work of one shard job. All learning rates of a seed are trained together."""

    batch_size: int
    d_model: int
    noise_sd: float
    steps: int
    optimizer: str
    loss: Loss
    learning_rate: list[float]
    training_dtype: str


def memory(slab: Slab) -> int:
    """Return the peak memory of one seed's runs in bytes, from the sizes of their arrays."""
    n_k, n_q, d_model, d_v = slab["n_k"], slab["batch_size"], slab["d_model"], slab["d_v"]
    batch = n_k * (d_model + d_v) + n_q * (d_model + 1)
    asked = held_out_queries(n_k)
    runs = len(slab.get("learning_rate", [1.0])) * len(slab.get("scaling", {"": {}}))
    # At least one run. Fractions are kept, so that the result never falls with a size.
    together = min(float(runs), max(1.0, SCORES / _widest(slab)))
    # Arrays of scores while rows are logged, of products of queries, of cross matrices, and others.
    run = 7 * asked * n_k + 2 * asked * d_model + 12 * d_model**2 + n_q * (5 * n_k + d_model)
    # Adam's arrays of two projections: themselves, two moments, gradients and scratch. They
    # always count, because a run has both optimizers.
    projections = 2 * slab["d_k"] * d_model
    training = together * run + 5 * min(together * projections, max(ENTRIES, projections))
    probing = PROBES * (4 * n_q * n_k + n_q * d_model + 2 * d_model**2)
    # Batches need twice their memory while they are drawn.
    held = slab["steps"] * batch + asked * (2 * d_model + d_v)
    work = max(slab["steps"] * batch, PROBES * batch + max(PROBES * batch, probing, training))
    return int(8 * (held + work))


def _libraries(n_k: int) -> int:
    """Return the number of held-out libraries."""
    return math.ceil(HELD_OUT / n_k)


def held_out_queries(n_k: int) -> int:
    """Return the number of held-out queries: one for each item of whole libraries."""
    return _libraries(n_k) * n_k


def _widest(slab: Slab) -> int:
    """Return the entries of the largest array of one run, except its projections."""
    n_k, d_model = slab["n_k"], slab["d_model"]
    asked = max(held_out_queries(n_k), slab["batch_size"])
    return int(max(asked * max(n_k, d_model), d_model**2))


def _side_by_side(slab: Slab) -> int:
    """Return the maximum number of runs that are trained together."""
    most = SCORES // _widest(slab)
    if slab["optimizer"] == "adam":
        itemsize = np.dtype(slab.get("training_dtype", "float64")).itemsize
        most = min(most, ENTRIES * 8 // itemsize // (2 * slab["d_k"] * slab["d_model"]))
    return max(1, most)


def seconds(slab: Slab) -> float:
    """Return the approximate time of one seed of a slab on one core."""
    runs = len(slab["learning_rate"]) * len(slab["scaling"])
    entries = 2 * slab["d_k"] * slab["d_model"] if slab["optimizer"] == "adam" else 0
    double = 1 if slab.get("training_dtype") == "float32" else 2
    return float(0.08 + double * runs * slab["steps"] * (8e-6 + 1.9e-9 * entries))


def logged(steps: int) -> list[int]:
    """Return the steps that have a row: the first, the powers of two from 8 on, and the last.

    >>> logged(40)
    [0, 8, 16, 32, 40]
    """
    powers = (2**i for i in range(3, steps.bit_length()))
    return sorted({0, *powers, steps})


def cells(slab: Slab) -> Iterator[Cell]:
    """Yield the cells of one slab; those of a seed are trained together on first use."""
    factors = {}
    for scaling, rule in slab["scaling"].items():
        factor = scale_rules.factor(rule, d_k=slab["d_k"], n_k=slab["n_k"])
        if factor is None:
            raise ValueError(f"{scaling} is not one factor of d_k and n_k")
        factors[scaling] = factor
    sizes: Row = {
        "d_k": slab["d_k"],
        "n_k": slab["n_k"],
        "batch_size": slab["batch_size"],
        "optimizer": slab["optimizer"],
        "loss": slab["loss"],
    }
    names = [(rate, scaling) for rate in slab["learning_rate"] for scaling in factors]
    variants = [(rate, factors[scaling]) for rate, scaling in names]
    for seed in range(*slab["seeds"]):
        found = lazy_batch(partial(measure, slab, seed), variants)
        for place, (rate, scaling) in enumerate(names):
            axes: Row = {"scaling": scaling, "learning_rate": rate, "seed": seed}
            yield sizes | axes, partial(found, place)


def measure(slab: Slab, seed: int, variants: Sequence[tuple[float, float]]) -> list[list[Row]]:
    """Return the rows of several runs of one seed, each with its learning rate and its scale."""
    rates, factors = zip(*variants, strict=True)
    loss: Loss = slab["loss"]
    probes = draw_batches(slab, seed, "probe_", PROBES)
    w_q, w_k = projections(slab, seed)
    # The signal is a small difference of large sums.
    snr = {factor: _snr(probes, w_q, w_k, factor, loss) for factor in set(factors)}
    del probes
    dtype = np.dtype(slab.get("training_dtype", "float64"))
    batches, held_out = (batch.astype(dtype) for batch in draw(slab, seed))
    w_q, w_k = w_q.astype(dtype), w_k.astype(dtype)
    together = _side_by_side(slab)
    rows: list[list[Row]] = []
    for start in range(0, len(rates), together):
        part = slice(start, start + together)
        with np.errstate(over="ignore", invalid="ignore"):
            points = loop.train(
                lookup.optimizer(slab["optimizer"], w_q, w_k, _runs(rates[part]).astype(dtype)),
                batches,
                held_out,
                scale=_runs(factors[part]).astype(dtype),
                loss=loss,
                logged=logged(slab["steps"]),
                level=LEARNT_ACCURACY,
            )
        for place, factor in enumerate(factors[part]):
            rows.append([_row(point, place, snr[factor]) for point in points])
    return rows


def _row(point: loop.LogPoint, place: int, snr: float) -> Row:
    return {
        "step": point.step,
        "held_out_loss": float(point.loss[place]),
        "accuracy": float(point.accuracy[place]),
        "entropy_nats": float(point.entropy_nats[place]),
        "max_weight": float(point.max_weight[place]),
        "grad_w_q_norm": float(point.grad_w_q_norm[place]),
        "grad_w_k_norm": float(point.grad_w_k_norm[place]),
        "grad_snr": snr if point.step == 0 else math.nan,
        "steps_to_90": float(point.steps_to_level[place]),
        "diverged": float(point.diverged[place]),
    }


def _runs(values: Sequence[float]) -> Floats:
    return np.array(values, dtype=np.float64)[:, np.newaxis, np.newaxis]


def _snr(probes: Batch, w_q: Floats, w_k: Floats, factor: float, loss: Loss) -> float:
    d_product = lookup.loss_d_product(probes, w_q @ w_k.T, scale=_runs([factor]), loss=loss)
    return lookup.signal_to_noise(d_product, w_q, w_k)


# Random draws

# The position of a name is part of its key: append, never reorder.
_ARRAYS = (
    *("items", "values", "noise", "targets"),
    *("held_out_items", "held_out_values", "held_out_noise"),
    *("probe_items", "probe_values", "probe_noise", "probe_targets"),
    *("w_q", "w_k"),
)


def stream(array: str, *, seed: int, sizes: Sequence[int]) -> np.random.Generator:
    """Return the random stream of one array, keyed by its purpose: its sizes and the seed."""
    # The second 1 separates the keys from those of `recall.stream`.
    return random_streams.stream(Purpose.TRAINING, 1, seed, _ARRAYS.index(array), *sizes)


def draw(slab: Slab, seed: int) -> tuple[Batch, Batch]:
    """Draw the batches of all steps and one more, whose gradient is logged last, and held-out ones.

    They do not depend on d_k, and the batch of a step does not depend on the number of steps.
    """
    return draw_batches(slab, seed, "", slab["steps"] + 1), draw_held_out(slab, seed)


def draw_held_out(slab: Slab, seed: int) -> Batch:
    """Draw held-out libraries, and a query about each of their items."""
    n_k = slab["n_k"]
    libraries = _libraries(n_k)
    return _draw(slab, seed, "held_out_", libraries, np.tile(np.arange(n_k), (libraries, 1)))


def draw_batches(slab: Slab, seed: int, prefix: str, count: int) -> Batch:
    """Draw this many batches with random targets, from the streams of this prefix."""
    targets = stream(f"{prefix}targets", seed=seed, sizes=_sizes(slab))
    return _draw(
        slab, seed, prefix, count, targets.integers(0, slab["n_k"], (count, slab["batch_size"]))
    )


def _draw(slab: Slab, seed: int, prefix: str, count: int, targets: NDArray[np.intp]) -> Batch:
    def normal(array: str, rows: int, width: int) -> Floats:
        found = stream(f"{prefix}{array}", seed=seed, sizes=_sizes(slab))
        return found.standard_normal((count, rows, width))

    return lookup.make_batch(
        normal("items", slab["n_k"], slab["d_model"]),
        normal("values", slab["n_k"], slab["d_v"]),
        normal("noise", targets.shape[-1], slab["d_model"]),
        targets,
        noise_sd=slab["noise_sd"],
    )


def _sizes(slab: Slab) -> tuple[int, ...]:
    return slab["n_k"], slab["batch_size"], slab["d_model"], slab["d_v"]


def projections(slab: Slab, seed: int) -> tuple[Floats, Floats]:
    """Draw initial W_q and W_k [d_model, d_k] from N(0, 1/d_model): q and k have mean square 1."""
    shape = (slab["d_model"], slab["d_k"])
    unit = slab["d_model"] ** -0.5
    w_q, w_k = (
        unit * stream(name, seed=seed, sizes=shape).standard_normal(shape)
        for name in ("w_q", "w_k")
    )
    return w_q, w_k
