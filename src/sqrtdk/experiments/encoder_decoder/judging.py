"""Helpers for judging the claims about encoder and decoder."""

from collections.abc import Mapping

import pandas as pd

from sqrtdk.experiments.encoder_decoder.recall import N_VALUES
from sqrtdk.stats.curves import is_beyond
from sqrtdk.stats.decisions import all_known
from sqrtdk.stats.intervals import Estimate, MissingError
from sqrtdk.stats.wording import format_estimate

CHANCE_ACCURACY = 1 / N_VALUES
"""Accuracy of an answer that does not use its sequence."""

SETTLED = 0.05
"""Training has settled if the second half of its steps adds less than this to what is learnt, an
accuracy or a share."""


def curves_of(table: pd.DataFrame, metric: str, x: str) -> dict[str, dict[int, Estimate]]:
    """Return a metric by reader and x."""
    found: dict[str, dict[int, Estimate]] = {}
    for row in table[table["metric"] == metric].sort_values(x).to_dict("records"):
        value = Estimate(row["mean"], row["ci_low"], row["ci_high"])
        found.setdefault(row["reader"], {})[int(row[x])] = value
    return found


def need(curves: Mapping[str, object], *readers: str) -> None:
    """Raise MissingError if a run lacks one of some readers."""
    lacking = [reader for reader in readers if reader not in curves]
    if lacking:
        raise MissingError(f"the run has no reader {' and no '.join(lacking)}")


def adds_little(gain: Estimate | None) -> bool | None:
    """Return whether the second half of the training adds surely less than `SETTLED`."""
    return None if gain is None else is_beyond(gain, SETTLED, above=False)


def is_settled(gain: Estimate | None, accuracy: Estimate, level: float) -> bool | None:
    """Return whether training has settled: surely above a level, and surely not rising any more.

    A run at the level has not learnt anything yet, and may still start to.
    """
    if gain is None:
        return None
    return all_known((is_beyond(accuracy, level, above=True), adds_little(gain)))


def why(accuracy: Estimate, gain: Estimate | None, chance: Estimate) -> str:
    """Say why a fixed vector may fail: its size, or too little training."""
    if is_beyond(accuracy, chance.high, above=True) is not True:
        return (
            "the fixed vector is no better than the most frequent value: it may be too small or "
            "need more training"
        )
    if is_settled(gain, accuracy, chance.high):
        return "the training of the fixed vector has settled, so its size is the limit"
    return "the fixed vector may still be improving, so more training may help"


def added(gain: Estimate | None) -> str:
    """Describe the gain of the second half of training."""
    if gain is None:
        return ""
    return f"; their second half adds {format_estimate(points_of(gain))} percentage points"


def points_of(share: Estimate) -> Estimate:
    """Return a share in percentage points."""
    return Estimate(*(100 * x for x in share))
