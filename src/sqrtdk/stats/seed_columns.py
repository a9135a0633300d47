"""Put numbers over seeds into derived tables: a column, and two for its 95 % interval."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from sqrtdk.schema import ANY, Column
from sqrtdk.stats.intervals import Estimate, MissingError, over_seeds, typical_ratio


def estimate_columns(
    name: str, meaning: str, unit: str = "", *, ends: str = "", optional: bool = True
) -> tuple[Column, Column, Column]:
    """Return the columns of a number and of the ends of its interval.

    The ends are named after `ends`, by default after the number itself.
    """
    low, high = _ends(ends or name)
    return (
        Column(name, meaning, unit, optional=optional),
        Column(low, "Lower end of its 95 % interval.", unit, optional=True),
        Column(high, "Upper end of its 95 % interval.", unit, optional=True),
    )


def estimate_row(name: str, found: Estimate, *, ends: str = "") -> dict[str, float]:
    """Return these columns of a row."""
    return dict(zip((name, *_ends(ends or name)), found[:3], strict=True))


def mean_row(
    name: str,
    seeds: Sequence[float] | np.ndarray | pd.Series,
    *,
    ends: str = "",
    within: tuple[float, float] = ANY,
) -> dict[str, float]:
    """Return the mean over seeds in these columns; nothing for no seed.

    `within` are the values that the number can have; see `bounded`.

    >>> mean_row("loss", [1.0, 1.0])
    {'loss': 1.0, 'loss_low': 1.0, 'loss_high': 1.0}
    """
    values = np.asarray(seeds, dtype=float)
    if not len(values):
        return {}
    return estimate_row(name, over_seeds(values, within=within), ends=ends)


def ratio_row(name: str, over: pd.Series, under: pd.Series) -> dict[str, float]:
    """Return the typical ratio of two numbers by seed in these columns; nothing for no seed."""
    found = (over / under).dropna()
    if found.empty:
        return {}
    return estimate_row(name, typical_ratio(found.to_numpy(dtype=float)))


def estimate_of(row: Mapping[Any, Any] | pd.Series, name: str, *, ends: str = "") -> Estimate:
    """Return the number of a row with its interval. Raises MissingError where it is empty."""
    found = Estimate(*(float(row[column]) for column in (name, *_ends(ends or name))))
    if np.isnan(found.mean):
        raise MissingError(f"the run has no {name.replace('_', ' ')}")
    return found


def _ends(name: str) -> tuple[str, str]:
    return f"{name}_low", f"{name}_high"
