"""Define a claim, its verdicts and the columns of claims.csv."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pandas as pd

from sqrtdk.claims.findings import Evidence, Finding
from sqrtdk.schema import Column, Settings

TRUE = "true"
CONDITIONAL = "true with a condition"
FALSE = "false"
NOT_MEASURED = "not measured"
VERDICTS = (TRUE, CONDITIONAL, FALSE, NOT_MEASURED)

UNDECIDED = "undecided"
"""What a verdict of `NOT_MEASURED` is called where there are numbers that do not decide."""


def said(verdict: str, numbers: str) -> str:
    """Return a verdict as a reader has it, from two columns of claims.csv."""
    return UNDECIDED if verdict == NOT_MEASURED and numbers else verdict


SERIES_SEPARATOR = " | "
"""Separates two series of `numbers`; no number, name or sentence contains it."""

COLUMNS = (
    Column("claim", "Short name of the claim.", read=str, axis=True),
    Column(
        "experiment",
        "Experiment whose tables decide: that of the claim, or if it gave nothing another one.",
        read=str,
    ),
    Column("sentence", "The statement that is judged.", read=str),
    Column("verdict", f"One of: {', '.join(VERDICTS)}.", read=str),
    Column(
        "condition",
        "Where the statement holds, what could not be measured, or why nothing was. Empty when it "
        "holds, or fails, everywhere.",
        read=str,
        optional=True,
    ),
    Column("answer", "What was found, in a sentence.", read=str),
    Column(
        "series",
        "The series whose numbers are in `answer`: one in the middle of the grid that agrees "
        "with the verdict. Empty when not measured, where the whole table is judged, or where the "
        "answer has the numbers of all series.",
        read=str,
        optional=True,
    ),
    Column(
        "quantity",
        "What `value` is, in the series that is closest to another verdict. Empty when not "
        "measured, like the three columns after it.",
        read=str,
        optional=True,
    ),
    Column("value", "The number that decides.", optional=True),
    Column("ci_low", "Lower end of its interval. Empty where there is none.", optional=True),
    Column(
        "ci_high",
        "Upper end of its interval. Empty where there is none or no bound.",
        optional=True,
    ),
    Column(
        "numbers",
        f"The measured numbers of each series, with intervals; {SERIES_SEPARATOR.strip()} between "
        "series.",
        read=str,
    ),
    Column("rule", "How the verdict follows from the table.", read=str),
    Column(
        "figure",
        "Figure of that experiment that shows it: a file of figures/, without its ending.",
        read=str,
    ),
    Column("source", "Whose statement it is: chapter, or ours.", read=str),
)


@dataclass(frozen=True)
class Claim:
    """A statement and how it is judged.

    `source` is the origin of the statement: the chapter, in its words as far as they are quoted, or
    ours. `vectors` restricts it to one kind of queries and keys; `about` are the kinds that an
    unconditional "true" needs. `evidence` returns what is judged, from an experiment's
    settings and table. `also` names experiments of the same shape whose evidence counts too, if a
    run has them, each with its figure. `table` is the table of the experiment
    that decides. `lacking` is the reason if the experiment has nothing to judge. `caveat` is a
    condition that no run can remove. With `answers_all` the answer has the numbers of all series,
    which must be few, and not of one.
    """

    claim: str
    sentence: str
    rule: str
    figure: str
    judge: Callable[[Any], Finding]
    source: Literal["chapter", "ours"] = "chapter"
    vectors: Literal["unrelated", "related"] | None = None
    about: tuple[Literal["unrelated", "related"], ...] = ()
    caveat: str = ""
    experiment: str = ""
    also: Mapping[str, str] = field(default_factory=dict)
    evidence: Callable[[Settings, pd.DataFrame], Sequence[Evidence]] | None = None
    lacking: str = ""
    table: str = "summary"
    lead: int = 0
    answers_all: bool = False
    role: Literal["", "gate"] = ""
