"""Answer a question that people ask: whether the scale must grow with the length."""

import math

import pandas as pd

from sqrtdk.experiments.length.best import CLAIMED, MOST, SHARE, halves
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
    every = run.table("best")
    table = every[every["criterion"] == SHARE]
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
    planted = ""
    if "planted" in set(table["rows"]):
        raw = every[(every["criterion"] == "selectivity") & (every["rows"] == "planted")]
        planted = f" With a match, {ceiling(sizes)}.{raw_weight(raw.iloc[0])}"
    return (
        f"From {sizes[0]} to {sizes[-1]} keys the power of log n under which the selectivity has "
        f"no slope is {', '.join(texts)}{without}.{moving} Under log n itself the exact "
        f"selectivity moves by {moves}.{planted}"
    )


def raw_weight(row: pd.Series) -> str:
    """Say which power keeps the weight of a match itself, of which verdicts judge a share."""
    if row["n_seeds"] == 0:
        found = f"no power from 0 to {MOST:g} keeps"
    elif row["n_without"] > 0:
        found = f"in {row['n_without']} of {row['n_seeds'] + row['n_without']} seeds no power keeps"
    else:
        power = said(Estimate(row["mean"], row["ci_low"], row["ci_high"]))
        found = f"the power {power} keeps"
    return (
        f" The weight itself is not what the verdicts judge: {found} it, because the most that can "
        "be had falls with the number of keys."
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
