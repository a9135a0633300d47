"""Measure one cell with the readable formulas of `attention`, `gradients` and `metrics`.

The kernel calls this for cells in which its fast path meets an infinity, NaN or no pairs at all.
The queries are processed in blocks, so the memory does not grow with n_q × n_k.
"""

import math
from typing import NamedTuple

import numpy as np

from sqrtdk.core import metrics
from sqrtdk.core.attention import (
    ScaleRule,
    attention,
    needs_all_queries,
    sink_of,
    with_sink,
)
from sqrtdk.core.gradients import gradients
from sqrtdk.core.metrics import RowMetrics, row_metrics
from sqrtdk.core.shapes import Bool, Float, Floats, Mask


class Cell(NamedTuple):
    """The measurements of one cell; see `kernel.Measured`."""

    scale: float
    logit_std: Floats
    rows: RowMetrics
    norms: dict[str, Floats]
    dead_entries: float


def measure_cell(
    q: Float[Floats, "n_q d_k"],
    k: Float[Floats, "n_k d_k"],
    v: Float[Floats, "n_k d_v"],
    g: Float[Floats, "n_q d_v"],
    rule: ScaleRule,
    mask: Bool[Mask, "n_q n_k"] | None,
    *,
    dead_below: float,
    block: int,
) -> Cell:
    """Measure q [n_q, d_k], k [n_k, d_k], v [n_k, d_v] and g = dL/d output [n_q, d_v].

    The mask is [n_q, n_k]; `block` is the number of queries that are worked on together, if the
    rule does not need all of them.
    """
    if needs_all_queries(rule):
        block = max(len(q), 1)
    rows, found = [], []
    d_k, d_v = np.zeros_like(k), np.zeros_like(v)
    spread: list[Floats] = []
    n_spread = n_pairs = 0
    dead = 0.0
    for start in range(0, max(len(q), 1), block):
        queries = slice(start, start + block)
        seen = None if mask is None else mask[queries]
        forward = attention(q[queries], k, v, scale=rule, mask=seen)
        backward = gradients(q[queries], k, v, g[queries], forward, scale=rule)
        rows.append(metrics_of_rows(forward.logits, sink_of(rule)))
        found.append([metrics.row_norms(getattr(backward, x)) for x in ("logits", "scores", "q")])
        d_k += backward.k
        d_v += backward.v
        visible = forward.logits != -np.inf
        counted = int(np.count_nonzero(np.count_nonzero(visible, axis=-1) > 1))
        if counted:
            spread.append(metrics.logit_std(forward.logits) * np.sqrt(q.dtype.type(counted)))
            n_spread += counted
        pairs = int(np.count_nonzero(visible))
        if pairs:
            share = metrics.dead_entries(backward.logits, visible, below=dead_below)
            dead += float(share) * pairs
            n_pairs += pairs
    by_query = [np.concatenate(parts) for parts in zip(*found, strict=True)]
    of_keys = [metrics.row_norms(d_k), metrics.row_norms(d_v)]
    return Cell(
        scale=rule.mean_factor(q, k, mask),
        logit_std=metrics.row_norms(np.array([*spread, 0.0], q.dtype))
        / (q.dtype.type(n_spread) if n_spread else np.nan) ** 0.5,
        rows=RowMetrics(*(np.concatenate(parts) for parts in zip(*rows, strict=True))),
        norms=dict(zip(("logits", "scores", "q", "k", "v"), by_query + of_keys, strict=True)),
        dead_entries=dead / n_pairs if n_pairs else math.nan,
    )


def metrics_of_rows(
    logits: Float[Floats, "rows n_k"], sink: float | Float[Floats, "rows 1"] | None
) -> RowMetrics:
    """Return the metrics of rows of logits, in which a sink counts as one more key.

    A query that sees no key has undefined metrics, with or without a sink.
    """
    if sink is None:
        return row_metrics(logits)
    sees = np.any(logits != -np.inf, axis=-1)
    found = row_metrics(with_sink(logits, sink))
    return RowMetrics(*(np.where(sees, metric, np.nan) for metric in found))
