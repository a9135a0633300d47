"""Compute exact means over the keys where one of them, the match, has another law.

The logits are sigma x_j: n_k - 1 independent x_j ~ N(0, 1), and the match x_0 ~ N(mean, sd²),
independent of them. For a query of given length this is what a match of given cosine is, see
`related`. Everything is as in `fixed_sigma`, where at each t = e^u the keys are independent: the
match contributes site functions b of its own, and N = n_k - 1 others share theirs, a.

Accuracy: relative 1e-10 or better for sd >= 0.05, also of means that only rare near-ties carry.
"""

import math
from typing import NamedTuple

import numpy as np
import scipy  # its modules load at first use, because the start of a run needs none of them

from sqrtdk.theory.fixed_sigma import (
    GAP_NODES,
    STEP,
    TAIL,
    FloatArray,
    Sites,
    check_n_k,
    legendre,
    log1m,
    normal_density,
    sites_over_bump,
    sites_over_logits,
    span_of_max,
)

_REACH = 8.6
"""Standard deviations from the mean at which a normal density is e^-37 of its peak."""


class GivenMatch(NamedTuple):
    """Means at fixed sigma; p_0 is the weight of the match, and J = diag(p) - p p'.

    ``weight_sum`` is E sum p, computed like the rest though it is 1: the error of the quadrature.
    ``jacobian_match_sq`` is E|J e_0|^2, the part of |J|_F^2 in the match's column. The others are
    as in `fixed_sigma.GivenSigma`. Each field has the shape of the given means.
    """

    weight_sum: FloatArray
    match_weight: FloatArray
    entropy_nats: FloatArray
    sum_sq_weights: FloatArray
    sum_sq_weights_gap: FloatArray
    sum_cube_weights: FloatArray
    jacobian_sq: FloatArray
    jacobian_match_sq: FloatArray
    jacobian_x_sq: FloatArray
    max_weight: FloatArray
    max_weight_gap: FloatArray


def given_match(sigma: float, n_k: int, mean: FloatArray, sd: FloatArray) -> GivenMatch:
    """Return exact means for one sigma and matches x_0 ~ N(mean, sd²), arrays of one shape [m].

    With a[k] = E[w^k e^-w] and phi = E[e^-w] of one of the N others, and b[k] and phi_0 of the
    match, integrals over u:

    - E p_0^k = 1 / Gamma(k) int b[k] phi^N, and E p_j^k = 1 / Gamma(k) int a[k] phi^(N-1) phi_0.
    - E H = sum over keys of E[p (ln Z - z)] = -int E[w (ln w + gamma) e^-w] times the phi of the
      others. For the match, whose p_0 may be nearly 1, phi^N - 1 stands for phi^N: the integral of
      the kernel alone is 0, and what is left does not cancel.
    - Sums over pairs and triples of different keys, as in `fixed_sigma`, have a term for each place
      that the match can take.

    Raises ValueError for n_k < 1, a sigma below 0 or not finite, and an sd that is not above 0.
    """
    check_n_k(n_k)
    if not 0 <= sigma < math.inf:
        raise ValueError(f"sigma must be finite and >= 0, got {sigma}")
    if not (np.all(np.isfinite(mean)) and np.all((sd > 0) & np.isfinite(sd))):
        raise ValueError(f"mean and sd must be finite, and sd above 0; got {mean} and {sd}")
    one, zero = np.ones_like(mean), np.zeros_like(mean)
    if n_k == 1:
        return GivenMatch(one, one, zero, one, zero, one, zero, zero, zero, one, zero)
    found = [*_sums(sigma, n_k, mean, sd), *_max_weights(sigma, n_k, mean, sd)]
    return GivenMatch(*(np.asarray(values) for values in found))


def match_and_entropy(sigma: float, n_k: int, mean: float, sd: float) -> tuple[float, float]:
    """Return E p_0 and E H of `given_match` at one mean, without the costly largest weights.

    With an sd of 0 the match is a number.
    """
    found = _sums(sigma, n_k, np.array([mean]), np.array([sd]))
    return float(found[1][0]), float(found[2][0])


def is_largest(n_k: int, mean: FloatArray, sd: float) -> FloatArray:
    """Return P(x_0 is the largest) for each mean: the integral of its density times F^N.

    It is the limit of E p_0 at large sigma. A trapezoid sum, whose error falls as
    exp(-2 pi² sd² / step²).
    """
    check_n_k(n_k)
    step = min(0.1, sd / 3)
    x = np.arange(np.min(mean) - _REACH * sd, np.max(mean) + _REACH * sd + step, step)
    off = (x - mean[:, np.newaxis]) / sd
    density = np.exp(-off * off / 2) / (sd * math.sqrt(2 * math.pi))
    return np.asarray(step * (density @ np.exp((n_k - 1) * scipy.special.log_ndtr(x))))


def _grid(sigma: float, n_k: int, mean: FloatArray, sd: FloatArray) -> tuple[FloatArray, float]:
    """Return the u at which the keys contribute, and the step; see `fixed_sigma`."""
    low, high, step = span_of_max(n_k)
    first = -sigma * high if sigma > high else -(high**2 + sigma**2) / 2
    last = math.log(40) - sigma * low
    # The same for a single key of the match's law.
    spread = sigma * sd
    reach = np.where(spread > _REACH, spread * _REACH, (_REACH**2 + spread**2) / 2)
    first = min(first, float(np.min(-sigma * mean - reach)))
    last = max(last, float(np.max(math.log(40) - sigma * (mean - _REACH * sd))))
    # A match without spread is w e^-w, whose transform falls as exp(-pi² / du): 1e-15 at 0.27.
    spread = np.where(spread > 0, spread, 0.45)
    du = max(STEP, min(sigma * step, 0.6 * float(np.min(spread))))
    return np.arange(first, last + du, du), du


def _sites(sigma: float, mean: float, sd: float, u: FloatArray, *, shifted: bool) -> Sites:
    """Return site functions of a key x ~ N(mean, sd²), with x in units of one standard normal key.

    If `shifted`, x is ln w / sigma = x + u / sigma, as `sites_over_bump` has it.
    """
    spread, at = sigma * sd, u + sigma * mean
    if sd == 0:
        # Beyond e^6 the key is hidden in every digit; without a bound e^at may overflow.
        w = np.exp(np.minimum(at, 6.0))
        w1, zero = w * np.exp(-w), np.zeros_like(u)
        s = Sites(-w, w1, w * w1, w**2 * w1, w**3 * w1, zero, zero, zero, at * w1)
        offset = at / sigma if shifted else np.full_like(u, mean)
    elif spread < 1:
        s = sites_over_logits(spread, at)
        offset = at / sigma if shifted else np.full_like(u, mean)
    else:
        # These are shifted by themselves; so are then the others, whose sigma is larger.
        s = sites_over_bump(spread, at)
        offset = np.zeros_like(u) if shifted else -u / sigma
    return s._replace(
        w1x=offset * s.w1 + sd * s.w1x,
        w2x=offset * s.w2 + sd * s.w2x,
        w2xx=offset**2 * s.w2 + 2 * offset * sd * s.w2x + sd**2 * s.w2xx,
    )


def _sums(sigma: float, n_k: int, mean: FloatArray, sd: FloatArray) -> tuple[FloatArray, ...]:
    u, du = _grid(sigma, n_k, mean, sd)
    shifted = sigma >= 1
    a = sites_over_bump(sigma, u) if shifted else sites_over_logits(sigma, u)
    matches = [
        _sites(sigma, m, s, u, shifted=shifted)
        for m, s in zip(mean.tolist(), sd.tolist(), strict=True)
    ]
    b = Sites(*(np.stack(parts) for parts in zip(*matches, strict=True)))
    n = float(n_k - 1)
    alone = du * np.exp(n * a.log_phi)
    # The phi of all keys but one, two or three of the others; times their number.
    rest = np.exp(b.log_phi)
    with_one = n * du * np.exp((n - 1) * a.log_phi)
    with_two = n * (n - 1) * du * np.exp((n - 2) * a.log_phi)
    with_three = n * (n - 1) * (n - 2) * du * np.exp((n - 3) * a.log_phi)
    one, two, three = rest * with_one, rest * with_two, rest * with_three
    match_weight = b.w1 @ alone
    kernel, kernel_match = (s.wlog + np.euler_gamma * s.w1 for s in (a, b))
    entropy = -(one @ kernel) - du * (kernel_match @ np.expm1(n * a.log_phi))
    match_sq, match_cube = b.w2 @ alone, b.w3 @ alone / 2
    sum_sq = one @ a.w2 + match_sq
    gap = two @ a.w1**2 + 2 * (b.w1 @ (with_one * a.w1))
    cube = one @ a.w3 / 2 + match_cube
    # p_i² p_j² over ordered pairs, and p_i² p_j p_k over ordered triples, times Gamma(4).
    pairs_match = b.w2 @ (with_one * a.w2)
    triples_match = b.w2 @ (with_two * a.w1**2)
    pairs = two @ a.w2**2 + 2 * pairs_match
    triples = three @ (a.w2 * a.w1**2) + triples_match + 2 * (b.w1 @ (with_two * a.w2 * a.w1))
    # The same with (x_i - x_j)(x_i - x_k).
    pairs_x = 2 * (two @ (a.w2xx * a.w2 - a.w2x**2)) + 2 * (
        (b.w2xx * a.w2 - 2 * b.w2x * a.w2x + b.w2 * a.w2xx) @ with_one
    )
    triples_x = (
        three @ (a.w2xx * a.w1**2 - 2 * a.w2x * a.w1x * a.w1 + a.w2 * a.w1x**2)
        + (b.w2xx * a.w1**2 - 2 * b.w2x * a.w1x * a.w1 + b.w2 * a.w1x**2) @ with_two
        + 2
        * (
            (b.w1 * (a.w2xx * a.w1 - a.w2x * a.w1x) + b.w1x * (a.w2 * a.w1x - a.w2x * a.w1))
            @ with_two
        )
    )
    return (
        one @ a.w1 + match_weight,
        match_weight,
        entropy,
        sum_sq,
        gap,
        cube,
        (2 * pairs + triples) / 6,
        (2 * pairs_match + triples_match) / 6,
        (pairs_x + triples_x) / 6,
    )


def _max_weights(
    sigma: float, n_k: int, mean: FloatArray, sd: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return E max p and E[1 - max p]; see `fixed_sigma.max_weights`.

    The largest x = M is one of the N others, with density N f F^(N-1) F_0, or the match, with
    f_0 F^N; the keys below it multiply by 1 - D and 1 - D_0.
    """
    n = float(n_k - 1)
    low, high, step = span_of_max(n_k)
    step = min(step, 0.5 * float(np.min(sd)))
    top_end = max(high, float(np.max(mean + _REACH * sd)))
    top = np.arange(low, top_end + step, step)
    log_below = scipy.special.log_ndtr(top)
    t = np.exp(np.arange(-TAIL - math.log(n_k), math.log(40) + STEP, STEP))
    t_weight = STEP * t * np.exp(-t)
    # Beyond, n t e^(-sigma s) is below e^-37, or every key is 8.6 sd below its mean.
    lowest = min(-_REACH, float(np.min(mean - _REACH * sd)))
    end = min(top_end - lowest, (TAIL + 4 + math.log(n_k)) / max(sigma, 1.0))
    # In steps, so that neighbouring sigmas share their nodes.
    nodes = max(GAP_NODES, 16 * math.ceil(2.2 * end / min(1.0, float(np.min(sd))) / 16))
    unit_gap, unit_weight = legendre(nodes)
    gap = end / 2 * (unit_gap + 1)
    gap_weight = end / 2 * unit_weight / math.sqrt(2 * math.pi)
    seen = -np.expm1(-np.exp(-sigma * gap)[:, None] * t)
    distance = top[:, None] - gap
    density = np.exp(-distance * distance / 2 - log_below[:, None]) * gap_weight
    others = log1m(density @ seen)
    result = []
    for m, s in zip(mean.tolist(), sd.tolist(), strict=True):
        x = (top - m) / s
        below = scipy.special.log_ndtr(x)
        away = (distance - m) / s
        match = log1m((np.exp(-away * away / 2 - below[:, None]) * (gap_weight / s)) @ seen)
        is_other = n * step * normal_density(top) * np.exp((n - 1) * log_below + below)
        is_match = step * normal_density(x) / s * np.exp(n * log_below)
        with_other, with_match = (n - 1) * others + match, n * others
        result.append(
            (
                is_other @ np.exp(with_other) @ t_weight + is_match @ np.exp(with_match) @ t_weight,
                -(is_other @ np.expm1(with_other) @ t_weight)
                - (is_match @ np.expm1(with_match) @ t_weight),
            )
        )
    weights, gaps = np.array(result).T
    return weights, gaps
