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
from sqrtdk.experiments.transformer.collapse import COLLAPSED, matched
from sqrtdk.experiments.transformer.measure import Settings
from sqrtdk.figures import words
from sqrtdk.schema import ANY, DIFFERENCE, NOT_NEGATIVE, SHARE
from sqrtdk.stats.decisions import all_known, beyond, stepwise
from sqrtdk.stats.intervals import (
    Estimate,
    MissingError,
    bounded,
    over_seeds,
)
from sqrtdk.stats.seed_columns import estimate_of
from sqrtdk.stats.series import WholeTable, unscaled_rule
from sqrtdk.stats.wording import format_estimate, format_number, format_percent

EQUAL = "Where all seeds have the same difference, it counts as uncertain by one"
"""The sentence of two rules about `stepwise`, up to the step."""

CLOSE = 0.1
"""Share of what the recurrent network learnt that the transformer may lack and still replace it."""


def _window(name: object, row: pd.Series) -> str:
    """Return the window of a scale rule in words; it may reach beyond the grid."""
    beyond_grid = "at least " * bool(row["window_edge"])
    return f"{words.rule(str(name))} {beyond_grid}{format_estimate(estimate_of(row, 'window'))}"


def _sensitivity(row: pd.Series) -> str:
    """Return the learning-rate sensitivity in words, a dash if nothing is learnt at any rate."""
    return "–" if np.isnan(row["sensitivity"]) else format_estimate(estimate_of(row, "sensitivity"))


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
        f"{words.rule(str(name))} {_sensitivity(one)}" for name, one in best.iterrows()
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


def stability(whole: WholeTable) -> Finding:
    """Judge whether 1/√d_head loses fewer runs and widens the window, at the largest d_head."""
    wider = window(whole)
    table = whole.table[whole.table["network"] == "transformer"]
    table = table[table["d_head"] == table["d_head"].max()]
    best = table[table["best"] == 1].set_index("scaling")
    off = unscaled_rule(whole.settings["scaling"])
    n_rates, d_head = table["learning_rate"].nunique(), int(table["d_head"].iloc[0])
    more = bounded(stepwise(estimate_of(best.loc[off], "lost_more"), 1 / n_rates), DIFFERENCE)
    holds = all_known([beyond(more, 0.0, above=True), wider.holds])
    runs = n_rates * int(table["n_seeds"].iloc[0])
    counts = table.groupby("scaling")[["lost", "diverged"]].sum()
    lost, diverged = (
        ", ".join(f"{words.rule(str(name))} {count}" for name, count in counts[column].items())
        for column in ("lost", "diverged")
    )
    windows = ", ".join(_window(name, row) for name, row in best.iterrows())
    text = (
        f"of {runs} runs each at d_head = {d_head}, lost: {lost}; of these diverged: {diverged}; "
        f"without scaling the share is higher by {format_estimate(more)} than with 1/√d_head; "
        f"windows {windows} decades of rates"
    )
    verb = "makes" if holds else "does not make" if holds is False else "may make"
    return Finding(
        holds,
        text,
        f"Scaling {verb} the training of a transformer stable: {text}.",
        "share of the runs that are lost: without scaling minus 1/√d_head",
        more,
        min(abs(more.mean), wider.distance),
    )


def added(gains: Sequence[Estimate]) -> str:
    """Describe what the second half of the training adds to both networks, if it is known."""
    if any(math.isnan(gain.mean) for gain in gains):
        return ""
    one, other = map(format_estimate, gains)
    return f"; the second half of the training lowers the loss by {one} and {other}"


def of_seeds(table: pd.DataFrame, column: str, within: tuple[float, float] = ANY) -> Estimate:
    """Return the mean over seeds of a column of recurrence.csv."""
    return over_seeds(table[column].to_numpy(float), within=within)


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
    share = over_seeds((lacks / learnt).to_numpy(float))
    steps = cast(Settings, whole.settings)["steps"]
    gains = [of_seeds(table, f"{name}_gain") for name in ("transformer", "gru")]
    holds = beyond(share, CLOSE, above=False)
    if holds is False and math.isnan(gains[0].mean):
        raise MissingError("the loss was not logged in the first half of the training")
    if holds is False:
        settled = adds_little(over_seeds((table["transformer_gain"] / learnt).to_numpy(float)))
        if settled is False:
            raise MissingError(
                f"after {steps} training steps the transformer lacks {format_percent(share)} of "
                f"what the recurrent network learnt, but it is still improving: the second half "
                f"of them lowers its loss by {format_estimate(gains[0])} nats"
            )
        holds = False if settled else None
    one, other = (of_seeds(table, name, NOT_NEGATIVE) for name in ("transformer", "gru"))
    right = [of_seeds(table, f"{name}_accuracy", SHARE) for name in ("transformer", "gru")]
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
        "loss with attention minus that with recurrence, over what recurrence learnt: below 0 "
        "where attention is better",
        share,
        abs(share.mean - CLOSE),
        f"in {steps} training steps",
    )


def collapse(whole: WholeTable) -> Finding:
    """Judge whether, at the same rate, runs whose entropy collapses fail more often than others."""
    table = whole.table
    more = at_same_rate(table)
    holds = beyond(more, 0.0, above=True)
    text = (
        f"{counted(table)}; at the same rate the share that fails is higher by "
        f"{format_estimate(more)} if a run collapses; {same_rule(table)}"
    )
    verb = "fail" if holds else "do not fail" if holds is False else "may fail"
    return Finding(
        holds,
        text,
        f"At the same learning rate, runs whose attention entropy falls below {COLLAPSED} of its "
        f"maximum in some layer {verb} more often than others.",
        "share of the runs that fail at the same rate: those that collapse minus the others",
        more,
        abs(more.mean),
    )


def at_same_rate(runs: pd.DataFrame) -> Estimate:
    """Return by how much the share that fails is higher among runs that collapse, over seeds.

    Raises MissingError if a seed has no rate with runs of both kinds.
    """
    seeds = [matched(one, ["learning_rate"]) for _, one in runs.groupby("seed", sort=True)]
    if any(math.isnan(difference) for difference, *_ in seeds):
        raise MissingError("some seed has no rate at which some runs collapse and others do not")
    # Equal seeds are uncertain by one run of each kind, at one rate.
    step = max(1 / weight for _, weight, _ in seeds)
    more = over_seeds(np.array([difference for difference, *_ in seeds]))
    return bounded(stepwise(more, step), DIFFERENCE)


def counted(runs: pd.DataFrame) -> str:
    """Say how many runs fail, of those that collapse and of the others."""
    low, failed = runs["collapsed"] == 1, runs["failed"] == 1
    return (
        f"{(low & failed).sum()} of {low.sum()} runs that collapse fail, and "
        f"{(~low & failed).sum()} of {(~low).sum()} others"
    )


def same_rule(runs: pd.DataFrame) -> str:
    """Say what is left of the difference where the scale rule is the same too."""
    difference, _, groups = matched(runs, ["scaling", "learning_rate"])
    if not groups:
        return "at the same rule and rate all seeds collapse, or none"
    pairs = runs.groupby(["scaling", "learning_rate"]).ngroups
    return (
        f"{groups} of {pairs} pairs of a rule and a rate have runs of both kinds, and there it is "
        f"higher by {format_number(difference)}"
    )


CLAIMS = (
    Claim(
        "transformer_window",
        "In a trained transformer, division by √d_head widens the window of learning rates.",
        f"A run has learnt if it closes {100 * LEARNT:.0f} % of the gap from its loss at "
        "initialisation to the lowest mean loss of its task and d_head, and does not end above the "
        "loss that the task allows without attention. The window of a seed is the number of "
        "decades of rates at which it has learnt. Judged for each task at the "
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
        "transformer_stability",
        "In a trained transformer, scaling makes training stable.",
        "A run is lost if it diverges, or if its loss after training is above the one that the "
        "task allows without attention (arms.csv, column unattended). Judged for each task at the "
        "largest d_head. True if both hold: the share of runs that are lost, over the rates of the "
        "grid, is surely larger without scaling than with 1/√d_head, seed by seed; and the window "
        f"of rates is surely wider with it by more than {WIDER:.2f} decades, as in "
        "transformer_window. False if one of both surely fails. Where all seeds have the same "
        "difference, it counts as uncertain by one rate of the grid. Not measured if "
        "transformer_window is not. At the smallest rates a run may also be lost because it is "
        "slow.",
        "transformer-rates",
        stability,
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
        "At the same learning rate, transformers whose attention entropy collapses fail more "
        "often.",
        f"A run collapses if the entropy of a layer is below {COLLAPSED} of its maximum at a "
        "logged step, and fails if it has not learnt, as in transformer_window. Judged for each "
        "task and d_head. Runs of a seed at the same rate are compared: too large a rate both "
        "lowers the entropy and makes a run fail, so that a comparison over rates says nothing. "
        "The number of a seed is the mean over rates of the share of runs that fail among those "
        "that collapse minus that among the others (Mantel-Haenszel). True if its mean over seeds "
        f"is surely above 0; false if surely below. {EQUAL} run of each kind at one rate. Not "
        "measured if a seed has no rate with runs of both kinds. An association, not a cause: "
        "such runs have different scale rules. The answer says what is left at the same rule and "
        "rate. Zhai et al. 2023 saw training become unstable where the entropy collapsed.",
        "transformer-attention",
        collapse,
        source="ours",
        evidence=findings.parts("task", "d_head"),
        table="collapse",
        caveat="an association over scale rules, not shown to be the cause",
        answers_all=True,
    ),
)
