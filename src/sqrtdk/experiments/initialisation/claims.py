"""Judge the claims about attention that has not been trained."""

import numpy as np
import pandas as pd

from sqrtdk.claims import findings
from sqrtdk.claims.claim import Claim
from sqrtdk.claims.findings import Finding, join
from sqrtdk.stats.agreement import MAX_ABS_Z, MIN_TESTED_SEEDS, RMS_Z, normal_scores
from sqrtdk.stats.decisions import all_known, any_known, beyond, within
from sqrtdk.stats.intervals import Estimate, MissingError
from sqrtdk.stats.series import WholeTable, unscaled_rule
from sqrtdk.stats.wording import format_estimate, format_number

NEAR = 1.1
"""σ within this factor of 1 counts as near 1: 10 %, as for scores that stay in one range."""

SAME, OTHER = 0.05, 2.0
"""Relative difference of σ that counts as none, and the factor that counts as much."""

MIN_MEANS = 100
"""Means from which z is tested; its root mean square then varies by 0.07 if all is right."""

HALF = 0.5
"""Share of the entropy of equal weights below which a row counts as saturated."""


def _fresh(table: pd.DataFrame, *, norm: str = "layer_norm") -> pd.DataFrame:
    """Return the rows of unrelated tokens with this norm. Raises MissingError without them."""
    found = table[(table["norm"] == norm) & (table["cosine_percent"] == 0)]
    if found.empty:
        raise MissingError(f"the run has no unrelated tokens with norm = {norm}")
    return found[found["exact"].notna()]


def _at(row: pd.Series) -> Estimate:
    return Estimate(*(float(row[name]) for name in ("mean", "ci_low", "ci_high", "exact")))


def _entropy(row: pd.Series) -> Estimate:
    return Estimate(*(float(row[name]) for name in ("entropy", "entropy_low", "entropy_high")))


def agrees(whole: WholeTable) -> Finding:
    """Judge whether the measured σ deviate from the exact ones by sampling noise only."""
    table = whole.table
    # Scale rules and sizes of embeddings share draws, and most only multiply σ: z is the same.
    table = table[table["scaling"] == table["scaling"].min()]
    table = table[table["embedding_sd"] == table["embedding_sd"].max()]
    table = table[(table["n_seeds"] >= MIN_TESTED_SEEDS) & table["z"].notna()]
    if len(table) < MIN_MEANS:
        raise MissingError(
            f"the test needs {MIN_MEANS} independent means with at least {MIN_TESTED_SEEDS} seeds; "
            f"the run has {len(table)}"
        )
    z = normal_scores(table["z"].to_numpy(float), table["n_seeds"].to_numpy(float))
    rms, largest = float(np.sqrt(np.mean(z**2))), float(np.max(np.abs(z)))
    holds = RMS_Z[0] <= rms <= RMS_Z[1] and largest < MAX_ABS_Z
    relative = float((table["mean"] / table["exact"] - 1).abs().max())
    text = (
        f"{len(z)} independent means miss the exact σ by {rms:.2f} standard errors in root mean "
        f"square, where chance alone gives 1, and by {largest:.1f} at most; the largest relative "
        f"difference is {100 * relative:.1f} %"
    )
    verb = "gives" if holds else "does not give"
    return Finding(
        holds,
        text,
        f"The formula {verb} σ before training: {text}.",
        "root mean square of z",
        Estimate(rms),
        min(abs(rms - end) for end in RMS_Z),
    )


def near_one(whole: WholeTable) -> Finding:
    """Judge whether σ is within a factor `NEAR` of 1, with LayerNorm, at every size."""
    table = _fresh(whole.table)
    table = table[table["own_scale"] == 1]
    if table.empty:
        raise MissingError("the run lacks the scale that the initialisation is made for")
    points = [(row, _at(row)) for _, row in table.sort_values(["d_model", "d_k"]).iterrows()]
    states = [within(x, 1 / NEAR, NEAR) for _, x in points]
    holds = all_known(states)
    row, value = max(points, key=lambda point: abs(np.log(point[1].mean)))
    where = f"d_model = {row['d_model']} and d_k = {row['d_k']}"
    low, high = (f((x for _, x in points), key=lambda x: x.mean) for f in (min, max))
    text = f"σ from {format_estimate(low)} to {format_estimate(high)} over sizes"
    verb = "stays near" if holds else "does not stay near"
    return Finding(
        holds,
        text,
        f"With the scale that it is made for, σ {verb} 1 at the start: {text}.",
        f"σ at {where}",
        value,
        abs(np.log(NEAR) - abs(np.log(value.mean))),
    )


def saturated(whole: WholeTable) -> Finding:
    """Judge whether unscaled attention begins saturated at the largest d_k, at every d_model."""
    name = unscaled_rule(whole.settings["scaling"])
    table = _fresh(whole.table)
    table = table[(table["scaling"] == name) & table["entropy"].notna()]
    if table.empty:
        raise MissingError("the run has no scale rule that leaves the scores as they are")
    d_k = int(table["d_k"].max())
    table = table[table["d_k"] == d_k].sort_values("d_model")
    points = [(int(row["d_model"]), _entropy(row)) for _, row in table.iterrows()]
    states = [beyond(x, HALF, above=False) for _, x in points]
    holds = any_known(states)
    # Another embedding is the same start: LayerNorm removes its size.
    shown = "; ".join(f"{format_estimate(x)} at d_model = {d}" for d, x in dict(points).items())
    some = sorted({d for (d, _), state in zip(points, states, strict=True) if state})
    every = len(some) == len({d for d, _ in points})
    d_model, value = min(points, key=lambda point: point[1].mean)
    verb = "saturated" if holds else "not saturated"
    return Finding(
        holds,
        f"entropy over ln n_k without scaling at d_k = {d_k}: {shown}",
        f"Without scaling it is {verb} before the first step: at d_k = {d_k} the entropy over ln "
        f"n_k is {shown}.",
        f"entropy over ln n_k at d_model = {d_model}, d_k = {d_k}, without scaling",
        value,
        abs(value.mean - HALF),
        "" if every or not some else f"only at d_model = {' and '.join(map(str, some))}",
    )


def size_of_tokens(whole: WholeTable) -> Finding:
    """Judge whether σ depends on the size of the embeddings without LayerNorm, and not with it."""
    found = {}
    for norm in ("layer_norm", "none"):
        table = _fresh(whole.table, norm=norm)
        table = table[table["own_scale"] == 1]
        sds = sorted(set(table["embedding_sd"]))
        if len(sds) < 2:
            raise MissingError("the run has one size of embeddings; a comparison needs two")
        largest = table[(table["embedding_sd"] == sds[-1]) & table["size_ratio"].notna()]
        ratios = [
            Estimate(*row) for row in largest[["size_ratio", "size_low", "size_high"]].to_numpy()
        ]
        found[norm] = ratios
    states = [within(x, 1 / (1 + SAME), 1 + SAME) for x in found["layer_norm"]]
    states += [beyond(x, OTHER, above=True) for x in found["none"]]
    holds = all_known(states)
    worst = max(found["layer_norm"], key=lambda x: abs(np.log(x.mean)))
    other = found["none"][-1]
    text = (
        f"σ at the largest over σ at the smallest embeddings is {format_estimate(worst)} with "
        f"LayerNorm and {format_estimate(other)} without"
    )
    sizes = f"embeddings of standard deviation {format_number(sds[0])} to {format_number(sds[-1])}"
    return Finding(
        holds,
        text,
        f"LayerNorm {'makes' if holds else 'does not surely make'} the start independent of the "
        f"size of the embeddings: {text}.",
        "ratio of σ with LayerNorm",
        worst,
        SAME - abs(worst.mean - 1),
        join(f"for {sizes}"),
    )


CLAIMS = (
    Claim(
        "initial_sigma",
        "The spread of the logits before training is known exactly.",
        f"True if the root mean square of z is between {RMS_Z[0]} and {RMS_Z[1]} and the largest "
        f"|z| below {MAX_ABS_Z}; false otherwise. z is the deviation of the mean square of σ from "
        "its exact value in standard errors, converted from Student's t to the normal "
        f"distribution. Every combination of axes with at least {MIN_TESTED_SEEDS} seeds counts "
        "once, because scale rules and sizes of embeddings share draws. Not measured with fewer "
        f"than {MIN_MEANS} of them.",
        "initialisation-sigma",
        agrees,
        source="ours",
        evidence=lambda _, table: [WholeTable(table)],
        table="sigma",
    ),
    Claim(
        "initial_near_one",
        "With the scale that it is made for, an initialisation starts attention with logits of "
        "standard deviation near 1.",
        "Judged for each initialisation, with LayerNorm and unrelated tokens. True if σ is surely "
        f"within a factor of {NEAR:g} of 1 at every d_model and d_k, false if surely outside at "
        "one. The scale is 1/√d_k, and none for t5. The exact values, which the answer has beside, "
        "were known before.",
        "initialisation-sigma",
        near_one,
        source="ours",
        evidence=findings.parts("init"),
        table="sigma",
    ),
    Claim(
        "initial_saturation",
        "Without division by √d_k, attention is saturated before the first step of training.",
        "Judged for each initialisation, with LayerNorm and unrelated tokens, at the largest d_k. "
        f"True if the entropy over ln n_k is surely below {HALF} at some d_model, with a condition "
        "if not at every one; false if surely above at all of them.",
        "initialisation-sigma",
        saturated,
        source="ours",
        evidence=findings.parts("init"),
        table="sigma",
    ),
    Claim(
        "initial_layer_norm",
        "LayerNorm before attention makes the start independent of the size of the embeddings.",
        "Judged for each initialisation, with the scale that it is made for and unrelated tokens. "
        "True if, at every size, σ at the largest embeddings over σ at the smallest is surely "
        f"within {100 * SAME:.0f} % of 1 with LayerNorm and surely above {OTHER:g} without; false "
        "if one of these surely fails. With LayerNorm the ratio is 1 by construction, so that this "
        "part tests the code alone; what a run can show is the part without it.",
        "initialisation-sigma",
        size_of_tokens,
        source="ours",
        caveat="true by construction with LayerNorm; measured is what happens without it",
        evidence=findings.parts("init"),
        table="sigma",
    ),
)
