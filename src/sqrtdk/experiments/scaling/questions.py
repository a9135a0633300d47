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

FAR_LESS = 0.1
"""Share of the gradient with scaling below which there is far less without."""


def why_divide(series: Sequence[Series]) -> str:
    """Say why the scores are divided by √d_k: the chain of causes, at one combination of sizes."""
    unrelated = [one for one in series if one.unrelated]
    if not unrelated:
        raise MissingError("the run has no unrelated vectors")
    one = unrelated[len(unrelated) // 2]
    grow, full, kept = (
        judge(one) for judge in (claims.scores_grow, claims.saturation, claims.stable)
    )
    # Not the entries near zero: a one-hot row has many, whatever its norm.
    _, median = last(one.ratio("grad_logits_median"))
    less = beyond(median, FAR_LESS, above=False)
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
            f"{'The typical query then gets far less gradient:' if less else 'Then'} at d_k = "
            f"{d_k}, the median norm of a query's gradient at the logits is "
            f"{format_estimate(median)} times that with scaling, and "
            f"{'few queries have the rest: ' if few else ''}on average {rows} {verb} "
            f"{format_percent(top)} of the squared gradient, with scaling "
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
