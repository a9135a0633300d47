"""Answer how attention solves long-range dependency."""

from collections.abc import Mapping

import pandas as pd

from sqrtdk.claims import findings
from sqrtdk.claims.question import Question
from sqrtdk.experiments.reach.claims import REACH, reach
from sqrtdk.schema import Settings
from sqrtdk.stats.intervals import MissingError

PATH = (
    "Between any two positions there is one step. An output is the average of the values by their "
    "weights, so that the gradient which reaches a value is its weight times that of the output, "
    "at every distance; queries and keys get theirs through the softmax. Nothing in the formula "
    "knows where a position is, so the order of positions is lost, unless the inputs carry it."
)
"""What the formula of attention says of distances; no number of a run is in it."""


def long_range(table: pd.DataFrame) -> str:
    """Say how attention relates distant positions, next to a recurrent network's last state."""
    found = []
    for part in findings.parts(*REACH)({}, table):
        try:
            found.append(reach(part))
        except MissingError as reason:
            lacking = reason
    if not found:
        raise lacking
    return f"Measured in a recurrent network: {found[-1].number}."


def _answer(settings: Settings, tables: Mapping[str, pd.DataFrame]) -> str:
    return long_range(tables["summary"])


QUESTIONS = (
    Question(
        "How does attention solve long-range dependency?",
        "reach-distance",
        ("summary",),
        _answer,
        known=PATH,
        place=3,
    ),
)
