"""Answer questions that people ask: remedies for large scores, learning rates and their limits."""

import math

from sqrtdk.experiments.story import Asked, RunTables
from sqrtdk.stats.intervals import Estimate, MissingError
from sqrtdk.stats.wording import format_estimate, format_number, format_percent

SHOWN = {
    "off": "without any",
    "adamw": "with AdamW",
    "warmup": "with warm-up",
    "clipping": "with clipping",
    "qk_clip": "with QK-clip",
    "soft_cap": "with a soft cap",
    "temperature": "with a learned temperature",
    "on": "with 1/√d_k",
    "qk_norm_8": "with QK-norm",
}
"""The remedies of the answers, in words."""

RULES = {"off": "without a scale", "on": "with 1/√d_k", "inverse_64": "with 8/d_k"}
"""The scales of the answers about rates, in words."""


def replaced(run: RunTables) -> str:
    """Say how long training takes with each remedy at the largest d_k."""
    table = run.table("ladder")
    d_k = table["d_k"].max()
    table = table[table["d_k"] == d_k].drop_duplicates("remedy").set_index("remedy")
    texts = []
    for name, words in SHOWN.items():
        if name not in table.index:
            continue
        row = table.loc[name]
        steps = Estimate(*(float(row[f"crossfit_{x}"]) for x in ("steps", "low", "high")))
        finite = math.isfinite(steps.mean)
        shown = format_estimate(steps) if finite else f"more than {int(row['steps'])}"
        texts.append(f"{shown} {words}")
    if not texts:
        raise MissingError("the run has no remedies")
    return (
        f"At d_k = {d_k} the steps to 90 % are, each at its best learning rate, {', '.join(texts)}."
    )


def sensitive(run: RunTables) -> str:
    """Say how sensitive to the learning rate training is with and without a scale."""
    table = run.table("ladder")
    d_k = table["d_k"].max()
    table = table[table["d_k"] == d_k].drop_duplicates("remedy").set_index("remedy")
    ends = ["sensitivity", "sensitivity_low", "sensitivity_high"]
    found = {
        words: Estimate(*(float(table.loc[name, x]) for x in ends))
        for name, words in (("off", "without a scale"), ("on", "with 1/√d_k"),
                            ("qk_norm_8", "with QK-norm"))
        if name in table.index
    }  # fmt: skip
    if not found:
        raise MissingError("the run has none of off, on and qk_norm_8")
    texts = [f"{format_estimate(value)} {words}" for words, value in found.items()]
    return (
        f"At d_k = {d_k} the expected loss above that of the best rate, over all rates of the "
        f"grid, is {', '.join(texts)}."
    )


def transferred(run: RunTables) -> str:
    """Say how the best learning rate changes with d_k under some scales."""
    table = run.table("transfer")
    texts = []
    for name, words in RULES.items():
        rows = table[table["remedy"] == name].sort_values("d_k")
        if rows.empty or rows["slope"].isna().any():
            continue
        ends = rows.iloc[[0, -1]].to_dict("records")
        first, last = (f"{format_number(row['best_rate'])} at {row['d_k']}" for row in ends)
        # Equal rates have a slope of rounding.
        slope = Estimate(*(round(ends[0][x], 9) for x in ("slope", "slope_low", "slope_high")))
        texts.append(f"{words} from {first} to {last}, a power of {format_estimate(slope)} of d_k")
    if not texts:
        raise MissingError("the run does not have several d_k and one of off, on and inverse_64")
    return f"Over d_k the best learning rate goes {'; '.join(texts)}."


def predicted(run: RunTables) -> str:
    """Say where training fails at the largest d_k, and where smaller ones predict that it does."""
    table = run.table("instability").drop_duplicates("remedy").to_dict("records")
    by = {row["remedy"]: row for row in table}
    limits, others = [], []
    for name, words in (SHOWN | RULES).items():
        if name not in by:
            continue
        row, seeds = by[name], by[name]["n_seeds"]
        if 2 * row["judged"] > seeds:
            limit, expected = (format_number(row[x]) for x in ("limit", "predicted_limit"))
            limits.append(f"{limit} {words} (predicted {expected})")
        elif row["agree_stable"] == seeds:
            others.append(f"none fails {words}, as predicted")
        elif 2 * row["missed"] > seeds:
            others.append(f"{words} only one of both limits is on the grid")
    if not limits and not others:
        raise MissingError("the run has no limits, which need three d_k and rates that fail")
    separated = Estimate(float(table[0]["separated"]))
    return (
        f"Training fails at d_k = {table[0]['d_k']} from these learning rates on: "
        f"{'; '.join([*limits, *others])}. The largest logit of smaller heads that separates "
        f"failed runs from others best is {format_number(table[0]['threshold'])}; "
        f"{format_percent(separated)} of the runs are on the right side of it."
    )


ASKED = (
    Asked(
        210,
        "remedies",
        "Do warm-up, clipping or QK-norm make √d_k unnecessary?",
        "Remedies of the optimizer do not: they leave the first softmax saturated. QK-norm does, "
        "because it divides by the norms of q and k, which already hold the √d_k.",
        replaced,
        "claim-replaces_qk_norm",
    ),
    Asked(
        211,
        "sensitivity",
        "Is a scaled head easier to tune?",
        "Yes: a mistake in the learning rate costs less where the logits cannot run away.",
        sensitive,
        "claim-rate_sensitivity",
    ),
    Asked(
        214,
        "transfer",
        "Does the best learning rate transfer to a larger d_k?",
        "That is what muP divides by d_k for: q and k that training has related have scores that "
        "grow like d_k, so that with 1/√d_k a large head needs a smaller rate than a small one.",
        transferred,
        "claim-rate_transfer",
    ),
    Asked(
        215,
        "prediction",
        "Can small models predict where a large one becomes unstable?",
        "Wortsman et al. (2023) predict it from the largest logit: at each learning rate it grows "
        "as a power of the size, and training fails where it crosses a level. A remedy that bounds "
        "the logits, or learns their scale, leaves that law.",
        predicted,
        "claim-instability",
    ),
)
