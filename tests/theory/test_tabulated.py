"""Interpolated means at a fixed sigma, against the means themselves."""

import numpy as np
import pytest

from sqrtdk.theory import expectations, fixed_sigma, tabulated
from sqrtdk.theory.tabulated import Tabulated

# Each value is off by the rounding error of the entropy there and at the nodes, about 5e-13 each.
RTOL = 2e-12


def direct(sigmas: np.ndarray, n_k: int) -> np.ndarray:
    parts = fixed_sigma.weight_means(sigmas, n_k), fixed_sigma.max_weights(sigmas, n_k)
    return np.concatenate(parts, axis=1)


def table(found: Tabulated, sigmas: np.ndarray, n_k: int) -> np.ndarray:
    parts = found.weight_means(sigmas, n_k), found.max_weights(sigmas, n_k)
    return np.concatenate(parts, axis=1)


# Two keys, where sums over three vanish; and where the law changes fastest, near sqrt(2 ln n).
@pytest.mark.parametrize(
    ("n_k", "sigmas"), [(2, (0.0, 0.2, 40.0)), (4096, (0.01, 3.9, 4.1, 250.0))]
)
def test_interpolated_means_are_those_at_the_sigma(n_k: int, sigmas: tuple[float, ...]) -> None:
    at = np.array(sigmas)
    np.testing.assert_allclose(table(Tabulated(n_k), at, n_k), direct(at, n_k), rtol=RTOL)


def test_a_value_is_the_same_whatever_was_asked_before() -> None:
    sigmas, first, second = np.array([0.3, 0.1, 0.31, 2.0]), Tabulated(16), Tabulated(16)
    whole = table(first, sigmas, 16)
    one_by_one = [table(second, sigmas[[place]], 16)[0] for place in (3, 2, 1, 0)]
    np.testing.assert_array_equal(whole, one_by_one[::-1])


def test_a_piece_that_has_not_converged_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tabulated, "SMALL", 1e-18)
    at = np.array([0.7, 0.8])
    np.testing.assert_array_equal(table(Tabulated(16), at, 16), direct(at, 16))


@pytest.mark.parametrize(
    ("n_k", "d_k", "scale"), [(1, 4.0, 1.0), (16, 1.0, 1.0), (16, 64.0, 0.125)]
)
def test_tabulated_expectations_are_the_expectations(n_k: int, d_k: float, scale: float) -> None:
    found = expectations.tabulated_expectations(n_k, d_k, scale)
    np.testing.assert_allclose(found, expectations.expectations(n_k, d_k, scale), rtol=RTOL)
