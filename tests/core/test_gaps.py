"""The scale at which the competitors of the largest logit fall behind, and its growth."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from sqrtdk.core.gaps import growth, separation


def test_at_the_separation_all_competitors_weigh_as_much_as_the_largest() -> None:
    rows = np.random.default_rng(2).standard_normal((20, 300))
    for row, found in zip(rows, separation(rows), strict=True):
        top = row.max()
        others = np.sort(row)[:-1]
        exact = brentq(lambda b, o=others, t=top: np.exp(b * (o - t)).sum() - 1, 1e-9, 1e4)
        # Twenty-seven halvings of an interval of up to a few thousand.
        assert found == pytest.approx(exact, rel=1e-4)
        weights = np.exp(found * (row - top))
        assert 1 / weights.sum() == pytest.approx(0.5, rel=1e-3)


def test_hidden_keys_are_no_competitors() -> None:
    row = np.array([[2.0, 1.0, 0.5, -1.0]])
    hidden = np.array([[2.0, -np.inf, 1.0, 0.5, -np.inf, -1.0]])
    assert separation(hidden)[0] == pytest.approx(separation(row)[0], rel=1e-7)
    assert separation(np.array([[3.0, 1.0]])).tolist() == [0.0]
    assert separation(np.array([[3.0, -np.inf]])).tolist() == [0.0]
    assert separation(np.array([[3.0]])).tolist() == [0.0]
    assert np.isinf(separation(np.array([[1.0, 1.0, 0.0]]))).all()


def test_the_growth_is_a_power_of_ln_n() -> None:
    n = np.array([16.0, 64.0, 256.0, 1024.0])
    # A line through four points, up to rounding.
    assert growth(3 * np.log(n) ** 0.7, n) == pytest.approx(0.7, rel=1e-12)
    ties = np.array([math.inf, *(3 * np.log(n[1:]) ** 0.7)])
    assert growth(ties, n) == pytest.approx(0.7, rel=1e-12)
    assert math.isnan(growth(np.array([1.0, 2.0]), np.array([8.0, 8.0])))
