"""Compute the limit of the exact expectations at a large spread of the logits."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sqrtdk.theory.fixed_sigma import FloatArray, expected_max


class LargeSigma(NamedTuple):
    """Leading order at large sigma; each field has the shape of sigma."""

    entropy_nats: FloatArray
    sum_sq_weights: FloatArray
    max_weight: FloatArray
    max_weight_gap: FloatArray
    jacobian_sq: FloatArray


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
