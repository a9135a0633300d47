"""Compute limits.csv: the exact d_k at which 1/√d_k fails for a match, and where 8/d_k holds.

A rule fails where the mean entropy is below half of ln n_k: attention is then decided before
anything is learned. It holds where it is above. All numbers are exact.
"""

from collections.abc import Iterator

import numpy as np

from sqrtdk import schema
from sqrtdk.experiments.exponent.measure import Settings
from sqrtdk.schema import Column
from sqrtdk.storage import tables
from sqrtdk.theory import points, related, thresholds

FAR = 4096
"""The largest d_k at which the rule 8/d_k is tested."""

COLUMNS = (
    schema.axis_column(schema.N_K),
    schema.axis_column(schema.INPUTS),
    Column(
        "root_fails",
        "The d_k from which on 1/√d_k fails: the exact mean entropy is below ln(n_k)/2. inf if it "
        f"does not up to {FAR}.",
    ),
    Column(
        "inverse_holds",
        "The d_k from which on 8/d_k, equal to 1/√d_k at 64, holds: the exact mean entropy is "
        f"above ln(n_k)/2. 1 if it does from 1 on, inf if it is below at {FAR}.",
    ),
    Column("root_entropy", f"Exact mean entropy over ln n_k with 1/√d_k at d_k = {FAR}.", "share"),
    Column("inverse_entropy", f"Exact mean entropy over ln n_k with 8/d_k at {FAR}.", "share"),
    Column("root_match", f"Exact mean weight of the match with 1/√d_k at d_k = {FAR}."),
    Column("inverse_match", f"Exact mean weight of the match with 8/d_k at d_k = {FAR}."),
)


def rows(settings: Settings) -> Iterator[tables.Row]:
    """Yield a row for each n_k and input law whose queries have a match."""
    for n_k in sorted(settings["n_k"]):
        for inputs, entry in sorted(settings["inputs"].items()):
            law = points.law_at(entry, FAR)
            if law is None or law.kind != "match" or n_k < 2:
                continue
            root, inverse = (
                related.expectations_of(law, n_k, FAR, factor) for factor in (FAR**-0.5, 8 / FAR)
            )
            yield {
                "n_k": n_k,
                "inputs": inputs,
                "root_fails": thresholds.match_d_k(
                    law, n_k, lambda d_k: d_k**-0.5, rising=False, most=FAR
                ),
                "inverse_holds": thresholds.match_d_k(
                    law, n_k, lambda d_k: 8 / d_k, rising=True, most=FAR
                ),
                "root_entropy": root.entropy_nats / np.log(n_k),
                "inverse_entropy": inverse.entropy_nats / np.log(n_k),
                "root_match": root.match_weight,
                "inverse_match": inverse.match_weight,
            }
