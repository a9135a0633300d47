"""How the claims about training are judged, by rates.csv and twins.csv.

The rules in words stand in `claims` beside the sentences.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from sqrtdk import rates
from sqrtdk.estimates import Curve, Estimate, MissingError, estimate, last, number, past
from sqrtdk.judges import LARGE, Reading
from sqrtdk.series import Whole, scaled_arm, unscaled_arm

MUCH = 5
"""A ratio of steps below which scaling helps only a little."""

SAME = 1e-3
"""Two held-out losses that differ relatively by more are not the same. Rounding makes up to 3e-6
of it in the default grid, where Adam divides by gradient entries that are nearly 0; seeds differ
by some ten per cent."""


@dataclass(frozen=True)
class Comparison:
    """Training without scaling against 1/√d_k, over d_k, with one optimizer and loss.

    `ratio` is the median over seeds of the steps to 90 %, unscaled over scaled. `least` is a lower
    bound of it for a run that never got there. `edges` are the d_k at which a best rate is at the
    edge of the grid.
    """

    label: str
    ratio: Curve
    least: Mapping[int, float]
    edges: frozenset[int]
    unrelated: bool = True


def comparisons(settings: Mapping[str, Any], table: pd.DataFrame) -> list[Comparison]:
    """The comparisons of a rates.csv, in the order of its axes; one without ratios if an arm lacks.

    A ratio needs an arm that leaves the scores as they are and one that divides by √d_k.
    """
    rules = settings["scaling"]
    unscaled, scaled = unscaled_arm(rules), scaled_arm(rules)
    if unscaled is None or scaled is None:
        return [Comparison("", {}, {}, frozenset())]
    best = table[(table["best"] == 1) & table["scaling"].isin([unscaled, scaled])]
    axes = [key.name for key in rates.TASK if key.name != "d_k"]
    named = [axis for axis in axes if axis in ("optimizer", "loss") or len(set(table[axis])) > 1]
    found = []
    for at, frame in best.groupby(axes, sort=True):
        values = dict(zip(axes, at, strict=True))
        curve: Curve = {}
        least: dict[int, float] = {}
        with_scale = frame[frame["scaling"] == scaled].set_index("d_k")["steps_to_90"]
        for row in frame[frame["scaling"] == unscaled].sort_values("d_k").to_dict("records"):
            d_k = row["d_k"]
            curve[d_k] = Estimate(*(row[x] for x in ("ratio", "ratio_low", "ratio_high")))
            least[d_k] = float(np.divide(row["steps"], with_scale[d_k]))
        edges = frozenset(frame.loc[frame["edge"] != "", "d_k"])
        label = ", ".join(f"{axis} = {values[axis]}" for axis in named)
        found.append(Comparison(label, curve, least, edges))
    return found


def scaling_helps(one: Comparison) -> Reading:
    """The ratio of steps at the largest d_k against 1. Raises MissingError."""
    if not one.ratio:
        raise MissingError(
            "the run has not both a scale rule that leaves the scores as they are "
            "and one that divides by √d_k"
        )
    d_k, end = last(one.ratio)
    if d_k == 1:
        raise MissingError("at d_k = 1 both arms are the same, and there is no larger d_k")
    if d_k in one.edges:
        raise MissingError(f"a best learning rate is at the edge of the grid at d_k = {d_k}")
    if math.isnan(end.mean):
        raise MissingError(
            f"at d_k = {d_k} too few runs reach 90 %, or some have it from the start"
        )
    holds = past(end, 1.0, above=True)
    if holds is False and d_k < LARGE:
        raise MissingError(
            f"the ratio is {number(end.mean)} at d_k = {d_k}, the largest; larger d_k may differ"
        )
    first = next(iter(one.ratio))
    before = f"{_times(one, first)} at d_k = {first}, " if first != d_k else ""
    verb = "takes longer" if holds else "does not take longer"
    # A ratio that is only known to be large: by how much is known.
    value = end if math.isfinite(end.mean) else Estimate(one.least[d_k])
    little = holds and math.isfinite(end.mean) and end.mean < MUCH
    return Reading(
        holds,
        f"steps without over with scaling {before}{_times(one, d_k)} at d_k = {d_k}",
        f"Without scaling training {verb}: the steps to 90 % accuracy are {before}"
        f"{_times(one, d_k)} at d_k = {d_k} what they are with scaling, each at its best learning "
        "rate.",
        f"steps to 90 % without over with scaling at d_k = {d_k}",
        value,
        abs(math.log(max(value.mean, 1e-300))),
        f"by a factor of {estimate(end)} only" if little else "",
    )


def _times(one: Comparison, d_k: int) -> str:
    ratio = one.ratio[d_k]
    if math.isinf(ratio.mean):
        return f"more than {number(one.least[d_k])} times"
    return "undefined" if math.isnan(ratio.mean) else estimate(ratio, " times")


def same_run(whole: Whole) -> Reading:
    """Whether every twin is the run that it should be. Raises MissingError."""
    table = whole.table
    if table.empty:
        raise MissingError("the run has no scale rule that divides by √d_k")
    if (table["n_k"] == 1).all():
        raise MissingError("a single key always has weight 1")
    if (table["d_k"] == 1).all():
        raise MissingError("at d_k = 1 the scale is 1")
    pairs = table.to_dict("records")
    together = sum(one["steps_to_90"] == one["twin_steps_to_90"] for one in pairs)
    worst = max(pairs, key=lambda one: float(one["difference"]))
    apart = float(worst["difference"])
    holds = together == len(pairs) and apart < SAME
    what = "the same run" if holds else "another run"
    return Reading(
        holds,
        f"{together} of {len(pairs)} pairs reach 90 % at the same step, losses differ by up to "
        f"{number(apart)} of themselves",
        f"Without scaling, but from weights divided by the fourth root of d_k and at a rescaled "
        f"learning rate, training makes {what}: {together} of {len(pairs)} pairs, up to d_k = "
        f"{table['d_k'].max()}, reach 90 % at the same step, and their losses differ by at most "
        f"{number(apart)} of themselves.",
        f"largest relative difference of the loss (optimizer = {worst['optimizer']}, "
        f"d_k = {worst['d_k']})",
        Estimate(apart),
        abs(math.log(max(apart, 1e-300) / SAME)),
    )
