"""Answer a question that people ask: whether the scale must grow with the length."""

from sqrtdk.experiments.story import Asked, RunTables, said
from sqrtdk.stats.intervals import Estimate, MissingError


def length(run: RunTables) -> str:
    """Say which power of log n keeps the selectivity of each law of rows."""
    table = run.table("best")
    none = table[(table["criterion"] == "selectivity") & (table["n_seeds"] == 0)]
    table = table[(table["criterion"] == "selectivity") & table["mean"].notna()]
    words = {
        "independent": "for unrelated keys",
        "planted": "for a match among them",
        "exponential": "for scores with exponential tails",
    }
    texts = [
        f"{said(Estimate(row['mean'], row['ci_low'], row['ci_high']))} {words[row['rows']]}"
        for row in table.to_dict("records")
    ]
    if not texts:
        raise MissingError("the run has no best power")
    sizes = run.settings["n_k"]
    without = "; none does so " + " or ".join(words[x] for x in none["rows"]) if len(none) else ""
    return (
        f"From {min(sizes)} to {max(sizes)} keys the power of log n that keeps the selectivity is "
        f"{', '.join(texts)}{without}."
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
