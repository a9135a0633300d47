"""Answer a question that people ask: why the root, and not another power."""

import math
from typing import Any

import pandas as pd

from sqrtdk.experiments.exponent.limits import FAR
from sqrtdk.experiments.story import Asked, RunTables, said
from sqrtdk.figures import words
from sqrtdk.stats.intervals import Estimate, MissingError
from sqrtdk.stats.wording import format_number


def exponent(run: RunTables) -> str:
    """Say which exponent is best for each input law, at the fewest and at the most keys."""
    table = run.table("best")
    table = table[(table["criterion"] == "entropy") & table["mean"].notna()]
    texts = []
    for inputs, found in table.groupby("inputs", sort=True):
        name = words.with_name(str(inputs), words.INPUTS)
        each = [
            f"{said(Estimate(row['mean'], row['ci_low'], row['ci_high']))} at n_k = {row['n_k']}"
            for row in _ends(found)
        ]
        texts.append(f"for {name} {' and '.join(each)}")
    if not texts:
        raise MissingError("the run has no best exponent")
    return f"The power that keeps the entropy over d_k is {', '.join(texts)}."


def _ends(found: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of the smallest and of the largest n_k; one if they are the same."""
    rows = found.sort_values("n_k").to_dict("records")
    kept = rows[:1] if len(rows) == 1 else [rows[0], rows[-1]]
    return [{str(name): value for name, value in row.items()} for row in kept]


def fails(run: RunTables) -> str:
    """Say where 1/√d_k fails for a match, and 8/d_k holds, at the fewest and at the most keys."""
    table = run.table("limits")
    laws = [found for _, found in table.groupby("inputs", sort=True)]
    known = [row for found in laws for row in _ends(found) if row["root_fails"] < float("inf")]
    if not known:
        raise MissingError("1/√d_k does not fail for any match of the run")
    texts = [
        f"{math.ceil(row['root_fails'])} with {words.with_name(row['inputs'], words.INPUTS)} among "
        f"{row['n_k']} keys"
        + (
            f" (8/d_k keeps more than half from d_k = {math.ceil(row['inverse_holds'])} on; it "
            f"leaves the match a weight of {format_number(row['inverse_match'])} at d_k = {FAR})"
            if row["inverse_holds"] <= row["root_fails"]
            else ""
        )
        for row in known
    ]
    return (
        "Exactly, the mean entropy with 1/√d_k falls below half of its maximum at d_k = "
        f"{'; '.join(texts)}."
    )


ASKED = (
    Asked(
        200,
        "exponent",
        "Why the square root, and not another power?",
        "Because the terms of a score of unrelated vectors add up like the steps of a random walk. "
        "Terms that agree, as in a match, add up like d_k itself, and want a power of 1 where the "
        "match has much of the weight. The more keys there are, the less it has and the more the "
        "unrelated keys decide, so that the power that keeps the entropy falls.",
        exponent,
        "claim-exponent_unrelated",
    ),
    Asked(
        201,
        "root-fails",
        "From which d_k on is √d_k not enough?",
        "For unrelated vectors it always is. With a match it depends on how related the two are, "
        "and on the number of keys.",
        fails,
        "claim-exponent_related",
    ),
)
