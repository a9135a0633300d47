"""Judge the claims about trained models."""

from collections.abc import Sequence
from pathlib import PurePath

import pandas as pd

from sqrtdk.claims.claim import Claim
from sqrtdk.claims.findings import Finding
from sqrtdk.experiments.tensors.models import NEAR_1, NO_MODEL
from sqrtdk.schema import Settings
from sqrtdk.stats.decisions import beyond
from sqrtdk.stats.intervals import Estimate, MissingError
from sqrtdk.stats.series import WholeTable
from sqrtdk.stats.wording import format_estimate, format_number, format_percent

MOST = 0.9
"""Share of the heads that must have a σ near 1, for "1/√d_k gives σ = 1"."""

LOST = {"share": 0.1, "loss": 0.1}
"""Loss without its scale from which a model needs it: a tenth of the things, or 0.1 nats."""

SCALED = "on"


def sigma_is_1(whole: WholeTable) -> Finding:
    """Judge whether nearly all heads of one file have σ near 1 with 1/√d_k."""
    found = {row["metric"]: row for row in whole.table.to_dict("records")}
    near, sigma, alignment = (found.get(x) for x in ("near_1", "logit_std", "alignment"))
    if near is None or sigma is None:
        raise MissingError(f"the run lacks scaling = {SCALED}, or rows that see two keys")
    share = Estimate(near["mean"], near["ci_low"], near["ci_high"])
    spread = (
        f"σ from {format_number(sigma['minimum'])} to {format_number(sigma['maximum'])}, median "
        f"{format_number(sigma['median'])}, over {int(sigma['heads'])} heads"
    )
    holds = beyond(share, MOST, above=True)
    directions = "" if alignment is None else (
        f" Directions alone account for a factor of {format_number(alignment['median'])} "
        "(median), the lengths of the vectors for the rest."
    )  # fmt: skip
    return Finding(
        holds,
        f"{spread}; {format_percent(share)} of them near 1",
        f"With 1/√d_k the heads have {spread}; {format_percent(share)} of them are between "
        f"{NEAR_1[0]} and {NEAR_1[1]}.{directions}",
        f"share of heads with σ between {NEAR_1[0]} and {NEAR_1[1]}",
        share,
        abs(share.mean - MOST),
    )


def needs_scale(whole: WholeTable) -> Finding:
    """Judge whether one model surely loses a tenth of what it does, or 0.1 nats, without scale."""
    rows = whole.table.to_dict("records")
    without = min(rows, key=lambda row: abs(row["factor"] ** 2 - row["d_k"]))
    kind, level = without["kind"], LOST[without["kind"]]
    worse = Estimate(without["worse"], without["ci_low"], without["ci_high"])
    if kind == "loss":
        own = next(row["value"] for row in rows if row["factor"] == 1)
        said = (
            f"{format_number(without['value'])} {without['task']} without a scale and "
            f"{format_number(own)} with its own, {format_estimate(worse, ' nats')} more"
        )
    else:
        said = f"{format_percent(worse)} of the {without['task']} are lost without a scale"
    return Finding(
        beyond(worse, level, above=True),
        said,
        f"{whole.label}: {said}.",
        "nats added without a scale" if kind == "loss" else "share lost without a scale",
        worse,
        abs(worse.mean - level),
    )


def _by_file(settings: Settings, table: pd.DataFrame) -> Sequence[WholeTable]:
    mine = table[(table["scaling"] == SCALED) & (table["path"] != "")]
    return [WholeTable(found, PurePath(str(path)).name) for path, found in mine.groupby("path")]


def _by_model(settings: Settings, table: pd.DataFrame) -> Sequence[WholeTable]:
    return [WholeTable(found, str(model)) for model, found in table.groupby("model", sort=False)]


TRAINED_WITH = "a model was trained with its own scale, and would have learned other lengths of "
TRAINED_WITH += "q and k with another"

CLAIMS = (
    Claim(
        "trained_sigma",
        "Trained queries and keys are unrelated, so 1/√d_k gives σ = 1.",
        f"For each file: true if surely more than {100 * MOST:.0f} % of its heads have a σ between "
        f"{NEAR_1[0]} and {NEAR_1[1]} with 1/√d_k, false if surely fewer. Heads count as "
        "independent, with an exact binomial interval. σ is the standard deviation of the logits "
        "across the keys that a query sees. It is about trained models only: each learned the "
        "lengths of its queries and keys with its own scale.",
        "tensors-sigma",
        sigma_is_1,
        source="ours",
        table="models",
        evidence=_by_file,
        caveat=TRAINED_WITH,
    ),
    Claim(
        "model_needs_scale",
        "A trained model needs its scale.",
        "For each model: true if without a scale it surely loses more than a tenth of what it got "
        "right with its own (exact binomial interval), or more than 0.1 nats per token (paired "
        "t-interval); false if surely less. Measured once on four models, not by this run, and "
        "judged for those of them that a file of the run is, by its name and d_k; docs/models.md "
        "has the texts and commands.",
        "tensors-rescaled",
        needs_scale,
        source="ours",
        table="rescaled",
        evidence=_by_model,
        lacking=NO_MODEL,
        caveat=f"it says what the model is adapted to: {TRAINED_WITH}",
    ),
)
