"""Length: laws of rows, the gap-counting scale, cells, exact curves, best powers and claims."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sqrtdk.core.metrics import row_metrics
from sqrtdk.experiments.length import best, claims, curves, measure
from sqrtdk.experiments.length import rows as row_laws
from sqrtdk.stats.intervals import MissingError
from sqrtdk.stats.series import WholeTable


@pytest.mark.parametrize("law", row_laws.ROW_LAWS)
def test_rows_have_the_moments_of_their_law(law: str) -> None:
    rows = row_laws.draw(np.random.default_rng(1), law, 2000, 50)
    others = rows[:, 1:]
    # 98,000 products; the rows of one query share |q|, whose square has relative sd sqrt(2/64).
    assert abs(others.mean()) < 0.02
    assert others.var() == pytest.approx(1.0, abs=0.03)
    if law == "exponential":
        # The fourth moment of a Laplace law is 6, of a normal one 3.
        assert (others**4).mean() == pytest.approx(6.0, abs=0.6)
    if law == "planted":
        # Scale 1/8 of a score of mean 64/2: 4, over 2000 rows of sd sqrt(1 + 8 / 8 ...) below 1.5.
        assert rows[:, 0].mean() == pytest.approx(4.0, abs=0.15)


def test_a_draw_depends_on_its_key_alone() -> None:
    first, second = (
        row_laws.draw(row_laws.stream("planted", 8, seed), "planted", 3, 8) for seed in (4, 4)
    )
    np.testing.assert_array_equal(first, second)
    other = row_laws.draw(row_laws.stream("planted", 8, 4, calibration=True), "planted", 3, 8)
    assert not np.any(first == other)


@pytest.mark.parametrize("factor", [0.3, 1.0, 12.0])
def test_the_concentration_is_that_of_the_row_metrics(factor: float) -> None:
    rows = np.random.default_rng(3).standard_normal((6, 40))
    found, plain = measure.concentration(rows, factor), row_metrics(factor * rows)
    # A sum of 40 terms and a difference of numbers below 20.
    np.testing.assert_allclose(found.entropy, plain.entropy_nats, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(found.max_weight, plain.max_weight, rtol=1e-13)
    e = np.exp(factor * rows)
    np.testing.assert_allclose(found.first_weight, e[:, 0] / e.sum(axis=1), rtol=1e-12)


def test_factors_are_one_at_the_length_of_training_and_the_published_ones_elsewhere() -> None:
    at = measure.factors("independent", 16, 2)
    assert [at[name] for name in ("0", "0.5", "1", "2.5", "gap", "yarn")] == [1.0] * 6
    far = measure.factors("independent", 256, 2)
    assert (far["1"], far["2"]) == (2.0, 4.0)
    assert far["ssmax"] == pytest.approx(0.43 * math.log(256), rel=1e-14)
    assert far["yarn"] == pytest.approx((0.1 * math.log(16) + 1) ** 2, rel=1e-14)
    # Rows of normal logits come apart at about sqrt(2 ln n).
    assert 1.3 < far["gap"] < 2.2


def slab(**changes: Any) -> Any:
    return {"n_k": [16, 64], "n_q": 400, "rows": "planted", "power_steps": 2,
            "seeds": [0, 2]} | changes  # fmt: skip


@pytest.mark.parametrize("law", row_laws.ROW_LAWS)
def test_measured_means_agree_with_the_exact_ones(law: str) -> None:
    cells: Any = measure.cells(slab(rows=law, seeds=[0, 12]))
    runs = pd.DataFrame([axes | row for axes, measured in cells for row in measured()])
    settings: Any = {}
    table = pd.DataFrame(list(curves.rows(settings, runs)))
    assert set(table["rule"]) == set(curves.SHOWN)
    # 28 correlated t values with 11 degrees of freedom: beyond 5 in one of about 100 laws.
    assert table["z"].abs().max() < 5
    assert measure.seconds(slab()) > 0
    assert measure.memory(slab()) > 0


def test_the_best_power_is_the_root_of_the_slope() -> None:
    rows = [
        {"n_k": n_k, "n_q": 4, "rows": "independent", "rule": f"{power:g}", "seed": seed,
         "factor": 1.0, "selectivity": 0.5 + 0.01 * (power - 1.2 - 0.1 * seed) * math.log(n_k),
         "entropy_share": 0.5 + 0.01 * (power + 1) * math.log(n_k)}
        for n_k in (16, 64, 256)
        for power in measure.powers(2)
        for seed in (0, 1, 2)
    ]  # fmt: skip
    settings: Any = {"power_steps": 2}
    selectivity, entropy = best.rows(settings, pd.DataFrame(rows))
    assert selectivity["mean"] == pytest.approx(1.3, abs=1e-12)
    assert (selectivity["n_seeds"], entropy["n_seeds"], entropy["n_without"]) == (3, 0, 3)
    # Between 1/2, of very many keys, and what few keys need; measured over 16 to 256 keys.
    assert 0.5 < float(selectivity["exact"]) < 1.5


LONG: Any = {"n_k": [16, 64, 1024, 4096]}


def best_row(mean: float, half: float, *, seeds: int = 12, without: int = 0) -> WholeTable:
    row = {
        "rows": "independent",
        "n_seeds": seeds,
        "n_without": without,
        "mean": mean,
        "ci_low": mean - half,
        "ci_high": mean + half,
        "exact": math.nan,
    }
    table = pd.DataFrame([row | {"criterion": x} for x in ("selectivity", "entropy_share")])
    return WholeTable(table, settings=LONG)  # fmt: skip


def test_a_power_is_judged_by_its_interval() -> None:
    assert claims.power(best_row(1.0, 0.1)).holds is True
    assert claims.root(best_row(1.0, 0.1)).holds is False
    assert claims.root_entropy(best_row(0.45, 0.1)).holds is True
    assert claims.power(best_row(1.2, 0.1)).holds is None
    assert claims.power(best_row(math.nan, math.nan, seeds=0, without=12)).holds is False
    with pytest.raises(MissingError, match="2 of 14 seeds have no best power"):
        claims.power(best_row(1.0, 0.1, without=2))
    with pytest.raises(MissingError, match="needs 4 of them or more, up to 4096"):
        claims.power(best_row(1.0, 0.1)._replace(settings={"n_k": [16, 64]}))


def kept_table(last: float) -> WholeTable:
    values = {16: 0.5, 64: 0.5, 1024: 0.5, 4096: last}
    rows = [
        {"n_k": n_k, "rows": "planted", "rule": rule, "metric": "selectivity", "mean": mean,
         "ci_low": mean - 0.005, "ci_high": mean + 0.005}
        for n_k, mean in values.items()
        for rule in ("gap", "ssmax")
    ]  # fmt: skip
    return WholeTable(pd.DataFrame(rows), settings=LONG)


def test_a_kept_selectivity_has_a_small_range() -> None:
    assert claims.gap(kept_table(0.45)).holds is True
    assert claims.ssmax(kept_table(0.2)).holds is False
    assert claims.gap(kept_table(0.374)).holds is None
