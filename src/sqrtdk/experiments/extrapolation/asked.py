"""Answer a question that people ask: whether the scale should grow with the length."""

import pandas as pd

from sqrtdk.experiments.extrapolation.story import at_most_keys
from sqrtdk.experiments.story import Asked, RunTables
from sqrtdk.figures import words
from sqrtdk.stats.seed_columns import estimate_of
from sqrtdk.stats.series import scaled_rule
from sqrtdk.stats.wording import format_estimate


def longer(run: RunTables) -> str:
    """Say what weight on the match remains at the most keys, with each rule and multiplier."""
    arms = at_most_keys(run)
    first = scaled_rule(run.settings["scaling"])
    texts = [f"with a {kind} multiplier {_weights(table, first)}" for kind, table in arms.items()]
    row = next(iter(arms.values())).iloc[0]
    return (
        f"Trained with {row['n_k']} keys and asked at {row['n_asked']}, the weight on the match "
        f"is, {'; '.join(texts)}."
    )


def _weights(table: pd.DataFrame, first: str | None) -> str:
    """Return the weight with each rule, that of 1/√d_k first."""
    names = sorted(table.index, key=lambda name: (name != first, table.loc[name, "scale"]))
    return ", ".join(
        f"{words.rule(name)} {format_estimate(estimate_of(table.loc[name], 'match_weight'))}"
        for name in names
    )


ASKED = (
    Asked(
        213,
        "longer",
        "Which scale serves a context longer than in training?",
        "A head with a fixed 1/√d_k disperses at more keys than it was trained with, because the "
        "gap between the match and the rest stays while the rest grows in number. A factor that "
        "grows with ln n counters that. With a multiplier that is learned there is less to "
        "counter.",
        longer,
        "claim-length_scale",
    ),
)
