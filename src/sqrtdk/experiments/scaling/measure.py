"""Scaling on and off against d_k: the effect on the softmax and its gradients.

A slab is one combination of sizes, input law and dtype; its cells are seeds × scale rules. All
scale rules of a seed share one draw and its scores.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from sqrtdk import schema
from sqrtdk.core import kernel_sizes, metrics, scale_rules
from sqrtdk.core.attention import ScaleRule, needs_all_queries
from sqrtdk.core.input_laws import Array, Inputs, draw
from sqrtdk.core.kernel import Kernel
from sqrtdk.experiments.cells import Cell, lazy_batch
from sqrtdk.schema import Column, Key, Slab
from sqrtdk.storage.tables import Row

CONFIG_KEYS: tuple[Key, ...] = (
    schema.D_K,
    schema.N_K,
    schema.N_Q,
    schema.D_V,
    schema.INPUTS,
    schema.DTYPE,
    schema.SCALING,
    schema.SEED,
)

BATCHED_AXES: tuple[str, ...] = ()

GRADIENTS = {
    "logits": "the logits (scores after scaling), one row a query",
    "scores": "the scores q·k (before scaling; norms of q and k held fixed), one row a query",
    "q": "the queries, one row a query",
    "k": "the keys, one row a key",
    "v": "the values, one row a key",
}


def top_rows(n_rows: int) -> int:
    """Return the number of rows whose share of the square `grad_*_top1_share` is: 1 %, rounded up.

    >>> top_rows(64), top_rows(256), top_rows(1000)
    (1, 3, 10)
    """
    return -(-n_rows // 100)


def top_rows_in_words(n_rows: int) -> str:
    """Name the rows of `grad_*_top1_share`, as a subject in the plural or singular.

    >>> top_rows_in_words(64), top_rows_in_words(256)
    ('the largest of 64 rows', 'the 3 largest of 256 rows')
    """
    count = top_rows(n_rows)
    return f"the {f'{count} ' if count > 1 else ''}largest of {n_rows} rows"


def _gradient_columns(x: str, what: str) -> tuple[Column, ...]:
    norm = f"the row norms of the gradient of L = ⟨G, O⟩ with respect to {what}, over √d_v"
    rows = "n_k" if x in ("k", "v") else "n_q"
    return (
        Column(f"grad_{x}_rms", f"Root mean square of {norm}.", pool="rms"),
        Column(f"grad_{x}_median", f"Median of {norm}.", pool="median"),
        Column(
            f"grad_{x}_q05",
            f"5 % quantile of {norm}, linear between two rows. A cell has few rows below its 5 % "
            f"quantile, so in saturated cells the value depends on {rows}.",
            pool="median",
        ),
        Column(
            f"grad_{x}_q95",
            f"95 % quantile of {norm}, linear between two rows. A cell has few rows above it, so "
            f"in saturated cells the value depends on {rows}.",
            pool="median",
        ),
        Column(
            f"grad_{x}_dead_rows",
            f"Share of rows below 1e-3 among {norm}.",
            "share",
            counted=(rows,),
        ),
        Column(
            f"grad_{x}_top1_share",
            f"Share of the total square held by the largest of {norm}. Their number is 1 % of "
            f"{rows}, rounded up: 1 of 64 rows (1.56 %), 3 of 256 (1.17 %). Empty when every row "
            "is zero.",
            "share",
            optional=True,
            skewed=True,
        ),
    )


AXES = tuple(
    schema.axis_column(key)
    for key in (
        schema.D_K,
        schema.N_K,
        schema.N_Q,
        schema.INPUTS,
        schema.DTYPE,
        schema.SCALING,
        schema.SEED,
    )
)
"""Axes that name a cell."""

COLUMNS: tuple[Column, ...] = (
    *AXES,
    Column(
        "scale",
        "Factor that the scores are multiplied by, before a cap; mean over pairs of query and key "
        "if each pair has its own (scale rules that depend on norms).",
    ),
    Column(
        "logit_std",
        "Standard deviation of the logits across keys: root mean square over queries of each "
        "row's (n_k - 1) standard deviation. Empty when n_k = 1.",
        optional=True,
        pool="rms",
    ),
    Column("entropy_nats", "Entropy of the attention weights, mean over queries.", "nats"),
    Column(
        "entropy_normalized",
        "Entropy over its largest possible value ln n_k, mean over queries. Empty when n_k = 1.",
        "share",
        optional=True,
    ),
    Column(
        "effective_keys",
        "Exponential of the entropy (perplexity), mean over queries: how many keys share the "
        "attention.",
        "keys",
    ),
    Column(
        "sum_sq_weights",
        "Sum of the squared weights of a query, mean over queries.",
        within=schema.SHARE,
    ),
    Column("max_weight", "Largest weight of a query, mean over queries.", within=schema.SHARE),
    Column(
        "max_weight_gap",
        "1 - largest weight, without cancellation, mean over queries.",
        within=schema.SHARE,
    ),
    Column(
        "jacobian_norm",
        "Frobenius norm of the softmax Jacobian diag(p) - p pᵀ, root mean square over queries.",
        pool="rms",
    ),
    *(column for x, what in GRADIENTS.items() for column in _gradient_columns(x, what)),
    Column(
        "grad_logits_dead_entries",
        "Share of single entries of the gradient with respect to the logits, over √d_v, that are "
        "below 1e-3/n_k in magnitude.",
        "share",
        counted=("n_q", "n_k"),
    ),
)


def memory(slab: Slab) -> int:
    """Return the peak memory, in bytes, of computing one batch of cells of a slab."""
    n_q, n_k, d_k, d_v = slab["n_q"], slab["n_k"], slab["d_k"], slab["d_v"]
    rules = slab.get("scaling", {})
    cells = kernel_sizes.batch_size(n_q, n_k, d_k, d_v)
    # q, k, v and g, twice while they are drawn and cast.
    drawn = 2 * (n_q + n_k) * (d_k + d_v)
    grams = kernel_sizes.gram_norms(n_q, n_k, d_k, d_v).values()
    rows = kernel_sizes.block_rows(n_q, n_k, max(d_k, d_v), whole=any(grams))
    made = (scale_rules.rule(rule, d_k=d_k, n_k=n_k) for rule in rules.values())
    if any(needs_all_queries(rule) for rule in made):
        rows = n_q
    # Scores, dL/d weights, weights, gradient; more than twice more for rules that use q and k.
    # And a mask, of one byte an entry.
    plain = all(scale_rules.is_factor(rule) for rule in rules.values())
    blocks = ((4 if plain else 14) + 1 / 8) * rows * n_k
    # One gradient at a time, or the sums for k and v over the blocks for each rule.
    gradient = max(rows, n_k) * max(d_k, d_v)
    sums = 0 if rows == n_q else max(2, len(rules)) * n_k * (d_k + d_v)
    return 8 * int(cells * (drawn + blocks + gradient + sums))


def seconds(slab: Slab) -> float:
    """Return the approximate time of one seed of a slab on one core."""
    n_q, n_k, vectors = slab["n_q"], slab["n_k"], slab["d_k"] + slab["d_v"]
    # Measured on one machine: random numbers, then element-wise steps and products of each rule.
    each = n_q * n_k * (5e-9 + 1.2e-10 * vectors)
    return float(1e-4 + 1.5e-8 * (n_q + n_k) * vectors + len(slab["scaling"]) * (1e-4 + each))


Measure = Callable[[Kernel, Inputs, Sequence[ScaleRule]], list[list[Row]]]
"""Measure a batch of cells: for each scale rule a list with the row of each cell."""


def cells(slab: Slab) -> Iterator[Cell]:
    """Return the cells of one slab, seed by seed, each with the function that measures it.

    Cells are computed in batches, on the first use of a cell of the batch.
    """
    return cells_of(slab, measure)


def cells_of(slab: Slab, measure: Measure) -> Iterator[Cell]:
    """Return the cells of one slab like `cells`, with the columns of another measurement."""
    sizes = {"d_k": slab["d_k"], "n_k": slab["n_k"], "n_q": slab["n_q"]}
    ((inputs, law),) = slab["inputs"].items()
    rules = {
        name: scale_rules.rule(entry, d_k=slab["d_k"], n_k=slab["n_k"])
        for name, entry in slab["scaling"].items()
    }
    core = Kernel()
    seeds = range(*slab["seeds"])
    size = kernel_sizes.batch_size(slab["n_q"], slab["n_k"], slab["d_k"], slab["d_v"])
    for start in range(0, len(seeds), size):
        some = seeds[start : start + size]
        drawn = partial(draw, law, **sizes, d_v=slab["d_v"], dtype=slab["dtype"])
        measured = lazy_batch(partial(_measure, measure, core, drawn), list(rules.values()), some)
        for (place, seed), (rule, scaling) in itertools.product(enumerate(some), enumerate(rules)):
            axes: Row = {"inputs": inputs, "dtype": slab["dtype"], "scaling": scaling, "seed": seed}
            yield sizes | axes, partial(measured, rule, place)


def _measure(
    measure: Measure,
    core: Kernel,
    drawn: Callable[..., Inputs],
    rules: list[ScaleRule],
    seeds: Sequence[int],
) -> list[list[Row]]:
    return measure(core, batch(core, [drawn(seed=seed) for seed in seeds]), rules)


def batch(core: Kernel, draws: Sequence[Inputs]) -> Inputs:
    """Combine draws of cells of one size into one batch, in buffers of the kernel."""
    if len(draws) == 1:
        return Inputs(*(array[np.newaxis] for array in draws[0]))
    stacked = []
    for name, arrays in zip(Inputs._fields, zip(*draws, strict=True), strict=True):
        # Releasing and allocating the memory again would cost more than the copy.
        out = core.buffers.get(f"drawn {name}", (len(arrays), *arrays[0].shape), arrays[0].dtype)
        stacked.append(np.stack(arrays, out=out))
    return Inputs(*stacked)


def measure(core: Kernel, arrays: Inputs, rules: Sequence[ScaleRule]) -> list[list[Row]]:
    """Measure every metric of the cells of a batch, without masks, for each rule and cell.

    Shapes: q [cells, n_q, d_k], k [cells, n_k, d_k], v [cells, n_k, d_v], g [cells, n_q, d_v].
    """
    n_k, d_v = arrays.v.shape[1:]
    unit = d_v**-0.5
    result = []
    for found in core.measure(*arrays, rules, dead_below=1e-3 / n_k / unit):
        columns = {"scale": found.scale, "logit_std": found.logit_std}
        for name in found.rows._fields:
            average = _rms if name == "jacobian_norm" else _mean
            columns[name] = average(getattr(found.rows, name))
        for x in GRADIENTS:
            summary = metrics.summarize_norms(found.norms[x].astype(np.float64) * unit)
            columns |= {f"grad_{x}_{name}": getattr(summary, name) for name in summary._fields}
        columns["grad_logits_dead_entries"] = found.dead_entries
        by_cell = zip(*(values.tolist() for values in columns.values()), strict=True)
        result.append([dict(zip(columns, values, strict=True)) for values in by_cell])
    return result


def _mean(values: Array) -> Array:
    mean: Array = np.mean(values, axis=-1, dtype=np.float64)
    return mean


def _rms(values: Array) -> Array:
    return metrics.rms(values.astype(np.float64))
