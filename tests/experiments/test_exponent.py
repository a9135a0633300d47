"""The best exponent of d_k: cells, roots, exact roots, limits and claims."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sqrtdk.claims import verdicts
from sqrtdk.claims.findings import Finding
from sqrtdk.core import input_laws, slopes
from sqrtdk.experiments.exponent import best, claims, curves, figures, limits, measure
from sqrtdk.figures import style
from sqrtdk.stats import roots
from sqrtdk.stats.intervals import MissingError
from sqrtdk.theory import points, related, thresholds
from sqrtdk.theory.related import Law

PLANTED = {"law": "planted", "cosine": 0.5}
GAUSSIAN = {"law": "gaussian"}


def test_all_exponents_are_the_square_root_at_64() -> None:
    for exponent in measure.exponents(10):
        assert measure.scale(64, exponent) == pytest.approx(1 / 8, rel=1e-14)
    assert measure.scale(16, 0.0) == measure.scale(4096, 0.0) == 0.125
    assert measure.scale(256, 1.0) == pytest.approx(8 / 256, rel=1e-14)


def test_a_row_is_the_softmax_of_the_draw_written_again() -> None:
    d_k, n_k, n_q = 8, 5, 7
    found = measure.measure(PLANTED, d_k, n_k, n_q, 3, 2)
    arrays = input_laws.draw(PLANTED, d_k=d_k, n_k=n_k, n_q=n_q, d_v=1, seed=3, dtype="float64")
    assert [row["exponent"] for row in found] == [0.0, 0.5, 1.0, 1.5]
    for row in found:
        factor = math.exp((float(row["exponent"]) - 0.5) * math.log(64)) / d_k ** row["exponent"]
        weights = np.exp(factor * arrays.q @ arrays.k.T)
        weights /= weights.sum(axis=1, keepdims=True)
        match = [weights[i, i % n_k] for i in range(n_q)]
        # Products of 8 numbers below 5, in exponents below 40.
        assert row["match_weight"] == pytest.approx(np.mean(match), rel=1e-12)
        assert row["max_weight"] == pytest.approx(weights.max(axis=1).mean(), rel=1e-12)
        entropy = -(weights * np.log(weights)).sum(axis=1).mean()
        assert row["entropy_nats"] == pytest.approx(entropy, rel=1e-12)


def test_cells_are_every_size_and_seed() -> None:
    slab: Any = {"d_k": [2, 4], "n_k": 3, "n_q": 2, "inputs": {"planted": PLANTED},
                 "exponent_steps": 4, "seeds": [5, 7]}  # fmt: skip
    axes = [axes for axes, _ in measure.cells(slab)]
    assert [(one["d_k"], one["seed"]) for one in axes] == [(2, 5), (2, 6), (4, 5), (4, 6)]
    assert measure.seconds(slab) > 0


def test_a_sign_change_is_the_root_of_a_line_and_missing_without_one() -> None:
    grid = np.linspace(0, 1, 5)
    # Exact up to the rounding of a quotient.
    assert slopes.sign_change(grid, 3 * grid - 1) == pytest.approx(1 / 3, rel=1e-14)
    assert slopes.sign_change(grid, 0.75 - grid) == 0.75
    assert math.isnan(slopes.sign_change(grid, grid + 1))
    assert roots.exact_root(lambda x: 3 * x - 1, grid) == pytest.approx(1 / 3, rel=1e-14)
    assert math.isnan(roots.exact_root(lambda x: x + 1, grid))
    x, y = np.array([1.0, 2.0, 4.0]), np.array([[1.0, 0.0, 2.0], [5.0, 5.0, 5.0]])
    expected = [np.polyfit(x, row, 1)[0] for row in y]
    np.testing.assert_allclose(slopes.slope(x, y), expected, rtol=0, atol=1e-14)


def table_of(root: float, seeds: int = 4) -> pd.DataFrame:
    """Return runs whose entropy has slope exponent - root, a little more in later seeds."""
    rows = [
        {"d_k": d_k, "n_k": 8, "n_q": 4, "inputs": inputs, "exponent": p, "seed": seed,
         "entropy_nats": 2 + (p - root - 0.01 * seed) * math.log(d_k),
         "match_weight": 0.5 - (p - 1.0) * math.log(d_k), "max_weight": 0.5}
        for inputs in ("gaussian", "planted")
        for d_k in (16, 64, 256)
        for seed in range(seeds)
        for p in measure.exponents(4)
    ]  # fmt: skip
    return pd.DataFrame(rows)


SETTINGS: Any = {
    "d_k": [16, 64, 256], "n_k": [8], "n_q": [4], "seed": [0, 1, 2, 3], "exponent_steps": 4,
    "inputs": {"gaussian": GAUSSIAN, "planted": {"law": "planted", "cosine": 1.0}},
}  # fmt: skip


def test_the_best_exponent_is_where_the_slope_is_zero_in_each_seed() -> None:
    found = list(best.rows(SETTINGS, table_of(0.5)))
    assert [(row["inputs"], row["criterion"]) for row in found] == [
        ("gaussian", "entropy"), ("planted", "entropy"), ("planted", "match"),
    ]  # fmt: skip
    entropy = found[0]
    # The roots are 0.5, 0.51, 0.52 and 0.53; t(0.975, 3) is 3.182.
    assert entropy["mean"] == pytest.approx(0.515, abs=1e-12)
    half = 3.18244630528371 * np.std([0.5, 0.51, 0.52, 0.53], ddof=1) / 2
    assert entropy["ci_high"] == pytest.approx(0.515 + half, abs=1e-10)
    assert found[2]["mean"] == pytest.approx(1.0, abs=1e-12)


def test_a_law_without_theory_has_no_exact_exponent() -> None:
    graded = {"law": "graded", "cosine": 0.5, "steps": 4}
    settings = SETTINGS | {"inputs": SETTINGS["inputs"] | {"planted": graded}}
    found = list(best.rows(settings, table_of(0.5)))
    assert [math.isnan(row["exact"]) for row in found] == [False, True, True]


@pytest.mark.parametrize(
    "entry", [GAUSSIAN, PLANTED, {"law": "correlated", "correlation": 0.8, "alignment": 0.6}]
)
def test_curves_are_the_exact_means_of_the_law_at_every_exponent(entry: dict[str, Any]) -> None:
    small = SETTINGS | {"d_k": [64, 256], "exponent_steps": 4, "inputs": {"one": entry}}
    found = list(curves.rows(small))
    # Two sizes and one between them, and six exponents.
    assert len(found) == 3 * 6
    assert {row["n_k"] for row in found} == {8}
    row = next(row for row in found if row["d_k"] == 256 and row["exponent"] == 0.75)
    law = points.law_at(entry, 256)
    assert law is not None
    exact = related.expectations_of(law, 8, 256, 64**0.25 * 256**-0.75)
    # Both are accurate to 1e-10.
    assert row["entropy_nats"] == pytest.approx(exact.entropy_nats, rel=1e-9)
    assert row["match_weight"] == pytest.approx(exact.match_weight, rel=1e-9)


def test_curves_have_a_panel_for_each_law_and_an_exact_line_where_theory_has_one() -> None:
    rows = [
        {"d_k": d_k, "n_k": 8, "n_q": 4, "inputs": law, "exponent": p, "metric": metric,
         "n_seeds": 3, "mean": 0.9 if law == "planted" else 0.125, "ci_low": 0.1, "ci_high": 1.0}
        for law in ("gaussian", "planted", "mine") for d_k in (16, 64, 256)
        for p in measure.exponents(4) for metric, _ in figures.METRICS
    ]  # fmt: skip
    exact = pd.DataFrame(list(curves.rows(SETTINGS)))
    with style.context():
        figure = figures.build_curves({"summary": pd.DataFrame(rows), "curves": exact})
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert [title for title in titles if title] == [
        "unrelated (gaussian)", "cosine 0.5 (planted)", "mine",
    ]  # fmt: skip
    drawn = [sum(line.get_label() == "_exact" for line in axes.lines) for axes in figure.axes]
    # Entropy and weight of planted vectors; unrelated ones have no match, and its panel the legend.
    assert drawn == [6, 6, 6, 0, 0]
    assert figure.axes[-1].get_legend() is not None
    assert "For mine theory has none" in " ".join(figure.get_supxlabel().split())


def test_a_seed_without_a_root_is_counted() -> None:
    found = next(iter(best.rows(SETTINGS, table_of(1.495))))
    assert (found["n_seeds"], found["n_without"]) == (1, 3)
    assert math.isnan(found["ci_low"])


def test_the_exact_exponent_of_unrelated_vectors_is_nearly_one_half() -> None:
    found = next(iter(best.rows(SETTINGS, table_of(0.5))))
    # Not exactly: |q| has a law of its own at each d_k, and the root is linear between 0.25 steps.
    assert found["exact"] == pytest.approx(0.5, abs=0.01)


def test_limits_are_where_the_exact_entropy_is_half_of_its_maximum() -> None:
    settings = SETTINGS | {"inputs": {"gaussian": GAUSSIAN, "planted": PLANTED}}
    (row,) = limits.rows(settings)
    law = Law("match", 0.5)
    at = related.expectations_of(law, 8, row["root_fails"], row["root_fails"] ** -0.5)
    # The d_k is exact to 1e-4 of itself, and the entropy falls by about 1 for each factor of 2.
    assert at.entropy_nats == pytest.approx(math.log(8) / 2, abs=2e-4)
    # e^4 against 7: with 8/d_k the match takes most of the weight, rightly, at every large d_k.
    assert row["inverse_holds"] == math.inf
    assert row["inverse_match"] == pytest.approx(math.exp(4) / (math.exp(4) + 7), rel=0.01)
    assert thresholds.match_d_k(law, 8, lambda d_k: 1e-3, rising=True, most=10) == 1.0
    with pytest.raises(ValueError, match="n_k >= 2"):
        thresholds.match_d_k(law, 1, lambda d_k: 1.0, rising=True, most=10)


def row_of(
    mean: float, half: float, *, criterion: str = "entropy", without: int = 0
) -> claims.Part:
    return claims.Part(
        pd.DataFrame(
            [{"criterion": criterion, "n_seeds": 20, "n_without": without, "mean": mean,
              "ci_low": mean - half, "ci_high": mean + half, "exact": math.nan}]
        )
    )  # fmt: skip


def test_the_claims_follow_from_the_interval() -> None:
    def holds(finding: Finding) -> bool | None:
        return finding.holds

    assert holds(claims.unrelated(row_of(0.5, 0.02))) is True
    assert holds(claims.unrelated(row_of(0.7, 0.02))) is False
    assert holds(claims.unrelated(row_of(0.58, 0.05))) is None
    assert holds(claims.related(row_of(1.0, 0.02))) is True
    assert holds(claims.match(row_of(1.2, 0.02, criterion="match"))) is False
    with pytest.raises(MissingError, match="3 of 23 seeds have no best exponent"):
        claims.related(row_of(1.0, 0.02, without=3))
    with pytest.raises(MissingError, match="no best exponent by the criterion match"):
        claims.match(row_of(1.0, 0.02))
    nowhere = row_of(math.nan, math.nan, without=3)
    nowhere.table["n_seeds"] = 0
    assert holds(claims.related(nowhere)) is False


def test_parts_are_laws_of_one_kind() -> None:
    table = pd.DataFrame({"n_k": [8, 8, 8], "inputs": ["gaussian", "planted", "planted"]})
    (one,) = claims.of_laws(SETTINGS, table, wanted=True)
    (other,) = claims.of_laws(SETTINGS, table, wanted=False)
    assert (one.label, len(other.table)) == ("n_k = 8, inputs = gaussian", 2)


def best_table(means: dict[int, float], half: float = 0.002) -> pd.DataFrame:
    """Return best.csv of gaussian and planted vectors, whose exact values are 0.001 larger."""
    rows = [
        {"n_k": n_k, "inputs": inputs, "criterion": "entropy", "n_seeds": 20, "n_without": 0,
         "mean": mean, "ci_low": mean - half, "ci_high": mean + half, "exact": mean + 0.001}
        for inputs, factor in (("gaussian", 0.0), ("planted", 1.0))
        for n_k, mean in ((n, 0.5 + factor * (mean - 0.5)) for n, mean in means.items())
    ]  # fmt: skip
    return pd.DataFrame(rows)


def row_of_claim(name: str, table: pd.DataFrame) -> dict[str, Any]:
    claim = next(one for one in claims.CLAIMS if one.claim == name)
    assert claim.evidence is not None
    return dict(verdicts.judge(claim, claim.evidence(SETTINGS, table)))


def test_a_power_that_falls_as_the_keys_become_more_is_a_condition_with_its_numbers() -> None:
    table = best_table({64: 0.97, 256: 0.91, 4096: 0.79})
    found = row_of_claim("exponent_related", table)
    falls = "the exponent falls as n_k grows: at n_k = 64, 256, 4096 it is 0.971, 0.911, 0.791"
    assert found["verdict"] == "true with a condition"
    assert found["condition"] == (
        f"fails for n_k = 4096, inputs = planted; {falls} (planted, exact)"
    )
    assert f"T{falls[1:]} (planted, exact)." in found["answer"]
    # Where all hold, it is a condition as well; without exact values the means are printed.
    close = row_of_claim("exponent_related", best_table({64: 0.97, 256: 0.91}).assign(exact=np.nan))
    assert close["condition"].endswith("at n_k = 64, 256 it is 0.970, 0.910 (planted)")
    # Unrelated vectors keep 1/2, and intervals that touch show no fall.
    assert row_of_claim("exponent_unrelated", table)["verdict"] == "true"
    level = best_table({64: 0.97, 256: 0.967})
    assert row_of_claim("exponent_related", level)["verdict"] == "true"


def test_a_run_with_one_n_k_says_so() -> None:
    found = row_of_claim("exponent_related", best_table({64: 0.97}))
    assert (found["verdict"], found["condition"]) == (
        "true with a condition", "tried at n_k = 64 only"
    )  # fmt: skip
