"""Answer the chapter's concept check from the measurements of a run.

Sentences are fixed and every number in them comes from a table of the run. A conclusion is drawn
only if the numbers support it, with the same limits as in the claims. If a run lacks the tables of
a question, the answer says so.
"""

from collections.abc import Sequence

import pandas as pd

from sqrtdk.claims import readings
from sqrtdk.experiments.reach import claims as reach_claims
from sqrtdk.experiments.scaling import claims as scaling_claims
from sqrtdk.experiments.scaling.measure import top_rows, top_rows_in_words
from sqrtdk.schema import Column
from sqrtdk.stats.curves import last
from sqrtdk.stats.decisions import beyond
from sqrtdk.stats.intervals import MissingError
from sqrtdk.stats.series import Series
from sqrtdk.stats.wording import estimate, percent

COLUMNS = (
    Column("question", "A question of the chapter's concept check.", read=str, axis=True),
    Column("answer", "The answer, with numbers of this run.", read=str),
    Column("figure", "Figure that shows it: a file of figures/, without its ending.", read=str),
)


def stand_for(series: Sequence[Series]) -> str:
    """Say what query, key and value represent, with a query that has a match among the keys."""
    matched = next((one for one in series if one.axes["inputs"] == "planted"), None)
    alike = [one for one in series if one.unrelated and matched and one.n_k == matched.n_k]
    if matched is None or not alike:
        raise MissingError("the run has no planted match beside unrelated vectors")
    found, chance = (one.curve("scaled", "max_weight") for one in (matched, alike[0]))
    common = found.keys() & chance.keys()
    if not common:
        raise MissingError("the planted match and the unrelated vectors have no d_k in common")
    d_k = max(common)
    text = (
        "A query says what is looked for, a key what a position offers, and a value what is "
        "handed over; the weight is how well query and key match. Measured with 1/√d_k at "
        f"d_k = {d_k}, among {matched.n_k} keys: a query without a match gives its best key the "
        f"weight {estimate(chance[d_k])}; a query with one planted match gives "
        f"{estimate(found[d_k])}."
    )
    nearly = beyond(found[d_k], readings.ONE_HOT, above=True)
    return text + (" The output is then nearly that key's value." if nearly else "")


def why_divide(series: Sequence[Series]) -> str:
    """Say why the scores are divided by √d_k: the chain of causes, at one combination of sizes."""
    unrelated = [one for one in series if one.unrelated]
    if not unrelated:
        raise MissingError("the run has no unrelated vectors")
    one = unrelated[len(unrelated) // 2]
    grow, full, typical, kept = (
        judge(one)
        for judge in (
            scaling_claims.scores_grow,
            scaling_claims.saturation,
            scaling_claims.gradients_typical,
            scaling_claims.stable,
        )
    )
    share = "grad_logits_top1_share"
    (d_k, top), (_, with_scaling) = (last(one.curve(arm, share)) for arm in ("unscaled", "scaled"))
    rows = top_rows_in_words(one.axes["n_q"])
    verb = "holds" if top_rows(one.axes["n_q"]) == 1 else "hold"
    few = beyond(last(one.ratio(share))[1], 1.0, above=True)
    return " ".join(
        (
            f"Without scaling the scores grow as d_k to the power {estimate(grow.value)}"
            f"{', so that the softmax saturates:' if full.holds else ';'} at d_k = {d_k}, "
            f"{percent(full.value)} of the largest possible entropy is left ({one.label}).",
            f"{'Most queries then get almost no gradient:' if typical.holds else 'Then'} "
            f"at d_k = {d_k}, {percent(typical.value)} of the entries of the gradient at the "
            f"logits are below 0.001/n_k, and {'few queries have the rest: ' if few else ''}"
            f"on average {rows} {verb} {percent(top)} of the squared gradient, with scaling "
            f"{percent(with_scaling)}.",
            f"{'With √d_k the softmax hardly notices d_k:' if kept.holds else 'With 1/√d_k'} "
            f"the highest and the lowest entropy over d_k differ by {percent(kept.value)} of the "
            "highest.",
        )
    )


PATH = (
    "Between any two positions there is one step. An output is the average of the values by their "
    "weights, so that the gradient which reaches a value is its weight times that of the output, "
    "at every distance; queries and keys get theirs through the softmax. Nothing in the formula "
    "knows where a position is, so the order of positions is lost, unless the inputs carry it."
)
"""What the formula of attention implies for distances, without numbers of a run."""


def long_range(table: pd.DataFrame) -> str:
    """Say how attention relates distant positions, next to a recurrent network's last state."""
    found = []
    for part in readings.parts(*reach_claims.REACH)({}, table):
        try:
            found.append(reach_claims.reach(part))
        except MissingError as reason:
            lacking = reason
    if not found:
        raise lacking
    return f"{PATH} Measured in a recurrent network: {found[-1].number}."
