"""Answer why the scores are divided by √d_k."""

from collections.abc import Mapping, Sequence

import pandas as pd

from sqrtdk.claims.question import Question
from sqrtdk.experiments.scaling import claims
from sqrtdk.experiments.scaling.measure import top_rows, top_rows_in_words
from sqrtdk.schema import Settings
from sqrtdk.stats.curves import last
from sqrtdk.stats.decisions import beyond
from sqrtdk.stats.intervals import MissingError
from sqrtdk.stats.series import Series, series_of
from sqrtdk.stats.wording import format_estimate, format_percent


def why_divide(series: Sequence[Series]) -> str:
    """Say why the scores are divided by √d_k: the chain of causes, at one combination of sizes."""
    unrelated = [one for one in series if one.unrelated]
    if not unrelated:
        raise MissingError("the run has no unrelated vectors")
    one = unrelated[len(unrelated) // 2]
    grow, full, typical, kept = (
        judge(one)
        for judge in (
            claims.scores_grow,
            claims.saturation,
            claims.gradients_typical,
            claims.stable,
        )
    )
    share = "grad_logits_top1_share"
    (d_k, top), (_, with_scaling) = (
        last(one.curve(kind, share)) for kind in ("unscaled", "scaled")
    )
    rows = top_rows_in_words(one.axes["n_q"])
    verb = "holds" if top_rows(one.axes["n_q"]) == 1 else "hold"
    few = beyond(last(one.ratio(share))[1], 1.0, above=True)
    return " ".join(
        (
            f"Without scaling the scores grow as d_k to the power {format_estimate(grow.value)}"
            f"{', so that the softmax saturates:' if full.holds else ';'} at d_k = {d_k}, "
            f"{format_percent(full.value)} of the largest possible entropy is left ({one.label}).",
            f"{'Most queries then get almost no gradient:' if typical.holds else 'Then'} at d_k = "
            f"{d_k}, {format_percent(typical.value)} of the entries of the gradient at the logits "
            f"are below 0.001/n_k, and {'few queries have the rest: ' if few else ''}on average "
            f"{rows} {verb} {format_percent(top)} of the squared gradient, with scaling "
            f"{format_percent(with_scaling)}.",
            f"{'With √d_k the softmax hardly notices d_k:' if kept.holds else 'With 1/√d_k'} the "
            f"highest and the lowest entropy over d_k differ by {format_percent(kept.value)} of "
            "the highest.",
        )
    )


def _answer(settings: Settings, tables: Mapping[str, pd.DataFrame]) -> str:
    return why_divide(series_of(settings, tables["summary"], tables.get("contrasts")))


QUESTIONS = (
    Question(
        "Why are the scores divided by √d_k?",
        "scaling-entropy",
        ("summary", "contrasts"),
        _answer,
        place=2,
    ),
)
