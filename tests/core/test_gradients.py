import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
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
    assert_is_gradient,
    exact_weights,
    logit_rows,
    mask_with_a_blind_query,
    normal,
    property_test,
    random_mask,
)

from sqrtdk.core.attention import AttentionResult, attention, causal_mask, project, softmax
from sqrtdk.core.gradients import gradients, projection_gradients, softmax_backward

SCALE = 0.375  # Neither 1 nor 1/√11, so that a missing or doubled scale shows.

MASKS = {
    "no mask": lambda *shape: None,
    "boolean": random_mask,
    "blind query": mask_with_a_blind_query,
    "causal": lambda *shape: causal_mask(*shape[-2:]),
}
each_mask = pytest.mark.parametrize("make_mask", MASKS.values(), ids=MASKS.keys())
# With 7 queries and 5 keys the causal mask hides every key from the first two queries.
each_shape = pytest.mark.parametrize(("n_q", "n_k"), [(5, 7), (7, 5)])


def draw(n_q, n_k, *, dtype=np.float64):
    """Draw q, k, v and d_output with a batch of heads."""
    return (
        normal(BATCH, HEADS, n_q, D_K, dtype=dtype),
        normal(BATCH, HEADS, n_k, D_K, dtype=dtype),
        normal(BATCH, HEADS, n_k, D_V, dtype=dtype),
        normal(BATCH, HEADS, n_q, D_V, seed=1, dtype=dtype),
    )


def test_a_hand_computed_softmax_gradient():
    # p = (1, 3)/4 and d_p = (4, 0): <p, d_p> = 1, so p * (d_p - 1) = (3, -3)/4, exact in binary.
    weights, d_weights = np.array([[0.25, 0.75]]), np.array([[4.0, 0.0]])
    assert_array_equal(softmax_backward(weights, d_weights), [[0.75, -0.75]])


@each_shape
@each_mask
@pytest.mark.parametrize("wrt", ["logits", "scores", "q", "k", "v"])
def test_each_gradient_agrees_with_finite_differences(wrt, make_mask, n_q, n_k):
    q, k, v, d_output = draw(n_q, n_k)
    mask = make_mask(BATCH, HEADS, n_q, n_k)
    forward = attention(q, k, v, scale=SCALE, mask=mask)
    losses = {
        "logits": lambda x: np.vdot(d_output, softmax(x, mask) @ v),
        "scores": lambda x: np.vdot(d_output, softmax(x * SCALE, mask) @ v),
        "q": lambda x: np.vdot(d_output, attention(x, k, v, scale=SCALE, mask=mask).output),
        "k": lambda x: np.vdot(d_output, attention(q, x, v, scale=SCALE, mask=mask).output),
        "v": lambda x: np.vdot(d_output, attention(q, k, x, scale=SCALE, mask=mask).output),
    }
    at = {"logits": forward.scores * SCALE, "scores": forward.scores, "q": q, "k": k, "v": v}
    gradient = gradients(q, k, v, d_output, forward, scale=SCALE)
    assert_is_gradient(getattr(gradient, wrt), losses[wrt], at[wrt])


@each_mask
@pytest.mark.parametrize("wrt", ["w_q", "w_k", "w_v", "x_q", "x_kv"])
def test_each_projection_gradient_agrees_with_finite_differences(wrt, make_mask):
    values = {
        "x_q": normal(BATCH, HEADS, N_Q, D_MODEL),
        "x_kv": normal(BATCH, HEADS, N_K, D_MODEL),
        # Over √d_model, so that the softmax is not saturated.
        "w_q": normal(D_MODEL, D_K, seed=1) / D_MODEL**0.5,
        "w_k": normal(D_MODEL, D_K, seed=2) / D_MODEL**0.5,
        "w_v": normal(D_MODEL, D_V, seed=3) / D_MODEL**0.5,
    }
    d_output = normal(BATCH, HEADS, N_Q, D_V, seed=4)
    mask = make_mask(BATCH, HEADS, N_Q, N_K)

    def forward(x_q, x_kv, w_q, w_k, w_v):
        q, k, v = project(x_q, w_q), project(x_kv, w_k), project(x_kv, w_v)
        return q, k, v, attention(q, k, v, scale=SCALE, mask=mask)

    def loss(x):
        return np.vdot(d_output, forward(**{**values, wrt: x})[3].output)

    q, k, v, result = forward(**values)
    d = gradients(q, k, v, d_output, result, scale=SCALE)
    from_q = projection_gradients(values["x_q"], values["w_q"], d.q)
    from_k = projection_gradients(values["x_kv"], values["w_k"], d.k)
    from_v = projection_gradients(values["x_kv"], values["w_v"], d.v)
    gradient = {
        "w_q": from_q.w,
        "w_k": from_k.w,
        "w_v": from_v.w,
        "x_q": from_q.x,
        "x_kv": from_k.x + from_v.x,
    }
    assert_is_gradient(gradient[wrt], loss, values[wrt])


@pytest.mark.parametrize("wrt", ["q", "k", "v"])
@pytest.mark.parametrize("shared", [(1,), (BATCH, 1)], ids=["one for all", "one per batch"])
def test_the_gradient_of_keys_and_values_that_heads_share_is_summed_over_them(wrt, shared):
    values = {
        "q": normal(BATCH, HEADS, N_Q, D_K),
        "k": normal(*shared, N_K, D_K),
        "v": normal(*shared, N_K, D_V),
    }
    d_output = normal(BATCH, HEADS, N_Q, D_V, seed=1)

    def loss(x):
        return np.vdot(d_output, attention(**{**values, wrt: x}, scale=SCALE).output)

    forward = attention(**values, scale=SCALE)
    gradient = gradients(**values, d_output=d_output, forward=forward, scale=SCALE)
    assert_is_gradient(getattr(gradient, wrt), loss, values[wrt])


def test_the_logits_gradient_is_the_explicit_jacobian_times_the_weights_gradient():
    weights = softmax(3 * normal(BATCH, HEADS, N_Q, N_K))
    d_weights = normal(BATCH, HEADS, N_Q, N_K, seed=1)
    outer = weights[..., :, np.newaxis] * weights[..., np.newaxis, :]
    jacobian = weights[..., np.newaxis] * np.eye(N_K) - outer
    expected = np.einsum("...ij,...j->...i", jacobian, d_weights)
    # Sums of 7 products of numbers below 4, with a weight sum that is 1 within 4 eps.
    assert_allclose(softmax_backward(weights, d_weights), expected, atol=32 * EPS[np.float64])


@pytest.mark.parametrize("gap", [0, 10, 36, 100, 700])
def test_the_logits_gradient_keeps_its_digits_in_a_saturated_row(gap):
    # Multiples of 1/8, so that the only errors are those of the formulas under test.
    logits = np.array([[-1.0, 0.125, gap + 0.5, 0.25, -3.5, 0.0, -0.75]])
    d_weights = normal(1, N_K)
    computed = softmax_backward(softmax(logits), d_weights)[0]
    with mpmath.workdps(400):
        p = exact_weights(logits[0])
        g = [mpmath.mpf(float(x)) for x in d_weights[0]]
        mean = mpmath.fsum(x * y for x, y in zip(p, g, strict=True))
        expected = np.array([float(x * (y - mean)) for x, y in zip(p, g, strict=True)])
    # The entry at the maximum is a sum over the others of either sign: error relative to the row.
    atol = 16 * EPS[np.float64] * np.max(np.abs(expected))
    assert_allclose(computed, expected, rtol=16 * EPS[np.float64], atol=atol)


@each_shape
@pytest.mark.parametrize("make_mask", [MASKS["no mask"], random_mask], ids=["no mask", "boolean"])
def test_output_and_gradients_agree_with_pytorch(make_mask, n_q, n_k):
    torch = pytest.importorskip("torch", reason="the optional extra `oracle` is not installed")
    q, k, v, d_output = draw(n_q, n_k)
    mask = make_mask(BATCH, HEADS, n_q, n_k)
    leaves = [torch.tensor(x, requires_grad=True) for x in (q, k, v)]
    output = torch.nn.functional.scaled_dot_product_attention(
        *leaves, attn_mask=None if mask is None else torch.tensor(mask), scale=SCALE
    )
    output.backward(torch.tensor(d_output))
    result = attention(q, k, v, scale=SCALE, mask=mask)
    computed = gradients(q, k, v, d_output, result, scale=SCALE)
    # Sums of at most 13 terms below 10 in another order, through logits below 10.
    atol = 1000 * EPS[np.float64]
    assert_allclose(result.output, output.detach().numpy(), atol=atol)
    for name, leaf in zip("qkv", leaves, strict=True):
        assert_allclose(getattr(computed, name), leaf.grad.numpy(), atol=atol)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradients_keep_the_dtype_even_for_a_numpy_scale(dtype):
    q, k, v, d_output = draw(N_Q, N_K, dtype=dtype)
    scale = 1 / np.sqrt(np.float64(D_K))
    forward = attention(q, k, v, scale=scale)
    computed = gradients(q, k, v, d_output, forward, scale=scale)
    assert {gradient.dtype for gradient in computed} == {np.dtype(dtype)}
    x, w = normal(BATCH, N_Q, D_MODEL, dtype=dtype), normal(D_MODEL, D_K, dtype=dtype)
    projected = projection_gradients(x, w, project(x, w))
    assert {gradient.dtype for gradient in projected} == {np.dtype(dtype)}


def test_a_batch_of_gradients_equals_the_loop_over_it_to_the_bit():
    q, k, v, d_output = draw(N_Q, N_K)
    forward = attention(q, k, v, scale=SCALE)
    batch = gradients(q, k, v, d_output, forward, scale=SCALE)
    for i in np.ndindex(BATCH, HEADS):
        alone = AttentionResult(*(stage[i] for stage in forward))
        single = gradients(q[i], k[i], v[i], d_output[i], alone, scale=SCALE)
        for gradient, expected in zip(batch, single, strict=True):
            assert_array_equal(gradient[i], expected)


def test_scale_one_at_d_k_1_gives_the_unscaled_gradients_to_the_bit():
    q, k, v, d_output = normal(N_Q, 1), normal(N_K, 1), normal(N_K, D_V), normal(N_Q, D_V)
    forward = attention(q, k, v, scale=1.0)
    on = gradients(q, k, v, d_output, forward, scale=1 / np.sqrt(1))
    off = gradients(q, k, v, d_output, forward, scale=1.0)
    for a, b in zip(on, off, strict=True):
        assert_array_equal(a, b)
    assert_array_equal(off.scores, off.logits)


@each_shape
def test_hidden_keys_and_blind_queries_have_gradient_exactly_zero(n_q, n_k):
    q, k, v, d_output = draw(n_q, n_k)
    mask = mask_with_a_blind_query(n_q, n_k)
    mask[:, 2] = False
    forward = attention(q, k, v, scale=SCALE, mask=mask)
    d = gradients(q, k, v, d_output, forward, scale=SCALE)
    assert np.all(d.logits[..., ~mask] == 0)
    assert np.all(d.q[..., 1, :] == 0)
    assert np.all(d.k[..., 2, :] == 0)
    assert np.all(d.v[..., 2, :] == 0)


@property_test
@given(logits=logit_rows(), data=st.data())
def test_the_logits_gradient_of_each_row_sums_to_zero(logits, data):
    d_weights = data.draw(arrays(np.float64, logits.shape, elements=st.floats(-100, 100)))
    d_logits = softmax_backward(softmax(logits), d_weights)
    # |d_p| differs by at most 200 within a row; about 16 roundings with up to 7 keys.
    assert_allclose(d_logits.sum(axis=-1), 0.0, atol=16 * 200 * EPS[np.float64])


@property_test
@given(logits=logit_rows(), shift=st.integers(-100, 100), data=st.data())
def test_a_common_shift_of_the_weights_gradient_changes_no_bit(logits, shift, data):
    integers = st.integers(-100, 100).map(float)  # so that the shift is exact
    d_weights = data.draw(arrays(np.float64, logits.shape, elements=integers))
    weights = softmax(logits)
    assert_array_equal(
        softmax_backward(weights, d_weights + shift), softmax_backward(weights, d_weights)
    )


def test_a_weights_gradient_of_another_shape_is_refused():
    with pytest.raises(ValueError, match=r"weights \(5, 7\) and d_weights \(5, 1\) differ"):
        softmax_backward(softmax(normal(N_Q, N_K)), normal(N_Q, 1))


@pytest.mark.parametrize("shape", [(N_Q, D_V), (BATCH, HEADS, N_Q, 1), (BATCH, 1, N_Q, D_V)])
def test_an_output_gradient_that_would_broadcast_is_refused(shape):
    q, k, v, _ = draw(N_Q, N_K)
    forward = attention(q, k, v, scale=SCALE)
    with pytest.raises(ValueError, match=r"must have the output's shape \(2, 3, 5, 13\)"):
        gradients(q, k, v, normal(*shape), forward, scale=SCALE)
