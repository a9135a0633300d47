"""Put the steps of an earlier prototype beside those of a run, as a compact table."""

import math
from functools import partial

from sqrtdk.experiments import compact
from sqrtdk.experiments.compact import Cell, Rows, Table
from sqrtdk.experiments.remedies.ladder import PROTOTYPE
from sqrtdk.experiments.story import RunTables
from sqrtdk.figures.words import REMEDIES, with_name
from sqrtdk.stats.intervals import Estimate, MissingError

MEANING = (
    "Median over seeds of the steps to 90 %, each seed at the learning rate that the other half of "
    "the seeds chose, beside the median of an earlier prototype: 4 seeds at the best of 5 rates, "
    "in code that shares nothing with this project, at the d_k and for the remedies that it tried."
)


def tables(run: RunTables) -> list[Table]:
    """Return the table, or none for a run without ladder.csv."""
    try:
        table = run.table("ladder")
    except MissingError:
        return []
    if table.empty:
        return []
    for axis in ("n_k", "batch_size"):
        table = table[table[axis] == table[axis].min()]
    measured = {(row["remedy"], int(row["d_k"])): row for row in table.to_dict("records")}
    sizes = sorted({d_k for _, d_k in measured})
    remedies = compact.ordered(table["remedy"], run.settings.get("remedy"))

    def steps(remedy: str, d_k: int) -> Cell | None:
        row = measured.get((remedy, d_k))
        if row is None:
            return None
        if math.isinf(row["crossfit_steps"]):
            return Cell(f"more than {row['steps']}")
        ends = (float(row[f"crossfit_{end}"]) for end in ("steps", "low", "high"))
        interval = compact.number(Estimate(*ends), math.nan).interval
        return Cell(f"{row['crossfit_steps']:g}", interval)

    def prototype(remedy: str, d_k: int) -> Cell | None:
        found = PROTOTYPE.get((remedy, d_k))
        return None if found is None else Cell(f"{found:g}")

    tried = [d_k for d_k in sizes if any(prototype(remedy, d_k) for remedy in remedies)]
    columns = {
        f"{d_k}, {what}" if d_k in tried else str(d_k): partial(cell, d_k=d_k)
        for d_k in sizes
        for what, cell in (("this run", steps), ("prototype", prototype))
        if what == "this run" or d_k in tried
    }
    rows: Rows = [
        (with_name(remedy, REMEDIES), [cell(remedy) for cell in columns.values()])
        for remedy in remedies
    ]
    return [
        Table(
            "steps_beside",
            MEANING,
            "steps",
            "remedy",
            [""],
            [f"d_k = {column}" for column in columns],
            [("", rows)],
            "",
            "",
        )
    ]
