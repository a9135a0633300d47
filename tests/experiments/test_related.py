"""Related vectors: the keys that attention selects, and the weight of a key by its cosine."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sqrtdk.core import input_laws, scale_rules
from sqrtdk.core.attention import attention
from sqrtdk.experiments import cells
from sqrtdk.experiments.related import cosines
from sqrtdk.experiments.related import measure as related
from sqrtdk.experiments.scaling import measure as scaling
from sqrtdk.theory import expectations

LAWS = {
    "planted": {"law": "planted", "cosine": 0.5},
    "graded": {"law": "graded", "cosine": 0.5, "steps": 4},
    "gaussian": {"law": "gaussian"},
}
RULES = {
    "off": {"rule": "constant", "value": 1},
    "on": {"rule": "power", "exponent": 0.5},
    "inverse_64": {"rule": "power", "exponent": 1, "multiplier": 8},
    "qk_norm": {"rule": "qk_norm", "scale": 8},
}
SIZES = {"d_k": 11, "n_k": 5, "n_q": 7}
SLAB = {**SIZES, "d_v": 3, "dtype": "float64", "scaling": RULES, "seeds": [0, 2]}


def rows(law: str, **change: object) -> list[dict[str, object]]:
    slab = SLAB | {"inputs": {law: LAWS[law]}} | change
    return cells.measure_cells(related.cells(slab), related.COLUMNS)


@pytest.mark.parametrize("law", LAWS)
def test_what_a_cell_selects_is_that_of_the_plain_definitions(law: str) -> None:
    for row in rows(law):
        drawn = input_laws.draw(LAWS[law], **SIZES, d_v=3, seed=row["seed"], dtype="float64")
        rule = scale_rules.rule(RULES[row["scaling"]], d_k=11, n_k=5)
        weights = attention(drawn.q, drawn.k, drawn.v, scale=rule).weights
        match = [weights[i, i % 5] for i in range(7)]
        # A mean of 7 numbers: a few roundings on either side.
        assert row["match_weight"] == pytest.approx(sum(match) / 7, rel=1e-14)
        assert row["weight_sum_error"] <= 5 * 2**-52
        assert row["output_excess"] <= 16 * 2**-52


def test_the_columns_of_scaling_come_first_and_have_its_numbers() -> None:
    names = [column.name for column in scaling.COLUMNS]
    assert [column.name for column in related.COLUMNS][: len(names)] == names
    slab = SLAB | {"inputs": {"gaussian": LAWS["gaussian"]}}
    plain = cells.measure_cells(scaling.cells(slab), scaling.COLUMNS)
    assert [{name: row[name] for name in names} for row in rows("gaussian")] == plain


def test_weights_that_do_not_sum_to_1_and_outputs_beyond_the_values_are_seen() -> None:
    v = np.array([[0.0, 1.0], [2.0, 3.0]])
    found = related.selected(np.array([[0.5, 0.25]]), np.array([[2.5, 1.0]]), v)
    assert found == {"match_weight": 0.5, "weight_sum_error": 0.25, "output_excess": 0.5}
    below = related.selected(np.array([[1.0, 0.0]]), np.array([[-0.25, 1.0]]), v)
    assert below["output_excess"] == 0.25


def test_eight_over_d_k_is_one_over_the_root_at_64() -> None:
    (one,) = {
        scale_rules.factor(RULES[name], d_k=64, n_k=256) for name in ("on", "inverse_64")
    }  # fmt: skip
    assert one == 0.125


# Graded cosines


@pytest.mark.parametrize("n_k", [3, 64])
def test_the_keys_of_the_graded_law_have_the_given_cosines(n_k: int) -> None:
    drawn = input_laws.draw(
        LAWS["graded"], d_k=4096, n_k=n_k, n_q=40, d_v=1, seed=0, dtype="float64"
    )
    norms = np.linalg.norm(drawn.q, axis=1)[:, np.newaxis], np.linalg.norm(drawn.k, axis=1)
    found = drawn.q @ drawn.k.T / norms[0] / norms[1]
    expected = np.zeros((40, n_k))
    for place, cosine in enumerate([0.5, 0.375, 0.25, 0.125][:n_k]):
        expected[np.arange(40), (np.arange(40) + place) % n_k] = cosine
    # A sample correlation of 4096 pairs has an sd of at most 1/64; 40 n_k of them.
    assert np.max(np.abs(found - expected)) < 4.5 / 64
    # Each entry of q has variance 1: the mean of 40 * 4096 squares has an sd of √2/405.
    assert abs(np.mean(drawn.q**2) - 1) < 4 * np.sqrt(2 / drawn.q.size) * np.sqrt(40 / min(n_k, 40))


def test_one_step_is_the_planted_law() -> None:
    one = {"law": "graded", "cosine": 0.5, "steps": 1}
    pair = [
        input_laws.draw(law, **SIZES, d_v=3, seed=1, dtype="float64")
        for law in (LAWS["planted"], one)
    ]
    for planted, graded in zip(*pair, strict=True):
        np.testing.assert_allclose(graded, planted, rtol=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cosine": 1.5}, "cosine is 1.5; allowed: numbers from -1 to 1"),
        ({"steps": 0}, "steps is 0; allowed: whole numbers from 1"),
        ({"steps": 2.5}, "steps is 2.5; allowed: whole numbers from 1"),
        ({"cosine": 0.9}, "whose squared cosines add up to 1.52; allowed: a sum up to 1"),
        ({"cosine": 0.5, "steps": 1e300}, "allowed: a sum up to 1"),
    ],
)
@pytest.mark.parametrize("n_k", [1, 64])
def test_cosines_that_cannot_be_are_refused_at_every_size(
    change: dict[str, float], message: str, n_k: int
) -> None:
    with pytest.raises(ValueError, match=message):
        input_laws.draw(
            LAWS["graded"] | change, d_k=2, n_k=n_k, n_q=1, d_v=1, seed=0, dtype="float64"
        )


SETTINGS = {
    "d_k": [4, 16], "n_k": [8], "n_q": [6], "d_v": 2, "dtype": ["float64"], "seed": [0, 1, 2],
    "inputs": LAWS, "scaling": {name: RULES[name] for name in ("off", "on")},
}  # fmt: skip


def test_weight_by_cosine_is_that_of_the_plain_definitions() -> None:
    table = list(cosines.rows(SETTINGS))
    # gaussian has no related keys; planted has one, graded four, and all have unrelated ones.
    assert {(row["inputs"], row["cosine"]) for row in table} == {
        *((("planted", x)) for x in (0.0, 0.5)),
        *((("graded", x)) for x in (0.0, 0.125, 0.25, 0.375, 0.5)),
    }
    found = []
    for seed in (0, 1, 2):
        drawn = input_laws.draw(
            LAWS["graded"], d_k=16, n_k=8, n_q=6, d_v=2, seed=seed, dtype="float64"
        )
        weights = attention(drawn.q, drawn.k, drawn.v, scale=0.25).weights
        third = np.array([weights[i, (i + 2) % 8] for i in range(6)])
        found.append((third.mean(), np.mean(third >= 1 / 8)))
    wanted = {"d_k": 16, "inputs": "graded", "scaling": "on", "cosine": 0.25}
    means = {
        row["metric"]: row["mean"] for row in table if all(row[x] == y for x, y in wanted.items())
    }
    assert [means["weight"], means["heard"]] == pytest.approx(np.mean(found, axis=0), rel=1e-12)


def test_rows_are_sorted_by_their_axes() -> None:
    axes = [column.name for column in cosines.COLUMNS if column.axis]
    keys = [tuple(row[name] for name in axes) for row in cosines.rows(SETTINGS)]
    assert keys == sorted(keys)


def test_where_all_keys_are_related_there_is_no_unrelated_one() -> None:
    table = list(cosines.rows(SETTINGS | {"n_k": [3], "inputs": {"graded": LAWS["graded"]}}))
    assert {row["cosine"] for row in table} == {0.5, 0.375, 0.25}


def test_weights_of_a_query_are_counted_once() -> None:
    weights = np.array([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]])
    found = cosines.by_cosine(weights, 1)
    assert found["weight"] == pytest.approx([0.55, (0.3 + 0.2 + 0.1 + 0.3) / 4])
    assert found["heard"] == [1.0, 0.0]
    assert_array_equal(weights.sum(axis=1), 1.0)


def test_unrelated_weights_have_the_exact_mean() -> None:
    # Under the gaussian law a key like any other gets 1/n_k on average, and its square E Σp²/n_k.
    made = [
        row["match_weight"]
        for row in cells.measure_cells(
            related.cells(
                SLAB | {"inputs": {"gaussian": LAWS["gaussian"]}, "seeds": [0, 400],
                        "scaling": {"on": RULES["on"]}}
            ),
            related.COLUMNS,
        )
    ]  # fmt: skip
    error = np.std(made, ddof=1) / np.sqrt(len(made))
    assert abs(np.mean(made) - 1 / 5) < 4 * error
    assert expectations.expectations(5, 11, 11**-0.5).sum_sq_weights > 1 / 5
