"""Judge the claims about the exponent of d_k from best.csv."""

from collections.abc import Callable, Sequence
from functools import partial

import pandas as pd

from sqrtdk.claims.claim import Claim
from sqrtdk.claims.findings import Finding
from sqrtdk.claims.roots import Root
from sqrtdk.core.input_laws import law_of
from sqrtdk.experiments.exponent.best import MOST
from sqrtdk.schema import Settings
from sqrtdk.stats.intervals import MissingError
from sqrtdk.stats.series import WholeTable

EXPONENT = Root("exponent of d_k", MOST, 0.1)
"""A best exponent may be 0.1 from 1/2 or 1."""


def _judge(whole: WholeTable, criterion: str, power: float, what: str) -> Finding:
    rows = whole.table[whole.table["criterion"] == criterion]
    if rows.empty:
        raise MissingError(f"the run has no best exponent by the criterion {criterion}")
    return EXPONENT.judge(rows.to_dict("records")[0], power, what)


def unrelated(whole: WholeTable) -> Finding:
    """Judge whether the best exponent for unrelated vectors is 1/2."""
    return _judge(whole, "entropy", 0.5, "keeps the entropy of unrelated vectors")


def related(whole: WholeTable) -> Finding:
    """Judge whether the best exponent for related vectors is 1, by the entropy."""
    return _judge(whole, "entropy", 1.0, "keeps the entropy where each query has a match")


def match(whole: WholeTable) -> Finding:
    """Judge whether the best exponent for related vectors is 1, by the weight of the match."""
    return _judge(whole, "match", 1.0, "keeps the weight of the match")


def of_laws(settings: Settings, table: pd.DataFrame, *, wanted: bool) -> Sequence[WholeTable]:
    """Return a part for each n_k and input law that is unrelated (or related)."""
    parts = []
    for (n_k, inputs), rows in table.groupby(["n_k", "inputs"], sort=True):
        law = law_of(settings["inputs"].get(str(inputs), {}))
        if law is not None and law.unrelated is wanted:
            label = f"n_k = {n_k}, inputs = {inputs}"
            parts.append(WholeTable(rows, label, unrelated=wanted, settings=settings))
    return parts


def _claim(
    name: str,
    sentence: str,
    judge: Callable[[WholeTable], Finding],
    metric: str,
    power: str,
    *,
    wanted: bool,
) -> Claim:
    """Return a claim about unrelated (or related) vectors."""
    return Claim(
        name,
        sentence,
        f"The best exponent p of a seed is where the slope over ln d_k of {metric}, with the scale "
        f"64^(p - 1/2) d_k^-p, changes its sign. {EXPONENT.rule.format(power=power)}",
        "exponent-best",
        judge,
        source="ours",
        evidence=partial(of_laws, wanted=wanted),
        lacking=f"the run has no {'unrelated' if wanted else 'related'} vectors",
        table="best",
    )


CLAIMS = (
    _claim(
        "exponent_unrelated",
        "For unrelated vectors, the power of d_k that keeps attention as it is is near 1/2.",
        unrelated,
        "the entropy",
        "1/2",
        wanted=True,
    ),
    _claim(
        "exponent_related",
        "For vectors with a match, the power of d_k that keeps the entropy as it is is near 1.",
        related,
        "the entropy",
        "1",
        wanted=False,
    ),
    _claim(
        "exponent_match",
        "For vectors with a match, the power of d_k that keeps the weight of the match is near 1.",
        match,
        "the weight of the match",
        "1",
        wanted=False,
    ),
)
