"""Answer a question that people ask: why additive attention needs no scale."""

import math

from sqrtdk.experiments.story import Asked, RunTables
from sqrtdk.stats.intervals import Estimate, MissingError


def additive(run: RunTables) -> str:
    """Say how long training takes with each kind of score at the ends of the grid."""
    table = run.table("widths")
    first, end = table["d_k"].min(), table["d_k"].max()
    table = table[table["length"] == table["length"].max()]
    # Both are NaN for a table without rows.
    if not first < end:
        raise MissingError("the run has fewer than two score widths to compare")
    budget = int(table["steps"].max())

    def steps(reader: str, d_k: int) -> str:
        row = table[(table["reader"] == reader) & (table["d_k"] == d_k)]
        if row.empty:
            raise MissingError(f"the run has no {reader} scores")
        value = Estimate(float(row["crossfit_steps"].iloc[0]))
        return f"{value.mean:.0f}" if math.isfinite(value.mean) else f"more than {budget}"

    words = {"additive": "additive scores", "dot": "dot products", "scaled_dot": "with √d_k"}
    lines = [f"{words[reader]} {steps(reader, first)} and {steps(reader, end)}" for reader in words]
    return f"Steps to 90 % at d_k = {first} and {end}: {', '.join(lines)}."


ASKED = (
    Asked(
        120,
        "additive",
        "Why does additive attention need no scale?",
        "It adds q and k inside a tanh, which is bounded, and weighs the d_k results with a "
        "learned vector whose initial size already falls with d_k. A dot product has no such "
        "bound.",
        additive,
        "claim-score_width",
    ),
)
