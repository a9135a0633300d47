"""Judge the claim about the capacity of a fixed vector."""

from typing import NamedTuple

import pandas as pd

from sqrtdk.claims import findings
from sqrtdk.claims.claim import Claim
from sqrtdk.claims.findings import Finding
from sqrtdk.experiments.encoder_decoder.judging import (
    CHANCE_ACCURACY,
    SETTLED,
    curves_of,
    is_settled,
    points_of,
)
from sqrtdk.experiments.encoder_decoder.measure import GAIN, LEARNT_ACCURACY, UNASKED
from sqrtdk.stats.curves import is_beyond
from sqrtdk.stats.decisions import all_known, any_known
from sqrtdk.stats.intervals import Estimate, MissingError
from sqrtdk.stats.series import WholeTable
from sqrtdk.stats.summary import last_step
from sqrtdk.stats.wording import format_estimate, format_percent

# Capacity


class _Size(NamedTuple):
    """The fixed vector of one size, at the learning rate with the best accuracy.

    `answers` is whether it answers at some rate, `fails` whether it fails at every rate. `settled`
    is whether it has learnt something and the second half of the training added little, and `edge`
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
        """Return whether it fails, and more training would not change that."""
        return all_known((self.fails, self.settled))

    @property
    def text(self) -> str:
        """Return its accuracy, in words."""
        rise = format_estimate(points_of(self.gain))
        return f"{format_percent(self.accuracy)} at hidden = {self.hidden} ({rise} points gained)"


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
                any_known(is_beyond(one, LEARNT_ACCURACY, above=True) for one in accuracy.values()),
                all_known(
                    is_beyond(one, LEARNT_ACCURACY, above=False) for one in accuracy.values()
                ),
                is_settled(gain, accuracy[best], CHANCE_ACCURACY),
                len(rates) > 1 and best in (rates[0], rates[-1]),
            )
        )
    return found


def capacity(whole: WholeTable) -> Finding:
    """Judge whether the smallest fixed vector is too small while a larger one answers."""
    table = last_step(whole.table)
    sizes = _sizes(table)
    if len(sizes) < 2:
        raise MissingError("the run has fewer than two sizes of the fixed vector")
    small, *larger = sizes
    steps, length = int(table["step"].max()), int(table["length"].iloc[0])
    if small.fails is False:
        raise MissingError(f"the fixed vector of {small.hidden} units answers at length = {length}")
    if small.fails and small.settled is False:
        raise MissingError(
            f"the fixed vector of {small.hidden} units is still improving, or has learnt nothing, "
            f"after {steps} training steps: {small.text}"
        )
    answers = any_known(one.answers for one in larger)
    if answers is False and not all(one.too_small for one in sizes):
        raise MissingError(
            f"no fixed vector answers in {steps} training steps, and not all of them have settled"
        )
    holds = all_known((small.too_small, answers))
    first = next((one for one in larger if one.answers), max(larger, key=lambda x: x.accuracy.mean))
    chance = next(iter(curves_of(table, UNASKED.name, "length")["fixed"].values()))
    rising = [str(one.hidden) for one in sizes if one.fails and one.settled is False]
    edges = [str(one.hidden) for one in sizes if one.edge and not one.answers]
    conditions = [
        f"at length = {length}",
        *(
            [f"at hidden = {' and '.join(rising)} accuracy is still improving after {steps} steps"]
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
        (
            "fewer than"
            if is_beyond(small.accuracy, chance.mean, above=False)
            else "about as many as"
        )
        if not is_beyond(small.accuracy, chance.mean, above=True)
        else "more than"
    )
    return Finding(
        holds,
        f"right answers after {steps} steps: {', '.join(one.text for one in sizes)}; the most "
        f"frequent value {format_percent(chance)}",
        f"Size {verb} what limits a small fixed vector. With {small.hidden} units it answers "
        f"{format_percent(small.accuracy)} of questions about {length} pairs, {beside} with the "
        f"most frequent value of the sequence ({format_percent(chance)}), and the second half of "
        f"{steps} training steps adds {format_estimate(points_of(small.gain))} percentage points. "
        f"With {first.hidden} units it answers {format_percent(first.accuracy)}.",
        f"accuracy of the fixed vector at hidden = {small.hidden}",
        small.accuracy,
        abs(small.accuracy.mean - LEARNT_ACCURACY),
        "; ".join(conditions),
    )


CLAIMS = (
    Claim(
        "capacity",
        "More training does not help a fixed vector that is too small.",
        "At one source length, a size answers if its accuracy after training is surely above "
        f"{LEARNT_ACCURACY} at some learning rate, and fails if it is surely below at every rate. "
        "Its training has settled if, at its best rate, its accuracy is surely above chance and "
        f"the second half of the steps adds surely less than {100 * SETTLED:.0f} percentage "
        "points; it is still improving if the second half adds surely more. True if the smallest "
        "size fails and has settled and a larger one answers; false if all sizes fail and have "
        "settled, so size changes nothing. Not measured if the smallest size answers or is still "
        "improving, or if no size answers and some have not settled.",
        "capacity-hidden",
        capacity,
        evidence=findings.parts("length"),
    ),
)
