"""Exact theory: closed cases, properties, independent integrals, and sampling.

The reference values share no formula with the module: two keys are one integral over the
difference of two normals, three keys a double integral over the two gaps, more keys an adaptive
quadrature with another formula for the entropy, and a plain sampled softmax with its gradients.
"""

import math
from itertools import pairwise
from typing import Any, get_args

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import dblquad, quad
from scipy.special import ndtr

from sqrtdk.theory import asymptotics, fixed_sigma, thresholds
from sqrtdk.theory import expectations as theory_expectations
from sqrtdk.theory.expectations import Expectations, expectations
from sqrtdk.theory.fixed_sigma import GivenSigma, given_sigma

# The promise of the module; the tighter tolerances below are measured errors with some room.
PROMISED = 1e-10
N_KEYS = (2, 3, 5, 16, 64, 1024, 4096)
SIGMAS = np.array([0.0, 0.01, 0.3, 0.999, 1.0, 1.7, 3.0, 4.0, 6.0, 11.0, 37.0, 256.0])


def weight_functionals(p: Any, x: Any, log: Any = np.log) -> dict[str, Any]:
    """Compute the fields of GivenSigma for one vector of weights, from their definitions."""
    top = max(p)
    mean_x = sum(a * b for a, b in zip(p, x, strict=True))
    sum_sq, sum_cube = sum(a**2 for a in p), sum(a**3 for a in p)
    return {
        "weight_sum": sum(p),
        "entropy_nats": -sum(a * log(a) for a in p if a > 0),
        "sum_sq_weights": sum_sq,
        "sum_sq_weights_gap": 1 - sum_sq,
        "sum_cube_weights": sum_cube,
        "sum_sq_weights_squared": sum_sq**2,
        "max_weight": top,
        "max_weight_gap": 1 - top,
        "jacobian_sq": sum_sq - 2 * sum_cube + sum_sq**2,
        "jacobian_x_sq": sum((a * (b - mean_x)) ** 2 for a, b in zip(p, x, strict=True)),
    }


def assert_close(actual: GivenSigma, expected: dict[str, float], rel: float) -> None:
    for name, value in expected.items():
        assert getattr(actual, name) == pytest.approx(value, rel=rel), name


# --- Cases that can be done by hand -------------------------------------------------------------


def test_one_key_takes_all_the_weight_and_has_no_gradient() -> None:
    assert [float(mean) for mean in given_sigma(5.0, 1)] == [1, 0, 1, 0, 1, 1, 1, 0, 0, 0]
    assert expectations(1, 7, 0.3) == Expectations(0, 1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 0)


@pytest.mark.parametrize("n_k", N_KEYS)
def test_equal_logits_give_uniform_weights(n_k: int) -> None:
    uniform = {
        "entropy_nats": math.log(n_k),
        "sum_sq_weights": 1 / n_k,
        "sum_sq_weights_gap": 1 - 1 / n_k,
        "sum_cube_weights": n_k**-2,
        "sum_sq_weights_squared": n_k**-2,
        "max_weight": 1 / n_k,
        "max_weight_gap": 1 - 1 / n_k,
        "jacobian_sq": (n_k - 1) / n_k**2,
        # n_k^-2 times E sum (x - mean x)^2 = n_k - 1.
        "jacobian_x_sq": (n_k - 1) / n_k**2,
    }
    # The trapezoid error is at most 6e-14 here, in the fourth power of w.
    assert_close(given_sigma(0.0, n_k), uniform, rel=5e-13)


def test_scale_zero_leaves_uniform_weights_and_no_gradient_of_q_and_k() -> None:
    e = expectations(11, 7, 0.0)
    assert e.entropy_nats == pytest.approx(math.log(11), rel=PROMISED)
    assert e.grad_v_sq == pytest.approx(1 / 11, rel=PROMISED)
    assert e.grad_logits_sq == pytest.approx(10 / 121, rel=PROMISED)
    assert (e.grad_scores_sq, e.grad_q_sq, e.grad_k_sq) == (0.0, 0.0, 0.0)


def test_both_arms_are_the_same_at_one_dimension() -> None:
    assert expectations(13, 1, 1.0) == expectations(13, 1, 1 / math.sqrt(1))


def test_fields_have_the_shape_of_sigma() -> None:
    sigma = np.array([[0.2, 1.0, 3.0], [0.5, 2.0, 9.0]])
    for n_k in (1, 5):
        moments = given_sigma(sigma, n_k)
        assert all(field.shape == (2, 3) for field in moments)
        assert moments.entropy_nats[1, 2] == given_sigma(9.0, n_k).entropy_nats
    assert given_sigma(np.empty(0), 5).max_weight.shape == (0,)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: given_sigma(1.0, 0), "n_k must be >= 1, got 0"),
        (lambda: given_sigma([1.0, -2.0], 5), "sigma must be finite and >= 0"),
        (lambda: given_sigma(math.nan, 5), "sigma must be finite and >= 0"),
        (lambda: expectations(0, 5, 1.0), "n_k is 0; allowed: whole numbers from 1 to 1"),
        (lambda: expectations(5, 0.5, 1.0), "d_k is 0.5; allowed: finite numbers from 1 to 1e"),
        (lambda: expectations(1, 0, 1.0), "d_k is 0; allowed: finite numbers from 1 to 1e"),
        (lambda: expectations(5, 5, -1.0), "scale is -1.0; allowed: finite numbers from 0 to 1e"),
        (
            lambda: expectations(5, 5, math.inf),
            "scale is inf; allowed: finite numbers from 0 to 1e",
        ),
        (lambda: thresholds.half_entropy_d_k(1), "n_k is 1; allowed: whole numbers from 2 "),
        (lambda: thresholds.gradient_crossing_d_k(1), "n_k is 1; allowed: whole numbers from 2 "),
        (lambda: thresholds.one_hot_d_k(1), "needs n_k >= 2, got 1"),
        (lambda: thresholds.one_hot_d_k(8, 1.0), "level must be between 0 and 1, got 1"),
        (lambda: fixed_sigma.expected_max(0), "n_k must be >= 1, got 0"),
    ],
)
def test_values_outside_the_domain_are_refused_with_the_value(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


# --- What always holds --------------------------------------------------------------------------


@pytest.mark.parametrize("n_k", [*N_KEYS, 10**6])
def test_weights_sum_to_one(n_k: int) -> None:
    # Computed by the same quadrature as the rest, so this is its error: 3e-14 at most, from the
    # Gaussian tail that is cut at e^-37.
    assert np.abs(given_sigma(SIGMAS, n_k).weight_sum - 1).max() < 1e-13


@settings(deadline=None, max_examples=60)
@given(n_k=st.integers(2, 5000), sigma=st.floats(0, 300))
def test_means_obey_the_inequalities_of_every_softmax(n_k: int, sigma: float) -> None:
    m = given_sigma(sigma, n_k)
    ulps = 1e-12  # The inequalities are equalities at sigma = 0; there, the quadrature error.
    assert 0 < m.entropy_nats <= math.log(n_k) * (1 + ulps)
    assert 1 / n_k <= m.sum_sq_weights * (1 + ulps)
    assert m.sum_sq_weights_squared <= m.sum_cube_weights * (1 + ulps)
    assert m.sum_cube_weights <= m.sum_sq_weights <= m.max_weight * (1 + ulps)
    # A Jacobian of rank n - 1: tr(J)^2 / (n - 1) <= |J|^2, and Jensen for the mean of the square.
    assert m.sum_sq_weights_gap**2 <= m.jacobian_sq * (n_k - 1) * (1 + ulps)


@pytest.mark.parametrize("n_k", N_KEYS)
def test_fields_computed_apart_agree_where_they_are_one_identity(n_k: int) -> None:
    m = given_sigma(SIGMAS, n_k)
    # Sums of numbers up to 1: absolute errors of about 1e-14, the relative ones of the parts.
    np.testing.assert_allclose(m.sum_sq_weights + m.sum_sq_weights_gap, 1, rtol=2e-13)
    np.testing.assert_allclose(m.max_weight + m.max_weight_gap, 1, rtol=5e-13)
    jacobian = m.sum_sq_weights - 2 * m.sum_cube_weights + m.sum_sq_weights_squared
    np.testing.assert_allclose(m.jacobian_sq, jacobian, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n_k", N_KEYS)
def test_entropy_falls_by_sigma_times_the_mean_logit_variance(n_k: int) -> None:
    # H = E ln Z - sigma^2 E[1 - sum p^2] by Stein's lemma, and d E ln Z / d sigma is
    # sigma E[1 - sum p^2]: so dH / d sigma = -sigma g - sigma^2 dg / d sigma, g = 1 - sum p^2.
    sigma, h = np.array([0.4, 1.5, 5.0, 20.0]), 1e-3
    at = [given_sigma(sigma + j * h, n_k) for j in (-2, -1, 0, 1, 2)]

    def slope(values: list[np.ndarray]) -> np.ndarray:
        return np.asarray(values[0] - 8 * values[1] + 8 * values[3] - values[4]) / (12 * h)

    gap = [m.sum_sq_weights_gap for m in at]
    expected = -sigma * gap[2] - sigma**2 * slope(gap)
    # The difference quotient is wrong by h^4 = 1e-12 times a fifth derivative (below 1e3 at
    # sigma = 0.4) and 1e-15 / h times sigma^2.
    np.testing.assert_allclose(slope([m.entropy_nats for m in at]), expected, rtol=0, atol=2e-8)


# --- Independent integrals ----------------------------------------------------------------------


@pytest.mark.parametrize("sigma", [0.05, 0.7, 2.9, 60.0, 256.0])
def test_two_keys_match_the_integral_over_their_difference(sigma: float) -> None:
    # x_1 - x_2 = sqrt(2) y, y ~ N(0, 1); everything is even in y. 20 digits of mpmath.
    def mean(name: str) -> float:
        def integrand(y: Any) -> Any:
            x = (mpmath.sqrt(2) * y, mpmath.mpf(0))
            p = 1 / (1 + mpmath.exp(-sigma * x[0]))
            q = 1 / (1 + mpmath.exp(sigma * x[0]))
            functionals = weight_functionals((p, q), x, mpmath.log)
            functionals["sum_sq_weights_gap"] = 2 * p * q
            functionals["jacobian_sq"] = 4 * p**2 * q**2
            functionals["jacobian_x_sq"] = 2 * (p * q * x[0]) ** 2
            functionals["max_weight_gap"] = q
            return 2 * functionals[name] * mpmath.npdf(y)

        # Split where the logistic function turns, at 1 / sigma.
        edges = [c / sigma for c in (0, 1, 3, 8, 20, 60) if c / sigma < 12]
        return float(mpmath.quad(integrand, [*edges, 12]))

    with mpmath.workdps(20):
        expected = {name: mean(name) for name in GivenSigma._fields}
    # Measured 6e-13 (the entropy at sigma = 256, a difference of numbers of order 1).
    assert_close(given_sigma(sigma, 2), expected, rel=5e-12)


@pytest.mark.parametrize("sigma", [0.6, 2.3, 9.0])
def test_three_keys_match_the_double_integral_over_their_gaps(sigma: float) -> None:
    # The gaps a, b of two of the keys to the largest: integrating the largest out of
    # 3 f(M) f(M - a) f(M - b) leaves this density on the quadrant.
    def mean(name: str) -> float:
        def integrand(a: float, b: float) -> float:
            density = 3 / (2 * math.pi * math.sqrt(3)) * math.exp(-(a * a + b * b - a * b) / 3)
            x = np.array([0.0, -a, -b])
            p = np.exp(sigma * x) / np.exp(sigma * x).sum()
            return density * float(weight_functionals(p.tolist(), x.tolist())[name])

        # Twice the half a > b; the density beyond 12 is below e^-36.
        return 2 * dblquad(integrand, 0, 12, lambda b: b, 12, epsabs=1e-10, epsrel=1e-9)[0]

    expected = {name: mean(name) for name in ("entropy_nats", "max_weight", "jacobian_x_sq")}
    assert_close(given_sigma(sigma, 3), expected, rel=3e-9)  # The tolerance of dblquad.


@pytest.mark.parametrize(("n_k", "sigma"), [(64, 0.8), (64, 4.0), (1024, 2.5)])
def test_many_keys_match_adaptive_quadrature_on_another_route(n_k: int, sigma: float) -> None:
    # E ln Z = int (exp(-e^u) - phi^n) du (Frullani), E sum p^2 = 1 - E[ln Z]' / sigma, and the
    # entropy by Stein's lemma. Inner integrals over x, adaptive too.
    def site(u: float, power: int) -> float:
        def integrand(x: float) -> float:
            w = math.exp(min(u + sigma * x, 700.0))
            return math.exp(power * (u + sigma * x) - w - x * x / 2) / math.sqrt(2 * math.pi)

        turn = min(max(-u / sigma, -8.9), 12.9)
        return quad(integrand, -9, 13, points=[turn], epsabs=1e-13, epsrel=1e-12, limit=200)[0]

    edges = (-math.log(n_k) - 8 * max(sigma, 1) - 20, -4 * sigma, 4.0)
    log_z = sum(
        quad(lambda u: math.exp(-math.exp(u)) - site(u, 0) ** n_k, *pair, epsabs=1e-9)[0]
        for pair in pairwise(edges)
    )
    sum_sq = sum(
        quad(lambda u: n_k * site(u, 2) * site(u, 0) ** (n_k - 1), *pair, epsabs=1e-11)[0]
        for pair in pairwise(edges)
    )
    m = given_sigma(sigma, n_k)
    assert m.sum_sq_weights == pytest.approx(sum_sq, abs=1e-9)
    # sigma^2 = 16 times the error of sum p^2, and the tolerance of the outer quadrature.
    assert m.entropy_nats == pytest.approx(log_z - sigma**2 * (1 - sum_sq), abs=2e-8)


@pytest.mark.parametrize("n_k", N_KEYS)
def test_sums_over_logits_and_over_the_bump_agree_where_both_hold(
    n_k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    over_bump = given_sigma(1.0, n_k)
    monkeypatch.setattr(fixed_sigma, "sites_over_bump", fixed_sigma.sites_over_logits)
    over_logits = given_sigma(1.0, n_k)
    assert over_logits != over_bump  # The other branch was taken, so rounding differs.
    # Measured 4e-13, for two keys and the fourth power of w.
    np.testing.assert_allclose(over_logits, over_bump, rtol=3e-12)


@pytest.mark.parametrize("n_k", N_KEYS)
def test_a_halved_step_changes_no_mean_at_fixed_sigma(
    n_k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    coarse = given_sigma(SIGMAS, n_k)
    monkeypatch.setattr(fixed_sigma, "STEP", fixed_sigma.STEP / 2)
    monkeypatch.setattr(fixed_sigma, "GAP_NODES", 2 * fixed_sigma.GAP_NODES)
    monkeypatch.setattr(fixed_sigma, "TAIL", fixed_sigma.TAIL + 8)
    # Measured 1e-12 at most: the entropy at sigma = 256, a difference of numbers of order 1.
    np.testing.assert_allclose(coarse, given_sigma(SIGMAS, n_k), rtol=5e-12)


@pytest.mark.parametrize("n_k", [2, 64, 4096])
def test_a_halved_step_changes_no_average_over_queries(
    n_k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = [(1, 1.0), (1, 20.0), (1.5, 1.0), (4, 1.0), (4, 0.5), (64, 1.0), (4096, 1.0)]
    coarse = [expectations(n_k, *cell) for cell in cells]
    monkeypatch.setattr(theory_expectations, "_STEP_Q", theory_expectations._STEP_Q / 2)
    monkeypatch.setattr(theory_expectations, "_STEP_Q_WIDE", theory_expectations._STEP_Q_WIDE / 2)
    theory_expectations.query_norms.cache_clear()
    fine = [theory_expectations._exact.__wrapped__(n_k, *cell) for cell in cells]
    theory_expectations.query_norms.cache_clear()
    # Measured 3e-13 at most, in the gradient of q at d_k = 1.
    np.testing.assert_allclose(coarse, fine, rtol=3e-12)


def test_the_law_of_the_query_norm_has_the_moments_of_chi() -> None:
    for d_k in (1.0, 2.7, 13.0, 63.0, 64.0, 4096.0, 1e6):
        norm, probability = theory_expectations.query_norms(d_k, 1.0)
        # The moments of |q|^2: d, and d (d + 2). Rounding: a log density of about 40 nats.
        assert probability @ norm**2 == pytest.approx(d_k, rel=1e-13)
        assert probability @ norm**4 == pytest.approx(d_k * (d_k + 2), rel=1e-13)
        # The first moment sees the odd part too, by lgamma: relative error d_k * 1e-16 or so.
        mean = math.sqrt(2) * math.exp(math.lgamma((d_k + 1) / 2) - math.lgamma(d_k / 2))
        assert probability @ norm == pytest.approx(mean, rel=1e-13 + 1e-14 * d_k)


# --- Values that were computed elsewhere --------------------------------------------------------

TABLE_D_K = (1, 4, 16, 64, 256, 1024, 4096)
# n_k = 64, scaling on and off, by Gauss-Laguerre averages of the same integrals and by sampling,
# to the digits given. (E max p at d_k = 1 is not among them: Gauss-Laguerre misses it by 4e-3.)
TABLE = {
    ("entropy_nats", "on"): "3.744 3.701 3.689 3.686 3.685 3.685 3.685",
    ("entropy_nats", "off"): "3.744 2.808 1.382 .5843 .2649 .1262 .0616",
    ("max_weight", "on"): "- .1052 .1068 .1072 .1072 .1073 .1073",
    ("max_weight", "off"): "- .2747 .5779 .7910 .8970 .9489 .9745",
    ("jacobian_sq", "on"): ".0323 .0339 .0341 .0341 .0341 .0341 .0341",
    ("jacobian_sq", "off"): ".0323 .0705 .0994 .0735 .0428 .0229 .0118",
    ("sum_sq_weights", "on"): ".0455 .0417 .0397 .0390 .0389 .0388 .0388",
    ("sum_sq_weights", "off"): ".0455 .152 .442 .709 .854 .927 .963",
    ("grad_v_sq", "on"): ".0455 .0417 .0397 .0390 .0389 .0388 .0388",
    ("grad_q_sq", "on"): ".0361 .0366 .0350 .0343 .0341 .0341 .0341",
    ("grad_q_sq", "off"): ".0361 .264 1.51 4.63 10.9 23.4 48.4",
}


@pytest.mark.parametrize(("name", "arm"), TABLE)
def test_means_round_to_the_published_table(name: str, arm: str) -> None:
    for d_k, printed in zip(TABLE_D_K, TABLE[name, arm].split(), strict=True):
        if printed != "-":
            value = getattr(expectations(64, d_k, d_k**-0.5 if arm == "on" else 1.0), name)
            # Half a unit in the last printed digit, and a little for ties.
            unit = 10.0 ** -len(printed.partition(".")[2])
            assert value == pytest.approx(float(printed), abs=0.51 * unit), d_k


@pytest.mark.parametrize(
    ("n_k", "printed"), [(16, 7.1), (64, 7.9), (256, 8.9), (1024, 9.9), (4096, 11.0)]
)
def test_half_of_the_entropy_is_gone_at_the_onset(n_k: int, printed: float) -> None:
    d_k = thresholds.half_entropy_d_k(n_k)
    assert d_k == pytest.approx(printed, abs=0.051)  # Half a unit in the last digit.
    # The root is found to 1e-9 in d_k and the slope is below 1 nat per dimension.
    assert expectations(n_k, d_k, 1.0).entropy_nats == pytest.approx(math.log(n_k) / 2, abs=2e-9)


def test_the_largest_weight_is_nearly_one_from_the_exact_onset_on() -> None:
    # 395 is from an independent quadrature (shown with three digits).
    d_k = thresholds.one_hot_d_k(256)
    assert d_k == pytest.approx(395, abs=0.5)
    # The root is found to 1e-10 of d_k, where the mean rises by 1e-4 per dimension.
    assert expectations(256, d_k, 1.0).max_weight == pytest.approx(0.9, abs=1e-10)
    # Two keys have a largest weight of at least 1/2 at every d_k.
    assert thresholds.one_hot_d_k(2, 0.5) == 1.0


@pytest.mark.parametrize(("n_k", "printed"), [(16, 20), (64, 430), (256, 8536)])
def test_the_jacobian_without_scaling_falls_below_only_at_the_crossing(
    n_k: int, printed: float
) -> None:
    d_k = thresholds.gradient_crossing_d_k(n_k)
    assert d_k == pytest.approx(printed, rel=0.01)  # Two digits were printed.
    excess = [
        expectations(n_k, d, 1.0).jacobian_sq - expectations(n_k, d, d**-0.5).jacobian_sq
        for d in (0.9 * d_k, d_k, 1.1 * d_k)
    ]
    assert excess[0] > 0 > excess[2]
    # The root is found to 1e-10 of d_k and the excess varies by less than its terms, 0.15.
    assert excess[1] == pytest.approx(0, abs=1e-10)


def test_few_keys_lose_their_jacobian_at_once() -> None:
    assert [thresholds.gradient_crossing_d_k(n_k) for n_k in (2, 7)] == [1.0, 1.0]


@pytest.mark.parametrize("gradient", ["scores", "q", "k", "v"])
def test_the_other_rms_gradients_never_fall_below(gradient: thresholds.Gradient) -> None:
    assert gradient in get_args(thresholds.Gradient)
    assert thresholds.gradient_crossing_d_k(16, gradient) == math.inf


# --- Sampling -----------------------------------------------------------------------------------


def sampled(n_k: int, d_k: int, scale: float, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return one value per draw of (Q, K, V, G): plain softmax attention and its backward pass."""
    draws, n_q, d_v = 12_000, 2, 3
    q, k, v, g = (
        rng.standard_normal((draws, *shape))
        for shape in ((n_q, d_k), (n_k, d_k), (n_k, d_v), (n_q, d_v))
    )
    logits = scale * q @ k.mT
    p = np.exp(logits - logits.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    d_p = g @ v.mT
    d_logits = p * (d_p - (p * d_p).sum(axis=-1, keepdims=True))
    d_scores = scale * d_logits
    jacobian = p[..., None] * np.eye(n_k) - p[..., None] * p[..., None, :]
    gradients = {
        "logits": d_logits,
        "scores": d_scores,
        "q": d_scores @ k,
        "k": d_scores.mT @ q,
        "v": p.mT @ g,
    }
    per_query = {
        "entropy_nats": -(p * np.log(np.maximum(p, 1e-300))).sum(axis=-1),
        "sum_sq_weights": (p**2).sum(axis=-1),
        "sum_sq_weights_gap": 1 - (p**2).sum(axis=-1),
        "sum_cube_weights": (p**3).sum(axis=-1),
        "max_weight": p.max(axis=-1),
        "max_weight_gap": 1 - p.max(axis=-1),
        "jacobian_sq": (jacobian**2).sum(axis=(-1, -2)),
        "match_weight": p[..., 0],
        "logit_sq": logits.var(axis=-1, ddof=1),
    }
    return {name: value.mean(axis=-1) for name, value in per_query.items()} | {
        f"grad_{name}_sq": (value**2).sum(axis=(-1, -2)) / (n_q * d_v)
        for name, value in gradients.items()
    }


def test_means_match_a_sampled_softmax_and_its_gradients() -> None:
    rng = np.random.default_rng(20170612)
    z_scores = []
    for n_k, d_k in ((2, 3), (7, 1), (11, 5), (5, 13), (23, 7)):
        for scale in (1.0, d_k**-0.5, 0.4):
            exact = expectations(n_k, d_k, scale)
            values = sampled(n_k, d_k, scale, rng)
            assert set(values) == set(Expectations._fields)
            for name, value in values.items():
                error = value.mean() - getattr(exact, name)
                z_scores.append(error / (value.std() / math.sqrt(len(value))))
    # 210 z-scores, of which about 60 are independent (15 cells, a few directions in each): 4 sd
    # has odds of 1 in 250, and the rms an sd of 0.09.
    assert np.abs(z_scores).max() < 4
    assert 0.7 < math.sqrt(np.mean(np.square(z_scores))) < 1.3


# --- Laws ---------------------------------------------------------------------------------------


def test_the_mean_maximum_has_its_closed_forms() -> None:
    root_pi = math.sqrt(math.pi)
    closed = {
        1: 0.0,
        2: 1 / root_pi,
        3: 1.5 / root_pi,
        4: 3 / root_pi * (0.5 + math.asin(1 / 3) / math.pi),
        5: 5 / root_pi * (0.25 + 1.5 * math.asin(1 / 3) / math.pi),
    }
    for n_k, value in closed.items():
        # 37 nats of tail and 40 terms of rounding.
        assert fixed_sigma.expected_max(n_k) == pytest.approx(value, rel=1e-14)


def test_the_mean_maximum_matches_the_published_values() -> None:
    published = (0.5642, 1.0294, 1.4236, 1.7660, 2.0697, 2.3437, 2.5946, 2.8269, 3.0439, 3.2482)
    actual = [fixed_sigma.expected_max(2**j) for j in range(1, 11)]
    assert actual == pytest.approx(published, abs=0.51e-4)  # Half a unit in the last digit.


def test_the_mean_maximum_of_a_billion_keys_matches_adaptive_quadrature() -> None:
    n_k = 10**9

    # E max = int over x > 0 of 1 - F^n, less that of F^n over x < 0, which is 0 here.
    def survival(x: float) -> float:
        return -math.expm1(n_k * math.log1p(-ndtr(-x))) if x > 0 else 1.0

    expected = quad(survival, 0, 5)[0] + quad(survival, 5, 12)[0]
    # The default tolerance of quad.
    assert fixed_sigma.expected_max(n_k) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("n_k", [2, 16, 1024])
def test_large_sigma_laws_are_the_limit(n_k: int) -> None:
    for sigma in (10.0, 100.0, 1000.0):
        law, exact = asymptotics.large_sigma(sigma, n_k), given_sigma(sigma, n_k)
        for name in asymptotics.LargeSigma._fields:
            # The next order: how the density of the gap bends, and ties of three keys.
            bound = fixed_sigma.critical_sigma(n_k) / sigma
            assert getattr(exact, name) == pytest.approx(float(getattr(law, name)), rel=bound), name


def test_the_large_sigma_weights_stop_at_zero() -> None:
    law = asymptotics.large_sigma(np.array([0.1, 10.0]), 64)
    assert law.sum_sq_weights[0] == 0.0
    assert law.max_weight[0] == 0.0
    assert law.sum_sq_weights[1] == pytest.approx(1 - fixed_sigma.expected_max(64) / 10)


def test_small_sigma_entropy_misses_by_the_fourth_order_only() -> None:
    for n_k in (2, 17, 1024):
        errors = [
            float(given_sigma(s, n_k).entropy_nats) - (math.log(n_k) - s * s / 2 * (1 - 1 / n_k))
            for s in (0.05, 0.1)
        ]
        # The sixth order adds about sigma^2 = 1e-2 of it.
        assert errors[1] / errors[0] == pytest.approx(16, rel=0.05)


def test_the_random_energy_model_is_approached_as_keys_multiply() -> None:
    for sigma_over_critical in (0.5, 2.0):
        misses = []
        for n_k in (10**2, 10**4, 10**8):
            sigma = sigma_over_critical * fixed_sigma.critical_sigma(n_k)
            exact = given_sigma(sigma, n_k)
            # Derrida 1981: the extensive part of the entropy, and the limit of sum p^2.
            law = max(0.0, 1 - 1 / sigma_over_critical)
            entropy_miss = exact.entropy_nats - max(0.0, math.log(n_k) - sigma**2 / 2)
            misses.append((abs(exact.sum_sq_weights - law), abs(entropy_miss) / math.log(n_k)))
        assert misses[0] > misses[1] > misses[2]
        assert max(misses[2]) < 0.1  # Corrections of order ln ln n / ln n = 0.16.
