"""Judge the claims about a trained transformer."""

import math
from collections.abc import Sequence
from typing import cast

import numpy as np
import pandas as pd

from sqrtdk.claims import findings
from sqrtdk.claims.claim import Claim
from sqrtdk.claims.findings import Finding
from sqrtdk.experiments.encoder_decoder.judging import SETTLED, adds_little
from sqrtdk.experiments.training.claims import WIDER
from sqrtdk.experiments.training.rates import decades
from sqrtdk.experiments.transformer.arms import LEARNT
from sqrtdk.experiments.transformer.collapse import COLLAPSED
from sqrtdk.experiments.transformer.measure import Settings
from sqrtdk.figures import words
from sqrtdk.stats.decisions import beyond, stepwise
from sqrtdk.stats.intervals import Estimate, MissingError, interval
from sqrtdk.stats.seed_columns import estimate_of
from sqrtdk.stats.series import WholeTable, unscaled_rule
from sqrtdk.stats.wording import format_estimate, format_percent

EQUAL = "Where all seeds have the same difference, it counts as uncertain by one"
"""The sentence of two rules about `stepwise`, up to the step."""

CLOSE = 0.1
"""Share of what the recurrent network learnt that the transformer may lack and still replace it."""


def over_seeds(values: pd.Series) -> Estimate:
    """Return the mean of a number of each seed, with its interval."""
    numbers = values.to_numpy(float)
    return Estimate(float(np.mean(numbers)), *interval(numbers))


def _window(name: object, row: pd.Series) -> str:
    """Return the window of a scale rule in words; it may reach beyond the grid."""
    beyond_grid = "at least " * bool(row["window_edge"])
    return f"{words.rule(str(name))} {beyond_grid}{format_estimate(estimate_of(row, 'window'))}"


def window(whole: WholeTable) -> Finding:
    """Judge whether the window of learning rates is wider with 1/√d_head, at the largest d_head."""
    table = whole.table[whole.table["network"] == "transformer"]
    if table.empty:
        raise MissingError("the run has no transformer")
    table = table[table["d_head"] == table["d_head"].max()]
    d_head, rules = int(table["d_head"].iloc[0]), whole.settings["scaling"]
    best = table[table["best"] == 1].set_index("scaling")
    off = unscaled_rule(rules)
    if off not in best.index or np.isnan(best.loc[off, "gap"]):
        raise MissingError("the run does not have both a rule that leaves the scores as they are "
                           "and one that divides by √d_k")  # fmt: skip
    row = best.loc[off]
    gap, own = estimate_of(row, "gap"), estimate_of(row, "window")
    scaled = Estimate(own.mean + gap.mean)
    gap = stepwise(gap, max(decades(sorted(set(table["learning_rate"])))))
    holds = beyond(gap, WIDER, above=True)
    if row["window_edge"] and holds is not True:
        raise MissingError("the window without scaling reaches the highest rate of the grid")
    if scaled.mean == 0:
        raise MissingError("with scaling nothing is learnt at any rate")
    others = [_window(name, one) for name, one in best.iterrows() if name != off]
    lost = table.groupby("scaling")["diverged"].sum()
    sensitive = ", ".join(
        f"{words.rule(str(name))} {format_estimate(estimate_of(one, 'sensitivity'))}"
        for name, one in best.iterrows()
    )
    runs = int(table["n_seeds"].iloc[0]) * table["learning_rate"].nunique()
    verb = "widens" if holds else "does not widen" if holds is False else "may widen"
    text = (
        f"{_window(off, row)}, {', '.join(others)} decades of learning rates at d_head = {d_head}"
    )
    return Finding(
        holds,
        f"window {text}; sensitivity {sensitive} nats; of {runs} runs each, diverged: "
        + ", ".join(f"{words.rule(str(name))} {count}" for name, count in lost.items()),
        f"Division by √d_head {verb} the window of rates at which a transformer learns: {text}.",
        f"decades by which the window is wider with 1/√d_head at d_head = {d_head}",
        gap,
        abs(gap.mean - WIDER),
    )


def added(gains: Sequence[Estimate]) -> str:
    """Describe what the second half of the training adds to both networks, if it is known."""
    if any(math.isnan(gain.mean) for gain in gains):
        return ""
    one, other = map(format_estimate, gains)
    return f"; the second half of the training lowers the loss by {one} and {other}"


def replaces(whole: WholeTable) -> Finding:
    """Judge whether a transformer learns about as much as a recurrent network of its size.

    Raises MissingError if it does not, but its second half of training still adds much.
    """
    table = whole.table
    if table.empty:
        raise MissingError("the run does not have both a scaled transformer and a gru")
    lacks = table["transformer"] - table["gru"]
    learnt = table["begun"] - table["gru"]
    if not (learnt > 0).all():
        raise MissingError("the recurrent network does not learn")
    share = over_seeds(lacks / learnt)
    steps = cast(Settings, whole.settings)["steps"]
    gains = [over_seeds(table[f"{name}_gain"]) for name in ("transformer", "gru")]
    holds = beyond(share, CLOSE, above=False)
    if holds is False and math.isnan(gains[0].mean):
        raise MissingError("the loss was not logged in the first half of the training")
    if holds is False:
        settled = adds_little(over_seeds(table["transformer_gain"] / learnt))
        if settled is False:
            raise MissingError(
                f"after {steps} training steps the transformer lacks {format_percent(share)} of "
                f"what the recurrent network learnt, but it is still improving: the second half "
                f"of them lowers its loss by {format_estimate(gains[0])} nats"
            )
        holds = False if settled else None
    one, other = over_seeds(table["transformer"]), over_seeds(table["gru"])
    right = [over_seeds(table[f"{name}_accuracy"]) for name in ("transformer", "gru")]
    counts = [int(table[f"{name}_parameters"].iloc[0]) for name in ("transformer", "gru")]
    text = (
        f"the loss is {format_estimate(one)} nats with attention ({counts[0]} parameters) and "
        f"{format_estimate(other)} with recurrence ({counts[1]}); right outputs "
        f"{format_percent(right[0])} and {format_percent(right[1])}{added(gains)}"
    )
    verb = "replaces" if holds else "does not replace" if holds is False else "may replace"
    return Finding(
        holds,
        text,
        f"Attention {verb} recurrence: {text}.",
        "loss that attention lacks, as a share of what recurrence learnt",
        share,
        abs(share.mean - CLOSE),
        f"in {steps} training steps",
    )


def collapse(whole: WholeTable) -> Finding:
    """Judge whether runs whose attention entropy collapses fail more often than the others."""
    table = whole.table
    if not ((table["collapsed"] > 0) & (table["others"] > 0)).all():
        raise MissingError("some seed has no run that collapses, or no other run")
    shares = [table[f"{name}_failed"] / table[name] for name in ("collapsed", "others")]
    # Equal seeds are uncertain by one run of each kind.
    step = float((1 / table["collapsed"] + 1 / table["others"]).max())
    more = stepwise(over_seeds(shares[0] - shares[1]), step)
    holds = beyond(more, 0.0, above=True)
    counts = table[["collapsed", "collapsed_failed", "others", "others_failed"]].sum()
    text = (
        f"{counts['collapsed_failed']} of {counts['collapsed']} runs that collapse fail, and "
        f"{counts['others_failed']} of {counts['others']} others"
    )
    verb = "fail" if holds else "do not fail" if holds is False else "may fail"
    return Finding(
        holds,
        text,
        f"Runs whose attention entropy falls below {COLLAPSED} of its maximum in some layer {verb} "
        "more often than others.",
        "share of the runs that fail: those that collapse minus the others",
        more,
        abs(more.mean),
    )


CLAIMS = (
    Claim(
        "transformer_window",
        "In a trained transformer, division by √d_head widens the window of learning rates.",
        f"A run has learnt if it closes {100 * LEARNT:.0f} % of the gap from its loss at "
        "initialisation to the lowest mean loss of its task and d_head. The window of a seed is "
        "the number of decades of rates at which it has learnt. Judged for each task at the "
        "largest d_head. True if the window with 1/√d_head is surely wider than without scaling by "
        f"more than {WIDER:.2f} decades, a factor of 2; false if surely not. "
        f"{EQUAL} rate of the grid. Not measured if it is "
        "not surely wider and the window without scaling reaches the highest rate.",
        "transformer-rates",
        window,
        source="ours",
        evidence=findings.parts("task"),
        table="arms",
    ),
    Claim(
        "transformer_recurrence",
        "Attention can replace recurrence.",
        "A transformer with 1/√d_head and a gated recurrent network with as many parameters read "
        "the same sequences. Each seed is reported at the rate, and the transformer at the d_head, "
        "that is best for the other seeds. Judged for each task. True if the loss that the "
        f"transformer has more is surely below {100 * CLOSE:.0f} % of what the recurrent network "
        "learnt (its own fall from the loss at initialisation); false if surely above, and the "
        f"second half of the training adds surely less than {100 * SETTLED:.0f} % of what the "
        "recurrent network learnt to what the transformer did. Not measured if it adds surely "
        "more: a transformer that is behind and still improving may need more training.",
        "transformer-rates",
        replaces,
        source="ours",
        evidence=findings.parts("task"),
        table="recurrence",
    ),
    Claim(
        "entropy_collapse",
        "Training fails where the entropy of attention collapses.",
        f"A run collapses if the entropy of a layer is below {COLLAPSED} of its maximum at a "
        "logged step, and fails if it has not learnt, as in transformer_window. Judged for each "
        "task and d_head, over all scale rules and rates. True if, over seeds, the share of runs "
        "that fail is surely larger among those that collapse; false if surely smaller. "
        f"{EQUAL} run of each kind. Not "
        "measured if a seed has runs of one kind only. The statement is that of Zhai et al. 2023.",
        "transformer-attention",
        collapse,
        source="ours",
        evidence=findings.parts("task", "d_head"),
        table="collapse",
        answers_all=True,
    ),
)
