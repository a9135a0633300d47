"""How each claim is judged: one series of measurements to one reading.

The rules in words stand in `claims` beside the sentences.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import pandas as pd

from sqrtdk import summary
from sqrtdk.estimates import (
    Curve,
    Estimate,
    MissingError,
    crossing,
    estimate,
    last,
    number,
    past,
    percent,
    relative_range,
    slope,
    spread,
)
from sqrtdk.experiments.scaling import top_rows, top_rows_in_words
from sqrtdk.series import Series, Whole

HEAD = 64
"""The d_k that the chapter names, and the usual size of an attention head."""

LARGE = 1024
"""A d_k at which an effect of large d_k has to show; a grid that ends below cannot deny it."""

SHOWN = 4
"""Series written out in a claim's text; a large grid has hundreds. The verdict is of all."""

SLOPE_TOLERANCE, ONE_HOT, STABLE, FACTOR = 0.05, 0.9, 0.10, 2


class Subject(Protocol):
    """What a claim is judged by, such as a `Series` or a `Whole` table."""

    @property
    def label(self) -> str:
        """Name of the subject beside others of its claim; empty where there is one."""

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
    """At most `SHOWN` of the texts, spread over them, and how many more there are."""
    if len(texts) <= SHOWN:
        return texts
    return [*spread(texts, SHOWN), f"{len(texts) - SHOWN} more {what}"]


def _head(curve: Curve) -> tuple[int, Estimate]:
    """The point at the chapter's d_k, or the last one where the grid does not have it."""
    return (HEAD, curve[HEAD]) if HEAD in curve else last(curve)


def every(states: Iterable[bool | None]) -> bool | None:
    """True where all are; False where one fails for sure; None where one is open and none fails."""
    found = set(states)
    return False if False in found else None if None in found else True


def exists(states: Iterable[bool | None]) -> bool | None:
    """True where one holds for sure; None where one is open and none holds."""
    found = set(states)
    return True if True in found else None if None in found else False


def _reaches(
    curve: Curve, level: float, *, above: bool, what: str
) -> tuple[bool | None, Estimate | None, str]:
    """Whether the curve ends beyond the level, the d_k from which on, and the condition if late.

    Raises MissingError where it does not, but the grid ends too early to deny it.
    """
    d_k, end = last(curve)
    holds = past(end, level, above=above)
    if holds is False and d_k < LARGE:
        raise MissingError(
            f"{what} is {number(end.mean)} at d_k = {d_k}, the largest; larger d_k may differ"
        )
    onset = crossing(curve, level) if holds else None
    late = onset is not None and onset.mean > HEAD
    return holds, onset, f"from d_k ≈ {estimate(onset)} on" if onset and late else ""


def _from(onset: Estimate | None, curve: Curve) -> str:
    if onset is not None and onset.mean == min(curve):
        return f"above d_k = {min(curve)}"
    return (
        f"at every d_k from {min(curve)} on"
        if onset is None
        else f"from d_k ≈ {estimate(onset)} on"
    )


def scores_grow(series: Series) -> Reading:
    """The slope of ln logit_std, unscaled, on ln d_k: 1/2 for a random walk of d_k steps."""
    curve = series.curve("unscaled", "logit_std")
    fitted = slope(curve)
    low, high = 0.5 - SLOPE_TOLERANCE, 0.5 + SLOPE_TOLERANCE
    ends = (fitted.mean,) * 2 if math.isnan(fitted.low) else fitted[1:3]
    holds = True if low < ends[0] and ends[1] < high else None
    holds = False if ends[1] <= low or ends[0] >= high else holds
    d_k, end = last(curve)
    return Reading(
        holds,
        f"exponent {estimate(fitted)}, standard deviation {estimate(end)} at d_k = {d_k}",
        f"The standard deviation of the dot products grows as d_k to the power {estimate(fitted)}; "
        "√d_k is the power 0.5.",
        "fitted exponent of d_k",
        fitted,
        SLOPE_TOLERANCE - abs(fitted.mean - 0.5),
    )


def saturation(series: Series) -> Reading:
    """The unscaled entropy over its largest value, at the largest d_k, against a half."""
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
    """The unscaled largest weight at the largest d_k, against 0.9."""
    curve = series.curve("unscaled", "max_weight")
    holds, onset, condition = _reaches(curve, ONE_HOT, above=True, what="max_weight")
    (d_head, head), (d_k, end) = _head(curve), last(curve)
    also = f"{estimate(head)} at d_k = {d_head}, " if d_head != d_k else ""
    verb = "becomes" if holds else "does not become"
    return Reading(
        holds,
        f"{also}{estimate(end)} at d_k = {d_k}"
        + (f", above {ONE_HOT} {_from(onset, curve)}" if holds else ""),
        f"Without scaling the attention {verb} one-hot: the mean largest weight is {also}"
        f"{estimate(end)} at d_k = {d_k}.",
        f"max_weight without scaling at d_k = {d_k}",
        end,
        abs(end.mean - ONE_HOT),
        condition,
    )


def gradients_typical(series: Series) -> Reading:
    """Most single entries of the unscaled gradient are dead, and its median row is smaller."""
    dead = series.curve("unscaled", "grad_logits_dead_entries")
    kept = series.curve("scaled", "grad_logits_dead_entries")
    median = series.ratio("grad_logits_median")
    many, first, _ = _reaches(dead, 0.5, above=True, what="the share of dead entries")
    small, second, _ = _reaches(median, 1.0, above=False, what="the ratio of the median gradients")
    holds = every((many, small))
    d_k, share = _head(dead)
    late = [x for x in (first, second) if x is not None and x.mean > HEAD]
    onset = max(late, key=lambda x: x.mean, default=None)
    end = last(dead)[1]
    with_scaling = f", {percent(kept[d_k])} with it" if d_k in kept else ""
    crossed = f", the median row is smaller than with scaling {_from(second, median)}"
    return Reading(
        holds,
        f"dead entries {percent(share)} at d_k = {d_k}{with_scaling}" + (crossed if small else ""),
        f"The typical gradient {'vanishes' if holds else 'does not vanish'}: at d_k = {d_k}, "
        f"without scaling, {percent(share)} of the single entries of the gradient with respect to "
        f"the logits are below 1e-3/n_k{with_scaling}.",
        f"share of dead entries without scaling at d_k = {last(dead)[0]}",
        end,
        abs(end.mean - 0.5),
        f"from d_k ≈ {estimate(onset)} on" if holds and onset else "",
    )


def gradients_rms(series: Series) -> Reading:
    """The root mean squares of the gradients that reach q, k and v, unscaled over scaled."""
    ratios = {x: series.ratio(f"grad_{x}_rms") for x in ("q", "k", "v")}
    common = sorted(set.intersection(*(set(curve) for curve in ratios.values())))
    if common in ([], [1]):
        raise MissingError("at d_k = 1 both arms are the same, and there is no larger d_k")
    d_k = common[-1]
    holds = every(past(curve[d_k], 1.0, above=False) for curve in ratios.values())
    at = HEAD if HEAD in common else d_k
    ratio = ratios["q"][at]
    values = ", ".join(f"{x} {estimate(curve[at])}" for x, curve in ratios.items())
    farthest = max((curve[d_k] for curve in ratios.values()), key=lambda x: x.mean)
    try:
        top = series.curve("unscaled", "grad_logits_top1_share")
    except MissingError:
        top = {}
    rows = top_rows_in_words(series.axes["n_q"])
    verb = "holds" if top_rows(series.axes["n_q"]) == 1 else "hold"
    rare = f", {rows} {verb} {percent(top[at])} of the square" if at in top else ""
    verb = "vanish" if holds else "do not vanish"
    return Reading(
        holds,
        f"without over with scaling at d_k = {at}: {values}{rare}",
        f"The gradients as a whole {verb}: at d_k = {at} the root mean square of the gradient that "
        f"reaches the queries is {estimate(ratio, ' times')} what it is with scaling.",
        f"largest of the three ratios at d_k = {d_k}",
        farthest,
        abs(farthest.mean - 1),
    )


def gradients_matched(series: Series) -> Reading:
    """Whether at some d_k the rms gradients that pass the softmax are smaller without scaling."""
    q, k = (series.ratio(f"grad_{x}_rms") for x in ("q", "k"))
    both = {d_k: (q[d_k], k[d_k]) for d_k in q if d_k > 1 and d_k in k}
    if not both:
        raise MissingError("at d_k = 1 both arms are the same, and there is no larger d_k")
    states = {d: every(past(x, 1.0, above=False) for x in pair) for d, pair in both.items()}
    holds = exists(states.values())
    # Of the d_k that decide, the one where the larger of the two ratios is smallest.
    larger = {d_k: max(pair) for d_k, pair in both.items() if states[d_k] is holds}
    d_k, smallest = min(larger.items(), key=lambda item: item[1])
    verb = "vanish" if holds else "do not vanish"
    return Reading(
        holds,
        f"without over with scaling {estimate(smallest)} at d_k = {d_k}",
        f"Of vectors that are related, the gradients as a whole {verb}: at d_k = {d_k} the root "
        f"mean square of the gradient that reaches q and k is {estimate(smallest, ' times')} what "
        "it is with scaling.",
        f"larger of the ratios for q and k at d_k = {d_k}",
        smallest,
        abs(math.log(max(smallest.mean, 1e-300))),
    )


def stable(series: Series) -> Reading:
    """The range of the scaled entropy over d_k, relative to its largest value."""
    curve = series.curve("scaled", "entropy_nats")
    moved = relative_range(curve)
    over = f"d_k = {min(curve)} to {max(curve)}"
    try:
        without = percent(relative_range(series.curve("unscaled", "entropy_nats")))
    except MissingError:
        without = ""
    holds = past(moved, STABLE, above=False)
    verb = "keeps" if holds else "does not keep"
    return Reading(
        holds,
        f"range {percent(moved)} of the largest entropy over {over}"
        + (f", {without} without scaling" if without else ""),
        f"Dividing by √d_k {verb} the softmax where it was: from {over} the "
        f"entropy moves by {percent(moved)} of its largest value"
        + (f", against {without} without scaling." if without else "."),
        "relative range of entropy_nats with scaling",
        moved,
        abs(STABLE - moved.mean),
    )


def stable_inverse(series: Series) -> Reading:
    """The range of the entropy over d_k with 1/d_k, for related vectors, and how flat it is."""
    curve = series.curve("inverse", "entropy_nats")
    moved = relative_range(curve)
    over = f"d_k = {min(curve)} to {max(curve)}"
    _, end = last(series.curve("inverse", "entropy_normalized"))
    try:
        scaled = relative_range(series.curve("scaled", "entropy_nats"))
        root = f", against {percent(scaled)} with √d_k"
    except MissingError:
        root = ""
    holds = past(moved, STABLE, above=False)
    verb = "keeps" if holds else "does not keep"
    return Reading(
        holds,
        f"range {percent(moved)} over {over}{root}, at the end {percent(end)} of ln n_k",
        f"Dividing by d_k {verb} the softmax of related vectors where it was: from {over} the "
        f"entropy moves by {percent(moved)} of its largest value{root}. It ends at {percent(end)} "
        "of ln n_k; equal weights have all of it.",
        "relative range of entropy_nats with 1/d_k",
        moved,
        abs(STABLE - moved.mean),
    )


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
    """Whether fewer scores overflow float16 with the scale before the product than after it."""
    found = _orders(whole.table, "float16")
    if not found:
        raise MissingError("the run has not float16 with both orders and a scale other than 1")
    overflowing = [one for one in found if max(one.after.mean, one.before.mean) > 0]
    if not overflowing:
        raise MissingError("no float16 score overflows; larger inputs or a larger d_k may")
    states = [past(one.saved, 0.0, above=True) for one in overflowing]
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
    """Where scores overflow with either order, and where none does."""
    sizes: dict[int, list[int]] = {one.input_sd: [] for one in float16}
    for one in float16:
        if max(one.after.mean, one.before.mean) > 0:
            sizes[one.input_sd].append(one.d_k)
    some = [f"input_sd = {sd} from d_k = {min(at)} on" for sd, at in sorted(sizes.items()) if at]
    none = [f"at input_sd = {sd}" for sd, at in sorted(sizes.items()) if not at]
    if bfloat16 and all(one.after.mean == one.before.mean == 0 for one in bfloat16):
        none.append("in bfloat16")
    text = f"where float16 scores overflow, at {' and '.join(few(some, 'sizes'))}"
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


def from_64(series: Series) -> Reading:
    """The d_k at which half of the entropy is lost without scaling, against 64."""
    curve = series.curve("unscaled", "entropy_normalized")
    low, high = HEAD / FACTOR, HEAD * FACTOR
    holds, value, text, where = _half_lost(curve, low, high)
    head = f", {percent(curve[HEAD])} is left at d_k = {HEAD}" if HEAD in curve else ""
    opening = "The effect begins near" if holds else "There is no threshold at"
    return Reading(
        holds,
        f"{text}{head}",
        f"{opening} d_k = {HEAD}: without scaling half of the entropy is gone at {where}.",
        "d_k at which half of the entropy is lost without scaling",
        value,
        min(abs(math.log(value.mean / low)), abs(math.log(value.mean / high))),
    )


def _half_lost(curve: Curve, low: float, high: float) -> tuple[bool | None, Estimate, str, str]:
    """Whether half is lost between the two, the d_k at which it is, and that in words, twice.

    Raises MissingError where it is lost outside the grid, on a side of it that says nothing.
    """
    onset = crossing(curve, 0.5)
    if onset is not None:
        below = max(d for d in curve if d <= onset.mean)
        above = min((d for d in curve if d > onset.mean), default=below)
        where = f"d_k ≈ {estimate(onset)}"
        text = f"half of ln n_k at {where}, between the measured d_k = {below} and {above}"
        known = not any(math.isnan(point.low) for point in curve.values())
        # Where an end of the interval does not cross, the onset has no bound on that side.
        bounds = (
            onset._replace(low=0.0, high=math.inf) if known and math.isnan(onset.low) else onset
        )
        outside = exists((past(bounds, low, above=False), past(bounds, high, above=True)))
        return None if outside is None else not outside, onset, text, where
    # Not crossed inside the grid: its nearer end may still say on which side of 64 it is.
    early = next(iter(curve.values())).mean < 0.5
    end, point = next(iter(curve.items())) if early else last(curve)
    where = f"d_k = {end}{' or before' if early else ' or after'}"
    if (end > low) if early else (end < high):
        raise MissingError(f"half of the entropy is lost at {where}, outside the grid")
    text = f"{'less' if early else 'more'} than half of ln n_k at d_k = {end}"
    certain = past(point, 0.5, above=not early)
    return False if certain else None, Estimate(float(end)), text, where
