"""Answer a question that people ask: whether the scale must grow with the length."""

import math

from sqrtdk.experiments.length.best import CLAIMED, SHARE, halves
from sqrtdk.experiments.length.claims import ceiling
from sqrtdk.experiments.story import Asked, RunTables, said
from sqrtdk.stats.intervals import Estimate, MissingError

WORDS = {
    "independent": "for unrelated keys",
    "planted": "for a match among them",
    "exponential": "for scores with exponential tails",
}
"""The laws of rows in words."""


def length(run: RunTables) -> str:
    """Say which power of log n keeps the selectivity of each law of rows, and how well."""
    table = run.table("best")
    table = table[table["criterion"] == SHARE]
    none, table = table[table["n_seeds"] == 0], table[table["mean"].notna()]
    if table.empty:
        raise MissingError("the run has no best power")
    sizes = sorted(run.settings["n_k"])
    rows = table.to_dict("records")
    texts = [
        f"{said(Estimate(row['mean'], row['ci_low'], row['ci_high']))} {WORDS[row['rows']]}"
        for row in rows
    ]
    without = "; none does so " + " or ".join(WORDS[x] for x in none["rows"]) if len(none) else ""
    drifts = [
        f"{row['exact_first']:.2f} and {row['exact_last']:.2f} {WORDS[row['rows']]}"
        for row in rows
        if not (math.isnan(row["exact_first"]) or math.isnan(row["exact_last"]))
    ]
    first, last = halves(sizes)
    moving = (
        f" One power does not hold at every length: the exact one from {first[0]} to {first[-1]} "
        f"keys and that from {last[0]} to {last[-1]} are {', '.join(drifts)}."
        if drifts and first != last
        else ""
    )
    (column,) = (name for name, power in CLAIMED.items() if power == 1.0)
    moves = ", ".join(f"{100 * row[column]:.3g} % {WORDS[row['rows']]}" for row in rows)
    planted = f" With a match, {ceiling(sizes)}." if "planted" in set(table["rows"]) else ""
    return (
        f"From {sizes[0]} to {sizes[-1]} keys the power of log n under which the selectivity has "
        f"no slope is {', '.join(texts)}{without}.{moving} Under log n itself the exact "
        f"selectivity moves by {moves}.{planted}"
    )


ASKED = (
    Asked(
        202,
        "log-n",
        "Should the scale grow with the number of keys?",
        "1/√d_k keeps the spread of the logits, not their largest value against all others: with "
        "more keys the same spread selects less. How fast a factor should grow depends on the tail "
        "of the scores.",
        length,
        "claim-length_log",
    ),
)
