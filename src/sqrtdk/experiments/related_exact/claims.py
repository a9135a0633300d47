"""Judge whether means of related vectors agree with theory."""

import math

from sqrtdk.claims.claim import Claim
from sqrtdk.claims.findings import Finding, parts
from sqrtdk.experiments.related_exact.gate import ALL
from sqrtdk.experiments.related_exact.measure import D_K, N_K
from sqrtdk.stats.agreement import RMS_Z
from sqrtdk.stats.intervals import Estimate, MissingError
from sqrtdk.stats.series import WholeTable
from sqrtdk.stats.wording import format_estimate, format_number

FEWEST, DECIDING = 1000, 100
"""Independent points of each law that the test is meant for, and the fewest that decide: the root
mean square of z of 100 points has a standard deviation of 0.07."""

MAX_ABS_Z = 6.0
"""Bound of |z|. Of 8,000 normal numbers one is beyond in 60,000 tables; means of
skewed squares have wider tails, and one is beyond in about 100 tables (docs/verdicts-powers.md)."""

RARE = 0.01
"""Chance below which normal numbers do not explain the largest |z|."""


def agreement(whole: WholeTable) -> Finding:
    """Judge whether the deviations of one law are chance alone."""
    table = whole.table
    single = table[table["metric"] != ALL]
    (together,) = table[table["metric"] == ALL].to_dict("records")
    if together["n_seeds"] < DECIDING:
        raise MissingError(f"the run has {together['n_seeds']} points, fewer than {DECIDING}")
    low, high = RMS_Z
    middle = (low + high) / 2
    worst = max(single.to_dict("records"), key=lambda row: abs(row["rms_z"] - middle))
    largest = float(together["max_abs_z"])
    inside = bool(single["rms_z"].between(low, high).all()) and largest < MAX_ABS_Z
    count = int(together["n_seeds"])
    rms = Estimate(together["rms_z"], together["ci_low"], together["ci_high"])
    name = str(whole.table["vectors"].iloc[0])
    verb = "agree" if inside else "do not agree"
    rare = _chance(largest, count * len(single)) < RARE or bool((single["ci_low"] > 1).any())
    margin = (high - low) / 2 - abs(worst["rms_z"] - middle)
    return Finding(
        inside,
        f"rms of z {format_estimate(rms)} over {count} independent points and {len(single)} "
        f"metrics, largest |z| {format_number(largest)}",
        f"Means of {name} vectors {verb} with their exact values: over {count} independent points "
        f"of {N_K[0]} to {N_K[1]} keys and {D_K[0]} to {D_K[1]} dimensions z "
        f"has a root mean square of {format_estimate(rms)}, where chance alone gives 1, of a "
        f"single metric from {format_number(single['rms_z'].min())} to "
        f"{format_number(single['rms_z'].max())}, and is {format_number(largest)} at most."
        f"{SKEWED if inside and rare else ''}",
        "root mean square of z, of the metric that is farthest from 1",
        Estimate(worst["rms_z"], worst["ci_low"], worst["ci_high"]),
        margin,
        f"tested at {count} points only" if count < FEWEST else "",
    )


SKEWED = (
    " So large a deviation is rare for normal numbers, but the squares of gradients are skewed: "
    "where their mean is low, its standard error is low too."
)


def _chance(largest: float, count: int) -> float:
    """Return the chance that one of this many normal numbers is larger in magnitude."""
    return -math.expm1(count * math.log1p(-math.erfc(largest / math.sqrt(2))))


CLAIMS = (
    Claim(
        "agreement_related",
        "Measurement and theory agree for related vectors and on the sphere.",
        f"A point is a random dimension from {D_K[0]} to {D_K[1]}, {N_K[0]} to {N_K[1]} keys, and "
        "a random scale and law; its mean is over queries that each have keys of their own. z is "
        "its deviation from the exact mean in standard errors. True if for each law the root mean "
        f"square of z of each metric is between {RMS_Z[0]} and {RMS_Z[1]}, and the largest |z| is "
        f"below {MAX_ABS_Z:g}; false otherwise. There is a condition below {FEWEST} points of a "
        f"law, and no verdict below {DECIDING}.",
        "related_exact-z",
        agreement,
        source="ours",
        evidence=parts("vectors"),
        table="gate",
    ),
)
