"""Make the report's compact table of crossings.csv: the d_k from which on."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sqrtdk.experiments import compact
from sqrtdk.experiments.compact import Cell, Rows, Table
from sqrtdk.experiments.scaling import crossings
from sqrtdk.experiments.story import RunTables
from sqrtdk.experiments.words import ARRAYS, NORMS
from sqrtdk.schema import Settings
from sqrtdk.stats.intervals import Estimate, MissingError
from sqrtdk.stats.wording import format_number

LEVELS = {
    crossings.HALF: "half of the entropy gone",
    crossings.ONE_HOT: f"largest weight {crossings.LEVELS[crossings.ONE_HOT].level}",
    crossings.DEAD: "half of the entries near zero",
}

MEANING = (
    "First rows: where, without scaling, half of the entropy is gone, the largest weight rises to "
    f"{crossings.LEVELS[crossings.ONE_HOT].level}, and half of the entries of the gradient with "
    "respect to the logits are below 0.001/n_k. Other rows: the d_k above which a gradient is "
    "smaller without scaling than with it. Values are interpolated between those of the grid. "
    "“None” means no crossing on the grid; “never” means that theory has none."
)


def tables(run: RunTables) -> list[Table]:
    """Return the table, or none for a run without crossings."""
    try:
        rows = run.table("crossings").to_dict("records")
    except MissingError:
        return []
    settings = run.settings
    if not rows:
        return []
    axes = [column.name for column in crossings.COLUMNS if column.axis]
    axes.remove("quantity")
    rows = [{**row, **{name: str(row[name]) for name in axes}} for row in rows]
    values = {
        name: compact.ordered([row[name] for row in rows], _given(settings, name)) for name in axes
    }
    varying = [name for name in values if len(values[name]) > 1]
    series = compact.groups(rows, varying, values)
    shown = compact.some(series, compact.CELLS)
    # At d_k = 1 the rules are the same, so nothing crosses there.
    sizes = [d_k for d_k in settings["d_k"] if d_k > 1] or settings["d_k"]
    found = {(row["quantity"], *(row[name] for name in varying)): row for row in rows}

    def cells(quantity: str) -> list[Cell | None]:
        there = [found.get((quantity, *one)) for one in shown]
        return [_crossing(row, sizes) if row else None for row in there]

    onset = {tuple(row[name] for name in varying): row["two_ln_n_k"] for row in rows}
    levels: Rows = [(words, cells(quantity)) for quantity, words in LEVELS.items()]
    limit: list[Cell | None] = [Cell(format_number(float(onset[one]))) for one in shown]
    levels.append(("2 ln n_k: all of the entropy gone, in the limit of many keys", limit))
    blocks = [("", [(words, there) for words, there in levels if any(there)])]
    for array in crossings.CROSSING_GRADIENTS:
        pair: Rows = [(words, cells(f"grad_{array}_{x}")) for x, words in NORMS.items()]
        if any(cell for _, there in pair for cell in there):
            blocks.append((f"gradient at the {ARRAYS[array]} smaller", pair))
    return [
        Table(
            "crossings",
            MEANING,
            "d_k",
            "from which d_k on",
            [compact.label(varying, one) or "d_k" for one in shown],
            [""],
            blocks,
            compact.fixed(values),
            compact.left_out((len(shown), len(series), "series")),
        )
    ]


def _given(settings: Settings, name: str) -> list[Any]:
    found = settings.get(name)
    return list(found) if isinstance(found, (list, Mapping)) else []


def _crossing(row: Mapping[Any, Any], sizes: Sequence[int]) -> Cell:
    """Return a crossing as a cell. Beyond the grid, only theory says whether there is one."""
    exact = float(row["exact"])
    if not math.isnan(row["d_k"]):
        value = Estimate(*(float(row[x]) for x in ("d_k", "ci_low", "ci_high")))
        return compact.number(value, exact)
    words = {"never": f"none up to {sizes[-1]}", "always": f"already at {sizes[0]}"}
    measured = words.get(row["beyond"], "undefined")
    if math.isinf(exact) and row["beyond"] == "never":
        return Cell("never", measured)
    return Cell(measured, "", compact.exact_value(exact))
