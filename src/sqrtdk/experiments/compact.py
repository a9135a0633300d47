"""Hold compact tables of the report, and lay out their rows, columns and cells."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from sqrtdk.schema import Column
from sqrtdk.stats import intervals, wording
from sqrtdk.stats.intervals import Estimate

CELLS, COLUMNS = 30, 10
"""Series times arms, and columns that a table shows at most; summary.csv has all.
Columns that do not fit a page become blocks, one below the other."""

Rows = list[tuple[int | str, list["Cell | None"]]]


class Cell(NamedTuple):
    """One number of a table: the mean, with the interval and the exact value below it.

    `seeds` is set if some of the run's seeds lack the number.
    """

    mean: str
    interval: str = ""
    exact: str = ""
    seeds: str = ""

    @property
    def below(self) -> list[str]:
        """Return the quieter line under the mean."""
        return [text for text in (self.interval, self.exact) if text]


class Table(NamedTuple):
    """A metric by `down`: blocks of rows, each with the same series (columns) and variants.

    `fixed` are the axes that have one value in the whole table, `left_out` what is not shown.
    A `title` is that of a derived table, which `name` names; others have that of their metric.
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
    title: str = ""

    @property
    def wide(self) -> bool:
        """Return whether the table has too many columns for a sheet of paper at its usual size."""
        return len(self.series) * len(self.arms) > 8


def summarized(
    table: pd.DataFrame,
    schema: Sequence[Column],
    metrics: Mapping[str, tuple[str, ...]],
    also: Sequence[str] = (),
) -> pd.DataFrame:
    """Return metrics of a derived table in the shape of summary.csv, a row for each number.

    `metrics` maps the name of a metric to the columns of its mean and the ends of its interval,
    without ends if it has none. Axes are those of `schema`. Columns `also` are kept.
    """
    axes = [column.name for column in schema if column.axis]
    parts = []
    for metric, (mean, *ends) in metrics.items():
        rows = table[table[mean].notna()]
        low, high = (rows[name] for name in ends) if ends else (math.nan, math.nan)
        parts.append(
            rows[axes].assign(
                metric=metric,
                n_seeds=rows["n_seeds"],
                mean=rows[mean],
                ci_low=low,
                ci_high=high,
                exact=math.nan,
                **{name: rows[name] for name in also},
            )
        )
    return pd.concat(parts)


def own_ends(*metrics: str) -> dict[str, tuple[str, ...]]:
    """Return the columns of metrics whose ends are named after them, for `summarized`."""
    return {name: (name, f"{name}_low", f"{name}_high") for name in metrics}


def number(value: Estimate, exact: float) -> Cell:
    """Return a number as a cell."""
    mean, _, interval = wording.format_estimate(value).partition(" ")
    return Cell(mean, interval, exact_value(exact))


def exact_value(exact: float) -> str:
    """Return an exact value in words; empty without theory."""
    if math.isnan(exact):
        return ""
    return f"exact {'never' if math.isinf(exact) else wording.format_number(exact, 4)}"


def ordered(column: Iterable[str], given: object) -> list[str]:
    """Return the values of an axis in the order of the configuration, then other values."""
    known = [str(value) for value in given] if isinstance(given, list) else []

    def place(value: str) -> tuple[int, int, str]:
        at = known.index(value) if value in known else len(known)
        return at, int(value) if value.isdecimal() else 0, value

    return sorted(set(column), key=place)


def groups(
    rows: Iterable[Mapping[Any, Any]], names: Sequence[str], values: Mapping[str, list[str]]
) -> list[tuple[str, ...]]:
    """Return the combinations of some axes that occur, in the order of their values."""
    found = {tuple(row[name] for name in names) for row in rows}
    places = [values[name].index for name in names]
    return sorted(found, key=lambda one: [at(x) for at, x in zip(places, one, strict=True)])


def some(found: list[tuple[str, ...]], most: int) -> list[tuple[str, ...]]:
    """Return at most this many groups, evenly spaced, in any case one."""
    return [
        found[place] for place in intervals.evenly_spaced(list(range(len(found))), max(1, most))
    ]


def label(names: Iterable[str], group: Iterable[str]) -> str:
    """Name a group by the values of some axes."""
    return ", ".join(f"{name} = {value}" for name, value in zip(names, group, strict=True))


def fixed(values: Mapping[str, list[str]]) -> str:
    """Return the axes that have one value in the whole table."""
    single = {name: found[0] for name, found in values.items() if len(found) == 1}
    return label(single, single.values())


def left_out(*counts: tuple[int, int, str]) -> str:
    """Say what a table does not show, from what it shows, what there is, and its name."""
    return ", ".join(f"{shown} of {all_} {what}" for shown, all_, what in counts if shown < all_)
