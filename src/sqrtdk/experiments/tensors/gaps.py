"""Measure how the scale of a head's largest logits grows with the number of keys that it sees."""

import math
from typing import NamedTuple

import numpy as np

from sqrtdk.core.gaps import growth, separation
from sqrtdk.tensors.layers import Layer

FEWEST_KEYS, MOST_ROWS = 16, 48
"""The fewest keys of a query that counts, and the most queries of a head, evenly spaced in ln n."""


class Gaps(NamedTuple):
    """The gap-counting scale of a head; NaN where its queries do not see a growing past.

    gap_scale  factor at which the competitors of the largest logit weigh as much as it, median over
               the longer half of the queries
    gap_power  power of ln n that this factor follows
    """

    gap_scale: float
    gap_power: float


def of_head(
    layer: Layer, batch: int, head: int, *, scale: float, causal: bool, softcap: float | None
) -> Gaps:
    """Return the gap-counting scale of one query head of a layer."""
    n_q, n_k = layer.q.shape[-2], layer.k.shape[-2]
    if not causal or n_q != n_k or n_k <= FEWEST_KEYS:
        return Gaps(math.nan, math.nan)
    spaced = np.geomspace(FEWEST_KEYS, n_k, MOST_ROWS).round().astype(int)
    visible = np.unique(spaced)
    shared = layer.q.shape[1] // layer.k.shape[1]
    q = np.asarray(layer.q[batch, head, visible - 1], dtype=np.float64)
    k = np.asarray(layer.k[batch, head // shared], dtype=np.float64)
    logits = scale * (q @ k.T)
    if softcap is not None:
        logits = softcap * np.tanh(logits / softcap)
    logits[np.arange(n_k) >= visible[:, np.newaxis]] = -np.inf
    found = separation(logits)
    longer = found[len(found) // 2 :]
    return Gaps(float(np.median(longer)), growth(found, visible.astype(float)))
