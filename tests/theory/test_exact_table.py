"""Exact values and the agreement test: correct code passes it, and each mutant fails it."""

import itertools
import math
import sys
import types
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.interpolate import PchipInterpolator

import sqrtdk.core.gradients
from sqrtdk.core import attention, input_laws, kernel, kernel_sums, scale_rules
from sqrtdk.core.attention import Factor, causal_mask
from sqrtdk.core.metrics import row_metrics
from sqrtdk.experiments import cells
from sqrtdk.experiments.scaling import crossings, tails
from sqrtdk.experiments.scaling import measure as scaling
from sqrtdk.stats import agreement, summary
from sqrtdk.theory import exact_table, thresholds
from sqrtdk.theory import expectations as theory_expectations
from sqrtdk.theory import points as theory_points
from sqrtdk.theory.points import Point

SETTINGS: dict[str, Any] = {
    "d_k": [2, 16, 64],
    "n_k": [16, 48],
    "n_q": [24],
    "d_v": 32,
    "inputs": {"gaussian": {"law": "gaussian"}},
    "dtype": ["float64"],
    "scaling": {
        "off": {"rule": "constant", "value": 1},
        "on": {"rule": "power", "exponent": 0.5},
    },
    "seed": list(range(60)),
}


def expectations() -> dict[Point, theory_expectations.Expectations]:
    return {
        place.point: theory_expectations.expectations(*place.point[:3])
        for place in theory_points.points(SETTINGS)
    }


@pytest.fixture(scope="module")
def known() -> dict[tuple[Any, ...], float]:
    """Return the exact values of the small grid, as the summary looks them up."""
    metrics = [column.name for column in scaling.COLUMNS if not column.axis]
    rows = exact_table.rows(
        theory_points.points(SETTINGS), expectations(), n_qs=[24], metrics=metrics
    )
    frame = pd.DataFrame(rows)[[column.name for column in exact_table.COLUMNS]]
    return summary.exact_values(SETTINGS, frame)


def measured() -> pd.DataFrame:
    slab = {"n_q": 24, "d_v": 32, "inputs": SETTINGS["inputs"], "dtype": "float64"}
    rows = [
        row
        for d_k in SETTINGS["d_k"]
        for n_k in SETTINGS["n_k"]
        for row in cells.measure_cells(
            scaling.cells(
                slab | {"d_k": d_k, "n_k": n_k, "scaling": SETTINGS["scaling"], "seeds": [0, 60]}
            ),
            scaling.COLUMNS,
        )
    ]
    return pd.DataFrame(rows)


def gate(known: dict[tuple[Any, ...], float]) -> agreement.AgreementTest:
    found = agreement.agreement_test(
        pd.DataFrame(summary.summarize(measured(), scaling.COLUMNS, known))
    )
    assert found is not None
    return found


def test_the_gate_is_open_for_the_code_as_it_is(known: dict[tuple[Any, ...], float]) -> None:
    found = gate(known)
    # 6 draws x 17 distinct means: 2 arms x 9 metrics that are not functions of each other, less
    # one, because the standard deviation of the logits of one arm is a multiple of the other's.
    assert (found.points, found.draws) == (102, 6)
    assert found.passed, found


def scaled_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    original = scale_rules.rule

    def twice(entry: dict[str, Any], *, d_k: float, n_k: int) -> Factor:
        made = original(entry, d_k=d_k, n_k=n_k)
        assert isinstance(made, Factor)
        return Factor(made.value**2)

    monkeypatch.setattr(scale_rules, "rule", twice)


def kernel_with(old: str, new: str) -> Callable[[pytest.MonkeyPatch], None]:
    """The kernel with one line of its source changed."""

    def mutate(monkeypatch: pytest.MonkeyPatch) -> None:
        source = Path(kernel_sums.__file__).read_text(encoding="utf-8")
        assert source.count(old) == 1, old
        mutant = types.ModuleType("mutant")
        monkeypatch.setitem(sys.modules, "mutant", mutant)
        exec(compile(source.replace(old, new), "mutant", "exec"), mutant.__dict__)
        monkeypatch.setattr(kernel, "RuleSums", mutant.RuleSums)

    return mutate


LINES = {
    "wrong sign": ("np.subtract(d, (ed[strip]", "np.add(d, (ed[strip]"),
    "forgotten scale": ("= of_q * (factor or 1.0)", "= of_q"),
    "largest weight forgotten": ("p_max = 1.0 / (1.0 + r[strip])", "p_max = 1.0 / r[strip]"),
    "entropy of the others": ("entropy = np.log1p(r) + below_max", "entropy = below_max"),
    "another array for q": ('("k", d_scores, block.q, k_extra)', '("k", d_scores, block.g, None)'),
}

MUTANTS = {"scaled twice": scaled_twice} | {
    name: kernel_with(old, new) for name, (old, new) in LINES.items()
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_gate_is_closed_for_a_wrong_core(
    monkeypatch: pytest.MonkeyPatch,
    known: dict[tuple[Any, ...], float],
    mutant: str,
) -> None:
    MUTANTS[mutant](monkeypatch)
    assert not gate(known).passed


def causal_z(logits_of: Callable[[Any, Any], Any]) -> np.ndarray:
    """Return z of the entropy of each row under a causal mask, where row i sees i + 1 keys."""
    rng = np.random.default_rng(7)
    n, d_k = 24, 16
    q, k = rng.standard_normal((2, 800, n, d_k))
    entropy = row_metrics(logits_of(q, k)).entropy_nats[:, 1:]
    expected = [
        theory_expectations.expectations(i + 1, d_k, d_k**-0.5).entropy_nats for i in range(1, n)
    ]
    error = entropy.std(axis=0, ddof=1) / math.sqrt(len(q))
    return np.asarray((entropy.mean(axis=0) - expected) / error)


def test_the_gate_holds_under_a_causal_mask_and_notices_a_scale_after_it() -> None:
    mask = causal_mask(24, 24)

    def right(q: Any, k: Any) -> Any:
        return attention.attention(q, k, k, scale=0.25, mask=mask).logits

    def after_the_mask(q: Any, k: Any) -> Any:
        # The usual "large" negative number is divided with the scores and lets hidden keys in.
        return np.where(mask, q @ np.swapaxes(k, -1, -2), -10.0) * 0.25

    z = causal_z(right)
    # 23 nearly independent z: beyond 4.5 once in 6000 runs; their rms has sd 0.15.
    assert np.abs(z).max() < 4.5
    assert 0.5 < np.sqrt(np.mean(z**2)) < 1.5
    assert np.abs(causal_z(after_the_mask)).max() > 4.5


def test_exact_values_exist_only_for_the_laws_of_the_theory_and_plain_factors() -> None:
    def names(**changes: Any) -> set[str]:
        return {place.scaling for place in theory_points.points(SETTINGS | changes)}

    assert names() == {"off", "on"}
    for law in (
        {"law": "graded", "cosine": 0.5, "steps": 4},
        {"law": "rademacher"},
        {"law": "planted", "cosine": 1.0},
        {"law": "sphere", "arrays": "k"},
    ):
        assert names(inputs={"one": law}) == set()
    capped = SETTINGS["scaling"] | {"soft_cap": {"rule": "soft_cap", "cap": 5}}
    assert names(scaling=capped) == {"off", "on"}
    matched = {"one": {"law": "planted", "cosine": 0.5}}
    normed = SETTINGS["scaling"] | {"qk_norm": {"rule": "qk_norm", "scale": 8}}
    assert names(scaling=normed) == {"off", "on", "qk_norm"}
    assert names(scaling=normed, inputs=matched) == {"off", "on"}


@pytest.mark.parametrize("law", [{"law": "gaussian"}, {"law": "sphere", "arrays": "both"}])
def test_qk_norm_has_the_exact_values_of_the_sphere_for_what_follows_from_the_logits(
    law: dict[str, Any],
) -> None:
    settings = SETTINGS | {
        "d_k": [4],
        "n_k": [6],
        "inputs": {"one": law},
        "scaling": {"qk_norm": {"rule": "qk_norm", "scale": 8}},
    }
    (place,) = theory_points.points(settings)
    # With keys of their own for each query, all rows are independent.
    normal = np.random.default_rng(5).standard_normal
    q, k = normal((20_000, 1, 4)), normal((20_000, 6, 4))
    cosines = (q @ np.swapaxes(k, 1, 2))[:, 0] / (
        np.linalg.norm(q, axis=-1) * np.linalg.norm(k, axis=-1)
    )
    weights = np.exp(8 * cosines) / np.exp(8 * cosines).sum(axis=-1, keepdims=True)
    known = {place.point: theory_points._expectations_at(place.point)}
    metrics = ["entropy_nats", "sum_sq_weights", "max_weight", "grad_q_rms", "grad_scores_rms"]
    rows = exact_table.rows([place], known, n_qs=[2], metrics=metrics)
    exact = {str(row["metric"]): row["exact"] for row in rows}
    assert set(exact) == set(metrics[:3])
    for name, found in (
        ("entropy_nats", -np.sum(weights * np.log(weights), axis=-1)),
        ("sum_sq_weights", np.sum(weights**2, axis=-1)),
        ("max_weight", weights.max(axis=-1)),
    ):
        z = (found.mean() - exact[name]) / (found.std() / math.sqrt(len(found)))
        # Three z of one draw: beyond 4 once in 5,000 of them.
        assert abs(z) < 4


def test_rows_of_keys_carry_the_ratio_of_queries_to_keys() -> None:
    point = Point(48, 16.0, 0.25)
    found = expectations()[point]
    assert exact_table.value("grad_q_rms", point, found, 24) == math.sqrt(found.grad_q_sq)
    assert exact_table.value("grad_k_rms", point, found, 24) == math.sqrt(found.grad_k_sq / 2)
    assert exact_table.value("logit_std", point, found, 24) == 1.0
    assert exact_table.value("grad_q_median", point, found, 24) is None


def test_a_curve_keeps_the_grids_own_points_to_the_bit() -> None:
    assert set(map(float, [3, 7, 1000])) <= set(theory_points.curve([3, 7, 1000]))
    assert theory_points.curve([64]) == [64.0]


def test_shards_of_expectations_are_one_file_for_each_n_k() -> None:
    specs = theory_points.specs(place.point for place in theory_points.points(SETTINGS))
    assert sorted(spec["n_k"] for spec in specs.values()) == [16, 48]
    assert all(name.startswith(f"nk{spec['n_k']}-") for name, spec in specs.items())


def test_the_tail_is_the_sorted_norms_and_their_energy() -> None:
    found = list(tails.tail(np.array([0.0, 3.0, 1.0, 0.0])))
    assert [row["rows_share"] for row in found] == [0.25, 0.5, 0.75, 1.0]
    assert [row["row_norm"] for row in found] == [3.0, 1.0, 0.0, 0.0]
    # 9 of 10; one division and one sum are rounded.
    assert [row["energy_share"] for row in found] == pytest.approx([0.9, 1, 1, 1], rel=1e-15)


def test_the_tail_of_zeros_has_no_energy_to_share() -> None:
    assert all(math.isnan(row["energy_share"]) for row in tails.tail(np.zeros(3)))


def test_the_tail_of_tiny_norms_does_not_vanish() -> None:
    (first, second) = tails.tail(np.array([1e-200, 1e-200]))
    assert (first["energy_share"], second["energy_share"]) == (0.5, 1.0)


def test_without_scaling_few_rows_carry_the_gradient() -> None:
    settings = SETTINGS | {"d_k": [1024], "seed": [0, 1, 2, 3]}
    share = {
        row["scaling"]: row["energy_share"]
        for row in tails.rows(settings)
        if row["gradient"] == "q" and row["rows_share"] <= 0.02
    }
    assert share["off"] > 2 * share["on"]


def test_tails_pool_the_row_norms_of_the_grids_own_cells() -> None:
    settings = SETTINGS | {"d_k": [16], "n_k": [48], "seed": [3, 5]}
    found = [row for row in tails.rows(settings) if row["gradient"] == "q"]
    norms = []
    for seed in (3, 5):
        arrays = input_laws.draw({"law": "gaussian"}, d_k=16, n_k=48, n_q=24, d_v=32, seed=seed,
                             dtype="float64")  # fmt: skip
        forward = attention.attention(*arrays[:3], scale=0.25)
        d_q = sqrtdk.core.gradients.gradients(*arrays, forward, scale=0.25).q
        norms += np.linalg.norm(d_q, axis=1).tolist()
    on = [row["row_norm"] for row in found if row["scaling"] == "on"]
    # Every rank but the middle ones is shown: the largest, the smallest, and how many there are.
    assert on[0] == pytest.approx(max(norms) / math.sqrt(32), rel=1e-13)
    assert on[-1] == pytest.approx(min(norms) / math.sqrt(32), rel=1e-13)
    assert {row["n_seeds"] for row in found} == {2}
    order = [(row["scaling"], row["gradient"]) for row in tails.rows(settings)]
    assert list(dict.fromkeys(order)) == list(itertools.product(["off", "on"], ["logits", "q"]))


def test_tails_hold_one_draw_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    alive: list[weakref.ref[Any]] = []

    def draw(*arguments: Any, **more: Any) -> Any:
        made = input_laws.draw(*arguments, **more)
        alive.append(weakref.ref(made.q))
        # The one before is still a name of the loop until this one has taken its place.
        assert sum(one() is not None for one in alive) <= 2
        return made

    monkeypatch.setattr(tails, "draw", draw)
    assert list(tails.rows(SETTINGS | {"d_k": [2], "seed": list(range(6))}))
    assert len(alive) == 6


def summary_table(curves_by_arm: dict[tuple[str, str], dict[int, float]]) -> pd.DataFrame:
    axes = {"n_k": 48, "n_q": 24, "inputs": "gaussian", "dtype": "float64"}
    rows = [
        {"d_k": d_k, **axes, "scaling": arm, "metric": metric, "n_seeds": 9, "mean": mean,
         "sd": 0.0, "median": mean, "ci_low": mean * 0.99, "ci_high": mean * 1.01,
         "exact": math.nan, "z": math.nan}
        for (arm, metric), points in curves_by_arm.items()
        for d_k, mean in points.items()
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_crossings_are_found_missed_or_there_from_the_start() -> None:
    on = {1: 1.0, 4: 1.0, 16: 1.0, 64: 1.0}
    table = summary_table(
        {
            ("off", "entropy_normalized"): {1: 0.9, 4: 0.75, 16: 0.25, 64: 0.1},
            ("off", "max_weight"): {1: 0.2, 4: 0.4, 16: 0.85, 64: 0.95},
            ("off", "grad_logits_dead_entries"): {1: 0.0, 4: 0.1, 16: 0.2, 64: 0.3},
            ("on", "grad_q_rms"): on,
            ("off", "grad_q_rms"): {1: 1.0, 4: 2.0, 16: 3.0, 64: 4.0},
            ("on", "grad_q_median"): on,
            ("off", "grad_q_median"): {1: 1.0, 4: 1.5, 16: 0.5, 64: 0.1},
            ("on", "grad_v_median"): on,
            ("off", "grad_v_median"): {1: 1.0, 4: 0.9, 16: 0.5, 64: 0.1},
        }
    )
    found = {row["quantity"]: row for row in crossings.rows(SETTINGS, table)}
    # The logits of the shares are symmetric about 8 in ln d_k, and so is a cubic through them.
    assert found["half_entropy"]["d_k"] == pytest.approx(8.0)
    assert found["half_entropy"]["exact"] == thresholds.half_entropy_d_k(48)
    assert found["half_entropy"]["two_ln_n_k"] == 2 * math.log(48)
    assert 16 < found["one_hot"]["d_k"] < 64
    assert found["one_hot"]["exact"] == thresholds.one_hot_d_k(48, 0.9)
    assert found["dead_entries"]["beyond"] == "never"
    assert math.isnan(found["dead_entries"]["exact"])
    ratio = PchipInterpolator(np.log([4, 16, 64]), np.log([1.5, 0.5, 0.1]))
    assert ratio(math.log(found["grad_q_median"]["d_k"])) == pytest.approx(0, abs=1e-9)
    assert (found["grad_q_rms"]["beyond"], found["grad_q_rms"]["exact"]) == ("never", math.inf)
    assert found["grad_v_median"]["beyond"] == "always"
    assert math.isnan(found["grad_v_median"]["d_k"])
    assert "grad_k_rms" not in found
