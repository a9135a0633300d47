"""How the claims about encoder and decoder are judged: one part of a summary to one reading.

The rules in words stand in `claims` beside the sentences.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from sqrtdk.estimates import Estimate, MissingError, estimate, past, percent, ratio
from sqrtdk.experiments.encoder_decoder import SOLVED
from sqrtdk.judges import FACTOR, LARGE, Reading, every, exists
from sqrtdk.recurrent import READERS
from sqrtdk.series import Whole

LONG = 16
"""A source length at which a fixed vector has to fail; a grid that ends below cannot deny it."""

REACH = ("length", "hidden", "d_k", "learning_rate")
"""The axes of the reach experiment that its claims are judged apart by."""

CHANCE = 0.025
"""Below it fewer seeds are taken for fewer: the side of a 95 % interval."""

DECADE, GONE = -1.0, -2.0
"""log₁₀ of the share of its norm that a derivative keeps: flat above the first, gone below the
second."""


def parts(*axes: str) -> Callable[[Mapping[str, Any], pd.DataFrame], Sequence[Whole]]:
    """What makes one subject of each combination of some axes, named by those that vary."""

    def found(settings: Mapping[str, Any], table: pd.DataFrame) -> list[Whole]:
        varying = [name for name in axes if len(set(table[name])) > 1]
        return [
            Whole(
                rows,
                ", ".join(f"{name} = {rows[name].iloc[0]}" for name in varying),
                settings=settings,
            )
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
    without = [name for name, state in solved.items() if state is False]
    unsure = [name for name, state in solved.items() if state is None]
    conditions = [
        f"after {steps} training steps",
        *([f"the fixed vector answers too up to length = {max(short)}"] if short else []),
        *([f"not with {' and '.join(without)}"] if holds and without else []),
        *([f"undecided with {' and '.join(unsure)}"] if holds and unsure else []),
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

    seeds: int
    there: int
    steps: Estimate | None
    accuracy: Estimate

    @property
    def rank(self) -> tuple[int, float, float]:
        """The larger, the better."""
        return self.there, -(self.steps.mean if self.steps else 0.0), self.accuracy.mean

    @property
    def text(self) -> str:
        """What it takes, or where it ends, in words."""
        if self.there == self.seeds and self.steps:
            return f"takes {estimate(self.steps)} steps"
        seeds = f"{self.there} of {self.seeds} seeds" if self.there else "no seed"
        return f"gets there with {seeds} and ends at an accuracy of {percent(self.accuracy)}"


def _bests(table: pd.DataFrame) -> dict[str, dict[int, _Best]]:
    """By reader and d_k."""
    found: dict[str, dict[int, _Best]] = {}
    for _, rows in _end(table).groupby(["d_k", "reader", "learning_rate"], sort=True):
        values = {
            row["metric"]: Estimate(row["mean"], row["ci_low"], row["ci_high"])
            for row in rows.to_dict("records")
        }
        reader, d_k = rows["reader"].iloc[0], rows["d_k"].iloc[0]
        seeds = int(rows["n_seeds"].max())
        there = round(seeds * values["reached_90"].mean)
        one = _Best(seeds, there, values.get("steps_to_90"), values["accuracy"])
        curve = found.setdefault(str(reader), {})
        curve[int(d_k)] = max((one, *filter(None, [curve.get(int(d_k))])), key=lambda x: x.rank)
    return found


def _behind(slow: _Best, fast: _Best) -> bool | None:
    """Whether one gets there with fewer seeds than the other or, where all do, in more steps."""
    if slow.there < slow.seeds or fast.there < fast.seeds:
        if slow.there / slow.seeds >= fast.there / fast.seeds:
            return False
        alone = slow.seeds == fast.seeds == 1
        return True if alone or _chance(slow, fast) < CHANCE else None
    over = _over(slow, fast)
    return past(over, 1.0, above=True) if over else None


def _over(slow: _Best, fast: _Best) -> Estimate | None:
    """How many times the steps one takes, where all seeds of both get there."""
    if slow.there < slow.seeds or fast.there < fast.seeds:
        return None
    if slow.steps is None or fast.steps is None:
        return None
    return ratio({0: slow.steps}, {0: fast.steps}).get(0)


def _keeps(wide: _Best, narrow: _Best) -> bool | None:
    """Whether a reader learns the task with most seeds and not behind itself at a smaller d_k.

    No interval shows that two numbers are equal: where it leaves open which is larger, fewer than
    `FACTOR` times the steps are no lag.
    """
    if wide.there <= wide.seeds / 2:
        return False
    behind = _behind(wide, narrow)
    if behind is not None:
        return not behind
    over = _over(wide, narrow)
    return True if over and past(over, FACTOR, above=False) else None


def _chance(slow: _Best, fast: _Best) -> float:
    """Probability of so few of the slow one's seeds, if both were alike: Fisher's exact test."""
    there, seeds = slow.there + fast.there, slow.seeds + fast.seeds
    ways = (
        math.comb(slow.seeds, count) * math.comb(fast.seeds, there - count)
        for count in range(max(0, there - fast.seeds), slow.there + 1)
    )
    return sum(ways) / math.comb(seeds, there)


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
    keeps = {
        (name, d_k): _keeps(bests[name][d_k], bests[name][small])
        for name in ("additive", "scaled_dot")
        for d_k in sizes
    }
    keep = every(keeps.values())
    if keep is not False and grown is not True and large < LARGE:
        raise MissingError(
            f"at d_k = {large}, the largest, it is not certain that unscaled dot attention is "
            "behind; at larger it may be"
        )
    holds = every((grown, keep))
    lost = [(d_k, name) for (name, d_k), state in keeps.items() if state is False]
    lag = ""
    if lost:
        at, name = max(lost)
        lag = f" Attention with {name} scores does not keep up: at d_k = {at} it "
        lag += f"{bests[name][at].text}."
    first = next((d for d in sizes if all(behind[x] is True for x in sizes if x >= d)), large)
    rates = sorted({float(x) for x in whole.table["learning_rate"]})
    steps = int(whole.table["step"].max())
    shown = "; ".join(
        f"{name} {curve[small].text} at d_k = {small}, and {curve[large].text} at d_k = {large}"
        for name, curve in bests.items()
        if name != "fixed"
    )
    end = dot[large].accuracy
    verb = "falls" if grown else "does not fall" if grown is False else "does not surely fall"
    return Reading(
        holds,
        f"to an accuracy of {SOLVED}: {shown}",
        f"Unscaled dot attention {verb} behind as d_k grows: to an accuracy of {SOLVED}, at d_k = "
        f"{large}, it {dot[large].text}; scaled dot attention {scaled[large].text}, additive "
        f"attention {bests['additive'][large].text}.{lag}",
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
    states = {d: past(value, GONE, above=True) for d, value in kept.items()}
    near = [d for d, state in states.items() if state is True]
    # A norm that is 0 with every seed has no logarithm, and no row.
    beyond = exists(past(kept[d], GONE, above=False) if d in kept else True for d in right)
    answers = {past(right[d], SOLVED, above=True) for d in near}
    if {True, False} <= answers:
        # Neither side: no more seeds would decide it.
        raise MissingError(
            "within reach of its gradient the fixed vector answers some distances and others not"
        )
    if answers == {True} and beyond is False:
        raise MissingError("the fixed vector answers every distance")
    holds = False if answers == {False} else every((*answers, beyond))
    steps = int(whole.settings["steps"])
    far, best = max(near), max(right.values(), key=lambda value: value.mean)
    everywhere = "reaches every distance," if len(near) == len(right) else "reaches"
    start = _share(before[far]) if far in before else "0"
    return Reading(
        holds,
        f"{far} pairs back the norm is {start} of the last one before training and "
        f"{_share(kept[far])} after, the accuracy {percent(right[far])} there and at best "
        f"{percent(best)}",
        f"Reach is {'' if holds else 'not '}what the fixed vector lacks: after {steps} training "
        f"steps its gradient {everywhere} {far} pairs back with {_share(kept[far])} of its last "
        f"norm ({start} before training), and it answers {percent(best)} rightly at the best "
        "distance.",
        "best accuracy of the trained fixed vector at any distance",
        best,
        abs(best.mean - SOLVED),
        f"after {steps} training steps",
    )
