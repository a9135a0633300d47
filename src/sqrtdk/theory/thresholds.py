"""Find the d_k at which the exact expectations reach a level or cross."""

import math
from collections.abc import Callable
from typing import Literal, get_args

import scipy  # its modules load at first use, because the start of a run needs none of them

from sqrtdk.core.checks import check_name, check_whole
from sqrtdk.theory import tabulated
from sqrtdk.theory.expectations import MOST_KEYS, averages, query_norms
from sqrtdk.theory.fixed_sigma import expected_max, given_sigma
from sqrtdk.theory.related import Law, expectations_of

Gradient = Literal["logits", "scores", "q", "k", "v"]


def half_entropy_d_k(n_k: int) -> float:
    """Return the real d_k at which unscaled attention loses half of its entropy: E H = ln(n_k) / 2.

    Without scaling sigma = |q| grows as sqrt(d_k). The random energy model puts the point near
    d_k = ln n_k and full condensation at 2 ln n_k (Derrida 1981); this value is exact.
    Raises TypeError for an n_k that is not a whole number, and ValueError for one outside of 2 to
    10⁸; a single key has no entropy to lose.
    """
    n_k = check_whole("n_k", n_k, least=2, most=MOST_KEYS)
    half = math.log(n_k) / 2

    weights = tabulated.at(n_k).weight_means

    def excess(d_k: float) -> float:
        return averages(n_k, d_k, 1.0, weights)[0] - half

    return float(scipy.optimize.brentq(excess, 1.0, 16 + 8 * half, xtol=1e-9))


def one_hot_d_k(n_k: int, level: float = 0.9) -> float:
    """Return the real d_k at which the mean largest weight rises to a level without scaling.

    E max p rises from 1/n_k-like values to 1 as sigma = |q| grows as sqrt(d_k); the large-sigma
    law puts the root near (ln 2 m_n / (1 - level))^2. 1.0 if the mean is at the level already at
    d_k = 1. Raises ValueError for n_k < 2, where the only weight is 1, and for a level outside of
    0 to 1.
    """
    if n_k < 2:
        raise ValueError(f"the largest of several weights needs n_k >= 2, got {n_k}")
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, got {level}")

    largest = tabulated.at(n_k).max_weights

    def excess(d_k: float) -> float:
        norm, probability = query_norms(d_k, 1.0)
        _, gap = probability @ largest(norm, n_k)
        return float(1 - level - gap)

    if excess(1.0) >= 0:
        return 1.0
    high = 2.0
    while excess(high) < 0:
        high *= 2
    return float(scipy.optimize.brentq(excess, high / 2, high, rtol=1e-10))


def gradient_crossing_d_k(n_k: int, gradient: Gradient = "logits") -> float:
    """Return the real d_k above which the unscaled RMS gradient is smaller than the scaled one.

    1.0 if it is smaller for every d_k > 1 (at d_k = 1 both rules are the same), inf if it never
    is. Looked for on d_k = 1.25 * 2^j well past the point where the large-sigma law puts the
    crossing of |J|_F, m_n / (3 sqrt(d_k)) = E|J|_F^2 at sigma = 1; at every larger d_k the laws
    (J as 1 / sqrt(d_k) without scaling, constant with) leave the sign as it is there.
    Raises TypeError for an n_k that is not a whole number, and ValueError for one outside of 2 to
    10⁸ (a single key has no gradient but that of v) and for an unknown gradient.
    """
    n_k = check_whole("n_k", n_k, least=2, most=MOST_KEYS)
    check_name("gradient", gradient, get_args(Gradient))

    def excess(d_k: float) -> float:
        return math.log(_grad_sq(n_k, d_k, 1.0, gradient) / _grad_sq(n_k, d_k, d_k**-0.5, gradient))

    law = (expected_max(n_k) / (3 * float(given_sigma(1.0, n_k).jacobian_sq))) ** 2
    d_k, below = 1.25 * 2.0 ** math.ceil(math.log2(16 * law + 64)), math.inf
    while d_k > 1:
        if excess(d_k) > 0:
            if math.isinf(below):
                return below
            return float(scipy.optimize.brentq(excess, d_k, below, rtol=1e-10))
        d_k, below = d_k / 2, d_k
    return 1.0


def _grad_sq(n_k: int, d_k: float, scale: float, gradient: Gradient) -> float:
    weights = tabulated.at(n_k).weight_means
    _, sum_sq, _, _, jacobian, grad_q, grad_k = averages(n_k, d_k, scale, weights)
    scores = scale**2 * jacobian
    by_name = {"logits": jacobian, "scores": scores, "q": grad_q, "k": grad_k, "v": sum_sq}
    return by_name[gradient]


def match_d_k(
    law: Law,
    n_k: int,
    factor: Callable[[float], float],
    *,
    rising: bool,
    most: float,
) -> float:
    """Return the real d_k at which the mean entropy with a match crosses ln(n_k) / 2.

    `factor` is the scale at each d_k. With `rising`, the entropy rises with d_k, and 1.0 means that
    it is above the level from d_k = 1 on; otherwise it falls. inf if it does not cross up to
    `most`. Relative error below 1e-4. Raises ValueError for n_k < 2, where there is no entropy.
    """
    if n_k < 2:
        raise ValueError(f"half of the entropy needs n_k >= 2, got {n_k}")
    sign = 1.0 if rising else -1.0

    def excess(log_d_k: float) -> float:
        d_k = math.exp(log_d_k)
        entropy = expectations_of(law, n_k, d_k, factor(d_k)).entropy_nats
        return sign * (entropy - math.log(n_k) / 2)

    if excess(0.0) >= 0:
        return 1.0
    end = math.log(most)
    if excess(end) < 0:
        return math.inf
    return math.exp(scipy.optimize.brentq(excess, 0.0, end, xtol=1e-5, rtol=1e-5))
