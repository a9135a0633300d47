"""Judge the claims about length from best.csv and curves.csv."""

import math

import pandas as pd

from sqrtdk.claims.claim import Claim
from sqrtdk.claims.findings import Finding, parts
from sqrtdk.experiments.length.measure import GAP, PUBLISHED
from sqrtdk.schema import Settings
from sqrtdk.stats.curves import Curve, relative_range
from sqrtdk.stats.decisions import steady, within
from sqrtdk.stats.intervals import Estimate, MissingError
from sqrtdk.stats.series import WholeTable
from sqrtdk.stats.wording import format_estimate, format_percent

MARGIN = 0.25
"""How far from the claimed power of log n the best one may be: half of the distance of 1/2 to 1."""

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
    row = whole.table[whole.table["criterion"] == criterion].iloc[0]
    name = str(whole.table["rows"].iloc[0])
    what = {"selectivity": "the selectivity", "entropy_share": "the share of the entropy"}[
        criterion
    ]
    seeds = row["n_seeds"] + row["n_without"]
    if row["n_seeds"] == 0:
        return Finding(
            False,
            f"no best power in any of {seeds} seeds",
            f"For {name} rows no power of log n from 0 to 2.5 keeps {what}, in any of {seeds} "
            "seeds.",
            "seeds with a best power of log n",
            Estimate(0.0),
            1.0,
        )
    if row["n_without"] > 0:
        raise MissingError(f"{row['n_without']} of {seeds} seeds have no best power from 0 to 2.5")
    best = Estimate(row["mean"], row["ci_low"], row["ci_high"], row["exact"])
    return Finding(
        within(best, claimed - MARGIN, claimed + MARGIN),
        f"best power {format_estimate(best)}",
        f"For {name} rows the power of log n that keeps {what} is {format_estimate(best)}.",
        f"best power of log n, where {claimed:g} is claimed",
        best._replace(exact=math.nan),
        abs(MARGIN - abs(best.mean - claimed)),
    )


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

_RULE = (
    "The best power r of a seed is where the slope over ln n_k of {what}, with the factor "
    "(ln n_k / ln 16)^r, changes its sign. True if the whole 95 % t-interval of its mean over "
    "seeds is within {margin} of {power}, false if it is wholly outside, or if no seed has a best "
    "power from 0 to 2.5. Not measured if only some seeds have one. Needs {fewest} lengths or "
    "more, up to {long}."
)

_SELECTIVITY = "the selectivity (the weight of the match, or the largest weight)"

_KEPT = (
    "True if the largest and the smallest selectivity over the lengths differ by surely less than "
    "{kept:.0f} % of the largest, false if surely by more. Needs {fewest} lengths or more, up to "
    "{long}."
)

CLAIMS = (
    Claim(
        "length_log",
        "To keep attention selective, scores must grow as log n.",
        _RULE.format(what=_SELECTIVITY, margin=MARGIN, power=1, fewest=FEWEST, long=LONG),
        "length-best",
        power,
        source="ours",
        evidence=_by_rows,
        table="best",
    ),
    Claim(
        "length_root",
        "For unrelated keys, growth as the root of log n keeps attention selective.",
        _RULE.format(what=_SELECTIVITY, margin=MARGIN, power="1/2", fewest=FEWEST, long=LONG),
        "length-best",
        root,
        source="ours",
        evidence=of_independent,
        lacking="the run has no rows of unrelated keys",
        table="best",
    ),
    Claim(
        "length_entropy",
        "For unrelated keys, growth as the root of log n keeps the share of the entropy.",
        _RULE.format(
            what="the entropy over ln n_k", margin=MARGIN, power="1/2", fewest=FEWEST, long=LONG
        ),
        "length-best",
        root_entropy,
        source="ours",
        evidence=of_independent,
        lacking="the run has no rows of unrelated keys",
        table="best",
    ),
    Claim(
        "length_gap",
        "A scale that counts the gaps below the largest score keeps attention selective.",
        _KEPT.format(kept=100 * KEPT, fewest=FEWEST, long=LONG),
        "length-curves",
        gap,
        source="ours",
        evidence=_by_rows,
        table="curves",
    ),
    Claim(
        "length_ssmax",
        "Scalable softmax with its published constant keeps the weight of a match.",
        _KEPT.format(kept=100 * KEPT, fewest=FEWEST, long=LONG),
        "length-curves",
        ssmax,
        source="ours",
        evidence=of_planted,
        lacking="the run has no rows with a match",
        table="curves",
    ),
)
