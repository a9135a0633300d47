"""Edge cases of the library: types, shapes, empty axes, and numbers that are not finite."""

import re
import warnings

import ml_dtypes
import mpmath
import numpy as np
import pytest
from conftest import ROOT
from numpy.testing import assert_allclose, assert_array_equal
from oracles import BATCH, D_K, D_V, HEADS, N_K, N_Q, exact_row_metrics, normal, random_mask

from sqrtdk.core import attention as core_attention
from sqrtdk.core import gradients as core_gradients
from sqrtdk.core import metrics, scale_rules
from sqrtdk.core.attention import Factor, attention
from sqrtdk.core.checks import as_floats
from sqrtdk.core.gradients import gradients
from sqrtdk.core.kernel import Kernel
from sqrtdk.core.scale_rules import KeyNormSum, QKNorm, SoftCap

RULES = (Factor(0.3), Factor(-0.3), QKNorm(3.0), SoftCap(0.5, 2.0), KeyNormSum())

PAGE = (ROOT / "docs/library.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("|") and "`" in line
]


def measure(q, k, v, g, *, scale=1.0, **options):
    batch = (np.asarray(array)[np.newaxis] for array in (q, k, v, g))
    (found,) = Kernel().measure(*batch, [scale], **options)
    return found


# The page


@pytest.mark.parametrize(("example", "result"), [row[2:] for row in ROWS])
def test_the_page_says_what_each_example_gives(example, result):
    ones = np.ones((2, 3))
    bad = np.array([[1.0] * 3, [np.nan] * 3])
    names = vars(core_attention) | vars(core_gradients) | vars(metrics)
    names |= {"q": ones, "k": ones, "v": ones, "g": ones, "nan": np.nan, "inf": np.inf}
    names |= {"bad": bad, "bfloat16": ml_dtypes.bfloat16, "measure": measure, "np": np}
    try:
        found = str(eval(example.strip("`"), names))
    except (TypeError, ValueError) as error:
        found = f"{type(error).__name__}: {error}"
    assert f"`{found}`" == result


def test_the_page_has_its_table_and_its_first_example_runs(capsys):
    assert len(ROWS) > 30
    example, *_ = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(example, {})
    assert capsys.readouterr().out.startswith("[[0.")


# Types


def arrays(dtype=np.float64):
    return {
        "q": normal(N_Q, D_K, seed=1).astype(dtype),
        "k": normal(N_K, D_K, seed=2).astype(dtype),
        "v": normal(N_K, D_V, seed=3).astype(dtype),
        "g": normal(N_Q, D_V, seed=4).astype(dtype),
    }


def of_gradients(q, k, v, g):
    given = arrays()
    forward = attention(given["q"], given["k"], given["v"], scale=0.3)
    return gradients(q, k, v, g, forward, scale=0.3)


x, w, logits = np.ones((N_Q, D_K)), np.ones((D_K, D_V)), np.ones((N_Q, N_K))
TAKE = {
    "project": (core_attention.project, {"x": x, "w": w}),
    "scores": (core_attention.scores, {"q": x, "k": np.ones((N_K, D_K))}),
    "softmax": (core_attention.softmax, {"logits": logits}),
    "mask_logits": (lambda logits: core_attention.mask_logits(logits, None), {"logits": logits}),
    "shift_by_row_max": (core_attention.shift_by_row_max, {"logits": logits}),
    "softmax_backward": (core_gradients.softmax_backward, {"weights": logits, "d_weights": logits}),
    "projection_gradients": (
        core_gradients.projection_gradients,
        {"x": x, "w": w, "d_projected": np.ones((N_Q, D_V))},
    ),
    "row_metrics": (metrics.row_metrics, {"logits": logits}),
    "logit_std": (metrics.logit_std, {"logits": logits}),
    "row_norms": (metrics.row_norms, {"x": x}),
    "summarize_norms": (metrics.summarize_norms, {"norms": x}),
    "dead_entries": (lambda d_logits: metrics.dead_entries(d_logits, below=1.0), {"d_logits": x}),
    "attention": (
        lambda q, k, v: attention(q, k, v, scale=0.3),
        {name: array for name, array in arrays().items() if name != "g"},
    ),
    "gradients": (
        lambda q, k, v, d_output: of_gradients(q, k, v, d_output),
        {("d_output" if name == "g" else name): array for name, array in arrays().items()},
    ),
    "kernel": (
        lambda q, k, v, g: Kernel().measure(q, k, v, g, [0.3]),
        {name: array[np.newaxis] for name, array in arrays().items()},
    ),
}
EACH = [(function, name) for function, (_, given) in TAKE.items() for name in given]


@pytest.mark.parametrize(
    "dtype", ["int8", "int64", "uint8", "bool", "complex128", "object", "str", "datetime64[s]",
              ml_dtypes.float8_e4m3fn, ml_dtypes.int4],
)  # fmt: skip
@pytest.mark.parametrize(("function", "name"), EACH)
def test_every_argument_of_another_type_is_refused_by_name(function, name, dtype):
    call, given = TAKE[function]
    bad = np.zeros(given[name].shape).astype(np.int64).astype(dtype)
    with pytest.raises(TypeError) as error:
        call(**given | {name: bad})
    assert str(error.value).startswith(f"{name} has the type {bad.dtype}; allowed: float32, ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("bad", [None, [1, 2], [[True]], "text", np.ma.ones((3, 4)), {}])
@pytest.mark.parametrize(("function", "name"), EACH)
def test_what_is_no_array_of_floats_is_refused_by_name(function, name, bad):
    call, given = TAKE[function]
    if function == "gradients":
        call, given = lambda **x: as_floats(**x), {name: None}
    with pytest.raises(TypeError, match=rf"^{name} (has the type|is a masked array)"):
        call(**given | {name: bad})


@pytest.mark.parametrize("half", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("function", TAKE)
def test_half_precision_is_computed_in_float32(function, half):
    call, given = TAKE[function]
    short = {name: array.astype(half) for name, array in given.items()}
    expected = call(**{name: array.astype(np.float32) for name, array in short.items()})
    for one, other in zip(leaves(call(**short)), leaves(expected), strict=True):
        assert one.dtype == other.dtype != half
        assert_array_equal(one, other)


def leaves(found):
    """Yield the arrays in a result of any structure."""
    if isinstance(found, np.ndarray | np.generic):
        return [np.asarray(found)]
    parts = found.values() if isinstance(found, dict) else found
    parts = vars(found).values() if hasattr(found, "norms") else parts
    return [leaf for part in parts for leaf in leaves(part)]


@pytest.mark.parametrize("function", TAKE)
def test_the_order_of_bytes_and_of_axes_in_memory_does_not_matter(function):
    call, given = TAKE[function]
    drawn = {name: normal(*array.shape, seed=5) for name, array in given.items()}
    # Norms are not negative.
    drawn |= {name: np.abs(array) for name, array in drawn.items() if name == "norms"}
    expected = leaves(call(**drawn))
    for other in (
        {name: array.astype(">f8") for name, array in drawn.items()},
        {name: np.asfortranarray(array) for name, array in drawn.items()},
        {name: array.tolist() for name, array in drawn.items()}
        if function != "gradients"
        else drawn,
    ):
        for one, array in zip(leaves(call(**other)), expected, strict=True):
            # BLAS takes another path through a transposed array: sums of 13 terms at most.
            assert_allclose(one, array, rtol=1e-12, atol=1e-13)


def test_arrays_are_not_written_to_and_those_of_one_type_are_not_copied():
    given = arrays()
    for array in given.values():
        array.flags.writeable = False
    assert as_floats(**given)[0] is given["q"]
    measure(**given, mask=random_mask(N_Q, N_K))
    of_gradients(**given)


@pytest.mark.parametrize("n", [3, 300, 2049, 70_000])
@pytest.mark.parametrize("half", [np.float16, ml_dtypes.bfloat16, np.float32])
def test_sums_over_keys_are_right_for_any_number_of_them(n, half):
    found = metrics.row_metrics(np.zeros((1, n), half))
    # Three roundings of float32, and one of a logarithm.
    assert found.sum_sq_weights[0] == pytest.approx(1 / n, rel=1e-6)
    assert found.entropy_normalized[0] == pytest.approx(1.0, rel=1e-6)
    assert metrics.logit_std(np.resize(np.array([-1, 1], half), (1, 2 * n))) == pytest.approx(
        (2 * n / (2 * n - 1)) ** 0.5, rel=1e-6
    )


def test_longdouble_keeps_its_digits_in_definitions_and_kernel():
    eps = float(np.finfo(np.longdouble).eps)
    row = np.array([[-1.0, 0.125, 0.25, -3.5, 0.0, -0.75]], np.longdouble)
    by_kernel = measure(row, np.eye(6, dtype=row.dtype), row.T, row[:, :1]).rows
    for name, exact in exact_row_metrics(row[0]).items():
        for found in (getattr(metrics.row_metrics(row), name)[0], getattr(by_kernel, name)[0, 0]):
            assert found.dtype == np.longdouble
            with mpmath.workdps(40):
                # The sum of a number's float64 and its rest is the number.
                value = mpmath.mpf(float(found)) + mpmath.mpf(float(found - float(found)))
                # About 20 roundings.
                assert abs(value - exact) <= 20 * eps * exact, name


def test_types_are_mixed_to_the_widest():
    given = arrays()
    found = measure(**given | {"k": given["k"].astype(np.float16)})
    assert found.norms["q"].dtype == np.float64
    half = {name: array.astype(np.float16) for name, array in given.items()}
    assert (
        measure(**half | {"v": half["v"].astype(ml_dtypes.bfloat16)}).logit_std.dtype == "float32"
    )


# Shapes

WRONG = {
    "d_k of k": ({"k": (N_K, D_K + 1)}, r"q \(5, 11\) and k \(7, 12\) differ in d_k: 11 and 12"),
    "d_k of q": ({"q": (N_Q, 1)}, r"q \(5, 1\) and k \(7, 11\) differ in d_k: 1 and 11"),
    "n_k of v": ({"v": (1, D_V)}, r"k \(7, 11\) and v \(1, 13\) differ in n_k: 7 and 1"),
    "n_k of k": ({"k": (0, D_K)}, r"k \(0, 11\) and v \(7, 13\) differ in n_k: 0 and 7"),
    "rank of q": ({"q": (D_K,)}, r"q \(11,\) must have the axes \[\.\.\., n_q, d_k\]"),
    "rank of k": ({"k": (D_K,)}, r"k \(11,\) must have the axes \[\.\.\., n_k, d_k\]"),
    "rank of v": ({"v": ()}, r"v \(\) must have the axes \[\.\.\., n_k, d_v\]"),
    "batch of k": (
        {"q": (2, N_Q, D_K), "k": (3, N_K, D_K)},
        r"q \(2, 5, 11\) and k \(3, 7, 11\) differ in the axes before the last ones: \(2,\) and "
        r"\(3,\), which do not broadcast",
    ),
    "batch of v": (
        {"q": (2, N_Q, D_K), "v": (3, N_K, D_V)},
        r"q \(2, 5, 11\) and v \(3, 7, 13\) differ in the axes before the last ones",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_shapes_that_do_not_fit_are_refused_with_both(wrong):
    shapes, said = WRONG[wrong]
    given = {name: array for name, array in arrays().items() if name != "g"}
    given |= {name: np.ones(shape) for name, shape in shapes.items()}
    with pytest.raises(ValueError, match=f"^{said}"):
        attention(**given, scale=0.3)
    if "v" not in shapes and "n_k" not in wrong:
        with pytest.raises(ValueError, match=f"^{said}"):
            core_attention.scores(given["q"], given["k"])


IN_BATCH = {
    "q": {"q": (3, N_Q, D_K)},
    "cells of k": {"k": (1, N_K, D_K)},
    "d_k": {"k": (2, N_K, 12)},
    "n_k": {"v": (2, 8, D_V)},
    "n_q of g": {"g": (2, N_Q + 1, D_V)},
    "fewer of g": {"g": (2, 1, D_V)},
    "d_v of g": {"g": (2, N_Q, 1)},
    "rank of q": {"q": (N_Q, D_K)},
    "rank of g": {"g": (1, 2, N_Q, D_V)},
}


@pytest.mark.parametrize("wrong", IN_BATCH)
@pytest.mark.parametrize("gram", [True, False])
def test_the_kernel_refuses_shapes_that_do_not_fit_with_both(wrong, gram):
    given = {name: np.stack([array] * 2) for name, array in arrays().items()}
    given |= {name: np.ones(shape) for name, shape in IN_BATCH[wrong].items()}
    ((name, shape),) = IN_BATCH[wrong].items()
    with pytest.raises(ValueError, match=r"differ in|must have the axes \[cells, ") as error:
        Kernel(gram=gram).measure(**given, rules=[0.3])
    assert f"{name} {shape}" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("stage", ["scores", "logits", "weights", "output"])
def test_a_forward_pass_of_other_arrays_is_refused(stage):
    given = arrays()
    forward = attention(given["q"], given["k"], given["v"], scale=0.3)
    other = forward._replace(**{stage: np.ones((N_Q, 1))})
    g = np.ones((N_Q, 1)) if stage == "output" else given["g"]
    with pytest.raises(ValueError, match=rf"forward.{stage} \(5, 1\) is not of q \(5, 11\), k"):
        gradients(given["q"], given["k"], given["v"], g, other, scale=0.3)


def test_projections_of_other_shapes_are_refused():
    with pytest.raises(ValueError, match=r"x \(5, 11\) and w \(12, 3\) differ in d_model"):
        core_attention.project(x, np.ones((12, 3)))
    with pytest.raises(ValueError, match=r"x \(5, 11\) and d_projected \(6, 13\) differ in n:"):
        core_gradients.projection_gradients(x, w, np.ones((6, D_V)))
    with pytest.raises(ValueError, match=r"w \(11, 13\) and d_projected \(5, 1\) differ in d_k:"):
        core_gradients.projection_gradients(x, w, np.ones((N_Q, 1)))


def test_metrics_of_too_few_axes_are_refused():
    for function in (
        metrics.row_metrics,
        metrics.row_norms,
        metrics.summarize_norms,
        core_attention.softmax,
    ):
        with pytest.raises(ValueError, match=r"\(\) must have the axes \[\.\.\., "):
            function(np.float64(1.0))
    for function in (metrics.logit_std, lambda x: metrics.dead_entries(x, below=1.0)):
        with pytest.raises(ValueError, match=r"\(3,\) must have the axes \[\.\.\., n_q, n_k\]"):
            function(np.ones(3))


BAD_MASKS = {
    "another n_k": (np.ones((N_Q, N_K + 1), bool), ValueError, r"mask \(5, 8\) does not broadcast"),
    "another n_q": (np.ones((N_Q + 1, N_K), bool), ValueError, r"mask \(6, 7\) does not broadcast"),
    "transposed": (np.ones((N_K, N_Q), bool), ValueError, r"mask \(7, 5\) does not broadcast"),
    "of a batch": (np.ones((9, 9, N_Q, N_K), bool), ValueError, r"mask \(9, 9, 5, 7\) does not"),
    "empty": (np.ones((0, N_K), bool), ValueError, r"mask \(0, 7\) does not broadcast"),
    "additive": (np.zeros((N_Q, N_K)), TypeError, "a mask must be boolean.*not float64"),
    "integers": (np.ones((N_Q, N_K), int), TypeError, "a mask must be boolean.*not int64"),
    "objects": (np.ones((N_Q, N_K), object), TypeError, "a mask must be boolean.*not object"),
    "a word": ("causal", TypeError, "a mask must be boolean"),
}


@pytest.mark.parametrize("kind", BAD_MASKS)
def test_what_is_no_mask_is_refused_everywhere(kind):
    mask, error, said = BAD_MASKS[kind]
    given = arrays()
    qkv = [given[name] for name in "qkv"]
    for call in (
        lambda: attention(*qkv, scale=0.3, mask=mask),
        lambda: measure(**given, mask=mask),
        lambda: core_attention.softmax(logits, mask),
        lambda: core_attention.mask_logits(logits, mask),
        lambda: metrics.row_metrics(logits, mask),
        lambda: metrics.logit_std(logits, mask),
        lambda: metrics.dead_entries(logits, mask, below=1.0),
        lambda: core_gradients.softmax_backward(logits, logits, mask),
    ):
        with pytest.raises(error, match=said) as caught:
            call()
        assert "\n" not in str(caught.value)
    if error is TypeError:
        with pytest.raises(error, match=said):
            core_attention.count_fully_masked_rows(mask)


def test_a_mask_may_be_a_list_and_broadcasts():
    given = [arrays()[name] for name in "qkv"]
    row = [True] * 3 + [False] * 4
    expected = attention(*given, scale=0.3, mask=np.tile(row, (N_Q, 1))).output
    assert_array_equal(attention(*given, scale=0.3, mask=row).output, expected)
    assert_array_equal(attention(*given, scale=0.3, mask=np.array(True)).output,
                       attention(*given, scale=0.3).output)  # fmt: skip


# Scales

NO_SCALE = [None, True, "0.5", "sqrt", [0.5], np.ones(1), 0.5j, float, QKNorm, {}, np.array(None)]


@pytest.mark.parametrize("scale", NO_SCALE, ids=repr)
def test_a_scale_that_is_no_number_is_refused_in_one_line(scale):
    given = arrays()
    qkv = [given[name] for name in "qkv"]
    forward = attention(*qkv, scale=0.3)
    for call in (
        lambda: attention(*qkv, scale=scale),
        lambda: gradients(*qkv, given["g"], forward, scale=scale),
        lambda: measure(**given, scale=scale),
        lambda: Factor(scale),
    ):
        with pytest.raises(TypeError, match=r"^scale is .*; allowed: a finite number.*ScaleRule$"):
            call()
    for make in (QKNorm, lambda scale: SoftCap(scale, 1.0), lambda scale: SoftCap(1.0, scale)):
        with pytest.raises(TypeError, match=r"; allowed: finite numbers$"):
            make(scale)


@pytest.mark.parametrize("scale", [np.nan, np.inf, -np.inf, np.float32("inf")])
def test_a_scale_that_is_not_finite_is_refused(scale):
    given = arrays()
    with pytest.raises(ValueError, match=r"^scale is (nan|-?inf); allowed: a finite number"):
        attention(given["q"], given["k"], given["v"], scale=scale)
    with pytest.raises(ValueError, match=r"^scale is (nan|-?inf); allowed: a finite number"):
        measure(**given, scale=scale)
    with pytest.raises(ValueError, match=r"^dead_below is (nan|-?inf); allowed: finite numbers "):
        measure(**given, dead_below=scale)


@pytest.mark.parametrize("scale", [np.float32(0.5), np.float64(0.5), np.array(0.5), np.float16(0.5),
                                   ml_dtypes.bfloat16(0.5), Factor(np.float64(0.5))])  # fmt: skip
def test_a_number_of_any_type_scales_and_leaves_the_arrays_their_type(scale):
    given = arrays(np.float32)
    qkv = [given[name] for name in "qkv"]
    found = attention(*qkv, scale=scale)
    assert found.logits.dtype == np.float32
    assert_array_equal(found.output, attention(*qkv, scale=0.5).output)
    assert_array_equal(
        measure(**given, scale=scale).logit_std, measure(**given, scale=0.5).logit_std
    )


@pytest.mark.parametrize("scale", [0, 1, -1, 0.0])
def test_zero_and_negative_scales_are_what_they_say(scale):
    given = arrays()
    found = attention(given["q"], given["k"], given["v"], scale=scale)
    assert_array_equal(found.logits, found.scores * float(scale))


@pytest.mark.parametrize("rule", ["power", "log_length", "d_model", "integer_sqrt"])
@pytest.mark.parametrize(("d_k", "n_k", "said"), [(0, 4, "d_k is 0"), (4, 0, "n_k is 0"),
                                                  (-4, 4, "d_k is -4")])  # fmt: skip
def test_rules_of_sizes_that_are_no_sizes_are_refused(rule, d_k, n_k, said):
    parameters = {
        "power": {"exponent": 0.5},
        "log_length": {"log_exponent": 1},
        "d_model": {"heads": 2},
    }
    with pytest.raises(ValueError, match=f"^{said}; allowed: (finite|whole) numbers from 1"):
        scale_rules.rule({"rule": rule, **parameters.get(rule, {})}, d_k=d_k, n_k=n_k)


def test_a_causal_mask_of_negative_length_is_refused():
    with pytest.raises(ValueError, match="n_k is -1; allowed: whole numbers from 0"):
        core_attention.causal_mask(3, -1)
    assert core_attention.causal_mask(0, 3).shape == (0, 3)


# Empty axes

EMPTY = {
    "n_q": (0, 7, 11, 13),
    "n_k": (5, 0, 11, 13),
    "d_k": (5, 7, 0, 13),
    "d_v": (5, 7, 11, 0),
    "n_q and n_k": (0, 0, 11, 13),
    "all": (0, 0, 0, 0),
}


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize("axis", EMPTY)
@pytest.mark.parametrize("cells", [2, 0])
def test_empty_axes_have_one_answer_from_definitions_and_kernel(axis, rule, masked, cells):
    n_q, n_k, d_k, d_v = EMPTY[axis]
    q, k = normal(cells, n_q, d_k, seed=1), normal(cells, n_k, d_k, seed=2)
    v, g = normal(cells, n_k, d_v, seed=3), normal(cells, n_q, d_v, seed=4)
    mask = np.ones((n_q, n_k), bool) if masked else None
    forward = attention(q, k, v, scale=rule, mask=mask)
    d = gradients(q, k, v, g, forward, scale=rule)
    assert forward.output.shape == (cells, n_q, d_v)
    assert [x.shape for x in (d.q, d.k, d.v)] == [x.shape for x in (q, k, v)]
    if n_k == 0:
        assert_array_equal(forward.output, np.zeros((cells, n_q, d_v)))
    if 0 in (n_q, n_k, d_v):
        for gradient in d:
            assert_array_equal(gradient, np.zeros(gradient.shape))
    if axis == "d_k" and not masked:
        assert_array_equal(forward.weights, np.full((cells, n_q, n_k), 1 / n_k))
    expected = {
        **metrics.row_metrics(forward.logits)._asdict(),
        "logit_std": metrics.logit_std(forward.logits),
        "dead_entries": metrics.dead_entries(d.logits, mask, below=0.1),
    }
    (found,) = Kernel().measure(q, k, v, g, [rule], mask=mask, dead_below=0.1)
    values = {**found.rows._asdict(), "logit_std": found.logit_std,
              "dead_entries": found.dead_entries}  # fmt: skip
    for name, array in expected.items():
        # Sums of 7 numbers in another order.
        assert_allclose(values[name], array, rtol=1e-13, atol=1e-14, err_msg=name)
        assert values[name].shape == array.shape
    for name, norms in found.norms.items():
        assert_allclose(norms, metrics.row_norms(getattr(d, name)), rtol=1e-12, atol=1e-14)
    means = [rule.mean_factor(one, other, mask) for one, other in zip(q, k, strict=True)]
    assert_allclose(found.scale, means, rtol=1e-14)


@pytest.mark.parametrize("shape", [(3, 0), (0, 4), (0, 0), (2, 0, 4)])
def test_metrics_of_nothing_are_undefined(shape):
    nothing = np.zeros(shape)
    assert np.isnan(metrics.logit_std(nothing)).all()
    assert np.isnan(metrics.dead_entries(nothing, below=1.0)).all()
    for values in metrics.row_metrics(nothing):
        assert_array_equal(values, np.full(shape[:-1], np.nan))
    assert_array_equal(metrics.row_norms(np.zeros((3, 0))), np.zeros(3))
    for value in metrics.summarize_norms(np.zeros((2, 0))):
        assert_array_equal(value, [np.nan, np.nan])


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_rows_that_are_masked_throughout_have_no_gradient_and_give_none(rule):
    given = arrays()
    mask = np.zeros((N_Q, N_K), bool)
    forward = attention(given["q"], given["k"], given["v"], scale=rule, mask=mask)
    d = gradients(given["q"], given["k"], given["v"], given["g"], forward, scale=rule)
    found = measure(**given, scale=rule, mask=mask, dead_below=1.0)
    for array in (forward.weights, forward.output, *d, *found.norms.values()):
        assert_array_equal(array, np.zeros(array.shape))
    for array in (*found.rows, found.logit_std, found.dead_entries):
        assert np.isnan(array).all()
    mean = rule.mean_factor(given["q"], given["k"], mask)
    assert_array_equal(found.scale, [mean])


def test_batches_of_empty_cells_are_one_cell_each():
    from sqrtdk.core import kernel_sizes

    assert kernel_sizes.batch_size(0, 0, 0, 0) >= 1
    assert kernel_sizes.block_rows(0, 0, 0, whole=True) == 0


# Numbers that are not finite


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("n_k", [1, 2, 7, 300])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_visible_logit_that_is_not_finite_makes_its_row_undefined(value, n_k, masked, dtype):
    logits = normal(3, n_k, dtype=dtype)
    logits[1, n_k // 2] = value
    mask = np.ones((3, n_k), bool) if masked else None
    row = np.arange(3) == 1
    assert_array_equal(np.isnan(core_attention.softmax(logits, mask)).all(axis=-1), row)
    assert_array_equal(np.isnan(core_attention.softmax(logits, mask)).any(axis=-1), row)
    # With the identity for keys, queries are logits; but infinity times 0 is not a number, so the
    # logits that are infinite come from one dimension.
    identity = np.eye(n_k, dtype=dtype)
    v, g = normal(n_k, 2, dtype=dtype), normal(3, 2, dtype=dtype)
    q, k = (
        (logits, identity) if np.isnan(value) else (np.array([[1], [value], [2]], dtype), v[:, :1])
    )
    found = measure(q, k, v, g, mask=mask, dead_below=0.1)
    for by, values in (("definition", metrics.row_metrics(logits, mask)), ("kernel", found.rows)):
        for name, array in values._asdict().items():
            undefined = row | (n_k == 1) if name == "entropy_normalized" else row
            assert_array_equal(np.isnan(array).reshape(-1), undefined, err_msg=f"{by} {name}")
    if n_k > 1:
        assert np.isnan(metrics.logit_std(logits, mask))
        assert np.isnan(found.logit_std[0])
    assert np.isnan(found.dead_entries[0])


def test_minus_infinity_hides_a_key_from_the_kernel_as_from_the_definitions():
    # In one dimension: -inf times 1 is a logit of -inf.
    q, k = np.array([[1.0], [2.0]]), np.array([[0.5], [-np.inf], [0.25]])
    v, g = normal(3, 2), normal(2, 2)
    hidden = measure(q, k, v, g, dead_below=0.1)
    absent = measure(q, k[[0, 2]], v[[0, 2]], g, dead_below=0.1)
    for one, other in zip(hidden.rows, absent.rows, strict=True):
        # The same sums of two terms.
        assert_allclose(one, other, rtol=1e-14)
    for x in ("logits", "scores", "q"):
        assert_allclose(hidden.norms[x], absent.norms[x], rtol=1e-14)
    assert hidden.norms["k"][0, 1] == hidden.norms["v"][0, 1] == 0
    assert_allclose(hidden.logit_std, absent.logit_std, rtol=1e-14)
    assert hidden.dead_entries == absent.dead_entries


def test_logits_from_the_lowest_to_the_largest_number_have_weights():
    largest = np.finfo(np.float64).max
    found = metrics.row_metrics(np.array([[-largest, largest, 0.0]]))
    assert_array_equal(np.concatenate(found), [0, 0, 1, 1, 1, 0, 0])
    assert_array_equal(core_attention.softmax(np.array([[-largest, largest, 0.0]])), [[0, 1, 0]])
    far = measure(np.array([[1.0]]), np.array([[-largest], [largest]]), np.eye(2), np.ones((1, 2)))
    assert (far.rows.max_weight, far.rows.entropy_nats) == (1, 0)
    # The deviation of two numbers is their distance over √2: here it is beyond all numbers.
    assert far.logit_std == metrics.logit_std(np.array([[-largest, largest]])) == np.inf


@pytest.mark.parametrize("size", [1e-310, 1e-200, 1.0, 1e200, 1e307])
def test_the_logit_std_is_right_at_any_magnitude_by_both_ways(size):
    logits = size * np.array([[1.0, 3.0, -1.0], [2.0, 2.0, 5.0]])
    expected = size * np.sqrt((4.0 + 3.0) / 2)
    # Rounding of the logits themselves, which near 1e-310 are multiples of 5e-324.
    near = {"rel": 1e-13, "abs": 1e-323}
    assert metrics.logit_std(logits) == pytest.approx(expected, **near)
    by_kernel = measure(logits, np.eye(3), np.ones((3, 1)), np.ones((2, 1)))
    assert by_kernel.logit_std == pytest.approx(expected, **near)
    # A row that sees one key alone, or the same logit at all, takes no digits from the others.
    both = np.concatenate([logits, np.full((2, 3), 1e300)])
    mask = np.array([[True] * 3] * 3 + [[True, False, False]])
    assert metrics.logit_std(both, mask) == pytest.approx(expected * (2 / 3) ** 0.5, **near)
    by_kernel = measure(both, np.eye(3), np.ones((3, 1)), np.ones((4, 1)), mask=mask)
    assert by_kernel.logit_std == pytest.approx(expected * (2 / 3) ** 0.5, **near)


def test_norms_that_are_not_finite_leave_the_others_their_quantiles():
    norms = np.array([[1.0, 2.0, 3.0, 4.0, np.inf], [1.0, 2.0, 3.0, 4.0, np.nan]])
    found = metrics.summarize_norms(norms, dead_below=1.5)
    assert_array_equal(found.median, [3.0, np.nan])
    assert_array_equal(found.q95, [np.inf, np.nan])
    assert_array_equal(found.rms, [np.inf, np.nan])
    assert_array_equal(found.dead_rows, [0.2, np.nan])
    assert_array_equal(found.top1_share, [np.nan, np.nan])
    only = metrics.summarize_norms(np.full(3, np.inf))
    assert (only.q05, only.median, only.q95) == (np.inf, np.inf, np.inf)


def test_a_gradient_that_is_nan_is_neither_dead_nor_alive():
    assert np.isnan(metrics.dead_entries(np.array([[0.0, np.nan]]), below=1.0))
    hidden = np.array([[True, False]])
    assert metrics.dead_entries(np.array([[0.0, np.nan]]), hidden, below=1.0) == 1.0


def test_nothing_of_the_library_warns_whatever_is_visible():
    q, k, v, g = (np.broadcast_to(a, (BATCH, HEADS, *a.shape)).copy() for a in arrays().values())
    q[0, 0, 0], k[0, 1, 2], v[0, 2, 3], g[1, 0, 1] = 1e300, np.inf, -np.inf, np.nan
    k[0, 0, 0], v[1, 1, 1] = 1e300, 1e300
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rule in RULES:
            forward = attention(q, k, v, scale=rule)
            d = gradients(q, k, v, g, forward, scale=rule)
            metrics.logit_std(forward.logits)
            for array in d:
                metrics.summarize_norms(metrics.row_norms(array))
            flat = (x.reshape(-1, *x.shape[-2:]) for x in (q, k, v, g))
            Kernel().measure(*flat, [rule], dead_below=0.1)
