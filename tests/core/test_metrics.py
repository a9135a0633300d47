import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from oracles import (
    BATCH,
    D_K,
    EPS,
    HEADS,
    N_K,
    N_Q,
    exact_row_metrics,
    logit_rows,
    mask_with_a_blind_query,
    normal,
    property_test,
)

from sqrtdk.core.attention import causal_mask, scores, softmax
from sqrtdk.core.metrics import (
    RowMetrics,
    dead_entries,
    logit_std,
    row_metrics,
    row_norms,
    summarize_norms,
)

both_dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def assert_metrics_are_exact(row, *, roundings):
    """Check each metric of one row against mpmath within this many eps, if it is normal."""
    limits = np.finfo(row.dtype)
    # A subnormal exponential is off by up to half a spacing; the entropy multiplies it by its
    # logit.
    subnormal = len(row) * (1 + np.ptp(row)) * limits.smallest_subnormal
    computed = row_metrics(row[np.newaxis])
    for name, exact in exact_row_metrics(row).items():
        value = getattr(computed, name)[0]
        tolerance = roundings * float(limits.eps) * exact + float(subnormal)
        with mpmath.workdps(40):
            assert abs(mpmath.mpf(float(value)) - exact) <= tolerance, name


def test_weights_1_and_e_over_1_plus_e_have_the_metrics_computed_by_hand():
    metrics = row_metrics(np.array([[0.0, 1.0]]))
    e = math.e
    entropy = math.log(1 + e) - e / (1 + e)
    expected = RowMetrics(
        entropy_nats=entropy,
        entropy_normalized=entropy / math.log(2),
        effective_keys=math.exp(entropy),
        sum_sq_weights=(1 + e**2) / (1 + e) ** 2,
        max_weight=e / (1 + e),
        max_weight_gap=1 / (1 + e),
        # Two keys: diag(p) - ppᵀ is p(1-p) times [[1, -1], [-1, 1]].
        jacobian_norm=2 * e / (1 + e) ** 2,
    )
    # About ten rounded operations here and in the code.
    assert_allclose(np.concatenate(metrics), expected, rtol=16 * EPS[np.float64])


@both_dtypes
def test_equal_logits_are_the_uniform_distribution(dtype):
    metrics = row_metrics(np.full((1, N_K), 9.0, dtype=dtype))
    n = N_K
    expected = [math.log(n), 1.0, n, 1 / n, 1 / n, 1 - 1 / n, math.sqrt((1 / n) * (1 - 1 / n))]
    # Sums of equal terms and one logarithm; exp(H) multiplies the error of H by H = 1.9.
    assert_allclose(np.concatenate(metrics), expected, rtol=16 * EPS[dtype])


# Multiples of 1/8 stay exact in both types when the maximum is subtracted. That leaves exp (up to
# 4 eps with SIMD), a sum of 6 terms and about ten more roundings of eps/2: 16 eps at worst.
EXACT_REST = np.array([-1.0, 0.125, 0.25, -3.5, 0.0, -0.75])


@pytest.mark.parametrize("offset", [0, -9000])
@pytest.mark.parametrize("gap", [0, 1, 10, 37, 100, 345, 360, 700, 740, 1000, 9999])
def test_all_metrics_are_right_at_any_logit_gap_in_float64(gap, offset):
    # 345 is where 1 - max p passes 1e-150, 360 where its square underflows, 745 where it does.
    assert_metrics_are_exact(np.array([*EXACT_REST, gap]) + offset, roundings=16)


@pytest.mark.parametrize("gap", [0, 1, 10, 17, 40, 50, 85, 100, 1000, 9999])
def test_all_metrics_are_right_at_any_logit_gap_in_float32(gap):
    assert_metrics_are_exact(np.array([*EXACT_REST, gap], dtype=np.float32), roundings=16)


@pytest.mark.parametrize("sigma", [0.1, 1.0, 10.0, 30.0, 100.0, 1000.0, 3000.0])
def test_all_metrics_are_right_for_gaussian_logits_up_to_1e4(sigma):
    for row in sigma * normal(N_Q, N_K):
        # Subtracting the maximum rounds a logit difference t by t eps/2, which exp turns into a
        # relative error; terms beyond t = 745 are zero.
        condition = 1 + min(np.ptp(row), 745.0)
        assert_metrics_are_exact(row, roundings=16 + condition)


def test_the_jacobian_norm_is_that_of_the_explicit_matrix():
    logits = 2 * normal(BATCH, HEADS, N_Q, N_K)
    p = softmax(logits)
    jacobian = p[..., np.newaxis] * np.eye(N_K) - p[..., :, np.newaxis] * p[..., np.newaxis, :]
    # Entries of diag(p) - ppᵀ cancel down to 1e-3 here, so eps/1e-3 at worst.
    expected = np.linalg.norm(jacobian, axis=(-2, -1))
    assert_allclose(row_metrics(logits).jacobian_norm, expected, rtol=1000 * EPS[np.float64])


@both_dtypes
def test_row_metrics_keep_dtype_and_batch_shape(dtype):
    metrics = row_metrics(normal(BATCH, HEADS, N_Q, N_K, dtype=dtype), causal_mask(N_Q, N_K))
    assert {(a.dtype, a.shape) for a in metrics} == {(np.dtype(dtype), (BATCH, HEADS, N_Q))}


@both_dtypes
def test_a_batch_of_metrics_equals_the_loop_over_it_to_the_bit(dtype):
    logits = 5 * normal(BATCH, HEADS, N_Q, N_K, dtype=dtype)
    batch = row_metrics(logits)
    for i in np.ndindex(BATCH, HEADS, N_Q):
        for metric, expected in zip(batch, row_metrics(logits[i][np.newaxis]), strict=True):
            assert_array_equal(metric[i], expected[0])


def test_masked_metrics_are_those_of_the_visible_keys():
    logits, mask = 3 * normal(N_Q, N_K), causal_mask(N_Q, N_K)
    masked = row_metrics(logits, mask)
    for i in range(N_Q):
        alone = row_metrics(logits[i : i + 1, mask[i]])
        for metric, expected in zip(masked, alone, strict=True):
            # Sums with and without zeros in between.
            assert_allclose(metric[i], expected[0], rtol=8 * EPS[np.float64])


def test_minus_infinity_hides_a_key_from_every_metric_like_the_mask():
    logits, mask = normal(N_Q, N_K), mask_with_a_blind_query(N_Q, N_K)
    hidden = np.where(mask, logits, -np.inf)
    for a, b in zip(row_metrics(hidden), row_metrics(logits, mask), strict=True):
        assert_array_equal(a, b)
    assert logit_std(hidden) == logit_std(logits, mask)


def test_a_query_that_sees_no_key_has_no_metrics():
    metrics = row_metrics(normal(N_Q, N_K), mask_with_a_blind_query(N_Q, N_K))
    for metric in metrics:
        assert_array_equal(np.isnan(metric), np.arange(N_Q) == 1)


def test_a_single_visible_key_is_one_hot_and_has_no_normalized_entropy():
    single = row_metrics(normal(N_Q, N_K), np.arange(N_K) == 4)
    for name, value in zip(RowMetrics._fields, [0, np.nan, 1, 1, 1, 0, 0], strict=True):
        assert_array_equal(getattr(single, name), np.full(N_Q, value))


@both_dtypes
@property_test
@given(data=st.data())
def test_metrics_stay_within_their_bounds(dtype, data):
    logits = data.draw(logit_rows(dtype))
    n = logits.shape[-1]
    m = row_metrics(logits)
    up = 1 + 16 * EPS[dtype]  # a dozen rounded operations
    assert np.all((m.entropy_nats >= 0) & (m.entropy_nats <= math.log(n) * up))
    assert np.all((m.effective_keys >= 1) & (m.effective_keys <= n * up))
    assert np.all((m.sum_sq_weights * up >= 1 / n) & (m.sum_sq_weights <= up))
    assert np.all((m.max_weight * up >= 1 / n) & (m.max_weight <= 1))
    assert np.all((m.max_weight_gap >= 0) & (m.max_weight_gap <= (1 - 1 / n) * up))
    # ‖diag(p) - ppᵀ‖_F is largest, 1/2, for two equal weights.
    assert np.all((m.jacobian_norm >= 0) & (m.jacobian_norm <= 0.5 * up))


@property_test
@given(logits=logit_rows(), shift=st.integers(-1000, 1000))
def test_a_common_shift_of_a_row_changes_no_bit_of_a_metric(logits, shift):
    for a, b in zip(row_metrics(logits + shift), row_metrics(logits), strict=True):
        assert_array_equal(a, b)
    assert_array_equal(logit_std(logits + shift), logit_std(logits))


@property_test
@given(logits=logit_rows(), data=st.data())
def test_metrics_do_not_depend_on_the_order_of_the_keys(logits, data):
    order = data.draw(st.permutations(range(logits.shape[1])))
    for a, b in zip(row_metrics(logits[:, order]), row_metrics(logits), strict=True):
        # Only the order of summation of up to 7 terms of one sign differs; subnormal ones have
        # an absolute error.
        assert_allclose(a, b, rtol=16 * EPS[np.float64], atol=1e-300)


def test_the_logit_std_is_the_root_mean_of_the_unbiased_row_variances():
    logits = 3 * normal(BATCH, HEADS, N_Q, N_K)
    expected = np.sqrt(np.var(logits, axis=-1, ddof=1).mean(axis=-1))
    # Variances of 7 and means of 5 numbers in another order.
    assert_allclose(logit_std(logits), expected, rtol=32 * EPS[np.float64])


def test_the_mean_square_logit_std_of_gaussian_queries_and_keys_is_scale_squared_times_d_k():
    draws, scale = 4001, 0.5
    logits = scale * scores(normal(draws, N_Q, D_K), normal(draws, N_K, D_K))
    squares = logit_std(logits) ** 2
    standard_error = np.std(squares, ddof=1) / math.sqrt(draws)
    # Four standard errors, at a fixed seed.
    assert abs(squares.mean() - scale**2 * D_K) < 4 * standard_error
    assert standard_error < 0.02 * scale**2 * D_K


def test_the_logit_std_counts_visible_keys_and_queries_that_see_two_of_them():
    logits = np.array([[1.0, 5.0, 1e6], [3.0, 1e6, 1e6], [1e6, 1e6, 1e6], [2.0, 4.0, 6.0]])
    mask = np.array([[True, True, False], [True, False, False], [False] * 3, [True] * 3])
    # Variances 8 and 4, from rows 0 and 3.
    assert logit_std(logits, mask) == math.sqrt(6)


def test_the_logit_std_of_single_keys_is_undefined():
    assert_array_equal(logit_std(normal(BATCH, N_Q, 1)), [np.nan, np.nan])


@both_dtypes
def test_the_logit_std_keeps_small_differences_of_large_logits(dtype):
    # 1e4 and multiples of 1/8 are exact in both types.
    row = np.array([[0.125, -0.25, 0.5, 0.0, 1.0]], dtype=dtype)
    shifted = logit_std(row + dtype(1e4))
    assert shifted.dtype == dtype
    assert shifted == logit_std(row)


@both_dtypes
def test_row_norms_are_right_from_the_smallest_to_the_largest_numbers(dtype):
    limits = np.finfo(dtype)
    exponents = np.linspace(limits.minexp + 12, limits.maxexp - 4, 101).astype(int)
    rows = np.ldexp(normal(101, N_K), exponents[:, np.newaxis]).astype(dtype)
    expected = [math.hypot(*row.astype(np.float64)) for row in rows]
    norms = row_norms(rows)
    assert norms.dtype == dtype
    # A sum of 7 squares, a root and a scaling.
    assert_allclose(norms, expected, rtol=8 * EPS[dtype])


def test_row_norms_of_zero_subnormal_and_non_finite_rows():
    rows = np.array([[0.0, 0.0], [0.0, 5e-324], [np.inf, 1.0], [np.nan, 1.0], [1.7e308, 1.7e308]])
    assert_array_equal(row_norms(rows), [0.0, 5e-324, np.inf, np.nan, np.inf])


def test_row_norms_take_any_leading_dimensions():
    x = normal(BATCH, HEADS, N_Q, D_K)
    x[1, 2, 3] *= 1e-200
    norms = row_norms(x)
    # Two summation orders of 11 squares.
    assert_allclose(norms, [[[math.hypot(*r) for r in n] for n in m] for m in x], rtol=1e-14)
    assert row_norms(np.array([3.0, 4.0])) == 5.0


def test_a_summary_of_norms_computed_by_hand():
    # 0, 1, ..., 100, of which the two largest are the top 1 %, rounded up.
    summary = summarize_norms(np.arange(101.0)[::-1], dead_below=7.0)
    sum_of_squares = 100 * 101 * 201 / 6
    assert (summary.q05, summary.median, summary.q95) == (5.0, 50.0, 95.0)
    # One root of an exact sum, squared again for the share.
    assert_allclose(summary.rms, math.sqrt(sum_of_squares / 101), rtol=4 * EPS[np.float64])
    assert_allclose(summary.top1_share, (99**2 + 100**2) / sum_of_squares, rtol=1e-14)
    assert summary.dead_rows == 7 / 101


@pytest.mark.parametrize("n_rows", [1, 2, 3, 20, 21, 103])
def test_quantiles_are_those_of_numpy(n_rows):
    norms = np.abs(normal(BATCH, n_rows))
    summary = summarize_norms(norms)
    for name, share in (("q05", 0.05), ("median", 0.5), ("q95", 0.95)):
        # One interpolation between two order statistics.
        expected = np.quantile(norms, share, axis=-1)
        assert_allclose(getattr(summary, name), expected, rtol=8 * EPS[np.float64], err_msg=name)


def test_a_norm_that_is_no_number_leaves_no_quantile():
    norms = np.abs(normal(BATCH, 50))
    norms[1, 7] = np.nan
    summary = summarize_norms(norms)
    for name in ("rms", "median", "q05", "q95"):
        assert np.isnan(getattr(summary, name)).tolist() == [False, True], name


@pytest.mark.parametrize(("n_rows", "n_top"), [(1, 1), (2, 1), (100, 1), (101, 2), (200, 2)])
def test_the_top_1_percent_of_rows_is_rounded_up(n_rows, n_top):
    # The share of equal norms is a quotient of roots, squared: a few eps.
    share = summarize_norms(np.ones(n_rows)).top1_share
    assert_allclose(share, n_top / n_rows, rtol=8 * EPS[np.float64])


def test_zero_norms_are_dead_and_have_no_top_share():
    summary = summarize_norms(np.zeros((BATCH, N_Q)))
    for name, value in zip(summary._fields, [0, 0, 0, 0, 1, np.nan], strict=True):
        assert_array_equal(getattr(summary, name), [value, value])


@pytest.mark.parametrize("magnitude", [1e-300, 1e-160, 1e160, 1e300])
def test_the_summary_scales_with_the_norms_at_any_magnitude(magnitude):
    norms = np.abs(normal(BATCH, HEADS, 103))
    plain, scaled = summarize_norms(norms), summarize_norms(norms * magnitude)
    # Multiplying rounds each norm once more.
    for name in ("rms", "median", "q05", "q95"):
        expected = getattr(plain, name) * magnitude
        assert_allclose(getattr(scaled, name), expected, rtol=16 * EPS[np.float64])
    assert_allclose(scaled.top1_share, plain.top1_share, rtol=16 * EPS[np.float64])


@both_dtypes
def test_summaries_keep_dtype_and_batch_shape(dtype):
    summary = summarize_norms(np.abs(normal(BATCH, HEADS, N_Q, dtype=dtype)))
    assert {(a.dtype, a.shape) for a in summary} == {(np.dtype(dtype), (BATCH, HEADS))}
    shares = dead_entries(normal(BATCH, HEADS, N_Q, N_K, dtype=dtype), below=0.5)
    assert (shares.dtype, shares.shape) == (np.dtype(dtype), (BATCH, HEADS))


def test_dead_entries_are_counted_by_absolute_value_and_strictly_below():
    d_logits = np.array([[[0.0, -1e-9, 1e-3, -1e-3, 5.0]], [[1.0, 1.0, 1.0, -1.0, 1e-4]]])
    assert_array_equal(dead_entries(d_logits, below=1e-3), [2 / 5, 1 / 5])
