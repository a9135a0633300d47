"""Exact expectations of softmax attention over unrelated Gaussian keys, and the laws to overlay.

A query q and n_k keys k_j are independent N(0, I_d_k); the logits are scale * q.k_j and the
weights p = softmax(logits) (Vaswani et al. 2017, section 3.2.1, has scale = 1/sqrt(d_k)). Given q
the logits are independent N(0, sigma^2) with sigma = scale |q|, and |q|^2 is chi-squared with d_k
degrees of freedom. So each mean is a function of (sigma, n_k), averaged over |q|: this is the
random energy model (Derrida 1981) at inverse temperature sigma. Nothing here samples; entropies
are in nats, gradients are those of L = <G, O> with G and V independent N(0, 1).

How a mean over n_k coupled weights becomes one integral. Write the logits as sigma x_j and
Z = sum_j exp(sigma x_j). For K factors of p,

    1 / Z^K = 1 / Gamma(K) * integral over t > 0 of t^(K-1) exp(-t Z) dt,

and at fixed t = e^u the keys are independent: with w = exp(u + sigma x), each key contributes
E[w^k e^-w] if it carries p^k, and phi(u) = E[e^-w] if it carries nothing.

Accuracy: relative 1e-10 or better for n_k <= 4096 and sigma <= 256, from d_k = 1 on (measured
about 1e-12). Larger values work; the entropy then loses digits as sigma * 1e-15.
"""

import math
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
import scipy  # its modules load at first use, because the start of a run needs none of them
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
Gradient = Literal["logits", "scores", "q", "k", "v"]

# Every integrand here is analytic within pi/2 of the real axis (where e^-w stops decaying), so a
# uniform trapezoid of step h is wrong by e^(-pi^2 / h): 1e-17 at this step.
_STEP = 0.25
# The average over |q| is analytic only in |arg q| < pi/4, because the Gaussian of the logits is
# exp(-z^2 / (2 sigma^2)); hence the finer step. From d_k = _WIDE on the law of |q| stays clear of
# 0, and a normal density of sd 0.7 is integrated to 1e-16 by the wider one.
_STEP_Q, _STEP_Q_WIDE, _WIDE = 0.2, 0.4, 64.0
# Tails are cut where they fall below e^-37 = 1e-16 of the whole.
_TAIL = 37.0
_GAP_NODES = 96
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


class Expectations(NamedTuple):
    """Means over q and the keys; ``grad_*_sq`` are mean squares per query, divided by d_v.

    For k and v, whose rows are keys, this is (1 / n_q) E|dK|^2 / d_v over the whole matrix.
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
    - E max p: see `_max_weights`.

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
    means = _weight_means(sigmas.ravel(), n_k).T.reshape(8, *sigmas.shape)
    largest = _max_weights(sigmas.ravel(), n_k).T.reshape(2, *sigmas.shape)
    return GivenSigma(*means[:6], *largest, *means[6:])


@lru_cache(maxsize=4096)
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
    needs. Raises ValueError for n_k < 1, d_k < 1, and scale negative or infinite.
    """
    entropy, *sums, jacobian, grad_q, grad_k = _averages(n_k, d_k, scale)
    if n_k == 1:
        max_weight, max_weight_gap = 1.0, 0.0
    else:
        norm, probability = _query_norms(d_k, scale)
        max_weight, max_weight_gap = map(float, probability @ _max_weights(scale * norm, n_k))
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
    )


def half_entropy_d_k(n_k: int) -> float:
    """Return the real d_k at which unscaled attention loses half of its entropy: E H = ln(n_k) / 2.

    Without scaling sigma = |q| grows as sqrt(d_k). The random energy model puts the point near
    d_k = ln n_k and full condensation at 2 ln n_k (Derrida 1981); this value is exact.
    Raises ValueError for n_k < 2, where there is no entropy to lose.
    """
    if n_k < 2:
        raise ValueError(f"half of the entropy needs n_k >= 2, got {n_k}")
    half = math.log(n_k) / 2

    def excess(d_k: float) -> float:
        return _averages(n_k, d_k, 1.0)[0] - half

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

    def excess(d_k: float) -> float:
        norm, probability = _query_norms(d_k, 1.0)
        _, gap = probability @ _max_weights(norm, n_k)
        return float(1 - level - gap)

    if excess(1.0) >= 0:
        return 1.0
    high = 2.0
    while excess(high) < 0:
        high *= 2
    return float(scipy.optimize.brentq(excess, high / 2, high, rtol=1e-10))


def gradient_crossing_d_k(n_k: int, gradient: Gradient = "logits") -> float:
    """Return the real d_k above which the unscaled RMS gradient is smaller than the scaled one.

    1.0 if it is smaller for every d_k > 1 (at d_k = 1 both arms are the same), inf if it never
    is. Looked for on d_k = 1.25 * 2^j well past the point where the large-sigma law puts the
    crossing of |J|_F, m_n / (3 sqrt(d_k)) = E|J|_F^2 at sigma = 1; at every larger d_k the laws
    (J as 1 / sqrt(d_k) without scaling, constant with) leave the sign as it is there.
    Raises ValueError for n_k < 2, where the gradients but that of v are 0.
    """
    if n_k < 2:
        raise ValueError(f"a crossing needs n_k >= 2, got {n_k}")

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


def expected_max(n_k: int) -> float:
    """Return m_n: the mean of the largest of n_k independent standard normals, for any n_k >= 1.

    n int x f F^(n-1) is, by parts, n (n-1) int f^2 F^(n-2): positive, so nothing cancels (f and F
    the normal density and distribution). Relative 1e-14. Raises ValueError for n_k < 1.
    """
    check_n_k(n_k)
    if n_k == 1:
        return 0.0
    low, high, step = _span_of_max(n_k)
    x = np.arange(low, high + step, step)
    density = np.exp(-x * x + (n_k - 2.0) * scipy.special.log_ndtr(x)) / (2 * math.pi)
    return float(n_k * (n_k - 1.0) * step * density.sum())


def critical_sigma(n_k: int) -> float:
    """Return sqrt(2 ln n): above it a few keys hold all the weight as n grows (Derrida 1981)."""
    check_n_k(n_k)
    return math.sqrt(2 * math.log(n_k))


class _Sites(NamedTuple):
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


def _span_of_max(n_k: int) -> tuple[float, float, float]:
    """Return where the largest of n_k >= 2 standard normals lies, and the trapezoid step for it.

    Its law falls off at rate sqrt(2 ln n), like a Gumbel law scaled down by that factor.
    """
    low = float(scipy.special.ndtri(math.exp(-_TAIL / (n_k - 1))))
    high = math.sqrt(2 * (_TAIL + math.log(n_k)))
    return low, high, _STEP / max(1.0, critical_sigma(n_k))


def _u_grid(sigma: float, n_k: int) -> tuple[FloatArray, float]:
    """Return the u at which n_k keys contribute, and the step."""
    low, high, step = _span_of_max(n_k)
    # n E[w e^-w] <= n E[w^a] = n exp(a u + a^2 sigma^2 / 2) for 0 <= a <= 1: the best a is 1 for
    # small sigma, where u ends at -ln n - 37, and -u / sigma^2 for large, a Gaussian tail.
    first = -sigma * high if sigma > high else -(high**2 + sigma**2) / 2
    # phi <= P(w < 40) + e^-40, and P(w < 40)^(n-1) is negligible where ln 40 - u <= sigma low.
    last = math.log(40) - sigma * low
    # Once sigma exceeds sqrt(2 ln n) everything varies on the scale sigma / sqrt(2 ln n).
    du = max(_STEP, sigma * step)
    return np.arange(first, last + du, du), du


def _sites_over_logits(sigma: float, u: FloatArray) -> _Sites:
    """Return site functions as sums over x, for small sigma: w varies little over the density."""
    # w^4 moves the density by 4 sigma, hence the lopsided range.
    x = np.arange(-10.5, 14.5, _STEP)
    density = _STEP * _normal_density(x)
    tilted = np.stack([density, density * x, density * x * x], axis=1)
    w = np.exp(u[:, None] + sigma * x)
    decay = np.exp(-w)
    w1, w1x = (w * decay @ tilted[:, :2]).T
    w2, w2x, w2xx = (w**2 * decay @ tilted).T
    w3, w4 = w**3 * decay @ density, w**4 * decay @ density
    hidden = -np.expm1(-w) @ density
    return _Sites(_log1m(hidden), w1, w2, w3, w4, w1x, w2x, w2xx, u * w1 + sigma * w1x)


def _sites_over_bump(sigma: float, u: FloatArray) -> _Sites:
    """Return site functions as sums over y = ln w, for large sigma: w^k e^-w has width 1.

    1 - phi is not a bump. By parts it is the mean of P(x > (y - u) / sigma) over e^(y - e^y).
    """
    y = np.arange(-46.0, 4.5, _STEP)
    bumps = _STEP * np.exp(np.outer(y, np.arange(1, 5)) - np.exp(y)[:, None])
    x = (y - u[:, None]) / sigma
    hidden = scipy.special.ndtr(-x) @ bumps[:, 0]
    # Taking y / sigma for x is the shift by u / sigma that _Sites allows: y is of order 1.
    z = y[:, None] / sigma
    columns = np.hstack([bumps, z * bumps[:, :2], z * z * bumps[:, 1:2]])
    w1, w2, w3, w4, w1x, w2x, w2xx = (_normal_density(x) @ columns).T / sigma
    return _Sites(_log1m(hidden), w1, w2, w3, w4, w1x, w2x, w2xx, sigma * w1x)


def _normal_density(x: FloatArray) -> FloatArray:
    return np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _log1m(hidden: FloatArray) -> FloatArray:
    """Return ln(1 - hidden); rounding may carry a probability past 1."""
    return np.log1p(-np.minimum(hidden, 1 - _EPS / 2))


def _weight_means(sigmas: FloatArray, n_k: int) -> FloatArray:
    """Return one row per sigma: the fields of `GivenSigma` except those of the largest weight."""
    return np.array([_weight_means_at(sigma, n_k) for sigma in sigmas.tolist()]).reshape(-1, 8)


def _weight_means_at(sigma: float, n_k: int) -> tuple[float, ...]:
    u, du = _u_grid(sigma, n_k)
    # Both are exact at sigma = 1. Each wastes nodes on the other side of it.
    s = _sites_over_logits(sigma, u) if sigma < 1 else _sites_over_bump(sigma, u)
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


def _max_weights(sigmas: FloatArray, n_k: int) -> FloatArray:
    """Return one row (E max p, E[1 - max p]) per sigma, n_k >= 2.

    Given the largest x = M, max p = 1 / (1 + S) with S = sum exp(-sigma s_j) over the gaps s_j of
    the n - 1 others, which are independent with density f(M - s) / F(M). Since
    1 / (1 + S) = int e^-t e^(-t S) dt,

        E max p = n int f(M) F(M)^(n-1) int e^-t (1 - D)^(n-1) dt dM,
        D(M, t) = int over s > 0 of f(M - s) / F(M) (1 - exp(-t e^(-sigma s))) ds,

    a matrix product; 1 - (1 - D)^(n-1) in its place gives E[1 - max p].
    """
    low, high, step = _span_of_max(n_k)
    top = np.arange(low, high + step, step)
    log_below = scipy.special.log_ndtr(top)
    top_weight = n_k * step * _normal_density(top) * np.exp((n_k - 1.0) * log_below)
    t = np.exp(np.arange(-_TAIL - math.log(n_k), math.log(40) + _STEP, _STEP))
    t_weight = _STEP * t * np.exp(-t)
    unit_gap, unit_weight = np.polynomial.legendre.leggauss(_GAP_NODES)
    out = np.empty((len(sigmas), 2))
    for row, sigma in zip(out, sigmas.tolist(), strict=True):
        # Beyond, n t e^(-sigma s) is below e^-37, or the key is 8.5 sd below the mean.
        end = min(high + 8.5, (_TAIL + 4 + math.log(n_k)) / max(sigma, 1.0))
        gap = end / 2 * (unit_gap + 1)
        distance = top[:, None] - gap
        density = np.exp(-distance * distance / 2 - log_below[:, None])
        density *= end / 2 * unit_weight / math.sqrt(2 * math.pi)
        hidden = density @ -np.expm1(-np.exp(-sigma * gap)[:, None] * t)
        survival = (n_k - 1.0) * _log1m(hidden)
        row[0] = top_weight @ np.exp(survival) @ t_weight
        row[1] = -(top_weight @ np.expm1(survival) @ t_weight)
    return out


@lru_cache(maxsize=64)
def _query_norms(d_k: float, scale: float) -> tuple[FloatArray, FloatArray]:
    """Return nodes |q| and probabilities of the chi law with d_k degrees of freedom, real d_k >= 1.

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
    v = np.arange(max(-4.5, center - 9), center + 9, step)
    e = v - np.exp(-v)
    norm = np.logaddexp(0, e)
    # Relative to the center, because d_k ln |q| and |q|^2 / 2 are large and nearly equal.
    off = norm - center
    log_density = (d_k - 1) * np.log(norm / center) - off * (norm + center) / 2
    weight = np.exp(log_density + e - norm) * (1 + np.exp(-v))
    kept = weight > 1e-20 * weight.max()
    return norm[kept], weight[kept] / weight[kept].sum()


def _averages(n_k: int, d_k: float, scale: float) -> tuple[float, ...]:
    """Return E of H, sum p^2, 1 - sum p^2, sum p^3, |J|_F^2, |dQ_i|^2 and |dK|^2."""
    check_n_k(n_k)
    if not 0 <= scale < math.inf:
        raise ValueError(f"scale must be finite and >= 0, got {scale}")
    norm, probability = _query_norms(d_k, scale)
    if n_k == 1:
        return 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0
    _, entropy, sum_sq, sum_sq_gap, sum_cube, _, jacobian, jacobian_x = _weight_means(
        scale * norm, n_k
    ).T
    grad_q = scale**2 * ((d_k - 1) * jacobian + jacobian_x)
    grad_k = (scale * norm) ** 2 * jacobian
    fields = np.stack([entropy, sum_sq, sum_sq_gap, sum_cube, jacobian, grad_q, grad_k])
    return tuple((fields @ probability).tolist())


def _grad_sq(n_k: int, d_k: float, scale: float, gradient: Gradient) -> float:
    _, sum_sq, _, _, jacobian, grad_q, grad_k = _averages(n_k, d_k, scale)
    scores = scale**2 * jacobian
    by_name = {"logits": jacobian, "scores": scores, "q": grad_q, "k": grad_k, "v": sum_sq}
    return by_name[gradient]
