"""Answer a question that people ask: why the root, and not another power."""

from sqrtdk.experiments.exponent.best import has_match
from sqrtdk.experiments.story import Asked, RunTables, said
from sqrtdk.stats.intervals import Estimate, MissingError


def exponent(run: RunTables) -> str:
    """Say which exponent is best for each input law."""
    table = run.table("best")
    table = table[(table["n_k"] == table["n_k"].max()) & (table["criterion"] == "entropy")]
    table = table[table["mean"].notna()]
    texts = []
    for row in table.to_dict("records"):
        entry = run.settings["inputs"][row["inputs"]]
        name = "unrelated vectors" if not has_match(entry) else f"a match ({row['inputs']})"
        texts.append(f"{said(Estimate(row['mean'], row['ci_low'], row['ci_high']))} for {name}")
    if not texts:
        raise MissingError("the run has no best exponent")
    return f"The power that keeps the entropy over d_k is {', '.join(texts)}."


def fails(run: RunTables) -> str:
    """Say where 1/√d_k fails for a match, and 8/d_k holds."""
    table = run.table("limits")
    table = table[table["n_k"] == table["n_k"].max()]
    known = [row for row in table.to_dict("records") if row["root_fails"] < float("inf")]
    if not known:
        raise MissingError("1/√d_k does not fail for any match of the run")
    texts = [
        f"{row['root_fails']:.0f} with {row['inputs']} matches"
        + (
            f" (8/d_k keeps more than half from d_k = {row['inverse_holds']:.0f} on)"
            if row["inverse_holds"] <= row["root_fails"]
            else ""
        )
        for row in known
    ]
    return (
        "Exactly, the mean entropy with 1/√d_k falls below half of its maximum at d_k = "
        f"{'; '.join(texts)}."
    )


ASKED = (
    Asked(
        200,
        "exponent",
        "Why the square root, and not another power?",
        "Because the terms of a score of unrelated vectors add up like the steps of a random walk. "
        "Terms that agree, as in a match, add up like d_k itself, and want a power of 1.",
        exponent,
        "claim-exponent_unrelated",
    ),
    Asked(
        201,
        "root-fails",
        "From which d_k on is √d_k not enough?",
        "For unrelated vectors it always is. With a match it depends on how related the two are.",
        fails,
        "claim-exponent_related",
    ),
)
