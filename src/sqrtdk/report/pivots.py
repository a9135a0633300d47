"""Build the compact tables of the page: headline metrics against d_k, and crossings."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from sqrtdk.experiments.base import Pivot
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.experiments.scaling import crossings
from sqrtdk.schema import Column, Settings
from sqrtdk.stats import intervals, wording
from sqrtdk.stats.intervals import Estimate

NAMED = ("scaling", "reader")
"""Axes whose values are names that need no label."""

CELLS, COLUMNS = 30, 10
"""Series times arms, and columns that a table shows at most; summary.csv has all.
Columns that do not fit a page become blocks, one below the other."""

Rows = list[tuple[int, list["Cell | None"]]]


class Cell(NamedTuple):
    """One number of a table: the mean, with the interval and the exact value below it.

    `seeds` is set if some of the run's seeds lack the number.
    """

    mean: str
    interval: str = ""
    exact: str = ""
    seeds: str = ""


class Table(NamedTuple):
    """A metric by `down`: blocks of rows, each with the same series (columns) and variants.

    `fixed` are the axes that have one value in the whole table, `left_out` what is not shown.
    """

    name: str
    meaning: str
    unit: str
    down: str
    series: list[str]
    arms: list[str]
    blocks: list[tuple[str, Rows]]
    fixed: str
    left_out: str


class Crossings(NamedTuple):
    """The crossings by series (columns).

    `half` is where half of the entropy is lost, `levels` where other curves of the unscaled rule
    are past a level, `onset` is 2 ln n_k. Each of the `gradients` has a row for either way of
    pooling.
    """

    series: list[str]
    half: list[Cell | None]
    levels: list[tuple[str, list[Cell | None]]]
    onset: list[str]
    gradients: list[tuple[str, list[tuple[str, list[Cell | None]]]]]
    fixed: str
    left_out: str


def pivots(
    experiment: str,
    table: pd.DataFrame,
    settings: Settings,
    schema: Sequence[Column] | None = None,
) -> list[Table]:
    """Return the headline metrics of a table, each by d_k, in the order of the settings.

    For training step by step, only the last step counts. `schema` has the meanings of metrics if
    they are not those of the experiment's columns. Returns no tables if the row or the column
    axis is missing.
    """
    wanted = EXPERIMENTS[experiment].pivot
    inner, down = wanted.side, wanted.down
    if not {down, inner} <= set(table.columns):
        return []
    if "step" in table:
        table = table[table["step"] == table["step"].max()]
    columns = {column.name: column for column in schema or EXPERIMENTS[experiment].columns}
    # The values of an axis are compared with those of the configuration as text.
    names = [name for name, column in columns.items() if column.axis and name in table]
    table = table.astype({name: str for name in names if name != down})
    present, seeds = set(table["metric"]), int(table["n_seeds"].max())
    headlines = wanted.metrics or [name for name in columns if name in present][:6]
    return [
        _pivot(columns[name], table[table["metric"] == name], wanted, seeds, settings)
        for name in headlines
        if name in present
    ]


def _pivot(
    column: Column,
    table: pd.DataFrame,
    wanted: Pivot,
    seeds: int,
    settings: Settings,
) -> Table:
    by, inner = wanted.down, wanted.side
    axes = [name for name in table.columns[: list(table.columns).index("metric")] if name != by]
    values = {name: _ordered(table[name], settings.get(name)) for name in axes}
    arms, sizes = values.pop(inner), sorted(set(table[by]))
    varying = [name for name in values if len(values[name]) > 1]
    # The last axes are side by side as far as they fit; the first ones make blocks.
    split, width = len(varying), len(arms)
    while split and width * len(values[varying[split - 1]]) <= COLUMNS:
        split -= 1
        width *= len(values[varying[split]])
    down, across = varying[:split], varying[split:]
    records = table.to_dict("records")
    blocks, series = _groups(records, down, values), _groups(records, across, values)
    shown_arms, rows = arms[:CELLS], wanted.most
    shown = _some(blocks, CELLS // (len(shown_arms) * len(series)))
    cells = {
        (row[by], *(row[name] for name in (*down, *across, inner))): _cell(row, seeds)
        for row in records
    }
    columns = [(*one, arm) for one in series for arm in shown_arms]

    def lines(block: tuple[str, ...]) -> Rows:
        """Return the rows of a block, evenly spaced over the sizes that have a number."""
        full = [(x, [cells.get((x, *block, *one)) for one in columns]) for x in sizes]
        return intervals.evenly_spaced([(x, row) for x, row in full if any(row)], rows)

    return Table(
        column.name,
        column.meaning,
        column.unit,
        by,
        [_label(across, one) for one in series],
        [arm if inner in NAMED else f"{inner} = {arm}" for arm in shown_arms],
        [(_label(down, block), lines(block)) for block in shown],
        _fixed(values),
        _left_out(
            (min(rows, len(sizes)), len(sizes), f"values of {by}"),
            (len(shown) * len(series), len(blocks) * len(series), "series"),
            (len(shown_arms), len(arms), f"values of {inner}"),
        ),
    )


def _cell(row: Mapping[Any, Any], seeds: int) -> Cell:
    value = Estimate(*(float(row[x]) for x in ("mean", "ci_low", "ci_high")))
    if math.isinf(value.mean):
        return Cell(f"more than {row['steps']}")
    found = _number(value, float(row["exact"]))
    count = int(row["n_seeds"])
    return found._replace(seeds=f"{count} of {seeds} seeds") if count < seeds else found


def _number(value: Estimate, exact: float) -> Cell:
    mean, _, interval = wording.format_estimate(value).partition(" ")
    return Cell(mean, interval, _exact(exact))


def _exact(exact: float) -> str:
    if math.isnan(exact):
        return ""
    return f"exact {'never' if math.isinf(exact) else wording.format_number(exact, 4)}"


# Crossings

LEVELS = {
    crossings.ONE_HOT: f"largest weight {crossings.LEVELS[crossings.ONE_HOT].level}",
    crossings.DEAD: "half of the entries dead",
}


def from_which(rows: Sequence[Mapping[str, str]], settings: Settings) -> Crossings | None:
    """Return crossings.csv as a table; None without crossings or without the experiment."""
    if not rows or "d_k" not in settings:
        return None
    axes = [column.name for column in crossings.COLUMNS if column.axis]
    axes.remove("quantity")
    values = {name: _ordered([row[name] for row in rows], settings.get(name)) for name in axes}
    varying = [name for name in values if len(values[name]) > 1]
    series = _groups(rows, varying, values)
    shown = _some(series, CELLS)
    # At d_k = 1 the rules are the same, so nothing crosses there.
    sizes = [d_k for d_k in settings["d_k"] if d_k > 1] or settings["d_k"]
    found = {(row["quantity"], *(row[name] for name in varying)): row for row in rows}

    def cells(quantity: str) -> list[Cell | None]:
        there = [found.get((quantity, *one)) for one in shown]
        return [_crossing(row, sizes) if row else None for row in there]

    onset = {tuple(row[name] for name in varying): row["two_ln_n_k"] for row in rows}
    gradients = [
        (f"grad_{x}", [(pooled, cells(f"grad_{x}_{pooled}")) for pooled in ("rms", "median")])
        for x in crossings.CROSSING_GRADIENTS
    ]
    return Crossings(
        [_label(varying, one) for one in shown],
        cells(crossings.HALF),
        [(words, there) for quantity, words in LEVELS.items() if any(there := cells(quantity))],
        [wording.format_number(float(onset[one])) for one in shown],
        [(x, pair) for x, pair in gradients if any(cell for _, row in pair for cell in row)],
        _fixed(values),
        _left_out((len(shown), len(series), "series")),
    )


def _crossing(row: Mapping[str, str], sizes: Sequence[int]) -> Cell:
    """Return a crossing as a cell. Beyond the grid, only theory says whether there is one."""
    exact = float(row["exact"] or "nan")
    if row["d_k"]:
        value = Estimate(*(float(row[x] or "nan") for x in ("d_k", "ci_low", "ci_high")))
        return _number(value, exact)
    words = {"never": f"none up to {sizes[-1]}", "always": f"already at {sizes[0]}"}
    measured = words.get(row["beyond"], "undefined")
    if math.isinf(exact) and row["beyond"] == "never":
        return Cell("never", measured)
    return Cell(measured, "", _exact(exact))


# Series


def _ordered(column: Iterable[str], given: object) -> list[str]:
    """Return the values of an axis in the order of the configuration, then other values."""
    known = [str(value) for value in given] if isinstance(given, list) else []

    def place(value: str) -> tuple[int, int, str]:
        at = known.index(value) if value in known else len(known)
        return at, int(value) if value.isdecimal() else 0, value

    return sorted(set(column), key=place)


def _groups(
    rows: Iterable[Mapping[Any, Any]], names: Sequence[str], values: Mapping[str, list[str]]
) -> list[tuple[str, ...]]:
    """Return the combinations of some axes that occur, in the order of their values."""
    found = {tuple(row[name] for name in names) for row in rows}
    places = [values[name].index for name in names]
    return sorted(found, key=lambda one: [at(x) for at, x in zip(places, one, strict=True)])


def _some(groups: list[tuple[str, ...]], most: int) -> list[tuple[str, ...]]:
    return [
        groups[place] for place in intervals.evenly_spaced(list(range(len(groups))), max(1, most))
    ]


def _label(names: Iterable[str], group: Iterable[str]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in zip(names, group, strict=True))


def _fixed(values: Mapping[str, list[str]]) -> str:
    """Return the axes that have one value in the whole table."""
    single = {name: found[0] for name, found in values.items() if len(found) == 1}
    return _label(single, single.values())


def _left_out(*counts: tuple[int, int, str]) -> str:
    return ", ".join(f"{some} of {all_} {what}" for some, all_, what in counts if some < all_)
