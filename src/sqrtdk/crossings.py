"""From which d_k on: where curves of the unscaled arm cross, measured and exact.

One row says where half of the entropy is gone without scaling; the others, for each gradient,
from which d_k on the unscaled arm is below the scaled one, for the root mean square and for the
typical row. The two differ by orders of magnitude, which is the point of the table.
"""

import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from sqrtdk import commands, config, keys, summary, tables, theory
from sqrtdk.estimates import Curve, Estimate, MissingError, crossing
from sqrtdk.exact import is_covered
from sqrtdk.experiments import scaling
from sqrtdk.keys import Column
from sqrtdk.series import series_of

HALF = "half_entropy"
GRADIENTS: tuple[Literal["logits", "scores", "q", "k", "v"], ...] = (
    "logits",
    "scores",
    "q",
    "k",
    "v",
)

COLUMNS = (
    *(keys.axis_column(key) for key in (keys.N_K, keys.N_Q, keys.INPUTS, keys.DTYPE)),
    Column(
        "quantity",
        "half_entropy: where the unscaled entropy falls to half of ln n_k. Otherwise a column of "
        "runs.csv: from where on it is smaller without scaling than with it.",
        read=str,
        axis=True,
    ),
    Column(
        "d_k",
        "The d_k of the last crossing, interpolated between values of the grid. Empty when there "
        "is none.",
        "dimensions",
        optional=True,
    ),
    Column("ci_low", "Where the ends of the 95 % intervals cross, lower.", optional=True),
    Column("ci_high", "Where the ends of the 95 % intervals cross, upper.", optional=True),
    Column(
        "beyond",
        "Where there is no crossing: never, if it is not below at the grid's largest d_k; always, "
        "if it is below at the smallest d_k above 1.",
        read=str,
    ),
    Column("exact", "The exact d_k; inf where there is none. Empty without theory.", optional=True),
    Column(
        "two_ln_n_k",
        "2 ln n_k. In the random energy model, the limit of many keys, all of the entropy is gone "
        "from there on, and half of it at half of that d_k.",
    ),
)


def rows(settings: Mapping[str, Any], table: pd.DataFrame) -> Iterator[tables.Row]:
    """Every crossing of every series of the summary table that can have one."""
    quantities = [f"grad_{x}_{pooled}" for x in GRADIENTS for pooled in ("rms", "median")]
    for series in series_of(settings, table):
        covered = is_covered(settings["inputs"][series.axes["inputs"]])
        for quantity in (HALF, *quantities):
            try:
                curve, level = (
                    (series.curve("unscaled", "entropy_normalized"), 0.5)
                    if quantity == HALF
                    else (series.ratio(quantity), 1.0)
                )
            except MissingError:
                continue
            found, beyond = _below_from(curve, level)
            yield {
                **series.axes,
                "quantity": quantity,
                "d_k": found.mean,
                "ci_low": found.low,
                "ci_high": found.high,
                "beyond": beyond,
                "exact": _exact(quantity, series.n_k) if covered else math.nan,
                "two_ln_n_k": 2 * math.log(series.n_k),
            }


def _below_from(curve: Curve, level: float) -> tuple[Estimate, str]:
    """From which d_k on the curve stays below the level; without one, never or always."""
    # At d_k = 1 the arms are the same, and a ratio of 1 there is no crossing.
    above_one = {d_k: point for d_k, point in curve.items() if d_k > 1}
    below = [point.mean < level for point in above_one.values()]
    if not below or not below[-1]:
        return Estimate(math.nan), "never"
    if all(below):
        return Estimate(math.nan), "always"
    return crossing(above_one, level) or Estimate(math.nan), ""


def _exact(quantity: str, n_k: int) -> float:
    """The exact crossing; infinite where there is none, NaN without theory."""
    if quantity == HALF:
        return theory.half_entropy_d_k(n_k)
    exact = {f"grad_{x}_rms": x for x in GRADIENTS}
    return theory.gradient_crossing_d_k(n_k, exact[quantity]) if quantity in exact else math.nan


def main() -> None:
    """Write the crossings of the run whose config is first, by its summary.csv, to the third."""
    settings = config.load(Path(sys.argv[1])).of("scaling")
    table = summary.read(Path(sys.argv[2]), summary.columns(scaling.COLUMNS))
    tables.write_guarded(Path(sys.argv[3]), tables.text(rows(settings, table), COLUMNS))


if __name__ == "__main__":
    commands.run(main, "CONFIG", "SUMMARY.csv", "CROSSINGS.csv")
