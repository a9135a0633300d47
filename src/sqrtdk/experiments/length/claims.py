"""Judge the claims about length from best.csv and curves.csv."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import pandas as pd

from sqrtdk.claims.claim import Claim
from sqrtdk.claims.findings import Finding, join, parts
from sqrtdk.claims.roots import Root
from sqrtdk.experiments.length.best import CLAIMED, MOST, SHARE, halves
from sqrtdk.experiments.length.curves import attainable
from sqrtdk.experiments.length.measure import GAP, PUBLISHED
from sqrtdk.experiments.length.rows import COSINE, HEAD
from sqrtdk.figures import words
from sqrtdk.schema import Settings
from sqrtdk.stats.curves import Curve, relative_range
from sqrtdk.stats.decisions import steady
from sqrtdk.stats.intervals import Estimate, MissingError
from sqrtdk.stats.series import WholeTable
from sqrtdk.stats.wording import format_estimate, format_percent

POWER = Root("power of log n", MOST, 0.25)
"""The best power may be half of the distance of 1/2 to 1 from the claimed one."""

KEPT = 0.25
"""A selectivity whose range over the lengths is below this share of its largest value is kept."""

FEWEST, LONG = 4, 4096
"""The fewest lengths of a run, and the least value of the longest, that a verdict needs."""

_FEW = f"a rule over lengths needs {FEWEST} of them or more, up to {LONG}"


ENTROPY = "entropy_share"

KEEPS = {"selectivity": "the selectivity", ENTROPY: "the share of the entropy"}
"""What a rule may keep, in words."""

NAMED = {0.5: "the root of log n", 1.0: "log n"}
"""The claimed powers in words."""


def power(whole: WholeTable) -> Finding:
    """Judge whether the power of log n that keeps the selectivity is 1."""
    return _judge(whole, 1.0, SHARE)


def root(whole: WholeTable) -> Finding:
    """Judge whether the power of log n that keeps the selectivity is 1/2."""
    return _judge(whole, 0.5, SHARE)


def root_entropy(whole: WholeTable) -> Finding:
    """Judge whether the power of log n that keeps the share of the entropy is 1/2."""
    return _judge(whole, 0.5, ENTROPY)


def power_entropy(whole: WholeTable) -> Finding:
    """Judge whether the power of log n that keeps the share of the entropy is 1."""
    return _judge(whole, 1.0, ENTROPY)


def _judge(whole: WholeTable, claimed: float, criterion: str) -> Finding:
    need_long(whole.settings)
    row = whole.table[whole.table["criterion"] == criterion].to_dict("records")[0]
    planted = criterion == SHARE and row["rows"] == "planted"
    what = KEEPS[ENTROPY if criterion == ENTROPY else "selectivity"]
    sizes = sorted(whole.settings["n_k"])
    over = f"from {sizes[0]} to {sizes[-1]} keys"
    found = POWER.judge(
        row, claimed, f"leaves {what} without a slope", f"{over}, for {row['rows']} rows "
    )
    column = next(name for name, value in CLAIMED.items() if value == claimed)
    moves = row[column]
    itself = (
        f"{NAMED[claimed]} itself {'keeps' if moves < KEPT else 'does not keep'} it (exact range "
        f"{100 * moves:.3g} %)"
    )
    first, last = halves(sizes)
    parts = [
        f"{value:.2f} ({part[0]} to {part[-1]} keys)"
        for value, part in ((row["exact_first"], first), (row["exact_last"], last))
        if not math.isnan(value)
    ]
    drift = f"over parts of these lengths the exact power is {' and '.join(parts)}" if parts else ""
    notes = join(drift, itself, ceiling(sizes) if planted else "")
    return found._replace(
        number=join(found.number, drift.replace("these", "the")),
        answer=f"{found.answer[:-1]}; {notes}.",
        condition=join(over, notes) if found.holds else "",
    )


def ceiling(sizes: Sequence[int]) -> str:
    """Say what the selectivity of planted rows is a share of."""
    first, last = (attainable("planted", n_k) for n_k in (min(sizes), max(sizes)))
    return (
        "the selectivity is the weight of the match over the most that any factor reaches, "
        f"{first:.2f} at {min(sizes)} keys and {last:.2f} at {max(sizes)} for a cosine of "
        f"{COSINE:g} at d_k = {HEAD}"
    )


def need_long(settings: Settings) -> None:
    """Raise MissingError for a run with too few or too small lengths."""
    sizes = settings.get("n_k", [])
    if len(sizes) < FEWEST or max(sizes) < LONG:
        raise MissingError(_FEW)


def kept(whole: WholeTable, rule: str, metric: str = "selectivity") -> Finding:
    """Judge whether a rule keeps the selectivity, or the share of the entropy, over all lengths."""
    need_long(whole.settings)
    rows = whole.table[
        (whole.table["rule"] == rule) & (whole.table["metric"] == metric)
    ].sort_values("n_k")
    if rows.empty:
        raise MissingError(f"the run has no rule {rule}")
    curve: Curve = {
        int(row["n_k"]): Estimate(
            *(row[x] / row["attainable"] for x in ("mean", "ci_low", "ci_high", "exact"))
        )
        for row in rows.to_dict("records")
    }
    moved = relative_range(curve)
    exact = [point.exact for point in curve.values()]
    moved = moved._replace(exact=1 - min(exact) / max(exact))
    sizes = list(curve)
    first, last = curve[sizes[0]], curve[sizes[-1]]
    holds = steady(curve, KEPT)
    verb = {True: "is kept", False: "is not kept", None: "may be kept"}[holds]
    name = str(rows["rows"].iloc[0])
    over = f"from {sizes[0]} to {sizes[-1]} keys"
    limit = ceiling(sizes) if name == "planted" and metric != ENTROPY else ""
    what, named = KEEPS[metric], words.rule(rule)
    return Finding(
        holds,
        f"{what[4:]} from {format_estimate(first)} to {format_estimate(last)}, range "
        f"{format_percent(moved)}",
        f"For {name} rows {what} {verb} under {named}: it goes from {format_estimate(first)} at "
        f"{sizes[0]} keys to {format_estimate(last)} at {sizes[-1]}, range {format_percent(moved)}"
        f"{f'; {limit}' if limit else ''}.",
        f"range of {what} over lengths with {named}",
        moved._replace(exact=math.nan),
        abs(moved.mean - KEPT),
        join(over, limit) if holds else "",
    )


def gap(whole: WholeTable) -> Finding:
    """Judge the gap-counting scale."""
    return kept(whole, GAP)


def ssmax(whole: WholeTable) -> Finding:
    """Judge scalable softmax with its published constant."""
    return kept(whole, next(iter(PUBLISHED)))


def yarn(whole: WholeTable) -> Finding:
    """Judge YaRN's factor with its published constant."""
    return kept(whole, "yarn")


def of_planted(settings: Settings, table: pd.DataFrame) -> list[WholeTable]:
    """Return the part of the rows with a match."""
    return [x for x in _by_rows(settings, table) if x.table["rows"].iloc[0] == "planted"]


def of_independent(settings: Settings, table: pd.DataFrame) -> list[WholeTable]:
    """Return the part of the rows of unrelated keys."""
    return [x for x in _by_rows(settings, table) if x.table["rows"].iloc[0] == "independent"]


_by_rows = parts("n_q", "rows")

_LONG = (
    f"Needs {FEWEST} lengths or more, up to {LONG}. The verdict is about the lengths of the run, "
    "which the answer names. One power does not hold at every length; for very many unrelated keys "
    "it tends to 1/2."
)

_SHARE = (
    "Of planted rows, selectivity is the weight of the match over its limit at an infinite factor, "
    "the exact probability that the match has the largest score. Otherwise it is the largest "
    "weight."
)

_RANGE = (
    "True if the largest and the smallest {what} over the lengths differ by surely less than "
    f"{100 * KEPT:.0f} % of the largest, false if surely by more. "
)

_LONG_ENOUGH = f"Needs {FEWEST} lengths or more, up to {LONG}."

_KEPT = f"{_RANGE.format(what='selectivity')}{_SHARE} {_LONG_ENOUGH}"


def _claim(
    name: str, sentence: str, judge: Callable[[WholeTable], Finding], what: str, power: str
) -> Claim:
    """Return a claim about the best power over all laws of rows."""
    share = f"{_SHARE} " if "selectivity" in what else ""
    return Claim(
        name,
        sentence,
        f"The best power r of a seed is where the slope over ln n_k of {what}, with the factor "
        f"(ln n_k / ln 16)^r, changes its sign. {POWER.rule.format(power=power)} {share}{_LONG}",
        "length-best",
        judge,
        source="ours",
        evidence=_by_rows,
        table="best",
        # With one length best.csv is empty.
        lacking=_FEW,
    )


def _unrelated(claim: Claim) -> Claim:
    lacking = f"the run has no rows of unrelated keys, or one length; {_FEW}"
    return replace(claim, evidence=of_independent, lacking=lacking)


CLAIMS = (
    _claim(
        "length_log",
        "To keep attention selective, scores must grow as log n.",
        power,
        "the selectivity",
        "1",
    ),
    _unrelated(
        _claim(
            "length_root",
            "For unrelated keys, growth as the root of log n keeps attention selective over the "
            "lengths of the run.",
            root,
            "the selectivity",
            "1/2",
        )
    ),
    _claim(
        "length_entropy",
        "The power of log n that leaves the share of the entropy without a slope is near 1/2.",
        root_entropy,
        "the entropy over ln n_k",
        "1/2",
    ),
    _claim(
        "length_log_entropy",
        "The power of log n that leaves the share of the entropy without a slope is near 1.",
        power_entropy,
        "the entropy over ln n_k",
        "1",
    ),
    Claim(
        "length_gap",
        "A scale that counts the gaps below the largest score keeps attention selective.",
        _KEPT,
        "length-curves",
        gap,
        source="ours",
        evidence=_by_rows,
        table="curves",
    ),
    Claim(
        "length_ssmax",
        "Scalable softmax with its published constant keeps the weight of a match, as a share of "
        "the most that any factor reaches.",
        _KEPT,
        "length-curves",
        ssmax,
        source="ours",
        evidence=of_planted,
        lacking="the run has no rows with a match",
        table="curves",
    ),
    Claim(
        "length_yarn",
        "YaRN's factor with its published constant keeps attention selective.",
        _KEPT,
        "length-curves",
        yarn,
        source="ours",
        evidence=_by_rows,
        table="curves",
    ),
    *(
        Claim(
            f"length_{rule}_entropy",
            f"{sentence} keeps the share of the entropy.",
            f"{_RANGE.format(what='entropy over ln n_k')}{_LONG_ENOUGH}",
            "length-curves",
            partial(kept, rule=rule, metric=ENTROPY),
            source="ours",
            evidence=_by_rows,
            table="curves",
        )
        for rule, sentence in {
            GAP: "A scale that counts the gaps below the largest score",
            "ssmax": "Scalable softmax with its published constant",
            "yarn": "YaRN's factor with its published constant",
        }.items()
    ),
)
