"""Compute the limits of the exact expectations: small and large spread of the logits."""

import math
from typing import NamedTuple

import numpy as np
import scipy  # its modules load at first use, because the start of a run needs none of them
from numpy.typing import ArrayLike

from sqrtdk.theory.expectations import FloatArray, check_n_k, critical_sigma, expected_max


class LargeSigma(NamedTuple):
    """Leading order at large sigma; each field has the shape of sigma."""

    entropy_nats: FloatArray
    sum_sq_weights: FloatArray
    max_weight: FloatArray
    max_weight_gap: FloatArray
    jacobian_sq: FloatArray


def small_sigma_entropy(sigma: ArrayLike, n_k: int) -> FloatArray:
    """Return ln n - (sigma^2 / 2)(1 - 1/n) nats, accurate to O(sigma^4), with the shape of sigma.

    With scale = 1/sqrt(d_k), sigma is about 1: ln n - 1/2, that is 0.61 n effective keys.
    """
    check_n_k(n_k)
    return np.asarray(math.log(n_k) - np.square(sigma) / 2 * (1 - 1 / n_k), dtype=np.float64)


def random_energy_entropy(sigma: ArrayLike, n_k: int) -> FloatArray:
    """Return max(0, ln n - sigma^2 / 2) nats: the extensive part as n grows (Derrida 1981)."""
    check_n_k(n_k)
    return np.maximum(0.0, math.log(n_k) - np.square(np.asarray(sigma, dtype=np.float64)) / 2)


def random_energy_sum_sq_weights(sigma: ArrayLike, n_k: int) -> FloatArray:
    """Return max(0, 1 - sigma_c / sigma): the limit of sum p^2 (Derrida 1981), for sigma > 0."""
    return np.maximum(0.0, 1 - critical_sigma(n_k) / np.asarray(sigma, dtype=np.float64))


def large_sigma(sigma: ArrayLike, n_k: int) -> LargeSigma:
    """Return the laws that hold for any n_k if sigma is well above sqrt(2 ln n), for sigma > 0.

    Then only near-ties of the two largest logits count. The gap of the two largest of n standard
    normals has density n (n-1) int f^2 F^(n-2) = m_n at 0, so a gap z of the logits has density
    m_n / sigma, and with p = 1 / (1 + e^-z) the integrals over z > 0 are: 1 of 1 - sum p^2
    = 2 p (1-p); ln 2 of 1 - max p; pi^2 / 6 of the entropy; 1/3 of |J|_F^2 = 4 p^2 (1-p)^2. The
    weights are cut at 0, where the law no longer holds. Relative error below sqrt(2 ln n) / sigma
    (measured), from the bend of that density and from ties of three.
    """
    near_tie = expected_max(n_k) / np.asarray(sigma, dtype=np.float64)
    gap = math.log(2) * near_tie
    return LargeSigma(
        entropy_nats=math.pi**2 / 6 * near_tie,
        sum_sq_weights=np.maximum(0.0, 1 - near_tie),
        max_weight=np.maximum(0.0, 1 - gap),
        max_weight_gap=gap,
        jacobian_sq=near_tie / 3,
    )


def gap_rate(n_k: int) -> float:
    """Return lambda_n = n f(F^-1(1 - 1/n)): the rate of the gap of the two largest of n normals.

    Near the maximum the n points are a Poisson process whose gap is exponential with this rate.
    0 for one key, which has no rival.
    """
    check_n_k(n_k)
    # -ndtri(1/n) rather than ndtri(1 - 1/n), which would round at large n.
    return n_k * math.exp(-(float(scipy.special.ndtri(1 / n_k)) ** 2) / 2) / math.sqrt(2 * math.pi)


def median_max_weight_gap(sigma: ArrayLike, n_k: int) -> FloatArray:
    """Return 2^(-sigma / lambda_n): the median of 1 - max p at large sigma, for n_k >= 2.

    1 - max p is about exp(-sigma gap), and the median gap is ln 2 / lambda_n. The mean decays as
    1 / sigma instead: rare near-ties carry it. Raises ValueError for n_k < 2.
    """
    if n_k < 2:
        raise ValueError(f"a gap needs n_k >= 2, got {n_k}")
    return np.exp2(-np.asarray(sigma, dtype=np.float64) / gap_rate(n_k))
