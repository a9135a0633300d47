"""Summarize the heads of each file, and how their σ depends on d_k over several files."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy import stats

from sqrtdk.experiments.tensors.measure import Settings
from sqrtdk.schema import Column
from sqrtdk.stats import intervals
from sqrtdk.storage.tables import Row

NO_MODEL = "no file of the run is one of the models that were computed at other scales"

NEAR_1 = (0.8, 1.25)
"""A σ between these counts as 1."""

MIN_FILES = 3
"""A line through fewer points has no interval."""

METRICS = {
    "logit_std": "σ of the logits",
    "alignment": "σ over that of unrelated directions",
    "entropy_normalized": "entropy over ln of the visible keys",
    "entropy_normalized_expected": "the same for unrelated vectors at the heads' σ",
    "max_weight": "largest weight",
    "max_weight_expected": "the same for unrelated vectors at the heads' σ",
    "saturated_rows": "share of queries with a largest weight above 0.99",
    "dead_rows": "share of queries whose softmax Jacobian is below 0.01",
    "near_1": f"1 where σ is between {NEAR_1[0]} and {NEAR_1[1]}, else 0",
}

SLOPE = "slope"

COLUMNS: tuple[Column, ...] = (
    Column("path", "File; empty for the slope over all files.", read=str, axis=True),
    Column("scaling", "Scale rule of the factor on q·k.", read=str, axis=True),
    Column(
        "metric",
        f"{'; '.join(f'{name}: {meaning}' for name, meaning in METRICS.items())}; {SLOPE}: of "
        f"ln median σ against ln d_k, a point for each file, from {MIN_FILES} files on.",
        read=str,
        axis=True,
    ),
    Column("d_k", "Dimension of each query and key vector; 0 for the slope.", read=int),
    Column("heads", "Number of heads; for the slope, of files.", read=int),
    Column("mean", "Mean over heads.", optional=True),
    Column("median", "Median over heads.", optional=True),
    Column("minimum", "Smallest of the heads.", optional=True),
    Column("maximum", "Largest of the heads.", optional=True),
    Column(
        "ci_low",
        "Lower end of the 95 % interval, with heads (files, for the slope) as independent units: "
        "binomial for near_1, Student's t for the slope, order statistics of the median else.",
        optional=True,
    ),
    Column("ci_high", "Upper end of it.", optional=True),
)


def rows(settings: Settings, heads: pd.DataFrame) -> Iterator[Row]:
    """Yield a row for each file, scale rule and metric, and the slope of each scale rule."""
    heads = heads.assign(near_1=heads["logit_std"].between(*NEAR_1).astype(float))
    heads = heads[heads["logit_std"].notna()]
    points: dict[str, list[tuple[float, float]]] = {}
    for (path, scaling), found in heads.groupby(["path", "scaling"], sort=True):
        d_k = int(found["d_k"].iloc[0])
        points.setdefault(str(scaling), []).append((d_k, float(found["logit_std"].median())))
        for metric in METRICS:
            values = found[metric].dropna().to_numpy()
            if len(values):
                at: Row = {"path": str(path), "scaling": str(scaling), "metric": metric}
                yield at | {"d_k": d_k} | _of(metric, values)
    for scaling, known in points.items():
        d_ks, sigmas = (np.log(x) for x in zip(*known, strict=True))
        if len(known) >= MIN_FILES and np.ptp(d_ks) > 0:
            at = {"path": "", "scaling": scaling, "metric": SLOPE, "d_k": 0}
            yield at | _slope(d_ks, sigmas)


def _of(metric: str, values: np.ndarray) -> Row:
    if metric == "near_1":
        near = intervals.exact_share(int(values.sum()), len(values))
        low, high = near.low, near.high
    else:
        low, high = intervals.median_interval(values)
    return {
        "heads": len(values),
        "mean": float(values.mean()),
        "median": float(np.median(values)),
        "minimum": float(values.min()),
        "maximum": float(values.max()),
        "ci_low": low,
        "ci_high": high,
    }


def _slope(x: np.ndarray, y: np.ndarray) -> Row:
    fitted = stats.linregress(x, y)
    half = float(stats.t.ppf(0.975, len(x) - 2) * fitted.stderr)
    return {
        "heads": len(x),
        "mean": float(fitted.slope),
        "median": math.nan,
        "minimum": math.nan,
        "maximum": math.nan,
        "ci_low": float(fitted.slope) - half,
        "ci_high": float(fitted.slope) + half,
    }
