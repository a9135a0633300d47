"""Compute start.csv: entropy of a row at initialisation against the number of keys that it sees."""

import math
from collections.abc import Iterator

import pandas as pd

from sqrtdk import schema
from sqrtdk.core import scale_rules
from sqrtdk.experiments.transformer.measure import D_HEAD, ROWS, TASK, Settings
from sqrtdk.schema import Column, Entry
from sqrtdk.stats.intervals import over_seeds
from sqrtdk.storage import tables
from sqrtdk.theory.expectations import averages
from sqrtdk.theory.points import cosines
from sqrtdk.theory.related import Law, expectations_of

COLUMNS = (
    *(schema.axis_column(key) for key in (TASK, D_HEAD, schema.SCALING)),
    Column("n_k", "Number of keys that the row sees: its position.", "keys", read=int, axis=True),
    Column("n_seeds", "Number of seeds.", "seeds", read=int),
    Column("entropy", "Entropy of the row in layer 0 before training, mean over seeds.", "nats"),
    Column("ci_low", "Lower end of its 95 % interval.", "nats", optional=True),
    Column("ci_high", "Upper end.", "nats", optional=True),
    Column(
        "exact",
        "Exact entropy for this many unrelated keys of d_head dimensions and this scale; of "
        "QK-norm that on the sphere. Empty for other rules that are not one factor.",
        "nats",
        optional=True,
    ),
)


def rows(settings: Settings, runs: pd.DataFrame) -> Iterator[tables.Row]:
    """Yield the rows of start.csv for a run's runs.csv."""
    first = runs[(runs["step"] == 0) & (runs["network"] == "transformer")]
    # All rates begin with the same parameters.
    first = first[first["learning_rate"] == first["learning_rate"].min()]
    for (task, d_head, scaling), cells in first.groupby(["task", "d_head", "scaling"], sort=True):
        rule = settings["scaling"][str(scaling)]
        for n in ROWS:
            values = cells[f"entropy_row_{n}"].dropna().to_numpy(float)
            if not len(values):
                continue
            found = over_seeds(values, within=schema.NOT_NEGATIVE)
            yield {
                "task": str(task),
                "d_head": int(d_head),
                "scaling": str(scaling),
                "n_k": n,
                "n_seeds": len(values),
                "entropy": found.mean,
                "ci_low": found.low,
                "ci_high": found.high,
                "exact": _exact(rule, int(d_head), n),
            }


def _exact(rule: Entry, d_head: int, n_k: int) -> float:
    """Return the exact mean entropy of n_k unrelated keys, or NaN without theory."""
    factor = scale_rules.factor(rule, d_k=d_head, n_k=n_k)
    if factor is not None:
        return float(averages(n_k, d_head, factor)[0])
    point = cosines(rule, Law(), n_k=n_k, d_k=d_head)
    if point is None:
        return math.nan
    return expectations_of(point.law, n_k, point.d_k, point.scale).entropy_nats
