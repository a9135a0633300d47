"""Judge the claims about how far gradients reach."""

from typing import cast

from sqrtdk.claims import findings
from sqrtdk.claims.claim import Claim
from sqrtdk.claims.findings import Finding
from sqrtdk.experiments.encoder_decoder.judging import (
    CHANCE_ACCURACY,
    SETTLED,
    added,
    curves_of,
    is_settled,
    need,
)
from sqrtdk.experiments.encoder_decoder.measure import GAIN, LEARNT_ACCURACY, Settings
from sqrtdk.stats.curves import is_beyond
from sqrtdk.stats.decisions import all_known, any_known
from sqrtdk.stats.intervals import Estimate, MissingError
from sqrtdk.stats.series import WholeTable
from sqrtdk.stats.wording import format_estimate, format_percent

REACH = ("length", "hidden", "d_k", "learning_rate")
"""Axes of the reach experiment; its claims are judged for each combination of them."""

REACH_LOG10, VANISHED_LOG10 = -1.0, -2.0
"""log₁₀ of the share of its norm that a derivative keeps: above the first it counts as kept, below
the second as vanished."""


# Reach


def _reach(whole: WholeTable, stage: str, metric: str) -> dict[str, dict[int, Estimate]]:
    table = whole.table[whole.table["stage"] == stage]
    found = curves_of(table, metric, "distance")
    need(found, "fixed")
    if max(found["fixed"]) == 0:
        raise MissingError("a source of one pair has no distance")
    return found


def _share(decades: Estimate) -> str:
    """Convert a loss in decades to the remaining share of a norm, in words."""
    return format_estimate(Estimate(*(10.0**x for x in decades)))


def reach(whole: WholeTable) -> Finding:
    """Judge whether the derivative through attention is as large at large distance as at small."""
    stages = {
        stage: _reach(whole, stage, "relative_log10_norm") for stage in ("initial", "trained")
    }
    far = max(stages["initial"]["fixed"])
    if any(far not in curve for curves in stages.values() for curve in curves.values()):
        raise MissingError(f"over {far} pairs a derivative is 0")
    fixed = {stage: curves["fixed"][far] for stage, curves in stages.items()}
    attention = {
        (name, stage): curve[far]
        for stage, curves in stages.items()
        for name, curve in curves.items()
        if name != "fixed"
    }
    if not attention:
        raise MissingError("the run has no reader with attention")
    lost = is_beyond(fixed["initial"], REACH_LOG10, above=False)
    if lost is not True:
        raise MissingError(
            f"over {far} pairs the fixed vector keeps {_share(fixed['initial'])} of its reach too"
        )
    holds = all_known(is_beyond(value, REACH_LOG10, above=True) for value in attention.values())
    (worst, stage), least = min(attention.items(), key=lambda item: item[1].mean)
    verb = "reaches" if holds else "does not reach"
    return Finding(
        holds,
        f"over {far} pairs attention keeps at least {_share(least)} ({worst}, {stage}), the fixed "
        f"vector {_share(fixed['initial'])} before training and {_share(fixed['trained'])} after",
        f"Attention {verb} every distance: over {far} pairs the derivative of the answer keeps "
        f"{_share(least)} of its norm ({worst}, {stage}, the least of all attentions), where the "
        f"fixed vector keeps {_share(fixed['initial'])} before training.",
        f"log₁₀ of the share that {worst} keeps over {far} pairs, {stage}",
        least,
        abs(least.mean - REACH_LOG10),
    )


def vanishing(whole: WholeTable) -> Finding:
    """Judge whether the trained fixed vector answers exactly what its gradient reaches."""
    kept = _reach(whole, "trained", "relative_log10_norm")["fixed"]
    right = _reach(whole, "trained", "accuracy")["fixed"]
    before = _reach(whole, "initial", "relative_log10_norm")["fixed"]
    trained = whole.table[whole.table["stage"] == "trained"]
    gains = curves_of(trained, GAIN.name, "distance").get("fixed", {})
    states = {d: is_beyond(value, VANISHED_LOG10, above=True) for d, value in kept.items()}
    near = [d for d, state in states.items() if state is True]
    # A norm that is 0 with every seed has no logarithm, and no row.
    beyond = any_known(
        is_beyond(kept[d], VANISHED_LOG10, above=False) if d in kept else True for d in right
    )
    answers = {is_beyond(right[d], LEARNT_ACCURACY, above=True) for d in near}
    steps = cast(Settings, whole.settings)["steps"]
    if {True, False} <= answers:
        # Neither holds, and more seeds would not change that.
        raise MissingError(
            "within reach of its gradient the fixed vector answers some distances and others not"
        )
    if answers == {True} and beyond is False:
        raise MissingError("the fixed vector answers every distance")
    gain = next(iter(gains.values()), None)
    if answers == {False} and not is_settled(gain, right[min(near)], CHANCE_ACCURACY):
        raise MissingError(
            f"after {steps} training steps the fixed vector may still be learning, so that what it "
            "does not answer may only not be trained"
        )
    holds = False if answers == {False} else all_known((*answers, beyond))
    far, best = max(near), max(right.values(), key=lambda value: value.mean)
    everywhere = "reaches every distance," if len(near) == len(right) else "reaches"
    start = _share(before[far]) if far in before else "0"
    return Finding(
        holds,
        f"{far} pairs back the norm is {start} of the last one before training and "
        f"{_share(kept[far])} after, the accuracy {format_percent(right[far])} there and at best "
        f"{format_percent(best)}",
        f"Reach is {'' if holds else 'not '}what the fixed vector lacks: after {steps} training "
        f"steps its gradient {everywhere} {far} pairs back with {_share(kept[far])} of its last "
        f"norm ({start} before training), and it answers {format_percent(best)} rightly at the "
        "best distance.",
        "best accuracy of the trained fixed vector at any distance",
        best,
        abs(best.mean - LEARNT_ACCURACY),
        f"after {steps} training steps{added(gain)}",
    )


CLAIMS = (
    Claim(
        "reach",
        "Attention reaches any distance directly.",
        "True where, over the largest distance, the norm of the derivative of the answer by a "
        "state falls to no less than 1/10 with every attention, before and after training, and "
        "below 1/10 with the fixed vector before training; false where it falls below with some "
        "attention.",
        "reach-distance",
        reach,
        evidence=findings.parts(*REACH),
    ),
    Claim(
        "vanishing",
        "The fixed vector fails because the gradient does not reach far back.",
        "Within reach are the distances at which, after training, the norm of the derivative is "
        "surely more than 1/100 of that at distance 0, beyond it those at which it is surely less. "
        "True where the fixed vector answers those within reach with an accuracy above "
        f"{LEARNT_ACCURACY} and some are beyond; false where it is below at all of those within "
        "reach, although training has settled (its second half added surely less than "
        f"{100 * SETTLED:.0f} percentage points to the accuracy over all distances, and the "
        "nearest is answered surely more often than by chance). Not measured where training has "
        "not settled, where it is above at some of them and below at others, or answers every "
        "distance.",
        "reach-distance",
        vanishing,
        source="ours",
        evidence=findings.parts(*REACH),
    ),
)
