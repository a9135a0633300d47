"""Train a causal transformer, or a recurrent network, and follow its loss and its attention.

A slab is one combination of sizes, task, model and learning rate. Its cells are d_head × scale
rules × seeds, with a row for each logged step. Some seeds are trained together, which changes no
digit. All scale rules of a seed see the same sequences and begin with the same parameters.
"""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Literal, cast, get_args

import numpy as np

from sqrtdk import schema
from sqrtdk.core import scale_rules
from sqrtdk.core.attention import sink_of, with_sink
from sqrtdk.core.metrics import row_metrics
from sqrtdk.core.shapes import Floats
from sqrtdk.experiments.cells import Cell, lazy_batch
from sqrtdk.experiments.transformer import data, model, recurrent, train
from sqrtdk.experiments.transformer.data import Task
from sqrtdk.experiments.transformer.model import Attended, Sequences, Sizes
from sqrtdk.schema import Column, Entry, Key
from sqrtdk.storage.tables import Row
from sqrtdk.system.errors import UserError

Network = Literal["transformer", "gru"]
NETWORKS: tuple[Network, ...] = get_args(Network)

TASK = Key(
    "task",
    "choice",
    "What is learnt. text: the next character of a novel. recall: at every position a pair of a "
    "key and a value, and the value of an earlier key as the answer.",
    choices=data.TASKS,
)
NETWORK = Key(
    "network",
    "choice",
    "The causal transformer, or a gated recurrent network with as many parameters, at most one "
    "unit fewer.",
    choices=NETWORKS,
)
D_HEAD = Key(
    "d_head",
    "whole",
    "Dimension of the queries and keys of a head; d_model/d_head heads, so it divides d_model. No "
    "effect on gru, like scaling: their rows repeat.",
    "dimensions",
)
D_MODEL = Key("d_model", "whole", "Dimension of a position.", "dimensions", axis=False)
N_TOKENS = Key("n_tokens", "whole", "Positions of a sequence.", "positions", axis=False)
LEARNING_RATE = Key("learning_rate", "number", "Largest learning rate of AdamW.")
STEPS = Key("steps", "whole", "Training steps.", "steps", axis=False, maximum=10**6)
BATCH = Key("batch", "whole", "Sequences of a training step.", "sequences", axis=False)

AXES = (TASK, NETWORK, D_HEAD, LEARNING_RATE, schema.SCALING, schema.SEED)
CONFIG_KEYS: tuple[Key, ...] = (*AXES, D_MODEL, N_TOKENS, STEPS, BATCH, schema.LOG_EVERY)

BATCHED_AXES = ("d_head",)

SEEDS_PER_BATCH = 4
"""Number of seeds that are trained together."""

ATTENDED = 8
"""Held-out sequences whose attention is measured."""

ROWS = (2, 4, 8, 16, 32, 64)
"""Rows (numbers of visible keys) whose entropy has a column of its own."""

_EMPTY = "Empty for gru, and where the run has diverged"

COLUMNS: tuple[Column, ...] = (
    *(schema.axis_column(key) for key in AXES),
    Column("step", "Training steps done; 0 is initialisation.", "steps", read=int, axis=True),
    Column("parameters", "Number of parameters that are trained."),
    Column(
        "held_out_loss",
        f"Cross-entropy per position, mean over {data.HELD_OUT} held-out sequences. Empty where it "
        "is not a number.",
        "nats",
        optional=True,
    ),
    Column(
        "accuracy",
        "Share of held-out positions whose largest output is the right one.",
        "share",
    ),
    Column(
        "diverged",
        "1 if the held-out loss is not a number or above its value at initialisation, else 0.",
        "share",
        counted=(1,),
    ),
    *(
        column
        for layer in range(model.LAYERS)
        for column in (
            Column(
                f"entropy_{layer}",
                f"Layer {layer}: entropy of the weights of a row over ln of its number of visible "
                f"keys, mean over rows from the second on, heads and {ATTENDED} held-out "
                f"sequences. {_EMPTY}.",
                "share",
                optional=True,
            ),
            Column(
                f"max_logit_{layer}",
                f"Layer {layer}: largest visible logit of these sequences. {_EMPTY}.",
                optional=True,
                # It spans decades over seeds that go well and others.
                pool="median",
            ),
        )
    ),
    *(
        Column(
            f"entropy_row_{n}",
            f"Layer 0: entropy of the row with {n} visible keys, mean over heads and these "
            f"sequences. {_EMPTY}, and beyond the last position.",
            "nats",
            optional=True,
            within=(0.0, math.log(n)),
        )
        for n in ROWS
    ),
)


class Settings(schema.Settings, total=False):
    """The values of the experiment's keys in a run."""

    task: list[Task]
    network: list[Network]
    d_head: list[int]
    learning_rate: list[float]
    d_model: int
    n_tokens: int
    steps: int


class Slab(schema.Slab, total=False):
    """The work of one shard job, which measures all d_head and scale rules."""

    task: Task
    network: Network
    d_head: list[int]
    learning_rate: float
    d_model: int
    n_tokens: int
    steps: int
    batch: int
    log_every: int


def _sizes(slab: Slab, d_head: int) -> Sizes:
    task, n_tokens = slab["task"], slab["n_tokens"]
    return Sizes(
        n_tokens, slab["d_model"], d_head, data.symbols(task, n_tokens), data.outputs(task)
    )


def refuse(settings: Settings) -> None:
    """Raise UserError for a d_head that does not divide d_model."""
    for d_head in settings["d_head"]:
        if settings["d_model"] % d_head:
            allowed = [n for n in range(1, settings["d_model"] + 1) if settings["d_model"] % n == 0]
            nearest = min(allowed, key=lambda n: abs(n - d_head))
            raise UserError(
                f"d_head: {d_head}; allowed: divisors of d_model = {settings['d_model']}, such as "
                f"{nearest}"
            )


def _seeds_together(slab: Slab) -> int:
    """Return the maximum number of seeds that are trained together."""
    start, stop = slab.get("seeds", (0, SEEDS_PER_BATCH))
    return int(min(SEEDS_PER_BATCH, stop - start))


def memory(slab: Slab) -> int:
    """Return the peak memory, in bytes, of the seeds that are trained together."""
    d, n, batch = slab["d_model"], slab["n_tokens"], slab["batch"]
    heads = d // min(slab["d_head"])
    rows = n * max(batch, data.HELD_OUT)
    outputs = max(map(data.outputs, data.TASKS))
    # Arrays of a layer: about 12 of d_model, two of the hidden layer, five of the scores.
    layer = rows * (12 * d + 2 * model.WIDER * d) + 5 * rows * n * heads
    work = model.LAYERS * layer
    if slab.get("network") == "gru":
        # States, gates and their parts at every position.
        work = 9 * rows * recurrent.same_size(_sizes(slab, min(slab["d_head"])))
    weights = 6 * (model.LAYERS * 12 * d * d + (outputs + 3 * n) * d)
    return int(4 * _seeds_together(slab) * (work + weights + 4 * rows * outputs))


def seconds(slab: Slab) -> float:
    """Return the approximate time of one seed of a slab on one core."""
    d, n, batch = slab["d_model"], slab["n_tokens"], slab["batch"]
    rows = n * batch
    step = 5e-4 + 1.1e-10 * rows * d * (12 * d + 16 * n)
    variants = len(slab["d_head"]) * len(slab["scaling"]) if slab["network"] != "gru" else 1
    return float(variants * slab["steps"] * step)


def cells(slab: Slab) -> Iterator[Cell]:
    """Yield the cells of one slab; some seeds are trained together on first use."""
    fixed: Row = {key.name: cast(Row, slab)[key.name] for key in (TASK, NETWORK, LEARNING_RATE)}
    start, stop = slab["seeds"]
    for first in range(start, stop, SEEDS_PER_BATCH):
        seeds = range(first, min(first + SEEDS_PER_BATCH, stop))
        same = lazy_batch(partial(measure, slab, slab["d_head"][0], {}), seeds)
        for d_head in slab["d_head"]:
            for scaling, rule in slab["scaling"].items():
                found = same
                if slab["network"] == "transformer":
                    found = lazy_batch(partial(measure, slab, d_head, rule), seeds)
                for run, seed in enumerate(seeds):
                    axes: Row = {"d_head": d_head, "scaling": scaling, "seed": seed}
                    yield fixed | axes, partial(found, run)


@np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore")
def measure(slab: Slab, d_head: int, rule: Entry, seeds: Sequence[int]) -> list[list[Row]]:
    """Return the rows of each seed, one a logged step; without a rule of a recurrent network.

    A run that diverges shows it in its numbers, without warnings.
    """
    task, n_tokens, every = slab["task"], slab["n_tokens"], slab["log_every"]
    sizes = _sizes(slab, d_head)
    reader: train.Reader = train.Recurrent(sizes)
    if rule:
        made = scale_rules.rule(rule, d_k=d_head, n_k=n_tokens)
        reader = train.Transformer(sizes, made)
    sink = sink_of(made) if rule else None
    held = next(data.batches(task, seeds, n_tokens=n_tokens, batch=data.HELD_OUT, held=True))
    count = float(sum(rows * columns for rows, columns in reader.shapes.values()))
    found: list[list[Row]] = [[] for _ in seeds]
    begun = np.full(len(seeds), np.inf)
    moments = train.train(
        reader, task, seeds, n_tokens=n_tokens, batch=slab["batch"], steps=slab["steps"],
        rate=slab["learning_rate"], is_logged=lambda step: step % every == 0,
    )  # fmt: skip
    for step, parameters in moments:
        now = evaluate(reader.forward(parameters, held), held, sink)
        if step == 0:
            begun = now["held_out_loss"]
        now["diverged"] = 1.0 - (now["held_out_loss"] <= begun)
        for run, rows in enumerate(found):
            row: Row = {name: float(x[run]) for name, x in now.items()}
            rows.append(row | {"step": step, "parameters": count})
    return found


def evaluate(found: train.Found, held: Sequences, sink: float | None) -> dict[str, Floats]:
    """Return the metrics of the held-out sequences, each [n_runs]."""
    targets = held.targets.reshape(len(held.targets), -1)
    loss, _ = model.cross_entropy(found.logits, targets)
    nothing = np.full(len(loss), np.nan)
    result = {
        "held_out_loss": np.where(np.isfinite(loss), loss, np.nan),
        "accuracy": np.mean(np.argmax(found.logits, axis=-1) == targets, axis=-1),
    }
    for layer in range(model.LAYERS):
        of_layer = _attention(found.attended[layer], sink) if found.attended else {}
        for name in ("entropy", "max_logit"):
            result[f"{name}_{layer}"] = of_layer.get(name, nothing)
        if layer == 0:
            for n in ROWS:
                result[f"entropy_row_{n}"] = of_layer.get(f"entropy_row_{n}", nothing)
    return result


def _attention(one: Attended, sink: float | None) -> dict[str, Floats]:
    """Return the metrics of one layer's attention, each [n_runs]."""
    logits = one.logits[:, :ATTENDED].astype(np.float64)
    found = row_metrics(logits if sink is None else with_sink(logits, sink))
    entropy = found.entropy_nats
    n_tokens = entropy.shape[-1]
    # The first row sees one key, and has no entropy to share.
    share = entropy[..., 1:] / np.log(np.arange(2, n_tokens + 1))
    top = np.max(logits, axis=(1, 2, 3, 4))
    result = {
        "entropy": np.mean(share, axis=(1, 2, 3)) if n_tokens > 1 else np.full(len(top), np.nan),
        "max_logit": np.where(np.isfinite(top), top, np.nan),
    }
    for n in ROWS:
        if n <= n_tokens:
            result[f"entropy_row_{n}"] = np.mean(entropy[..., n - 1], axis=(1, 2))
    return result
