"""Build the compact tables of the page: headline metrics against d_k."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from sqrtdk.experiments import compact
from sqrtdk.experiments.base import Pivot
from sqrtdk.experiments.compact import CELLS, COLUMNS, Cell, Rows, Table
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.figures import words
from sqrtdk.schema import Column, Settings
from sqrtdk.stats import intervals
from sqrtdk.stats.intervals import Estimate

NAMED = ("scaling", "reader", "first_key")
"""Axes whose values are names that need no label."""


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
    values = {name: compact.ordered(table[name], settings.get(name)) for name in axes}
    arms, sizes = values.pop(inner), sorted(set(table[by]))
    varying = [name for name in values if len(values[name]) > 1]
    # The last axes are side by side as far as they fit; the first ones make blocks.
    split, width = len(varying), len(arms)
    while split and width * len(values[varying[split - 1]]) <= COLUMNS:
        split -= 1
        width *= len(values[varying[split]])
    down, across = varying[:split], varying[split:]
    records = table.to_dict("records")
    blocks, series = compact.groups(records, down, values), compact.groups(records, across, values)
    shown_arms, rows = arms[:CELLS], wanted.most
    shown = compact.some(blocks, CELLS // (len(shown_arms) * len(series)))
    cells = {
        (row[by], *(row[name] for name in (*down, *across, inner))): _cell(row, seeds)
        for row in records
    }
    columns = [(*one, arm) for one in series for arm in shown_arms]

    def named(axis: str, name: str) -> str:
        return words.with_name(name, words.VALUES.get(axis, {})) if wanted.worded else name

    def lines(block: tuple[str, ...]) -> Rows:
        """Return the rows of a block, evenly spaced over the sizes that have a number."""
        full = [(x, [cells.get((x, *block, *one)) for one in columns]) for x in sizes]
        shown = intervals.evenly_spaced([(x, row) for x, row in full if any(row)], rows)
        return [(named(by, x) if isinstance(x, str) else x, row) for x, row in shown]

    return Table(
        column.name,
        column.meaning,
        column.unit,
        by,
        [compact.label(across, one) for one in series],
        [named(inner, arm) if inner in NAMED else f"{inner} = {arm}" for arm in shown_arms],
        [(compact.label(down, block), lines(block)) for block in shown],
        compact.fixed(values),
        compact.left_out(
            (min(rows, len(sizes)), len(sizes), f"values of {by}"),
            (len(shown) * len(series), len(blocks) * len(series), "series"),
            (len(shown_arms), len(arms), f"values of {inner}"),
        ),
    )


def _cell(row: Mapping[Any, Any], seeds: int) -> Cell:
    value = Estimate(*(float(row[x]) for x in ("mean", "ci_low", "ci_high")))
    if math.isinf(value.mean):
        return Cell(f"more than {row['steps']}")
    found = compact.number(value, float(row["exact"]))
    count = int(row["n_seeds"])
    return found._replace(seeds=f"{count} of {seeds} seeds") if count < seeds else found
