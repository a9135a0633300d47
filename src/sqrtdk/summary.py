"""runs.csv to summary.csv: for every metric the mean over seeds with its interval.

The seed is the statistical unit: queries of one cell share their keys, so they are not
independent, and a cell counts once whatever its number of queries.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from sqrtdk import tables
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.keys import Column

STATISTICS = (
    Column("metric", "Column of runs.csv that the row summarizes.", read=str, axis=True),
    Column("n_seeds", "Number of seeds: the sample size.", "seeds", read=int),
    Column("mean", "Mean over seeds; for a column pooled as rms, the quadratic mean."),
    Column("sd", "Standard deviation over seeds. Empty for one seed.", optional=True),
    Column("median", "Median over seeds."),
    Column("ci_low", "Lower end of the 95 % t-interval of the mean.", optional=True),
    Column("ci_high", "Upper end of the 95 % t-interval of the mean.", optional=True),
    Column("exact", "Exact expectation, where theory has one.", optional=True),
    Column("z", "(mean - exact) in standard errors of the mean.", optional=True),
)


def columns(runs: Sequence[Column]) -> tuple[Column, ...]:
    """The columns of summary.csv: the axes of runs.csv without the seed, then the statistics."""
    return (*(c for c in runs if c.axis and c.name != "seed"), *STATISTICS)


def interval(values: np.ndarray, *, confidence: float = 0.95) -> tuple[float, float]:
    """Student's t-interval of the mean of independent values; NaN for fewer than two.

    >>> interval(np.array([1.0, 1.0, 1.0]))
    (1.0, 1.0)
    """
    count = len(values)
    if count < 2:
        return np.nan, np.nan
    mean = float(np.mean(values))
    half = float(stdtrit(count - 1, 0.5 + confidence / 2) * np.std(values, ddof=1) / count**0.5)
    return mean - half, mean + half


def statistics(values: np.ndarray, *, pool: str = "mean") -> dict[str, float]:
    """The statistics of one metric over seeds.

    With `pool="rms"` the mean square is what has an expectation: mean and interval are those of
    the squares, brought back by the square root (an end below 0 becomes 0).
    """
    pooled = values**2 if pool == "rms" else values
    low, high = interval(pooled)
    mean = float(np.mean(pooled))
    if pool == "rms":
        mean, low, high = (float(np.sqrt(max(x, 0.0))) for x in (mean, low, high))
    return {
        "n_seeds": len(values),
        "mean": mean,
        "sd": float(np.std(values, ddof=1)) if len(values) > 1 else np.nan,
        "median": float(np.median(values)),
        "ci_low": low,
        "ci_high": high,
        "exact": np.nan,
        "z": np.nan,
    }


def summarize(runs: pd.DataFrame, schema: Sequence[Column]) -> list[tables.Row]:
    """One row per (axes, metric), in the order of the axes and of the schema's metrics.

    A metric that is undefined in a group (all its seeds are empty) has no row there.
    """
    axes = [c.name for c in schema if c.axis and c.name != "seed"]
    result = []
    for group, frame in runs.groupby(axes, sort=True):
        for metric in (c for c in schema if not c.axis):
            values = frame[metric.name].dropna().to_numpy(dtype=float)
            if len(values):
                found = statistics(values, pool=metric.pool)
                result.append(dict(zip(axes, group, strict=True)) | {"metric": metric.name} | found)
    return result


def read(path: Path, schema: Sequence[Column]) -> pd.DataFrame:
    """A table as a data frame with the schema's types. Raises TableError for other columns."""
    # As text first: some pandas versions read the last bit of a float wrong.
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    if list(frame.columns) != [c.name for c in schema]:
        raise tables.TableError(f"{path} has the columns of another version; delete it")
    for column in schema:
        if column.read is not str:
            values = (
                frame[column.name].replace("", "nan") if column.optional else frame[column.name]
            )
            frame[column.name] = values.map(column.read)
    return frame


def main() -> None:
    """Summarize the runs.csv named second, of the experiment named first, into the third."""
    schema = EXPERIMENTS[sys.argv[1]].COLUMNS
    rows = summarize(read(Path(sys.argv[2]), schema), schema)
    tables.write_atomically(Path(sys.argv[3]), tables.text(rows, columns(schema)))


if __name__ == "__main__":
    main()
