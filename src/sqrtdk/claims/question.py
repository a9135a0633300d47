"""Define a question of the chapter's concept check, which a run answers from its tables.

Sentences are fixed and every number in them comes from a table of the run. A conclusion is drawn
only if the numbers support it, by the same limits as in `claims`. If a run lacks the tables of a
question, the answer says so.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pandas as pd

from sqrtdk.schema import Column, Settings

COLUMNS = (
    Column(
        "question",
        "A question of the chapter's concept check, or of an experiment beyond the chapter.",
        read=str,
        axis=True,
    ),
    Column("answer", "The answer, with numbers of this run.", read=str),
    Column("figure", "Figure that shows it: a file of figures/, without its ending.", read=str),
)


@dataclass(frozen=True)
class Question:
    """A question, and what answers it from an experiment's settings and tables.

    `needs` are the tables that `answer` gets by name, of those that decide claims; only the first
    one must exist. `answer` raises MissingError if they are not enough. `known` is printed before
    every answer. Questions are in the order of `place`.
    """

    question: str
    figure: str
    needs: tuple[str, ...]
    answer: Callable[[Settings, Mapping[str, pd.DataFrame]], str]
    known: str = ""
    place: int = 1000
