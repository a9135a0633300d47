"""Judge the claims about length from best.csv and curves.csv."""

from collections.abc import Callable
from dataclasses import replace

import pandas as pd

from sqrtdk.claims.claim import Claim
from sqrtdk.claims.findings import Finding, parts
from sqrtdk.claims.roots import Root
from sqrtdk.experiments.length.best import MOST
from sqrtdk.experiments.length.measure import GAP, PUBLISHED
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


def power(whole: WholeTable) -> Finding:
    """Judge whether the power of log n that keeps the selectivity is 1."""
    return _judge(whole, 1.0, "selectivity")


def root(whole: WholeTable) -> Finding:
    """Judge whether the power of log n that keeps the selectivity is 1/2."""
    return _judge(whole, 0.5, "selectivity")


def root_entropy(whole: WholeTable) -> Finding:
    """Judge whether the power of log n that keeps the share of the entropy is 1/2."""
    return _judge(whole, 0.5, "entropy_share")


def _judge(whole: WholeTable, claimed: float, criterion: str) -> Finding:
    need_long(whole.settings)
    row = whole.table[whole.table["criterion"] == criterion].to_dict("records")[0]
    what = {"selectivity": "the selectivity", "entropy_share": "the share of the entropy"}
    return POWER.judge(row, claimed, f"keeps {what[criterion]}", f"for {row['rows']} rows ")


def need_long(settings: Settings) -> None:
    """Raise MissingError for a run with too few or too small lengths."""
    sizes = settings.get("n_k", [])
    if len(sizes) < FEWEST or max(sizes) < LONG:
        raise MissingError(f"a rule over lengths needs {FEWEST} of them or more, up to {LONG}")


def kept(whole: WholeTable, rule: str) -> Finding:
    """Judge whether a rule keeps the selectivity over all lengths."""
    need_long(whole.settings)
    rows = whole.table[
        (whole.table["rule"] == rule) & (whole.table["metric"] == "selectivity")
    ].sort_values("n_k")
    if rows.empty:
        raise MissingError(f"the run has no rule {rule}")
    curve: Curve = {
        int(row["n_k"]): Estimate(row["mean"], row["ci_low"], row["ci_high"])
        for row in rows.to_dict("records")
    }
    moved = relative_range(curve)
    first, last = curve[min(curve)], curve[max(curve)]
    holds = steady(curve, KEPT)
    verb = {True: "keeps", False: "does not keep", None: "may keep"}[holds]
    name = str(rows["rows"].iloc[0])
    return Finding(
        holds,
        f"selectivity from {format_estimate(first)} to {format_estimate(last)}, range "
        f"{format_percent(moved)}",
        f"For {name} rows {rule} {verb} the selectivity: it goes from {format_estimate(first)} at "
        f"{min(curve)} keys to {format_estimate(last)} at {max(curve)}.",
        f"range of the selectivity over lengths with {rule}",
        moved,
        abs(moved.mean - KEPT),
    )


def gap(whole: WholeTable) -> Finding:
    """Judge the gap-counting scale."""
    return kept(whole, GAP)


def ssmax(whole: WholeTable) -> Finding:
    """Judge scalable softmax with its published constant."""
    return kept(whole, next(iter(PUBLISHED)))


def of_planted(settings: Settings, table: pd.DataFrame) -> list[WholeTable]:
    """Return the part of the rows with a match."""
    return [x for x in _by_rows(settings, table) if x.table["rows"].iloc[0] == "planted"]


def of_independent(settings: Settings, table: pd.DataFrame) -> list[WholeTable]:
    """Return the part of the rows of unrelated keys."""
    return [x for x in _by_rows(settings, table) if x.table["rows"].iloc[0] == "independent"]


_by_rows = parts("n_q", "rows")

_LONG = f"Needs {FEWEST} lengths or more, up to {LONG}."

_KEPT = (
    "True if the largest and the smallest selectivity over the lengths differ by surely less than "
    f"{100 * KEPT:.0f} % of the largest, false if surely by more. {_LONG}"
)

_SELECTIVITY = "the selectivity (the weight of the match, or the largest weight)"


def _claim(
    name: str, sentence: str, judge: Callable[[WholeTable], Finding], what: str, power: str
) -> Claim:
    """Return a claim about the best power over all laws of rows."""
    return Claim(
        name,
        sentence,
        f"The best power r of a seed is where the slope over ln n_k of {what}, with the factor "
        f"(ln n_k / ln 16)^r, changes its sign. {POWER.rule.format(power=power)} {_LONG}",
        "length-best",
        judge,
        source="ours",
        evidence=_by_rows,
        table="best",
    )


def _unrelated(claim: Claim) -> Claim:
    lacking = "the run has no rows of unrelated keys"
    return replace(claim, evidence=of_independent, lacking=lacking)


CLAIMS = (
    _claim(
        "length_log",
        "To keep attention selective, scores must grow as log n.",
        power,
        _SELECTIVITY,
        "1",
    ),
    _unrelated(
        _claim(
            "length_root",
            "For unrelated keys, growth as the root of log n keeps attention selective.",
            root,
            _SELECTIVITY,
            "1/2",
        )
    ),
    _unrelated(
        _claim(
            "length_entropy",
            "For unrelated keys, growth as the root of log n keeps the share of the entropy.",
            root_entropy,
            "the entropy over ln n_k",
            "1/2",
        )
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
        "Scalable softmax with its published constant keeps the weight of a match.",
        _KEPT,
        "length-curves",
        ssmax,
        source="ours",
        evidence=of_planted,
        lacking="the run has no rows with a match",
        table="curves",
    ),
)
