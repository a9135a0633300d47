"""How each claim is judged: one series of measurements to one reading.

The rules in words are in `claims` next to the sentences.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd

from sqrtdk import cosines, summary, theory
from sqrtdk.decisions import LARGE as LARGE
from sqrtdk.decisions import beyond, need_far, need_large, steady, up_to, within
from sqrtdk.decisions import every as every
from sqrtdk.decisions import exists as exists
from sqrtdk.estimates import (
    Curve,
    Estimate,
    MissingError,
    crossing,
    estimate,
    last,
    number,
    percent,
    relative_range,
    slope,
    spread,
)
from sqrtdk.series import Arm, Series, Whole, scaled_arm, series_of, unscaled_arm

HEAD = 64
"""The d_k that the chapter names, and the usual size of an attention head."""

SHOWN = 4
"""Series written out in a claim's text; a large grid has hundreds. The verdict is of all."""

SLOPE_TOLERANCE, ONE_HOT, STABLE, FACTOR = 0.05, 0.9, 0.10, 2

SELECTS = 0.5
"""A weight above it is more than all other keys have together."""

LOSS = 0.5
"""Less than this share of what attention has with scaling is a great deal less."""

ROUNDING = 16
"""Rounding of a sum of n_k weights stays below this many times n_k eps: each of its n_k additions
rounds by at most eps/2, and the weights and values carry a few eps of their own."""


class Subject(Protocol):
    """What a claim is judged by, such as a `Series` or a `Whole` table."""

    @property
    def label(self) -> str:
        """Name of the subject among others of its claim; empty where there is only one."""

    @property
    def unrelated(self) -> bool:
        """Whether it is about unrelated queries and keys."""


class Reading(NamedTuple):
    """What one subject says about a claim.

    `holds` is None where the intervals are too wide. `distance` is how far the decisive `value`
    is from another answer.
    """

    holds: bool | None
    number: str
    answer: str
    quantity: str
    value: Estimate
    distance: float
    condition: str = ""


def few(texts: list[str], what: str) -> list[str]:
    """Return at most `SHOWN` of the texts, spread over them, and how many more there are."""
    if len(texts) <= SHOWN:
        return texts
    return [*spread(texts, SHOWN), f"{len(texts) - SHOWN} more {what}"]


def _head(curve: Curve) -> tuple[int, Estimate]:
    """Return the point at the chapter's d_k, or the last one where the grid does not have it."""
    return (HEAD, curve[HEAD]) if HEAD in curve else last(curve)


def _joined(*conditions: str) -> str:
    return "; ".join(filter(None, conditions))


def _reaches(
    curve: Curve, level: float, *, above: bool, what: str
) -> tuple[bool | None, Estimate | None, str]:
    """Return whether the curve ends beyond the level, the d_k from which on, and the condition.

    Raises MissingError where it does not, but the grid ends too early to deny it.
    """
    _, end = last(curve)
    holds = beyond(end, level, above=above)
    if holds is False:
        need_large(curve, f"{what} is {number(end.mean)}")
    onset = crossing(curve, level) if holds else None
    since = ""
    if min(curve) > FACTOR * HEAD:
        since = f"tried from d_k = {min(curve)} on only"
    elif onset and not _early(curve, level, above=above):
        since = f"from d_k ≈ {estimate(onset)} on"
    return holds, onset, _joined(since, up_to(curve))


def _early(curve: Curve, level: float, *, above: bool) -> bool:
    """Return whether the curve is surely beyond the level at every d_k of 64 or more.

    Where the intervals leave that open it is not: more seeds may only remove a condition.
    """
    return all(beyond(x, level, above=above) for d_k, x in curve.items() if d_k >= HEAD)


def _from(onset: Estimate | None, curve: Curve) -> str:
    if onset is not None and onset.mean == min(curve):
        return f"above d_k = {min(curve)}"
    return (
        f"at every d_k from {min(curve)} on"
        if onset is None
        else f"from d_k ≈ {estimate(onset)} on"
    )


# Unrelated vectors: scores, weights


def scores_grow(series: Series) -> Reading:
    """Judge the slope of ln logit_std, unscaled, on ln d_k: 1/2 for a sum of d_k random terms."""
    curve = series.curve("unscaled", "logit_std")
    need_far(curve)
    fitted = slope(curve)
    d_k, end = last(curve)
    return Reading(
        within(fitted, 0.5 - SLOPE_TOLERANCE, 0.5 + SLOPE_TOLERANCE),
        f"exponent {estimate(fitted)}, standard deviation {estimate(end)} at d_k = {d_k}",
        f"The standard deviation of the dot products grows as d_k to the power {estimate(fitted)}; "
        "√d_k is the power 0.5.",
        "fitted exponent of d_k",
        fitted,
        SLOPE_TOLERANCE - abs(fitted.mean - 0.5),
    )


def scores_stable(series: Series) -> Reading:
    """Judge the range over d_k of the standard deviation of the scaled scores."""
    curve = series.curve("scaled", "logit_std")
    moved, holds = _steady(curve)
    low, high = (f(curve.items(), key=lambda item: item[1].mean) for f in (min, max))
    over = f"d_k = {min(curve)} to {max(curve)}"
    verb = "stay" if holds else "do not stay"
    return Reading(
        holds,
        f"range {percent(moved)} of the largest standard deviation over {over}",
        f"Divided by √d_k, the scores {verb} in one range: over {over} their standard deviation is "
        f"between {estimate(low[1])} and {estimate(high[1])}.",
        "relative range of logit_std with scaling",
        moved,
        abs(STABLE - moved.mean),
    )


def _steady(curve: Curve) -> tuple[Estimate, bool | None]:
    """Return the relative range over d_k, and whether it is below `STABLE`.

    Raises MissingError where it is, but the grid is too small to say so of every d_k.
    """
    moved = relative_range(curve)
    holds = steady(curve, STABLE)
    if holds is not False:
        need_far(curve)
    return moved, holds


def saturation(series: Series) -> Reading:
    """Judge the unscaled entropy over its largest value, at the largest d_k, against a half."""
    curve = series.curve("unscaled", "entropy_normalized")
    holds, onset, condition = _reaches(curve, 0.5, above=False, what="entropy_normalized")
    d_k, end = last(curve)
    _, keys = last(series.curve("unscaled", "effective_keys"))
    verb = "saturates" if holds else "does not saturate"
    return Reading(
        holds,
        f"{percent(end)} of ln n_k at d_k = {d_k}, {estimate(keys)} effective keys"
        + (f", below half {_from(onset, curve)}" if holds else ""),
        f"Without scaling, large d_k {verb} the softmax: at d_k = {d_k} the attention weights keep "
        f"{percent(end)} of the largest possible entropy.",
        f"entropy_normalized without scaling at d_k = {d_k}",
        end,
        abs(end.mean - 0.5),
        condition,
    )


def one_hot(series: Series) -> Reading:
    """Judge the unscaled largest weight at the largest d_k, against 0.9."""
    curve = series.curve("unscaled", "max_weight")
    holds, onset, condition = _reaches(curve, ONE_HOT, above=True, what="max_weight")
    (d_head, head), (d_k, end) = _head(curve), last(curve)
    also = f"{estimate(head)} at d_k = {d_head}, " if d_head != d_k else ""
    verb = "become" if holds else "do not become"
    return Reading(
        holds,
        f"{also}{estimate(end)} at d_k = {d_k}"
        + (f", above {ONE_HOT} {_from(onset, curve)}" if holds else ""),
        f"Without scaling the weights {verb} nearly one-hot: the largest weight of a query is on "
        f"average {also}{estimate(end)} at d_k = {d_k}.",
        f"max_weight without scaling at d_k = {d_k}",
        end,
        abs(end.mean - ONE_HOT),
        condition,
    )


def from_64(series: Series) -> Reading:
    """Judge the entropy without scaling over that with it, at every d_k of 64 or more."""
    curve = {d_k: x for d_k, x in series.ratio("entropy_normalized").items() if d_k >= HEAD}
    if not curve:
        raise MissingError(f"the run has no d_k of {HEAD} or more")
    holds = every(beyond(x, LOSS, above=False) for x in curve.values())
    if holds is False:
        need_large(curve, f"the entropy without scaling is {number(last(curve)[1].mean)} of it")
    off, on = (series.curve(arm, "entropy_normalized") for arm in ("unscaled", "scaled"))
    first = min(curve)
    closest = max(curve, key=lambda d_k: curve[d_k].mean)
    since = f"tried from d_k = {first} on only" if first > FACTOR * HEAD else ""
    half = _half_gone(off, series.n_k)
    verb = "matters" if holds else "does not matter a great deal"
    return Reading(
        holds,
        f"at d_k = {first} {percent(off[first])} of the possible entropy without scaling, "
        f"{percent(on[first])} with it" + (f"; half is gone at {half}" if half else ""),
        f"Scaling {verb} at d_k = {first}: without it {percent(off[first])} of the possible "
        f"entropy is left, with it {percent(on[first])}."
        + (f" There is no threshold at {HEAD}: half is gone at {half}." if half else ""),
        f"entropy without scaling over that with it at d_k = {closest}",
        curve[closest],
        abs(curve[closest].mean - LOSS),
        _joined(since, up_to(curve)),
    )


def _half_gone(curve: Curve, n_k: int) -> str:
    """Return where half of the possible entropy is gone, in words; empty where none is known."""
    onset = crossing(curve, 0.5)
    if onset is None:
        return ""
    known = not any(math.isnan(point.exact) for point in curve.values())
    exact = theory.half_entropy_d_k(n_k) if known else math.nan
    return f"d_k ≈ {estimate(onset._replace(exact=exact))}"


def stable(series: Series) -> Reading:
    """Judge the range of the scaled entropy over d_k, relative to its largest value."""
    curve = series.curve("scaled", "entropy_nats")
    moved, holds = _steady(curve)
    over = f"d_k = {min(curve)} to {max(curve)}"
    try:
        without = percent(relative_range(series.curve("unscaled", "entropy_nats")))
    except MissingError:
        without = ""
    verb = "hardly notices" if holds else "does notice"
    return Reading(
        holds,
        f"range {percent(moved)} of the largest entropy over {over}"
        + (f", {without} without scaling" if without else ""),
        f"With √d_k the softmax {verb} d_k: over {over} the highest and the lowest entropy differ "
        f"by {percent(moved)} of the highest"
        + (f", without scaling by {without}." if without else "."),
        "relative range of entropy_nats with scaling",
        moved,
        abs(STABLE - moved.mean),
    )


# Gradients


def gradients_typical(series: Series) -> Reading:
    """Judge whether most entries are near zero without scaling alone, and the median row smaller.

    A weight that is one-hot has entries near zero by counting, however large its gradient: so
    the scaled arm is counted too, and the norm of a whole row is compared.
    """
    dead = series.curve("unscaled", "grad_logits_dead_entries")
    kept = series.curve("scaled", "grad_logits_dead_entries")
    median = series.ratio("grad_logits_median")
    d_end, end = last(dead)
    many, first, late = _reaches(dead, 0.5, above=True, what="the share of dead entries")
    alive = beyond(last(kept)[1], 0.5, above=False)
    small, second, later = _reaches(
        median, 1.0, above=False, what="the ratio of the median gradients"
    )
    holds = every((many, alive, small))
    d_k, share = _head(dead)
    with_scaling = f", with scaling {percent(kept[d_k])}" if d_k in kept else ""
    crossed = f"the median row is smaller than with scaling {_from(second, median)}"
    verb = "are" if many else "are not"
    # Of n_k weights at most two are in play in a saturated row.
    counted = percent(Estimate(max(0.0, 1 - 2 / series.n_k)))
    return Reading(
        holds,
        f"dead entries {percent(share)} at d_k = {d_k}{with_scaling}"
        + (f", {crossed}" if small else ""),
        f"Without scaling most entries of the gradient at the logits {verb} close to zero: "
        f"{percent(share)} are below 0.001/n_k at d_k = {d_k}{with_scaling}. Part of that is "
        f"counting: where only two keys share a query's attention, {counted} of its entries are "
        "zero, however large the others." + (f" As a whole, {crossed}." if small else ""),
        f"share of dead entries without scaling at d_k = {d_end}",
        end,
        abs(end.mean - 0.5),
        # Both hold from the later of the two on.
        later if second and (not first or second.mean >= first.mean) else late,
    )


def gradients_rms(series: Series) -> Reading:
    """Judge the root mean squares of the gradients that reach q, k and v, unscaled over scaled."""
    ratios = {x: series.ratio(f"grad_{x}_rms") for x in ("q", "k", "v")}
    common = sorted(set.intersection(*(set(curve) for curve in ratios.values())))
    if common in ([], [1]):
        raise MissingError("at d_k = 1 both arms are the same, and there is no larger d_k")
    d_k = common[-1]
    holds = every(beyond(curve[d_k], 1.0, above=False) for curve in ratios.values())
    at = HEAD if HEAD in common else d_k
    ratio = ratios["q"][at]
    values = ", ".join(f"{x} {estimate(curve[at])}" for x, curve in ratios.items())
    farthest = max((curve[d_k] for curve in ratios.values()), key=lambda x: x.mean)
    tried = {d: ratios["q"][d] for d in common}
    if holds is False:
        need_large(tried, f"the largest of the three ratios is {number(farthest.mean)}")
    verb = "vanish" if holds else "do not vanish"
    return Reading(
        holds,
        f"without over with scaling at d_k = {at}: {values}",
        f"Without scaling the gradients {verb} on average: at d_k = {at} those at the queries are "
        f"{estimate(ratio, ' times')} as large, in root mean square, as with it."
        + ("" if holds else " They are only shared out worse."),
        f"largest of the three ratios at d_k = {d_k}",
        farthest,
        abs(farthest.mean - 1),
        up_to(tried),
    )


def matched(settings: Mapping[str, Any], table: pd.DataFrame) -> list[Series]:
    """Return the series of the input laws that give each query a matching key."""
    return [
        one
        for one in series_of(settings, table)
        if cosines.cosines_of(settings["inputs"][one.axes["inputs"]], one.n_k)
    ]


def gradients_matched(series: Series) -> Reading:
    """Judge the share of queries without a gradient, in both arms, where each has a match.

    A share is bounded: one seed cannot carry it, as it can a mean of norms.
    """
    shares = {arm: series.curve(arm, "grad_q_dead_rows") for arm in ("unscaled", "scaled")}
    common = sorted(shares["unscaled"].keys() & shares["scaled"].keys())
    if not common:
        raise MissingError("the arms without and with scaling have no d_k in common")
    off, on = ({d_k: curve[d_k] for d_k in common} for curve in shares.values())
    d_k, end = last(on)
    first, second = crossing(off, 0.5), crossing(on, 0.5)
    holds = every((*(beyond(last(x)[1], 0.5, above=True) for x in (off, on)), _later(off, on)))
    if holds is False:
        need_large(on, f"{percent(end)} of the queries have no gradient with √d_k")
    verb = "saturates" if holds else "does not saturate"
    at = HEAD if HEAD in common else common[0]
    try:
        rms = series.ratio("grad_q_rms").get(at)
    except MissingError:
        rms = None
    beside = (
        f" At d_k = {at} the root mean square without scaling is {estimate(rms, ' times')} that "
        "with it."
        if rms
        else ""
    )
    where = (
        f" More than half of the queries get a gradient below 0.001 {_from(first, off)} without "
        f"scaling, and {_from(second, on)} with it."
        if holds
        else f" At d_k = {d_k} {percent(last(off)[1])} of the queries get a gradient below 0.001 "
        f"without scaling, and {percent(end)} with it."
    )
    return Reading(
        holds,
        f"gradient below 0.001 at d_k = {d_k}: {percent(last(off)[1])} of the queries without "
        f"scaling, {percent(end)} with it"
        + (f"; half of them {_from(first, off)}, and {_from(second, on)} with it" * bool(holds)),
        f"A match {verb} both.{where}{beside}",
        f"share of queries without a gradient with √d_k at d_k = {d_k}",
        end,
        abs(end.mean - 0.5),
        up_to(on),
    )


def _later(off: Curve, on: Curve) -> bool | None:
    """Return whether the second curve rises through a half at a larger d_k than the first."""
    states = [
        every((beyond(off[d_k], 0.5, above=True), beyond(on[d_k], 0.5, above=False))) for d_k in off
    ]
    return exists(states)


# Related vectors: what attention selects


def inverse(series: Series) -> Reading:
    """Judge the range of the entropy over d_k with 1/d_k, and the weight that the match gets."""
    entropy, weight = (series.curve("inverse", x) for x in ("entropy_nats", "match_weight"))
    moved, stays = _steady(entropy)
    d_k, end = last(weight)
    selects = beyond(end, SELECTS, above=True)
    holds = every((stays, selects))
    if selects is False:
        need_large(weight, f"the match has the weight {number(end.mean)}")
    over = f"d_k = {min(entropy)} to {max(entropy)}"
    beside = []
    others: tuple[tuple[Arm, str], ...] = (
        ("inverse_64", "8/d_k, equal to 1/√d_k at d_k = 64,"),
        ("scaled", "1/√d_k"),
    )
    for arm, name in others:
        try:
            range_of = relative_range(series.curve(arm, "entropy_nats"))
            chosen = series.curve(arm, "match_weight")[d_k]
        except (MissingError, KeyError):
            continue
        beside.append(f"with {name} {estimate(chosen)} and {percent(range_of)}")
    also = f" For comparison: {'; '.join(beside)}." if beside else ""
    there = "stays where it is" if stays else "does not stay where it is"
    finds = "finds the match" if selects else "selects nothing"
    joint = "and" if stays is selects else "but"
    equal = number(1 / series.n_k)
    return Reading(
        holds,
        f"weight of the match {estimate(end)} at d_k = {d_k} (equal share {equal}), range of the "
        f"entropy {percent(moved)} over {over}",
        f"Divided by d_k, attention {there}, {joint} it {finds}: at d_k = {d_k} the match has "
        f"the weight {estimate(end)}, where an equal share is {equal}, and over {over} the entropy "
        f"moves by {percent(moved)} of its highest value.{also}",
        f"weight of the match with 1/d_k at d_k = {d_k}",
        end,
        abs(SELECTS - end.mean),
    )


class Grading(NamedTuple):
    """How much weight keys of known cosine get, at one (n_k, n_q, inputs, dtype), over d_k.

    `curves` are by arm (`unscaled`, `scaled`), metric and cosine.
    """

    label: str
    n_k: int
    curves: Mapping[tuple[str, str, float], Curve]
    unrelated: bool = False

    def curve(self, arm: str, metric: str, cosine: float) -> Curve:
        """Return one metric over d_k. Raises MissingError."""
        found = self.curves.get((arm, metric, cosine))
        if found is None:
            raise MissingError(f"the run has no {arm} weights by cosine")
        return found


def gradings(settings: Mapping[str, Any], table: pd.DataFrame) -> list[Grading]:
    """Return what cosines.csv says of each input law with several related keys."""
    rules = settings["scaling"]
    arms = {"unscaled": unscaled_arm(rules), "scaled": scaled_arm(rules)}
    axes = ["n_k", "n_q", "inputs", "dtype"]
    varying = [x for x in axes if x in ("n_k", "inputs") or len(table[x].unique()) > 1]
    result = []
    for at, frame in table.groupby(axes, sort=True):
        values: dict[str, Any] = dict(zip(axes, at, strict=True))
        if frame.loc[frame["cosine"] > 0, "cosine"].nunique() < 2:
            continue
        curves: dict[tuple[str, str, float], Curve] = {}
        for row in frame.sort_values("d_k").to_dict("records"):
            for arm, name in arms.items():
                if row["scaling"] == name:
                    curve = curves.setdefault((arm, row["metric"], row["cosine"]), {})
                    curve[row["d_k"]] = Estimate(row["mean"], row["ci_low"], row["ci_high"])
        label = ", ".join(f"{name} = {values[name]}" for name in varying)
        result.append(Grading(label, values["n_k"], curves))
    return result


def graded(one: Grading) -> Reading:
    """Judge what a key with half of the match's cosine gets, at the chapter's d_k."""
    found = sorted({cosine for arm, _, cosine in one.curves if arm == "scaled"})
    if not found:
        raise MissingError("the run has no scale rule that divides by √d_k")
    if 0.0 not in found:
        raise MissingError("every key is related to the query")
    match = found[-1]
    some = min(found[1:-1], key=lambda cosine: abs(cosine - match / 2))
    heard = one.curve("scaled", "heard", some)
    sizes = [d_k for d_k in heard if d_k >= HEAD]
    if not sizes:
        raise MissingError(f"the run has no d_k of {HEAD} or more")
    at = sizes[0]
    best, weight, none = (one.curve("scaled", "weight", x)[at] for x in (match, some, 0.0))
    holds = every(
        (
            beyond(heard[at], 0.5, above=True),
            _less(weight, best),
            _less(none, weight),
        )
    )
    try:
        off = one.curve("unscaled", "heard", some)[at]
        without = f"without scaling {percent(off)}"
    except (MissingError, KeyError):
        without = ""
    ends = {d_k: heard[d_k] for d_k in sizes}
    lost = [d_k for d_k in sizes if beyond(heard[d_k], 0.5, above=True) is not True]
    until = crossing(ends, 0.5) if lost else None
    verb = "make" if holds else "do not make"
    return Reading(
        holds,
        f"at d_k = {at} cosine {some:g} gets {estimate(weight)}, the match ({match:g}) "
        f"{estimate(best)}, an unrelated key {estimate(none)}; {percent(heard[at])} of the "
        f"queries give it an equal share or more{f', {without}' if without else ''}",
        f"Keys that are related a little {verb} a small contribution: at d_k = {at}, with 1/√d_k, "
        f"a key of cosine {some:g} gets the weight {estimate(weight)}, between the match of cosine "
        f"{match:g} with {estimate(best)} and unrelated keys with {estimate(none)}. "
        f"{percent(heard[at])} of the queries give it at least an equal share, 1/n_k"
        + (f"; {without}." if without else "."),
        f"share of queries that hear a key of cosine {some:g} at d_k = {at}",
        heard[at],
        abs(heard[at].mean - 0.5),
        _joined(
            f"tried from d_k = {at} on only" if at > FACTOR * HEAD else "",
            f"up to d_k ≈ {estimate(until)}" if until else "",
            f"not surely at d_k = {lost[0]}" if lost and not until else "",
            up_to(heard),
        ),
    )


def _less(a: Estimate, b: Estimate) -> bool | None:
    """Return whether a is less than b, by intervals that do not touch."""
    return beyond(Estimate(b.mean - a.mean, b.low - a.high, b.high - a.low), 0.0, above=True)


def average(whole: Whole) -> Reading:
    """Judge how far weights are from summing to 1 and outputs are outside the values' range."""
    table = whole.table[whole.table["metric"].isin(["weight_sum_error", "output_excess"])]
    if table.empty:
        raise MissingError("the table has no weight_sum_error")
    eps = table["dtype"].map(lambda dtype: float(np.finfo(dtype).eps))
    # The mean over seeds of errors that are never negative bounds each by n_seeds times itself.
    over = table["mean"] / (eps * table["n_k"])
    worst = float(over.max())
    sums, excess = (
        float(table.loc[table["metric"] == metric, "mean"].max())
        for metric in ("weight_sum_error", "output_excess")
    )
    holds = worst <= ROUNDING
    cells = len(table) // 2
    return Reading(
        holds,
        f"over {cells} combinations of sizes, input laws and scale rules the weights miss a sum of "
        f"1 by at most {number(sums)}, and outputs leave the range of the values by at most "
        f"{number(excess)}",
        f"{'All' if holds else 'Not all'} outputs are averages of the values: over {cells} "
        "combinations of sizes, input laws and scale rules the weights of a query miss a sum of 1 "
        f"by at most {number(sums)}{', which is rounding' if holds else ''}, and outputs leave the "
        f"range of the values by at most {number(excess)}.",
        "largest error over n_k eps",
        Estimate(worst),
        abs(ROUNDING - worst),
    )


# Half precision, and the gate


def agreement(whole: Whole) -> Reading:
    """The gate: deviations from the exact expectations are what sampling alone makes."""
    gate = summary.gate(whole.table)
    if gate is None:
        raise MissingError(f"no exact value with at least {summary.GATED_SEEDS} seeds")
    verb = "agree" if gate.passed else "do not agree"
    name, value, margin = min(
        ("root mean square of z", gate.rms_z, gate.rms_margin),
        ("largest |z|", gate.max_abs_z, gate.max_margin),
        key=lambda one: one[2],
    )
    return Reading(
        gate.passed,
        f"{gate.points} distinct means of {gate.draws} draws, rms of z {gate.rms_z:.2f}, largest "
        f"|z| {gate.max_abs_z:.1f}",
        f"The measured means {verb} with theory: over {gate.points} distinct means of {gate.draws} "
        "independent draws, the deviation z from the exact value, in standard errors, has the root "
        f"mean square {gate.rms_z:.2f}, and the largest |z| is {gate.max_abs_z:.1f}.",
        name,
        Estimate(value),
        margin,
    )


class _Orders(NamedTuple):
    """The share of float16 scores that overflow, with either order, in one row of the grid."""

    d_k: int
    input_sd: int
    after: Estimate
    before: Estimate

    @property
    def saved(self) -> Estimate:
        """The share that overflows after the product and not before it."""
        (a, a_low, a_high, _), (b, b_low, b_high, _) = self.after, self.before
        return Estimate(a - b, a_low - b_high, a_high - b_low)


def half_precision(whole: Whole) -> Reading:
    """Judge whether fewer scores overflow float16 with the scale before the product than after."""
    found = _orders(whole.table, "float16")
    if not found:
        raise MissingError("the run has not float16 with both orders and a scale other than 1")
    overflowing = [one for one in found if max(one.after.mean, one.before.mean) > 0]
    if not overflowing:
        raise MissingError("no float16 score overflows; larger inputs or a larger d_k may")
    states = [beyond(one.saved, 0.0, above=True) for one in overflowing]
    holds = exists(states)
    deciding = [one for one, state in zip(overflowing, states, strict=True) if state is holds]
    worst = max(deciding, key=lambda one: (one.after.mean, one.d_k))
    at = f"at d_k = {worst.d_k} and inputs of standard deviation {worst.input_sd}"
    text = (
        f"{percent(worst.after)} of the scores overflow with the scale after, "
        f"{percent(worst.before)} before"
    )
    return Reading(
        holds,
        f"{text}, {at}",
        f"The order {'matters' if holds else 'does not matter'} in float16: {at}, {text} the "
        "product.",
        f"share of float16 scores that overflow with the scale after the product and not before, "
        f"at d_k = {worst.d_k} and input_sd = {worst.input_sd}",
        worst.saved,
        abs(worst.saved.mean),
        _where(found, _orders(whole.table, "bfloat16")),
    )


def _where(float16: Sequence[_Orders], bfloat16: Sequence[_Orders]) -> str:
    """Return for which kernels and sizes the order matters, and where no score overflows."""
    sizes: dict[int, list[int]] = {one.input_sd: [] for one in float16}
    for one in float16:
        if max(one.after.mean, one.before.mean) > 0:
            sizes[one.input_sd].append(one.d_k)
    some = [f"input_sd = {sd} from d_k = {min(at)} on" for sd, at in sorted(sizes.items()) if at]
    none = [f"at input_sd = {sd}" for sd, at in sorted(sizes.items()) if not at]
    if bfloat16 and all(one.after.mean == one.before.mean == 0 for one in bfloat16):
        none.append("in bfloat16")
    text = (
        "in kernels that store the product in half precision; those that keep it in float32 "
        f"overflow in neither order; where float16 scores overflow, at "
        f"{' and '.join(few(some, 'sizes'))}"
    )
    return text + (f"; none overflow {' and '.join(few(none, 'sizes'))}" if none else "")


def _orders(table: pd.DataFrame, precision: str) -> list[_Orders]:
    """Both orders of each row of the grid, without those whose scale of 1 makes them the same."""
    found = []
    axes = ["d_k", "n_k", "n_q", "inputs", "input_sd", "scaling"]
    for at, frame in table[table["precision"] == precision].groupby(axes):
        share = {
            row["order"]: Estimate(row["mean"], row["ci_low"], row["ci_high"])
            for row in frame[frame["metric"] == "overflow_share"].to_dict("records")
        }
        scale = frame.loc[frame["metric"] == "scale", "mean"]
        if len(share) == 2 and not (scale == 1).any():
            sizes: dict[str, Any] = dict(zip(axes, at, strict=True))
            found.append(_Orders(sizes["d_k"], sizes["input_sd"], share["after"], share["before"]))
    return found
