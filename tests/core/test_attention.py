import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from oracles import (
    BATCH,
    D_K,
    D_MODEL,
    D_V,
    EPS,
    HEADS,
    N_K,
    N_Q,
    logit_rows,
    mask_with_a_blind_query,
    normal,
    property_test,
    random_mask,
)

from sqrtdk.core.attention import (
    attention,
    causal_mask,
    count_fully_masked_rows,
    project,
    scores,
    softmax,
)

both_dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def test_a_query_along_the_second_unit_vector_has_weights_1_and_e_over_1_plus_e():
    q, k = np.array([[0.0, math.sqrt(2)]]), np.eye(2)
    v = np.array([[1.0, 0.0, 10.0], [0.0, 1.0, 20.0]])
    result = attention(q, k, v, scale=1 / math.sqrt(2))
    e = math.e
    # A dozen rounded operations on numbers of size 1 (20 for the output) at most.
    assert_allclose(result.scores, [[0.0, math.sqrt(2)]], rtol=4 * EPS[np.float64])
    assert_allclose(result.logits, [[0.0, 1.0]], rtol=4 * EPS[np.float64])
    assert_allclose(result.weights, [[1 / (1 + e), e / (1 + e)]], rtol=4 * EPS[np.float64])
    expected = [[1 / (1 + e), e / (1 + e), (10 + 20 * e) / (1 + e)]]
    assert_allclose(result.output, expected, rtol=8 * EPS[np.float64])


def test_scores_are_the_dot_products_of_each_query_with_each_key():
    q, k = normal(BATCH, HEADS, N_Q, D_K), normal(BATCH, HEADS, N_K, D_K)
    # Two summation orders of 11 products.
    assert_allclose(
        scores(q, k), np.einsum("bhid,bhjd->bhij", q, k), atol=D_K * 10 * EPS[np.float64]
    )


def test_projection_acts_on_the_last_axis_of_any_batch():
    x, w = normal(BATCH, HEADS, N_Q, D_MODEL), normal(D_MODEL, D_K)
    projected = project(x, w)
    assert projected.shape == (BATCH, HEADS, N_Q, D_K)
    # Two summation orders of 17 products.
    assert_allclose(projected[1, 2, 3], w.T @ x[1, 2, 3], atol=D_MODEL * 10 * EPS[np.float64])


def test_scale_one_at_d_k_1_gives_the_unscaled_result_to_the_bit():
    q, k, v = normal(N_Q, 1), normal(N_K, 1), normal(N_K, D_V)
    off = attention(q, k, v, scale=1.0)
    on = attention(q, k, v, scale=1 / math.sqrt(1))
    for a, b in zip(on, off, strict=True):
        assert_array_equal(a, b)


@both_dtypes
@pytest.mark.parametrize("scale", [0.25, 1 / np.sqrt(np.float64(D_K))])
def test_attention_keeps_the_dtype_even_for_a_numpy_scale(dtype, scale):
    q, k, v = normal(N_Q, D_K), normal(N_K, D_K), normal(N_K, D_V)
    arrays = (a.astype(dtype) for a in (q, k, v))
    result = attention(*arrays, scale=scale, mask=random_mask(N_Q, N_K))
    assert {a.dtype for a in result} == {np.dtype(dtype)}


@both_dtypes
def test_a_batch_equals_the_loop_over_it_to_the_bit(dtype):
    q = normal(BATCH, HEADS, N_Q, D_K, dtype=dtype)
    k = normal(BATCH, HEADS, N_K, D_K, dtype=dtype)
    v = normal(BATCH, HEADS, N_K, D_V, dtype=dtype)
    mask = random_mask(BATCH, 1, N_Q, N_K)
    batch = attention(q, k, v, scale=0.5, mask=mask)
    for b, h in np.ndindex(BATCH, HEADS):
        single = attention(q[b, h], k[b, h], v[b, h], scale=0.5, mask=mask[b, 0])
        for stage, expected in zip(batch, single, strict=True):
            assert_array_equal(stage[b, h], expected)


def test_the_mask_is_applied_after_scaling_and_shows_as_minus_infinity():
    q, k, v = normal(N_Q, D_K), normal(N_K, D_K), normal(N_K, D_V)
    mask = mask_with_a_blind_query(N_Q, N_K)
    result = attention(q, k, v, scale=0.0, mask=mask)
    assert_array_equal(result.logits, np.where(mask, 0.0, -np.inf))
    assert np.all(np.isfinite(result.scores))


def test_hidden_keys_do_not_influence_the_result():
    q, k, v = normal(N_Q, D_K), normal(N_K, D_K), normal(N_K, D_V)
    mask = np.arange(N_K) < 3
    hidden = attention(q, k, v, scale=0.5, mask=mask)
    absent = attention(q, k[:3], v[:3], scale=0.5)
    # Sums over 7 terms, 4 of them zero, against sums over 3.
    assert_allclose(hidden.output, absent.output, atol=8 * EPS[np.float64])


def test_a_query_that_sees_no_key_gets_zero_weights_and_output():
    mask = mask_with_a_blind_query(N_Q, N_K)
    q, k, v = normal(N_Q, D_K), normal(N_K, D_K), normal(N_K, D_V)
    result = attention(q, k, v, scale=0.5, mask=mask)
    assert_array_equal(result.weights[1], 0.0)
    assert_array_equal(result.output[1], 0.0)
    assert count_fully_masked_rows(mask) == 1


def test_minus_infinity_hides_a_key_like_the_mask():
    logits, mask = normal(N_Q, N_K), mask_with_a_blind_query(N_Q, N_K)
    assert_array_equal(softmax(np.where(mask, logits, -np.inf)), softmax(logits, mask))


def test_not_a_number_is_passed_on_where_visible_and_ignored_where_hidden():
    logits = np.array([[0.0, np.nan], [0.0, 0.0]])
    assert_array_equal(np.isnan(softmax(logits)), [[True, True], [False, False]])
    mask = np.array([[True, False], [True, True]])
    assert_array_equal(softmax(logits, mask), [[1.0, 0.0], [0.5, 0.5]])


@pytest.mark.parametrize(
    "mask",
    [np.zeros((N_Q, N_K)), np.ones((N_Q, N_K), dtype=np.int64)],
    ids=["additive", "integers"],
)
def test_a_mask_that_is_not_boolean_is_refused(mask):
    with pytest.raises(TypeError, match="must be boolean, True where a key is visible, not"):
        softmax(normal(N_Q, N_K), mask)


@pytest.mark.parametrize("shape", [(N_K, N_Q), (HEADS, N_Q, N_K), (N_Q, N_K + 4)])
def test_a_mask_that_does_not_fit_the_logits_is_refused(shape):
    with pytest.raises(ValueError, match="broadcast"):
        softmax(normal(N_Q, N_K), np.ones(shape, dtype=bool))


def test_a_mask_cannot_stretch_a_single_key():
    with pytest.raises(ValueError, match="broadcast"):
        softmax(normal(N_Q, 1), np.ones((N_Q, N_K), dtype=bool))


@pytest.mark.parametrize(("n_q", "n_k"), [(5, 7), (7, 7), (7, 5), (1, 5)])
def test_the_causal_mask_lets_the_last_query_see_all_keys_and_each_earlier_one_less(n_q, n_k):
    mask = causal_mask(n_q, n_k)
    assert mask.dtype == bool
    expected = [[j <= i + n_k - n_q for j in range(n_k)] for i in range(n_q)]
    assert_array_equal(mask, expected)
    assert mask[-1].all()
    assert count_fully_masked_rows(mask) == max(n_q - n_k, 0)


def test_fully_masked_rows_are_counted_over_the_whole_batch():
    mask = np.broadcast_to(mask_with_a_blind_query(N_Q, N_K), (BATCH, HEADS, N_Q, N_K))
    assert count_fully_masked_rows(mask) == BATCH * HEADS


@both_dtypes
@property_test
@given(data=st.data())
def test_every_row_of_weights_sums_to_1(dtype, data):
    weights = softmax(data.draw(logit_rows(dtype)))
    assert weights.dtype == dtype
    assert np.all(weights >= 0)
    # Each of up to 7 weights is within 8 roundings (6 of them in the common sum) of exact.
    assert_allclose(weights.sum(axis=-1), 1.0, rtol=8 * EPS[dtype])


@both_dtypes
@property_test
@given(data=st.data(), shift=st.integers(-1000, 1000))
def test_a_common_shift_of_a_row_changes_no_bit(dtype, data, shift):
    logits = data.draw(logit_rows(dtype))
    assert_array_equal(softmax(logits + dtype(shift)), softmax(logits))


@property_test
@given(logits=logit_rows(), data=st.data())
def test_permuting_the_keys_permutes_the_weights(logits, data):
    order = data.draw(st.permutations(range(logits.shape[1])))
    # Only the order of summation of up to 7 positive terms differs.
    expected = softmax(logits)[:, order]
    assert_allclose(softmax(logits[:, order]), expected, rtol=8 * EPS[np.float64])


@property_test
@given(logits=logit_rows(), data=st.data())
def test_hidden_keys_have_weight_exactly_zero_and_the_visible_ones_sum_to_1(logits, data):
    visible = st.lists(st.booleans(), min_size=logits.size, max_size=logits.size)
    mask = np.array(data.draw(visible)).reshape(logits.shape)
    weights = softmax(logits, mask)
    assert np.all(weights[~mask] == 0)
    # See test_every_row_of_weights_sums_to_1.
    assert_allclose(weights.sum(axis=-1), mask.any(axis=-1), rtol=8 * EPS[np.float64])
