"""Measure how a head's largest weights change with the number of keys that its queries see.

Powers of ln n multiply the logits of a query with n keys by (ln n / ln 16)^power, as in `length`.
"""

import math
from typing import NamedTuple

import numpy as np

from sqrtdk.core.gaps import growth, separation
from sqrtdk.core.shapes import Floats
from sqrtdk.core.slopes import sign_change, slope
from sqrtdk.tensors.layers import Layer

FEWEST_KEYS, MOST_ROWS = 16, 48
"""The fewest keys of a query that counts, and the most queries of a head, evenly spaced in ln n."""

POWERS: dict[str, float] = {"0": 0.0, "half": 0.5, "1": 1.0, "2": 2.0}
"""Powers of ln n, by the ends of the names of their columns."""

MOST, STEPS = 2.5, 10
"""The largest power that may be the best one, and the steps of the grid up to there."""


class Gaps(NamedTuple):
    """How a head depends on the number of keys; NaN where its queries do not see a growing past.

    gap_scale           factor at which the competitors of the largest logit weigh as much as it,
                        median over the longer half of the queries
    gap_power           power of ln n that this factor follows
    power_max_weight    power of ln n under which the largest weight has no slope over ln n
    power_entropy       the same of the entropy over ln n; both NaN if no power from 0 to 2.5 does
    max_weight_log_...  largest weight of the longer half of the queries over that of the shorter
                        half, under each of `POWERS`
    entropy_log_...     the same of the entropy over ln n
    """

    gap_scale: float = math.nan
    gap_power: float = math.nan
    power_max_weight: float = math.nan
    power_entropy: float = math.nan
    max_weight_log_0: float = math.nan
    max_weight_log_half: float = math.nan
    max_weight_log_1: float = math.nan
    max_weight_log_2: float = math.nan
    entropy_log_0: float = math.nan
    entropy_log_half: float = math.nan
    entropy_log_1: float = math.nan
    entropy_log_2: float = math.nan


def of_head(
    layer: Layer, batch: int, head: int, *, scale: float, causal: bool, softcap: float | None
) -> Gaps:
    """Return what the rows of one query head of a layer say about more keys."""
    n_q, n_k = layer.q.shape[-2], layer.k.shape[-2]
    if not causal or n_q != n_k or n_k <= FEWEST_KEYS:
        return Gaps()
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
    return Gaps(
        float(np.median(longer)),
        growth(found, visible.astype(float)),
        **_under_powers(logits, visible.astype(float)),
    )


def _under_powers(logits: Floats, n: Floats) -> dict[str, float]:
    """Return the best powers of ln n and what the powers in use keep, by the names of `Gaps`."""
    below = logits - np.max(logits, axis=-1, keepdims=True)
    seen = np.where(np.isfinite(below), below, 0.0)
    base = np.log(n) / math.log(FEWEST_KEYS)

    def both(power: float) -> tuple[Floats, Floats]:
        factor = base**power
        e = np.exp(factor[:, np.newaxis] * below)
        total = np.sum(e, axis=-1)
        entropy = np.log(total) - factor * np.vecdot(e, seen) / total
        return 1.0 / total, entropy / np.log(n)

    grid = np.linspace(0.0, MOST, STEPS + 1)
    curves = zip(*(both(float(power)) for power in grid), strict=True)
    kept = {end: both(power) for end, power in POWERS.items()}
    found: dict[str, float] = {}
    for place, (name, curve) in enumerate(zip(("max_weight", "entropy"), curves, strict=True)):
        found[f"power_{name}"] = sign_change(grid, slope(np.log(n), np.array(curve)))
        for end, values in kept.items():
            found[f"{name}_log_{end}"] = _ratio(values[place])
    return found


def _ratio(values: Floats) -> float:
    """Return the mean of the longer half of the queries over that of the shorter half."""
    half = len(values) // 2
    shorter = float(values[:half].mean())
    return float(values[half:].mean()) / shorter if shorter > 0 else math.nan
