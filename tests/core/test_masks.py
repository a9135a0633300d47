"""Hidden pairs have no influence, whatever they hold, in the definitions and in the kernel.

A key is hidden from some queries or from all. Hidden from all, its contents change no bit of any
result. Hidden from some, they change no bit of what belongs to the queries that do not see it.
"""

import contextlib
import warnings
from dataclasses import dataclass, replace
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from oracles import (
    BATCH,
    D_K,
    D_V,
    EPS,
    HEADS,
    N_K,
    mask_with_a_blind_query,
    normal,
    property_test,
    random_mask,
)

from sqrtdk.core import definitions, kernel_sizes, kernel_steps, metrics
from sqrtdk.core.attention import Factor, ScaleGradients, ScaleRule, attention, causal_mask, softmax
from sqrtdk.core.gradients import gradients, softmax_backward
from sqrtdk.core.kernel import Kernel
from sqrtdk.core.scale_rules import KeyNormSum, QKNorm, SoftCap

RULES = {
    "off": Factor(1.0),
    "on": Factor(0.375),
    "negative": Factor(-0.3),
    "zero": Factor(0.0),
    "qk_norm": QKNorm(3.0),
    "soft_cap": SoftCap(0.5, 2.0),
    "key_norm_sum": KeyNormSum(),
}

EXTREME = (
    np.nan,
    np.inf,
    -np.inf,
    1e300,
    -1e300,
    1.7e308,
    5e-324,
    -1e-310,
    0.0,
    -0.0,
    1e160,
    1e153,
)

THRESHOLD = 0.1


@dataclass(frozen=True)
class Case:
    """One batch of cells, a mask [cells, n_q, n_k] and a scale rule."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    g: np.ndarray
    mask: np.ndarray
    rule: ScaleRule

    @property
    def arrays(self):
        return self.q, self.k, self.v, self.g


@st.composite
def cases(draw):
    # d = 7 and 9 are large enough, at up to 4 queries and keys, for Gram matrices.
    cells, n_q, n_k = draw(st.integers(1, 2)), draw(st.integers(1, 4)), draw(st.integers(1, 5))
    d_k, d_v = draw(st.sampled_from([1, 2, 9])), draw(st.sampled_from([1, 3, 7]))
    seed = draw(st.integers(0, 1000))
    dtype = draw(st.sampled_from([np.float64, np.float32]))
    shapes = (n_q, d_k), (n_k, d_k), (n_k, d_v), (n_q, d_v)
    arrays = [normal(cells, *s, seed=seed + i, dtype=dtype) for i, s in enumerate(shapes)]
    bits = draw(st.lists(st.booleans(), min_size=cells * n_q * n_k, max_size=cells * n_q * n_k))
    mask = np.array(bits).reshape(cells, n_q, n_k)
    return Case(*arrays, mask, RULES[draw(st.sampled_from(sorted(RULES)))])


extreme = st.lists(st.sampled_from(EXTREME), min_size=1, max_size=4)


def fill(array, rows, contents):
    """Return a copy whose rows hold the contents in turn, with ordinary numbers between them."""
    found = array.copy()
    with np.errstate(over="ignore"):
        cycle = np.resize(np.array([*contents, 1.0]).astype(array.dtype), found[rows].shape)
    found[rows] = cycle
    return found


def by_definition(case):
    """Return every result of the definitions by name, with its axes: cells, queries or keys."""
    q, k, v, g = case.arrays
    forward = attention(q, k, v, scale=case.rule, mask=case.mask)
    d = gradients(q, k, v, g, forward, scale=case.rule)
    # As the rule itself, and the metrics from the scores, apply the mask.
    with np.errstate(invalid="ignore", over="ignore"):
        bare = case.rule.logits(forward.scores, q, k, case.mask)
        d_weights = g @ np.swapaxes(v, -1, -2)
    rows = metrics.row_metrics(bare, case.mask)
    return {
        "logits": (forward.logits, "qk"),
        "weights": (forward.weights, "qk"),
        "softmax": (softmax(bare, case.mask), "qk"),
        "softmax_backward": (softmax_backward(forward.weights, d_weights, case.mask), "qk"),
        "output": (forward.output, "q"),
        "d_logits": (d.logits, "qk"),
        "d_scores": (d.scores, "qk"),
        "d_q": (d.q, "q"),
        "d_k": (d.k, "k"),
        "d_v": (d.v, "k"),
        **{name: (values, "q") for name, values in rows._asdict().items()},
        "logit_std": (metrics.logit_std(bare, case.mask), ""),
        "dead_entries": (metrics.dead_entries(d.logits, case.mask, below=THRESHOLD), ""),
        "mean_factor": (
            np.array(
                [
                    case.rule.mean_factor(*arrays)
                    for arrays in zip(case.q, case.k, case.mask, strict=True)
                ]
            ),
            "",
        ),
    }


def by_kernel(case, *, gram=True, blocks=False):
    """Return every result of the kernel in the same form."""
    small = {"BLOCK_ENTRIES": 1, "BLOCK_ROWS": 2, "WHOLE_ENTRIES": 1}
    with contextlib.ExitStack() as patches:
        if blocks:
            patches.enter_context(mock.patch.multiple(kernel_sizes, **small))
            patches.enter_context(mock.patch.object(kernel_steps, "STRIP_ENTRIES", 3))
        (found,) = Kernel(gram=gram).measure(
            *case.arrays, [case.rule], mask=case.mask, dead_below=THRESHOLD
        )
    return {
        **{name: (values, "q") for name, values in found.rows._asdict().items()},
        **{f"d_{x}": (n, "k" if x in ("k", "v") else "q") for x, n in found.norms.items()},
        "logit_std": (found.logit_std, ""),
        "dead_entries": (found.dead_entries, ""),
        "mean_factor": (found.scale, ""),
    }


WAYS = {
    "definitions": by_definition,
    "kernel": by_kernel,
    "kernel without Gram matrices": lambda case: by_kernel(case, gram=False),
    "kernel in blocks": lambda case: by_kernel(case, blocks=True),
}
each_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())


@each_way
@property_test
@given(case=cases(), contents=extreme)
def test_keys_and_queries_that_are_hidden_throughout_change_no_bit(way, case, contents):
    blind, unseen = ~case.mask.any(axis=-1), ~case.mask.any(axis=-2)
    filled = replace(
        case,
        q=fill(case.q, blind, contents),
        k=fill(case.k, unseen, contents),
        v=fill(case.v, unseen, contents[::-1]),
        g=fill(case.g, blind, contents[::-1]),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found, expected = way(filled), way(case)
    for name, (values, _) in expected.items():
        assert_array_equal(found[name][0], values, err_msg=name)


@each_way
@property_test
@given(case=cases(), contents=extreme, data=st.data())
def test_a_key_changes_no_bit_of_the_queries_that_do_not_see_it(way, case, contents, data):
    j = data.draw(st.integers(0, case.k.shape[1] - 1), label="key")
    in_k, in_v = data.draw(st.sampled_from([(True, True), (True, False), (False, True)]))
    here = (slice(None), j)
    filled = replace(
        case,
        k=fill(case.k, here, contents) if in_k else case.k,
        v=fill(case.v, here, contents[::-1]) if in_v else case.v,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found, expected = way(filled), way(case)
    sees = case.mask[:, :, j]
    # Keys, and pairs, that no query of these sees.
    apart = {
        "q": ~sees,
        "k": ~(case.mask & sees[..., np.newaxis]).any(axis=-2),
        "qk": np.broadcast_to(~sees[..., np.newaxis], case.mask.shape),
        "": ~sees.any(axis=-1),
    }
    for name, (values, axes) in expected.items():
        assert_array_equal(found[name][0][apart[axes]], values[apart[axes]], err_msg=name)
    # Nothing of a hidden pair is anything but hidden, whatever its row sees.
    if way is by_definition:
        for name in ("weights", "d_logits", "d_scores"):
            assert np.all(found[name][0][~case.mask] == 0), name
        assert np.all(found["logits"][0][~case.mask] == -np.inf)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("holds", ["k", "v"])
def test_a_key_or_value_that_is_nan_shows_where_it_is_seen_and_only_there(rule, holds):
    q, k, v, g = draw(5, 7)
    mask = random_mask(5, 7)
    mask[:, 6] = [True, False, True, False, True]
    {"k": k, "v": v}[holds][6] = np.nan
    forward = attention(q, k, v, scale=RULES[rule], mask=mask)
    d = gradients(q, k, v, g, forward, scale=RULES[rule])
    sees = mask[:, 6]
    reached = (mask & sees[:, np.newaxis]).any(axis=0)
    assert_array_equal(np.isnan(forward.output).all(axis=-1), sees)
    assert_array_equal(np.isnan(forward.output).any(axis=-1), sees)
    assert_array_equal(np.isnan(d.logits), mask & sees[:, np.newaxis])
    assert_array_equal(np.isnan(d.q).any(axis=-1), sees)
    assert_array_equal(np.isnan(d.k).any(axis=-1), reached)
    if holds == "k":
        assert_array_equal(np.isnan(forward.weights), mask & sees[:, np.newaxis])
        assert_array_equal(np.isnan(d.v).any(axis=-1), reached)
        assert_array_equal(np.isnan(metrics.row_metrics(forward.logits).entropy_nats), sees)
    else:
        assert np.isfinite(d.v).all()
        assert np.isfinite(forward.weights).all()


def draw(n_q, n_k):
    return (
        normal(n_q, D_K, seed=1),
        normal(n_k, D_K, seed=2),
        normal(n_k, D_V, seed=3),
        normal(n_q, D_V, seed=4),
    )


@property_test
@given(case=cases(), contents=extreme, data=st.data())
def test_the_kernel_gives_what_the_definitions_give_for_any_contents(case, contents, data):
    # Anywhere, also where they are visible.
    arrays = {}
    for name in "qkvg":
        array = getattr(case, name)
        rows = data.draw(st.lists(st.integers(0, array.shape[1] - 1), max_size=2), label=name)
        arrays[name] = fill(array, (slice(None), rows), contents) if rows else array
    case = replace(case, **arrays, mask=data.draw(st.sampled_from([case.mask, None])))
    assert_the_kernel_agrees(case)


def largest(array):
    """Return the largest magnitude of a finite entry."""
    return float(np.max(np.abs(array), initial=0.0, where=np.isfinite(array)))


def assert_the_kernel_agrees(case):
    q, k, v, g = case.arrays
    forward = attention(q, k, v, scale=case.rule, mask=case.mask)
    d = gradients(q, k, v, g, forward, scale=case.rule)
    visible = forward.logits != -np.inf
    expected = {
        **metrics.row_metrics(forward.logits)._asdict(),
        "logit_std": metrics.logit_std(forward.logits),
        "dead_entries": metrics.dead_entries(d.logits, visible, below=THRESHOLD),
        **{f"d_{x}": metrics.row_norms(getattr(d, x)) for x in d._fields},
    }
    eps, tiny = EPS[q.dtype.type], float(np.finfo(q.dtype).smallest_subnormal)
    # Gradients of q and k are sums of these products, which may cancel altogether.
    terms = largest(d.scores) * max(largest(q), largest(k), 1.0)
    for gram, blocks in ((True, False), (False, False), (False, True)):
        found = by_kernel(case, gram=gram, blocks=blocks)
        for name, values in expected.items():
            measured = found[name][0]
            assert measured.dtype == values.dtype, name
            assert_array_equal(np.isnan(measured), np.isnan(values), err_msg=name)
            assert_array_equal(np.isinf(measured), np.isinf(values), err_msg=name)
            finite = np.isfinite(values)
            size = largest(values) if name not in ("d_q", "d_k") else max(largest(values), terms)
            # Logits of up to 50 are rounded before they are exponents, and gradients are sums
            # of up to 9 terms that cancel: about a hundred eps of the largest number, and some
            # spacings of subnormal ones.
            atol = min(1e3 * eps * size + 100 * tiny, 1e300)
            with np.errstate(over="ignore"):
                assert_allclose(
                    measured[finite], values[finite], rtol=1e3 * eps, atol=atol, err_msg=name
                )


def torch_logits(torch, rule, q, k, mask):
    """Apply the scale rules in PyTorch, for its derivatives."""
    scores = q @ k.transpose(-1, -2)
    match rule:
        case QKNorm():
            unit = torch.nn.functional.normalize
            return rule.scale * unit(q, dim=-1) @ unit(k, dim=-1).transpose(-1, -2)
        case SoftCap():
            return rule.cap * torch.tanh(scores * rule.factor / rule.cap)
        case KeyNormSum():
            norms = torch.linalg.vector_norm(k, dim=-1)[..., None, :]
            total = torch.where(mask, norms, 0.0).sum(-1, keepdim=True)
            return scores / torch.where(total == 0.0, torch.inf, total)
    return scores * rule.value


@pytest.mark.parametrize("n_q", [5, 7])
@pytest.mark.parametrize("make_mask", [random_mask, mask_with_a_blind_query, causal_mask])
@pytest.mark.parametrize("rule", RULES)
def test_outputs_and_gradients_with_nan_in_hidden_places_are_those_of_pytorch_without(
    rule, make_mask, n_q
):
    torch = pytest.importorskip("torch", reason="the optional extra `oracle` is not installed")
    q, k, v, g = (np.broadcast_to(x, (BATCH, HEADS, *x.shape)).copy() for x in draw(n_q, N_K - 2))
    mask = np.broadcast_to(make_mask(n_q, N_K - 2), (BATCH, HEADS, n_q, N_K - 2)).copy()
    mask[1, :, :, 2] = False
    leaves, visible = [torch.tensor(x, requires_grad=True) for x in (q, k, v)], torch.tensor(mask)
    if isinstance(RULES[rule], Factor):
        output = torch.nn.functional.scaled_dot_product_attention(
            *leaves, attn_mask=visible, scale=RULES[rule].value
        )
    else:
        logits = torch_logits(torch, RULES[rule], *leaves[:2], visible)
        # The lowest number instead of -inf, whose softmax is NaN in a row that sees nothing.
        hidden = torch.where(visible, logits, torch.finfo(logits.dtype).min)
        output = torch.where(visible, torch.softmax(hidden, dim=-1), 0.0) @ leaves[2]
    output.backward(torch.tensor(g))
    blind, unseen = ~mask.any(axis=-1), ~mask.any(axis=-2)
    q[blind], g[blind], k[unseen], v[unseen] = np.nan, np.nan, np.nan, np.inf
    result = attention(q, k, v, scale=RULES[rule], mask=mask)
    computed = gradients(q, k, v, g, result, scale=RULES[rule])
    # Sums of at most 13 terms below 10 in another order, through logits below 40.
    atol = 4000 * EPS[np.float64]
    assert_allclose(result.output, output.detach().numpy(), atol=atol)
    for name, leaf in zip("qkv", leaves, strict=True):
        assert_allclose(getattr(computed, name), leaf.grad.numpy(), atol=atol)


def test_the_example_of_a_hidden_value_that_is_nan():
    ones, mask = np.ones((2, 2)), np.array([[True, False]] * 2)
    v = np.array([[1.0, 2.0], [np.nan] * 2])
    assert_array_equal(attention(ones, ones, v, scale=1.0, mask=mask).output, [[1.0, 2.0]] * 2)


def test_softmax_backward_knows_hidden_keys_by_their_weight_where_no_mask_is_given():
    weights = np.array([[0.25, 0.75, 0.0]])
    d_weights = np.array([[4.0, 0.0, np.nan]])
    assert_array_equal(softmax_backward(weights, d_weights), [[0.75, -0.75, 0.0]])
    # A visible key can have a weight that underflowed to 0: with a mask it counts.
    visible = np.array([[True, True, True]])
    assert np.isnan(softmax_backward(weights, d_weights, visible)).all()


def test_hidden_entries_are_not_dead_ones():
    d_logits, mask = np.array([[0.0, 2.0, 0.0]]), np.array([[True, True, False]])
    assert metrics.dead_entries(d_logits, mask, below=1.0) == 0.5
    assert metrics.dead_entries(d_logits, below=1.0) == 2 / 3


@pytest.mark.parametrize("kind", ["causal", "blind"])
def test_every_result_under_a_mask_is_that_of_the_visible_keys_alone(kind):
    q, k, v, g = (x[np.newaxis] for x in draw(6, 7))
    mask = (causal_mask if kind == "causal" else mask_with_a_blind_query)(6, 7)
    for rule in RULES.values():
        (together,) = Kernel().measure(q, k, v, g, [rule], mask=mask, dead_below=THRESHOLD)
        dead, seen = 0.0, 0
        for i in np.flatnonzero(mask.any(axis=-1)):
            left = mask[i]
            (alone,) = Kernel().measure(
                q[:, i : i + 1], k[:, left], v[:, left], g[:, i : i + 1], [rule],
                dead_below=THRESHOLD,
            )  # fmt: skip
            for name, values in alone.rows._asdict().items():
                # Sums with and without zeros between the terms.
                expected = getattr(together.rows, name)[0, i]
                assert_allclose(values[0, 0], expected, rtol=1e-13, err_msg=name)
            for x in ("logits", "scores", "q"):
                assert_allclose(
                    alone.norms[x][0, 0], together.norms[x][0, i], rtol=1e-12, atol=1e-14
                )
            dead += alone.dead_entries[0] * left.sum()
            seen += left.sum()
        assert together.dead_entries[0] == pytest.approx(dead / seen, rel=1e-14)


def test_the_fast_way_serves_a_mask_whose_hidden_keys_hold_nan():
    q, k, v, g = (x[np.newaxis] for x in draw(5, 7))
    mask = random_mask(5, 7)
    mask[:, 2] = False
    k[:, 2], v[:, 2] = np.nan, np.inf
    with mock.patch.object(definitions, "measure_cell", side_effect=AssertionError):
        # Without the rule that makes all logits 0: their spread has no digits to rely on.
        rules = [rule for name, rule in RULES.items() if name != "zero"]
        Kernel().measure(q, k, v, g, rules, mask=mask)


class Cubed:
    """A user's own rule that works pair by pair and ignores the mask."""

    def logits(self, scores, q, k, mask=None):
        return 0.1 * scores**3

    def backward(self, d_logits, scores, q, k, mask=None):
        return ScaleGradients(d_logits * (0.3 * scores**2))

    def mean_factor(self, q, k, mask=None):
        return 0.1


@pytest.mark.parametrize("contents", [np.nan, np.inf, 1e300])
def test_a_rule_that_works_pair_by_pair_needs_no_care_for_the_mask(contents):
    q, k, v, g = draw(5, 7)
    mask = random_mask(5, 7)
    mask[:, 6] = [True, False, False, False, True]
    k[6] = contents
    assert_the_kernel_agrees(
        Case(*(x[np.newaxis] for x in (q, k, v, g)), mask[np.newaxis], Cubed())
    )
    filled = gradients(q, k, v, g, attention(q, k, v, scale=Cubed(), mask=mask), scale=Cubed())
    k[6] = 0.0
    plain = gradients(q, k, v, g, attention(q, k, v, scale=Cubed(), mask=mask), scale=Cubed())
    for name in ("logits", "scores", "q"):
        assert_array_equal(getattr(filled, name)[1:4], getattr(plain, name)[1:4], err_msg=name)


def test_whether_a_gram_matrix_serves_a_row_does_not_depend_on_a_key_that_it_does_not_see():
    # In 150 and 200 dimensions a Gram matrix serves q, k and v.
    q, k = normal(1, 8, 200, seed=1), normal(1, 9, 200, seed=2)
    v, g = normal(1, 9, 150, seed=3), normal(1, 8, 150, seed=4)
    mask = random_mask(8, 9)
    mask[:, 5] = np.arange(8) < 2
    found = []
    for length in (1.0, 1e3, 1e9):
        longer = k.copy()
        longer[:, 5] *= length
        (measured,) = Kernel().measure(q, longer, v, g, [Factor(0.07)], mask=mask)
        found.append(measured.norms["q"][0, 2:])
    assert_array_equal(found[1], found[0])
    assert_array_equal(found[2], found[0])
