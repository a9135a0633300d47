"""Input laws: their moments, planted matches, and published numbers."""

import itertools
import math

import numpy as np
import pytest
import yaml
from conftest import ROOT
from numpy.testing import assert_allclose, assert_array_equal

from sqrtdk.core import input_laws, metrics
from sqrtdk.core.attention import attention, scores
from sqrtdk.theory import expectations, fixed_sigma

NAMED = yaml.safe_load((ROOT / "conf/config.yaml").read_text(encoding="utf-8"))["input_laws"]

# Mean of the fourth power of an entry. For t it is finite from df = 5 on, and the spread of the
# sample's second moment needs it.
FOURTH = {
    "gaussian": ({"law": "gaussian"}, 3.0),
    "rademacher": ({"law": "rademacher"}, 1.0),
    "uniform": ({"law": "uniform"}, 9 / 5),
    "student_t": ({"law": "student_t", "df": 9}, 3 * 7 / 5),
    "planted": ({"law": "planted", "cosine": -0.6}, 3.0),
}


def draw(entry: dict[str, object], **sizes: int) -> input_laws.Inputs:
    base = {"d_k": 64, "n_k": 256, "n_q": 256, "d_v": 1, "seed": 0}
    return input_laws.draw(entry, **(base | sizes), dtype="float64")


@pytest.mark.parametrize("law", FOURTH)
@pytest.mark.parametrize("array", ["q", "k"])
def test_entries_have_mean_zero_and_variance_one(law, array):
    entry, fourth = FOURTH[law]
    x = getattr(draw(entry), array)
    assert abs(np.mean(x)) * math.sqrt(x.size) < 4
    spread = math.sqrt((fourth - 1) / x.size)
    # Rademacher has no spread at all: ±1 squared is 1.
    assert abs(np.mean(x**2) - 1) <= 4 * spread


@pytest.mark.parametrize("law", FOURTH)
def test_the_kurtosis_is_that_of_the_law(law):
    entry, fourth = FOURTH[law]
    if law == "student_t":
        # The z-bound needs the eighth moment, which is infinite at df ≤ 8. At variance 1 the
        # moments are 3 (df - 2)/(df - 4) and 105 (df - 2)³/((df - 4)(df - 6)(df - 8)).
        entry, fourth = {"law": "student_t", "df": 40}, 3 * 38 / 36
    x = draw(entry).q
    eighth = {"rademacher": 1.0, "uniform": 9.0, "student_t": 105 * 38**3 / (36 * 34 * 32)}.get(
        law, 105.0
    )
    assert abs(np.mean(x**4) - fourth) <= 4 * math.sqrt((eighth - fourth**2) / x.size)


def test_a_mean_is_at_most_what_the_type_has_digits_for():
    # The weights at the limit, against long double: 0.2 % in float32, 4e-8 in float64.
    sizes = {"d_k": 4096, "n_k": 16, "n_q": 4, "d_v": 1, "seed": 1}
    for dtype, most, allowed in (("float32", 100, 0.01), ("float64", 1e6, 1e-6)):
        entry = {"law": "non_centred", "q_mean": most, "k_mean": most}
        scale = 4096**-0.5 / most
        given = input_laws.draw(entry, **sizes, dtype=dtype)
        exact = input_laws.draw(entry, **sizes, dtype="float64")
        found = attention(given.q, given.k, given.v, scale=scale).weights
        wide = (x.astype(np.longdouble) for x in (exact.q, exact.k, exact.v))
        right = attention(*wide, scale=scale).weights
        assert np.max(abs(found / right - 1)) < allowed
        with pytest.raises(ValueError, match=rf"q_mean is {2 * most}; allowed.*: numbers from "):
            input_laws.draw(entry | {"q_mean": 2 * most}, **sizes, dtype=dtype)


def test_heavy_tails_have_a_larger_largest_entry_than_the_gaussian():
    # df = 3: the largest of 16384 is about (16384 c)^(1/3), far above the gaussian 4.
    assert np.max(np.abs(draw(NAMED["student_t"]).k)) > 10
    assert np.max(np.abs(draw(NAMED["gaussian"]).k)) < 6


@pytest.mark.parametrize("law", NAMED)
@pytest.mark.parametrize(("d_k", "n_k", "n_q"), [(1, 1, 1), (7, 5, 3), (3, 2, 11)])
def test_every_named_law_gives_finite_arrays_of_the_asked_shapes(law, d_k, n_k, n_q):
    drawn = draw(NAMED[law], d_k=d_k, n_k=n_k, n_q=n_q, d_v=2)
    assert [x.shape for x in drawn] == [(n_q, d_k), (n_k, d_k), (n_k, 2), (n_q, 2)]
    assert all(np.isfinite(x).all() for x in drawn)


@pytest.mark.parametrize("law", NAMED)
def test_values_and_output_gradients_are_the_same_under_every_law(law):
    for name in ("v", "g"):
        assert_array_equal(getattr(draw(NAMED[law]), name), getattr(draw(NAMED["gaussian"]), name))


def test_rademacher_entries_are_plus_or_minus_one():
    assert set(np.unique(draw(NAMED["rademacher"]).q)) == {-1.0, 1.0}


def test_uniform_entries_fill_plus_or_minus_the_root_of_three():
    x = np.abs(draw(NAMED["uniform"]).k)
    # The largest of 16384 uniform numbers is within 10/16384 of the end with 1 - e^-10.
    assert math.sqrt(3) * (1 - 10 / x.size) < x.max() <= math.sqrt(3)


def test_the_mean_is_added_to_the_gaussian_draw():
    gaussian, shifted = draw(NAMED["gaussian"]), draw(
        {"law": "non_centred", "q_mean": 0.5, "k_mean": -2}
    )  # fmt: skip
    assert_array_equal(shifted.q, gaussian.q + 0.5)
    assert_array_equal(shifted.k, gaussian.k - 2.0)


def test_a_mean_of_the_queries_widens_the_logits_and_one_of_the_keys_does_not():
    # Given q the variance across keys is scale² |q|², of mean scale² d_k (1 + q_mean²).
    for q_mean, k_mean, expected in ((0, 3, 1), (1, 1, 2)):
        entry = {"law": "non_centred", "q_mean": q_mean, "k_mean": k_mean}
        found = [
            metrics.logit_std(scores(x.q, x.k) / 8) ** 2
            for x in (draw(entry, seed=seed) for seed in range(30))
        ]
        error = np.std(found, ddof=1) / math.sqrt(len(found))
        assert abs(np.mean(found) - expected) < 4 * error


@pytest.mark.parametrize("arrays", ["q", "k", "both"])
@pytest.mark.parametrize("d_k", [1, 2, 63])
def test_on_the_sphere_the_squared_norm_is_d_k(arrays, d_k):
    drawn, gaussian = draw({"law": "sphere", "arrays": arrays}, d_k=d_k), draw(
        NAMED["gaussian"], d_k=d_k
    )  # fmt: skip
    for name in ("q", "k"):
        x, unchanged = getattr(drawn, name), getattr(gaussian, name)
        if arrays in (name, "both"):
            # Two summations of d_k squares and three roundings, each squared.
            assert np.max(np.abs(np.vecdot(x, x) / d_k - 1)) < (d_k + 8) * 2**-52
            # The direction is that of the gaussian draw.
            assert np.all(np.vecdot(x, unchanged) > 0)
        else:
            assert_array_equal(x, unchanged)


def test_with_queries_alone_on_the_sphere_every_query_has_logits_of_one_exact_width():
    # sd scale * √d_k, without the average over |q| of the gaussian law.
    exact = fixed_sigma.given_sigma(math.sqrt(3), 64).entropy_nats
    found = []
    for seed in range(50):
        drawn = draw({"law": "sphere", "arrays": "q"}, d_k=3, n_k=64, n_q=64, seed=seed)
        found.append(metrics.row_metrics(scores(drawn.q, drawn.k)).entropy_nats.mean())
    error = np.std(found, ddof=1) / math.sqrt(len(found))
    assert abs(np.mean(found) - exact) < 4 * error


def test_the_sphere_has_no_preferred_direction():
    x = draw(NAMED["sphere"], d_k=4, n_q=40_000).q
    # A coordinate has mean 0, variance 1 and fourth moment 3d/(d + 2) = 2; two are uncorrelated,
    # their squares' product has mean d/(d + 2) = 2/3.
    assert np.max(np.abs(x.mean(axis=0))) * 200 < 4
    assert np.max(np.abs(np.mean(x**2, axis=0) - 1)) * 200 < 4
    for a, b in itertools.combinations(range(4), 2):
        assert abs(np.mean(x[:, a] * x[:, b])) * 200 / math.sqrt(2 / 3) < 4


@pytest.mark.parametrize("cosine", [-0.9, 0.0, 0.5, 0.8])
def test_a_planted_match_has_the_given_cosine(cosine):
    drawn = draw({"law": "planted", "cosine": cosine}, d_k=1024)
    norms = np.linalg.norm(drawn.q, axis=1), np.linalg.norm(drawn.k, axis=1)
    cosines = scores(drawn.q, drawn.k) / norms[0][:, np.newaxis] / norms[1]
    planted = np.diagonal(cosines)
    others = cosines[~np.eye(256, dtype=bool)]
    # The sample correlation of 1024 pairs has sd (1 - c²)/√1024 to leading order, and a bias of
    # c (1 - c²)/2048, below a hundredth of that sd.
    sd = (1 - cosine**2) / 32
    assert abs(planted.mean() - cosine) < 4 * sd / math.sqrt(256)
    assert abs(np.std(planted) / sd - 1) < 4 / math.sqrt(2 * 256)
    # The others share vectors, but their products are uncorrelated.
    assert abs(others.mean()) < 4 / 32 / math.sqrt(others.size)


def test_query_i_is_matched_with_key_i_modulo_the_number_of_keys():
    drawn = draw({"law": "planted", "cosine": 1}, d_k=7, n_k=3, n_q=8)
    assert_array_equal(drawn.q, drawn.k[[0, 1, 2, 0, 1, 2, 0, 1]])
    opposite = draw({"law": "planted", "cosine": -1}, d_k=7, n_k=3, n_q=2)
    assert_array_equal(opposite.q, -opposite.k[:2])


@pytest.mark.parametrize("d_k", [1, 6, 7])
def test_a_correlated_match_has_the_cross_covariance_of_its_rotation(d_k):
    law = {"law": "correlated", "correlation": 0.8, "alignment": 0.6}
    drawn = draw(law, d_k=d_k, n_k=40_000, n_q=40_000)
    found = drawn.q.T @ drawn.k / 40_000
    expected = 0.8 * 0.6 * np.eye(d_k)
    for i in range(0, d_k - 1, 2):
        # The angle of cosine 0.6 has the sine 0.8.
        expected[i, i + 1], expected[i + 1, i] = -0.8 * 0.8, 0.8 * 0.8
    # 49 means of 40,000 products of variance at most 2.
    assert_allclose(found, expected, rtol=0, atol=5 * math.sqrt(2 / 40_000))
    own = drawn.q.T @ drawn.q / 40_000
    assert_allclose(own, np.eye(d_k), rtol=0, atol=5 * math.sqrt(2 / 40_000))


def test_an_alignment_of_one_is_the_planted_law():
    for planted, correlated in zip(
        draw({"law": "planted", "cosine": 0.5}),
        draw({"law": "correlated", "correlation": 0.5, "alignment": 1}),
        strict=True,
    ):
        assert_array_equal(planted, correlated)


def test_a_planted_cosine_of_zero_is_the_gaussian_law_to_the_bit():
    for planted, gaussian in zip(
        draw({"law": "planted", "cosine": 0}), draw(NAMED["gaussian"]), strict=True
    ):
        assert_array_equal(planted, gaussian)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"law": "student_t", "df": 2}, "df is 2; allowed: finite numbers above 2"),
        ({"law": "student_t", "df": math.inf}, "df is inf; allowed: finite"),
        ({"law": "student_t", "df": math.nan}, "df is nan; allowed: finite"),
        ({"law": "planted", "cosine": 1.01}, "cosine is 1.01; allowed: numbers from -1 to 1"),
        ({"law": "planted", "cosine": math.nan}, "cosine is nan; allowed"),
        (
            {"law": "correlated", "correlation": 2, "alignment": 0},
            "correlation is 2; allowed: numbers from -1 to 1",
        ),
        (
            {"law": "correlated", "correlation": 0, "alignment": -1.5},
            "alignment is -1.5; allowed: numbers from -1 to 1",
        ),
        ({"law": "non_centred", "q_mean": 1e7, "k_mean": 0}, "q_mean is 10000000.0; allowed: n"),
        ({"law": "non_centred", "q_mean": 0, "k_mean": math.nan}, "k_mean is nan; allowed"),
    ],
)
def test_a_parameter_out_of_range_is_refused(entry, said):
    with pytest.raises(ValueError, match=said):
        draw(entry)


# Numbers that others have published, and those of THEORY.md.


def test_the_output_has_the_published_standard_deviation():
    # n = 256, d = 64, scaled: a notebook prints 0.102. An output entry is Σ p v with v ~ N(0, 1),
    # so its variance is E Σp²; 0.10224 is the exact value to its last digit. A single matrix
    # scatters by 4 %, because its queries share keys and values.
    exact = math.sqrt(expectations.expectations(256, 64, 1 / 8).sum_sq_weights)
    assert round(exact, 5) == 0.10224
    found = []
    for seed in range(20):
        q, k, v, _ = draw(NAMED["gaussian"], d_v=64, seed=seed)
        found.append(np.mean(attention(q, k, v, scale=1 / 8).output ** 2))
    error = np.std(found, ddof=1) / math.sqrt(len(found))
    assert abs(np.mean(found) - exact**2) < 4 * error


def test_unscaled_weights_on_the_sphere_have_the_published_entropy_and_largest_weight():
    # q and k on the sphere of radius √256, n = 128, scale 1: a report has 0.4331 bits and 0.8848;
    # 400 seeds of ours have 0.4322 ± 0.0022 and 0.8850 ± 0.0007 (standard errors).
    entropy, largest = [], []
    for seed in range(100):
        drawn = draw(NAMED["sphere"], d_k=256, n_k=128, n_q=128, seed=seed)
        rows = metrics.row_metrics(scores(drawn.q, drawn.k))
        entropy.append(rows.entropy_nats.mean() / math.log(2))
        largest.append(rows.max_weight.mean())
    for found, published in ((entropy, 0.4331), (largest, 0.8848)):
        # Theirs is one sample of unknown size. If it is one matrix such as ours, it scatters by
        # the standard deviation of a seed.
        assert abs(np.mean(found) - published) < 2 * np.std(found, ddof=1)


@pytest.mark.parametrize(("d_k", "expected"), [(16, 4.0), (64, 8.0), (256, 16.0), (1024, 32.0)])
def test_unscaled_logits_have_standard_deviation_root_d_k(d_k, expected):
    variances = []
    for seed in range(20):
        q, k, _, _ = draw(NAMED["gaussian"], d_k=d_k, n_k=64, n_q=64, seed=seed)
        variances.append(float(metrics.logit_std(scores(q, k))) ** 2)
    error = np.std(variances, ddof=1) / math.sqrt(len(variances))
    assert abs(np.mean(variances) - expected**2) < 4 * error


@pytest.mark.parametrize(("d_k", "expected"), [(16, 5.0), (1024, 0.0)])
def test_a_planted_match_takes_all_of_the_scaled_attention_as_d_k_grows(d_k, expected):
    drawn = draw(NAMED["planted"], d_k=d_k)
    entropy = metrics.row_metrics(scores(drawn.q, drawn.k) / math.sqrt(d_k)).entropy_nats.mean()
    # The two figures of THEORY.md, to the digit that they have there.
    assert round(float(entropy), 1) == expected


# What a law states about itself.


def streams(seed: int) -> list[np.random.Generator]:
    return [np.random.default_rng([seed, i]) for i in range(2)]


@pytest.mark.parametrize("law", input_laws.LAWS)
def test_a_law_is_independent_exactly_if_neither_array_depends_on_the_stream_of_the_other(law):
    parameters = {name: value for name, value in NAMED[law].items() if name != "law"}
    sizes = {"d_k": 3, "n_k": 5, "n_q": 7}
    (q_stream, k_stream), (other_q, other_k) = streams(0), streams(1)
    q, k = input_laws.LAWS[law].formula(q_stream, k_stream, **sizes, **parameters)
    q_again, k_new = input_laws.LAWS[law].formula(streams(0)[0], other_k, **sizes, **parameters)
    q_new, k_again = input_laws.LAWS[law].formula(other_q, streams(0)[1], **sizes, **parameters)
    assert not np.array_equal(q, q_new)
    assert not np.array_equal(k, k_new)
    apart = np.array_equal(q, q_again) and np.array_equal(k, k_again)
    assert input_laws.LAWS[law].independent == apart


@pytest.mark.parametrize("law", input_laws.LAWS)
def test_a_law_is_centred_exactly_if_the_mean_of_its_entries_is_zero(law):
    drawn = draw(NAMED[law])
    # Entries of variance 1, up to a mean of its own.
    off = max(abs(np.mean(x)) * math.sqrt(x.size) for x in (drawn.q, drawn.k))
    assert input_laws.LAWS[law].centred == (off < 4)


def test_exact_values_are_of_independent_standard_normal_entries():
    assert [name for name, law in input_laws.LAWS.items() if law.exact] == ["gaussian"]
    assert {name for name, law in input_laws.LAWS.items() if not law.unrelated} == {
        "correlated",
        "graded",
        "non_centred",
        "planted",
    }


def test_a_new_law_must_state_what_it_is():
    with pytest.raises(TypeError, match=r"independent.*centred.*exact"):
        input_laws.Law(formula=input_laws.gaussian)
    with pytest.raises(ValueError, match="exact expectations exist for unrelated vectors only"):
        input_laws.Law(formula=input_laws.planted, independent=False, centred=True, exact=True)


def test_the_law_of_an_entry_is_found_by_its_formula_and_not_by_its_name():
    assert input_laws.law_of({"law": "planted", "cosine": 0.2}) is input_laws.LAWS["planted"]
    assert input_laws.law_of({"law": "nothing"}) is None
    assert input_laws.law_of({}) is None
