"""Judge the claims about unrelated vectors: one series of measurements to one finding."""

from functools import partial

from sqrtdk.claims.claim import Claim
from sqrtdk.claims.findings import (
    CHAPTER_D_K,
    END,
    FACTOR,
    FAR,
    LATE,
    LOSS,
    ONE_HOT,
    SLOPE_TOLERANCE,
    SMALL_GRID,
    STABLE,
    Finding,
    at_head,
    beginning,
    half_gone,
    join,
    reaches,
    steadiness,
)
from sqrtdk.stats import agreement as stats_agreement
from sqrtdk.stats.curves import last, relative_range, slope
from sqrtdk.stats.decisions import (
    all_known,
    beyond,
    need_far,
    need_large,
    up_to,
    within,
)
from sqrtdk.stats.intervals import Estimate, MissingError
from sqrtdk.stats.series import Series, WholeTable
from sqrtdk.stats.wording import format_estimate, format_number, format_percent
from sqrtdk.theory import thresholds

# Unrelated vectors: scores, weights


def scores_grow(series: Series) -> Finding:
    """Judge the slope of ln logit_std on ln d_k without scaling: 1/2 for a sum of random terms."""
    curve = series.curve("unscaled", "logit_std")
    need_far(curve)
    fitted = slope(curve)
    d_k, end = last(curve)
    return Finding(
        within(fitted, 0.5 - SLOPE_TOLERANCE, 0.5 + SLOPE_TOLERANCE),
        f"exponent {format_estimate(fitted)}, standard deviation {format_estimate(end)} at d_k = "
        f"{d_k}",
        "The standard deviation of the dot products grows as d_k to the power "
        f"{format_estimate(fitted)}; √d_k is the power 0.5.",
        "fitted exponent of d_k",
        fitted,
        SLOPE_TOLERANCE - abs(fitted.mean - 0.5),
    )


def scores_stable(series: Series) -> Finding:
    """Judge the range over d_k of the standard deviation of the scaled scores."""
    curve = series.curve("scaled", "logit_std")
    moved, holds = steadiness(curve)
    low, high = (f(curve.items(), key=lambda item: item[1].mean) for f in (min, max))
    over = f"d_k = {min(curve)} to {max(curve)}"
    verb = "stay" if holds else "do not stay"
    return Finding(
        holds,
        f"range {format_percent(moved)} of the largest standard deviation over {over}",
        f"Divided by √d_k, the scores {verb} in one range: over {over} their standard deviation is "
        f"between {format_estimate(low[1])} and {format_estimate(high[1])}.",
        "relative range of the standard deviation of the scores with scaling",
        moved,
        abs(STABLE - moved.mean),
    )


def saturation(series: Series) -> Finding:
    """Judge the unscaled entropy over its largest value, at the largest d_k, against a half."""
    curve = series.curve("unscaled", "entropy_normalized")
    holds, onset, condition = reaches(
        series, curve, 0.5, above=False, what="entropy_normalized",
        exact=thresholds.half_entropy_d_k,
    )  # fmt: skip
    d_k, end = last(curve)
    _, keys = last(series.curve("unscaled", "effective_keys"))
    verb = "saturates" if holds else "does not saturate"
    return Finding(
        holds,
        f"{format_percent(end)} of ln n_k at d_k = {d_k}, {format_estimate(keys)} effective keys"
        + (f", below half {beginning(onset, curve)}" if holds else ""),
        f"Without scaling, large d_k {verb} the softmax: at d_k = {d_k} the attention weights keep "
        f"{format_percent(end)} of the largest possible entropy.",
        f"share of the possible entropy without scaling at d_k = {d_k}",
        end,
        abs(end.mean - 0.5),
        condition,
    )


def one_hot(series: Series) -> Finding:
    """Judge the unscaled largest weight at the largest d_k, against 0.9."""
    curve = series.curve("unscaled", "max_weight")
    holds, onset, condition = reaches(
        series, curve, ONE_HOT, above=True, what="max_weight",
        exact=partial(thresholds.one_hot_d_k, level=ONE_HOT),
    )  # fmt: skip
    (d_head, head), (d_k, end) = at_head(curve), last(curve)
    also = f"{format_estimate(head)} at d_k = {d_head}, " if d_head != d_k else ""
    verb = "become" if holds else "do not become"
    return Finding(
        holds,
        f"{also}{format_estimate(end)} at d_k = {d_k}"
        + (f", above {ONE_HOT} {beginning(onset, curve)}" if holds else ""),
        f"Without scaling the weights {verb} nearly one-hot: the largest weight of a query is on "
        f"average {also}{format_estimate(end)} at d_k = {d_k}.",
        f"largest weight without scaling at d_k = {d_k}",
        end,
        abs(end.mean - ONE_HOT),
        condition,
    )


def from_64(series: Series) -> Finding:
    """Judge the entropy without scaling over that with it, at every d_k of 64 or more."""
    curve = {d_k: x for d_k, x in series.ratio("entropy_normalized").items() if d_k >= CHAPTER_D_K}
    if not curve:
        raise MissingError(f"the run has no d_k of {CHAPTER_D_K} or more")
    holds = all_known(beyond(x, LOSS, above=False) for x in curve.values())
    if holds is False:
        need_large(
            curve, f"the entropy without scaling is {format_number(last(curve)[1].mean)} of it"
        )
    off, on = (series.curve(kind, "entropy_normalized") for kind in ("unscaled", "scaled"))
    first = min(curve)
    closest = max(curve, key=lambda d_k: curve[d_k].mean)
    since = f"tried from d_k = {first} on only" if first > FACTOR * CHAPTER_D_K else ""
    onset = half_gone(series, off)
    half = f"d_k ≈ {format_estimate(onset)}" if onset else ""
    verb = "matters" if holds else "does not matter a great deal"
    return Finding(
        holds,
        f"at d_k = {first} {format_percent(off[first])} of the possible entropy without scaling, "
        f"{format_percent(on[first])} with it" + (f"; half is gone at {half}" if half else ""),
        f"Scaling {verb} at d_k = {first}: without it {format_percent(off[first])} of the possible "
        f"entropy is left, with it {format_percent(on[first])}."
        + (f" There is no threshold at {CHAPTER_D_K}: half is gone at {half}." if half else ""),
        f"entropy without scaling over that with it at d_k = {closest}",
        curve[closest],
        abs(curve[closest].mean - LOSS),
        join(since, up_to(curve)),
    )


def stable(series: Series) -> Finding:
    """Judge the range of the scaled entropy over d_k, relative to its largest value."""
    curve = series.curve("scaled", "entropy_nats")
    moved, holds = steadiness(curve)
    over = f"d_k = {min(curve)} to {max(curve)}"
    try:
        without = format_percent(relative_range(series.curve("unscaled", "entropy_nats")))
    except MissingError:
        without = ""
    verb = "hardly notices" if holds else "does notice"
    return Finding(
        holds,
        f"range {format_percent(moved)} of the largest entropy over {over}"
        + (f", {without} without scaling" if without else ""),
        f"With √d_k the softmax {verb} d_k: over {over} the highest and the lowest entropy differ "
        f"by {format_percent(moved)} of the highest"
        + (f", without scaling by {without}." if without else "."),
        "relative range of the entropy with scaling",
        moved,
        abs(STABLE - moved.mean),
    )


# Gradients


def gradients_typical(series: Series) -> Finding:
    """Judge whether most entries are near zero only without scaling, and the median row is smaller.

    One-hot weights have entries near zero by counting, however large the gradient. So the entries
    with scaling are counted too, and the norms of whole rows are compared.
    """
    dead = series.curve("unscaled", "grad_logits_dead_entries")
    kept = series.curve("scaled", "grad_logits_dead_entries")
    median = series.ratio("grad_logits_median")
    d_end, end = last(dead)
    many, first, late = reaches(
        series, dead, 0.5, above=True, what="the share of gradient entries near zero"
    )
    alive = beyond(last(kept)[1], 0.5, above=False)
    small, second, later = reaches(
        series, median, 1.0, above=False, what="the ratio of the median gradients"
    )
    holds = all_known((many, alive, small))
    d_k, share = at_head(dead)
    with_scaling = f", with scaling {format_percent(kept[d_k])}" if d_k in kept else ""
    crossed = f"the median row is smaller than with scaling {beginning(second, median)}"
    verb = "are" if many else "are not"
    # In a saturated row at most two of the n_k weights matter.
    counted = format_percent(Estimate(max(0.0, 1 - 2 / series.n_k)))
    return Finding(
        holds,
        f"dead entries {format_percent(share)} at d_k = {d_k}{with_scaling}"
        + (f", {crossed}" if small else ""),
        f"Without scaling most entries of the gradient at the logits {verb} close to zero: "
        f"{format_percent(share)} are below 0.001/n_k at d_k = {d_k}{with_scaling}. Counting "
        f"explains part of that: if two keys share all of a query's attention, {counted} of its "
        "entries are zero, however large the other two are."
        + (f" As a whole, {crossed}." if small else ""),
        f"share of gradient entries near zero without scaling at d_k = {d_end}",
        end,
        abs(end.mean - 0.5),
        # Both hold from the later of the two on.
        later if second and (not first or second.mean >= first.mean) else late,
    )


def gradients_rms(series: Series) -> Finding:
    """Judge the root mean squares of the gradients that reach q, k and v, unscaled over scaled."""
    ratios = {x: series.ratio(f"grad_{x}_rms") for x in ("q", "k", "v")}
    common = sorted(set.intersection(*(set(curve) for curve in ratios.values())))
    if common in ([], [1]):
        raise MissingError("at d_k = 1 both scale rules are the same, and there is no larger d_k")
    d_k = common[-1]
    holds = all_known(beyond(curve[d_k], 1.0, above=False) for curve in ratios.values())
    at = CHAPTER_D_K if CHAPTER_D_K in common else d_k
    ratio = ratios["q"][at]
    values = ", ".join(f"{x} {format_estimate(curve[at])}" for x, curve in ratios.items())
    farthest = max((curve[d_k] for curve in ratios.values()), key=lambda x: x.mean)
    tried = {d: ratios["q"][d] for d in common}
    if holds is False:
        need_large(tried, f"the largest of the three ratios is {format_number(farthest.mean)}")
    verb = "vanish" if holds else "do not vanish"
    return Finding(
        holds,
        f"without over with scaling at d_k = {at}: {values}",
        f"Without scaling the gradients {verb} on average: at d_k = {at} those at the queries are "
        f"{format_estimate(ratio, ' times')} as large, in root mean square, as with it."
        + ("" if holds else " They are only distributed less evenly."),
        f"gradient without over with scaling, largest of three ratios at d_k = {d_k}",
        farthest,
        abs(farthest.mean - 1),
        up_to(tried),
    )


# Half precision, and the agreement test


def agreement(whole: WholeTable) -> Finding:
    """Judge whether deviations from the exact expectations are sampling noise only."""
    gate = stats_agreement.agreement_test(whole.table)
    if gate is None:
        raise MissingError(f"no exact value with at least {stats_agreement.MIN_TESTED_SEEDS} seeds")
    verb = "agree" if gate.passed else "do not agree"
    name, value, margin = min(
        ("root mean square of z", gate.rms_z, gate.rms_margin),
        ("largest |z|", gate.max_abs_z, gate.max_margin),
        key=lambda one: one[2],
    )
    return Finding(
        gate.passed,
        f"{gate.points} means at {gate.draws} combinations of sizes miss their exact values by "
        f"{gate.rms_z:.2f} standard errors in root mean square, where chance alone gives 1, and by "
        f"{gate.max_abs_z:.1f} at most",
        f"The measured means {verb} with theory. {gate.points} distinct means at {gate.draws} "
        "combinations of sizes have an exact value. They deviate from it by "
        f"{gate.rms_z:.2f} standard errors in root mean square, where chance alone gives 1, and by "
        f"{gate.max_abs_z:.1f} at most.",
        name,
        Estimate(value),
        margin,
    )


CLAIMS = (
    Claim(
        "scores_grow",
        "The dot products of unrelated vectors grow as √d_k.",
        "True if the whole interval of the slope of ln logit_std on ln d_k, without scaling, is "
        f"within {SLOPE_TOLERANCE} of 1/2; false if it is wholly outside. Either verdict {FAR}.",
        "scaling-logit_std",
        scores_grow,
        vectors="unrelated",
    ),
    Claim(
        "scores_stable",
        "Divided by √d_k, the scores stay in a stable range.",
        "True if the largest and the smallest logit_std over d_k, with 1/√d_k, differ by surely "
        f"less than {100 * STABLE:.0f} % of the largest; false if surely by more. True {FAR}. "
        "There is a condition if a run has only unrelated or only related vectors.",
        "scaling-logit_std",
        scores_stable,
        about=("unrelated", "related"),
        also={"related": "related-logit_std"},
    ),
    Claim(
        "saturation",
        "Large d_k saturates the softmax.",
        "True if, without scaling, surely more than half of the possible entropy is lost "
        f"(entropy_normalized is below 1/2) {END} {LATE}",
        "scaling-entropy",
        saturation,
        about=("unrelated",),
    ),
    Claim(
        "one_hot",
        "Without scaling the attention weights become nearly one-hot.",
        f"True if max_weight without scaling is surely above {ONE_HOT} {END} {LATE}",
        "scaling-max_weight",
        one_hot,
        about=("unrelated",),
    ),
    Claim(
        "gradients_typical",
        "Without scaling there are near-zero gradients for most positions.",
        "A position is one entry of the gradient with respect to the logits. It is near zero if "
        "its size is below 0.001/n_k. True if surely more than half of the positions are near "
        "zero without scaling, fewer than half with it, and the median row norm is smaller "
        "without scaling than with it, all "
        f"{END} The third part is needed because a one-hot row has many zeros whatever its norm. "
        f"{LATE}",
        "scaling-dead_entries",
        gradients_typical,
        about=("unrelated",),
        lead=3,
    ),
    Claim(
        "stable",
        "Dividing by √d_k keeps the softmax stable, regardless of d_k.",
        "True if the largest and the smallest entropy_nats over d_k, with 1/√d_k, differ by surely "
        f"less than {100 * STABLE:.0f} % of the largest; false if surely by more. True {FAR}. "
        "There is a condition if a run has only unrelated or only related vectors.",
        "scaling-entropy",
        stable,
        about=("unrelated", "related"),
        also={"related": "related-entropy"},
        lead=2,
    ),
    Claim(
        "from_64",
        "Scaling matters a great deal at the large d_k values used in real Transformers (often 64 "
        "or more).",
        "True if, at every d_k of the run that is 64 or more, entropy_normalized without scaling "
        f"is surely less than {LOSS:g} times the value with it; false if surely more at one of "
        f"them. {SMALL_GRID} Other claims judge training.",
        "scaling-entropy",
        from_64,
        vectors="unrelated",
        lead=1,
    ),
    Claim(
        "gradients_rms",
        "Without scaling the gradients that reach q, k and v vanish on average too.",
        "True if the root mean squares of the gradients at q, k and v are all surely smaller "
        "without scaling than with it at the run's largest d_k; false if one is surely larger. "
        f"{SMALL_GRID}",
        "scaling-gradients",
        gradients_rms,
        source="ours",
        vectors="unrelated",
        lead=4,
    ),
    Claim(
        "agreement",
        "Measurement and theory agree.",
        f"True if the root mean square of z is between {stats_agreement.RMS_Z[0]} and "
        f"{stats_agreement.RMS_Z[1]} and the largest |z| below {stats_agreement.MAX_ABS_Z}; false "
        "otherwise. z is the deviation in standard errors, converted from Student's t to the "
        "normal distribution. The test uses every float64 mean with an exact value and at least "
        f"{stats_agreement.MIN_TESTED_SEEDS} seeds; means of one draw with the same |z| count "
        "once. It cannot detect errors far below the standard error of every mean, or errors in "
        "quantities without an exact value: medians, quantiles, shares, other input laws, and "
        "scale rules that depend on q and k.",
        "scaling-entropy",
        agreement,
        source="ours",
        evidence=lambda _, table: [WholeTable(table)],
        role="gate",
    ),
)
