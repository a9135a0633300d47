"""Compute curves.csv: selectivity and entropy against n_k for some rules, with exact values."""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple, cast

import numpy as np
import pandas as pd

from sqrtdk import schema
from sqrtdk.experiments.length.measure import GAP, PUBLISHED, ROWS, Settings
from sqrtdk.experiments.length.rows import COSINE, HEAD
from sqrtdk.schema import Column
from sqrtdk.stats import intervals
from sqrtdk.storage import tables
from sqrtdk.theory import any_density, related
from sqrtdk.theory.expectations import expectations

METRICS = ("selectivity", "entropy_share")

SHOWN = ("0", "0.5", "1", "2", GAP, *PUBLISHED)
"""The rules of the table: the powers that are in use, and the named ones."""

COLUMNS = (
    *(schema.axis_column(key) for key in (schema.N_K, schema.N_Q, ROWS)),
    Column("rule", "As in runs.csv.", read=str, axis=True),
    Column("metric", "selectivity or entropy_share, as in runs.csv.", read=str, axis=True),
    Column("n_seeds", "Number of seeds.", "seeds", read=int),
    Column("mean", "Mean over seeds."),
    Column("ci_low", "Lower end of its 95 % t-interval.", optional=True),
    Column("ci_high", "Upper end of its 95 % t-interval.", optional=True),
    Column("exact", "Exact expectation at the factor of the rule."),
    Column(
        "attainable",
        "Of the weight of a match: what an infinite factor reaches, the exact probability that the "
        "match has the largest score. Otherwise 1.",
    ),
    Column("z", "(mean - exact) in standard errors. Empty for one seed.", optional=True),
)


class Means(NamedTuple):
    """Exact means of the rows of one law."""

    selectivity: float
    entropy_share: float


@lru_cache(maxsize=4096)
def exact(law: str, n_k: int, factor: float) -> Means:
    """Return the exact means of rows under a factor, for n_k >= 2."""
    scale = factor / np.sqrt(HEAD)
    if law == "exponential":
        found = any_density.given_density(any_density.laplace(factor, n_k), factor, n_k)
        chosen, entropy = found.max_weight, found.entropy_nats
    elif law == "planted":
        chosen, entropy = related.match_means(n_k, HEAD, scale, COSINE)
    else:
        plain = expectations(n_k, HEAD, scale)
        chosen, entropy = plain.max_weight, plain.entropy_nats
    return Means(chosen, entropy / float(np.log(n_k)))


def attainable(law: str, n_k: int) -> float:
    """Return the mean selectivity at an infinite factor, more than at any finite one tried."""
    return related.match_is_largest(n_k, HEAD, COSINE) if law == "planted" else 1.0


def rows(settings: Settings, runs: pd.DataFrame) -> Iterator[tables.Row]:
    """Yield the rows of curves.csv for a run's runs.csv."""
    axes = ["n_k", "n_q", "rows", "rule"]
    shown = runs[runs["rule"].isin(SHOWN)]
    for at, frame in shown.groupby(axes, sort=True):
        common = cast(tables.Row, dict(zip(axes, at, strict=True)))
        factor = float(frame["factor"].iloc[0])
        law, n_k = str(common["rows"]), int(cast(int, common["n_k"]))
        known, best = exact(law, n_k, factor), attainable(law, n_k)
        for metric in METRICS:
            values = frame[metric].to_numpy(dtype=float)
            found = intervals.over_seeds(values, within=schema.SHARE)
            target = getattr(known, metric)
            error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.nan
            yield common | {
                "metric": metric,
                "n_seeds": len(values),
                "mean": found.mean,
                "ci_low": found.low,
                "ci_high": found.high,
                "exact": target,
                "attainable": best if metric == "selectivity" else 1.0,
                "z": float((found.mean - target) / error) if error > 0 else np.nan,
            }
