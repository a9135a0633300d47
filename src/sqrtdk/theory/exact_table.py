"""exact.csv, the exact curves of a run: every metric that theory covers, also between grid points.

summary.csv takes its exact values from here, and the figures their curves.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from sqrtdk import schema
from sqrtdk.schema import Column
from sqrtdk.storage import tables
from sqrtdk.theory.expectations import Expectations
from sqrtdk.theory.points import Place, Point

COLUMNS = (
    Column("d_k", "Dimension; between the grid's values a real number.", axis=True),
    *(schema.axis_column(key) for key in (schema.N_K, schema.N_Q, schema.INPUTS, schema.SCALING)),
    Column("metric", "Column of runs.csv.", read=str, axis=True),
    Column("exact", "Exact expectation; for a column pooled as rms, root of that of the square."),
)


BEHIND_LOGITS = ("grad_scores", "grad_q", "grad_k")
"""Beginnings of the columns that depend on how the logits follow from q and k."""


def value(metric: str, point: Point, found: Expectations, n_q: int) -> float | None:
    """Return the exact value of a column of runs.csv, or None without theory.

    The rows of the gradients of k and v are keys, while the mean squares of `expectations` are per
    query. So these columns get the factor n_q / n_k.
    """
    match metric:
        case "logit_std":
            return float(found.logit_sq**0.5) if point.n_k > 1 else None
        case "entropy_normalized":
            return found.entropy_nats / math.log(point.n_k) if point.n_k > 1 else None
        case "entropy_nats" | "sum_sq_weights" | "max_weight" | "max_weight_gap" | "match_weight":
            return float(getattr(found, metric))
        case "jacobian_norm":
            return float(found.jacobian_sq**0.5)
        case "grad_logits_rms" | "grad_scores_rms" | "grad_q_rms":
            return float(getattr(found, metric.replace("_rms", "_sq")) ** 0.5)
        case "grad_k_rms" | "grad_v_rms":
            square = getattr(found, metric.replace("_rms", "_sq"))
            return float((n_q / point.n_k * square) ** 0.5)
    return None


def rows(
    found: Iterable[Place],
    known: Mapping[Point, Expectations],
    *,
    n_qs: Sequence[int],
    metrics: Sequence[str],
) -> list[tables.Row]:
    """Return every exact value at some points, sorted by axes."""
    result: list[tables.Row] = []
    for inputs, scaling, point, of_logits in found:
        for n_q in n_qs:
            axes: tables.Row = {
                "d_k": point.d_k,
                "n_k": point.n_k,
                "n_q": n_q,
                "inputs": inputs,
                "scaling": scaling,
            }
            for metric in metrics:
                if of_logits and metric.startswith(BEHIND_LOGITS):
                    continue
                number = value(metric, point, known[point], n_q)
                if number is not None:
                    result.append(axes | {"metric": metric, "exact": number})
    return sorted(result, key=tables.axes_of(COLUMNS))
