"""The change of a metric between two runs."""

import numpy as np
import pytest
from scipy import stats

from sqrtdk.stats import changes

RNG = np.random.default_rng(7)
FIRST = RNG.gamma(4.0, size=12)
SECOND = FIRST * RNG.gamma(30.0, 1 / 25, size=12)
OTHER = RNG.gamma(5.0, size=9)


def test_a_paired_difference_has_the_interval_of_the_paired_t_test() -> None:
    found = changes.change(FIRST, SECOND, paired=True)
    expected = stats.ttest_rel(SECOND, FIRST).confidence_interval(0.95)
    assert found.kind == "difference"
    assert found.change.mean == pytest.approx(SECOND.mean() - FIRST.mean(), rel=1e-12)
    # Both sum twelve numbers, so that they differ by rounding alone.
    assert found.change[1:3] == pytest.approx((expected.low, expected.high), rel=1e-12)


def test_an_independent_difference_has_the_interval_of_welchs_t_test() -> None:
    found = changes.change(FIRST, OTHER, paired=False)
    expected = stats.ttest_ind(OTHER, FIRST, equal_var=False).confidence_interval(0.95)
    assert found.change[1:3] == pytest.approx((expected.low, expected.high), rel=1e-12)


def test_an_independent_ratio_of_quadratic_means_covers_as_often_as_it_says() -> None:
    rng = np.random.default_rng(11)
    draws = 2000
    inside = 0
    for _ in range(draws):
        first, second = rng.normal(1.0, 0.2, 20), rng.normal(3.0, 0.3, 15)
        found = changes.change(first, second, pool="rms", paired=False)
        truth = ((9.0 + 0.09) / (1.0 + 0.04)) ** 0.5
        inside += found.change.low <= truth <= found.change.high
    # 95 % within four standard errors of a share of 2000 draws, 0.5 % each.
    assert abs(inside / draws - 0.95) < 0.02


def test_a_ratio_of_medians_pairs_seeds_where_it_can() -> None:
    paired = changes.change(FIRST, SECOND, pool="median", paired=True)
    assert paired.kind == "ratio"
    # The order statistics 3 and 10 of 12: the binomial table's 95 % interval of a median.
    ratios = np.sort(SECOND / FIRST)
    assert paired.change[1:3] == (ratios[2], ratios[9])
    apart = changes.change(FIRST, SECOND, pool="median", paired=False)
    assert apart.change.low < paired.change.low
    assert paired.change.high < apart.change.high


def test_the_outcome_says_whether_the_interval_excludes_no_change() -> None:
    moved = FIRST + 1.0 + 0.01 * RNG.standard_normal(12)
    noise = np.where(np.arange(12) % 2, 1.0, -1.0)
    outcomes = {
        changes.SAME: changes.change(FIRST, FIRST * (1 + 1e-13), paired=True),
        changes.WITHIN: changes.change(FIRST, FIRST + noise, paired=True),
        changes.DIFFERS: changes.change(FIRST, moved, paired=True),
        changes.UNKNOWN: changes.change(FIRST[:1], moved[:1], paired=True),
    }
    assert {name: one.outcome for name, one in outcomes.items()} == {x: x for x in changes.OUTCOMES}


def test_the_same_values_of_other_seeds_are_not_called_the_same() -> None:
    assert changes.change(FIRST, FIRST, paired=False).outcome == changes.WITHIN


@pytest.mark.parametrize("pool", ["rms", "median"])
def test_a_ratio_to_zero_is_given_as_a_difference(pool: str) -> None:
    found = changes.change(np.zeros(4), np.array([1.0, 2.0, 3.0, 4.0]), pool=pool, paired=True)
    assert found.kind == "difference"
    assert found.change.mean == 2.5
