"""Compute exact means over independent keys whose logits have any density.

The logits are sigma x_j with x_j independent of one density, such as that of a coordinate on a
sphere. The integrals are those of `fixed_sigma`; the sums over x are Gauss-Legendre panels, which
also give the integrals up to each x that the largest weight needs.

Accuracy: relative 1e-10 or better, if the panels resolve the density and exp(-exp(sigma x)).
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from sqrtdk.theory.fixed_sigma import STEP, TAIL, FloatArray, check_n_k, log1m

NODES = 16
"""Nodes of a panel; its quadrature is exact up to degree 31, its running integral up to 15."""

BLOCK = 2**20
"""Entries of an array [u, nodes] that is held at a time: 8 MB; about ten are held at once.

The step of u and the panels both shrink with sigma, so the whole array grows as its square.
"""


class Density(NamedTuple):
    """A density of x on panels: nodes in rising order and probabilities, both [panels, NODES].

    `half_widths` [panels] are those of the panels in the variable of integration, in which
    `slopes` [panels, NODES] is the density. `step` is that of u at sigma = 1 if the density is
    smooth on the scale of its extremes; otherwise 0.
    """

    x: FloatArray
    probability: FloatArray
    slopes: FloatArray
    half_widths: FloatArray
    step: float


class GivenDensity(NamedTuple):
    """Means at one sigma; as in `fixed_sigma.GivenSigma`.

    ``jacobian_radial_sq`` is E sum over l of x_l² |J e_l|², with the l-th column of J.
    """

    weight_sum: float
    entropy_nats: float
    sum_sq_weights: float
    sum_sq_weights_gap: float
    sum_cube_weights: float
    jacobian_sq: float
    jacobian_x_sq: float
    jacobian_radial_sq: float
    max_weight: float
    max_weight_gap: float


@lru_cache(maxsize=1)
def panel() -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return nodes and weights on [-1, 1], and the matrix of integrals from -1 to each node."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    basis = np.polynomial.legendre.legvander(nodes, NODES)
    order = np.arange(1, NODES)
    # int from -1 of P_k is (P_(k+1) - P_(k-1)) / (2k + 1), and x + 1 for k = 0.
    running = np.empty((NODES, NODES))
    running[:, 0] = nodes + 1
    running[:, 1:] = (basis[:, 2:] - basis[:, : NODES - 1]) / (2 * order + 1)
    coefficients = (np.arange(NODES)[:, None] + 0.5) * basis[:, :NODES].T * weights
    return nodes, weights, running @ coefficients


def on_panels(edges: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the nodes [panels, NODES] of panels between the edges, and their half widths."""
    half = np.diff(edges) / 2
    middle = (edges[1:] + edges[:-1]) / 2
    return middle[:, None] + half[:, None] * panel()[0], half


def density_of(
    x: FloatArray, slopes: FloatArray, half_widths: FloatArray, *, step: float = 0.0
) -> Density:
    """Return a density from its values at the nodes, up to a factor."""
    weight = slopes * half_widths[:, None] * panel()[1]
    total = weight.sum()
    return Density(x, weight / total, slopes / total, half_widths, step)


def given_density(density: Density, sigma: float, n_k: int) -> GivenDensity:
    """Return exact means over n_k >= 2 logits sigma x; see `fixed_sigma.given_sigma`.

    E max p: the largest x = M has density n f F^(n-1). With t = e^(u + sigma M), the mean of
    1 / (1 + S) is int w e^-w A(M, u)^(n-1) du at w = e^(u + sigma M), where A(M, u) is the
    integral of f e^-w up to M.
    """
    check_n_k(n_k)
    if not (n_k >= 2 and 0 <= sigma < math.inf):
        raise ValueError(f"n_k must be >= 2 and sigma finite and >= 0, got {n_k} and {sigma}")
    x, probability = density.x.ravel(), density.probability.ravel()
    kept = probability > 0
    below = np.cumsum(probability)
    low = x[np.searchsorted(below, math.exp(-TAIL / (n_k - 1)) * below[-1])]
    low = min(float(low), float(x[kept][-1]))
    first = -sigma * float(x[kept][-1]) - TAIL - math.log(n_k)
    last = math.log(40) - sigma * low
    du = max(STEP, sigma * density.step)
    u = np.arange(first, last + du, du)
    n = float(n_k)
    rows = max(1, BLOCK // x.size)
    blocks = (u[i : i + rows] for i in range(0, len(u), rows))
    found = [_integrals(density, sigma, n, block) for block in blocks]
    hit, w1, w1x, w2, w2x, w2xx, w3, wlog = np.concatenate([one.over_x for one in found], axis=1)
    largest, gap = (sum(one.largest for one in found), sum(one.gap for one in found))
    log_phi = log1m(hit)
    one = n * du * np.exp((n - 1) * log_phi)
    two = n * (n - 1) * du * np.exp((n - 2) * log_phi)
    three = n * (n - 1) * (n - 2) * du * np.exp((n - 3) * log_phi)
    pairs = w2**2 @ two
    around = np.divide(w1x, w1, out=np.zeros_like(w1), where=w1 > 0)
    radial = 2 * (w2xx * w2) @ two + (w2xx * w1**2) @ three
    w1x, w2x, w2xx = (
        w1x - around * w1,
        w2x - around * w2,
        w2xx - 2 * around * w2x + around**2 * w2,
    )
    pairs_x = 2 * (w2xx * w2 - w2x**2) @ two
    triples_x = (w2xx * w1**2 - 2 * w2x * w1x * w1 + w2 * w1x**2) @ three
    return GivenDensity(
        weight_sum=float(w1 @ one),
        entropy_nats=float(-np.euler_gamma - wlog @ one),
        sum_sq_weights=float(w2 @ one),
        sum_sq_weights_gap=float(w1**2 @ two),
        sum_cube_weights=float(w3 @ one / 2),
        jacobian_sq=float((2 * pairs + (w2 * w1**2) @ three) / 6),
        jacobian_x_sq=float((pairs_x + triples_x) / 6),
        jacobian_radial_sq=float(radial / 6),
        max_weight=float(largest * du),
        max_weight_gap=float(gap * du),
    )


class _Integrals(NamedTuple):
    """Integrals over x at some u: `over_x` [8, u], and the sums over these u for E max p."""

    over_x: FloatArray
    largest: float
    gap: float


def _integrals(density: Density, sigma: float, n: float, u: FloatArray) -> _Integrals:
    """Return the integrals of f times 1 - e^-w, w e^-w and so on, with w = e^(u + sigma x)."""
    x, probability = density.x.ravel(), density.probability.ravel()
    y = u[:, None] + sigma * x
    # Beyond, e^-w is 0, and powers of w would overflow.
    w = np.exp(np.minimum(y, 40.0))
    hidden = -np.expm1(-w)
    wd = w * np.exp(-w)
    # Differences of x only count, so it is taken from where w is about 1 for large sigma.
    tilt = np.stack([probability, probability * x, probability * x * x], axis=1)
    w1, w1x, _ = (wd @ tilt).T
    w2, w2x, w2xx = (w * wd @ tilt).T
    w3 = w**2 * wd @ probability
    wlog = (wd * y) @ probability
    over_x = np.stack([hidden @ probability, w1, w1x, w2, w2x, w2xx, w3, wlog])
    return _Integrals(over_x, *_largest(density, hidden, wd, n))


def _largest(density: Density, hidden: FloatArray, wd: FloatArray, n: float) -> tuple[float, float]:
    """Return E max p and E[1 - max p] over the step of u."""
    cumulated = _running(density, np.ones((1, density.x.size)))[0]
    part = _running(density, hidden)
    positive = cumulated > 0
    share = np.divide(part, cumulated, out=np.zeros_like(part), where=positive)
    others = (n - 1) * log1m(np.clip(share, 0.0, None))
    top = np.zeros_like(cumulated)
    top[positive] = np.exp((n - 1) * np.log(np.minimum(cumulated[positive], 1.0)))
    top *= n * density.probability.ravel()
    return float(np.sum(wd * np.exp(others) @ top)), float(-np.sum(wd * np.expm1(others) @ top))


def _running(density: Density, values: FloatArray) -> FloatArray:
    """Return integrals of values times the density up to each node, [u, nodes]."""
    panels = density.x.shape[0]
    f = values.reshape(-1, panels, NODES) * (density.slopes * density.half_widths[:, None])
    whole = np.cumsum(f @ panel()[1], axis=1)
    before = np.concatenate([np.zeros((len(f), 1)), whole[:, :-1]], axis=1)
    found: FloatArray = f @ panel()[2].T + before[..., None]
    return found.reshape(len(values), -1)


def sphere(d_k: float, sigma: float, n_k: int) -> Density:
    """Return the density of √d_k times a coordinate on the unit sphere, for sigma and n_k keys.

    With x = √d_k tanh v, the density (1 - x²/d_k)^((d_k - 3)/2) of x becomes sech^(d_k - 1) v.
    Raises ValueError for d_k below 2: on the sphere of d_k = 1 a coordinate has no density.
    """
    if not 2 <= d_k < math.inf:
        raise ValueError(f"d_k must be finite and >= 2, got {d_k}")
    root = math.sqrt(d_k)
    # Where sech^(d_k - 1) v is e^-40 / n_k.
    depth = (40 + math.log(n_k)) / (d_k - 1)
    end = math.acosh(math.exp(depth)) if depth < 30 else depth + math.log(2)
    width = min(2 / max(sigma * root, 1e-9), 1.2 / root, 0.8)
    v, half = on_panels(np.linspace(-end, end, math.ceil(2 * end / width) + 1))
    log_sech = math.log(2) - np.logaddexp(v, -v)
    # From 64 dimensions on the density is smooth as a normal one; the edges hold nothing.
    step = _extreme_step(n_k) if d_k >= _SMOOTH else 0.0
    return density_of(root * np.tanh(v), np.exp((d_k - 1) * log_sech), half, step=step)


def laplace(sigma: float, n_k: int) -> Density:
    """Return the two-sided exponential density of variance 1, whose tails are heavier than normal.

    Its panels meet at the kink at 0.
    """
    end = (40 + math.log(n_k)) / math.sqrt(2)
    count = math.ceil(end / min(2 / max(sigma, 1e-9), 1.0))
    side = np.linspace(0, end, count + 1)
    x, half = on_panels(np.concatenate([-side[:0:-1], side]))
    return density_of(x, np.exp(-math.sqrt(2) * np.abs(x)), half)


def _extreme_step(n_k: int) -> float:
    return STEP / max(1.0, math.sqrt(2 * math.log(n_k)))


_SMOOTH = 64.0
