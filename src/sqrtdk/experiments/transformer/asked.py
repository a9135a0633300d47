"""Answer questions that people ask about a whole transformer: its scale, recurrence, collapse."""

from typing import cast

import pandas as pd

from sqrtdk.experiments.story import Asked, RunTables
from sqrtdk.experiments.transformer.arms import LEARNT
from sqrtdk.experiments.transformer.claims import (
    added,
    at_same_rate,
    counted,
    of_seeds,
    same_rule,
)
from sqrtdk.experiments.transformer.collapse import COLLAPSED
from sqrtdk.experiments.transformer.measure import Settings
from sqrtdk.figures import words
from sqrtdk.schema import ANY, NOT_NEGATIVE
from sqrtdk.stats.intervals import Estimate, MissingError
from sqrtdk.stats.wording import format_estimate


def trained(run: RunTables) -> str:
    """Give the window of rates, the best loss and the lost runs of each scale rule, by task.

    A run at the smallest rate may be lost because it is slow, so these runs are counted too.
    """
    table = run.table("arms")
    table = table[(table["network"] == "transformer") & (table["best"] == 1)]
    if table.empty:
        raise MissingError("the run has no transformer")
    table = table[table["d_head"] == table["d_head"].max()]
    parts, at = [], table["d_head"].iloc[0]
    every = run.table("arms")
    every = every[(every["network"] == "transformer") & (every["d_head"] == at)]
    counts = every.groupby(["task", "scaling"])[["lost", "n_seeds"]].sum()
    slowest = every["learning_rate"].min()
    slow = every[every["learning_rate"] == slowest].groupby("task")[["lost", "n_seeds"]].sum()
    for task, rows in table.groupby("task", sort=True):
        each = [
            f"{words.rule(row['scaling'])}: {'at least ' * bool(row['window_edge'])}"
            f"{format_estimate(Estimate(*(row[x] for x in WINDOW)))} decades, "
            f"{row['loss']:.2f} nats, {counts.loc[(task, row['scaling']), 'lost']} of "
            f"{counts.loc[(task, row['scaling']), 'n_seeds']} runs lost"
            for row in rows.to_dict("records")
        ]
        needs = f"{rows['unattended'].iloc[0]:.2f} nats need no attention"
        parts.append(
            f"{TASKS[task]} ({needs}): {'; '.join(each)}; at rate {slowest:g} over all scale rules "
            f"{slow.loc[task, 'lost']} of {slow.loc[task, 'n_seeds']} lost"
        )
    return (
        f"Window of learning rates, best loss, and runs over all rates that diverge or end above "
        f"the loss that needs no attention, at d_head = {at}. {'. '.join(parts)}. At the smallest "
        "rates a run may also be lost because it is slow."
    )


def recurrent(run: RunTables) -> str:
    """Give the loss with attention and with recurrence, and what training still adds, by task."""
    table = run.table("recurrence")
    if table.empty:
        raise MissingError("the run does not have both a scaled transformer and a gru")
    parts = []
    for task, rows in table.groupby("task", sort=True):
        losses, gains = (
            [of_seeds(rows, f"{name}{end}", within) for name in ("transformer", "gru")]
            for end, within in (("", NOT_NEGATIVE), ("_gain", ANY))
        )
        text = " and ".join(map(format_estimate, losses))
        parts.append(f"{TASKS[str(task)]}: {text} nats{added(gains)}")
    steps = cast(Settings, run.settings)["steps"]
    return (
        f"Loss with attention and with recurrence after {steps} steps, with about "
        f"as many parameters. {'. '.join(parts)}."
    )


def collapsing(run: RunTables) -> str:
    """Count the runs that do not learn, of those whose entropy collapses and of the others."""
    table = run.table("collapse")
    if table.empty:
        raise MissingError("the run has no transformer")
    parts = [
        f"{TASKS[str(task)]} at d_head = {d_head}: {counted(rows)}; {same_rate(rows)}; "
        f"{same_rule(rows)}"
        for (task, d_head), rows in table.groupby(["task", "d_head"], sort=True)
    ]
    return (
        "A run collapses if the entropy of a layer falls below "
        f"{COLLAPSED:g} of its maximum, and fails if it does not learn: if it diverges, ends above "
        f"the loss that needs no attention, or closes less than {100 * LEARNT:.0f} % of the gap to "
        f"the best loss. {'. '.join(parts)}."
    )


def same_rate(runs: pd.DataFrame) -> str:
    """Say by how much more often runs fail that collapse, at the same rate."""
    try:
        more = at_same_rate(runs)
    except MissingError as reason:
        return str(reason)
    return (
        f"at the same rate the share that fails is higher by {format_estimate(more)} if a run "
        "collapses"
    )


def beginning(run: RunTables) -> str:
    """Say how far rows are from their exact entropy before training, by scale rule."""
    table = run.table("start")
    table = table[table["exact"].notna()]
    if table.empty:
        raise MissingError("the run has no transformer with an exact entropy at the start")
    most = int(table["n_k"].max())
    parts = []
    for name, rows in table.groupby("scaling", sort=True):
        longest = rows[rows["n_k"] == most]
        ends = 100 * (longest["entropy"] / longest["exact"] - 1).agg(["min", "max"])
        shorter = rows[rows["n_k"] < most]
        parts.append(
            f"{words.rule(str(name))} {ends['min']:+.2g} % to {ends['max']:+.2g} %, "
            f"{_sides(longest)}" + f"; shorter rows: {_sides(shorter)}" * bool(len(shorter))
        )
    return (
        f"Entropy of a row with {most} visible keys in layer 0 before training, against the exact "
        "one of as many unrelated keys, from the smallest to the largest difference over tasks and "
        "d_head. A mean over seeds is surely above or below the exact value if its 95 % interval "
        f"is; by chance about one in 20 is. {'. '.join(parts)}."
    )


def _sides(rows: pd.DataFrame) -> str:
    """Count the rows of start.csv above and below their exact value, and those surely there."""
    higher, lower = rows["entropy"] > rows["exact"], rows["entropy"] < rows["exact"]
    above, below = rows["ci_low"] > rows["exact"], rows["ci_high"] < rows["exact"]
    return (
        f"{higher.sum()} of {len(rows)} above ({above.sum()} surely) and {lower.sum()} below "
        f"({below.sum()} surely)"
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
    Asked(
        161,
        "recurrence",
        "Can attention replace recurrence?",
        "Where one value far back has to be found it can: a position reads any earlier one in one "
        "step, and a recurrent network has to keep all of them in its state. For text it depends "
        "on how long both are trained: recurrence begins with the order of the characters, which "
        "attention has to learn.",
        recurrent,
        "claim-transformer_recurrence",
    ),
    Asked(
        162,
        "collapse",
        "Does training fail when the entropy of attention collapses?",
        "Zhai et al. (2023) saw training become unstable where it did. A low entropy is no failure "
        "in itself: a position that has to find one key ends there. It is one if all the weight "
        "goes to a wrong key, because almost no gradient is left. Too large a learning rate both "
        "lowers the entropy and makes a run fail, so only runs at the same rate are compared, and "
        "even there the scale rules differ: what follows is an association, not a cause.",
        collapsing,
        "claim-entropy_collapse",
    ),
    Asked(
        163,
        "causal-start",
        "What entropy does a causal row begin with?",
        "Row i sees i keys. With a scale that keeps σ near 1 its entropy begins close to that of i "
        "unrelated keys; without a scale it differs more between seeds, and may be off. Two things "
        "can raise it. In a narrow model σ differs more between queries than for independent "
        "normal entries, because all keys are images of the same few directions under W_k, and at "
        "large σ the entropy is a convex function of σ. And tokens that repeat are related.",
        beginning,
        "figure-transformer-start",
    ),
)
