"""Interpolate the means at a fixed sigma, for tables that need them at thousands of sigmas.

A mean over |q| takes the means of `fixed_sigma` at about 50 sigmas, and a curve over d_k has 100
such means at one n_k. The means at a fixed sigma are positive and analytic in it. So their
logarithms are interpolated piece by piece at Chebyshev nodes, where the error falls geometrically
with their number (Trefethen 2013, Approximation Theory and Approximation Practice, chapter 8). A
piece is computed when a sigma in it is first asked for, and depends on no other piece: a value is
the same whatever was asked before.

Accuracy: within 1e-12 of `fixed_sigma`, relative (measured: 7e-13 for the entropy, 1e-13 for the
others). A piece whose last coefficients have not vanished is not used.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from sqrtdk.theory import fixed_sigma
from sqrtdk.theory.fixed_sigma import FloatArray

NODES = 24
"""Nodes of a piece."""

FIRST, RATIO = 0.25, math.sqrt(2)
"""The first piece is from 0 to FIRST; every other one ends at RATIO times its beginning."""

SMALL = 2e-12
"""Largest of the last coefficients of a piece that has converged: above the rounding error of the
entropy, which is the least accurate mean."""

_POINTS = np.cos(math.pi * (np.arange(NODES) + 0.5) / NODES)
_VALUES_TO_COEFFICIENTS = (
    np.polynomial.chebyshev.chebvander(_POINTS, NODES - 1).T
    * np.where(np.arange(NODES) == 0, 1, 2)[:, None]
    / NODES
)


class Interpolated:
    """A function of sigma >= 0 with positive values: sigmas [m] to values [m, means]."""

    def __init__(self, function: Callable[[FloatArray], FloatArray]) -> None:
        self._function = function
        self._pieces: dict[int, FloatArray | None] = {}

    def __call__(self, sigmas: FloatArray) -> FloatArray:
        """Return the values at some sigmas."""
        with np.errstate(divide="ignore"):
            places = np.floor(np.log(sigmas / FIRST) / math.log(RATIO)) + 1
        places = np.maximum(places, 0).astype(np.int64)
        parts, order = [], []
        for place in np.unique(places).tolist():
            inside = np.flatnonzero(places == place)
            order.append(inside)
            parts.append(self._within(place, sigmas[inside]))
        return np.concatenate(parts)[np.argsort(np.concatenate(order))]

    def _within(self, place: int, sigmas: FloatArray) -> FloatArray:
        low, high = _ends(place)
        if place not in self._pieces:
            values = self._function((low + high) / 2 + (high - low) / 2 * _POINTS)
            with np.errstate(divide="ignore", invalid="ignore"):
                coefficients = _VALUES_TO_COEFFICIENTS @ np.log(values)
            has_converged = bool(np.max(np.abs(coefficients[-3:])) < SMALL)
            self._pieces[place] = coefficients if has_converged else None
        found = self._pieces[place]
        if found is None:
            return self._function(sigmas)
        x = (2 * sigmas - low - high) / (high - low)
        return np.asarray(np.exp(np.polynomial.chebyshev.chebval(x, found).T))


def _ends(place: int) -> tuple[float, float]:
    return (FIRST * RATIO ** (place - 1), FIRST * RATIO**place) if place else (0.0, FIRST)


class Tabulated:
    """The means of `fixed_sigma` at one n_k >= 2."""

    def __init__(self, n_k: int) -> None:
        self._weights = Interpolated(lambda sigmas: fixed_sigma.weight_means(sigmas, n_k))
        self._largest = Interpolated(lambda sigmas: fixed_sigma.max_weights(sigmas, n_k))

    def weight_means(self, sigmas: FloatArray, n_k: int) -> FloatArray:
        """Return what `fixed_sigma.weight_means` does."""
        return self._weights(sigmas)

    def max_weights(self, sigmas: FloatArray, n_k: int) -> FloatArray:
        """Return what `fixed_sigma.max_weights` does."""
        return self._largest(sigmas)


@lru_cache(maxsize=8)
def at(n_k: int) -> Tabulated:
    """Return the table of one n_k, which grows with what is asked of it."""
    return Tabulated(n_k)
