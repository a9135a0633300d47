"""Compute gate.csv: how far means of related vectors are from their exact values, by law."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from sqrtdk import schema
from sqrtdk.experiments.related_exact.measure import METRICS, VECTORS
from sqrtdk.schema import Column, Settings
from sqrtdk.stats import intervals
from sqrtdk.storage import tables

ALL = "all"
"""The name of all metrics together."""

COLUMNS = (
    schema.axis_column(VECTORS),
    Column(
        "metric", f"A mean of theory.Expectations; {ALL}: all of them.", read=str, axis=True
    ),
    Column("n_seeds", "Number of independent points: seeds.", "seeds", read=int),
    Column("rms_z", "Root mean square of z; 1 if deviations are chance alone."),
    Column("ci_low", "Lower end of its 95 % interval, of the logarithm of the mean square.",
           optional=True),
    Column("ci_high", "Upper end of the same interval.", optional=True),
    Column("max_abs_z", "Largest |z|."),
)  # fmt: skip


def rows(settings: Settings, runs: pd.DataFrame) -> Iterator[tables.Row]:
    """Yield a row for each law and metric, and one for all metrics of a law."""
    for vectors, frame in runs.groupby("vectors", sort=True):
        z = frame.pivot_table(index="seed", columns="expectation", values="z")[list(METRICS)]
        # The metrics of a point are correlated, so a point counts once, with its mean square.
        together = np.sqrt((z.to_numpy() ** 2).mean(axis=1))
        largest = float(np.abs(z.to_numpy()).max())
        yield _row(str(vectors), ALL, together) | {"max_abs_z": largest}
        for metric in METRICS:
            yield _row(str(vectors), metric, z[metric].to_numpy())


def _row(vectors: str, metric: str, z: np.ndarray) -> tables.Row:
    found = intervals.statistics(z, pool="rms")
    return {
        "vectors": vectors,
        "metric": metric,
        "n_seeds": len(z),
        "rms_z": found["mean"],
        "ci_low": found["ci_low"],
        "ci_high": found["ci_high"],
        "max_abs_z": float(np.abs(z).max()),
    }
