"""contrasts.csv: ratios of scale rules that share their draws, with paired intervals.

All scale rules of a seed see the same q, k, v and g. Variation that two rules share cancels in the
ratio of that seed, so the interval of the ratio is narrower than the two separate intervals
suggest. summary.csv has each rule separately; this table keeps the pairing.
"""

from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np
import pandas as pd

from sqrtdk.schema import Column
from sqrtdk.stats.intervals import MissingError, paired_ratio
from sqrtdk.storage import tables


def columns(runs: Sequence[Column]) -> tuple[Column, ...]:
    """Return the columns of contrasts.csv: the axes of runs.csv but scaling and seed, and these."""
    return (
        *(c for c in runs if c.axis and c.name not in ("scaling", "seed")),
        Column("metric", "Column of runs.csv that is compared.", read=str, axis=True),
        Column("over", "Scale rule above the line.", read=str, axis=True),
        Column("under", "Scale rule below the line: the one with 1/√d_k.", read=str, axis=True),
        Column("n_seeds", "Number of seeds that both rules have.", "seeds", read=int),
        Column(
            "ratio",
            "Ratio of the rules' means over seeds; for a column pooled as rms, of the quadratic "
            "means; for one pooled as median, the median of the ratios of the seeds.",
        ),
        Column(
            "ci_low",
            "Lower end of the paired 95 % interval. Empty for one seed, and for a ratio of 0.",
            optional=True,
        ),
        Column("ci_high", "Upper end of the same interval.", optional=True),
    )


def contrast(
    runs: pd.DataFrame, schema: Sequence[Column], under: str | None
) -> Iterator[tables.Row]:
    """Yield one row per combination of axes, metric and rule other than `under`, sorted by axes.

    There is no row where the ratio is undefined, such as a share that is 0 with `under`.
    """
    axes = [c.name for c in schema if c.axis and c.name not in ("scaling", "seed")]
    metrics = sorted((c for c in schema if not c.axis), key=lambda c: c.name)
    for group, frame in runs.groupby(axes, sort=True):
        rules = {str(name): found for name, found in frame.groupby("scaling", sort=True)}
        if under is None or under not in rules:
            continue
        # Groups are named by the columns' own values.
        at = cast(tables.Row, dict(zip(axes, group, strict=True)))
        pairs = {
            over: _paired(found, rules[under], [metric.name for metric in metrics])
            for over, found in rules.items()
            if over != under
        }
        for place, metric in enumerate(metrics):
            for over, (above, below) in pairs.items():
                known = ~np.isnan(above[place]) & ~np.isnan(below[place])
                if not known.any():
                    continue
                pair = above[place][known], below[place][known]
                try:
                    ratio, low, high, _ = paired_ratio(*pair, pool=metric.pool)
                except MissingError:
                    continue
                names: tables.Row = {"metric": metric.name, "over": over, "under": under}
                found: tables.Row = {
                    "n_seeds": int(np.count_nonzero(known)),
                    "ratio": ratio,
                    "ci_low": low,
                    "ci_high": high,
                }
                yield at | names | found


def _paired(
    over: pd.DataFrame, under: pd.DataFrame, metrics: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the metrics of two rules [metrics, seeds] at the seeds that both have."""
    seeds = over["seed"].to_numpy(), under["seed"].to_numpy()
    _, *places = np.intersect1d(*seeds, assume_unique=True, return_indices=True)
    above, below = (
        frame[list(metrics)].to_numpy(dtype=float)[at].T
        for frame, at in zip((over, under), places, strict=True)
    )
    # Rows that lie together in memory, as sums over seeds expect.
    return np.ascontiguousarray(above), np.ascontiguousarray(below)
