"""Answer how attention solves long-range dependency."""

from collections.abc import Mapping

import pandas as pd

from sqrtdk.claims import findings
from sqrtdk.claims.question import Question
from sqrtdk.experiments.reach.claims import REACH, reach
from sqrtdk.schema import Settings
from sqrtdk.stats.intervals import MissingError

PATH = (
    "Any two positions are one step apart. An output is the weighted average of the values, so the "
    "gradient of a value is its weight times the gradient of the output, at every distance; the "
    "gradients of queries and keys pass through the softmax. The formula does not depend on the "
    "positions, so their order is lost unless the inputs contain it."
)
"""The part of the answer that follows from the formula of attention, without numbers."""


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
