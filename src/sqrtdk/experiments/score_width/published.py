"""Put the published numbers of Britz et al. 2017 beside the measured steps, as a compact table.

D. Britz et al., Massive Exploration of Neural Machine Translation Architectures, EMNLP 2017
(arXiv 1703.03906), train translation models with multiplicative attention, which has no scale, and
with additive attention, at several widths of the attention.
"""

import math
from collections.abc import Mapping

from sqrtdk.experiments import compact
from sqrtdk.experiments.compact import Cell, Rows, Table
from sqrtdk.experiments.story import RunTables
from sqrtdk.stats.intervals import Estimate, MissingError

BLEU: Mapping[str, Mapping[int, float]] = {
    "dot": {128: 22.03, 256: 22.33, 512: 21.78, 1024: 18.22},
    "additive": {128: 22.23, 1024: 22.10},
}
"""Published BLEU by reader and width; of additive attention only the ends are repeated here."""

MEANING = (
    "BLEU of translation models with multiplicative attention, which has no scale (dot), and with "
    "additive attention, as published by Britz et al. 2017 (arXiv 1703.03906), beside the steps to "
    "90 % of this run. More BLEU is better, fewer steps are. The tasks share nothing but the kinds "
    "of scores. A dash is a number that is not repeated here, or a width that the run does not "
    "have."
)


def tables(run: RunTables) -> list[Table]:
    """Return the table, or none for a run without widths.csv."""
    try:
        table = run.table("widths")
    except MissingError:
        return []
    if table.empty:
        return []
    for axis in ("length", "hidden"):
        table = table[table[axis] == table[axis].max()]
    measured = {(row["reader"], int(row["d_k"])): row for row in table.to_dict("records")}

    def steps(reader: str, d_k: int) -> Cell | None:
        row = measured.get((reader, d_k))
        if row is None:
            return None
        if math.isinf(row["crossfit_steps"]):
            return Cell(f"more than {row['steps']}")
        ends = (float(row[f"crossfit_{end}"]) for end in ("steps", "low", "high"))
        return compact.number(Estimate(*ends), math.nan)

    def bleu(reader: str, d_k: int) -> Cell | None:
        found = BLEU[reader].get(d_k)
        return None if found is None else Cell(f"{found:.2f}")

    sizes = sorted({d_k for _, d_k in measured} | {d_k for one in BLEU.values() for d_k in one})
    rows: Rows = [
        (d_k, [*(bleu(one, d_k) for one in BLEU), *(steps(one, d_k) for one in BLEU)])
        for d_k in sizes
    ]
    return [
        Table(
            "published",
            MEANING,
            "",
            "d_k",
            ["BLEU, published", "steps to 90 %, this run"],
            list(BLEU),
            [("", rows)],
            "",
            "",
        )
    ]
