"""Answer a question that people ask: whether trained queries and keys are independent."""

from sqrtdk.experiments.story import Asked, RunTables, said
from sqrtdk.experiments.training.story import arms
from sqrtdk.stats.intervals import Estimate, MissingError


def independent(run: RunTables) -> str:
    """Say how the largest weight of a trained head differs from that of its start."""
    _, scaled = arms(run)
    table = run.table("summary")
    table = table[
        (table["metric"] == "max_weight") & (table["scaling"] == scaled)
        & (table["loss"] == "values") & (table["d_k"] == table["d_k"].max())
    ]  # fmt: skip
    rates = run.table("rates")
    best = rates[
        (rates["best"] == 1) & (rates["scaling"] == scaled) & (rates["loss"] == "values")
        & (rates["d_k"] == rates["d_k"].max())
    ]  # fmt: skip
    optimizer = "sgd" if "sgd" in set(best["optimizer"]) else None
    if optimizer is not None:
        best, table = (x[x["optimizer"] == optimizer] for x in (best, table))
    if best.empty:
        raise MissingError("the run has no best learning rate with √d_k")
    table = table[table["learning_rate"] == best["learning_rate"].iloc[0]]
    ends = []
    for step in (0, table["step"].max()):
        row = table[table["step"] == step]
        if len(row) != 1:
            raise MissingError("the run has no single row of the first or the last step")
        ends.append(Estimate(*(float(row[x].iloc[0]) for x in ("mean", "ci_low", "ci_high"))))
    return (
        f"In the trained head at d_k = {int(table['d_k'].iloc[0])} with √d_k the largest of "
        f"{int(table['n_k'].iloc[0])} weights is {said(ends[0])} at the first step, as of "
        f"unrelated vectors, and {said(ends[1])} after {int(table['step'].max())} steps."
    )


ASKED = (
    Asked(
        130,
        "independent",
        "Are trained q and k independent?",
        "At the start nearly, after training not: a query that has learned to find its key is "
        "related to it. The argument for √d_k is about the start.",
        independent,
        "limit",
    ),
)
