"""Exact theory of related vectors: closed cases, independent quadrature, and sampling.

The references share no formula with the modules: two keys are one integral over the difference of
two normals, three keys a double integral, a sphere of two or three dimensions an integral over its
angles, and the sampled softmax is that of `test_expectations`, with matches.
"""

import math
import tracemalloc
from itertools import pairwise
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy
from scipy.integrate import nquad, quad
from scipy.stats import chi
from scipy.stats import norm as normal

from sqrtdk.core import input_laws
from sqrtdk.core.attention import attention
from sqrtdk.core.gradients import gradients
from sqrtdk.theory import any_density, fixed_sigma, matched, points, related
from sqrtdk.theory import expectations as theory_expectations
from sqrtdk.theory.expectations import Expectations, expectations
from sqrtdk.theory.matched import GivenMatch, given_match
from sqrtdk.theory.related import Law, expectations_of, with_match

PROMISED = 1e-8


def functionals(p: Any, x: Any, log: Any = math.log, largest: Any = max) -> dict[str, Any]:
    """Compute the fields of GivenMatch for one vector of weights, from their definitions.

    Without `largest`, those of the largest weight are left out: a kink, which not every rule takes.
    """
    mean_x = sum(a * b for a, b in zip(p, x, strict=True))
    sum_sq, sum_cube = sum(a**2 for a in p), sum(a**3 for a in p)
    found = {
        "weight_sum": sum(p),
        "match_weight": p[0],
        "entropy_nats": -sum(a * log(a) for a in p),
        "sum_sq_weights": sum_sq,
        "sum_sq_weights_gap": 1 - sum_sq,
        "sum_cube_weights": sum_cube,
        "jacobian_sq": sum_sq - 2 * sum_cube + sum_sq**2,
        "jacobian_match_sq": p[0] ** 2 * (1 - 2 * p[0] + sum_sq),
        "jacobian_x_sq": sum((a * (b - mean_x)) ** 2 for a, b in zip(p, x, strict=True)),
    }
    if largest is not None:
        found |= {"max_weight": largest(p), "max_weight_gap": 1 - largest(p)}
    return found


def at(sigma: float, n_k: int, mean: float, sd: float) -> dict[str, float]:
    found = given_match(sigma, n_k, np.array([mean]), np.array([sd]))
    return {name: float(values[0]) for name, values in found._asdict().items()}


@pytest.mark.parametrize(
    ("sigma", "mean", "sd"),
    [(1.0, 0.0, 0.1), (2.0, -3.0, 0.5), (20.0, 8.0, 0.7)],
)
def test_two_keys_are_an_integral_over_their_difference(
    sigma: float, mean: float, sd: float
) -> None:
    # x_0 - x_1 is N(mean, 1 + sd²), and everything depends on that difference. At sigma 20 the
    # match wins but for e^-32 of the rows, which carry the entropy: mpmath follows them.
    found = at(sigma, 2, mean, sd)
    spread = mpmath.sqrt(1 + mpmath.mpf(sd) ** 2)
    with mpmath.workdps(20):

        def value(name: str, difference: Any) -> Any:
            p0 = 1 / (1 + mpmath.exp(-sigma * difference))
            p1 = 1 / (1 + mpmath.exp(sigma * difference))
            if name == "max_weight_gap":
                return min(p0, p1)
            if name == "sum_sq_weights_gap":
                return 2 * p0 * p1
            return functionals([p0, p1], [difference, mpmath.mpf(0)], mpmath.log)[name]

        edges = sorted({0.0, mean, *(mean + k * float(spread) for k in (-14, -7, -3, 3, 7, 14))})
        for name, actual in found.items():
            expected = mpmath.quad(
                lambda d, name=name: (
                    value(name, d)
                    * mpmath.exp(-(((d - mean) / spread) ** 2) / 2)
                    / (spread * mpmath.sqrt(2 * mpmath.pi))
                ),
                edges,
            )
            # Where nearly all rows are one-hot these are |p0 p1|: relative to themselves, too.
            assert actual == pytest.approx(float(expected), rel=1e-9), name


def test_three_keys_are_a_double_integral() -> None:
    sigma, mean, sd = 1.5, 1.2, 0.7
    found = at(sigma, 3, mean, sd)
    # Over the differences a = x_1 - x_0 and b = x_2 - x_0, jointly normal.
    covariance = np.array([[1 + sd**2, sd**2], [sd**2, 1 + sd**2]])
    nodes, weights = np.polynomial.hermite_e.hermegauss(100)
    y = np.stack(np.meshgrid(nodes, nodes)).reshape(2, -1)
    density = np.outer(weights, weights).ravel() / weights.sum() ** 2
    x = np.concatenate([np.zeros((1, y.shape[1])), np.linalg.cholesky(covariance) @ y - mean])
    e = np.exp(sigma * x)
    expected = functionals(list(e / e.sum(axis=0)), list(x), np.log, largest=None)
    for name, values in expected.items():
        assert found[name] == pytest.approx(float(density @ values), rel=PROMISED), name


@pytest.mark.parametrize(("sigma", "n_k"), [(0.05, 5), (0.7, 64), (1.0, 2), (8.0, 3), (32.0, 256)])
def test_a_match_like_the_other_keys_is_one_of_them(sigma: float, n_k: int) -> None:
    found, plain = at(sigma, n_k, 0.0, 1.0), fixed_sigma.given_sigma(sigma, n_k)
    assert found["match_weight"] == pytest.approx(1 / n_k, rel=1e-12)
    for name in set(GivenMatch._fields) & set(plain._fields):
        # Measured 4e-14: the entropy is summed in another way.
        assert found[name] == pytest.approx(float(getattr(plain, name)), rel=1e-12), name


@pytest.mark.parametrize(
    ("law", "cells"),
    [
        (Law("match", 0.99), [(4, 8, 0.5)]),
        (Law("match", -0.6, 0.3), [(2, 1, 1.0), (16, 64, 0.5)]),
    ],
)
def test_halved_steps_change_no_mean(
    law: Law, cells: list[tuple[int, float, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    coarse = [expectations_of(law, *cell) for cell in cells]
    for module, name, factor in (
        (theory_expectations, "_STEP_Q", 0.5),
        (theory_expectations, "_STEP_Q_WIDE", 0.5),
        (matched, "STEP", 0.5),
        (matched, "GAP_NODES", 2),
    ):
        monkeypatch.setattr(module, name, getattr(module, name) * factor)
    norms = theory_expectations.query_norms.__wrapped__

    def finer(d_k: float, scale: float, steepness: float = 0.0) -> Any:
        return norms(d_k, scale, 2 * steepness + 1)

    monkeypatch.setattr(related, "query_norms", finer)
    for cell, known in zip(cells, coarse, strict=True):
        fine = with_match.__wrapped__(*cell, law.correlation, law.alignment)
        np.testing.assert_allclose(known, fine, rtol=PROMISED, err_msg=str(cell))


def test_the_average_over_queries_is_an_adaptive_integral() -> None:
    n_k, d_k, scale, correlation = 7, 5, 0.6, 0.7
    sd = math.sqrt(1 - correlation**2)
    found = with_match(n_k, d_k, scale, correlation)
    for name in ("entropy_nats", "match_weight", "max_weight_gap"):
        value, _ = quad(
            lambda r, name=name: at(scale * r, n_k, correlation * r, sd)[name] * chi.pdf(r, d_k),
            1e-9, 10, epsabs=1e-10, epsrel=1e-10, limit=60,
        )  # fmt: skip
        assert getattr(found, name) == pytest.approx(value, rel=PROMISED)


def test_a_match_that_always_wins_leaves_exact_tiny_means() -> None:
    # Two keys at sigma = r: 1 - max p of a difference D ~ N(c r, 2 - c²), over all r.
    found = with_match(2, 64, 1.0, 0.9)

    def gap(r: float) -> float:
        spread = math.sqrt(2 - 0.81)
        inner, _ = quad(
            lambda d: math.exp(-(((d - 0.9 * r) / spread) ** 2) / 2) / (1 + math.exp(r * abs(d))),
            -8, 8, points=[0.0], epsabs=0, epsrel=1e-11, limit=200,
        )  # fmt: skip
        return inner / (spread * math.sqrt(2 * math.pi))

    edges = [0.5, 3.0, 5.0, 7.0, 9.0, 12.0, 16.0]
    expected = sum(
        quad(lambda r: gap(r) * chi.pdf(r, 64), a, b, epsabs=0, epsrel=1e-10)[0]
        for a, b in pairwise(edges)
    )
    assert expected < 1e-7
    assert found.max_weight_gap == pytest.approx(expected, rel=PROMISED)


@pytest.mark.parametrize("d_k", [2, 3])
def test_two_keys_on_a_small_sphere_are_an_integral_over_angles(d_k: int) -> None:
    scale = 0.9
    found = expectations_of(Law("sphere"), 2, d_k, scale)
    sigma = scale * math.sqrt(d_k)

    def of(a: float, b: float) -> list[float]:
        # On the circle the angle is uniform; on the sphere the cosine is.
        x = math.sqrt(d_k) * (np.cos([a, b]) if d_k == 2 else np.array([a, b]))
        e = np.exp(sigma * (x - x.max()))
        p = e / e.sum()
        entropy = float(-(p * np.log(p)).sum())
        return [entropy, float(p.max()), float((p**2).sum())]

    low, high = (0.0, math.pi) if d_k == 2 else (-1.0, 1.0)
    options = {"epsabs": 1e-9, "epsrel": 1e-9}
    for place, name in enumerate(("entropy_nats", "max_weight", "sum_sq_weights")):
        # One triangle, by symmetry, so that the kink of the maximum is its edge.
        value, _ = nquad(
            lambda a, b, place=place: of(a, b)[place], [lambda b: (low, b), (low, high)],
            opts=[options, options],
        )  # fmt: skip
        expected = 2 * value / (high - low) ** 2
        assert getattr(found, name) == pytest.approx(expected, rel=PROMISED), name


@pytest.mark.parametrize("sigma", [0.3, 4.0])
def test_panels_of_the_normal_density_give_the_means_of_normal_logits(sigma: float) -> None:
    x, half = any_density.on_panels(np.linspace(-12, 12, 49))
    density = any_density.density_of(x, np.exp(-x * x / 2), half)
    found = any_density.given_density(density, sigma, 20)
    plain = fixed_sigma.given_sigma(sigma, 20)
    for name in set(found._fields) & set(plain._fields):
        actual, expected = getattr(found, name), float(getattr(plain, name))
        assert actual == pytest.approx(expected, rel=1e-10), name


def test_two_exponential_logits_have_a_closed_largest_weight() -> None:
    # The difference of two Laplace variables: density (1 + b |x|) b e^(-b |x|) / 4, b = √2.
    sigma, b = 1.7, math.sqrt(2)
    value, _ = quad(
        lambda x: 2 * (1 + b * x) * b * math.exp(-b * x) / 4 / (1 + math.exp(-sigma * x)), 0, 60,
        epsabs=1e-12, epsrel=1e-12,
    )  # fmt: skip
    found = any_density.given_density(any_density.laplace(sigma, 2), sigma, 2)
    assert found.max_weight == pytest.approx(value, rel=PROMISED)


def test_sums_over_a_density_hold_a_block_at_a_time_and_do_not_depend_on_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    density = any_density.laplace(2.0, 64)

    def measured() -> tuple[any_density.GivenDensity, int]:
        tracemalloc.start()
        found = any_density.given_density(density, 2.0, 64)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return found, peak

    whole, all_at_once = measured()
    monkeypatch.setattr(any_density, "BLOCK", any_density.BLOCK // 64)
    parts, peak = measured()
    # Sums in another order: a few roundings.
    assert parts == pytest.approx(whole, rel=1e-13)
    assert peak < all_at_once / 4
    # An array holds 8 bytes an entry, and fewer than 12 of them are held: 100 MB at any sigma.
    assert peak < 12 * 8 * any_density.BLOCK + 1_000_000


def test_the_sphere_of_many_dimensions_is_nearly_normal() -> None:
    sphere = expectations_of(Law("sphere"), 16, 4096, 1 / 64)
    assert sphere.entropy_nats == pytest.approx(
        expectations(16, 4096, 1 / 64).entropy_nats, rel=1e-3
    )


SAMPLED: dict[str, tuple[dict[str, Any], int, int, float]] = {
    "planted": ({"law": "planted", "cosine": 0.6}, 6, 8, 0.35),
    "turned": ({"law": "correlated", "correlation": 0.8, "alignment": 0.6}, 5, 6, 0.4),
    "opposed": ({"law": "correlated", "correlation": 0.7, "alignment": -0.5}, 4, 2, 1.0),
    "sphere": ({"law": "sphere", "arrays": "both"}, 6, 3, 0.9),
    "sphere of q": ({"law": "sphere", "arrays": "q"}, 6, 5, 0.6),
}


@pytest.mark.parametrize("name", SAMPLED)
def test_means_match_the_measured_attention_of_the_law(name: str) -> None:
    entry, n_k, d_k, scale = SAMPLED[name]
    law = points.law_at(entry, d_k)
    assert law is not None
    exact = expectations_of(law, n_k, d_k, scale)
    draws, d_v = 3_000, 2
    rng = np.random.default_rng(20261130)
    formula = input_laws.LAWS[str(entry["law"])].formula
    parameters = {key: value for key, value in entry.items() if key != "law"}
    # One query, because two queries of a draw share their keys.
    sizes = {"d_k": d_k, "n_k": n_k, "n_q": 1}
    pairs = [formula(rng, rng, **sizes, **parameters) for _ in range(draws)]
    q, k = (np.stack(arrays) for arrays in zip(*pairs, strict=True))
    v, g = rng.standard_normal((draws, n_k, d_v)), rng.standard_normal((draws, 1, d_v))
    forward = attention(q, k, v, scale=scale)
    back = gradients(q, k, v, g, forward, scale=scale)
    p, logits = forward.weights[:, 0].T, forward.logits[:, 0].T
    found = functionals(list(p), list(logits), np.log, largest=lambda p: np.max(p, axis=0))
    found = {key: found[key] for key in set(found) & set(Expectations._fields)}
    found |= {
        f"grad_{x}_sq": (getattr(back, x) ** 2).sum(axis=(-1, -2)) / d_v
        for x in ("logits", "scores", "q", "k", "v")
    }
    found["logit_sq"] = logits.var(axis=0, ddof=1)
    assert found.keys() == set(Expectations._fields)
    z = {
        key: (np.mean(values) - getattr(exact, key)) / (np.std(values) / math.sqrt(draws) + 1e-15)
        for key, values in found.items()
    }
    # 14 correlated z of each law: one beyond 4 in 1 of about 1,500 laws.
    assert max(map(abs, z.values())) < 4, z


def test_values_out_of_range_are_refused() -> None:
    for call, said in (
        (lambda: with_match(4, 4, 1.0, 1.0), "correlation must be between -1 and 1"),
        (lambda: with_match(4, 4, -1.0, 0.5), "scale must be finite and >= 0"),
        (lambda: expectations_of(Law("sphere"), 4, 1.5, 1.0), "d_k must be finite and >= 2"),
        (lambda: at(1.0, 0, 0.0, 1.0), "n_k must be >= 1"),
        (lambda: at(1.0, 4, 0.0, 0.0), "sd above 0"),
        (lambda: at(-1.0, 4, 0.0, 1.0), "sigma must be finite and >= 0"),
    ):
        with pytest.raises(ValueError, match=said):
            call()


def test_a_single_key_has_all_of_the_weight() -> None:
    for law in (Law("match", 0.5), Law("sphere"), Law("sphere_q")):
        assert expectations_of(law, 1, 4, 0.5) == Expectations(
            0, 1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 0
        )


def test_the_law_of_an_entry_depends_on_what_the_theory_covers() -> None:
    assert points.law_at({"law": "planted", "cosine": 0.5}, 7) == Law("match", 0.5)
    turned = {"law": "correlated", "correlation": 0.5, "alignment": 0.2}
    assert points.law_at(turned, 8) == Law("match", 0.5, 0.2)
    # The last coordinate of an odd d_k is not turned.
    assert points.law_at(turned, 7) is None
    assert points.law_at({"law": "sphere", "arrays": "both"}, 1) is None
    assert points.law_at({"law": "planted", "cosine": 0.999}, 7) is None


@pytest.mark.parametrize(("n_k", "d_k", "correlation"), [(2, 3, 0.3), (50, 64, 0.5), (9, 8, -0.7)])
def test_the_match_is_the_largest_with_the_probability_of_a_double_integral(
    n_k: int, d_k: int, correlation: float
) -> None:
    sd = math.sqrt(1 - correlation**2)

    # ln of sd √(2 pi) and of the constant of the chi law.
    constant = math.log(sd * math.sqrt(2 * math.pi)) + math.lgamma(d_k / 2)
    constant += (d_k / 2 - 1) * math.log(2)

    def density(x: float, r: float) -> float:
        off = (x - correlation * r) / sd
        log_density = -off * off / 2 + (d_k - 1) * math.log(r) - r * r / 2 - constant
        return math.exp(log_density) * (math.erfc(-x / math.sqrt(2)) / 2) ** (n_k - 1)

    center = math.sqrt(d_k)
    expected, _ = nquad(
        density,
        [lambda r: (correlation * r - 8 * sd, correlation * r + 8 * sd),
         (max(1e-9, center - 6), center + 6)],
        opts={"epsabs": 1e-9, "epsrel": 1e-9},
    )  # fmt: skip
    assert related.match_is_largest(n_k, d_k, correlation) == pytest.approx(expected, rel=1e-8)


def test_the_match_is_the_largest_as_often_as_in_samples() -> None:
    generator = np.random.default_rng(6)
    norm = np.sqrt(generator.chisquare(64, 200_000))
    match = 0.5 * norm + math.sqrt(0.75) * generator.standard_normal(200_000)
    # The largest of n normals by its distribution function, U^(1/n).
    others = normal.isf(-np.expm1(np.log(generator.uniform(size=200_000)) / 99_999))
    # Five standard errors of 200,000 draws.
    found = related.match_is_largest(100_000, 64, 0.5)
    assert found == pytest.approx(float(np.mean(match > others)), abs=0.0054)


@pytest.mark.parametrize(("n_k", "scale"), [(16, 0.125), (300, 1.0)])
def test_the_quick_means_of_a_match_are_those_of_all_statistics(n_k: int, scale: float) -> None:
    weight, entropy = related.match_means(n_k, 64, scale, 0.5)
    plain = with_match(n_k, 64, scale, 0.5)
    assert weight == pytest.approx(plain.match_weight, rel=1e-13)
    assert entropy == pytest.approx(plain.entropy_nats, rel=1e-13)


def test_a_match_on_its_query_is_refused() -> None:
    with pytest.raises(ValueError, match="correlation must be between -1 and 1, got 1"):
        related.match_is_largest(4, 8, 1.0)


@pytest.mark.parametrize(("d_k", "scale"), [(16, 0.25), (16, 1.0), (4, 0.5), (64, 1 / 64)])
def test_a_match_equal_to_its_query_has_the_means_of_a_double_integral(
    d_k: int, scale: float
) -> None:
    law = chi(d_k)
    low, high = law.ppf(1e-16), law.isf(1e-17)
    nodes, weights = np.polynomial.legendre.leggauss(80)
    r = (high - low) / 2 * (nodes + 1) + low
    # A trapezoid sum over the other key is exact to every digit for its smooth density.
    x = np.arange(-12, 12, 0.01)
    gap = scale * r[:, np.newaxis] * (r[:, np.newaxis] - x)
    weight = scipy.special.expit(gap)
    entropy = weight * np.logaddexp(0, -gap) + (1 - weight) * np.logaddexp(0, gap)
    found = [
        float((high - low) / 2 * (weights * law.pdf(r)) @ (values @ normal.pdf(x)) * 0.01)
        for values in (weight, entropy)
    ]
    # Both are accurate to 1e-10 or better.
    assert related.match_means(2, d_k, scale, 1.0) == pytest.approx(tuple(found), rel=1e-9)


def test_a_match_equal_to_its_query_has_the_means_of_a_simulation() -> None:
    draw = np.random.default_rng(11).standard_normal
    norm = np.linalg.norm(draw((20_000, 9)), axis=1, keepdims=True)
    logits = 0.4 * norm * np.hstack([norm, draw((20_000, 5))])
    p = scipy.special.softmax(logits, axis=1)
    for values, exact in zip(
        (p[:, 0], scipy.stats.entropy(p, axis=1)), related.match_means(6, 9, 0.4, 1.0), strict=True
    ):
        # Two z of one draw: beyond 4 once in 8,000 of them.
        assert abs(values.mean() - exact) < 4 * values.std() / len(p) ** 0.5
