"""Encoder and decoder: a fixed vector or attention over all states, against source length.

A slab is one combination of length, score width, state size and, unless the experiment batches it,
learning rate. Its cells are readers × learning rates × seeds, with a row for each logged step. Some
runs are trained together, which changes no digit.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Unpack, cast

import numpy as np
from numpy.typing import NDArray

from sqrtdk import schema
from sqrtdk.core import metrics
from sqrtdk.core.shapes import Floats
from sqrtdk.experiments.cells import Cell, lazy_batch
from sqrtdk.experiments.encoder_decoder import additive, model, recall, symbols
from sqrtdk.schema import Column, Key
from sqrtdk.storage.tables import Row

LEARNT_ACCURACY = 0.9
"""Accuracy from which the task counts as learnt."""

READER = Key(
    "reader",
    "choice",
    "How the answer is computed: from the last state only (fixed), or all states through attention "
    "with additive, dot-product or scaled dot-product scores.",
    choices=model.READERS,
)
LENGTH = Key("length", "whole", "Source length: pairs that the encoder reads.", "pairs")
D_K = Key(
    "d_k",
    "whole",
    "Score width: dimension of each query and key vector of the attention, and of the hidden "
    "layer of additive scores. No effect on the fixed vector.",
    "dimensions",
)
HIDDEN = Key(
    "hidden",
    "whole",
    "Units of the encoder's state, which is the size of the fixed vector.",
    "units",
)
LEARNING_RATE = Key("learning_rate", "number", "Learning rate of Adam, the same at every step.")
STEPS = Key("steps", "whole", "Training steps.", "steps", axis=False)
BATCH = Key("batch", "whole", "Sequences of a training step.", "sequences", axis=False)

CHECK_EVERY = Key(
    "check_every",
    "whole",
    f"Steps between two checks of whether the accuracy has reached {LEARNT_ACCURACY}; the steps "
    "with a row are checked too.",
    "steps",
    axis=False,
)
AXES: tuple[Key, ...] = (D_K, LENGTH, HIDDEN, LEARNING_RATE, READER, schema.SEED)
CONFIG_KEYS: tuple[Key, ...] = (
    *AXES,
    STEPS,
    BATCH,
    schema.LOG_EVERY,
    CHECK_EVERY,
    schema.TRAINING_DTYPE,
)

BATCHED_AXES: tuple[str, ...] = ("reader",)

GAIN = Column(
    "accuracy_gain",
    "Gain of the accuracy compared with the last logged step of the first half of these "
    "steps: near 0 if training has settled. Empty before the first step.",
    "difference of shares",
    optional=True,
)

FIRST_ASKED = 32
"""Held-out sequences that decide for most runs that have not learnt."""

SEEDS_PER_BATCH = 8
"""Number of seeds that are trained together, with all learning rates of their slab."""

UNASKED = Column(
    "unasked_accuracy",
    "Share of the pairs of the held-out sequences that have the most frequent value of their "
    "sequence: the expected accuracy, over which pair is asked about, of an answer that knows "
    "all values but not which belongs to which key.",
    "share",
)

COLUMNS: tuple[Column, ...] = (
    *(schema.axis_column(key) for key in AXES),
    Column("step", "Training steps done.", read=int, axis=True),
    Column(
        "accuracy",
        f"Share of {recall.HELD_OUT} held-out sequences that are answered correctly; chance is "
        f"1/{recall.N_VALUES}.",
        "share",
        counted=(recall.HELD_OUT,),
    ),
    GAIN,
    UNASKED,
    Column("loss", "Cross-entropy of the answer, mean over the held-out sequences.", "nats"),
    Column(
        "reached_90",
        f"1 if the accuracy was {LEARNT_ACCURACY} or more at this or an earlier check, else "
        "0; the mean over seeds is the share of seeds that reached it.",
        "share",
        counted=(1,),
    ),
    Column(
        "steps_to_90",
        f"First checked step at which the accuracy was {LEARNT_ACCURACY} or more. Empty as long as "
        "it was not, so that a mean is only over the seeds that reached it.",
        "steps",
        optional=True,
    ),
    Column(
        "entropy_nats",
        "Entropy of the attention weights, mean over the held-out sequences. Empty for the fixed "
        "vector, like the three columns after it.",
        "nats",
        optional=True,
    ),
    Column(
        "max_weight",
        "Largest weight, mean over the held-out sequences.",
        optional=True,
        within=schema.SHARE,
    ),
    Column(
        "asked_weight",
        "Weight on the state right after the pair that is asked about, mean over the held-out "
        "sequences.",
        optional=True,
        within=schema.SHARE,
    ),
    Column(
        "logit_std",
        "Standard deviation of the attention logits over the states of a sequence: root mean "
        "square over the held-out sequences. Empty at length 1 too.",
        optional=True,
        pool="rms",
    ),
    Column(
        "grad_norm",
        "Norm of the gradient of the loss with respect to all parameters together, of the training "
        "batch of this step.",
        within=schema.NOT_NEGATIVE,
    ),
)


class Settings(schema.Settings, total=False):
    """The values of the experiment's keys in a run, as far as claims need them."""

    steps: int


class Slab(schema.Slab, total=False):
    """The work of one shard job, which measures all readers."""

    length: int
    hidden: int
    learning_rate: float | list[float]
    reader: list[str]
    steps: int
    batch: int
    log_every: int
    check_every: int
    training_dtype: str


def memory(slab: Slab) -> int:
    """Return the peak memory, in bytes, of the seeds that are trained together."""
    return peak(slab, states=2, layers=0)


def peak(slab: Slab, *, states: int, layers: int, precise: bool = False) -> int:
    """Return that memory for an evaluation with this many arrays like the states and `match`.

    `precise` is an evaluation in float64.
    """
    length, n, batch = slab["length"], slab["hidden"], slab["batch"]
    readers = slab["reader"]
    d_k = 0 if set(readers) == {"fixed"} else slab["d_k"]
    # Only the additive score has a layer for each state, and a query for each sequence.
    match = d_k if "additive" in readers else 0
    rows, held = length * batch, length * recall.HELD_OUT
    # Training keeps its arrays while the held-out sequences are evaluated. Backpropagation needs
    # five arrays as large as the states, but not at the same time.
    evaluation = rows * (n + match) + held * (states * n + layers * match)
    evaluation += recall.HELD_OUT * (1 + layers) * match
    # Symbols are whole numbers of 8 bytes in either type.
    itemsize = np.dtype(slab.get("training_dtype", "float64")).itemsize
    if precise:
        evaluation *= 8 // itemsize
    ones = max(recall.N_VALUES, length if length <= symbols.ONE_HOT_MAX else 0)
    training = rows * (5 * n + match + ones)
    # Parameters, two moments, gradient, scratch, and the gradient's parts.
    weights = 6 * (n * (2 * n + d_k + 2 * length + 2 * recall.N_VALUES) + length * d_k)
    # Keys and values of a chunk of batches and of the held-out sequences, whose values are counted
    # once, and those of one run while they are drawn.
    drawn = (2 + 2 / SEEDS_PER_BATCH) * recall.CHUNK * rows + 3 * held
    blocks = 2 * additive.BLOCK if match else 0
    runs = SEEDS_PER_BATCH * len(rates_of(slab))
    numbers = runs * (max(evaluation, training) + weights) + blocks
    return int(itemsize * numbers + 8 * runs * drawn)


def rates_of(slab: Slab) -> list[float]:
    """Return the learning rates of a slab; a check of sizes has none, and counts one."""
    rates = slab.get("learning_rate", 1.0)
    return rates if isinstance(rates, list) else [rates]


def seconds(slab: Slab) -> float:
    """Return the approximate time of one seed of a slab on one core."""
    rows, readers = slab["batch"] * slab["length"], slab["reader"]
    step = len(readers) * (3.4e-5 + 1.5e-8 * rows * slab["hidden"])
    step += 5.8e-9 * rows * slab["d_k"] * readers.count("additive")
    # Most checks end after as many sequences as a batch has, and go forward only.
    checks = 1 + 0.5 / slab.get("check_every", slab.get("log_every", slab["steps"]))
    single = 0.5 if slab.get("training_dtype") == "float32" else 1.0
    return float(len(rates_of(slab)) * slab["steps"] * step * checks * single)


def cells(slab: Slab) -> Iterator[Cell]:
    """Return the cells of one slab, reader by reader."""
    return batched_training_cells(slab, measure)


def batched_training_cells(slab: Slab, measure: Callable[..., list[list[Row]]]) -> Iterator[Cell]:
    """Yield the cells of a slab of models; `measure` returns the rows of each of several runs.

    It takes the reader, and the seeds and learning rates of the runs. They are trained together, on
    the first use of one of them.
    """
    names = [key.name for key in AXES if key.name not in ("reader", "learning_rate", "seed")]
    values = cast(Row, slab)
    training = {
        key.name: values[key.name] for key in CONFIG_KEYS if not key.axis and key.name in values
    }
    training |= {"n" if name == "hidden" else name: values[name] for name in names}
    start, stop = slab["seeds"]

    def compute(reader: str, runs: Sequence[tuple[float, int]]) -> list[list[Row]]:
        rates, seeds = zip(*runs, strict=True)
        return measure(reader, seeds, learning_rate=np.array(rates), **training)

    for reader in slab["reader"]:
        for first in range(start, stop, SEEDS_PER_BATCH):
            seeds = range(first, min(first + SEEDS_PER_BATCH, stop))
            runs = list(itertools.product(rates_of(slab), seeds))
            found = lazy_batch(partial(compute, reader), runs)
            for run, (rate, seed) in enumerate(runs):
                axes = {name: values[name] for name in names}
                axes |= {"reader": reader, "learning_rate": rate, "seed": seed}
                yield axes, partial(found, run)


def measure(
    reader: str,
    seeds: Sequence[int],
    *,
    length: int,
    steps: int,
    log_every: int,
    check_every: int = 0,
    **training: Unpack[recall.Training],
) -> list[list[Row]]:
    """Return the rows of each run, one a logged step; only these are checked without the key."""
    data = recall.held_out(seeds, length)
    unasked = recall.unasked_accuracy(data.values)
    first = np.full(len(seeds), np.nan)
    found: list[list[Row]] = [[] for _ in seeds]
    earlier: dict[int, Floats] = {}
    check_every = check_every or log_every
    moments = recall.train(
        reader,
        seeds,
        length=length,
        steps=steps,
        log_every=math.gcd(log_every, check_every),
        **training,
    )
    for step, parameters, grad_norm in moments:
        if step % log_every and step < steps:
            if step % check_every == 0:
                learnt = _reach_level(reader, parameters, data, np.isnan(first))
                first[learnt] = step
            continue
        now = evaluate(model.forward(reader, parameters, data, for_backward=False), data)
        half = max((at for at in earlier if 2 * at <= step), default=None)
        before = np.full(len(seeds), np.nan) if half is None else earlier[half]
        earlier[step] = now["accuracy"]
        first[np.isnan(first) & (now["accuracy"] >= LEARNT_ACCURACY)] = step
        now |= {
            "accuracy_gain": now["accuracy"] - before,
            "unasked_accuracy": unasked,
            "reached_90": (~np.isnan(first)).astype(float),
            "steps_to_90": first.copy(),
            "grad_norm": grad_norm,
        }
        for run, rows in enumerate(found):
            row: Row = {name: float(one[run]) for name, one in now.items()}
            rows.append(row | {"step": step})
    return found


def _reach_level(
    reader: str, parameters: model.Parameters, data: model.Sequences, runs: NDArray[np.bool_]
) -> NDArray[np.intp]:
    """Return which of some runs have learnt; the others are not evaluated.

    A run that answers too many of the first sequences wrongly is not asked the others.
    """
    at = np.flatnonzero(runs)
    right = np.zeros(len(at), dtype=int)
    for part in (slice(FIRST_ASKED), slice(FIRST_ASKED, recall.HELD_OUT)):
        if not len(at):
            break
        whole = len(at) == len(runs)
        mine = parameters if whole else {name: one[at] for name, one in parameters.items()}
        asked = model.Sequences(*(one[at][..., part] for one in data))
        logits = model.forward(reader, mine, asked, for_backward=False).logits
        right += np.count_nonzero(np.argmax(logits, axis=-1) == asked.answer, axis=-1)
        kept = (right + recall.HELD_OUT - part.stop) / recall.HELD_OUT >= LEARNT_ACCURACY
        at, right = at[kept], right[kept]
    return at


def _accuracy(logits: Floats, data: model.Sequences) -> Floats:
    found: Floats = np.mean(np.argmax(logits, axis=-1) == data.answer, axis=-1)
    return found


def evaluate(found: model.Forward, data: model.Sequences) -> dict[str, Floats]:
    """Return metrics of the held-out sequences after a forward pass, each [n_runs]."""
    loss, _ = model.cross_entropy(found.logits, data.answer)
    result = {"accuracy": _accuracy(found.logits, data), "loss": loss}
    if not found.weights.size:
        empty = np.full(len(loss), np.nan)
        names = ("entropy_nats", "max_weight", "asked_weight", "logit_std")
        return result | dict.fromkeys(names, empty)
    rows = metrics.row_metrics(found.scores)
    asked = np.take_along_axis(found.weights, data.asked[..., np.newaxis], axis=-1)[..., 0]
    return result | {
        "entropy_nats": np.mean(rows.entropy_nats, axis=-1),
        "max_weight": np.mean(rows.max_weight, axis=-1),
        "asked_weight": np.mean(asked, axis=-1),
        "logit_std": metrics.logit_std(found.scores),
    }
