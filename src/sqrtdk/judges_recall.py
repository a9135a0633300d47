"""How the claims about encoder and decoder are judged: one part of a summary to one reading.

The rules in words stand in `claims` beside the sentences.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from sqrtdk.estimates import Estimate, MissingError, estimate, past, percent, ratio
from sqrtdk.experiments.encoder_decoder import SOLVED
from sqrtdk.judges import LARGE, Reading, every, exists
from sqrtdk.recurrent import READERS
from sqrtdk.series import Whole

LONG = 16
"""A source length at which a fixed vector has to fail; a grid that ends below cannot deny it."""

DECADE, GONE = -1.0, -2.0
"""log₁₀ of the share of its norm that a derivative keeps: flat above the first, gone below the
second."""


def parts(*axes: str) -> Callable[[Mapping[str, Any], pd.DataFrame], Sequence[Whole]]:
    """What makes one subject of each combination of some axes, named by those that vary."""

    def found(settings: Mapping[str, Any], table: pd.DataFrame) -> list[Whole]:
        varying = [name for name in axes if len(set(table[name])) > 1]
        return [
            Whole(rows, ", ".join(f"{name} = {rows[name].iloc[0]}" for name in varying))
            for _, rows in table.groupby(list(axes), sort=True)
        ]

    return found


def _curves(table: pd.DataFrame, metric: str, x: str) -> dict[str, dict[int, Estimate]]:
    """A metric by reader and by x."""
    found: dict[str, dict[int, Estimate]] = {}
    for row in table[table["metric"] == metric].sort_values(x).to_dict("records"):
        value = Estimate(row["mean"], row["ci_low"], row["ci_high"])
        found.setdefault(row["reader"], {})[int(row[x])] = value
    return found


def _end(table: pd.DataFrame) -> pd.DataFrame:
    found: pd.DataFrame = table[table["step"] == table["step"].max()]
    return found


def _need(curves: Mapping[str, Any], *readers: str) -> None:
    lacking = [reader for reader in readers if reader not in curves]
    if lacking:
        raise MissingError(f"the run has no reader {' and no '.join(lacking)}")


# Source length


def bottleneck(whole: Whole) -> Reading:
    """Whether the fixed vector fails at the longest source, and attention does not."""
    table = _end(whole.table)
    curves = _curves(table, "accuracy", "length")
    unasked = _curves(table, "unasked_accuracy", "length")
    _need(curves, "fixed")
    attention = {name: curve for name, curve in curves.items() if name != "fixed"}
    if not attention:
        raise MissingError("the run has no reader with attention")
    fixed, longest, steps = curves["fixed"], max(curves["fixed"]), int(table["step"].max())
    end = fixed[longest]
    fails = past(end, SOLVED, above=False)
    if fails is False and longest < LONG:
        raise MissingError(
            f"the fixed vector answers {percent(end)} at length = {longest}, the longest; longer "
            "sources may differ"
        )
    solved = {name: past(curve[longest], SOLVED, above=True) for name, curve in attention.items()}
    holds = every((fails, exists(solved.values())))
    best = max(attention, key=lambda name: (attention[name][longest].mean, READERS.index(name)))
    short = [length for length, value in fixed.items() if past(value, SOLVED, above=True)]
    others = [name for name, state in solved.items() if not state]
    conditions = [
        f"after {steps} training steps",
        *([f"the fixed vector answers too up to length = {max(short)}"] if short else []),
        *([f"not with {' and '.join(others)}"] if holds and others else []),
    ]
    text = ", ".join(f"{name} {percent(curve[longest])}" for name, curve in curves.items())
    chance = unasked["fixed"][longest]
    verb = "removes" if holds else "does not remove"
    return Reading(
        holds,
        f"right answers at length = {longest}: {text}; the most frequent value {percent(chance)}",
        f"Attention {verb} the bottleneck: at length = {longest} the fixed vector answers "
        f"{percent(end)} rightly, where the most frequent value of a sequence is right for "
        f"{percent(chance)}; with {best} attention it is {percent(attention[best][longest])}.",
        f"accuracy of the fixed vector at length = {longest}",
        end,
        abs(end.mean - SOLVED),
        "; ".join(conditions),
    )


# Score width


class _Best(NamedTuple):
    """A reader at one d_k, at the learning rate at which most seeds learn the task, and fastest."""

    reached: float
    steps: Estimate | None
    accuracy: Estimate
    learning_rate: float

    @property
    def rank(self) -> tuple[float, float, float]:
        """The larger, the better."""
        return self.reached, -(self.steps.mean if self.steps else 0.0), self.accuracy.mean

    @property
    def text(self) -> str:
        """How far it got, in words."""
        if self.reached == 1 and self.steps:
            return f"{estimate(self.steps)} steps"
        got = f"{self.reached:.0%} of the seeds got there" if self.reached else "no seed got there"
        return f"{got}, accuracy {percent(self.accuracy)}"


def _bests(table: pd.DataFrame) -> dict[str, dict[int, _Best]]:
    """By reader and d_k."""
    found: dict[str, dict[int, _Best]] = {}
    for _, rows in _end(table).groupby(["d_k", "reader", "learning_rate"], sort=True):
        values = {
            row["metric"]: Estimate(row["mean"], row["ci_low"], row["ci_high"])
            for row in rows.to_dict("records")
        }
        reader, d_k, rate = (rows[name].iloc[0] for name in ("reader", "d_k", "learning_rate"))
        one = _Best(
            values["reached_90"].mean, values.get("steps_to_90"), values["accuracy"], float(rate)
        )
        curve = found.setdefault(str(reader), {})
        curve[int(d_k)] = max((one, *filter(None, [curve.get(int(d_k))])), key=lambda x: x.rank)
    return found


def _behind(slow: _Best, fast: _Best) -> bool | None:
    """Whether one needs more steps than the other, or does not get there where the other does."""
    if slow.reached < 1 or fast.reached < 1:
        return slow.reached < fast.reached
    if slow.steps is None or fast.steps is None:
        return None
    over = ratio({0: slow.steps}, {0: fast.steps})
    return past(over[0], 1.0, above=True) if over else None


def score_width(whole: Whole) -> Reading:
    """Whether unscaled dot attention falls behind with d_k where the others do not."""
    bests = _bests(whole.table)
    _need(bests, "additive", "dot", "scaled_dot")
    dot, scaled = bests["dot"], bests["scaled_dot"]
    sizes = sorted(dot)
    if len(sizes) < 2:
        raise MissingError("the run has one d_k; a comparison needs two")
    small, large = sizes[0], sizes[-1]
    behind = {d_k: _behind(dot[d_k], scaled[d_k]) for d_k in sizes}
    grown = every((behind[large], _behind(dot[large], dot[small])))
    if grown is not True and large < LARGE:
        raise MissingError(
            f"no difference is certain at d_k = {large}, the largest; larger may differ"
        )
    others = {
        name: _behind(bests[name][large], bests[name][small]) for name in ("additive", "scaled_dot")
    }
    keep = every(
        [
            *(bests[name][d_k].reached == 1 for name in others for d_k in sizes),
            *(state is not True for state in others.values()),
        ]
    )
    holds = every((grown, keep))
    first = next((d for d in sizes if all(behind[x] is True for x in sizes if x >= d)), large)
    rates = sorted({float(x) for x in whole.table["learning_rate"]})
    steps = int(whole.table["step"].max())
    shown = "; ".join(
        f"{name} {curve[small].text} at d_k = {small} and {curve[large].text} at d_k = {large}"
        for name, curve in bests.items()
        if name != "fixed"
    )
    end = dot[large].accuracy
    verb = "falls" if holds else "does not fall"
    return Reading(
        holds,
        f"to an accuracy of {SOLVED}: {shown}",
        f"Unscaled dot attention {verb} behind as d_k grows: at d_k = {large} it ends at an "
        f"accuracy of {percent(end)} ({dot[large].text.partition(',')[0]}); scaled dot attention "
        f"needs {scaled[large].text}, additive attention {bests['additive'][large].text}.",
        f"accuracy of unscaled dot attention at d_k = {large}",
        end,
        abs(end.mean - SOLVED),
        f"from d_k = {first} on, in {steps} steps, each at the best of the learning rates "
        f"{' and '.join(map(str, rates))}" if len(rates) > 1 else
        f"from d_k = {first} on, in {steps} steps, at the learning rate {rates[0]}",
    )  # fmt: skip


# Reach


def _reach(whole: Whole, stage: str, metric: str) -> dict[str, dict[int, Estimate]]:
    table = whole.table[whole.table["stage"] == stage]
    found = _curves(table, metric, "distance")
    _need(found, "fixed")
    if max(found["fixed"]) == 0:
        raise MissingError("a source of one pair has no distance")
    return found


def _share(decades: Estimate) -> str:
    """What share of a norm is left, of its decades."""
    return estimate(Estimate(*(10.0**x for x in decades)))


def reach(whole: Whole) -> Reading:
    """Whether the derivative through attention is as large far back as near, before and after."""
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
    lost = past(fixed["initial"], DECADE, above=False)
    if lost is not True:
        raise MissingError(
            f"over {far} pairs the fixed vector keeps {_share(fixed['initial'])} of its reach too"
        )
    holds = every(past(value, DECADE, above=True) for value in attention.values())
    (worst, stage), least = min(attention.items(), key=lambda item: item[1].mean)
    verb = "reaches" if holds else "does not reach"
    return Reading(
        holds,
        f"over {far} pairs attention keeps at least {_share(least)} ({worst}, {stage}), the fixed "
        f"vector {_share(fixed['initial'])} before training and {_share(fixed['trained'])} after",
        f"Attention {verb} every distance: over {far} pairs the derivative of the answer keeps "
        f"{_share(least)} of its norm ({worst}, {stage}, the least of all attentions), where the "
        f"fixed vector keeps {_share(fixed['initial'])} before training.",
        f"log₁₀ of the share that {worst} keeps over {far} pairs, {stage}",
        least,
        abs(least.mean - DECADE),
    )


def vanishing(whole: Whole) -> Reading:
    """Whether the trained fixed vector answers what its gradient reaches, and only that."""
    kept = _reach(whole, "trained", "relative_log10_norm")["fixed"]
    right = _reach(whole, "trained", "accuracy")["fixed"]
    before = _reach(whole, "initial", "relative_log10_norm")["fixed"]
    near = [d for d, value in kept.items() if past(value, GONE, above=True)]
    beyond = [d for d in kept if d not in near]
    answered = every(past(right[d], SOLVED, above=True) for d in near)
    unanswered = every(past(right[d], SOLVED, above=False) for d in near)
    if answered and not beyond:
        raise MissingError("the fixed vector answers every distance")
    holds = False if unanswered else True if answered else None
    far, best = max(near), max(right.values(), key=lambda value: value.mean)
    everywhere = "every distance" if not beyond else f"the distances up to {far}"
    return Reading(
        holds,
        f"{far} pairs back the norm is {_share(before[far])} of the last one before training and "
        f"{_share(kept[far])} after, the accuracy {percent(right[far])} there and at best "
        f"{percent(best)}",
        f"Reach is {'' if holds else 'not '}what the fixed vector lacks: after training its "
        f"gradient reaches {everywhere}, {far} pairs back with {_share(kept[far])} of its last "
        f"norm ({_share(before[far])} before training), and it answers {percent(best)} rightly at "
        "the best distance.",
        "best accuracy of the trained fixed vector at any distance",
        best,
        abs(best.mean - SOLVED),
    )
