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
            f"over {far} pairs the fixed vector also keeps {_share(fixed['initial'])} of its norm"
        )
    holds = all_known(is_beyond(value, REACH_LOG10, above=True) for value in attention.values())
    (worst, stage), least = min(attention.items(), key=lambda item: item[1].mean)
    verb = "reaches" if holds else "does not reach"
    return Finding(
        holds,
        f"over {far} pairs attention keeps at least {_share(least)} ({worst}, {stage}), the fixed "
        f"vector {_share(fixed['initial'])} before training and {_share(fixed['trained'])} after",
        f"Attention {verb} every distance: over {far} pairs the derivative of the answer keeps "
        f"{_share(least)} of its norm ({worst}, {stage}, the lowest of all readers with "
        f"attention). With the fixed vector it keeps {_share(fixed['initial'])} before training.",
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
            "within reach of its gradient the fixed vector answers some distances but not others"
        )
    if answers == {True} and beyond is False:
        raise MissingError("the fixed vector answers every distance")
    gain = next(iter(gains.values()), None)
    if answers == {False} and not is_settled(gain, right[min(near)], CHANCE_ACCURACY):
        raise MissingError(
            f"after {steps} training steps the fixed vector may still be learning, so more "
            "training may help it"
        )
    holds = False if answers == {False} else all_known((*answers, beyond))
    far, best = max(near), max(right.values(), key=lambda value: value.mean)
    everywhere = "reaches back to every distance, up to" if len(near) == len(right) else "reaches"
    start = _share(before[far]) if far in before else "0"
    return Finding(
        holds,
        f"{far} pairs back the norm is {start} of the last one before training and "
        f"{_share(kept[far])} after, the accuracy {format_percent(right[far])} there and at best "
        f"{format_percent(best)}",
        f"After {steps} training steps the gradient of the fixed vector {everywhere} {far} pairs "
        f"back, where it keeps {_share(kept[far])} of its size; before training it keeps {start}. "
        f"{'It' if holds else 'Yet it'} answers at most {format_percent(best)} correctly. Reach is "
        f"{'' if holds else 'not '}what it lacks.",
        "best accuracy of the trained fixed vector at any distance",
        best,
        abs(best.mean - LEARNT_ACCURACY),
        f"after {steps} training steps{added(gain)}",
    )


CLAIMS = (
    Claim(
        "reach",
        "Attention reaches any distance directly.",
        "The test is the norm of the derivative of the answer with respect to a state, over the "
        "largest distance. True if it keeps surely more than 1/10 of its size with every reader "
        "that has attention, before and after training, and less with the fixed vector before "
        "training; false if it keeps surely less with some attention.",
        "reach-distance",
        reach,
        evidence=findings.parts(*REACH),
    ),
    Claim(
        "vanishing",
        "The fixed vector fails because the gradient does not reach far back.",
        "A distance is within reach if, after training, the norm of the derivative is surely more "
        "than 1/100 of that at distance 0, and beyond reach if it is surely less. True if the "
        f"fixed vector answers all distances within reach with an accuracy above {LEARNT_ACCURACY} "
        "and some distances are beyond reach. False if its accuracy is below at all distances "
        "within reach and training has settled: the second half added surely less than "
        f"{100 * SETTLED:.0f} percentage points over all distances, and the nearest distance is "
        "surely answered better than by chance. Not measured if training has not settled, if the "
        "fixed vector answers only some of the distances within reach, or if it answers every "
        "distance.",
        "reach-distance",
        vanishing,
        source="ours",
        evidence=findings.parts(*REACH),
    ),
)
