"""Put the steps of an earlier prototype beside those of a run, as a compact table."""

import math

from sqrtdk.experiments import compact
from sqrtdk.experiments.compact import Cell, Rows, Table
from sqrtdk.experiments.remedies.ladder import PROTOTYPE
from sqrtdk.experiments.story import RunTables
from sqrtdk.stats.intervals import Estimate, MissingError

MEANING = (
    "Median over seeds of the steps to 90 %, each seed at the learning rate that the other half of "
    "the seeds chose, beside the median of an earlier prototype: 4 seeds at the best of 5 rates, "
    "in code that shares nothing with this project. A dash is what the prototype did not try."
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

    rows: Rows = [
        (remedy, [cell(remedy, d_k) for d_k in sizes for cell in (steps, prototype)])
        for remedy in remedies
    ]
    return [
        Table(
            "steps_beside",
            MEANING,
            "steps",
            "remedy",
            [f"d_k = {d_k}" for d_k in sizes],
            ["this run", "prototype"],
            [("", rows)],
            "",
            "",
        )
    ]
