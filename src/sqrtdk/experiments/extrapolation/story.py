"""Tell in a sentence what happens beyond the trained length."""

import pandas as pd

from sqrtdk.experiments.extrapolation.measure import MULTIPLIER
from sqrtdk.experiments.story import Lead, RunTables, said
from sqrtdk.stats.intervals import MissingError
from sqrtdk.stats.seed_columns import estimate_of
from sqrtdk.stats.series import scaled_rule
from sqrtdk.stats.wording import format_number


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
    """Say what weight the match keeps at the most keys without and with ln n, and the loss."""
    arms = at_most_keys(run)
    if "fixed" not in arms:
        raise MissingError("the run has no rule with a fixed multiplier")
    scaled = scaled_rule(run.settings["scaling"])

    def number(kind: str, name: str | None, metric: str = "match_weight") -> str:
        if name not in arms[kind].index:
            raise MissingError(f"the run has no rule {name} with a {kind} multiplier")
        return said(estimate_of(arms[kind].loc[[name]].iloc[0], metric))

    row = arms["fixed"].iloc[0]
    text = (
        "**Beyond the trained length a fixed scale disperses, and a learned one does so less.** A "
        f"head trained with {row['n_k']} keys and asked at {row['n_asked']} keeps a weight of "
        f"{number('fixed', scaled)} on the match with √d_k. With 0.43 ln\N{NO-BREAK SPACE}n "
        f"(SSMax) it keeps {number('fixed', 'ssmax')}, at "
        f"{number('fixed', 'ssmax', 'loss_ratio')} times the loss."
    )
    if "learned" in arms:
        text += (
            f" If a multiplier of the scale is learned too, the weights are "
            f"{number('learned', scaled)} and {number('learned', 'ssmax')}, at "
            f"{number('learned', 'ssmax', 'loss_ratio')} times the loss: a factor that grows makes "
            "up for a scale that training left too small. The factor of the best possible weights "
            f"does not grow; they have {format_number(row['best_match_weight'])}."
        )
    return text


LEAD = (Lead(72, lead_length),)
