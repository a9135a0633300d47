"""Softmax of rows in place, for training loops."""

import numpy as np
import pytest
from oracles import EPS, normal

from sqrtdk.core import attention, gradients, row_softmax


def both(logits: np.ndarray, d_weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    weights, found = logits.copy(), d_weights.copy()
    top = row_softmax.softmax(weights)
    row_softmax.softmax_backward(weights, found, top)
    return weights, found


@pytest.mark.parametrize("size", [1.0, 30.0, 1000.0])
def test_rows_are_those_of_the_general_functions(size: float) -> None:
    logits, d_weights = size * normal(7, 5), normal(7, 5, seed=1)
    weights, found = both(logits, d_weights)
    expected = attention.softmax(logits)
    # A few roundings of each term; weights of saturated rows keep their digits too.
    np.testing.assert_allclose(weights, expected, rtol=8 * EPS[np.float64])
    # A sum of five terms of the size of its largest.
    np.testing.assert_allclose(
        found, gradients.softmax_backward(expected, d_weights), rtol=1e-13, atol=1e-300
    )


def test_a_saturated_row_keeps_the_digits_of_its_gradient() -> None:
    weights, found = both(np.array([[0.0, 40.0]]), np.array([[3.0, 1.0]]))
    small = np.exp(-40.0)
    np.testing.assert_allclose(found, [[2 * small, -2 * small]], rtol=1e-15)
    assert weights[0, 1] == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_row_depends_on_no_other_row(dtype: type) -> None:
    logits, d_weights = (normal(9, 7, seed=seed).astype(dtype) for seed in (2, 3))
    logits[4, 2], logits[6, 1] = np.nan, np.inf
    with np.errstate(invalid="ignore"):
        weights, found = both(logits, d_weights)
        for row in range(9):
            alone = both(logits[row : row + 1], d_weights[row : row + 1])
            np.testing.assert_array_equal(alone[0][0], weights[row])
            np.testing.assert_array_equal(alone[1][0], found[row])
    assert weights.dtype == found.dtype == dtype
    assert np.isnan(weights).all(axis=1).tolist() == [row in (4, 6) for row in range(9)]
