"""`measure`: arguments, layouts, kinds of arrays, and what it says of unrelated vectors."""

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from sqrtdk.core.attention import attention
from sqrtdk.tensors.measurement import COLUMNS, measure

B, H, N_Q, N_K, D, D_V = 2, 3, 13, 11, 7, 5


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng((seed, *shape)).standard_normal(shape)


Q, K, V = draw(B, H, N_Q, D), draw(B, H, N_K, D), draw(B, H, N_K, D_V)


def numbers(frame: Any) -> np.ndarray:
    return frame.drop(columns=["batch", "head", "scaling"]).to_numpy(dtype=float)


def test_there_is_one_row_for_each_batch_entry_head_and_scale() -> None:
    found = measure(Q, K, V, scale={"on": D**-0.5, "off": 1.0})
    assert tuple(found.columns) == COLUMNS
    wanted = [(b, h, s) for b in range(B) for h in range(H) for s in ("on", "off")]
    assert list(zip(found.batch, found["head"], found.scaling, strict=True)) == wanted
    assert (found.logit_std[found.scaling == "off"].to_numpy() > 1).all()


def test_no_scale_is_one_over_root_d_and_zero_is_zero() -> None:
    assert measure(Q, K).scale.unique() == pytest.approx([D**-0.5])
    flat = measure(Q, K, scale=0.0)
    assert flat.entropy_nats.to_numpy() == pytest.approx(math.log(N_K))
    assert flat.logit_std.to_numpy() == pytest.approx(0)


def test_layouts_and_missing_dimensions_give_the_same_numbers() -> None:
    wanted = numbers(measure(Q, K, V))
    turned = [np.swapaxes(x, 1, 2) for x in (Q, K, V)]
    assert np.array_equal(numbers(measure(*turned, layout="bnhd")), wanted, equal_nan=True)
    assert np.array_equal(numbers(measure(Q[0], K[0], V[0])), wanted[:H], equal_nan=True)
    assert np.array_equal(numbers(measure(Q[0, 0], K[0, 0], V[0, 0])), wanted[:1], equal_nan=True)


def test_grouped_queries_share_their_keys() -> None:
    q, k = draw(1, 6, 5, 4), draw(1, 2, 9, 4)
    wanted = measure(q, np.repeat(k, 3, axis=1))
    assert measure(q, k).equals(wanted)
    with pytest.raises(ValueError, match="q has 6 heads and k has 2; allowed: as many as k has"):
        measure(q, k, enable_gqa=False)
    with pytest.raises(ValueError, match="q has 5 heads and k has 2; allowed: a multiple"):
        measure(q[:, :5], k)


def test_masks_of_both_kinds_and_causal_say_the_same() -> None:
    causal = np.tri(N_Q, N_K, dtype=bool)
    wanted = numbers(measure(Q, K, is_causal=True))
    for hidden in (-math.inf, -1e5, -1e4, float(np.finfo(np.float32).min)):
        additive = np.where(causal, 0.0, hidden)
        assert np.array_equal(numbers(measure(Q, K, attn_mask=additive)), wanted, equal_nan=True)
    assert np.array_equal(numbers(measure(Q, K, attn_mask=causal)), wanted, equal_nan=True)
    with pytest.raises(ValueError, match="attn_mask and is_causal are both given"):
        measure(Q, K, attn_mask=causal, is_causal=True)


def test_a_mask_of_one_head_changes_that_head_alone() -> None:
    mask = np.ones((B, H, 1, N_K), bool)
    mask[1, 2, 0, :4] = False
    plain, masked = measure(Q, K), measure(Q, K, attn_mask=mask)
    same = np.isclose(plain.entropy_nats, masked.entropy_nats)
    assert same.tolist() == [True] * (B * H - 1) + [False]
    assert masked.visible_keys.iloc[-1] == N_K - 4


def test_a_window_looks_back_in_a_causal_head_and_both_ways_else() -> None:
    place, key = np.arange(N_Q)[:, None], np.arange(N_K)
    both = measure(Q, K, window=2, min_keys=1)
    wanted = measure(Q, K, attn_mask=abs(place - key) <= 2, min_keys=1)
    assert np.array_equal(numbers(both), numbers(wanted), equal_nan=True)
    back = measure(Q, K, window=2, is_causal=True)
    assert np.array_equal(numbers(back), numbers(measure(Q, K, window=(2, 0))), equal_nan=True)


def test_unrelated_vectors_do_what_is_expected_of_them() -> None:
    q, k = draw(1, 8, 300, 64, seed=3), draw(1, 8, 200, 64, seed=4)
    found = measure(q, k, scale={"on": 1 / 8, "off": 1.0})
    # A sphere's row has one σ; that of these rows varies by 9 %, which moves the mean little.
    on = found[found.scaling == "on"]
    assert on.entropy_normalized_deviation.abs().max() < 0.002
    assert on.max_weight_deviation.abs().max() < 0.005
    # 8 heads of 300 rows that share their keys: a sd of some 0.02 in each head.
    off = found[found.scaling == "off"]
    assert abs(off.max_weight_deviation.mean()) < 0.03
    assert found.alignment.to_numpy() == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
def test_narrow_dtypes_are_computed_in_float32(dtype: Any) -> None:
    q, k = Q.astype(dtype), K.astype(dtype)
    found = measure(q, k)
    wanted = measure(q.astype(np.float64), k.astype(np.float64))
    # A float32 sum of 7 products, and an entropy of at most ln 11.
    assert numbers(found) == pytest.approx(numbers(wanted), rel=3e-5, abs=3e-6, nan_ok=True)


@pytest.mark.parametrize("size", [1e200, 1e-200, 1e-310, 1.0])
def test_the_rms_of_outputs_of_any_size_is_that_of_outputs_of_size_one(size: float) -> None:
    rng = np.random.default_rng(4)
    q, k, v = rng.standard_normal((3, 5, 3))
    found, usual = measure(q, k, v * size).output_rms[0], measure(q, k, v).output_rms[0]
    output = attention(q, k, v, scale=3**-0.5).output
    assert usual == pytest.approx(np.mean(output**2) ** 0.5, rel=1e-13)
    # A size that is no power of two is rounded; subnormal values have few digits left.
    assert found / size == pytest.approx(usual, rel=1e-12 if size > 1e-300 else 1e-9)


@pytest.mark.skipif(
    np.longdouble(0).itemsize == 8,
    reason="on Apple silicon longdouble is float64, which loses nothing and is allowed",
)
@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_what_would_lose_digits_is_refused(name: str) -> None:
    arrays = dict.fromkeys("qkv", np.ones((2, 2))) | {name: np.ones((2, 2), np.longdouble)}
    with pytest.raises(TypeError, match=f"^{name} has dtype float128; allowed: float64 and narr"):
        measure(**arrays)


def test_tensors_of_torch_are_taken_as_they_are() -> None:
    torch = pytest.importorskip("torch")
    wanted = numbers(measure(Q, K, V))
    tensors = [torch.tensor(x, requires_grad=True) for x in (Q, K, V)]
    assert np.array_equal(numbers(measure(*tensors)), wanted, equal_nan=True)
    narrow = [torch.tensor(x, dtype=torch.bfloat16) for x in (Q, K)]
    known = [x.float().numpy() for x in narrow]
    assert np.array_equal(numbers(measure(*narrow)), numbers(measure(*known)), equal_nan=True)


def test_arrays_of_jax_are_taken_as_they_are() -> None:
    jnp = pytest.importorskip("jax.numpy")
    single = [x.astype(np.float32) for x in (Q, K)]
    wanted = numbers(measure(*single))
    found = numbers(measure(*(jnp.asarray(x) for x in single)))
    assert np.array_equal(found, wanted, equal_nan=True)


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"q": Q.astype(int)}, TypeError, "q has dtype int64; allowed: floating point"),
        ({"k": K[..., :3]}, ValueError, "must agree in batch and dimension"),
        ({"k": K[:1]}, ValueError, "must agree in batch and dimension"),
        ({"q": Q[:, :, :0]}, ValueError, "must not be empty"),
        ({"q": np.ones(3)}, ValueError, r"q has shape \(3,\); allowed: 2 to 4 dimensions"),
        ({"v": V[:, :, :4]}, ValueError, "must agree in batch, heads and length"),
        ({"scale": "on"}, TypeError, "scale is 'on'; allowed: finite numbers"),
        ({"scale": math.nan}, ValueError, "scale is nan; allowed: finite numbers"),
        ({"scale": {}}, ValueError, "scale is an empty mapping"),
        ({"softcap": 0}, ValueError, "softcap is 0; allowed: finite numbers above 0"),
        ({"window": -1}, ValueError, "window is -1; allowed: a whole number from 0"),
        ({"window": True}, ValueError, "window is True"),
        ({"sink": np.zeros(2)}, ValueError, "one number or one per head"),
        ({"layout": "hnd"}, ValueError, "layout is 'hnd'; allowed: bhnd, bnhd; did you mean bhnd?"),
        ({"attn_mask": np.ones((N_Q, N_K), int)}, TypeError, "attn_mask has dtype int64"),
        ({"attn_mask": np.ones((4, 4), bool)}, ValueError, "does not broadcast to"),
        ({"min_keys": 0}, ValueError, "min_keys is 0; allowed: whole numbers from 1"),
    ],
)
def test_a_mistake_is_one_line(arguments: dict[str, Any], error: type, said: str) -> None:
    given = {"q": Q, "k": K} | arguments
    with pytest.raises(error, match=said) as caught:
        measure(given.pop("q"), given.pop("k"), given.pop("v", None), **given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"q": np.ma.masked_invalid(Q)}, TypeError, "q is a masked array"),
        ({"scale": 10**400}, ValueError, "allowed: finite numbers"),
        ({"scale": np.True_}, TypeError, "scale is .*True.*; allowed: finite numbers"),
        ({"scale": {1: 0.5}}, TypeError, "scale has the name 1; allowed: text"),
        ({"sink": "1"}, TypeError, "sink is '1'; allowed: one number or one per head"),
        ({"sink": True}, TypeError, "sink is True"),
        ({"min_keys": True}, TypeError, "min_keys is True"),
        ({"attn_mask": np.full((N_Q, N_K), np.inf)}, ValueError, "attn_mask holds nan or inf"),
        ({"v": V[..., :0]}, ValueError, "must not be empty"),
    ],
)
def test_what_would_be_taken_for_something_else_is_refused(
    arguments: dict[str, Any], error: type, said: str
) -> None:
    given = {"q": Q, "k": K} | arguments
    with pytest.raises(error, match=said):
        measure(given.pop("q"), given.pop("k"), given.pop("v", None), **given)


def test_a_window_without_end_hides_nothing_of_the_past() -> None:
    wanted = numbers(measure(Q, K, is_causal=True))
    for window in (2**63 - 1, 10**30, [10**30, 0]):
        found = numbers(measure(Q, K, is_causal=True, window=window))
        assert np.array_equal(found, wanted, equal_nan=True)
