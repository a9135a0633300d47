"""The agreement of related vectors with theory: points, samples, table and claim."""

import math
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from campaigns import verdicts_powers
from sqrtdk.core import random_streams
from sqrtdk.core.random_streams import Purpose
from sqrtdk.experiments import cells
from sqrtdk.experiments.related_exact import asked, claims, gate, measure, quadrature
from sqrtdk.stats.intervals import MissingError
from sqrtdk.stats.series import WholeTable
from sqrtdk.theory import related


@pytest.mark.parametrize("vectors", measure.LAWS)
def test_a_point_is_within_its_bounds_and_has_rows_to_see(vectors: str) -> None:
    for seed in range(3):
        generator = random_streams.stream(Purpose.RELATED_EXACT, 99, seed)
        point, exact = measure.draw_point(generator, vectors)
        assert point.d_k % 2 == 0
        assert measure.D_K[0] <= point.d_k <= measure.D_K[1]
        assert measure.N_K[0] <= point.n_k <= measure.N_K[1]
        low, high = (end / math.sqrt(point.d_k) for end in measure.SIGMA)
        # Two roundings of a logarithm and an exponential.
        assert low * (1 - 1e-14) <= point.scale <= high * (1 + 1e-14)
        assert exact == related.expectations_of(point.law, point.n_k, point.d_k, point.scale)
        assert exact.max_weight_gap >= measure.SEEN
        assert point.law.kind == ("sphere" if vectors == "sphere" else "match")


def test_a_sample_is_attention_written_again() -> None:
    point = measure.Point(4, 3, 0.5, {"law": "planted", "cosine": 0.6})
    found = measure.sample(np.random.default_rng(5), point, 60)
    generator = np.random.default_rng(5)
    pairs = []
    for _ in range(60):
        fresh, k = generator.standard_normal((1, 4)), generator.standard_normal((3, 4))
        pairs.append((0.6 * k[:1] + 0.8 * fresh, k))
    d_v = measure.D_V
    v, g = generator.standard_normal((60, 3, d_v)), generator.standard_normal((60, 1, d_v))
    for i, (q, k) in enumerate(pairs):
        p = np.exp(0.5 * q @ k.T)[0]
        p /= p.sum()
        jacobian = np.diag(p) - np.outer(p, p)
        d_logits = jacobian @ (v[i] @ g[i, 0])
        expected = {
            "entropy_nats": -(p * np.log(p)).sum(),
            "sum_sq_weights": (p**2).sum(),
            "max_weight": p.max(),
            "match_weight": p[0],
            "jacobian_sq": (jacobian**2).sum(),
            "grad_logits_sq": (d_logits**2).sum() / d_v,
            "grad_q_sq": ((0.5 * d_logits @ k) ** 2).sum() / d_v,
            "grad_k_sq": (np.outer(0.5 * d_logits, q[0]) ** 2).sum() / d_v,
        }
        assert expected.keys() == set(measure.METRICS)
        for name, value in expected.items():
            assert found[name][i] == pytest.approx(value, rel=1e-11), name


def test_the_z_of_a_point_is_its_deviation_in_standard_errors() -> None:
    slab: Any = {"vectors": "sphere", "draws": 60, "seeds": [7, 8]}
    rows = cells.measure_cells(measure.cells(slab), measure.COLUMNS)
    assert [row["expectation"] for row in rows] == list(measure.METRICS)
    generator = random_streams.stream(Purpose.RELATED_EXACT, measure.LAWS.index("sphere"), 7)
    point, exact = measure.draw_point(generator, "sphere")
    values = measure.sample(generator, point, 60)["max_weight"]
    row = rows[measure.METRICS.index("max_weight")]
    error = values.std(ddof=1) / math.sqrt(60)
    assert row["z"] == pytest.approx((values.mean() - exact.max_weight) / error, rel=1e-12)
    assert (row["size_d_k"], row["size_n_k"]) == (point.d_k, point.n_k)
    assert measure.seconds(slab) > 0
    assert measure.memory(slab | {"draws": 120}) == 2 * measure.memory(slab)


def runs_of(z: np.ndarray) -> pd.DataFrame:
    table = pd.DataFrame(z, columns=measure.METRICS).rename_axis("seed").reset_index()
    found = table.melt("seed", var_name="expectation", value_name="z")
    return found.assign(vectors="planted")


def judged(z: np.ndarray) -> Any:
    settings: Any = {}
    return claims.agreement(WholeTable(pd.DataFrame(list(gate.rows(settings, runs_of(z))))))


def test_the_table_has_the_root_mean_square_of_each_metric_and_of_all() -> None:
    z = np.random.default_rng(0).standard_normal((40, len(measure.METRICS)))
    settings: Any = {}
    rows = {row["metric"]: row for row in gate.rows(settings, runs_of(z))}
    # Sums of 40 and 320 squares.
    assert rows["all"]["rms_z"] == pytest.approx(math.sqrt((z**2).mean()), rel=1e-12)
    assert rows["all"]["max_abs_z"] == np.abs(z).max()
    first = measure.METRICS[0]
    assert rows[first]["rms_z"] == pytest.approx(math.sqrt((z[:, 0] ** 2).mean()), rel=1e-12)


def test_the_claim_needs_every_metric_within_the_bounds() -> None:
    z = np.random.default_rng(1).standard_normal((400, len(measure.METRICS)))
    assert judged(z).holds
    assert judged(z).condition == "tested at 400 points only"
    wrong = z.copy()
    wrong[:, 3] *= 1.4
    assert judged(wrong).holds is False
    wrong = z.copy()
    wrong[5, 2] = 9.0
    assert judged(wrong).holds is False
    with pytest.raises(MissingError, match="40 points, fewer than 100"):
        judged(z[:40])


def test_exact_means_of_two_keys_are_a_double_integral() -> None:
    settings: Any = {}
    runs = pd.DataFrame({"vectors": measure.LAWS})
    table = pd.DataFrame(list(quadrature.rows(settings, runs)))
    assert len(table) == 3 * 2 * len(measure.METRICS)
    # The promise of the theory; measured 1e-13.
    assert table["relative"].max() < 1e-8
    # Of another law the integral is another one.
    other = quadrature.of_two_keys(related.Law("match", 0.51), 16, 0.25)
    assert (
        np.abs(other / table.loc[table["vectors"] == "planted", "exact"].head(8) - 1).min() > 1e-3
    )
    one = quadrature.of_two_keys(related.Law("match", 0.7, 0.3), 16, 0.25)
    sampled = measure.sample(
        np.random.default_rng(4),
        measure.Point(16, 2, 0.25, {"law": "correlated", "correlation": 0.7, "alignment": 0.3}),
        4000,
    )
    for value, values in zip(one, sampled.values(), strict=True):
        # Of eight normal numbers one is beyond 4.5 in 20,000 draws; squares are skewed.
        assert abs(values.mean() - value) < 4.5 * values.std() / 4000**0.5


def test_people_are_told_how_exact_the_exact_values_are() -> None:
    z = np.random.default_rng(0).standard_normal((40, len(measure.METRICS)))
    settings: Any = {}
    runs = runs_of(z)
    made = {"gate": gate, "quadrature": quadrature}
    run: Any = SimpleNamespace(
        table=lambda name: pd.DataFrame(list(made[name].rows(settings, runs)))
    )
    told = asked.exactness(run)
    assert re.search(r"difference from it is [\d.]+e-1[3-6], over 16 means of 2 cells", told)
    rms = math.sqrt((z**2).mean())
    assert f"a root mean square of planted {rms:.2f} (" in told
    empty: Any = SimpleNamespace(table=lambda name: pd.DataFrame())
    with pytest.raises(MissingError, match="no related vectors"):
        asked.exactness(empty)


def test_the_rules_about_powers_rarely_give_a_wrong_verdict() -> None:
    """A few cases of docs/verdicts-powers.md, with fewer runs."""
    for case in verdicts_powers.CASES:
        if case.right == "either":
            continue
        rng = np.random.default_rng(20261130)
        found = []
        for _ in range(4):
            try:
                found.append(case.draw(rng, 20).holds)
            except MissingError:
                found.append(None)
        wrong = case.right == "false"
        # The rates of the page are below 3 %: of 4 runs one wrong verdict in about 10 pages.
        assert found.count(wrong) == 0, case
