"""Compute exact means over the keys at a fixed spread sigma of the logits.

The logits are n_k independent N(0, sigma^2): what unrelated Gaussian keys give for one query, see
`expectations`. This is the random energy model (Derrida 1981) at inverse temperature sigma.

How a mean over n_k coupled weights becomes one integral. Write the logits as sigma x_j and
Z = sum_j exp(sigma x_j). For K factors of p,

    1 / Z^K = 1 / Gamma(K) * integral over t > 0 of t^(K-1) exp(-t Z) dt,

and at fixed t = e^u the keys are independent: with w = exp(u + sigma x), each key contributes
E[w^k e^-w] if it carries p^k, and phi(u) = E[e^-w] if it carries nothing.

Accuracy: relative 1e-10 or better for n_k <= 4096 and sigma <= 256 (measured about 1e-12). Larger
values work; the entropy then loses digits as sigma * 1e-15.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy  # its modules load at first use, because the start of a run needs none of them
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]

# Every integrand here is analytic within pi/2 of the real axis (where e^-w stops decaying), so a
# uniform trapezoid of step h is wrong by e^(-pi^2 / h): 1e-17 at this step.
STEP = 0.25
# Tails are cut where they fall below e^-37 = 1e-16 of the whole.
TAIL = 37.0
GAP_NODES = 96
_EPS = float(np.finfo(np.float64).eps)


class GivenSigma(NamedTuple):
    """Means at fixed sigma; each field has the shape of the sigma it was computed for.

    ``weight_sum`` is E sum p, computed like the rest though it is 1: the error of the quadrature.
    ``sum_sq_weights_gap`` is E[1 - sum p^2] = E tr J and ``max_weight_gap`` is E[1 - max p], both
    without cancellation. ``jacobian_sq`` is E|J|_F^2 of J = diag(p) - p p', ``jacobian_x_sq`` is
    E|J x|^2 for the standardized logits x = logits / sigma.
    """

    weight_sum: FloatArray
    entropy_nats: FloatArray
    sum_sq_weights: FloatArray
    sum_sq_weights_gap: FloatArray
    sum_cube_weights: FloatArray
    sum_sq_weights_squared: FloatArray
    max_weight: FloatArray
    max_weight_gap: FloatArray
    jacobian_sq: FloatArray
    jacobian_x_sq: FloatArray


def given_sigma(sigma: ArrayLike, n_k: int) -> GivenSigma:
    """Return exact means over n_k iid N(0, sigma^2) logits, for a sigma of any shape.

    With w and phi as in the module docstring, integrals over u, and n = n_k (Derrida 1981 has the
    model; the integrals follow from the identity for 1 / Z^K):

    - E sum p^k = n / Gamma(k) * int E[w^k e^-w] phi^(n-1).
    - E H = -gamma - n int E[w ln w e^-w] phi^(n-1), gamma Euler's constant: with s = t Z, the
      integral is int (ln s - ln Z + sum p z) e^-s ds = -gamma - H. Going through E ln Z instead
      would lose sigma^2 to cancellation.
    - E[1 - sum p^2] = n (n-1) int E[w e^-w]^2 phi^(n-2), from sum over i != j of p_i p_j.
    - E (sum p^2)^2: the terms i = j and i != j of sum p_i^2 p_j^2, with Gamma(4) = 6.
    - |J|_F^2 = sum p^2 - 2 sum p^3 + (sum p^2)^2, which is 2 sum p_i^2 p_j^2 + sum p_i^2 p_j p_k
      over distinct indices: positive terms, so the 1 / sigma tail keeps its digits.
    - |J x|^2 = sum p_i^2 p_j p_k (x_i - x_j)(x_i - x_k): only differences, so that its
      1 / sigma^3 tail keeps them too.
    - E max p: see `max_weights`.

    Valid for any n_k >= 1 (one key has entropy 0, weight 1 and J = 0) and finite sigma >= 0.
    Raises ValueError outside.
    """
    check_n_k(n_k)
    sigmas = np.asarray(sigma, dtype=np.float64)
    if not np.all(np.isfinite(sigmas) & (sigmas >= 0)):
        raise ValueError(f"sigma must be finite and >= 0, got {sigma!r}")
    one, zero = np.ones_like(sigmas), np.zeros_like(sigmas)
    if n_k == 1:
        return GivenSigma(one, zero, one, zero, one, one, one, zero, zero, zero)
    means = weight_means(sigmas.ravel(), n_k).T.reshape(8, *sigmas.shape)
    largest = max_weights(sigmas.ravel(), n_k).T.reshape(2, *sigmas.shape)
    return GivenSigma(*means[:6], *largest, *means[6:])


def expected_max(n_k: int) -> float:
    """Return m_n: the mean of the largest of n_k independent standard normals, for any n_k >= 1.

    n int x f F^(n-1) is, by parts, n (n-1) int f^2 F^(n-2): positive, so nothing cancels (f and F
    the normal density and distribution). Relative 1e-14. Raises ValueError for n_k < 1.
    """
    check_n_k(n_k)
    if n_k == 1:
        return 0.0
    low, high, step = span_of_max(n_k)
    x = np.arange(low, high + step, step)
    density = np.exp(-x * x + (n_k - 2.0) * scipy.special.log_ndtr(x)) / (2 * math.pi)
    return float(n_k * (n_k - 1.0) * step * density.sum())


def critical_sigma(n_k: int) -> float:
    """Return sqrt(2 ln n): above it a few keys hold all the weight as n grows (Derrida 1981)."""
    check_n_k(n_k)
    return math.sqrt(2 * math.log(n_k))


class Sites(NamedTuple):
    """The contribution of one key at each u: wk = E[w^k e^-w], wkx = E[w^k x e^-w], and so on.

    x may be shifted by any number that all keys share at that u. ``wlog`` is E[w ln w e^-w].
    """

    log_phi: FloatArray
    w1: FloatArray
    w2: FloatArray
    w3: FloatArray
    w4: FloatArray
    w1x: FloatArray
    w2x: FloatArray
    w2xx: FloatArray
    wlog: FloatArray


def check_n_k(n_k: int) -> None:
    """Raise ValueError for fewer keys than 1."""
    if n_k < 1:
        raise ValueError(f"n_k must be >= 1, got {n_k}")


def span_of_max(n_k: int) -> tuple[float, float, float]:
    """Return where the largest of n_k >= 2 standard normals lies, and the trapezoid step for it.

    Its law falls off at rate sqrt(2 ln n), like a Gumbel law scaled down by that factor.
    """
    low = float(scipy.special.ndtri(math.exp(-TAIL / (n_k - 1))))
    high = math.sqrt(2 * (TAIL + math.log(n_k)))
    return low, high, STEP / max(1.0, critical_sigma(n_k))


def _u_grid(sigma: float, n_k: int) -> tuple[FloatArray, float]:
    """Return the u at which n_k keys contribute, and the step."""
    low, high, step = span_of_max(n_k)
    # n E[w e^-w] <= n E[w^a] = n exp(a u + a^2 sigma^2 / 2) for 0 <= a <= 1: the best a is 1 for
    # small sigma, where u ends at -ln n - 37, and -u / sigma^2 for large, a Gaussian tail.
    first = -sigma * high if sigma > high else -(high**2 + sigma**2) / 2
    # phi <= P(w < 40) + e^-40, and P(w < 40)^(n-1) is negligible where ln 40 - u <= sigma low.
    last = math.log(40) - sigma * low
    # Once sigma exceeds sqrt(2 ln n) everything varies on the scale sigma / sqrt(2 ln n).
    du = max(STEP, sigma * step)
    return np.arange(first, last + du, du), du


def sites_over_logits(sigma: float, u: FloatArray) -> Sites:
    """Return site functions as sums over x, for small sigma: w varies little over the density."""
    # w^4 moves the density by 4 sigma, hence the lopsided range.
    x = np.arange(-10.5, 14.5, STEP)
    density = STEP * normal_density(x)
    tilted = np.stack([density, density * x, density * x * x], axis=1)
    w = np.exp(u[:, None] + sigma * x)
    decay = np.exp(-w)
    w1, w1x = (w * decay @ tilted[:, :2]).T
    w2, w2x, w2xx = (w**2 * decay @ tilted).T
    w3, w4 = w**3 * decay @ density, w**4 * decay @ density
    hidden = -np.expm1(-w) @ density
    return Sites(log1m(hidden), w1, w2, w3, w4, w1x, w2x, w2xx, u * w1 + sigma * w1x)


def sites_over_bump(sigma: float, u: FloatArray) -> Sites:
    """Return site functions as sums over y = ln w, for large sigma: w^k e^-w has width 1.

    1 - phi is not a bump. By parts it is the mean of P(x > (y - u) / sigma) over e^(y - e^y).
    """
    y = np.arange(-46.0, 4.5, STEP)
    bumps = STEP * np.exp(np.outer(y, np.arange(1, 5)) - np.exp(y)[:, None])
    x = (y - u[:, None]) / sigma
    hidden = scipy.special.ndtr(-x) @ bumps[:, 0]
    # Taking y / sigma for x is the shift by u / sigma that Sites allows: y is of order 1.
    z = y[:, None] / sigma
    columns = np.hstack([bumps, z * bumps[:, :2], z * z * bumps[:, 1:2]])
    w1, w2, w3, w4, w1x, w2x, w2xx = (normal_density(x) @ columns).T / sigma
    return Sites(log1m(hidden), w1, w2, w3, w4, w1x, w2x, w2xx, sigma * w1x)


def normal_density(x: FloatArray) -> FloatArray:
    """Return the density of N(0, 1)."""
    return np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def log1m(hidden: FloatArray) -> FloatArray:
    """Return ln(1 - hidden); rounding may carry a probability past 1."""
    return np.log1p(-np.minimum(hidden, 1 - _EPS / 2))


def weight_means(sigmas: FloatArray, n_k: int) -> FloatArray:
    """Return one row per sigma: the fields of `GivenSigma` except those of the largest weight."""
    return np.array([_weight_means_at(sigma, n_k) for sigma in sigmas.tolist()]).reshape(-1, 8)


def _weight_means_at(sigma: float, n_k: int) -> tuple[float, ...]:
    u, du = _u_grid(sigma, n_k)
    # Both are exact at sigma = 1. Each wastes nodes on the other side of it.
    s = sites_over_logits(sigma, u) if sigma < 1 else sites_over_bump(sigma, u)
    n = float(n_k)
    one = n * du * np.exp((n - 1) * s.log_phi)
    two = n * (n - 1) * du * np.exp((n - 2) * s.log_phi)
    three = n * (n - 1) * (n - 2) * du * np.exp((n - 3) * s.log_phi)
    pairs = s.w2**2 @ two
    pairs_x = 2 * (s.w2xx * s.w2 - s.w2x**2) @ two
    triples_x = (s.w2xx * s.w1**2 - 2 * s.w2x * s.w1x * s.w1 + s.w2 * s.w1x**2) @ three
    return (
        float(s.w1 @ one),
        float(-np.euler_gamma - s.wlog @ one),
        float(s.w2 @ one),
        float(s.w1**2 @ two),
        float(s.w3 @ one / 2),
        float((s.w4 @ one + pairs) / 6),
        float((2 * pairs + (s.w2 * s.w1**2) @ three) / 6),
        float((pairs_x + triples_x) / 6),
    )


@lru_cache(maxsize=256)
def legendre(nodes: int) -> tuple[FloatArray, FloatArray]:
    """Return Gauss-Legendre nodes and weights, which cost more than all that they are used for."""
    return np.polynomial.legendre.leggauss(nodes)


def max_weights(sigmas: FloatArray, n_k: int) -> FloatArray:
    """Return one row (E max p, E[1 - max p]) per sigma, n_k >= 2.

    Given the largest x = M, max p = 1 / (1 + S) with S = sum exp(-sigma s_j) over the gaps s_j of
    the n - 1 others, which are independent with density f(M - s) / F(M). Since
    1 / (1 + S) = int e^-t e^(-t S) dt,

        E max p = n int f(M) F(M)^(n-1) int e^-t (1 - D)^(n-1) dt dM,
        D(M, t) = int over s > 0 of f(M - s) / F(M) (1 - exp(-t e^(-sigma s))) ds,

    a matrix product; 1 - (1 - D)^(n-1) in its place gives E[1 - max p].
    """
    low, high, step = span_of_max(n_k)
    top = np.arange(low, high + step, step)
    log_below = scipy.special.log_ndtr(top)
    top_weight = n_k * step * normal_density(top) * np.exp((n_k - 1.0) * log_below)
    t = np.exp(np.arange(-TAIL - math.log(n_k), math.log(40) + STEP, STEP))
    t_weight = STEP * t * np.exp(-t)
    unit_gap, unit_weight = legendre(GAP_NODES)
    out = np.empty((len(sigmas), 2))
    for row, sigma in zip(out, sigmas.tolist(), strict=True):
        # Beyond, n t e^(-sigma s) is below e^-37, or the key is 8.5 sd below the mean.
        end = min(high + 8.5, (TAIL + 4 + math.log(n_k)) / max(sigma, 1.0))
        gap = end / 2 * (unit_gap + 1)
        distance = top[:, None] - gap
        density = np.exp(-distance * distance / 2 - log_below[:, None])
        density *= end / 2 * unit_weight / math.sqrt(2 * math.pi)
        hidden = density @ -np.expm1(-np.exp(-sigma * gap)[:, None] * t)
        survival = (n_k - 1.0) * log1m(hidden)
        row[0] = top_weight @ np.exp(survival) @ t_weight
        row[1] = -(top_weight @ np.expm1(survival) @ t_weight)
    return out
