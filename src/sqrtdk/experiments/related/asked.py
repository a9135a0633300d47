"""Answer questions that people ask, as far as related vectors and other rules answer them."""

from sqrtdk.experiments.related.story import INPUTS
from sqrtdk.experiments.story import Asked, RunTables, said
from sqrtdk.stats.curves import last
from sqrtdk.stats.intervals import Estimate, MissingError
from sqrtdk.stats.series import Series


def _rule(run: RunTables, series: Series, formula: str, metric: str) -> dict[int, Estimate]:
    """Return a metric of the first scale rule with a formula. Raises MissingError."""
    for name, entry in run.settings["scaling"].items():
        if entry.get("rule") == formula and (name, metric) in series.curves:
            return series.curves[name, metric]
    raise MissingError(f"the run has no scale rule with the formula {formula}")


def _parameter(run: RunTables, formula: str, name: str) -> float:
    """Return a parameter of the first scale rule with a formula."""
    entries = run.settings["scaling"].values()
    return float(next(entry[name] for entry in entries if entry["rule"] == formula) or 0)


def cosine(run: RunTables) -> str:
    """Say what QK-norm does to a match."""
    one = run.main(INPUTS)
    d_k, normed = last(_rule(run, one, "qk_norm", "match_weight"))
    scaled = one.curve("scaled", "match_weight")[d_k]
    scale = _parameter(run, "qk_norm", "scale")
    return (
        f"With a match of cosine 0.5 at d_k = {d_k}, cosine similarity times {scale:g} "
        f"gives the match {said(normed)} of the weight, √d_k {said(scaled)}."
    )


def d_model(run: RunTables) -> str:
    """Say what dividing by the root of d_model does."""
    one = run.main()
    wrong = _rule(run, one, "d_model", "effective_keys")
    d_k = min(wrong, key=lambda x: abs(x - 64))
    right = one.curve("scaled", "effective_keys")[d_k]
    heads = _parameter(run, "d_model", "heads")
    spread = _rule(run, one, "d_model", "logit_std")[d_k]
    return (
        f"With {heads:g} heads of d_k = {d_k}, √d_model leaves a spread of {said(spread)} "
        f"instead of 1, and {said(wrong[d_k])} of {one.n_k} keys in use instead of {said(right)}."
    )


def mup(run: RunTables) -> str:
    """Say what dividing by d_k does for matching vectors."""
    one = run.main(INPUTS)
    scaled = one.curve("scaled", "match_weight")
    calibrated = one.curve("inverse_64", "match_weight")
    first, (end, _) = min(scaled), last(scaled)
    return (
        f"With a match, the weight of the match goes from {said(scaled[first])} at d_k = {first} "
        f"to {said(scaled[end])} at {end} with √d_k; with 8/d_k, which is the same at 64, from "
        f"{said(calibrated[first])} to {said(calibrated[end])}."
    )


ASKED = (
    Asked(
        30,
        "cosine",
        "Why not cosine similarity?",
        "It bounds a score by 1, whatever d_k is, so it needs a factor of its own: too small and "
        "no key can stand out, however well it matches. QK-norm is that, with the factor fixed or "
        "learned.",
        cosine,
        "limit",
    ),
    Asked(
        40,
        "d-model",
        "d_model or the d_k of a head?",
        "The d_k of a head: that is how many products a score adds up. d_model is larger by the "
        "number of heads, so that √d_model divides by too much.",
        d_model,
        "why",
    ),
    Asked(
        90,
        "mup",
        "Why does muP divide by d_k?",
        "Because trained queries and keys are related, so that scores grow like d_k and not like "
        "√d_k. muP wants scores that do not change with the width after training.",
        mup,
        "limit",
    ),
)
