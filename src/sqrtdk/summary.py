"""runs.csv to summary.csv: for every metric the mean over seeds with its interval.

The seed is the statistical unit: queries of one cell share their keys, so they are not
independent, and a cell counts once whatever its number of queries.
"""

import itertools
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtri, stdtr

from sqrtdk import commands, config, curves, tables
from sqrtdk.estimates import statistics
from sqrtdk.exact import is_covered
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.keys import Column

STATISTICS = (
    Column("metric", "Column of runs.csv that the row summarizes.", read=str, axis=True),
    Column("n_seeds", "Number of seeds: the sample size.", "seeds", read=int),
    Column(
        "mean",
        "Mean over seeds. Of a column pooled as rms (grad_*_rms, logit_std, jacobian_norm), the "
        "quadratic mean. Of one pooled as median (grad_*_median, grad_*_q05, grad_*_q95), the "
        "median over seeds; of an even number, the geometric mean of the middle two.",
    ),
    Column("sd", "Standard deviation over seeds. Empty for one seed.", optional=True),
    Column("median", "Median over seeds."),
    Column(
        "ci_low",
        "Lower end of the 95 % interval of `mean`, with seeds as units: Student's t-interval; for "
        "rms, that of the logarithm of the mean square; for median, between two seeds (order "
        "statistics), or below six seeds the t-interval of the logarithms; for shares that count, "
        "Clopper and Pearson's with an effective number (docs/statistics.md). Of shares at least "
        "0. Empty for one seed, and for a median of fewer than six seeds of which some are 0.",
        optional=True,
    ),
    Column(
        "ci_high",
        "Upper end of the same interval; of shares at most 1. Above 0 also where none was seen.",
        optional=True,
    ),
    Column("exact", "Exact expectation, where theory has one.", optional=True),
    Column(
        "z", "(mean - exact) in standard errors of the mean; of squares for rms.", optional=True
    ),
)


def columns(runs: Sequence[Column]) -> tuple[Column, ...]:
    """The columns of summary.csv: the axes of runs.csv without the seed, then the statistics."""
    return (*(c for c in runs if c.axis and c.name != "seed"), *STATISTICS)


def summarize(
    runs: pd.DataFrame, schema: Sequence[Column], exact: Mapping[tuple[Any, ...], float]
) -> list[tables.Row]:
    """One row per (axes, metric), in the order of the axes and of the schema's metrics.

    A metric that is undefined in a group (all its seeds are empty) has no row there. `exact` maps
    (axes..., metric) to the exact value.
    """
    axes = [c.name for c in schema if c.axis and c.name != "seed"]
    result = []
    for group, frame in runs.groupby(axes, sort=True):
        at: dict[str, Any] = dict(zip(axes, group, strict=True))
        for metric in (c for c in schema if not c.axis):
            values = frame[metric.name].dropna().to_numpy(dtype=float)
            if len(values):
                target = exact.get((*group, metric.name), np.nan)
                things = [
                    factor if isinstance(factor, int) else int(at[factor])
                    for factor in metric.counted
                ]
                found = statistics(
                    values,
                    pool=metric.pool,
                    exact=target,
                    counted=math.prod(things) if things else 0,
                    independent=things[0] if things else None,
                )
                if metric.unit == "share":
                    # No share is outside of 0 to 1, whatever the t-interval of few seeds says.
                    for end in ("ci_low", "ci_high"):
                        found[end] = float(np.clip(found[end], 0.0, 1.0))
                result.append(at | {"metric": metric.name} | found)
    return result


class Gate(NamedTuple):
    """How far measured means are from exact ones over a whole table, as `normal_scores` of z.

    `points` counts distinct means, and `draws` the independent draws that they are from: the means
    of one draw are correlated, so the gate rests on fewer independent numbers than `points`.
    """

    points: int
    draws: int
    rms_z: float
    max_abs_z: float

    @property
    def rms_margin(self) -> float:
        """How far `rms_z` is inside of its bounds: 1 in the middle, negative outside."""
        low, high = RMS_Z
        return 1 - abs(self.rms_z - (low + high) / 2) / ((high - low) / 2)

    @property
    def max_margin(self) -> float:
        """How far `max_abs_z` is below its bound: 1 at zero, negative above."""
        return 1 - self.max_abs_z / MAX_ABS_Z

    @property
    def passed(self) -> bool:
        """Whether the measurement agrees with theory, as standard normal deviations would."""
        return self.rms_margin >= 0 and self.max_margin > 0


RMS_Z, MAX_ABS_Z = (0.8, 1.2), 4.5
"""Bounds of the gate. Of 852 independent standard normal numbers, 1 table in 170 has one beyond
4.5. The distinct means of the default grid are correlated; for the mean square of z they are worth
about 170 independent ones, so its root has a standard deviation of about 0.054
(`docs/statistics.md`).
"""

GATED_SEEDS = 20
"""Seeds from which on a mean counts. Measured on the default grid (780 means) with 400 seeds in
disjoint blocks, right code all through: of 35 blocks of 10 seeds some are refused (largest |z|
4.65, rms of z up to 1.24); of 20 blocks of 20 none is (4.37, 1.14), nor of 16 of 25, 8 of 50 and 4
of 100 (4.46, 1.13). Without `normal_scores` 6 of the 20 blocks of 20 were. Means of skewed squares
are not quite normal: resampling puts the share of refused tables at some 5 %.
"""

DRAW = ("d_k", "n_k", "n_q", "inputs")
"""Axes of a draw. Other sizes have draws of their own; the arms of scaling share one."""

SAME_Z = 1e-6
"""Below this difference two |z| of one draw are one number: of metrics that are functions of each
other, such as the entropy and its share of ln n_k or the gradients by logits and by scores, and of
arms that are the same at d_k = 1. Rounding moves z by less than 1e-9, and two different means of
one draw are as close once in about 10,000 draws.
"""


def normal_scores(z: np.ndarray, n_seeds: np.ndarray) -> np.ndarray:
    """Standard normal numbers that are as likely as these of Student's t; n_seeds - 1 is its df.

    >>> normal_scores(np.array([-4.302652729749464, 0.0]), np.array([3, 3])).round(6).tolist()
    [-1.959964, 0.0]
    """
    # The lower tail on both sides, which keeps its digits; what underflows counts as 37.
    tail = np.maximum(stdtr(n_seeds - 1, -np.abs(z)), np.finfo(float).tiny)
    return np.asarray(np.copysign(ndtri(tail), z))


def gate(table: pd.DataFrame) -> Gate | None:
    """Return the gate over a summary table; None where no point has theory and enough seeds.

    A z that repeats another one of the same draw counts once. float32 rows are left out: in
    saturated rows they differ from theory by more than sampling.
    """
    enough = (table["n_seeds"] >= GATED_SEEDS) & table["z"].notna()
    kept = table[enough & (table["dtype"] == "float64")]
    if kept.empty:
        return None
    z = normal_scores(kept["z"].to_numpy(dtype=float), kept["n_seeds"].to_numpy(dtype=float))
    draws = [group for _, group in kept.assign(size=np.abs(z)).groupby(list(DRAW))["size"]]
    size = np.concatenate([_distinct(group.to_numpy()) for group in draws])
    return Gate(len(size), len(draws), float(np.sqrt(np.mean(size**2))), float(np.max(size)))


def _distinct(values: np.ndarray) -> np.ndarray:
    rising = np.sort(values)
    return rising[np.diff(rising, prepend=-np.inf) > SAME_Z]


def read(path: Path, schema: Sequence[Column]) -> pd.DataFrame:
    """A table as a data frame with the schema's types.

    Raises TableError for other columns, for what is no such table at all, and where it was changed
    after it was written.
    """
    tables.refuse_changed(path)
    try:
        # As text first: some pandas versions read the last bit of a float wrong.
        frame = pd.read_csv(path, dtype=str, keep_default_na=False)
        return _typed(path, frame, schema)
    except (ValueError, OverflowError) as error:
        # Errors of pandas' parser are among these, and those of text that is no UTF-8.
        why = str(error).splitlines()[0]
        raise tables.TableError(f"{path} cannot be read as its table: {why}") from None


def _typed(path: Path, frame: pd.DataFrame, schema: Sequence[Column]) -> pd.DataFrame:
    if list(frame.columns) != [c.name for c in schema]:
        raise tables.TableError(f"{path} has the columns of another version; delete it")
    for column in schema:
        if column.read is not str:
            values = (
                frame[column.name].replace("", "nan") if column.optional else frame[column.name]
            )
            # With the type by name: a table without rows has it too, or it could not be joined.
            kind: Any = column.read
            frame[column.name] = pd.Series(map(kind, values), frame.index, dtype=kind)
    return frame


def exact_values(settings: Mapping[str, Any], table: pd.DataFrame) -> dict[tuple[Any, ...], float]:
    """exact.csv as `summarize` looks it up: under every covered input law and dtype."""
    laws = [name for name, law in settings.get("inputs", {}).items() if is_covered(law)]
    return {
        (d_k, n_k, n_q, law, dtype, scaling, metric): exact
        for d_k, n_k, n_q, scaling, metric, exact in table.itertuples(index=False, name=None)
        for law, dtype in itertools.product(laws, settings.get("dtype", ()))
    }


def main() -> None:
    """Summarize an experiment (second) of a run (its config first): runs.csv, exact.csv, output."""
    experiment, runs, exact, path = sys.argv[2], *map(Path, sys.argv[3:])
    settings = config.load(Path(sys.argv[1])).of(experiment)
    schema = EXPERIMENTS[experiment].COLUMNS
    known = exact_values(settings, read(exact, curves.COLUMNS))
    rows = summarize(read(runs, schema), schema, known)
    tables.write_guarded(path, tables.text(rows, columns(schema)))


if __name__ == "__main__":
    commands.run(main, "CONFIG", "EXPERIMENT", "RUNS.csv", "EXACT.csv", "SUMMARY.csv")
