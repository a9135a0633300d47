"""Answer a question that people ask: whether a whole transformer needs the scale."""

from sqrtdk.experiments.story import Asked, RunTables
from sqrtdk.figures import words
from sqrtdk.stats.intervals import Estimate, MissingError
from sqrtdk.stats.wording import format_estimate


def trained(run: RunTables) -> str:
    """Give the window of rates and the best loss of each scale rule, by task."""
    table = run.table("arms")
    table = table[(table["network"] == "transformer") & (table["best"] == 1)]
    if table.empty:
        raise MissingError("the run has no transformer")
    table = table[table["d_head"] == table["d_head"].max()]
    parts = []
    for task, rows in table.groupby("task", sort=True):
        each = [
            f"{words.rule(row['scaling'])}: {'at least ' * bool(row['window_edge'])}"
            f"{format_estimate(Estimate(*(row[x] for x in WINDOW)))} decades and "
            f"{row['loss']:.2f} nats"
            for row in rows.to_dict("records")
        ]
        needs = f"{rows['unattended'].iloc[0]:.2f} nats need no attention"
        parts.append(f"{TASKS[task]} ({needs}): {'; '.join(each)}")
    return (
        f"Window of learning rates and best loss at d_head = {table['d_head'].iloc[0]}. "
        f"{'. '.join(parts)}."
    )


TASKS = {"recall": "Associative recall", "text": "Next character"}
"""The tasks in words."""

WINDOW = ("window", "window_low", "window_high")

ASKED = (
    Asked(
        160,
        "transformer",
        "Does it matter in a whole transformer?",
        "LayerNorm gives queries and keys entries of variance 1, so that without the scale σ "
        "begins at √d_head however deep the model is. Whether that harms depends on the task: it "
        "does most where a position has to find one key. A model that ends at the loss that needs "
        "no attention has not learnt to attend.",
        trained,
        "claim-transformer_window",
    ),
)
