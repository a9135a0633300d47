"""Judge the claims about the exponent of d_k from best.csv."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import pandas as pd

from sqrtdk.claims.claim import Claim
from sqrtdk.claims.findings import Finding, abbreviate
from sqrtdk.claims.roots import Root
from sqrtdk.core.input_laws import law_of
from sqrtdk.experiments.exponent.best import MOST
from sqrtdk.schema import Settings
from sqrtdk.stats.intervals import MissingError, evenly_spaced
from sqrtdk.stats.wording import format_number

EXPONENT = Root("exponent of d_k", MOST, 0.1)
"""A best exponent may be 0.1 from 1/2 or 1."""


class Part(NamedTuple):
    """The best exponents of one n_k and input law; `others` are those of all n_k and laws."""

    table: pd.DataFrame
    label: str = ""
    unrelated: bool = True
    others: pd.DataFrame = pd.DataFrame()


def _judge(part: Part, criterion: str, power: float, what: str) -> Finding:
    rows = part.table[part.table["criterion"] == criterion]
    if rows.empty:
        raise MissingError(f"the run has no best exponent by the criterion {criterion}")
    found = EXPONENT.judge(rows.to_dict("records")[0], power, what)
    if part.others.empty:
        return found
    others = part.others[part.others["criterion"] == criterion]
    sizes = sorted(set(others["n_k"]))
    if len(sizes) == 1:
        return found._replace(condition=f"tried at n_k = {sizes[0]} only")
    falls = falling(others)
    also = f" {falls[0].upper()}{falls[1:]}." if falls else ""
    return found._replace(condition=falls, answer=found.answer + also)


def falling(table: pd.DataFrame) -> str:
    """Say how the best exponent of each law falls as n_k grows; empty if it surely does for none.

    It does if its whole interval at the largest n_k is below that at the smallest.
    """
    laws = []
    for inputs, found in table[table["mean"].notna()].groupby("inputs", sort=True):
        rows = found.sort_values("n_k").to_dict("records")
        if not rows[-1]["ci_high"] < rows[0]["ci_low"]:
            continue
        shown = evenly_spaced(rows, SHOWN)
        exact = all(row["exact"] == row["exact"] for row in shown)
        numbers = (format_number(row["exact" if exact else "mean"]) for row in shown)
        sizes = ", ".join(str(row["n_k"]) for row in shown)
        laws.append((sizes, f"{', '.join(numbers)} ({inputs}{', exact' * exact})"))
    if not laws:
        return ""
    texts = abbreviate([text for _, text in laws], "input laws")
    return f"the exponent falls as n_k grows: at n_k = {laws[0][0]} it is {'; '.join(texts)}"


SHOWN = 4
"""Numbers of keys at which a falling exponent is written out."""


def unrelated(part: Part) -> Finding:
    """Judge whether the best exponent for unrelated vectors is 1/2."""
    return _judge(part, "entropy", 0.5, "keeps the entropy of unrelated vectors")


def related(part: Part) -> Finding:
    """Judge whether the best exponent for related vectors is 1, by the entropy."""
    return _judge(part, "entropy", 1.0, "keeps the entropy where each query has a match")


def match(part: Part) -> Finding:
    """Judge whether the best exponent for related vectors is 1, by the weight of the match."""
    return _judge(part, "match", 1.0, "keeps the weight of the match")


def of_laws(settings: Settings, table: pd.DataFrame, *, wanted: bool) -> Sequence[Part]:
    """Return a part for each n_k and input law that is unrelated (or related)."""
    laws = {name: law_of(entry) for name, entry in settings["inputs"].items()}
    kept = [name for name, law in laws.items() if law is not None and law.unrelated is wanted]
    others = table[table["inputs"].isin(kept)]
    return [
        Part(rows, f"n_k = {n_k}, inputs = {inputs}", wanted, others)
        for (n_k, inputs), rows in others.groupby(["n_k", "inputs"], sort=True)
    ]


def _claim(
    name: str,
    sentence: str,
    judge: Callable[[Part], Finding],
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
        f"64^(p - 1/2) d_k^-p, changes its sign. {EXPONENT.rule.format(power=power)} There is a "
        "condition if the interval at the largest n_k is wholly below that at the smallest, or if "
        "the run has one n_k only.",
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
