"""What unrelated vectors do, between the nodes of the exact theory."""

import math

import numpy as np
import pytest

from sqrtdk.theory import asymptotics, expected
from sqrtdk.theory import fixed_sigma as theory


@pytest.mark.parametrize("n_k", [2, 3, 64, 4096])
def test_between_the_nodes_the_exact_means_come_out(n_k: int) -> None:
    for sigma in np.exp(np.random.default_rng(n_k).uniform(math.log(0.01), math.log(200), 8)):
        exact = theory.given_sigma(sigma, n_k)
        found = expected.unrelated(float(sigma), np.array([n_k]))
        # What the module promises of its splines.
        wanted = (float(exact.entropy_nats) / math.log(n_k), float(exact.max_weight))
        assert found == pytest.approx(wanted, abs=1e-5)


def test_rows_that_see_different_numbers_of_keys_are_averaged() -> None:
    sizes = np.arange(1, 90)
    found = expected.unrelated(1.7, sizes)
    exact = [theory.given_sigma(1.7, int(n)) for n in sizes[1:]]
    entropy = np.mean([float(e.entropy_nats) / math.log(n) for n, e in enumerate(exact, start=2)])
    assert found.entropy_normalized == pytest.approx(entropy, abs=1e-5)
    assert found.max_weight == pytest.approx(
        np.mean([float(e.max_weight) for e in exact]), abs=1e-5
    )


def test_no_spread_is_equal_weights_and_a_huge_one_is_one_hot() -> None:
    flat = expected.unrelated(0.0, np.array([50]))
    assert flat == pytest.approx((1.0, 1 / 50), abs=1e-9)
    law = asymptotics.large_sigma(4000.0, 50)
    far = expected.unrelated(4000.0, np.array([50]))
    # The law itself is within √(2 ln n) / σ of the truth.
    assert far.entropy_normalized == pytest.approx(float(law.entropy_nats) / math.log(50), rel=0.02)
    assert 1 - far.max_weight == pytest.approx(float(law.max_weight_gap), rel=0.02)


def test_without_rows_or_a_spread_nothing_is_expected() -> None:
    assert all(map(math.isnan, expected.unrelated(1.0, np.array([1, 1]))))
    assert all(map(math.isnan, expected.unrelated(math.nan, np.array([5]))))
