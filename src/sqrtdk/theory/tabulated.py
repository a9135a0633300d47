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

OF_WEIGHTS = 8
"""Columns of `fixed_sigma.weight_means`, which those of `fixed_sigma.max_weights` follow here."""


class Tabulated:
    """The means of `fixed_sigma` at one n_k >= 2."""

    def __init__(self, n_k: int) -> None:
        self._n_k = n_k
        self._pieces: dict[int, FloatArray | None] = {}

    def weight_means(self, sigmas: FloatArray, n_k: int) -> FloatArray:
        """Return what `fixed_sigma.weight_means` does."""
        return self._at(sigmas)[:, :OF_WEIGHTS]

    def max_weights(self, sigmas: FloatArray, n_k: int) -> FloatArray:
        """Return what `fixed_sigma.max_weights` does."""
        return self._at(sigmas)[:, OF_WEIGHTS:]

    def _at(self, sigmas: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            places = np.floor(np.log(sigmas / FIRST) / math.log(RATIO)) + 1
        places = np.maximum(places, 0).astype(np.int64)
        found = np.empty((len(sigmas), OF_WEIGHTS + 2))
        for place in np.unique(places).tolist():
            inside = places == place
            low, high = _ends(place)
            coefficients = self._piece(place)
            if coefficients is None:
                found[inside] = _direct(sigmas[inside], self._n_k)
            else:
                x = (2 * sigmas[inside] - low - high) / (high - low)
                found[inside] = np.exp(np.polynomial.chebyshev.chebval(x, coefficients).T)
        return found

    def _piece(self, place: int) -> FloatArray | None:
        """Return the coefficients [NODES, means] of a piece; None if it cannot be interpolated."""
        if place not in self._pieces:
            low, high = _ends(place)
            means = _direct((low + high) / 2 + (high - low) / 2 * _POINTS, self._n_k)
            self._pieces[place] = None
            if np.all(means > 0):
                coefficients = _VALUES_TO_COEFFICIENTS @ np.log(means)
                if np.max(np.abs(coefficients[-3:])) < SMALL:
                    self._pieces[place] = coefficients
        return self._pieces[place]


def _ends(place: int) -> tuple[float, float]:
    return (FIRST * RATIO ** (place - 1), FIRST * RATIO**place) if place else (0.0, FIRST)


def _direct(sigmas: FloatArray, n_k: int) -> FloatArray:
    parts = fixed_sigma.weight_means(sigmas, n_k), fixed_sigma.max_weights(sigmas, n_k)
    return np.concatenate(parts, axis=1)


@lru_cache(maxsize=8)
def at(n_k: int) -> Tabulated:
    """Return the table of one n_k, which grows with what is asked of it."""
    return Tabulated(n_k)
