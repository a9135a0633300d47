"""Expected values of unrelated vectors at a head's own number of keys and spread of the logits.

The exact means of `fixed_sigma.given_sigma` at any n and σ, fast enough for thousands of heads:
exact nodes in σ and n, with splines between them.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy  # its modules load at first use, because the start of a run needs none of them

from sqrtdk.theory import fixed_sigma

SIGMA_NODES = 65
"""Nodes in σ / (1 + σ). Between them the splines are within 1e-5 of the exact means."""

N_NODES = 12
"""Nodes in ln n where a head's rows see more different numbers of keys than this."""

LARGEST = 256.0
"""σ up to which the exact integrals are used; larger σ use their 1/σ tail."""


class Expected(NamedTuple):
    """Means over n independent logits N(0, σ²)."""

    entropy_normalized: float
    max_weight: float


def unrelated(sigma: float, visible_keys: np.ndarray) -> Expected:
    """Return the mean of rows that see these numbers of keys, at one σ.

    Rows that see a single key are left out, as everywhere. NaN without rows or for a σ that is
    not finite.
    """
    sizes, weight = np.unique(visible_keys[visible_keys > 1], return_counts=True)
    if len(sizes) == 0 or not math.isfinite(sigma):
        return Expected(math.nan, math.nan)
    if len(sizes) <= N_NODES:
        values = np.array([_at(int(n), sigma) for n in sizes])
    else:
        spaced = np.geomspace(sizes[0], sizes[-1], N_NODES).round().astype(int)
        nodes = np.unique(np.clip(spaced, sizes[0], sizes[-1]))
        known = np.array([_at(int(n), sigma) for n in nodes])
        values = scipy.interpolate.CubicSpline(np.log(nodes), known)(np.log(sizes))
    entropy, max_weight = weight @ values / weight.sum()
    return Expected(float(entropy), float(max_weight))


def _at(n_k: int, sigma: float) -> tuple[float, float]:
    inside = min(sigma, LARGEST)
    entropy, gap = _curve(n_k)(inside / (1 + inside))
    tail = 1.0 if sigma <= LARGEST else LARGEST / sigma
    return float(entropy * tail), float(1 - gap * tail)


@lru_cache(maxsize=4096)
def _curve(n_k: int) -> "scipy.interpolate.CubicSpline":
    """Return entropy over ln n and 1 - E max p against σ / (1 + σ), as one spline."""
    end = LARGEST / (1 + LARGEST)
    # Denser at both ends, where the curves bend.
    x = end * (1 - np.cos(np.linspace(0, math.pi, SIGMA_NODES))) / 2
    found = fixed_sigma.given_sigma(x / (1 - x), n_k)
    values = np.stack([found.entropy_nats / math.log(n_k), found.max_weight_gap], axis=-1)
    return scipy.interpolate.CubicSpline(x, values)
