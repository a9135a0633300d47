"""Build the small tables of the page that answer a question: rows of derived tables."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from sqrtdk.experiments import compact
from sqrtdk.experiments.base import Small, Value
from sqrtdk.experiments.compact import Cell, Table
from sqrtdk.figures import words
from sqrtdk.schema import Column, Settings
from sqrtdk.stats import intervals
from sqrtdk.stats.intervals import Estimate

Key = tuple[str, ...]


def small(
    wanted: Small, table: pd.DataFrame, schema: Sequence[Column], settings: Settings
) -> Table | None:
    """Return a table of the page from a derived table; None if it has no row for it."""
    for name, value in wanted.where.items():
        table = table[table[name] == value]
    table = table.dropna(subset=[value.number for value in wanted.numbers], how="all")
    if table.empty:
        return None
    columns = {column.name: column for column in schema}
    shown = {value.number for value in wanted.numbers} | set(wanted.pooled)
    axes = [column.name for column in schema if column.axis and column.name not in shown]
    sides = [wanted.side] if wanted.side else []
    axes = list(dict.fromkeys([*axes, *sides]))
    found = {
        tuple(map(str, key if isinstance(key, tuple) else (key,))): rows
        for key, rows in table.groupby(axes, sort=True)
    }
    order = {name: compact.ordered(table[name].astype(str), settings.get(name)) for name in axes}
    others = [name for name in axes if name not in (wanted.down, wanted.side)]
    varying = [name for name in others if len(order[name]) > 1]
    blocks = compact.groups([dict(zip(axes, key, strict=True)) for key in found], varying, order)

    def cells(block: Key, down: str) -> list[Cell | None]:
        at = dict(zip(varying, block, strict=True)) | {wanted.down: down}
        fixed = {name: order[name][0] for name in others if name not in varying}
        return [
            _cell(
                value,
                columns[value.number],
                found.get(tuple((at | fixed | side)[name] for name in axes)),
                wanted.pooled,
            )
            for side in ([{wanted.side: x} for x in order[wanted.side]] if sides else [{}])
            for value in wanted.numbers
        ]

    lines = {
        block: [
            (_named(wanted.down, down), row)
            for down in order[wanted.down]
            if any(row := cells(block, down))
        ]
        for block in blocks
    }
    single = {name: order[name][0] for name in others if name not in varying}
    return Table(
        wanted.table,
        wanted.meaning,
        "",
        wanted.down,
        [_heading(wanted.side, x) for x in order[wanted.side]] if sides else [""],
        [""] if sides and len(wanted.numbers) == 1 else [value.words for value in wanted.numbers],
        [
            (_label(varying, block), intervals.evenly_spaced(rows, wanted.most))
            for block, rows in lines.items()
        ],
        compact.label(single, single.values()),
        "",
        wanted.title,
    )


def _named(axis: str, value: str) -> str:
    return words.with_name(value, words.VALUES.get(axis, {}))


def _heading(axis: str, value: str) -> str:
    """Return the heading of a column: words say by themselves what a value is of."""
    named = _named(axis, value)
    return named if named != value else f"{axis} = {value}"


def _label(names: Sequence[str], group: Key) -> str:
    named = [_named(name, value) for name, value in zip(names, group, strict=True)]
    return compact.label(names, named)


def _cell(
    value: Value, column: Column, rows: pd.DataFrame | None, pooled: tuple[str, ...]
) -> Cell | None:
    """Return the number of one row, or the mean of the rows that the table pools."""
    if rows is None or rows[value.number].isna().all():
        return None
    if pooled:
        values = rows[value.number].dropna().to_numpy(float)
        if pooled == ("seed",):
            seeds = intervals.over_seeds(values, within=column.possible)
            return compact.number(seeds, math.nan)
        mean = compact.number(Estimate(float(values.mean())), math.nan)
        return mean._replace(seeds=f"{len(values)} run{'s' if len(values) > 1 else ''}")
    row: Mapping[Any, Any] = rows.iloc[0].to_dict()
    exact = float(row[value.exact]) if value.exact else math.nan
    found = Estimate(float(row[value.number]), *(float(row[end]) for end in value.ends))
    if math.isinf(found.mean):
        return Cell("never", exact=compact.exact_value(exact))
    if column.axis or column.read is int:
        # Settings and counts have no digits that are not theirs.
        return Cell(f"{found.mean:g}")
    return compact.number(found, exact)
