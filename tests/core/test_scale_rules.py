"""Scale rules: independent formulas, finite differences, and properties for all inputs."""

import math

import mpmath
import numpy as np
import pytest
import yaml
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from oracles import (
    BATCH,
    D_K,
    D_V,
    EPS,
    HEADS,
    N_K,
    N_Q,
    assert_is_gradient,
    mask_with_a_blind_query,
    normal,
    property_test,
    random_mask,
)

from sqrtdk.core import scale_rules
from sqrtdk.core.attention import (
    AttentionResult,
    Factor,
    ScaleRule,
    as_rule,
    attention,
    causal_mask,
    scores,
    softmax,
)
from sqrtdk.core.gradients import gradients
from sqrtdk.core.qk_clip import QKClip

NAMED = yaml.safe_load((ROOT / "conf/config.yaml").read_text(encoding="utf-8"))["scale_rules"]

FACTORS = {
    "off": lambda d, n: 1.0,
    "on": lambda d, n: 1 / math.sqrt(d),
    "inverse": lambda d, n: 1 / d,
    # Equal to "on" at d = 64.
    "inverse_64": lambda d, n: 8 / d,
    "quarter": lambda d, n: 1 / math.sqrt(math.sqrt(d)),
    "log_n": lambda d, n: math.log(n) / math.sqrt(d),
    "sqrt_log_n": lambda d, n: math.sqrt(math.log(n) / d),
    "square_log_n": lambda d, n: math.log(n) * math.log(n) / math.sqrt(d),
    # The s that Nakanishi 2025 reports.
    "ssmax": lambda d, n: 0.43 * math.log(n) / math.sqrt(d),
    # Both q and k times 0.1 ln s + 1, s = n / 16, where s is above 1.
    "yarn": lambda d, n: (
        (1 / math.sqrt(d)) * (1 + 0.1 * math.log(n / 16)) ** 2 if n > 16 else 1 / math.sqrt(d)
    ),
    # Without a length of training.
    "gap": lambda d, n: 1 / math.sqrt(d),
    "d_model": lambda d, n: 1 / math.sqrt(8 * d),
    "twice": lambda d, n: 1 / math.sqrt(d) / math.sqrt(d),
    # Without a file that states a scale.
    "model": lambda d, n: 1 / math.sqrt(d),
    "integer_sqrt": lambda d, n: 1 / max(root for root in range(1, 99) if root * root <= d),
}
"""The named entries that are a factor of the sizes, implemented independently."""

# The cap and the scales are such that the nonlinear part matters: with scores of sd √11 it bends
# logits of 2, not of 50.
RULES = {
    "power": {"rule": "power", "exponent": 0.25, "multiplier": 0.7},
    "log_length": {"rule": "log_length", "log_exponent": 0.5, "exponent": 0.25, "multiplier": 0.43},
    "qk_norm": {"rule": "qk_norm", "scale": 3},
    "soft_cap": {"rule": "soft_cap", "cap": 2, "exponent": 0.25},
    "key_norm_sum": {"rule": "key_norm_sum"},
    "ngpt": {"rule": "ngpt", "s_qk": 0.8},
    # Half of the logits of these draws are above 1, so that every head is clipped.
    "qk_clip": {"rule": "qk_clip", "limit": 0.5, "exponent": 0.25},
}
each_rule = pytest.mark.parametrize("entry", RULES.values(), ids=RULES.keys())

MASKS = {
    "no mask": lambda *shape: None,
    "boolean": random_mask,
    "blind query": mask_with_a_blind_query,
    "causal": lambda *shape: causal_mask(*shape[-2:]),
}
each_mask = pytest.mark.parametrize("make_mask", MASKS.values(), ids=MASKS.keys())


class Frozen(Factor):
    """A factor of each head, [..., 1, 1]."""

    def __init__(self, value: np.ndarray) -> None:
        object.__setattr__(self, "value", value)


def as_differentiated(rule: ScaleRule, forward: AttentionResult) -> ScaleRule:
    """QK-clip's factor of each head stands still, as it does between two optimizer steps."""
    if not isinstance(rule, QKClip):
        return rule
    ratio = (forward.logits / forward.scores).reshape(*forward.scores.shape[:-2], 1, -1)
    visible = np.where(np.isfinite(ratio), ratio, np.nan)
    return Frozen(np.nanmedian(visible, axis=-1, keepdims=True))


def made(entry: dict[str, object], n_k: int = N_K) -> ScaleRule:
    return scale_rules.rule(entry, d_k=D_K, n_k=n_k)


def one_logit(
    entry: dict[str, object], q: np.ndarray, k: np.ndarray, i: int, j: int, mask: np.ndarray
) -> float:
    """The formulas written again, pair by pair: q [n_q, d_k], k [n_k, d_k]."""
    score = float(np.dot(q[i], k[j]))
    match entry["rule"]:
        case "power":
            return float(entry["multiplier"]) * score / len(q[i]) ** float(entry["exponent"])
        case "log_length":
            length = math.log(len(k)) ** float(entry["log_exponent"])
            return (
                float(entry["multiplier"]) * length * score / len(q[i]) ** float(entry["exponent"])
            )
        case "qk_norm":
            return entry["scale"] * score / (np.linalg.norm(q[i]) * np.linalg.norm(k[j]))
        case "ngpt":
            unit = score / (np.linalg.norm(q[i]) * np.linalg.norm(k[j]))
            return unit * math.sqrt(len(q[i])) * float(entry["s_qk"]) * float(entry["s_qk"])
        case "qk_clip":
            scale = len(q[i]) ** -float(entry["exponent"])
            pairs = zip(*np.nonzero(mask), strict=True)
            largest = max(scale * float(np.dot(q[a], k[b])) for a, b in pairs)
            return scale * score * min(1.0, entry["limit"] / largest)
        case "soft_cap":
            cap = entry["cap"]
            return cap * math.tanh(score / len(q[i]) ** float(entry["exponent"]) / cap)
        case "key_norm_sum":
            seen = [np.linalg.norm(key) for key, visible in zip(k, mask[i], strict=True) if visible]
            return score / math.fsum(seen)
    raise AssertionError(entry)


@pytest.mark.parametrize("name", FACTORS)
@pytest.mark.parametrize("d_k", [1, 2, 11, 16, 63, 64, 4096])
@pytest.mark.parametrize("n_k", [2, 64])
def test_a_named_factor_is_this_function_of_d_k_and_n_k(name, d_k, n_k):
    factor = scale_rules.factor(NAMED[name], d_k=d_k, n_k=n_k)
    # A handful of correctly rounded operations on either side.
    assert factor == pytest.approx(FACTORS[name](d_k, n_k), rel=8 * EPS[np.float64])


def test_every_named_rule_is_a_known_factor_or_looks_at_the_arrays():
    found = {name: scale_rules.factor(entry, d_k=64, n_k=64) for name, entry in NAMED.items()}
    assert {name for name, factor in found.items() if factor is None} == {
        "qk_norm",
        "soft_cap",
        "key_norm_sum",
        "ngpt",
        "qk_clip",
        "softmax1",
    }
    assert {name for name, factor in found.items() if factor is not None} == set(FACTORS)


def test_scaled_twice_is_the_factor_of_inverse_to_the_bit():
    for d_k in (1, 7, 64, 1000):
        inverse = scale_rules.factor(NAMED["inverse"], d_k=d_k, n_k=3)
        assert scale_rules.factor(NAMED["twice"], d_k=d_k, n_k=3) == inverse


def test_the_scale_is_exact_where_it_can_be():
    for exponent in range(1, 7):
        for name in ("on", "integer_sqrt"):
            assert scale_rules.factor(NAMED[name], d_k=4**exponent, n_k=3) == 2.0**-exponent


@property_test
@given(d_k=st.floats(1, 1e9))
def test_the_integer_square_root_is_the_largest_whole_number_whose_square_fits(d_k):
    root = round(1 / scale_rules.integer_sqrt(d_k, 3))
    assert root**2 <= d_k < (root + 1) ** 2


def test_without_a_cap_soft_cap_is_its_plain_factor():
    entry = {"rule": "soft_cap", "cap": None, "exponent": 0.25}
    assert scale_rules.factor(entry, d_k=16, n_k=3) == 0.5
    assert scale_rules.rule(entry, d_k=16, n_k=3) == Factor(0.5)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        *(
            ({"rule": "constant", "value": value}, f"value is {value}; allowed: finite")
            for value in (0, -1, math.nan, math.inf)
        ),
        ({"rule": "power", "exponent": math.inf}, "exponent is inf; allowed: finite numbers"),
        ({"rule": "log_length", "log_exponent": math.nan}, "log_exponent is nan; allowed: finite"),
        ({"rule": "log_length", "log_exponent": 1, "multiplier": 0}, "multiplier is 0; allowed: f"),
        ({"rule": "power", "exponent": 1, "multiplier": -8}, "multiplier is -8; allowed: f"),
        ({"rule": "d_model", "heads": 0}, "heads is 0; allowed: whole numbers from 1"),
        ({"rule": "d_model", "heads": 2.5}, "heads is 2.5; allowed: whole numbers from 1"),
        ({"rule": "qk_norm", "scale": 0}, "scale is 0; allowed: finite numbers above 0"),
        ({"rule": "soft_cap", "cap": 0}, "cap is 0; allowed: finite numbers above 0"),
        ({"rule": "soft_cap", "cap": -50}, "cap is -50; allowed: finite numbers above 0"),
        ({"rule": "yarn", "trained": 0}, "trained is 0; allowed: finite numbers above 0"),
        ({"rule": "ngpt", "s_qk": -1}, "s_qk is -1; allowed: finite numbers above 0"),
        ({"rule": "qk_clip", "limit": 0}, "limit is 0; allowed: finite numbers above 0"),
        ({"rule": "sink", "logit": math.inf}, "logit is inf; allowed"),
    ],
)
def test_a_parameter_out_of_range_is_refused(entry, said):
    with pytest.raises(ValueError, match=said):
        scale_rules.factor(entry, d_k=4, n_k=4)


def test_the_logarithm_of_the_length_needs_two_keys():
    with pytest.raises(ValueError, match="n_k is 1; allowed: from 2, because ln 1 is 0"):
        scale_rules.factor(NAMED["log_n"], d_k=4, n_k=1)


@each_rule
@each_mask
def test_logits_are_the_formula_written_again_for_each_pair(entry, make_mask):
    q, k, v = normal(N_Q, D_K), normal(N_K, D_K), normal(N_K, D_V)
    mask = make_mask(N_Q, N_K)
    found = attention(q, k, v, scale=made(entry), mask=mask).logits
    seen = np.ones((N_Q, N_K), dtype=bool) if mask is None else mask
    for i, j in np.ndindex(N_Q, N_K):
        expected = one_logit(entry, q, k, i, j, seen) if seen[i, j] else -math.inf
        # Two orders of summing 11 products below 10 and 7 norms below 6.
        assert found[i, j] == pytest.approx(expected, rel=0, abs=D_K * 10 * EPS[np.float64])


@each_rule
@each_mask
@pytest.mark.parametrize("wrt", ["scores", "q", "k", "v"])
def test_each_gradient_agrees_with_finite_differences(entry, make_mask, wrt):
    values = {
        "q": normal(BATCH, HEADS, N_Q, D_K),
        "k": normal(BATCH, HEADS, N_K, D_K),
        "v": normal(BATCH, HEADS, N_K, D_V),
    }
    d_output = normal(BATCH, HEADS, N_Q, D_V, seed=1)
    rule, mask = made(entry), make_mask(BATCH, HEADS, N_Q, N_K)
    forward = attention(**values, scale=rule, mask=mask)
    differentiated = as_differentiated(rule, forward)

    def loss(x):
        if wrt != "scores":
            moved = attention(**{**values, wrt: x}, scale=differentiated, mask=mask)
            return np.vdot(d_output, moved.output)
        # The scores move while q and k, and with them the norms, stand still.
        logits = differentiated.logits(x, values["q"], values["k"], mask)
        return np.vdot(d_output, softmax(logits, mask) @ values["v"])

    gradient = gradients(**values, d_output=d_output, forward=forward, scale=rule)
    assert_is_gradient(getattr(gradient, wrt), loss, {**values, "scores": forward.scores}[wrt])


@each_rule
@pytest.mark.parametrize("wrt", ["q", "k"])
@pytest.mark.parametrize("shared", [(1,), (BATCH, 1)], ids=["one for all", "one per batch"])
@pytest.mark.parametrize("shares", ["q", "k"])
def test_the_gradient_of_what_heads_share_is_summed_over_them(entry, wrt, shared, shares):
    batch = {"q": (BATCH, HEADS), "k": (BATCH, HEADS), shares: shared}
    values = {
        "q": normal(*batch["q"], N_Q, D_K),
        "k": normal(*batch["k"], N_K, D_K),
        "v": normal(BATCH, HEADS, N_K, D_V),
    }
    d_output = normal(BATCH, HEADS, N_Q, D_V, seed=1)
    rule = made(entry)
    forward = attention(**values, scale=rule)
    differentiated = as_differentiated(rule, forward)

    def loss(x):
        return np.vdot(d_output, attention(**{**values, wrt: x}, scale=differentiated).output)

    gradient = gradients(**values, d_output=d_output, forward=forward, scale=rule)
    assert_is_gradient(getattr(gradient, wrt), loss, values[wrt])


@each_rule
def test_a_mask_that_hides_nothing_changes_nothing(entry):
    q, k = normal(N_Q, D_K), normal(N_K, D_K)
    d_logits, qk = normal(N_Q, N_K, seed=1), scores(q, k)
    everything = np.ones((N_Q, N_K), dtype=bool)
    rule = made(entry)
    assert_array_equal(rule.logits(qk, q, k, everything), rule.logits(qk, q, k))
    with_mask = rule.backward(d_logits, qk, q, k, everything)
    for a, b in zip(with_mask, rule.backward(d_logits, qk, q, k), strict=True):
        # key_norm_sum adds the same 5 numbers in another order.
        if b is not None:
            assert_allclose(a, b, rtol=8 * EPS[np.float64], atol=8 * EPS[np.float64])


@each_rule
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logits_and_gradients_keep_the_dtype(entry, dtype):
    q, k = normal(N_Q, D_K, dtype=dtype), normal(N_K, D_K, dtype=dtype)
    v, d_output = normal(N_K, D_V, dtype=dtype), normal(N_Q, D_V, dtype=dtype)
    forward = attention(q, k, v, scale=made(entry), mask=random_mask(N_Q, N_K))
    backward = gradients(q, k, v, d_output, forward, scale=made(entry))
    assert {array.dtype for array in (*forward, *backward)} == {np.dtype(dtype)}


@each_rule
@each_mask
def test_the_mean_factor_is_the_mean_over_visible_pairs(entry, make_mask):
    q, k = normal(N_Q, D_K), normal(N_K, D_K)
    mask = make_mask(N_Q, N_K)
    seen = np.ones((N_Q, N_K), dtype=bool) if mask is None else mask
    pairs = [(i, j) for i, j in np.ndindex(N_Q, N_K) if seen[i, j]]
    # The factor is what logits grow by with the score: here from the pair's own small score.
    uncapped = entry | {"cap": 1e9} if entry["rule"] == "soft_cap" else entry
    each = [one_logit(uncapped, q, k, i, j, seen) / np.dot(q[i], k[j]) for i, j in pairs]
    # Quotients of numbers that carry about 10 roundings; the cap bends by (1e-8)² at most.
    assert made(entry).mean_factor(q, k, mask) == pytest.approx(np.mean(each), rel=1e-13)


@pytest.mark.parametrize("zero", ["q", "k", "both"])
@pytest.mark.parametrize("rule", ["qk_norm", "key_norm_sum"])
def test_a_zero_vector_has_logit_zero_and_no_gradient_through_its_norm(rule, zero):
    q, k, v, d_output = normal(N_Q, D_K), normal(N_K, D_K), normal(N_K, D_V), normal(N_Q, D_V)
    q[1] = 0.0 if zero != "k" else q[1]
    k[2] = 0.0 if zero != "q" else k[2]
    scale = made(RULES[rule])
    forward = attention(q, k, v, scale=scale)
    backward = gradients(q, k, v, d_output, forward, scale=scale)
    assert math.isfinite(scale.mean_factor(q, k))
    assert all(np.all(np.isfinite(array)) for array in (*forward, *backward))
    if zero != "k":
        assert_array_equal(forward.logits[1], 0.0)
    if zero != "q":
        assert_array_equal(forward.logits[:, 2], 0.0)
    if rule == "qk_norm" and zero == "both":
        assert_array_equal(backward.scores[1], 0.0)
        assert_array_equal(backward.q[1], 0.0)
        assert_array_equal(backward.k[2], 0.0)


def test_keys_that_are_all_zero_get_equal_weights():
    q, k, v = normal(N_Q, D_K), np.zeros((N_K, D_K)), normal(N_K, D_V)
    scale = made(RULES["key_norm_sum"])
    forward = attention(q, k, v, scale=scale)
    assert_array_equal(forward.weights, 1 / N_K)
    backward = gradients(q, k, v, normal(N_Q, D_V), forward, scale=scale)
    assert_array_equal(backward.k, 0.0)


vectors = st.integers(1, D_K).flatmap(
    lambda d: st.tuples(
        *(arrays(np.float64, (n, d), elements=st.integers(-40, 40)) for n in (N_Q, N_K))
    )
)


@property_test
@given(pair=vectors, exponents=st.lists(st.integers(-100, 100), min_size=12, max_size=12))
def test_qk_norm_does_not_see_the_length_of_any_vector(pair, exponents):
    # Powers of two, so that rescaling is exact: then no bit may change.
    q, k = pair
    stretch = np.exp2(np.array(exponents, dtype=float))[:, np.newaxis]
    longer = stretch[:N_Q] * q, stretch[N_Q:] * k
    rule = made(RULES["qk_norm"])
    assert_array_equal(rule.logits(scores(*longer), *longer), rule.logits(scores(q, k), q, k))


@property_test
@given(pair=vectors)
def test_qk_norm_logits_are_bounded_by_the_scale(pair):
    q, k = pair
    logits = made(RULES["qk_norm"]).logits(scores(q, k), q, k)
    # Cauchy-Schwarz up to the rounding of two norms and two quotients; the scores are exact.
    assert np.all(np.abs(logits) <= 3 * (1 + 8 * EPS[np.float64]))


def test_qk_norm_gradients_are_orthogonal_to_their_vectors():
    # Euler: logits do not change along q or k, whatever the loss.
    q, k, v, d_output = normal(N_Q, D_K), normal(N_K, D_K), normal(N_K, D_V), normal(N_Q, D_V)
    rule = made(RULES["qk_norm"])
    d = gradients(q, k, v, d_output, attention(q, k, v, scale=rule), scale=rule)
    # Sums of 11 products below 10.
    assert_allclose(np.vecdot(d.q, q), 0.0, atol=D_K * 10 * EPS[np.float64])
    assert_allclose(np.vecdot(d.k, k), 0.0, atol=D_K * 10 * EPS[np.float64])


@property_test
@given(pair=vectors, exponent=st.integers(-100, 100))
def test_key_norm_sum_does_not_see_a_common_length_of_the_keys(pair, exponent):
    q, k = pair
    longer = math.ldexp(1.0, exponent) * k
    rule = made(RULES["key_norm_sum"])
    assert_array_equal(rule.logits(scores(q, longer), q, longer), rule.logits(scores(q, k), q, k))


@property_test
@given(pair=vectors)
def test_key_norm_sum_logits_of_one_query_are_bounded_by_its_length_in_total(pair):
    # Σ|q·k_j| ≤ |q| Σ|k_j|, up to the rounding of about 20 operations.
    q, k = pair
    logits = made(RULES["key_norm_sum"]).logits(scores(q, k), q, k)
    total = np.sum(np.abs(logits), axis=-1)
    assert np.all(total <= np.linalg.norm(q, axis=-1) * (1 + 32 * EPS[np.float64]))


finite_scores = arrays(np.float64, (N_Q, N_K), elements=st.floats(-1e6, 1e6))


@property_test
@given(qk=finite_scores, cap=st.floats(1e-3, 1e3))
def test_soft_cap_keeps_logits_within_the_cap_and_their_order(qk, cap):
    rule = scale_rules.SoftCap(factor=0.25, cap=cap)
    logits = rule.logits(qk, qk, qk)
    assert np.all(np.abs(logits) <= cap)
    order = np.argsort(qk, axis=-1)
    assert np.all(np.diff(np.take_along_axis(logits, order, axis=-1)) >= 0)


@property_test
@given(qk=finite_scores)
def test_a_cap_far_above_the_logits_changes_nothing(qk):
    logits = scale_rules.SoftCap(factor=0.25, cap=1e15).logits(qk, qk, qk)
    # |cap tanh(x/cap) - x| ≤ |x|³ / 3 cap² is 1e-14 of an eps; what remains is four roundings.
    assert_allclose(logits, qk * 0.25, rtol=4 * EPS[np.float64], atol=1e-300)


@pytest.mark.parametrize("score", [0.0, 0.5, -3.0, 20.0, 300.0])
def test_the_slope_of_the_cap_keeps_its_digits_where_tanh_rounds_to_one(score):
    rule = scale_rules.SoftCap(factor=1.0, cap=1.0)
    qk = np.array([[score]])
    found = rule.backward(np.array([[1.0]]), qk, qk, qk).scores[0, 0]
    with mpmath.workdps(400):
        slope = float(1 - mpmath.tanh(mpmath.mpf(score)) ** 2)
    # exp of -2 score carries half an eps times 2 |score|, exact here; then five roundings.
    assert found == pytest.approx(slope, rel=8 * EPS[np.float64])


def test_the_cap_comes_before_the_mask():
    q, k, v = normal(N_Q, D_K), normal(N_K, D_K), normal(N_K, D_V)
    mask = random_mask(N_Q, N_K)
    forward = attention(q, k, v, scale=made(RULES["soft_cap"]), mask=mask)
    assert np.all(forward.logits[~mask] == -np.inf)
    assert np.all(forward.weights[~mask] == 0)


def test_a_hidden_key_does_not_count_in_the_sum_of_key_norms():
    q, k, v = normal(N_Q, D_K), normal(N_K, D_K), normal(N_K, D_V)
    rule = made(RULES["key_norm_sum"])
    hidden = attention(q, k, v, scale=rule, mask=np.arange(N_K) < 3)
    absent = attention(q, k[:3], v[:3], scale=rule)
    # Sums over 7 terms, 4 of them zero, against sums over 3.
    assert_allclose(hidden.output, absent.output, atol=8 * EPS[np.float64])


def test_a_number_is_the_rule_that_multiplies_by_it_and_a_rule_is_itself():
    assert as_rule(np.float32(0.5)) == Factor(0.5)
    rule = scale_rules.QKNorm(3.0)
    assert as_rule(rule) is rule


def test_unrelated_vectors_keep_one_distance_from_saturation_under_the_root_of_log_n():
    # Logit sd √(ln n) is 1/√2 of the critical √(2 ln n) at every n and d, up to five roundings.
    for d_k, n_k in ((16, 16), (64, 1024)):
        factor = scale_rules.factor(NAMED["sqrt_log_n"], d_k=d_k, n_k=n_k)
        critical = math.sqrt(2 * math.log(n_k))
        assert factor * math.sqrt(d_k) / critical == pytest.approx(
            math.sqrt(0.5), rel=8 * EPS[np.float64]
        )


def test_a_head_below_the_limit_is_not_clipped_and_each_head_has_its_own_factor():
    q, k = normal(2, N_Q, D_K), normal(2, N_K, D_K)
    q[0] *= 1e-3
    rule = scale_rules.rule({"rule": "qk_clip", "limit": 1.0, "exponent": 0.5}, d_k=D_K, n_k=N_K)
    qk = scores(q, k)
    logits = rule.logits(qk, q, k)
    assert_array_equal(logits[0], qk[0] * D_K**-0.5)
    # Two roundings.
    assert logits[1].max() == pytest.approx(1.0, rel=4 * EPS[np.float64])


@each_mask
@pytest.mark.parametrize("logit", [0.0, 3.0, -30.0])
def test_a_sink_is_one_more_key_whose_value_is_zero(make_mask, logit):
    q, k, v = normal(N_Q, D_K), normal(N_K, D_K), normal(N_K, D_V)
    d_output, mask = normal(N_Q, D_V, seed=1), make_mask(N_Q, N_K)
    rule = scale_rules.rule({"rule": "sink", "logit": logit, "exponent": 0.25}, d_k=D_K, n_k=N_K)
    forward = attention(q, k, v, scale=rule, mask=mask)
    backward = gradients(q, k, v, d_output, forward, scale=rule)
    # The denominator as Miller writes it for a logit of 0: 1 + the sum over the keys.
    seen = np.ones((N_Q, N_K), dtype=bool) if mask is None else mask
    e = np.where(seen, np.exp(q @ k.T * D_K**-0.25), 0.0)
    weights = e / (math.exp(logit) + e.sum(axis=-1, keepdims=True))
    # About 11 roundings of a score below 10 in the exponent, and as many of a sum.
    assert_allclose(forward.weights, weights, rtol=1e-13)
    assert_allclose(forward.output, weights @ v, rtol=0, atol=1e-13)

    def loss(name):
        def of(x):
            moved = attention(**{"q": q, "k": k, "v": v, name: x}, scale=rule, mask=mask)
            return np.vdot(d_output, moved.output)

        return of

    for name, x in {"q": q, "k": k, "v": v}.items():
        assert_is_gradient(getattr(backward, name), loss(name), x)


def test_a_query_that_sees_no_key_gives_all_of_its_weight_to_the_sink():
    q, k, v = normal(N_Q, D_K), normal(N_K, D_K), normal(N_K, D_V)
    rule = made({"rule": "sink", "logit": 0.0, "exponent": 0.5})
    found = attention(q, k, v, scale=rule, mask=np.zeros((N_Q, N_K), dtype=bool))
    assert_array_equal(found.weights, 0.0)
    assert_array_equal(found.output, 0.0)
