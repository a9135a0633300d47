"""Estimates: statistics over seeds, numbers in words, and curves over d_k."""

import math

import numpy as np
import pytest
import scipy.stats

from sqrtdk.stats import curves, intervals, wording
from sqrtdk.stats.intervals import Estimate, MissingError, typical_ratio


def test_the_interval_is_students_by_hand() -> None:
    # Mean 2, sd 1, n 3: half width t(0.975, 2) / sqrt(3), with t = 4.302652729749464 (tables).
    low, high = intervals.interval(np.array([1.0, 2.0, 3.0]))
    half = 4.302652729749464 / math.sqrt(3)
    # stdtrit agrees with printed tables to their last digit, 1e-15; two more roundings.
    assert low == pytest.approx(2 - half, rel=1e-14)
    assert high == pytest.approx(2 + half, rel=1e-14)


def test_the_interval_covers_the_mean_in_95_percent_of_samples() -> None:
    rng = np.random.default_rng(0)
    trials = 4000
    hits = sum(
        low < 0 < high
        for low, high in (intervals.interval(rng.standard_normal(5)) for _ in range(trials))
    )
    # Binomial standard error sqrt(.95 * .05 / 4000) = 0.0034; four of them.
    assert abs(hits / trials - 0.95) < 0.014


def test_rms_columns_pool_the_squares() -> None:
    found = intervals.statistics(np.array([3.0, 4.0, 5.0]), pool="rms")
    low, high = intervals.interval(np.array([9.0, 16.0, 25.0]))
    mean = 50 / 3
    assert found["mean"] == math.sqrt(mean)
    # The lower end of the squares' own interval is below 0, where a square cannot be. That of
    # their logarithm has the same half-width over the mean (delta method).
    assert low < 0
    half = (high - mean) / mean
    ends = math.sqrt(mean * math.exp(-half)), math.sqrt(mean * math.exp(half))
    assert (found["ci_low"], found["ci_high"]) == pytest.approx(ends, rel=1e-14)
    assert (found["sd"], found["median"]) == (1.0, 4.0)


def test_typical_rows_are_the_median_over_seeds() -> None:
    values = np.array([1e-9, 1e-5, 1e-7, 3e-2, 1e-6, 2e-8])
    found = intervals.statistics(values, pool="median")
    # The middle two are decades apart, so their geometric mean; the interval of six is their span.
    assert found["mean"] == pytest.approx(math.sqrt(1e-7 * 1e-6), rel=1e-15)
    assert (found["ci_low"], found["ci_high"]) == (1e-9, 3e-2)
    assert math.isnan(found["z"])
    # Below six seeds, Student's interval of the logarithms.
    few = intervals.statistics(values[:3], pool="median")
    logs = np.log(values[:3])
    half = 4.302652729749464 * np.std(logs, ddof=1) / math.sqrt(3)
    assert few["mean"] == 1e-7
    assert math.log(few["ci_high"]) == pytest.approx(np.mean(logs) + half, rel=1e-12)
    assert few["ci_low"] < few["mean"] < few["ci_high"]


def test_typical_rows_that_underflow_are_known_to_be_small() -> None:
    found = intervals.statistics(np.array([0.0, 0.0, 1e-300, 1e-200, 1e-9, 1e-8]), pool="median")
    assert (found["mean"], found["ci_low"], found["ci_high"]) == (
        pytest.approx(1e-250, rel=1e-13), 0.0, 1e-8
    )  # fmt: skip
    # Below six seeds a zero has no logarithm, and there is no interval.
    few = intervals.statistics(np.array([0.0, 1e-9, 1e-8]), pool="median")
    assert few["mean"] == 1e-9
    assert math.isnan(few["ci_low"])
    # All of them 0, such as the gradient by the logits of one key: nothing varies.
    none = intervals.statistics(np.zeros(3), pool="median")
    assert (none["mean"], none["ci_low"], none["ci_high"]) == (0, 0, 0)


def test_one_seed_has_a_mean_and_no_interval() -> None:
    found = intervals.statistics(np.array([3.0]))
    assert (found["mean"], found["median"], found["n_seeds"]) == (3.0, 3.0, 1)
    assert all(math.isnan(found[name]) for name in ("sd", "ci_low", "ci_high", "exact", "z"))


@pytest.mark.parametrize("pool", ["mean", "rms", "median"])
@pytest.mark.parametrize("size", [1e-200, 1e-300, 1e200])
def test_statistics_scale_with_the_values_at_any_magnitude(pool: str, size: float) -> None:
    values = np.random.default_rng(3).uniform(1, 9, 20)
    plain = intervals.statistics(values, pool=pool, exact=4.0)
    found = intervals.statistics(size * values, pool=pool, exact=size * 4.0)
    # The product rounds each value once, half an eps; z divides by a difference of a tenth.
    for name in ("mean", "sd", "median", "ci_low", "ci_high", "exact"):
        assert found[name] == pytest.approx(size * plain[name], rel=1e-14, abs=0)
    assert plain["ci_low"] < plain["mean"] < plain["ci_high"]
    assert found["z"] == pytest.approx(plain["z"], rel=1e-13, nan_ok=True)


def test_statistics_of_zeros_and_of_the_smallest_number() -> None:
    zeros = intervals.statistics(np.zeros(3), pool="rms", exact=1.0)
    assert (zeros["mean"], zeros["sd"], zeros["ci_high"]) == (0, 0, 0)
    assert math.isnan(zeros["z"])
    assert intervals.statistics(np.array([5e-324]), pool="rms")["mean"] == 5e-324
    # An exact value that is out of all proportion makes a z that no gate lets through.
    far = intervals.statistics(np.array([1e-300, 2e-300]), exact=1e300)
    assert far["z"] == -math.inf


def test_a_crossing_is_between_the_points_that_enclose_it() -> None:
    curve = {1: Estimate(0.9), 4: Estimate(0.6), 16: Estimate(0.4), 64: Estimate(0.1)}
    found = curves.crossing(curve, 0.5)
    assert found is not None
    assert found.mean == pytest.approx(8)
    assert math.isnan(found.low)
    assert curves.crossing(curve, 0.95) is None


def test_a_range_over_d_k_has_the_ends_of_its_points() -> None:
    curve = {1: Estimate(4.0, 3.8, 4.2), 4: Estimate(3.0, 2.9, 3.1), 16: Estimate(3.5, 3.4, 3.6)}
    found = curves.relative_range(curve)
    assert found.mean == 0.25
    # The points are independent: half-widths of the logarithms add up as squares. Upper end: of
    # 4.2 over 4 and 3 over 2.9. Lower end: of 4 over 3.8 and 3.1 over 3, with the quantile for
    # three pairs at once, 2.388 (tables of Šidák's) instead of 1.960.
    high = math.hypot(math.log(4.2 / 4), math.log(3 / 2.9))
    low = math.hypot(math.log(4 / 3.8), math.log(3.1 / 3)) * 2.388 / 1.960
    assert found.high == pytest.approx(1 - 0.75 * math.exp(-high), rel=1e-14)
    assert found.low == pytest.approx(1 - 0.75 * math.exp(low), abs=1e-4)


def test_a_range_is_never_below_nothing_or_above_all() -> None:
    wide = curves.relative_range({1: Estimate(1.0, -1.0, 3.0), 4: Estimate(0.9, -1.0, 3.0)})
    assert (wide.low, wide.high) == (0.0, 1.0)
    assert math.isnan(curves.relative_range({1: Estimate(1.0), 4: Estimate(0.9)}).low)
    for curve in ({1: Estimate(1.0)}, {1: Estimate(0.0), 4: Estimate(0.0)}):
        with pytest.raises(MissingError):
            curves.relative_range(curve)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (Estimate(0.5843, 0.571, 0.598), "0.58 (0.57 to 0.60)"),
        (Estimate(0.0066, 0.0051, 0.0081), "0.0066 (0.0051 to 0.0081)"),
        (Estimate(6.2e-5, 7.3e-6, 1.2e-4), "6.2e-5 (7.3e-6 to 1.2e-4)"),
        (Estimate(40.234, 40.1, 40.4), "40.2 (40.1 to 40.4)"),
        (Estimate(12345.6, 12000.0, 12700.0), "12346 (12000 to 12700)"),
        (Estimate(3.0, 2.0, math.inf), "3.0 (2.0 to unbounded)"),
        (Estimate(0.125, 0.125, 0.125), "0.125"),
        (Estimate(0.0, 0.0, 0.0), "0"),
        (Estimate(0.0, -0.01, 0.01), "0.000 (-0.010 to 0.010)"),
    ],
)
def test_an_estimate_has_the_digits_of_its_interval(value: Estimate, shown: str) -> None:
    assert wording.format_estimate(value) == shown


# Typical ratios


@pytest.mark.parametrize("count", [6, 7, 12, 20])
def test_the_interval_of_a_typical_ratio_holds_what_wilcoxons_test_does_not_refuse(count):
    logs = np.random.default_rng(count).standard_normal(count)
    found = typical_ratio(np.exp(logs))

    def refused(ratio: float) -> bool:
        test = scipy.stats.wilcoxon(logs - np.log(ratio), method="exact")
        return bool(test.pvalue <= 0.05)

    assert not refused(found.low * 1.000001)
    assert not refused(found.high / 1.000001)
    assert refused(found.low / 1.000001)
    assert refused(found.high * 1.000001)


def test_a_typical_ratio_is_the_median_of_all_geometric_means_of_pairs():
    ratios = np.array([0.5, 3.0, 1.0, 20.0, 4.0])
    means = [(a * b) ** 0.5 for i, a in enumerate(ratios) for b in ratios[i:]]
    found = typical_ratio(ratios)
    assert found.mean == pytest.approx(np.median(means), rel=1e-14)  # rounding of a few operations
    assert np.isnan([found.low, found.high]).all()


def test_one_infinite_ratio_leaves_a_typical_ratio_finite_and_six_do_not():
    ratios = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
    found, far = (typical_ratio(np.append(ratios, end)) for end in (np.inf, 1e300))
    assert (found.mean, found.low) == pytest.approx((far.mean, far.low), rel=1e-12)
    assert found.high == np.inf
    low = typical_ratio(np.append(ratios, 0.0))
    assert low.low == 0 < low.mean < low.high < np.inf
    for end in (0.0, np.inf):
        assert typical_ratio(np.full(6, end))[:3] == (end, end, end)


@pytest.mark.parametrize("count", [6, 9, 16, 40])
def test_the_interval_of_a_typical_ratio_covers_for_symmetric_and_for_skewed_logarithms(count):
    rng = np.random.default_rng(1)
    draws = 400
    laws = {
        "normal": (rng.standard_normal((draws, count)), 0.0),
        "t, 2 degrees": (rng.standard_t(2, (draws, count)), 0.0),
        # The median of the mean of two draws of a skewed law: the gamma law of shape 2, halved.
        "exponential": (rng.exponential(size=(draws, count)), scipy.stats.gamma(2).median() / 2),
    }
    # Binomial: 95 % minus three standard errors of 400 draws is 91.7 %; a skewed law may lose more.
    for name, (logs, centre) in laws.items():
        ends = [typical_ratio(np.exp(row)) for row in logs]
        share = np.mean([one.low <= np.exp(centre) <= one.high for one in ends])
        assert share >= (0.917 if name != "exponential" else 0.90), name
