"""Tell in a sentence what remedies other than a scale do."""

import math
from typing import Any

from sqrtdk.experiments.story import Lead, RunTables, said
from sqrtdk.stats.intervals import Estimate, MissingError


def lead_remedies(run: RunTables) -> str:
    """Say which remedies replace 1/√d_k, from the steps at the largest d_k."""
    table = run.table("ladder")
    d_k = int(table["d_k"].max())
    table = table[table["d_k"] == d_k].drop_duplicates("remedy").set_index("remedy")

    def times(name: str) -> str:
        if name not in table.index:
            raise MissingError(f"the run has no remedy {name}")
        row: Any = table.loc[name]
        if math.isnan(row["ratio_least"]):
            raise MissingError("the run has no 1/√d_k")
        least, most = float(row["ratio_least"]), float(row["ratio_most"])
        ratio = said(Estimate(least, float(row["ratio_low"]), float(row["ratio_high"])))
        return f"at least {ratio}" if least < most else ratio

    return (
        "**Tuning the optimizer does not replace the division.** At its best learning rate, a head "
        f"of d_k = {d_k} without √d_k takes {times('warmup')} times the steps of one with it to "
        f"answer 90 % rightly, even with warm-up, and {times('clipping')} times with gradient "
        "clipping. With QK-norm, which divides by the norms instead, it takes "
        f"{times('qk_norm_8')} times the steps."
    )


LEAD = (Lead(70, lead_remedies),)
