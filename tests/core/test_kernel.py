"""The kernel gives the results of the readable formulas, for all batches, blocks and rules."""

import tracemalloc

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles import EPS, exact_row_metrics, normal, random_mask

from sqrtdk.core import kernel_sizes, kernel_steps, metrics
from sqrtdk.core.attention import Factor, WithSink, attention, causal_mask
from sqrtdk.core.gradients import gradients
from sqrtdk.core.kernel import Kernel
from sqrtdk.core.qk_clip import QKClip
from sqrtdk.core.scale_rules import KeyNormSum, QKNorm, SoftCap

RULES = {
    "off": Factor(1.0),
    "on": Factor(0.25),
    "negative": Factor(-0.3),
    "qk_norm": QKNorm(8.0),
    "soft_cap": SoftCap(0.5, 2.0),
    "key_norm_sum": KeyNormSum(),
    # Clipped in most heads, because the largest score is above 2 there.
    "qk_clip": QKClip(0.5, 1.0),
    "sink": WithSink(Factor(0.25), 0.5),
    # Above every logit of some rows.
    "large sink": WithSink(Factor(0.25), 6.0),
    "sink of a cap": WithSink(SoftCap(0.5, 2.0), -1.0),
}

# (cells, n_q, n_k, d_k, d_v): every dimension its own; more queries than keys and fewer; one of
# each; a Gram matrix for q alone, for k alone, for v alone, for all of them, and for none.
SHAPES = {
    "plain": (3, 5, 7, 11, 13),
    "wide rows": (2, 6, 300, 4, 3),
    "one query": (2, 1, 9, 5, 2),
    "one key": (2, 3, 1, 4, 2),
    "one dimension": (4, 16, 15, 1, 1),
    "gram of keys": (2, 40, 3, 64, 2),
    "gram of queries": (2, 3, 40, 64, 2),
    "gram of output gradients": (2, 5, 6, 3, 90),
    "gram of all": (3, 8, 9, 200, 150),
}


def draw(cells, n_q, n_k, d_k, d_v, dtype=np.float64):
    return (
        normal(cells, n_q, d_k, seed=1, dtype=dtype),
        normal(cells, n_k, d_k, seed=2, dtype=dtype),
        normal(cells, n_k, d_v, seed=3, dtype=dtype),
        normal(cells, n_q, d_v, seed=4, dtype=dtype),
    )


def plainly(q, k, v, g, rule, mask=None, dead_below=0.0):
    """The same by the definitions, as one flat mapping, with the gradients themselves."""
    forward = attention(q, k, v, scale=rule, mask=mask)
    backward = gradients(q, k, v, g, forward, scale=rule)
    logits = forward.logits
    if isinstance(rule, WithSink):
        # One more key, seen by every query that sees any.
        sees = (logits != -np.inf).any(axis=-1, keepdims=True)
        column = np.where(sees, rule.sink, -np.inf).astype(logits.dtype)
        logits = np.concatenate([logits, column], axis=-1)
    found = {
        **metrics.row_metrics(logits)._asdict(),
        "logit_std": metrics.logit_std(forward.logits),
        "dead_entries": metrics.dead_entries(backward.logits, mask, below=dead_below),
    }
    return found | {f"grad_{x}": metrics.row_norms(getattr(backward, x)) for x in backward._fields}


def flat(measured):
    rows = measured.rows._asdict()
    norms = {f"grad_{x}": values for x, values in measured.norms.items()}
    rest = {"logit_std": measured.logit_std, "dead_entries": measured.dead_entries}
    return rows | rest | norms


def assert_agree(measured, plain, rtol, floor=1e-14):
    """Relative to each value, and to a share `floor` of a quantity's largest value in the batch.

    A gradient norm is a root of a sum of terms that partly cancel: a row where they cancel more
    than elsewhere is as exact as its terms, not as itself.
    """
    found = flat(measured)
    assert found.keys() == plain.keys()
    for name, expected in plain.items():
        size = float(np.nanmax(np.abs(expected), initial=0.0))
        assert found[name].shape == expected.shape, name
        assert found[name].dtype == expected.dtype, name
        assert_allclose(found[name], expected, rtol=rtol, atol=floor * size, err_msg=name)


def masks(cells, n_q, n_k):
    blind = random_mask(cells, n_q, max(n_k, 4))[..., :n_k].copy()
    blind[:, 0] = False
    return {"none": None, "causal": causal_mask(n_q, n_k), "with a blind query": blind}


@pytest.mark.parametrize("mask", ["none", "causal", "with a blind query"])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_rule_gives_what_the_formulas_define(shape, mask):
    arrays = draw(*SHAPES[shape])
    visible = masks(*SHAPES[shape][:3])[mask]
    found = Kernel().measure(*arrays, RULES.values(), mask=visible, dead_below=1e-2)
    for (name, rule), measured in zip(RULES.items(), found, strict=True):
        if SHAPES[shape][3] == 1 and name == "qk_norm":
            # In one dimension a direction has no derivative: the gradients of q and k are 0, and
            # both are nothing but the rounding of sums of about 15 terms of size 10.
            plain = plainly(*arrays, rule, visible, 1e-2)
            for x in ("q", "k"):
                assert max(measured.norms[x].max(), plain[f"grad_{x}"].max()) < 1e-12
                plain[f"grad_{x}"] = measured.norms[x]
        else:
            plain = plainly(*arrays, rule, visible, 1e-2)
        # Logits up to about 40 are rounded at eps times their size before they are exponents, and
        # sums over up to 300 keys are taken in another order.
        assert_agree(measured, plain, rtol=2e-13, floor=2e-13)


@pytest.mark.parametrize("shape", SHAPES)
def test_single_precision_agrees_as_far_as_it_goes(shape):
    arrays = draw(*SHAPES[shape], dtype=np.float32)
    rules = {name: rule for name, rule in RULES.items() if name != "qk_norm"}
    for rule, measured in zip(
        rules.values(), Kernel().measure(*arrays, rules.values()), strict=True
    ):
        # As above, with an eps 5e8 times as large.
        assert_agree(measured, plainly(*arrays, rule), rtol=1e-4, floor=1e-4)


def test_blocks_of_queries_change_nothing_but_the_order_of_sums(monkeypatch):
    arrays = draw(2, 37, 11, 4, 3)
    mask = random_mask(37, 11)
    whole = Kernel().measure(*arrays, RULES.values(), mask=mask, dead_below=1e-2)
    monkeypatch.setattr(kernel_sizes, "BLOCK_ENTRIES", 1)
    monkeypatch.setattr(kernel_sizes, "BLOCK_ROWS", 5)
    monkeypatch.setattr(kernel_steps, "STRIP_ENTRIES", 20)
    parts = Kernel().measure(*arrays, RULES.values(), mask=mask, dead_below=1e-2)
    for one, other in zip(whole, parts, strict=True):
        # Sums of 37 terms, in another order.
        assert_agree(other, flat(one), rtol=1e-13, floor=1e-14)
        assert_allclose(other.scale, one.scale, rtol=1e-14)


@pytest.mark.parametrize("shape", [name for name in SHAPES if "gram" in name])
def test_norms_from_gram_matrices_are_those_of_the_gradients(shape):
    arrays = draw(*SHAPES[shape])
    rules = list(RULES.values())
    by_gram, formed = (Kernel(gram=gram).measure(*arrays, rules) for gram in (True, False))
    differ = False
    for one, other in zip(by_gram, formed, strict=True):
        # Squares whose terms cancel down to CANCELLED of their size: eps / 1e-3, times about √d.
        assert_agree(one, flat(other), rtol=1e-12)
        differ |= any((one.norms[x] != other.norms[x]).any() for x in one.norms)
    assert differ, "the shape is not one that a Gram matrix serves"


def test_single_precision_looks_sooner_at_what_a_gram_matrix_lost():
    # Keys with a common mean of 3: of a square about 1/20 is left, and float32 would lose 20 eps.
    q, k, v, g = draw(2, 8, 9, 200, 150, dtype=np.float32)
    k, g = k + np.float32(3), g + np.float32(3)
    (found,) = Kernel().measure(q, k, v, g, [Factor(1e-2)])
    exact = plainly(*(x.astype(np.float64) for x in (q, k, v, g)), Factor(1e-2))
    for x in ("q", "k", "v"):
        # Products of 9 terms that cancel to a twentieth, each rounded at 6e-8.
        assert_allclose(found.norms[x], exact[f"grad_{x}"], rtol=1e-5, err_msg=x)


def test_a_cell_that_fits_is_kept_whole_for_its_gram_matrices():
    assert kernel_sizes.block_rows(1024, 1024, 2, whole=True) == 1024
    q, k, v, g = draw(1, 300, 500, 1200, 2)
    (by_gram,) = Kernel().measure(q, k, v, g, [Factor(0.03)])
    (formed,) = Kernel(gram=False).measure(q, k, v, g, [Factor(0.03)])
    assert (by_gram.norms["k"] != formed.norms["k"]).any()
    # As above: eps over CANCELLED, times about √d.
    assert_agree(by_gram, flat(formed), rtol=1e-12)


def test_a_gram_matrix_that_loses_the_digits_is_not_used():
    # Of keys with a common mean of 1e6 a gradient sees the differences alone, 1e-12 of a square.
    q, k, v, g = draw(2, 8, 9, 200, 150)
    k, g = k + 1e6, g + 1e6
    (by_gram,) = Kernel().measure(q, k, v, g, [Factor(1e-3)])
    (formed,) = Kernel(gram=False).measure(q, k, v, g, [Factor(1e-3)])
    for x in ("q", "k", "v"):
        # The same rows by the same product, but for the order in which BLAS sums.
        assert_allclose(by_gram.norms[x], formed.norms[x], rtol=1e-8)
    direct = gradients(q, k, v, g, attention(q, k, v, scale=1e-3), scale=1e-3)
    # dL/dq is off by eps times the mean that cancels, 1e6.
    assert_allclose(by_gram.norms["q"], metrics.row_norms(direct.q), rtol=1e-8)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_bits_of_a_cell_depend_neither_on_its_batch_nor_on_the_other_rules(shape):
    arrays = draw(*SHAPES[shape])
    together = Kernel().measure(*arrays, RULES.values(), dead_below=1e-2)
    core = Kernel()
    for cell in range(SHAPES[shape][0]):
        alone = [array[cell : cell + 1] for array in arrays]
        for rule, measured in zip(RULES.values(), together, strict=True):
            (one,) = core.measure(*alone, [rule], dead_below=1e-2)
            for name, values in flat(measured).items():
                assert_array_equal(flat(one)[name][0], values[cell], err_msg=f"{name} {rule}")
            assert one.scale[0] == measured.scale[cell]


@pytest.mark.parametrize("sd", [0.1, 1.0, 10.0, 60.0])
@pytest.mark.parametrize("n_k", [2, 17, 64])
def test_row_metrics_are_exact_given_the_logits(n_k, sd):
    # Multiples of 1/8, whose differences are exact; else a gap of g is known to g eps / 2 alone.
    logits = np.round(8 * sd * normal(1, 6, n_k)) / 8
    identity = np.eye(n_k)[np.newaxis]
    ones = np.ones((1, n_k, 1)), np.ones((1, 6, 1))
    (found,) = Kernel(gram=False).measure(logits, identity, *ones, [Factor(1.0)])
    for place, row in enumerate(logits[0]):
        for name, exact in exact_row_metrics(row).items():
            value = mpmath.mpf(float(getattr(found.rows, name)[0, place]))
            # The claim: 1e-15, about 5 eps, where 1 - max p is at least 1e-150.
            if float(found.rows.max_weight_gap[0, place]) >= 1e-150:
                assert abs(value - exact) <= 1e-15 * exact, name


@pytest.mark.parametrize("gap", [40.0, 300.0, 360.0, 700.0, 740.0])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_saturated_rows_keep_their_digits_where_squares_underflow(gap, dtype):
    logits = np.array([[[0.0, -gap, -gap - 1.0], [0.0, 0.0, -gap]]], dtype=dtype)
    identity = np.eye(3, dtype=dtype)[np.newaxis]
    v, g = normal(1, 3, 2, dtype=dtype), normal(1, 2, 2, seed=1, dtype=dtype)
    (found,) = Kernel().measure(logits, identity, v, g, [Factor(1.0)])
    plain = plainly(logits, identity, v, g, Factor(1.0))
    # Row metrics and gradient norms of a row near 1e-300 are right to their last digits, or both
    # are zero; subnormal numbers have fewer digits.
    tiny = 8 * float(np.finfo(dtype).smallest_subnormal)
    for name in ("entropy_nats", "max_weight_gap", "jacobian_norm", "grad_logits", "grad_q"):
        assert_allclose(flat(found)[name], plain[name], rtol=32 * EPS[dtype], atol=tiny)
    if gap < 100:
        assert (found.rows.jacobian_norm > 0).all()


def test_a_far_match_leaves_the_spread_of_the_other_logits_its_digits():
    # Shifted by the largest, all others are near -1e6: their variance has to be that of 0.1 still.
    logits = 0.1 * normal(1, 3, 50)
    logits[..., 7] = 1e6
    identity = np.eye(50)[np.newaxis]
    (found,) = Kernel().measure(logits, identity, identity, logits, [Factor(1.0)])
    # Sums of 50 squares in another order: about ten roundings.
    assert_allclose(found.logit_std, metrics.logit_std(logits), rtol=1e-14)
    common = 0.1 * normal(1, 3, 50) + 1e6
    (found,) = Kernel().measure(common, identity, identity, logits, [Factor(1.0)])
    assert_allclose(found.logit_std, metrics.logit_std(common), rtol=1e-14)


def test_what_is_no_mask_is_refused_as_by_the_definition():
    arrays = draw(2, 3, 4, 5, 2)
    with pytest.raises(TypeError, match="must be boolean"):
        Kernel().measure(*arrays, [Factor(1.0)], mask=np.zeros((3, 4)))
    with pytest.raises(ValueError, match="broadcast"):
        Kernel().measure(*arrays, [Factor(1.0)], mask=np.ones((3, 5), dtype=bool))


def test_memory_grows_with_the_length_and_not_with_its_square():
    def peak(n):
        arrays = draw(1, n, n, 4, 4)
        core = Kernel()
        tracemalloc.start()
        core.measure(*arrays, [Factor(1.0), Factor(0.5)])
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    # Four times the length takes four times the memory, and a full matrix alone would be 128 MiB.
    assert peak(4096) < 4.5 * peak(1024) < 64 * 2**20


@pytest.mark.parametrize("share", [0.0, 1.0], ids=["one key", "all keys"])
def test_memory_grows_no_faster_where_keys_are_not_finite(share):
    def peak(n):
        q, k, v, g = draw(1, n, n, 4, 4)
        k[:, : max(1, int(share * n))] = np.nan
        core = Kernel()
        tracemalloc.start()
        core.measure(q, k, v, g, [Factor(1.0)])
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    # As above. The definitions keep about 15 arrays of one value a pair: whole ones would take
    # 15 * 32 MiB.
    assert peak(2048) < min(4.5 * peak(512), 96 * 2**20)


def test_a_batch_is_as_large_as_its_arrays_allow():
    assert kernel_sizes.batch_size(16, 16, 1, 1) > 1
    assert kernel_sizes.batch_size(16, 16, 10**6, 1) == 1
    assert kernel_sizes.batch_size(10**5, 10**5, 1, 1) == 1
