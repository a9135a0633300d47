"""The experiment of layers that are not trained: their draws, table and claims."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from sqrtdk.experiments import cells
from sqrtdk.experiments.initialisation import claims, measure, model, sigma
from sqrtdk.stats.intervals import MissingError
from sqrtdk.stats.series import WholeTable

RULES = {"off": {"rule": "constant", "value": 1}, "on": {"rule": "power", "exponent": 0.5}}
SLAB: dict[str, Any] = {
    "d_model": 16, "d_k": 8, "n_k": 7, "embedding_sd": [0.02, 1.0], "cosine_percent": [0, 50],
    "norm": list(model.NORMS), "init": list(model.INITS), "scaling": RULES, "seeds": [0, 20],
}  # fmt: skip


@pytest.fixture(scope="module")
def runs() -> pd.DataFrame:
    return pd.DataFrame(cells.measure_cells(measure.cells(SLAB), measure.COLUMNS))


@pytest.fixture(scope="module")
def table(runs: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(sigma.rows({"scaling": RULES}, runs))


def test_the_spread_of_an_initialisation_is_that_of_the_library_that_has_it() -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    d_model = 256
    fused = torch.nn.MultiheadAttention(d_model, 4)
    linear = torch.nn.Linear(d_model, d_model)
    square = torch.nn.init.xavier_uniform_(torch.empty(d_model, d_model))
    head = torch.nn.init.xavier_uniform_(torch.empty(d_model, 64))
    for init, entries in (
        ("xavier_fused", fused.in_proj_weight),
        ("linear", linear.weight),
        ("xavier", square),
        ("xavier_head", head),
    ):
        entries = entries.detach().numpy()
        expected = model.spread(init, d_model, 64)
        # A uniform law's variance has a relative error of √(0.8/entries).
        assert entries.std() == pytest.approx(expected.q_sd, rel=5 * (0.2 / entries.size) ** 0.5)
        # Both end at √3 standard deviations.
        assert np.abs(entries).max() == pytest.approx(3**0.5 * expected.q_sd, rel=1e-3)
    assert not fused.in_proj_bias.detach().numpy().any()
    bias = linear.bias.detach().numpy()
    assert np.abs(bias).max() == pytest.approx(
        3**0.5 * model.spread("linear", d_model, 64).bias_sd, rel=0.05
    )


def test_layer_norm_leaves_mean_0_and_variance_1() -> None:
    x = model.layer_norm(np.random.default_rng(0).standard_normal((3, 5)) + 7)
    np.testing.assert_allclose(x.mean(axis=-1), 0, atol=1e-15)
    np.testing.assert_allclose((x**2).mean(axis=-1), 1, rtol=1e-14)
    assert not model.layer_norm(np.ones((2, 1))).any()


def test_a_cell_alone_has_the_numbers_that_it_has_in_a_slab(runs: pd.DataFrame) -> None:
    alone = {"embedding_sd": [1.0], "cosine_percent": [50], "norm": ["none"], "init": ["t5"]}
    one = cells.measure_cells(measure.cells(SLAB | alone | {"seeds": [3, 4]}), measure.COLUMNS)
    at = (runs[list(alone)] == [x[0] for x in alone.values()]).all(axis=1) & (runs["seed"] == 3)
    assert runs[at].to_dict("records") == one


def test_the_measured_sigma_agree_with_the_exact_ones_and_not_with_wrong_ones() -> None:
    # Large enough that a mean square of 20 seeds is about normal.
    large = {"d_k": 32, "embedding_sd": [1.0], "cosine_percent": [0, 30, 60], "seeds": [0, 20]}
    slabs = [SLAB | large | {"d_model": d, "scaling": {"on": RULES["on"]}} for d in (32, 48, 64)]
    runs = pd.DataFrame(
        row for slab in slabs for row in cells.measure_cells(measure.cells(slab), measure.COLUMNS)
    )
    found = claims.agrees(WholeTable(pd.DataFrame(sigma.rows({"scaling": RULES}, runs))))
    assert found.holds, found.number
    # Off by a tenth, as with a wrong variance.
    wrong = runs.assign(logit_std=1.1 * runs["logit_std"])
    table = pd.DataFrame(sigma.rows({"scaling": RULES}, wrong))
    assert claims.agrees(WholeTable(table)).holds is False
    with pytest.raises(MissingError, match="100 independent means with at least 20 seeds"):
        claims.agrees(WholeTable(table.head(99)))


def test_the_scale_that_an_initialisation_is_made_for_is_named(table: pd.DataFrame) -> None:
    own = table[table["own_scale"] == 1].groupby("init")["scaling"].unique()
    assert {init: list(rules) for init, rules in own.items()} == {
        init: ["off"] if init == "t5" else ["on"] for init in model.INITS
    }


def part(table: pd.DataFrame, init: str) -> WholeTable:
    return WholeTable(table[table["init"] == init], settings={"scaling": RULES})


def test_sigma_near_one_is_judged_by_initialisation(table: pd.DataFrame) -> None:
    # As with many seeds: the exact σ, to 1 %.
    known = table.assign(mean=table["exact"], ci_low=0.99 * table["exact"],
                         ci_high=1.01 * table["exact"])  # fmt: skip
    assert claims.near_one(part(known, "xavier")).holds is True
    # 0.02² · 16 is far from 1, and so is the 1/2 of a fused matrix.
    for name in ("normal_02", "xavier_fused"):
        assert claims.near_one(part(known, name)).holds is False
    with pytest.raises(MissingError, match="the scale that the initialisation is made for"):
        claims.near_one(part(table[table["scaling"] == "off"], "xavier"))


def test_a_start_is_saturated_only_without_a_scale_that_is_folded_in(table: pd.DataFrame) -> None:
    # Only 7 keys: σ = √8 keeps about half of the entropy; eight times as wide is saturated.
    wide = table.assign(**{x: table[x] / 4 for x in ("entropy", "entropy_low", "entropy_high")})
    assert claims.saturated(part(wide, "xavier")).holds is True
    assert claims.saturated(part(table, "t5")).holds is False
    with pytest.raises(MissingError, match="leaves the scores as they are"):
        claims.saturated(part(table[table["scaling"] == "on"], "xavier"))


def test_layer_norm_makes_the_size_of_tokens_irrelevant(table: pd.DataFrame) -> None:
    ratios = table[(table["embedding_sd"] == 1) & (table["init"] == "xavier")]
    # Logits are a product of two projections: (1/0.02)² without LayerNorm.
    for norm, ratio in (("layer_norm", 1), ("none", 2500)):
        found = ratios.loc[ratios["norm"] == norm, "size_ratio"]
        np.testing.assert_allclose(found, ratio, rtol=1e-12)
    assert claims.size_of_tokens(part(table, "xavier")).holds is True
    same = table.assign(**dict.fromkeys(("size_ratio", "size_low", "size_high"), 1.0))
    assert claims.size_of_tokens(part(same, "xavier")).holds is False


def test_a_single_key_has_no_spread_and_no_entropy() -> None:
    one = {"n_k": 1, "seeds": [0, 1], "init": ["xavier"], "norm": ["none"]}
    found = cells.measure_cells(measure.cells(SLAB | one), measure.COLUMNS)
    assert {row["logit_std"] for row in found} == {0.0}
    lines = pd.DataFrame(sigma.rows({"scaling": RULES}, pd.DataFrame(found)))
    assert lines["exact"].isna().all()
