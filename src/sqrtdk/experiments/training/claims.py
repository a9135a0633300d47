"""Judge the claims about training from rates.csv and twins.csv."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pandas as pd

from sqrtdk.claims.claim import Claim
from sqrtdk.claims.findings import Finding, abbreviate
from sqrtdk.experiments.training import rates
from sqrtdk.schema import Settings
from sqrtdk.stats.curves import is_beyond
from sqrtdk.stats.decisions import MIN_DECISIVE_D_K
from sqrtdk.stats.intervals import Estimate, MissingError
from sqrtdk.stats.series import WholeTable, scaled_rule, unscaled_rule
from sqrtdk.stats.wording import format_estimate, format_number

MIN_NOTABLE_RATIO = 5
"""A ratio of steps below which scaling helps only a little."""

FEWEST = 6
"""Seeds that a 95 % interval of a typical ratio needs: five are too often all on one side of it."""

WIDER = math.log10(2)
"""Minimum difference of two windows of learning rates in decades, a factor of 2."""

SAME_LOSS_RTOL = 1e-3
"""Relative difference above which two held-out losses count as different. Rounding causes up to
6e-4 in the default grid, where Adam divides by gradient entries that are nearly 0. Seeds differ by
tens of per cent."""


class Ratio(NamedTuple):
    """A typical ratio over seeds, between `least` and `most`, and the outer ends of its interval.

    The bounds differ if runs that never reached 90 % leave it open. The ends are NaN
    without an interval.
    """

    least: float
    most: float
    low: float = math.nan
    high: float = math.nan

    def beyond(self, level: float, *, above: bool) -> bool | None:
        """Return whether the whole interval is above (or below) a level; None if it crosses it.

        Raises MissingError without an interval, because a single number decides nothing.
        """
        if math.isnan(self.low):
            raise MissingError(f"fewer than {FEWEST} seeds give no interval of a ratio")
        return is_beyond(Estimate(self.least, self.low, self.high), level, above=above)

    @property
    def bound(self) -> Estimate:
        """Return the more informative bound: the upper one if it is below 1 or the only one."""
        upper = self.most < 1 or self.least == 0
        return Estimate(self.most if upper else self.least, self.low, self.high)

    @property
    def kind(self) -> str:
        """Return the kind of `bound` in words; empty if it is the ratio itself."""
        if self.least == self.most:
            return ""
        return "at most " if self.bound.mean == self.most else "at least "

    def text(self, unit: str = "") -> str:
        """Return the ratio in words."""
        if (self.least, self.most) == (0.0, math.inf):
            return "undefined"
        return f"{self.kind}{format_estimate(self.bound, unit)}"


class Windows(NamedTuple):
    """The windows of learning rates of both scale rules at one d_k, in decades.

    `gap` is the width of the scaled one minus that of the unscaled one. An open window may be wider
    than the grid shows.
    """

    unscaled: Estimate
    scaled: Estimate
    gap: Estimate
    unscaled_open: bool
    scaled_open: bool


@dataclass(frozen=True)
class Comparison:
    """Training without scaling against 1/√d_k, by d_k in rising order, with one optimizer and loss.

    `ratio` is the ratio of the steps to 90 %, unscaled over scaled, and `windows` are those of
    learning rates. `edges` are the d_k at which a best rate is at the edge of the grid. `cases` are
    the ratios at the largest d_k of all comparisons of the run, by label. `diverged` has the runs
    at the largest d_k that diverged without scaling and with it, and all runs of a rule, of all
    comparisons by label.
    """

    label: str
    ratio: dict[int, Ratio]
    edges: frozenset[int]
    windows: Mapping[int, Windows] = field(default_factory=dict)
    cases: Mapping[str, Ratio] = field(default_factory=dict)
    diverged: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    steps: int = 0
    unrelated: bool = True


def comparisons(settings: Settings, table: pd.DataFrame) -> list[Comparison]:
    """Return the comparisons of a rates.csv, in the order of its axes.

    A comparison needs a rule that leaves the scores unchanged and one that divides by √d_k. If one
    is missing, there is a single comparison without ratios.
    """
    rules = settings["scaling"]
    unscaled, scaled = unscaled_rule(rules), scaled_rule(rules)
    if unscaled is None or scaled is None:
        return [Comparison("", {}, frozenset())]
    table = table[table["scaling"].isin([unscaled, scaled])]
    axes = [key.name for key in rates.TASK if key.name != "d_k"]
    named = [axis for axis in axes if axis in ("optimizer", "loss") or len(set(table[axis])) > 1]
    found, cases, budget = [], dict[str, Ratio](), int(table["steps"].max())
    diverged: dict[str, tuple[int, int, int]] = {}
    for at, frame in table.groupby(axes, sort=True):
        values = dict(zip(axes, at, strict=True))
        best = frame[frame["best"] == 1]
        sides = {
            name: {row["d_k"]: row for row in best[best["scaling"] == name].to_dict("records")}
            for name in (unscaled, scaled)
        }
        ratio = {
            d_k: Ratio(*(row[f"ratio_{end}"] for end in Ratio._fields))
            for d_k, row in sorted(sides[unscaled].items())
        }
        windows = {
            d_k: _windows(row, sides[scaled][d_k])
            for d_k, row in sides[unscaled].items()
            if d_k in sides[scaled]
        }
        edges = frozenset(best.loc[best["edge"] != "", "d_k"])
        label = ", ".join(f"{axis} = {values[axis]}" for axis in named)
        there = frame[frame["d_k"] == frame["d_k"].max()]
        lost = [int(there.loc[there["scaling"] == name, "diverged"].sum()) for name in sides]
        diverged[label] = lost[0], lost[1], int(there["n_seeds"].sum()) // 2
        cases[label] = next(reversed(ratio.values()))
        found.append(Comparison(label, ratio, edges, windows, cases, diverged, budget))
    return found


def _windows(unscaled: Mapping[Any, Any], scaled: Mapping[Any, Any]) -> Windows:
    def window(row: Mapping[Any, Any]) -> Estimate:
        return Estimate(row["window"], row["window_low"], row["window_high"])

    return Windows(
        window(unscaled),
        window(scaled),
        Estimate(unscaled["window_gap"], unscaled["gap_low"], unscaled["gap_high"]),
        bool(unscaled["window_edge"]),
        bool(scaled["window_edge"]),
    )


NO_ARMS = (
    "the run does not have both a scale rule that leaves the scores as they are "
    "and one that divides by √d_k"
)


def scaling_helps(one: Comparison) -> Finding:
    """Judge the ratio of steps at the largest d_k against 1. Raises MissingError.

    Runs that missed 90 % count as the worst that the data allow: the outer ends decide.
    """
    if not one.ratio:
        raise MissingError(NO_ARMS)
    d_k, end = next(reversed(one.ratio.items()))
    if d_k == 1:
        raise MissingError("at d_k = 1 both scale rules are the same, and there is no larger d_k")
    if d_k in one.edges:
        raise MissingError(f"a best learning rate is at the edge of the grid at d_k = {d_k}")
    if end.least == math.inf or (end.least, end.most) == (0.0, math.inf):
        raise MissingError(
            f"at d_k = {d_k} too few runs reach 90 %, or some have it from the start"
        )
    holds = end.beyond(1.0, above=True)
    if holds is False and d_k < MIN_DECISIVE_D_K:
        raise MissingError(
            f"the ratio is {end.text()} at d_k = {d_k}, the largest; larger d_k may differ"
        )
    first = next(iter(one.ratio))
    before = f"{one.ratio[first].text(' times')} at d_k = {first}, " if first != d_k else ""
    verb = "takes longer" if holds else "does not take longer"
    times = end.text(" times")
    bound = {"": "", "at least ": "lower bound of ", "at most ": "upper bound of "}[end.kind]
    condition = ""
    if holds and end.least < MIN_NOTABLE_RATIO:
        condition = f"only by a factor of {end.text()}"
    return Finding(
        holds,
        f"steps without over with scaling {before}{times} at d_k = {d_k}",
        f"Without scaling training {verb}. At d_k = {d_k} the steps to 90 % accuracy, divided by "
        f"those with scaling, are {_all(one.cases or {one.label: end})}. Each learning rate was "
        "chosen on other seeds.",
        f"{bound}steps to 90 % without over with scaling at d_k = {d_k}",
        end.bound,
        max(0.0, _ln(end.least), -_ln(end.most)),
        condition,
    )


def _all(cases: Mapping[str, Ratio]) -> str:
    """Return every case with its ratio, the largest first."""
    order = sorted(cases.items(), key=lambda item: -item[1].bound.mean)
    texts = (ratio.text() + f" for {label}" * bool(label) for label, ratio in order)
    return "; ".join(texts)


def _ln(value: float) -> float:
    return math.log(max(value, 1e-300))


def stability(one: Comparison) -> Finding:
    """Judge how much wider the window of learning rates is with scaling. Raises MissingError."""
    if not one.windows:
        raise MissingError(NO_ARMS)
    d_k = max(one.windows)
    at = one.windows[d_k]
    if d_k == 1:
        raise MissingError("at d_k = 1 both scale rules are the same, and there is no larger d_k")
    holds = is_beyond(at.gap, WIDER, above=True)
    # The width of the narrower window must be known; if neither is narrower, one of both.
    narrower = {True: [at.unscaled_open], False: [at.scaled_open]}
    if all(narrower[holds] if holds is not None else [at.unscaled_open, at.scaled_open]):
        raise MissingError(
            f"at d_k = {d_k} the window of learning rates reaches an end of the grid"
        )
    if holds is False and d_k < MIN_DECISIVE_D_K:
        raise MissingError(
            f"the windows differ by {format_estimate(at.gap)} decades at d_k = {d_k}, the largest; "
            "larger d_k may differ"
        )

    def decades(window: Estimate, *, open_: bool) -> str:
        return f"{'at least ' if open_ else ''}{format_estimate(window)} decades"

    unscaled = decades(at.unscaled, open_=at.unscaled_open)
    scaled = decades(at.scaled, open_=at.scaled_open)
    lost = _diverge(one.diverged[one.label])
    each = [f"{_diverge(x)}{f' ({name})' if name else ''}" for name, x in one.diverged.items()]
    verb = "narrows" if holds else "does not narrow" if holds is False else "may narrow"
    return Finding(
        holds,
        f"window of learning rates {unscaled} without and {scaled} with scaling at d_k = {d_k}; "
        f"{lost}",
        f"Leaving out the scale {verb} the window of learning rates at which training ends above "
        f"90 %: at d_k = {d_k} it is {unscaled} wide, and {scaled} with scaling. Over all rates of "
        f"the grid, {'; '.join(abbreviate(each, 'series'))}.",
        f"decades by which the window is wider with scaling at d_k = {d_k}",
        at.gap,
        abs(at.gap.mean - WIDER),
        f"in {one.steps} training steps",
    )


def _diverge(counts: tuple[int, int, int]) -> str:
    off, on, runs = counts
    return f"{off} of {runs} runs diverge without scaling, {on} with it"


def same_run(whole: WholeTable) -> Finding:
    """Judge whether every pair of equivalent runs is the same run. Raises MissingError."""
    table = whole.table
    if table.empty:
        raise MissingError("the run has no scale rule that divides by √d_k")
    if (table["n_k"] == 1).all():
        raise MissingError("a single key always has weight 1")
    if (table["d_k"] == 1).all():
        raise MissingError("at d_k = 1 the scale is 1")
    pairs = table.to_dict("records")
    same = [one for one in pairs if one["steps_to_90"] == one["twin_steps_to_90"]]
    neither = sum(math.isinf(one["steps_to_90"]) for one in same)
    there = f"{len(same) - neither} of {len(pairs)} pairs"
    reach = "reach 90 % at the same step" + f", in {neither} neither run does" * bool(neither)
    worst = max(pairs, key=lambda one: float(one["difference"]))
    apart = float(worst["difference"])
    holds = len(same) == len(pairs) and apart < SAME_LOSS_RTOL
    what = "the same run" if holds else "not the same run"
    return Finding(
        holds,
        f"{there} {reach}, relative difference of the losses up to {format_number(apart)}",
        "Without scaling, but with initial weights divided by the fourth root of d_k and a "
        f"rescaled learning rate, training is {what}: {there}, up to d_k = {table['d_k'].max()}, "
        f"{reach}, and the losses of a pair differ by at most a share of {format_number(apart)}.",
        f"largest relative difference of the loss (optimizer = {worst['optimizer']}, "
        f"d_k = {worst['d_k']})",
        Estimate(apart),
        abs(math.log(max(apart, 1e-300) / SAME_LOSS_RTOL)),
    )


CLAIMS = (
    Claim(
        "training",
        "Scaling helps training.",
        "The ratio is the typical one over seeds (Hodges-Lehmann) of the steps to 90 % held-out "
        "accuracy without scaling to those with 1/√d_k. Half of the seeds choose the best "
        "learning rate of each scale rule, the other half are reported at it, and vice versa. If "
        "a run does not reach 90 %, the steps trained bound the ratio of its seed, and the "
        "outer bounds of the interval decide, at the grid's largest d_k. True if both are above 1. "
        f"If neither is, false if that d_k is {MIN_DECISIVE_D_K} or more, and not measured "
        "otherwise. Open if 1 is between them. Not measured if that d_k is 1, a chosen rate is at "
        "the edge of the grid, there are fewer than six seeds, or too few runs reach 90 % to "
        "bound the ratio. There is a condition "
        f"if the ratio is, or may be, below {MIN_NOTABLE_RATIO}.",
        "training-steps",
        scaling_helps,
        caveat="if training begins with q and k entries of variance 1; smaller initial weights do "
        "the same job as scaling",
        evidence=comparisons,
        table="rates",
        lead=5,
    ),
    Claim(
        "stability",
        "Scaling matters for training stability at large d_k.",
        "The window of learning rates is the number of decades of rates at which a run ends at 90 "
        "% accuracy or more. The test compares, for each seed, how much wider it is with 1/√d_k "
        "than without scaling, at the grid's largest d_k. True if the whole interval of the mean "
        f"is above {WIDER:.2f} decades, a factor of 2. If it is below, false if that d_k is "
        f"{MIN_DECISIVE_D_K} or more, and not measured otherwise. Not measured if the window that "
        "should be the narrower one reaches an end of the grid.",
        "training-rates",
        stability,
        evidence=comparisons,
        table="rates",
    ),
    Claim(
        "training_twin",
        "In training, smaller initial weights do the same job as scaling.",
        "Each run with 1/√d_k is paired with one without a scale, with initial weights divided by "
        "the fourth root of d_k and a rescaled learning rate. True if both runs of every pair "
        "reach 90 % at the same step, or neither does, and their losses never differ by more than "
        f"{100 * SAME_LOSS_RTOL} %, which allows for rounding; false otherwise.",
        "training-steps",
        same_run,
        source="ours",
        evidence=lambda _, table: [WholeTable(table)],
        table="twins",
    ),
)
