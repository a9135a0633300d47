"""Judge the claims about length from lengths.csv."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from sqrtdk.claims.claim import Claim
from sqrtdk.claims.findings import SELECTS, Finding
from sqrtdk.core import scale_rules
from sqrtdk.experiments.extrapolation.measure import counts_gaps
from sqrtdk.schema import Entry, Settings
from sqrtdk.stats.decisions import all_known, beyond
from sqrtdk.stats.intervals import MissingError
from sqrtdk.stats.seed_columns import estimate_of
from sqrtdk.stats.series import WholeTable, scaled_rule
from sqrtdk.stats.wording import format_estimate, format_number

MIN_FACTOR = 64
"""The factor of the length beyond training that a verdict needs."""

CHOSEN = "Each at the learning rate of the least loss at n_k keys on the other half of the seeds."


def _end(whole: WholeTable) -> Mapping[Any, Any]:
    """Return the row of the most keys. Raises MissingError if it is too few."""
    table = whole.table
    row: Mapping[Any, Any] = table[table["n_asked"] == table["n_asked"].max()].to_dict("records")[0]
    if row["n_asked"] < MIN_FACTOR * row["n_k"]:
        raise MissingError(
            f"trained with {row['n_k']} keys and asked at {row['n_asked']} at most; more may differ"
        )
    return row


def _edge(row: Mapping[Any, Any]) -> str:
    at_edge = row["edge"] not in ("", "only")
    return "the best learning rate is at the edge of the grid" if at_edge else ""


def disperses(whole: WholeTable) -> Finding:
    """Judge whether the weight on the match falls to less than half beyond the trained length."""
    row = _end(whole)
    kept, weight = estimate_of(row, "kept"), estimate_of(row, "match_weight")
    best = format_number(row["best_match_weight"])
    holds = beyond(kept, SELECTS, above=False)
    verb = {True: "disperses", False: "does not disperse", None: "may disperse"}[holds]
    return Finding(
        holds,
        f"weight on the match {format_estimate(weight)} at {row['n_asked']} keys, "
        f"{format_estimate(kept)} times that at {row['n_k']}; best possible {best}",
        f"With 1/√d_k and a {row['multiplier']} multiplier, a head trained at {row['n_k']} keys "
        f"{verb}: asked at {row['n_asked']}, its weight on the match is "
        f"{format_estimate(weight)}, {format_estimate(kept)} times that at {row['n_k']} keys. "
        f"The best possible weights have {best} there.",
        f"weight on the match at {row['n_asked']} keys over that at {row['n_k']}",
        kept,
        abs(kept.mean - SELECTS),
        _edge(row),
    )


def keeps(whole: WholeTable) -> Finding:
    """Judge whether a growing rule keeps the match, with less loss than 1/√d_k."""
    row = _end(whole)
    weight, ratio = estimate_of(row, "match_weight"), estimate_of(row, "loss_ratio")
    holds = all_known((beyond(weight, SELECTS, above=True), beyond(ratio, 1.0, above=False)))
    verb = {True: "keeps", False: "does not keep", None: "may keep"}[holds]
    loss = estimate_of(row, "held_out_loss")
    return Finding(
        holds,
        f"weight on the match {format_estimate(weight)} at {row['n_asked']} keys, loss "
        f"{format_estimate(loss)}, {format_estimate(ratio)} times that of 1/√d_k with a "
        f"{row['multiplier']} multiplier",
        f"A scale that grows with the number of keys, with a {row['multiplier']} multiplier, "
        f"{verb} the match: asked at {row['n_asked']} keys after {row['n_k']}, its weight is "
        f"{format_estimate(weight)}, and the loss {format_estimate(ratio)} times that with 1/√d_k "
        "and such a multiplier.",
        f"weight on the match at {row['n_asked']} keys",
        weight,
        min(abs(weight.mean - SELECTS), abs(ratio.mean - 1.0)),
        _edge(row),
    )


def _scaled(settings: Settings, table: pd.DataFrame) -> list[WholeTable]:
    name = scaled_rule(settings["scaling"])
    return _parts(table[table["scaling"] == name], settings, labels=[])


def _growing(settings: Settings, table: pd.DataFrame) -> list[WholeTable]:
    grows = [other for other, entry in settings["scaling"].items() if _grows(entry)]
    rows = table[table["scaling"].isin(grows) & (table["scale"].notna())]
    return _parts(rows, settings, labels=["scaling", "multiplier"])


def _grows(entry: Entry) -> bool:
    """Return whether a rule grows with the number of keys."""
    if counts_gaps(entry):
        return True
    few, many = (scale_rules.factor(entry, d_k=64, n_k=n_k) for n_k in (16, 4096))
    return few is not None and many is not None and many > few


def _parts(table: pd.DataFrame, settings: Settings, labels: list[str]) -> list[WholeTable]:
    axes = ["d_k", "n_k", "batch_size", "scaling", "multiplier"]
    varying = [axis for axis in axes if axis in labels or len(set(table[axis])) > 1]
    return [
        WholeTable(
            rows,
            ", ".join(f"{axis} = {rows[axis].iloc[0]}" for axis in varying),
            settings=settings,
        )
        for _, rows in table.groupby(axes, sort=True)
    ]


CLAIMS = (
    Claim(
        "dispersion",
        "With 1/√d_k, a head disperses when it is asked at more keys than in training.",
        "Judged for a fixed and for a learned multiplier of the scale. The ratio is the typical "
        "one over seeds (Hodges-Lehmann) of the weight on the match at "
        "the most keys asked to that at the number of keys of training. True if the whole interval "
        f"is below {SELECTS}, false if it is above. {CHOSEN} Not measured if the most keys are "
        f"fewer than {MIN_FACTOR} times those of training.",
        "extrapolation-match",
        disperses,
        source="ours",
        evidence=_scaled,
        table="lengths",
    ),
    Claim(
        "length_scale",
        "A scale that grows with the number of keys keeps the match beyond the trained length.",
        "True for a rule if, at the most keys asked, the whole interval of the mean weight on the "
        f"match is above {SELECTS}, and that of the typical ratio (Hodges-Lehmann) of its loss to "
        "that of 1/√d_k with the same multiplier, fixed or learned, is below 1; false if one "
        "of both is surely otherwise. "
        f"{CHOSEN} Not measured if the most keys are fewer than {MIN_FACTOR} times those of "
        "training.",
        "extrapolation-match",
        keeps,
        source="ours",
        evidence=_growing,
        table="lengths",
    ),
)
