"""Coverage of intervals: blocks of simulated seeds, including saturated cells.

`python -m simulations.coverage` is the larger version, whose table is in docs/statistics.md.
"""

import math
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from simulations import coverage, draws
from sqrtdk.experiments.precision import measure as precision
from sqrtdk.experiments.scaling import measure as scaling
from sqrtdk.stats import contrasts, curves, intervals
from sqrtdk.stats.intervals import Estimate
from sqrtdk.theory import expectations, thresholds

SEEDS, BLOCKS = 3000, 120

pool = cache(draws.pool)
"""Two tests look at the same simulation; read it, never change it."""


@pytest.fixture(scope="module", params=[1, 4096])
def cell(request: pytest.FixtureRequest) -> tuple[int, draws.Pool]:
    return request.param, pool(SEEDS, d_k=request.param, n_k=16)


def test_intervals_cover_in_90_percent_of_blocks_where_95_are_said(
    cell: tuple[int, draws.Pool],
) -> None:
    d_k, found = cell
    for one in coverage.of_cell(found, d_k=d_k, n_k=16, most=BLOCKS):
        # Where coverage is 90 %, as few hits as these come once in 100,000 columns; there are
        # about 200 of them a cell. A mean that covers in 60 % would fail at every block count.
        least = binom.ppf(1e-5, one.blocks, 0.9)
        assert one.share * one.blocks >= least, one


def test_an_interval_that_misses_is_below_or_above_the_true_value() -> None:
    ends = [(0.0, 1.0), (2.0, 3.0), (2.5, 2.5), (2.5, 9.0), (3.0, 4.0)]
    found = coverage.coverage_of("mean", 5, ends, 2.5, "here")
    assert (found.blocks, found.share, found.under, found.over) == (5, 0.6, 0.2, 0.2)
    assert "| mean |  | 20.0 / 20.0 |  |  | here, 5 seeds |" in coverage.one_sided([found])


def test_the_median_gradient_of_a_saturated_cell_is_covered_at_every_number_of_seeds() -> None:
    # n_k = 16, d_k = 4096, off: the t-interval of the mean covered in 19 to 38 % of blocks.
    found = pool(SEEDS, d_k=4096, n_k=16)["off"]["grad_logits_median"]
    middle = intervals.typical(found)
    for seeds in coverage.SEEDS:
        blocks = coverage.blocks_of(found, seeds, 400)
        hits = [
            one["ci_low"] <= middle <= one["ci_high"]
            for one in (intervals.statistics(block, pool="median") for block in blocks)
        ]
        # As above.
        assert sum(hits) >= binom.ppf(1e-5, len(hits), 0.9), seeds


def test_the_share_of_the_largest_row_is_covered_at_every_number_of_seeds() -> None:
    # n_k = 64, d_k = 16, on: Student's t-interval covered in 89 % of blocks of 5 seeds.
    rng = np.random.default_rng(8)
    found = draws.pool(600, d_k=16, n_k=16)["on"]
    for metric in ("grad_logits_top1_share", "grad_q_top1_share"):
        mean = float(np.mean(found[metric]))
        for seeds in (3, 5, 20, 100):
            blocks = rng.choice(found[metric], (500, seeds))
            hits = [low <= mean <= high for low, high in map(intervals.reciprocal_interval, blocks)]
            # As above.
            assert sum(hits) >= binom.ppf(1e-5, len(hits), 0.9), (metric, seeds)


def test_the_typical_row_is_the_median_of_all_rows() -> None:
    # .0124 and 1.34e-4 are the medians of the pooled rows of an independent simulation.
    for d_k, pooled in ((256, 0.0124), (1024, 1.34e-4)):
        found = draws.pool(1000, d_k=d_k, n_k=64)["off"]["grad_logits_median"]
        one = intervals.statistics(found, pool="median")
        # A seed's median of 64 rows is the mean of the middle two, which lies a little above
        # their geometric mean where rows are decades apart: 5 % at d_k = 1024.
        # The standard error of the simulation is 6 % there; two and a half of them.
        assert one["mean"] == pytest.approx(pooled, rel=0.2)
        # The arithmetic mean is decided by lucky seeds.
        assert np.mean(found) > 1.15 * pooled


def test_the_simulated_draws_have_the_law_of_the_real_ones() -> None:
    n_k, d_k = 16, 1024
    found = draws.pool(3000, d_k=d_k, n_k=n_k)
    for column in coverage.COLUMNS:
        for arm in ("off", "on"):
            exact = coverage.truth(column, found[arm][column.name], d_k=d_k, n_k=n_k, arm=arm)
            one = intervals.statistics(found[arm][column.name], pool=column.pool, exact=exact)
            # 28 normal numbers; one is beyond 5 in 1 of 60,000 simulations.
            assert math.isnan(one["z"]) or abs(one["z"]) < 5, (arm, column.name)


# Shares


def test_none_seen_has_an_upper_end_above_zero() -> None:
    low, high = intervals.share_interval(np.zeros(100), counted=64)
    # Clopper and Pearson's for none of 6,400, lowered by the squared ratio of the quantiles of
    # t with 99 degrees of freedom and the normal law, (1.95996 / 1.98422)^2 (tables).
    number = 6400 * (1.96 / 1.98422) ** 2
    assert (low, high) == (0, pytest.approx(1 - 0.025 ** (1 / number), rel=1e-3))
    low, high = intervals.share_interval(np.ones(100), counted=64)
    assert (low, high) == (pytest.approx(0.025 ** (1 / number), rel=1e-6), 1)


def test_entries_of_one_row_do_not_count_as_independent_where_none_was_seen() -> None:
    rows = intervals.share_interval(np.zeros(5), counted=16)
    assert intervals.share_interval(np.zeros(5), counted=16 * 64, independent=16) == rows


def test_a_share_of_single_seeds_has_the_interval_of_clopper_and_pearson() -> None:
    # 5 of 5: 0.025^(1/5), by hand. Every seed counts for one thing.
    assert intervals.share_interval(np.ones(5), counted=1) == (pytest.approx(0.025 ** (1 / 5)), 1)
    # 2 of 10 (printed tables): 2.52 to 55.61 %.
    low, high = intervals.share_interval(np.array([1.0, 1.0] + 8 * [0.0]), counted=1)
    assert (low, high) == (pytest.approx(0.0252, abs=5e-5), pytest.approx(0.5561, abs=5e-5))


def test_rare_events_are_covered_also_where_most_blocks_have_none() -> None:
    rng = np.random.default_rng(1)
    for share, clustered in ((1e-3, False), (3e-3, False), (3e-3, True), (0.02, True)):
        # Clustered: events come in pairs of rows.
        size = 32 if clustered else 64
        found = rng.binomial(size, share, (2000, 20)) / size
        hits = sum(
            low <= share <= high
            for low, high in (intervals.share_interval(x, counted=64) for x in found)
        )
        # As above; pairs halve the number of independent rows, which one cannot see in zeros.
        assert hits >= binom.ppf(1e-5, 2000, 0.9 if not clustered else 0.85)


def test_every_share_that_counts_says_how_many() -> None:
    for column in (*scaling.COLUMNS, *precision.COLUMNS):
        if column.name.endswith(("dead_rows", "dead_entries", "overflow_share", "broken_rows")):
            assert column.counted, column.name
            assert set(column.counted) <= {"n_q", "n_k"}


# Crossings


FINE, COARSE = [2**i for i in range(13)], [4**i for i in range(7)]


@pytest.mark.parametrize(("n_k", "grid"), [(16, FINE), (256, COARSE)])
def test_interpolation_does_not_exclude_an_exact_crossing(n_k: int, grid: list[int]) -> None:
    # Each size is asked for by every metric, and takes milliseconds.
    exact = cache(expectations.expectations)

    def value(metric: str, d_k: float) -> float:
        off = exact(n_k, d_k, 1.0)
        if metric.startswith("ratio_"):
            on = exact(n_k, d_k, d_k**-0.5)
            x = metric.replace("ratio_", "grad_") + "_sq"
            return float((getattr(off, x) / getattr(on, x)) ** 0.5)
        if metric == "entropy_normalized":
            return off.entropy_nats / math.log(n_k)
        return float(getattr(off, metric))

    levels = {
        "entropy_normalized": (0.1, 0.25, 0.5, 0.7),
        "max_weight": (0.3, 0.5, 0.9),
        "sum_sq_weights": (0.3, 0.5, 0.9),
        "ratio_logits": (1.0,),
        "ratio_q": (2.0, 4.0),
        "ratio_v": (1.2, 2.0),
    }
    for metric, some in levels.items():
        # The arms are the same at d_k = 1: a ratio of 1 there is no crossing.
        sizes = [d_k for d_k in grid if d_k > 1 or not metric.startswith("ratio")]
        known = {d_k: value(metric, float(d_k)) for d_k in sizes}
        # Intervals without width: what is left is the uncertainty of the interpolation.
        curve = {d_k: Estimate(x, x, x) for d_k, x in known.items()}
        for level in some:
            found = curves.crossing(curve, level)
            if found is None:
                continue
            # The curve is monotone there, so the exact crossing is where it changes sides.
            sides = {value(metric, d_k) > level for d_k in (found.low, found.high)}
            assert sides == {True, False}, (metric, level)
            # It is an uncertainty that one can use: 8 % between the ends at most, measured.
            assert grid[1] > 2 or found.high / found.low < 1.1, (metric, level)


def test_a_crossing_follows_the_bend_of_the_curve_and_knows_how_far_a_line_is_off() -> None:
    # A share whose logit is a cubic of ln d_k, which crosses zero at a root that is known.
    sizes = [2**i for i in range(9)]
    x = np.log(sizes)
    logit = 2.0 - 0.3 * x**3
    exact = (2.0 / 0.3) ** (1 / 3)
    shares = (1 / (1 + np.exp(-logit))).tolist()
    curve = {d_k: Estimate(y, y, y) for d_k, y in zip(sizes, shares, strict=True)}
    found = curves.crossing(curve, 0.5)
    assert found is not None
    straight = float(np.interp(0, -logit, x))
    # The straight line is 6 % off, the monotone cubic 0.5 %, and a spline would not be.
    assert 0.05 < abs(straight - exact) < 0.06
    assert 0.004 < abs(math.log(found.mean) - exact) < 0.006
    # The straight line is farther from it than the spline, which is exact here.
    error = abs(straight - math.log(found.mean)) + 0.02 * math.log(2) ** 2
    assert math.log(found.high / found.mean) == pytest.approx(error, rel=1e-9)
    assert math.log(found.mean / found.low) == pytest.approx(error, rel=1e-9)


def test_the_default_onsets_cover_the_exact_ones_over_seeds() -> None:
    pools = {d_k: draws.pool(800, d_k=d_k, n_k=16) for d_k in (1, 2, 4, 8, 16, 32, 64, 256, 1024)}
    for one in coverage.of_curves(pools, n_k=16, seeds=(5, 20), most=40):
        # As above.
        assert one.share * one.blocks >= binom.ppf(1e-5, one.blocks, 0.9), one


def test_the_median_gradient_of_64_keys_crosses_near_288() -> None:
    # Where the median of all rows is the same with and without scaling: an independent
    # simulation has the ratio .998 ± .025 at 288. Linear in d_k and with means over seeds it was
    # 341 (299 to 379).
    ratios = {}
    for d_k in (64, 128, 256, 512, 1024):
        cells = draws.pool(300, d_k=d_k, n_k=64)
        arms = (cells[arm]["grad_q_median"] for arm in ("off", "on"))
        ratios[d_k] = intervals.paired_ratio(*arms, pool="median")
    found = curves.crossing(ratios, 1.0)
    assert found is not None
    assert found.low < 288 < found.high
    # The ratio has a standard error of 5 % with 300 seeds, and falls 2.1 times as fast as d_k
    # rises: 2.5 %, and four of them.
    assert found.mean == pytest.approx(288, rel=0.1)


def test_the_onset_at_256_keys_is_covered_in_19_of_20_runs() -> None:
    # The default run has 432 (396 to 471) where 395 is exact. Its largest weight is 2.1 and 2.2
    # standard errors below the exact one at both d_k around the crossing, which is chance: runs
    # drawn around the exact curve, with the spread of that run over seeds, are covered.
    exact = {64: 0.745827, 128: 0.822199, 256: 0.875274, 512: 0.912296, 1024: 0.938223}
    spread = {64: 0.0228, 128: 0.0243, 256: 0.0218, 512: 0.0180, 1024: 0.0169}
    onset = thresholds.one_hot_d_k(256)
    assert onset == pytest.approx(395.287, abs=0.001)
    rng = np.random.default_rng(3)
    hits, runs = 0, 100
    for _ in range(runs):
        curve = {}
        for d_k, mean in exact.items():
            one = intervals.statistics(rng.normal(mean, spread[d_k], 100))
            curve[d_k] = Estimate(one["mean"], one["ci_low"], one["ci_high"])
        found = curves.crossing(curve, 0.9)
        hits += found is not None and found.low <= onset <= found.high
    # 95 % is what is said; fewer hits than this come once in 100,000 if it is true.
    assert hits >= binom.ppf(1e-5, runs, 0.95), hits / runs


def test_a_crossing_of_few_points_is_anywhere_between_its_two() -> None:
    found = curves.crossing({16: Estimate(2.0, 1.9, 2.1), 64: Estimate(0.5, 0.4, 0.6)}, 1.0)
    assert found is not None
    # The logarithm is straight between the two points.
    assert found == (pytest.approx(32), 16, 64, pytest.approx(math.nan, nan_ok=True))


def test_an_end_that_does_not_cross_is_open() -> None:
    curve = {
        4: Estimate(0.55, 0.45, 0.65), 16: Estimate(0.45, 0.35, 0.55),
        64: Estimate(0.4, 0.3, 0.5001), 256: Estimate(0.35, 0.2, 0.51),
    }  # fmt: skip
    found = curves.crossing(curve, 0.5)
    assert found is not None
    assert (found.low, found.high) == (1.0, math.inf)
    assert 4 < found.mean < 16


def test_of_several_crossings_the_last_counts_and_a_point_at_the_level_is_one() -> None:
    def curve(*values: float) -> curves.Curve:
        return {4**i: Estimate(x, x, x) for i, x in enumerate(values)}

    found = curves.crossing(curve(0.9, 0.1, 0.9, 0.1), 0.5)
    assert found is not None
    assert 16 < found.mean < 64
    assert curves.crossing(curve(0.9, 0.5, 0.1), 0.5) == (
        4,
        4,
        4,
        pytest.approx(math.nan, nan_ok=True),
    )


def test_a_share_of_none_or_all_has_no_logit_and_crosses_somewhere_between() -> None:
    found = curves.crossing({4: Estimate(0.0, 0.0, 0.0), 16: Estimate(1.0, 1.0, 1.0)}, 0.5)
    assert found is not None
    assert found[:3] == (pytest.approx(8), 4, 16)


# Scale rules that share their draws


def test_a_paired_ratio_is_the_ratio_of_the_means_with_what_varies_between_the_arms() -> None:
    over, under = np.array([2.0, 4.0, 6.0]), np.array([1.0, 2.0, 3.0])
    # The arms are proportional, so nothing is uncertain, however much both vary.
    assert intervals.paired_ratio(over, under)[:3] == pytest.approx((2, 2, 2))
    assert intervals.paired_ratio(over, under, pool="rms")[:3] == pytest.approx((2, 2, 2))
    assert intervals.paired_ratio(over, under, pool="median")[:3] == (2, 2, 2)
    found = intervals.paired_ratio(np.array([2.0, 5.0, 6.0]), under, pool="rms")
    # By hand: mean squares 65/3 and 14/3; relative deviations of the squares in each seed.
    off = np.array([4, 25, 36]) / (65 / 3) - np.array([1, 4, 9]) / (14 / 3)
    half = 4.302652729749464 * np.std(off, ddof=1) / math.sqrt(3)
    assert found.mean == pytest.approx(math.sqrt(65 / 14), rel=1e-14)
    ends = math.sqrt(65 / 14) * np.exp(np.array([-half, half]) / 2)
    assert found[1:3] == pytest.approx(tuple(ends), rel=1e-12)


def test_pairing_makes_the_interval_of_a_ratio_narrower() -> None:
    found = draws.pool(100, d_k=64, n_k=64)
    over, under = (found[arm]["grad_v_rms"] for arm in ("off", "on"))
    paired = intervals.paired_ratio(over, under, pool="rms")
    arms = [
        {64: Estimate(one["mean"], one["ci_low"], one["ci_high"])}
        for one in (intervals.statistics(x, pool="rms") for x in (over, under))
    ]
    apart = curves.ratio(*arms)[64]
    assert paired.mean == pytest.approx(apart.mean, rel=1e-14)
    # Over this grid they were found to be 1.3 to 1.7 times too wide.
    assert 1.2 < (apart.high - apart.low) / (paired.high - paired.low) < 2


def test_the_ratio_is_undefined_where_the_arm_below_the_line_is_zero() -> None:
    with pytest.raises(intervals.MissingError):
        intervals.paired_ratio(np.ones(3), np.zeros(3))
    with pytest.raises(intervals.MissingError):
        intervals.paired_ratio(np.ones(3), np.array([1.0, 0.0, 1.0]), pool="median")
    found = intervals.paired_ratio(np.zeros(3), np.ones(3))
    assert (found.mean, math.isnan(found.low)) == (0, True)


def test_ratios_of_tiny_numbers_keep_their_digits() -> None:
    over, under = np.array([3e-200, 4e-200]), np.array([1e-190, 1e-190])
    found = intervals.paired_ratio(over, under, pool="rms")
    assert found.mean == pytest.approx(math.sqrt(12.5) * 1e-10, rel=1e-13)


def test_contrasts_have_one_row_per_metric_and_arm_paired_by_seed() -> None:
    axes = {"d_k": 4, "n_k": 2, "n_q": 3, "inputs": "gaussian", "dtype": "float64"}
    names = [c.name for c in scaling.COLUMNS if not c.axis]
    values = {"off": (2.0, 8.0), "on": (1.0, 4.0), "inverse": (0.5, 0.0)}
    rows = [
        axes | {"scaling": arm, "seed": seed} | dict.fromkeys(names, value)
        for arm, some in values.items()
        for seed, value in enumerate(some)
    ]
    # The order of the seeds in the file does not matter.
    runs = pd.DataFrame(rows).sample(frac=1, random_state=0)
    found = list(contrasts.contrast(runs, scaling.COLUMNS, "on"))
    assert [list(row) for row in found[:1]] == [
        [column.name for column in contrasts.columns(scaling.COLUMNS)]
    ]
    by = {(row["metric"], row["over"]): row for row in found}
    assert {row["under"] for row in found} == {"on"}
    assert by["grad_q_rms", "off"]["ratio"] == pytest.approx(2)
    assert by["grad_q_rms", "off"]["ci_low"] == pytest.approx(2)
    # Quadratic means of 0.5 and 0 over 1 and 4.
    assert by["grad_q_rms", "inverse"]["ratio"] == pytest.approx(math.sqrt(0.25 / 17))
    assert by["entropy_nats", "inverse"]["ratio"] == pytest.approx(0.5 / 5)
    assert list(contrasts.contrast(runs, scaling.COLUMNS, "paper")) == []
