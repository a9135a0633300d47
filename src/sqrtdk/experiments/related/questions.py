"""Answer what query, key and value stand for."""

from collections.abc import Mapping, Sequence

import pandas as pd

from sqrtdk.claims import findings
from sqrtdk.claims.question import Question
from sqrtdk.schema import Settings
from sqrtdk.stats.decisions import beyond
from sqrtdk.stats.intervals import MissingError
from sqrtdk.stats.series import Series, series_of
from sqrtdk.stats.wording import format_estimate


def stand_for(series: Sequence[Series]) -> str:
    """Say what query, key and value stand for, with a query that has a match among the keys."""
    matched = next((one for one in series if one.axes["inputs"] == "planted"), None)
    alike = [one for one in series if one.unrelated and matched and one.n_k == matched.n_k]
    if matched is None or not alike:
        raise MissingError("the run does not have both a planted match and unrelated vectors")
    found, chance = (one.curve("scaled", "max_weight") for one in (matched, alike[0]))
    common = found.keys() & chance.keys()
    if not common:
        raise MissingError("the planted match and the unrelated vectors have no d_k in common")
    d_k = max(common)
    text = (
        "A query states what a position looks for, a key what a position offers, and a value what "
        "it passes on; the weight measures how well query and key match. Measured with 1/√d_k at "
        f"d_k = {d_k}, among {matched.n_k} keys: a query without a match gives its best key the "
        f"weight {format_estimate(chance[d_k])}; a query with one planted match gives it "
        f"{format_estimate(found[d_k])}."
    )
    nearly = beyond(found[d_k], findings.ONE_HOT, above=True)
    return text + (" The output is then nearly that key's value." if nearly else "")


def _answer(settings: Settings, tables: Mapping[str, pd.DataFrame]) -> str:
    return stand_for(series_of(settings, tables["summary"], tables.get("contrasts")))


QUESTIONS = (
    Question(
        "What do query, key and value stand for?",
        "related-entropy",
        ("summary", "contrasts"),
        _answer,
        place=1,
    ),
)
