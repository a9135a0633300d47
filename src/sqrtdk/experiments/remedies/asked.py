"""Answer questions that people ask: remedies for large scores, and learning rates."""

import math

from sqrtdk.experiments.story import Asked, RunTables
from sqrtdk.stats.intervals import Estimate, MissingError
from sqrtdk.stats.wording import format_number

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


def replaced(run: RunTables) -> str:
    """Say how long training takes with each remedy at the largest d_k."""
    table = run.table("ladder")
    d_k = table["d_k"].max()
    table = table[table["d_k"] == d_k].drop_duplicates("remedy").set_index("remedy")
    texts = []
    for name, words in SHOWN.items():
        if name not in table.index:
            continue
        steps = float(table.loc[name, "crossfit_steps"])
        budget = int(table.loc[name, "steps"])
        shown = f"{steps:.0f}" if math.isfinite(steps) else f"more than {budget}"
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
    found = {
        words: Estimate(float(table.loc[name, "sensitivity"])).mean
        for name, words in (("off", "without a scale"), ("on", "with 1/√d_k"),
                            ("qk_norm_8", "with QK-norm"))
        if name in table.index
    }  # fmt: skip
    if not found:
        raise MissingError("the run has none of off, on and qk_norm_8")
    texts = [f"{format_number(value, 2)} {words}" for words, value in found.items()]
    return (
        f"At d_k = {d_k} the expected loss above that of the best rate, over all rates of the "
        f"grid, is {', '.join(texts)}."
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
)
