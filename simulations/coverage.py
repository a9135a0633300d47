"""Simulate the coverage of 95 % intervals: `python -m simulations.coverage` prints the tables.

Blocks of seeds are summarized like those of a run, and the share of blocks whose interval contains
the true value is counted, as are those whose interval is wholly below or above it. The true value
is the exact one if theory has it, otherwise that of all seeds of the simulation together.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from simulations.draws import RULES, Pool, pool
from sqrtdk.core import scale_rules
from sqrtdk.experiments.scaling import measure as scaling
from sqrtdk.schema import Column
from sqrtdk.stats import agreement, by_row
from sqrtdk.stats.curves import Curve, crossing, relative_range
from sqrtdk.stats.intervals import Estimate, MissingError, paired_ratio, statistics, typical
from sqrtdk.theory import exact_table, expectations, thresholds
from sqrtdk.theory.points import Point

SEEDS = (3, 5, 20, 100)

CELLS = ((16, 1), (16, 16), (16, 256), (16, 4096), (64, 16), (64, 4096))
"""n_k and d_k. At 4096 the unscaled softmax is saturated."""

SIMULATED, BLOCKS = 100_000, 1000
"""Seeds of each cell, and the blocks of each number of seeds: so many that 100 seeds have them."""

N_Q = 64

COLUMNS = tuple(
    column
    for column in scaling.COLUMNS
    # The others are functions of these, and the scale does not vary.
    if not column.axis and "scores" not in column.name and column.name != "scale"
)


class Coverage(NamedTuple):
    """The coverage of the intervals of one column, in one cell and scale rule.

    `share` of the blocks cover; the intervals of the shares `under` and `over` are wholly below and
    above the true value.
    """

    kind: str
    seeds: int
    blocks: int
    share: float
    under: float
    over: float
    where: str


Interval = tuple[float, float]


def coverage_of(
    kind: str, seeds: int, intervals: Sequence[Interval], value: float, where: str
) -> Coverage:
    """Return how many intervals cover the true value, and on which side of it the others are."""
    # Allow for rounding, because the interval of a constant has no width.
    room = 1e-12 * abs(value)
    ends = np.array(intervals)
    under, over = ends[:, 1] < value - room, ends[:, 0] > value + room
    covered, below, above = (float(np.mean(x)) for x in (~(under | over), under, over))
    return Coverage(kind, seeds, len(ends), covered, below, above, where)


def kind_of(column: Column) -> str:
    """Return which estimator a column has."""
    if column.pool != "mean":
        return {"rms": "quadratic mean", "median": "median over seeds"}[column.pool]
    if column.skewed:
        return "share of the largest rows"
    return "counted share" if column.counted else "mean"


def truth(column: Column, values: NDArray[np.float64], *, d_k: int, n_k: int, arm: str) -> float:
    """Return the value that a column's `mean` estimates."""
    factor = scale_rules.factor(RULES[arm], d_k=d_k, n_k=n_k)
    if factor is None:
        raise ValueError(f"{arm} is not a factor")
    point = Point(n_k, float(d_k), factor)
    exact = exact_table.value(column.name, point, expectations.expectations(*point[:3]), N_Q)
    if exact is not None:
        return exact
    if column.pool == "median":
        return typical(values)
    return float(np.mean(values))


def blocks_of(values: NDArray[np.float64], seeds: int, most: int) -> NDArray[np.float64]:
    """Return disjoint blocks of seeds, [blocks, seeds] or [arms, blocks, seeds]."""
    count = min(most, values.shape[-1] // seeds)
    return values[..., : count * seeds].reshape(*values.shape[:-1], count, seeds)


def of_cell(
    found: Pool, *, d_k: int, n_k: int, seeds: Iterable[int] = SEEDS, most: int = BLOCKS
) -> Iterator[Coverage]:
    """Yield the coverage of every column of a cell, for both rules and for their ratio."""
    sizes = {"n_q": N_Q, "n_k": n_k}
    for count, column in itertools.product(seeds, COLUMNS):
        things = [x if isinstance(x, int) else sizes[x] for x in column.counted]
        for arm, columns in found.items():
            values = columns[column.name]
            value = truth(column, values, d_k=d_k, n_k=n_k, arm=arm)
            if np.ptp(values) == 0:
                continue
            blocks = blocks_of(values, count, most)
            each = by_row.statistics(
                blocks,
                pool=column.pool,
                exact=np.full(len(blocks), np.nan),
                counted=np.full(len(blocks), math.prod(things)) if things else None,
                independent=np.full(len(blocks), float(things[0])) if things else None,
                skewed=column.skewed,
            )
            ends = list(zip(each["ci_low"].tolist(), each["ci_high"].tolist(), strict=True))
            where = f"{column.name}, n_k = {n_k}, d_k = {d_k}, {arm}"
            yield coverage_of(kind_of(column), count, ends, value, where)
        if d_k > 1:
            yield from _of_ratio(found, column, count, most, f"n_k = {n_k}, d_k = {d_k}")


def _of_ratio(found: Pool, column: Column, count: int, most: int, where: str) -> Iterator[Coverage]:
    both = np.array([found[arm][column.name] for arm in ("off", "on")])
    try:
        value = paired_ratio(*both, pool=column.pool).mean
    except MissingError:
        return
    if np.ptp(both[0] / np.where(both[1] > 0, both[1], 1)) < 1e-9 or not value > 0:
        return
    ends: list[Interval] = []
    for over, under in blocks_of(both, count, most).swapaxes(0, 1):
        try:
            one = paired_ratio(over, under, pool=column.pool)
        except MissingError:
            continue
        if not math.isnan(one.low):
            ends.append((one.low, one.high))
    # A share that is 0 in most blocks has a ratio in few blocks only.
    if len(ends) > most / 4:
        kind = f"ratio of scale rules, {kind_of(column)}"
        yield coverage_of(kind, count, ends, value, f"{column.name}, {where}")


GRID = tuple(2**i for i in range(13))


def of_curves(
    pools: dict[int, Pool], *, n_k: int, seeds: Iterable[int] = SEEDS, most: int = BLOCKS
) -> Iterator[Coverage]:
    """Yield the coverage of crossings and of a range over the default grid of d_k."""
    for count in seeds:
        ends: dict[str, list[Interval]] = {}
        values: dict[str, float] = {}
        for block in range(min(most, min(len(p["on"]["scale"]) for p in pools.values()) // count)):
            part = slice(block * count, (block + 1) * count)
            for name, curve, level, value in _curves(pools, part, n_k):
                found = relative_range(curve) if level is None else crossing(curve, level)
                # A curve that does not cross inside the grid has nothing to cover.
                if found is not None:
                    values[name] = value
                    ends.setdefault(name, []).append((found.low, found.high))
        for name, some in ends.items():
            kind = "range over d_k" if "range" in name else "crossing"
            yield coverage_of(kind, count, some, values[name], f"{name}, n_k = {n_k}")


def _curves(
    pools: dict[int, Pool], part: slice, n_k: int
) -> Iterator[tuple[str, Curve, float | None, float]]:
    def curve(arm: str, metric: str) -> Curve:
        found = {}
        for d_k, cell in pools.items():
            one = statistics(cell[arm][metric][part])
            found[d_k] = Estimate(one["mean"], one["ci_low"], one["ci_high"])
        return found

    def ratio(metric: str) -> Curve:
        return {
            d_k: paired_ratio(cell["off"][metric][part], cell["on"][metric][part], pool="rms")
            for d_k, cell in pools.items()
            if d_k > 1
        }

    half, one_hot, gradient, moved = _exact(n_k, tuple(pools))
    yield "half of the entropy", curve("off", "entropy_normalized"), 0.5, half
    yield "max_weight 0.9", curve("off", "max_weight"), 0.9, one_hot
    yield "grad_logits_rms", ratio("grad_logits_rms"), 1.0, gradient
    yield "range of the scaled entropy", curve("on", "entropy_nats"), None, moved


@cache
def _exact(n_k: int, sizes: tuple[int, ...]) -> tuple[float, float, float, float]:
    """Return the exact crossings and the exact range; finding roots takes seconds."""
    entropies = [expectations.expectations(n_k, float(d), d**-0.5).entropy_nats for d in sizes]
    return (
        thresholds.half_entropy_d_k(n_k),
        thresholds.one_hot_d_k(n_k),
        thresholds.gradient_crossing_d_k(n_k),
        1 - min(entropies) / max(entropies),
    )


def table(found: Iterable[Coverage]) -> str:
    """Return the mean and the smallest coverage of each kind, as a table in Markdown."""

    def cell(some: Sequence[Coverage]) -> str:
        shares = [one.share for one in some]
        return f"{np.mean(shares):.3f} ({min(shares):.3f})"

    return _by_kind(found, cell, "smallest at", lambda one: one.share)


def one_sided(found: Iterable[Coverage]) -> str:
    """Return the largest share of intervals below, and above, the true value, in per cent."""

    def cell(some: Sequence[Coverage]) -> str:
        return f"{100 * max(x.under for x in some):.1f} / {100 * max(x.over for x in some):.1f}"

    return _by_kind(found, cell, "largest at", lambda one: -max(one.under, one.over))


def _by_kind(
    found: Iterable[Coverage],
    cell: Callable[[Sequence[Coverage]], str],
    head: str,
    worst: Callable[[Coverage], float],
) -> str:
    kinds: dict[str, dict[int, list[Coverage]]] = {}
    for one in found:
        kinds.setdefault(one.kind, {}).setdefault(one.seeds, []).append(one)
    heads = [*(f"{seeds} seeds" for seeds in SEEDS), head]
    lines = [f"| interval | {' | '.join(heads)} |", "|---" * (len(SEEDS) + 2) + "|"]
    for kind, by_seeds in kinds.items():
        cells = [cell(by_seeds[seeds]) if seeds in by_seeds else "" for seeds in SEEDS]
        at = min(itertools.chain(*by_seeds.values()), key=worst)
        lines.append(f"| {kind} | {' | '.join(cells)} | {at.where}, {at.seeds} seeds |")
    return "\n".join(lines)


def noticed(pools: dict[tuple[int, int], Pool], metric: str) -> float:
    """Return the smallest relative error in one metric that fails the agreement test."""
    rows = []
    for (n_k, d_k), found in pools.items():
        for arm, column in itertools.product(RULES, COLUMNS):
            exact = math.nan
            if exact_table.value(
                column.name, Point(n_k, 4.0, 1.0), expectations.expectations(n_k, 4, 1), 1
            ):
                exact = truth(column, found[arm][column.name], d_k=d_k, n_k=n_k, arm=arm)
            if math.isnan(exact):
                continue
            one = statistics(found[arm][column.name][:100], pool=column.pool, exact=exact)
            rows.append(
                {"d_k": d_k, "n_k": n_k, "n_q": N_Q, "inputs": "gaussian", "dtype": "float64"}
                | {"metric": column.name, "power": 2 if column.pool == "rms" else 1}
                | one
            )
    frame = pd.DataFrame(rows).dropna(subset="z")
    target = frame["exact"] ** frame["power"]
    error = (frame["mean"] ** frame["power"] - target) / frame["z"]
    for factor in np.geomspace(1e-4, 1, 81).tolist():
        wrong = target * ((1 + factor) ** frame["power"] - 1) / error
        gate = agreement.agreement_test(
            frame.assign(z=frame["z"] + wrong.where(frame["metric"] == metric, 0))
        )
        if gate is not None and not gate.passed:
            return float(factor)
    return math.inf


def main() -> None:
    """Print the tables of docs/statistics.md."""
    found: list[Coverage] = []
    for n_k, d_k in CELLS:
        found += of_cell(pool(SIMULATED, d_k=d_k, n_k=n_k), d_k=d_k, n_k=n_k)
    grid = {d_k: _drawn(pool(SIMULATED, d_k=d_k, n_k=16)) for d_k in GRID}
    found += of_curves(grid, n_k=16)
    print(table(found), end="\n\n")
    print(one_sided(found), end="\n\n", flush=True)
    pools = {(n_k, d_k): pool(100, d_k=d_k, n_k=n_k) for n_k in (16, 64) for d_k in GRID}
    print("| relative error everywhere in | smallest error detected |\n|---|---|")
    for metric in ("entropy_nats", "max_weight", "sum_sq_weights", "jacobian_norm", "grad_q_rms"):
        print(f"| {metric} | {100 * noticed(pools, metric):.2g} % |")


def _drawn(found: Pool) -> Pool:
    """Keep only the metrics that have a curve: 13 sizes are held at a time."""
    kept = ("entropy_nats", "entropy_normalized", "max_weight", "grad_logits_rms", "scale")
    return {arm: {name: columns[name] for name in kept} for arm, columns in found.items()}


if __name__ == "__main__":
    main()
