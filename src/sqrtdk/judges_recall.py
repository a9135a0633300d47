"""Judge the claims about encoder and decoder.

The rules in words are in `claims`, next to the sentences.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from sqrtdk.estimates import Estimate, MissingError, estimate, past, percent
from sqrtdk.experiments.encoder_decoder import GAIN, SOLVED, UNASKED
from sqrtdk.judges import FACTOR, LARGE, Reading, every, exists
from sqrtdk.learning import Ratio
from sqrtdk.lookup import PROJECTIONS
from sqrtdk.recall import N_VALUES
from sqrtdk.recurrent import READERS
from sqrtdk.series import Whole

LONG = 16
"""A source length at which a fixed vector has to fail; a grid that ends below cannot deny it."""

REACH = ("length", "hidden", "d_k", "learning_rate")
"""The axes of the reach experiment that its claims are judged apart by."""

CHANCE = 1 / N_VALUES
"""Accuracy of an answer that knows nothing of its sequence."""

SETTLED = 0.05
"""Training has settled where the second half of its steps adds less than this to the accuracy."""

DECADE, GONE = -1.0, -2.0
"""log₁₀ of the share of its norm that a derivative keeps: flat above the first, gone below the
second."""


def parts(*axes: str) -> Callable[[Mapping[str, Any], pd.DataFrame], Sequence[Whole]]:
    """Return what makes one subject of each combination of some axes, named by those that vary."""

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
    """Return a metric by reader and by x."""
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
    """Judge whether the fixed vector fails at the longest source, and attention does not."""
    table = _end(whole.table)
    curves = _curves(table, "accuracy", "length")
    unasked = _curves(table, UNASKED.name, "length")
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
    gains = _curves(table, GAIN.name, "length")
    chance = unasked["fixed"][longest]
    if exists(solved.values()) is False and not all(
        _settled(gains.get(name, {}).get(longest), curve[longest], chance.high)
        for name, curve in attention.items()
    ):
        raise MissingError(
            f"no attention answers at length = {longest} after {steps} training steps, and they "
            "may not be trained yet"
        )
    holds = every((fails, exists(solved.values())))
    best = max(attention, key=lambda name: (attention[name][longest].mean, READERS.index(name)))
    short = [length for length, value in fixed.items() if past(value, SOLVED, above=True)]
    without = [name for name, state in solved.items() if state is False]
    unsure = [name for name, state in solved.items() if state is None]
    gain = gains.get("fixed", {}).get(longest)
    conditions = [
        f"after {steps} training steps",
        *([_why(end, gain, chance)] if fails else []),
        *(
            [f"in these steps the fixed vector answers up to length = {max(short)}"]
            if short
            else []
        ),
        *([f"not with {' and '.join(without)}"] if holds and without else []),
        *([f"undecided with {' and '.join(unsure)}"] if holds and unsure else []),
    ]
    text = ", ".join(f"{name} {percent(curve[longest])}" for name, curve in curves.items())
    verb = "removes" if holds else "does not remove"
    return Reading(
        holds,
        f"right answers at length = {longest}: {text}; the most frequent value {percent(chance)}",
        f"Attention {verb} the bottleneck: at length = {longest}, after {steps} training steps, "
        f"the fixed vector answers {percent(end)} rightly, where the most frequent value of a "
        f"sequence is right for {percent(chance)}; with {best} attention it is "
        f"{percent(attention[best][longest])}.",
        f"accuracy of the fixed vector at length = {longest}",
        end,
        abs(end.mean - SOLVED),
        "; ".join(conditions),
    )


def _settled(gain: Estimate | None, accuracy: Estimate, level: float) -> bool | None:
    """Return whether training has settled: surely above a level, and surely rising no more.

    What is at the level has learnt nothing yet, and may still begin to.
    """
    if gain is None:
        return None
    return every((past(accuracy, level, above=True), past(gain, SETTLED, above=False)))


def _why(accuracy: Estimate, gain: Estimate | None, chance: Estimate) -> str:
    """Return what is known of why a fixed vector fails: its size, or that it is not trained yet."""
    if past(accuracy, chance.high, above=True) is not True:
        return (
            "the fixed vector is then no better than the most frequent value, so that it may be "
            "too small or only not trained yet"
        )
    if _settled(gain, accuracy, chance.high):
        return "the fixed vector has then settled, so that its size is what it lacks"
    return "the fixed vector may then still be rising, so that training may be what it lacks"


# Capacity


class _Size(NamedTuple):
    """The fixed vector of one size, at the learning rate with the best accuracy.

    `answers` is whether it answers at some rate, `fails` whether it does not at any. `settled` is
    whether it has learnt something and the second half of the training added little, and `edge`
    whether the rate is at an end of the grid.
    """

    hidden: int
    accuracy: Estimate
    gain: Estimate
    answers: bool | None
    fails: bool | None
    settled: bool | None
    edge: bool

    @property
    def too_small(self) -> bool | None:
        """Whether it fails, and more training would not change that."""
        return every((self.fails, self.settled))

    @property
    def text(self) -> str:
        """What it reaches, in words."""
        rise = estimate(_points_of(self.gain))
        return f"{percent(self.accuracy)} at hidden = {self.hidden} ({rise} points gained)"


def _sizes(table: pd.DataFrame) -> list[_Size]:
    table = table[table["reader"] == "fixed"]
    rates = sorted(set(table["learning_rate"]))
    found = []
    for hidden, rows in table.groupby("hidden", sort=True):
        by = {
            metric: {
                row["learning_rate"]: Estimate(row["mean"], row["ci_low"], row["ci_high"])
                for row in rows[rows["metric"] == metric].to_dict("records")
            }
            for metric in ("accuracy", GAIN.name)
        }
        accuracy = by["accuracy"]
        best = max(accuracy, key=lambda rate: accuracy[rate].mean)
        gain = by[GAIN.name].get(best)
        if gain is None:
            raise MissingError("accuracy was not logged in the first half of the training")
        found.append(
            _Size(
                int(str(hidden)),
                accuracy[best],
                gain,
                exists(past(one, SOLVED, above=True) for one in accuracy.values()),
                every(past(one, SOLVED, above=False) for one in accuracy.values()),
                _settled(gain, accuracy[best], CHANCE),
                len(rates) > 1 and best in (rates[0], rates[-1]),
            )
        )
    return found


def capacity(whole: Whole) -> Reading:
    """Judge whether the smallest fixed vector is too small where a larger one answers."""
    table = _end(whole.table)
    sizes = _sizes(table)
    if len(sizes) < 2:
        raise MissingError("the run has fewer than two sizes of the fixed vector")
    small, *larger = sizes
    steps, length = int(table["step"].max()), int(table["length"].iloc[0])
    if small.fails is False:
        raise MissingError(f"the fixed vector of {small.hidden} units answers at length = {length}")
    if small.fails and small.settled is False:
        raise MissingError(
            f"the fixed vector of {small.hidden} units is still rising, or has learnt nothing, "
            f"after {steps} training steps: {small.text}"
        )
    answers = exists(one.answers for one in larger)
    if answers is False and not all(one.too_small for one in sizes):
        raise MissingError(
            f"no fixed vector answers in {steps} training steps, and not all of them have settled"
        )
    holds = every((small.too_small, answers))
    first = next((one for one in larger if one.answers), max(larger, key=lambda x: x.accuracy.mean))
    chance = next(iter(_curves(table, UNASKED.name, "length")["fixed"].values()))
    rising = [str(one.hidden) for one in sizes if one.fails and one.settled is False]
    edges = [str(one.hidden) for one in sizes if one.edge and not one.answers]
    conditions = [
        f"at length = {length}",
        *(
            [f"at hidden = {' and '.join(rising)} the accuracy is still rising after {steps} steps"]
            if rising
            else []
        ),
        *(
            [f"at hidden = {' and '.join(edges)} the best learning rate is at the edge of the grid"]
            if edges
            else []
        ),
    ]
    verb = "is" if holds else "is not" if holds is False else "may be"
    beside = (
        "less than" if past(small.accuracy, chance.mean, above=False) else "no surer than"
    ) if not past(small.accuracy, chance.mean, above=True) else "more than"  # fmt: skip
    return Reading(
        holds,
        f"right answers after {steps} steps: {', '.join(one.text for one in sizes)}; the most "
        f"frequent value {percent(chance)}",
        f"Size {verb} what a small fixed vector lacks: with {small.hidden} units it answers "
        f"{percent(small.accuracy)} of questions about {length} pairs, {beside} the most frequent "
        f"value of a sequence would ({percent(chance)}), and the second half of {steps} training "
        f"steps adds {estimate(_points_of(small.gain))} points; with "
        f"{first.hidden} units it answers {percent(first.accuracy)}.",
        f"accuracy of the fixed vector at hidden = {small.hidden}",
        small.accuracy,
        abs(small.accuracy.mean - SOLVED),
        "; ".join(conditions),
    )


# Score width


class _Point(NamedTuple):
    """A reader at one d_k, at learning rates that were chosen on other seeds.

    `own` is the ratio of its steps to those at the smallest d_k, `scaled` to those of scaled dot
    attention.
    """

    seeds: int
    reached: int
    steps: Estimate
    budget: int
    accuracy: float
    own: Ratio
    scaled: Ratio
    edge: bool

    @property
    def text(self) -> str:
        """What it takes, or where it ends, in words."""
        if self.steps.mean <= self.budget:
            return f"takes {estimate(self.steps)} steps"
        seeds = f"{self.reached} of {self.seeds} seeds" if self.reached else "no seed"
        return f"gets there with {seeds} and ends at an accuracy of {100 * self.accuracy:.0f} %"


def _points(table: pd.DataFrame) -> dict[str, dict[int, _Point]]:
    """Return the rows of widths.csv by reader and d_k."""
    found: dict[str, dict[int, _Point]] = {}
    for row in table.sort_values("d_k").to_dict("records"):
        own, scaled = (
            Ratio(*(row[f"{name}_{end}"] for end in Ratio._fields)) for name in ("own", "scaled")
        )
        steps = Estimate(row["crossfit_steps"], row["crossfit_low"], row["crossfit_high"])
        found.setdefault(row["reader"], {})[int(row["d_k"])] = _Point(
            row["n_seeds"], row["reached"], steps, row["steps"], row["accuracy"], own, scaled,
            row["edge"] not in ("", "only"),
        )  # fmt: skip
    return found


def score_width(whole: Whole) -> Reading:
    """Judge whether unscaled dot attention falls behind with d_k where the others keep up.

    Both are judged against the same margin, so that no true ratio can be called both: more seeds
    only narrow the interval around it.
    """
    points = _points(whole.table)
    _need(points, "additive", "dot", "scaled_dot")
    dot, scaled = points["dot"], points["scaled_dot"]
    sizes = sorted(dot)
    if len(sizes) < 2:
        raise MissingError("the run has one d_k; a comparison needs two")
    small, large = sizes[0], sizes[-1]
    behind = {d_k: dot[d_k].scaled.beyond(FACTOR, above=True) for d_k in sizes}
    grown = every((behind[large], dot[large].own.beyond(FACTOR, above=True)))
    keeps = {
        (name, d_k): points[name][d_k].own.beyond(FACTOR, above=False)
        for name in ("additive", "scaled_dot")
        for d_k in sizes[1:]
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
        lag += f"{points[name][at].text}."
    first = next((d for d in sizes if all(behind[x] is True for x in sizes if x >= d)), None)
    edges = [
        f"{name} at d_k = {d_k}"
        for name, curve in points.items()
        for d_k, point in curve.items()
        if point.edge
    ]
    conditions = [
        *([f"from d_k = {first} on"] if first else []),
        f"in {dot[large].budget} steps, each at learning rates that were chosen on other seeds",
        *([f"a chosen rate is at the edge of the grid for {', '.join(edges)}"] if edges else []),
    ]
    shown = "; ".join(
        f"{name} {curve[small].text} at d_k = {small}, and {curve[large].text} at d_k = {large}, "
        f"{curve[large].own.text(' times')} as many"
        for name, curve in points.items()
    )
    end = dot[large].own
    verb = "falls" if grown else "does not fall" if grown is False else "does not surely fall"
    return Reading(
        holds,
        f"to an accuracy of {SOLVED}: {shown}",
        f"Unscaled dot attention {verb} behind as d_k grows: to an accuracy of {SOLVED}, at d_k = "
        f"{large}, it {dot[large].text}; scaled dot attention {scaled[large].text}, additive "
        f"attention {points['additive'][large].text}.{lag}",
        f"steps of unscaled dot attention at d_k = {large} over those at d_k = {small}",
        end.bound,
        max(0.0, min(abs(end.least - FACTOR), abs(end.most - FACTOR))),
        ", ".join(conditions),
    )


# Projections


class _Head(NamedTuple):
    """A head with some projections, at the learning rate with the best accuracy.

    `answers` is whether it answers at some rate, `fails` whether it does not at any, and `settled`
    whether the second half of its training added little.
    """

    accuracy: Estimate
    weight: Estimate
    answers: bool | None
    fails: bool | None
    settled: bool | None

    @property
    def text(self) -> str:
        """What it reaches, in words."""
        return f"{percent(self.accuracy)} with {percent(self.weight)} of the weight on the item"


def _heads(table: pd.DataFrame) -> dict[str, _Head]:
    found = {}
    for name, rows in table.groupby("projections", sort=True):
        by: dict[str, dict[float, Estimate]] = {}
        for row in rows.to_dict("records"):
            value = Estimate(row["mean"], row["ci_low"], row["ci_high"])
            by.setdefault(row["metric"], {})[row["learning_rate"]] = value
        accuracy = by["accuracy"]
        best = max(accuracy, key=lambda rate: accuracy[rate].mean)
        gain = by.get(GAIN.name, {}).get(best)
        found[str(name)] = _Head(
            accuracy[best],
            by["asked_weight"][best],
            exists(past(one, SOLVED, above=True) for one in accuracy.values()),
            every(past(one, SOLVED, above=False) for one in accuracy.values()),
            past(gain, SETTLED, above=False) if gain else None,
        )
    return found


def projections(whole: Whole) -> Reading:
    """Judge whether a head fails where it lacks a projection of its own. Raises MissingError."""
    table = _end(whole.table)
    steps = int(table["step"].max())
    turned = table[table["relation"] == "turned"]
    if turned.empty:
        raise MissingError("the run has no relation turned, in which the projections differ")
    heads = _heads(turned)
    lacking = [name for name in PROJECTIONS if name not in heads]
    if lacking:
        raise MissingError(f"the run has no projections {' and no '.join(lacking)}")
    separate, *others = (heads[name] for name in PROJECTIONS)
    if separate.answers is not True:
        raise MissingError(
            f"after {steps} training steps the head with three projections does not surely answer "
            f"either: {separate.text}"
        )
    if any(one.fails and one.settled is False for one in others):
        raise MissingError(f"a head is still learning after {steps} training steps")
    holds = every(
        False if one.answers else every((one.fails, one.settled or None)) for one in others
    )
    shared, identity = others
    same = _heads(rest) if len(rest := table[table["relation"] == "same"]) else {}
    able = {name: same[name].text for name in PROJECTIONS[1:] if name in same}
    conditions = [
        "where a query does not look like its item, nor the answer like the item",
        *(
            [f"where both do, {' and '.join(f'{n} answers {t}' for n, t in able.items())}"]
            if able
            else []
        ),
    ]
    verb = "needs" if holds else "does not need" if holds is False else "may need"
    return Reading(
        holds,
        f"right answers: separate {separate.text}; shared_qk {shared.text}; identity_v "
        f"{identity.text}",
        f"Each of the three {verb} its own projection: after {steps} training steps the head with "
        f"W_q, W_k and W_v answers {percent(separate.accuracy)} of turned queries rightly; with "
        f"W_q = W_k it is {percent(shared.accuracy)}, with {percent(shared.weight)} of the weight "
        f"on the item that is asked for; with W_v = I it is {percent(identity.accuracy)}.",
        "accuracy with W_q = W_k"
        if shared.accuracy.mean > identity.accuracy.mean
        else "accuracy with W_v = I",
        max(shared.accuracy, identity.accuracy),
        abs(max(shared.accuracy, identity.accuracy).mean - SOLVED),
        "; ".join(conditions),
    )


# Reach


def _reach(whole: Whole, stage: str, metric: str) -> dict[str, dict[int, Estimate]]:
    table = whole.table[whole.table["stage"] == stage]
    found = _curves(table, metric, "distance")
    _need(found, "fixed")
    if max(found["fixed"]) == 0:
        raise MissingError("a source of one pair has no distance")
    return found


def _share(decades: Estimate) -> str:
    """Return in words what share of a norm is left, from its decades."""
    return estimate(Estimate(*(10.0**x for x in decades)))


def reach(whole: Whole) -> Reading:
    """Judge whether the derivative through attention is as large far back as near."""
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
    """Judge whether the trained fixed vector answers what its gradient reaches, and only that."""
    kept = _reach(whole, "trained", "relative_log10_norm")["fixed"]
    right = _reach(whole, "trained", "accuracy")["fixed"]
    before = _reach(whole, "initial", "relative_log10_norm")["fixed"]
    trained = whole.table[whole.table["stage"] == "trained"]
    gains = _curves(trained, GAIN.name, "distance").get("fixed", {})
    states = {d: past(value, GONE, above=True) for d, value in kept.items()}
    near = [d for d, state in states.items() if state is True]
    # A norm that is 0 with every seed has no logarithm, and no row.
    beyond = exists(past(kept[d], GONE, above=False) if d in kept else True for d in right)
    answers = {past(right[d], SOLVED, above=True) for d in near}
    steps = int(whole.settings["steps"])
    if {True, False} <= answers:
        # Neither side: no more seeds would decide it.
        raise MissingError(
            "within reach of its gradient the fixed vector answers some distances and others not"
        )
    if answers == {True} and beyond is False:
        raise MissingError("the fixed vector answers every distance")
    gain = next(iter(gains.values()), None)
    if answers == {False} and not _settled(gain, right[min(near)], CHANCE):
        raise MissingError(
            f"after {steps} training steps the fixed vector may still be learning, so that what it "
            "does not answer may only not be trained"
        )
    holds = False if answers == {False} else every((*answers, beyond))
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
        f"after {steps} training steps{_added(gain)}",
    )


def _added(gain: Estimate | None) -> str:
    if gain is None:
        return ""
    return f", the second half of which adds {estimate(_points_of(gain))} percentage points"


def _points_of(share: Estimate) -> Estimate:
    """Return a share in percentage points."""
    return Estimate(*(100 * x for x in share))
