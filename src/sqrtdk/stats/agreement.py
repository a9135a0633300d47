"""Test whether measurements agree with their exact expectations."""

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtri, stdtr


class AgreementTest(NamedTuple):
    """Agreement of measured means with exact ones over a whole table, as `normal_scores` of z.

    `points` counts distinct means, and `draws` the independent draws behind them. The means of one
    draw are correlated, so the test rests on fewer independent numbers than `points`.
    """

    points: int
    draws: int
    rms_z: float
    max_abs_z: float

    @property
    def rms_margin(self) -> float:
        """Return how far `rms_z` is inside its bounds: 1 in the middle, negative outside."""
        low, high = RMS_Z
        return 1 - abs(self.rms_z - (low + high) / 2) / ((high - low) / 2)

    @property
    def max_margin(self) -> float:
        """Return how far `max_abs_z` is below its bound: 1 at zero, negative above."""
        return 1 - self.max_abs_z / MAX_ABS_Z

    @property
    def passed(self) -> bool:
        """Return whether the deviations from theory look like standard normal numbers."""
        return self.rms_margin >= 0 and self.max_margin > 0


RMS_Z, MAX_ABS_Z = (0.8, 1.2), 4.5
"""Bounds of the test. Of 852 independent standard normal numbers, 1 table in 170 has one beyond
4.5. The distinct means of the default grid are correlated; for the mean square of z they are worth
about 170 independent ones, so its root has a standard deviation of about 0.054
(`docs/statistics.md`).
"""

MIN_TESTED_SEEDS = 20
"""Number of seeds from which a mean is tested.

Measured on the default grid (780 means) with 400 seeds in disjoint blocks and correct code. Of 35
blocks of 10 seeds some fail (largest |z| 4.65, rms of z up to 1.24). Of 20 blocks of 20 seeds none
fails (4.37, 1.14), nor of 16 of 25, 8 of 50 and 4 of 100 (4.46, 1.13). Without `normal_scores`
6 of the 20 blocks of 20 fail. Means of skewed squares are not quite normal: by resampling, about
5 % of correct tables fail.
"""

DRAW_AXES = ("d_k", "n_k", "n_q", "inputs")
"""Axes of a draw. Other sizes have draws of their own; scale rules share one."""

SAME_Z = 1e-6
"""Below this difference two |z| of one draw are one number: of metrics that are functions of each
other, such as the entropy and its share of ln n_k or the gradients by logits and by scores, and of
scale rules that are the same at d_k = 1. Rounding moves z by less than 1e-9, and two different
means of one draw are as close once in about 10,000 draws.
"""


def normal_scores(z: np.ndarray, n_seeds: np.ndarray) -> np.ndarray:
    """Convert Student's t values to standard normal ones of the same probability; df = n_seeds - 1.

    >>> normal_scores(np.array([-4.302652729749464, 0.0]), np.array([3, 3])).round(6).tolist()
    [-1.959964, 0.0]
    """
    # The lower tail on both sides keeps its digits. An underflow is treated as z = 37.
    tail = np.maximum(stdtr(n_seeds - 1, -np.abs(z)), np.finfo(float).tiny)
    return np.asarray(np.copysign(ndtri(tail), z))


def agreement_test(table: pd.DataFrame) -> AgreementTest | None:
    """Return the agreement test of a summary table, or None without points to test.

    A point needs an exact value and enough seeds. A z that repeats another one of the same draw
    counts once. float32 rows are left out: in saturated rows they differ from theory by more than
    sampling does.
    """
    draws = deviations(table)
    if not draws:
        return None
    size = np.concatenate(draws)
    return AgreementTest(
        len(size), len(draws), float(np.sqrt(np.mean(size**2))), float(np.max(size))
    )


def deviations(table: pd.DataFrame) -> list[np.ndarray]:
    """Return the distinct |z| of each draw of a summary table, as `normal_scores`."""
    enough = (table["n_seeds"] >= MIN_TESTED_SEEDS) & table["z"].notna()
    kept = table[enough & (table["dtype"] == "float64")]
    if kept.empty:
        return []
    z = normal_scores(kept["z"].to_numpy(dtype=float), kept["n_seeds"].to_numpy(dtype=float))
    draws = [group for _, group in kept.assign(size=np.abs(z)).groupby(list(DRAW_AXES))["size"]]
    return [_distinct(group.to_numpy()) for group in draws]


def _distinct(values: np.ndarray) -> np.ndarray:
    rising = np.sort(values)
    return rising[np.diff(rising, prepend=-np.inf) > SAME_Z]
