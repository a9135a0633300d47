"""Judge the claims about sinks from sinks.csv."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from sqrtdk.claims.claim import Claim
from sqrtdk.claims.findings import FACTOR, SELECTS, Finding, parts
from sqrtdk.stats.decisions import all_known, beyond
from sqrtdk.stats.intervals import Estimate, MissingError
from sqrtdk.stats.seed_columns import estimate_of
from sqrtdk.stats.series import WholeTable
from sqrtdk.stats.wording import format_estimate, format_percent

FEWEST = 6
"""Seeds that the interval of a ratio needs."""


def _arm(whole: WholeTable, attention: str, first_key: str) -> Mapping[Any, Any]:
    table = whole.table
    rows = table[(table["attention"] == attention) & (table["first_key"] == first_key)]
    if rows.empty:
        raise MissingError(f"the run has no {attention} with first_key = {first_key}")
    row: Mapping[Any, Any] = rows.to_dict("records")[0]
    return row


def _edge(*rows: Mapping[Any, Any]) -> str:
    found = sorted({str(row["attention"]) for row in rows if row["edge"] not in ("", "only")})
    return f"the best rate of {', '.join(found)} is at the edge of the grid" if found else ""


def needed(whole: WholeTable) -> Finding:
    """Judge whether softmax without a sink has a much larger loss on unmatched queries."""
    plain, sink = _arm(whole, "softmax", "none"), _arm(whole, "sink_logit", "none")
    ratio = estimate_of(plain, "sink_ratio")
    if ratio.low != ratio.low:
        raise MissingError(f"fewer than {FEWEST} seeds give no interval of a ratio")
    holds = beyond(ratio, FACTOR, above=True)
    own, other = (estimate_of(row, "loss_unmatched") for row in (plain, sink))
    matched = estimate_of(plain, "loss_matched")
    verb = {True: "needs", False: "does not need", None: "may need"}[holds]
    return Finding(
        holds,
        f"loss without a match {format_estimate(own)} with softmax and {format_estimate(other)} "
        f"with a learned sink logit, {format_estimate(ratio)} times",
        f"With nothing to attend to, softmax attention {verb} a sink: the loss of queries without "
        f"a match is {format_estimate(own)}, and {format_estimate(other)} with a learned sink "
        f"logit, a ratio of {format_estimate(ratio)}. With a match it is "
        f"{format_estimate(matched)} with softmax.",
        "loss of unmatched queries over that with a sink logit",
        ratio,
        abs(ratio.mean - FACTOR),
        _edge(plain, sink),
    )


def becomes_sink(whole: WholeTable) -> Finding:
    """Judge whether softmax puts most of the weight of unmatched queries on a first key."""
    row = _arm(whole, "softmax", "learned")
    without, matched = (
        estimate_of(row, f"first_weight_{kind}") for kind in ("unmatched", "matched")
    )
    size = estimate_of(row, "first_value_rms")
    holds = all_known((beyond(without, SELECTS, above=True), beyond(matched, SELECTS, above=False)))
    verb = {True: "makes", False: "makes no", None: "may make"}[holds]
    return Finding(
        holds,
        f"weight on the first key {format_percent(without)} without a match, "
        f"{format_percent(matched)} with one",
        f"Softmax attention {verb} a sink of a first key that all queries share: queries without a "
        f"match put {format_percent(without)} of their weight on it, those with one "
        f"{format_percent(matched)}. The root mean square of its value goes from 1 to "
        f"{format_estimate(size)}.",
        "weight of unmatched queries on the first key",
        without,
        abs(without.mean - SELECTS),
        _edge(row),
    )


def sigmoid(whole: WholeTable) -> Finding:
    """Judge whether sigmoids of a learned constant make no sink of a first key, and need none."""
    row = _arm(whole, "sigmoid_bias", "learned")
    weight, ratio = estimate_of(row, "first_weight_unmatched"), estimate_of(row, "other_ratio")
    if ratio.low != ratio.low:
        raise MissingError(f"fewer than {FEWEST} seeds give no interval of a ratio")
    # The ratio is with the first key over without it.
    inverse = Estimate(1 / ratio.mean, 1 / ratio.high, 1 / ratio.low)
    holds = all_known((beyond(weight, SELECTS, above=False), beyond(inverse, FACTOR, above=False)))
    verb = {True: "makes no", False: "makes", None: "may make"}[holds]
    return Finding(
        holds,
        f"weight on the first key {format_percent(weight)}, loss without it "
        f"{format_estimate(inverse)} times",
        f"Sigmoid attention with a learned constant {verb} sink of a first key: the weight of "
        f"queries without a match on it is {format_percent(weight)}, and without that key their "
        f"loss is {format_estimate(inverse)} times that with it.",
        "weight of unmatched queries on the first key, with sigmoids of a learned constant",
        weight,
        min(abs(weight.mean - SELECTS), abs(inverse.mean - FACTOR)),
        _edge(row),
    )


_claim = partial(Claim, source="ours", evidence=parts("d_k", "n_k", "batch_size"), table="sinks")

CLAIMS = (
    _claim(
        "sink_needed",
        "Where a query has nothing to attend to, softmax attention needs a sink.",
        "The ratio is the typical one over seeds (Hodges-Lehmann) of the loss of queries without a "
        "match, softmax over softmax with a learned sink logit, each at the learning rate that the "
        f"other half of the seeds chose. True if its whole interval is above {FACTOR}, false if it "
        "is below, open otherwise.",
        "sinks-loss",
        needed,
    ),
    _claim(
        "first_key_sink",
        "Softmax attention makes a sink of a first key that all queries share.",
        f"True if the whole interval of the weight on that key is above {SELECTS} for queries "
        f"without a match, and below it for queries with one; false if one of both is surely "
        "otherwise. The key's item and value are learned.",
        "sinks-weights",
        becomes_sink,
    ),
    _claim(
        "sigmoid_no_sink",
        "Sigmoid attention with a learned constant makes no sink of a first key, and needs none.",
        "Not judged for the fixed constant -ln n_k. True if the whole interval of the weight of "
        f"queries without a match on the first key is below {SELECTS}, and that of the ratio of "
        f"their loss without the key to that with it is below {FACTOR}; false if one of both is "
        "above.",
        "sinks-weights",
        sigmoid,
    ),
)
