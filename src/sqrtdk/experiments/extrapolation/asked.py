"""Answer a question that people ask: whether the scale should grow with the length."""

import pandas as pd

from sqrtdk.experiments.story import Asked, RunTables
from sqrtdk.figures import words
from sqrtdk.stats.intervals import Estimate, MissingError
from sqrtdk.stats.series import scaled_rule
from sqrtdk.stats.wording import format_estimate


def longer(run: RunTables) -> str:
    """Say what weight on the match remains at the most keys, with each scale rule."""
    table = run.table("lengths")
    table = table[(table["d_k"] == table["d_k"].max()) & (table["multiplier"] == "fixed")]
    if table.empty:
        raise MissingError("the run has no rule with a fixed multiplier")
    most = table["n_asked"].max()
    table = table[table["n_asked"] == most].drop_duplicates("scaling").set_index("scaling")
    first = scaled_rule(run.settings["scaling"])
    names = sorted(table.index, key=lambda name: (name != first, table.loc[name, "scale"]))
    texts = [f"{words.rule(name)} {format_estimate(_weight(table, name))}" for name in names]
    return (
        f"Trained with {table['n_k'].iloc[0]} keys and asked at {most}, the weight on the match "
        f"is: {', '.join(texts)}."
    )


def _weight(table: pd.DataFrame, name: str) -> Estimate:
    return Estimate(*table.loc[name, ["match_weight", "match_weight_low", "match_weight_high"]])


ASKED = (
    Asked(
        213,
        "longer",
        "Which scale serves a context longer than in training?",
        "A head trained at one length disperses at longer ones, because the gap between the match "
        "and the rest stays while the rest grows in number. A factor that grows with ln n counters "
        "that.",
        longer,
        "claim-length_scale",
    ),
)
