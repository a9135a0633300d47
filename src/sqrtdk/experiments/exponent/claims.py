"""Judge the claims about the exponent of d_k from best.csv."""

import math
from collections.abc import Sequence

import pandas as pd

from sqrtdk.claims.claim import Claim
from sqrtdk.claims.findings import Finding
from sqrtdk.core.input_laws import law_of
from sqrtdk.schema import Settings
from sqrtdk.stats.decisions import within
from sqrtdk.stats.intervals import Estimate, MissingError
from sqrtdk.stats.series import WholeTable
from sqrtdk.stats.wording import format_estimate, format_number

MARGIN = 0.1
"""How far from 1/2 or 1 a best exponent may be."""


def _judge(whole: WholeTable, criterion: str, power: float, what: str) -> Finding:
    rows = whole.table[whole.table["criterion"] == criterion]
    if rows.empty:
        raise MissingError(f"the run has no best exponent by the criterion {criterion}")
    row = rows.iloc[0]
    seeds = row["n_seeds"] + row["n_without"]
    if row["n_seeds"] == 0:
        return Finding(
            False,
            f"no best exponent in any of {seeds} seeds",
            f"No exponent of d_k from 0 to 1.5 {what}, in any of {seeds} seeds.",
            "seeds with a best exponent",
            Estimate(0.0),
            1.0,
        )
    if row["n_without"] > 0:
        raise MissingError(
            f"{row['n_without']} of {seeds} seeds have no best exponent from 0 to 1.5"
        )
    best = Estimate(row["mean"], row["ci_low"], row["ci_high"], row["exact"])
    holds = within(best, power - MARGIN, power + MARGIN)
    return Finding(
        holds,
        f"best exponent {format_estimate(best)}",
        f"The exponent of d_k that {what} is {format_estimate(best)}.",
        f"best exponent, where {format_number(power)} is claimed",
        best._replace(exact=math.nan),
        abs(MARGIN - abs(best.mean - power)),
    )


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


_RULE = (
    "The best exponent p of a seed is where the slope over ln d_k of {metric}, with the scale "
    "64^(p - 1/2) d_k^-p, changes its sign. True if the whole 95 % t-interval of its mean over "
    "seeds is within {margin} of {power}, false if it is wholly outside, or if no seed has a best "
    "exponent between 0 and 1.5. Not measured if only some seeds have one."
)

CLAIMS = (
    Claim(
        "exponent_unrelated",
        "For unrelated vectors, the power of d_k that keeps attention as it is is 1/2.",
        _RULE.format(metric="the entropy", margin=MARGIN, power="1/2"),
        "exponent-best",
        unrelated,
        source="ours",
        evidence=lambda settings, table: of_laws(settings, table, wanted=True),
        lacking="the run has no unrelated vectors",
        table="best",
    ),
    Claim(
        "exponent_related",
        "For vectors with a match, the power of d_k that keeps the entropy as it is is 1.",
        _RULE.format(metric="the entropy", margin=MARGIN, power="1"),
        "exponent-best",
        related,
        source="ours",
        evidence=lambda settings, table: of_laws(settings, table, wanted=False),
        lacking="the run has no related vectors",
        table="best",
    ),
    Claim(
        "exponent_match",
        "For vectors with a match, the power of d_k that keeps the weight of the match is 1.",
        _RULE.format(metric="the weight of the match", margin=MARGIN, power="1"),
        "exponent-best",
        match,
        source="ours",
        evidence=lambda settings, table: of_laws(settings, table, wanted=False),
        lacking="the run has no related vectors",
        table="best",
    ),
)
