"""Average the heads of each file over inputs and batch entries, and rank them by deviation."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from sqrtdk.experiments.tensors import gaps, measure
from sqrtdk.experiments.tensors.measure import Settings
from sqrtdk.schema import Column
from sqrtdk.storage.tables import Row

_KNOWN = {column.name: column for column in measure.COLUMNS}

AXES = ("path", "scaling", "layer", "head")

MEANS = (
    *("visible_keys", "norms_std", "alignment"),
    *("entropy_normalized", "entropy_normalized_expected", "entropy_normalized_deviation"),
    *("max_weight", "max_weight_expected", "max_weight_deviation"),
    *("saturated_rows", "dead_rows", *gaps.Gaps._fields),
)
"""Columns of runs.csv whose mean over inputs and batch entries is here."""

COLUMNS: tuple[Column, ...] = (
    *(_KNOWN[name] for name in AXES),
    _KNOWN["d_k"],
    Column("inputs", "Inputs and batch entries that the row averages.", read=int),
    Column(
        "logit_std",
        "σ: standard deviation of the logits across the keys of a query, root mean square over "
        "queries and inputs.",
        optional=True,
    ),
    *(_KNOWN[name] for name in MEANS),
    Column("max_logit", "Largest logit over all inputs.", optional=True),
    Column(
        "place",
        "Place of the head in its file and scale rule by the size of "
        "entropy_normalized_deviation, from 1.",
        read=int,
    ),
)


def rows(settings: Settings, runs: pd.DataFrame) -> Iterator[Row]:
    """Yield a row for each file, scale rule and head, sorted by these."""
    axes = list(AXES)
    groups = runs.groupby(axes, sort=True)
    table = groups[list(MEANS)].mean()
    table["d_k"] = groups["d_k"].first()
    table["inputs"] = groups.size()
    table["logit_std"] = np.sqrt((runs["logit_std"] ** 2).groupby([runs[x] for x in axes]).mean())
    table["max_logit"] = groups["max_logit"].max()
    size = table["entropy_normalized_deviation"].abs().fillna(-1.0)
    # Heads with the same deviation, such as the copies of one, keep their order.
    ranks = size.groupby(level=["path", "scaling"]).rank(ascending=False, method="first")
    table["place"] = ranks.astype(int)
    for row in table.reset_index().to_dict("records"):
        yield {str(name): value for name, value in row.items()}
