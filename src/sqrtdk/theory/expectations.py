"""Exact expectations of softmax attention over unrelated Gaussian keys.

A query q and n_k keys k_j are independent N(0, I_d_k); the logits are scale * q.k_j and the
weights p = softmax(logits) (Vaswani et al. 2017, section 3.2.1, has scale = 1/sqrt(d_k)). Given q
the logits are independent N(0, sigma^2) with sigma = scale |q|, and |q|^2 is chi-squared with d_k
degrees of freedom. So each mean is a function of (sigma, n_k), averaged over |q|: this is the
random energy model (Derrida 1981) at inverse temperature sigma. Nothing here samples; entropies
are in nats, gradients are those of L = <G, O> with G and V independent N(0, 1).

The means at a fixed sigma are in `fixed_sigma`. Accuracy: as there, from d_k = 1 on.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np

from sqrtdk.core.checks import check_number, check_whole
from sqrtdk.theory import tabulated
from sqrtdk.theory.fixed_sigma import FloatArray, check_n_k, max_weights, weight_means

# The average over |q| is analytic only in |arg q| < pi/4, because the Gaussian of the logits is
# exp(-z^2 / (2 sigma^2)); hence the finer step. From d_k = _WIDE on the law of |q| stays clear of
# 0, and a normal density of sd 0.7 is integrated to 1e-16 by the wider one.
_STEP_Q, _STEP_Q_WIDE, _WIDE = 0.2, 0.4, 64.0

MOST_KEYS, MOST_D_K, MOST_SCALE = 10**8, 1e15, 1e6
"""Limits of arguments: beyond them an integral overflows, or takes seconds."""

Means: TypeAlias = Callable[[FloatArray, int], FloatArray]
"""A function of sigmas and n_k, such as `fixed_sigma.weight_means`."""


class Expectations(NamedTuple):
    """Means over q and the keys; ``grad_*_sq`` are mean squares per query, divided by d_v.

    For k and v, whose rows are keys, this is (1 / n_q) E|dK|^2 / d_v over the whole matrix.
    ``match_weight`` is the mean weight of the match, here of any key, and ``logit_sq`` the mean of
    the unbiased variance of a row's logits; it is 0 for a single key.
    """

    entropy_nats: float
    sum_sq_weights: float
    sum_sq_weights_gap: float
    sum_cube_weights: float
    max_weight: float
    max_weight_gap: float
    jacobian_sq: float
    grad_logits_sq: float
    grad_scores_sq: float
    grad_q_sq: float
    grad_k_sq: float
    grad_v_sq: float
    match_weight: float
    logit_sq: float


def expectations(n_k: int, d_k: float, scale: float) -> Expectations:
    """Return exact means for n_k keys of d_k dimensions and logits scale * q.k.

    Entropy in nats. The gradients, with s = scale and dP = G V', which given q, K and G is normal
    with variance |G_i|^2 (mean d_v) per entry:

    - logits: dS = J dP, so E|dS_i|^2 / d_v = E|J|_F^2; scores: dA = s dS.
    - q: dQ_i = s K' dS_i. Along q the keys are x, the standardized logits; the d_k - 1 other
      directions are independent of p. So s^2 [(d_k - 1) E|J|_F^2 + E|J x|^2].
    - k: dK = s dS' Q; cross terms of two queries vanish because their G are independent. So
      s^2 E[|q|^2 |J|_F^2], where |q| and J are dependent through sigma.
    - v: dV = P' G, so E sum p^2.

    d_k may be any real number >= 1 (|q|^2 / 2 is Gamma(d_k / 2)), which is what root finding
    needs. Raises TypeError for an n_k that is not a whole number and for other values that are not
    numbers; ValueError for n_k from outside of 1 to 10⁸, d_k of 1 to 10¹⁵ and scale of 0 to 10⁶.
    """
    return _exact(
        check_whole("n_k", n_k, least=1, most=MOST_KEYS),
        check_number("d_k", d_k, least=1.0, most=MOST_D_K),
        check_number("scale", scale, least=0.0, most=MOST_SCALE),
    )


@lru_cache(maxsize=4096)
def _exact(n_k: int, d_k: float, scale: float) -> Expectations:
    return _of(n_k, d_k, scale, weight_means, max_weights)


def tabulated_expectations(n_k: int, d_k: float, scale: float) -> Expectations:
    """Return the same within 1e-12, in less time if there are many points of one n_k."""
    table = tabulated.at(n_k)
    return _of(n_k, d_k, scale, table.weight_means, table.max_weights)


def _of(n_k: int, d_k: float, scale: float, weights: Means, largest: Means) -> Expectations:
    entropy, *sums, jacobian, grad_q, grad_k = averages(n_k, d_k, scale, weights)
    if n_k == 1:
        max_weight, max_weight_gap = 1.0, 0.0
    else:
        norm, probability = query_norms(d_k, scale)
        max_weight, max_weight_gap = map(float, probability @ largest(scale * norm, n_k))
    sum_sq, sum_sq_gap, sum_cube = sums
    return Expectations(
        entropy_nats=entropy,
        sum_sq_weights=sum_sq,
        sum_sq_weights_gap=sum_sq_gap,
        sum_cube_weights=sum_cube,
        max_weight=max_weight,
        max_weight_gap=max_weight_gap,
        jacobian_sq=jacobian,
        grad_logits_sq=jacobian,
        grad_scores_sq=scale**2 * jacobian,
        grad_q_sq=grad_q,
        grad_k_sq=grad_k,
        grad_v_sq=sum_sq,
        match_weight=1 / n_k,
        logit_sq=scale**2 * d_k if n_k > 1 else 0.0,
    )


@lru_cache(maxsize=64)
def query_norms(d_k: float, scale: float, steepness: float = 0.0) -> tuple[FloatArray, FloatArray]:
    """Return nodes |q| and probabilities of the chi law with d_k degrees of freedom, real d_k >= 1.

    `steepness` is for means that depend on |q| through N(c|q|, sd²) as well: c / sd. Off the real
    axis that density grows as exp((c / sd)² Im(q)² / 2), which takes smaller steps.

    |q| = ln(1 + exp(v - e^-v)) on a uniform grid of v: linear far from 0, doubly exponential at 0.
    The means change where scale |q| is about 1; there d ln|q| / dv grows as ln scale, so does the
    number of nodes.
    Gauss-Laguerre in |q|^2 / 2 would be natural but converges slowly at small d_k: the means are
    analytic only in a sector of |q|, and E max p is a function of |q| there, not of |q|^2.
    """
    if not 1 <= d_k < math.inf:
        raise ValueError(f"d_k must be finite and >= 1, got {d_k}")
    center = math.sqrt(d_k)
    narrow = _STEP_Q / (1 + math.log(max(1.0, scale)))
    step = narrow if d_k < _WIDE else _STEP_Q_WIDE
    # The trapezoid error exp(-(2 pi / step)² / 4a), a = 1 + (c / sd)² / 2, at e^-37.
    step = min(step, math.pi / math.sqrt(37 * (1 + steepness**2 / 2)))
    v = np.arange(max(-4.5, center - 9), center + 9, step)
    e = v - np.exp(-v)
    norm = np.logaddexp(0, e)
    # Relative to the center, because d_k ln |q| and |q|^2 / 2 are large and nearly equal.
    off = norm - center
    log_density = (d_k - 1) * np.log(norm / center) - off * (norm + center) / 2
    weight = np.exp(log_density + e - norm) * (1 + np.exp(-v))
    kept = weight > 1e-20 * weight.max()
    return norm[kept], weight[kept] / weight[kept].sum()


def averages(
    n_k: int, d_k: float, scale: float, weights: Means = weight_means
) -> tuple[float, ...]:
    """Return E of H, sum p^2, 1 - sum p^2, sum p^3, |J|_F^2, |dQ_i|^2 and |dK|^2."""
    check_n_k(n_k)
    if not 0 <= scale < math.inf:
        raise ValueError(f"scale must be finite and >= 0, got {scale}")
    norm, probability = query_norms(d_k, scale)
    if n_k == 1:
        return 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0
    _, entropy, sum_sq, sum_sq_gap, sum_cube, _, jacobian, jacobian_x = weights(scale * norm, n_k).T
    grad_q = scale**2 * ((d_k - 1) * jacobian + jacobian_x)
    grad_k = (scale * norm) ** 2 * jacobian
    fields = np.stack([entropy, sum_sq, sum_sq_gap, sum_cube, jacobian, grad_q, grad_k])
    return tuple((fields @ probability).tolist())
