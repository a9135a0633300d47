"""The exact spread of the logits before training, against simulation."""

from typing import Any

import numpy as np
import pytest

from sqrtdk.theory.initialisation import logit_sd, mean_correlation

DRAWS = 40_000


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_the_mean_correlation_is_that_of_simulated_pairs(correlation: float) -> None:
    rng = np.random.default_rng(1)
    x, fresh = rng.standard_normal((2, DRAWS, 5))
    y = correlation * x + np.sqrt(1 - correlation**2) * fresh
    x, y = (one - one.mean(axis=1, keepdims=True) for one in (x, y))
    found = np.sum(x * y, axis=1) / np.sqrt(np.sum(x * x, axis=1) * np.sum(y * y, axis=1))
    # Five standard errors.
    error = 5 * found.std() / DRAWS**0.5
    assert abs(found.mean() - mean_correlation(correlation, 5)) < error


@pytest.mark.parametrize("is_normalized", [True, False])
@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_sigma_is_that_of_layers_drawn_and_multiplied_out(
    is_normalized: bool, correlation: float
) -> None:
    d_model, d_k, n_k, sd = 5, 3, 4, 1.7
    rng = np.random.default_rng(2)
    common = rng.standard_normal((DRAWS, 1, d_model))
    x = np.sqrt(1 - correlation) * rng.standard_normal((DRAWS, n_k, d_model))
    x = sd * (x + np.sqrt(correlation) * common)
    if is_normalized:
        x = (x - x.mean(axis=-1, keepdims=True)) / x.std(axis=-1, keepdims=True)
    # Laws of three kinds, because only the variances of the entries may matter.
    w_q = 0.3 * rng.choice([-1.0, 1.0], (DRAWS, d_model, d_k))
    w_k = rng.uniform(-0.6, 0.6, (DRAWS, d_model, d_k))
    b_q, b_k = 0.5 * rng.standard_normal((2, DRAWS, 1, d_k))
    logits = 0.25 * np.einsum("bid,bjd->bij", x @ w_q + b_q, x @ w_k + b_k)
    squares = np.mean(np.var(logits, axis=-1, ddof=1), axis=-1)
    exact = logit_sd(
        d_model, d_k, n_k, q_variance=0.09, k_variance=0.12, bias_variance=0.25, scale=0.25,
        is_normalized=is_normalized, embedding_sd=sd, correlation=correlation,
    )  # fmt: skip
    # Five standard errors of the mean square.
    assert abs(squares.mean() - exact**2) < 5 * squares.std() / DRAWS**0.5


def test_a_spread_needs_two_keys_and_a_correlation() -> None:
    given: dict[str, Any] = {
        "q_variance": 1, "k_variance": 1, "bias_variance": 0, "scale": 1, "is_normalized": True,
        "embedding_sd": 1, "correlation": 0,
    }  # fmt: skip
    with pytest.raises(ValueError, match="needs n_k >= 2, got 1"):
        logit_sd(4, 4, 1, **given)
    with pytest.raises(ValueError, match="correlation must be between 0 and 1, got 2"):
        logit_sd(4, 4, 4, **given | {"correlation": 2})
    assert logit_sd(1, 4, 4, **given) == 0
