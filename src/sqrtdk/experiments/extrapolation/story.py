"""Tell in a sentence what happens beyond the trained length."""

import pandas as pd

from sqrtdk.experiments.extrapolation.measure import MULTIPLIER
from sqrtdk.experiments.story import Lead, RunTables, said
from sqrtdk.stats.intervals import MissingError
from sqrtdk.stats.seed_columns import estimate_of
from sqrtdk.stats.series import scaled_rule


def at_most_keys(run: RunTables) -> dict[str, pd.DataFrame]:
    """Return the rows of the largest d_k and the most keys asked, by multiplier and scale rule.

    Raises MissingError if the run has none.
    """
    table = run.table("lengths")
    table = table[table["d_k"] == table["d_k"].max()]
    table = table[table["n_asked"] == table["n_asked"].max()]
    arms = {
        kind: table[table["multiplier"] == kind].drop_duplicates("scaling").set_index("scaling")
        for kind in MULTIPLIER.choices
        if kind in set(table["multiplier"])
    }
    if not arms:
        raise MissingError("the run has no head that was asked")
    return arms


def lead_length(run: RunTables) -> str:
    """Say what weight on the match remains at the most keys, without and with ln n."""
    arms = at_most_keys(run)
    if "fixed" not in arms:
        raise MissingError("the run has no rule with a fixed multiplier")
    scaled = scaled_rule(run.settings["scaling"])

    def weight(kind: str, name: str | None) -> str:
        if name not in arms[kind].index:
            raise MissingError(f"the run has no rule {name} with a {kind} multiplier")
        return said(estimate_of(arms[kind].loc[[name]].iloc[0], "match_weight"))

    row = arms["fixed"].iloc[0]
    text = (
        f"**Beyond the trained length a fixed scale should grow.** A head trained with "
        f"{row['n_k']} keys and asked at {row['n_asked']} keeps a weight of "
        f"{weight('fixed', scaled)} on the match with √d_k, and of {weight('fixed', 'ssmax')} with "
        "a factor that grows with ln\N{NO-BREAK SPACE}n."
    )
    if "learned" in arms:
        text += (
            f" With a learned multiplier it is {weight('learned', scaled)} and "
            f"{weight('learned', 'ssmax')}."
        )
    return text


LEAD = (Lead(72, lead_length),)
