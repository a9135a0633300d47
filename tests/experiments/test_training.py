"""The training experiment: its cells, best rates, equivalent runs, claims and figures."""

import csv
import itertools
import math
import re
from pathlib import Path
from typing import Any

import learned
import matplotlib.text
import numpy as np
import pandas as pd
import pytest
from conftest import snakemake
from registered import FIGURES

from campaigns import verdicts_trained
from sqrtdk.config import errors, limits
from sqrtdk.config import run as config_run
from sqrtdk.experiments import cells
from sqrtdk.experiments.training import claims as training_claims
from sqrtdk.experiments.training import equivalence, pivot, rates
from sqrtdk.experiments.training import figures as training_figures
from sqrtdk.experiments.training import measure as training
from sqrtdk.figures import style
from sqrtdk.jobs import judge
from sqrtdk.report import pivots
from sqrtdk.stats import decisions, intervals
from sqrtdk.storage import tables

RULES = {
    "off": {"rule": "constant", "value": 1},
    "on": {"rule": "power", "exponent": 0.5},
}
SLAB: dict[str, Any] = {
    "d_k": 11, "n_k": 7, "batch_size": 5, "d_model": 13, "d_v": 3, "noise_sd": 0.5, "steps": 20,
    "optimizer": "adam", "loss": "values", "learning_rate": [0.01, 0.1], "scaling": RULES,
    "seeds": [0, 2],
}  # fmt: skip


def rows(**changes: Any) -> list[tables.Row]:
    return cells.measure_cells(training.cells(SLAB | changes), training.COLUMNS)


def as_text(found: list[tables.Row], **at: Any) -> list[str]:
    """Return the lines of the rows at these values of their axes, as in a table."""
    kept = [row for row in found if all(row[name] == value for name, value in at.items())]
    assert kept
    order = sorted(kept, key=tables.axes_of(training.COLUMNS))
    return tables.text(order, training.COLUMNS).splitlines()[1:]


# Cells


def test_every_cell_has_a_row_for_each_logged_step() -> None:
    axes = [c.name for c in training.COLUMNS if c.axis]
    found = {tuple(row[name] for name in axes) for row in rows()}
    expected = itertools.product(("off", "on"), (0.01, 0.1), (0, 1), (0, 8, 16, 20))
    assert {one[5:] for one in found} == set(expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_no_digit_depends_on_how_the_grid_is_cut(
    optimizer: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    this: dict[str, Any] = {"optimizer": optimizer, "training_dtype": dtype}
    whole = rows(**this)
    at = {"seed": 1, "learning_rate": 0.1, "scaling": "on"}
    part = rows(**this, seeds=[1, 2], learning_rate=[0.1], scaling={"on": RULES["on"]})
    assert as_text(part) == as_text(whole, **at)
    for cap in ("ENTRIES", "SCORES"):
        with monkeypatch.context() as alone:
            alone.setattr(training, cap, 1)
            assert as_text(rows(**this)) == as_text(whole)
    # Three at once, so that the last of the four is alone.
    monkeypatch.setattr(training, "SCORES", 3 * training._widest(SLAB))
    assert as_text(rows(**this)) == as_text(whole)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_float32_training_is_float64_training_with_more_rounding(optimizer: str) -> None:
    single, double = (
        rows(optimizer=optimizer, training_dtype=dtype) for dtype in ("float32", "float64")
    )
    for one, other in zip(single, double, strict=True):
        # Single precision has 2^-24 = 6e-8; 20 steps, in which Adam divides by entries of the
        # gradient that may be small, magnify it.
        assert one["held_out_loss"] == pytest.approx(other["held_out_loss"], rel=1e-3)
        assert one["held_out_loss"] != other["held_out_loss"]
        # The signal is a small difference of large sums: always in double precision.
        assert one["grad_snr"] == other["grad_snr"] or math.isnan(other["grad_snr"])


def test_a_longer_training_begins_with_the_shorter_one() -> None:
    short, longer = rows(), rows(steps=40)
    assert as_text(short, step=16) == as_text(longer, step=16)


def test_arms_and_sizes_share_their_data() -> None:
    (batches, held_out), (others, _) = (
        training.draw(SLAB | change, 3) for change in ({}, {"d_k": 64, "loss": "weights"})
    )
    for mine, theirs in zip(batches, others, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert not np.array_equal(batches.items[0], batches.items[1])
    assert not np.array_equal(batches.items[0], held_out.items[0])
    other_seed, _ = training.draw(SLAB, 4)
    assert not np.array_equal(batches.items, other_seed.items)


def test_held_out_libraries_are_asked_for_each_item_once() -> None:
    _, held_out = training.draw(SLAB, 0)
    assert held_out.targets.size >= training.HELD_OUT
    assert held_out.targets.tolist() == [list(range(7))] * len(held_out.targets)


def test_at_the_start_q_and_k_have_entries_of_variance_1() -> None:
    slab = SLAB | {"d_k": 1000}
    batches, _ = training.draw(slab, 0)
    w_q, w_k = training.projections(slab, 0)
    # Items have mean square 1 exactly, queries 1 + noise².
    assert np.mean(np.square(batches.items)) == pytest.approx(1, rel=1e-12)
    # 13 000 entries of each projection: a standard error of 1.2 %.
    assert np.mean(np.square(batches.items @ w_k)) == pytest.approx(1, rel=0.05)
    assert np.mean(np.square(batches.queries @ w_q)) == pytest.approx(1.25, rel=0.07)
    assert not np.array_equal(w_q, w_k)


def test_d_k_1_is_the_same_with_and_without_scaling() -> None:
    found = rows(d_k=1)
    strip = [
        [",".join(line.split(",")[6:]) for line in as_text(found, scaling=arm)] for arm in RULES
    ]
    assert strip[0] == strip[1]


def test_only_the_first_row_has_a_noise_ratio_and_steps_count_from_reaching() -> None:
    for row in rows(steps=200, loss="weights", learning_rate=[0.03]):
        assert math.isnan(row["grad_snr"]) == (row["step"] > 0)
        if not math.isnan(row["steps_to_90"]):
            assert row["steps_to_90"] <= row["step"]
        if row["accuracy"] >= training.LEARNT_ACCURACY:
            assert row["steps_to_90"] <= row["step"]
    assert any(row["steps_to_90"] > 0 for row in rows(steps=200, loss="weights"))


def test_a_run_that_diverges_has_rows_that_say_so() -> None:
    found = rows(optimizer="sgd", loss="weights", learning_rate=[0.01, 1e200], seeds=[0, 1])
    by = {(r["learning_rate"], r["step"], r["scaling"]): r for r in found}
    assert by[1e200, 20, "off"]["diverged"] == 1
    assert math.isnan(by[1e200, 20, "off"]["held_out_loss"])
    assert by[0.01, 20, "off"]["diverged"] == 0


def test_scaling_keeps_the_signal_that_a_saturated_softmax_loses() -> None:
    found = rows(d_k=256, learning_rate=[0.01])
    snr = {arm: np.mean([r["grad_snr"] for r in found if r["scaling"] == arm and not r["step"]])
           for arm in RULES}  # fmt: skip
    assert snr["on"] > 2 * snr["off"]


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("learning_rate=0", "learning_rate: 0 is not allowed; allowed: finite numbers above 0"),
        ("optimizer=rmsprop", "optimizer: 'rmsprop' is not allowed; allowed: sgd or adam"),
        ("loss=output", "allowed: values or weights"),
        ("steps=0", "steps: 0 is not allowed; allowed: whole numbers from 1"),
        ("noise_sd=-1", "noise_sd: -1 is not allowed"),
        ("batch_size=2.5", "batch_size: 2.5 is not allowed"),
    ],
)
def test_bad_input_is_one_line(override: str, said: str) -> None:
    with pytest.raises(errors.ConfigError) as refused:
        learned.settings(override)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_memory_grows_with_every_size_and_covers_the_arrays() -> None:
    sizes = {k: v for k, v in SLAB.items() if isinstance(v, int)} | {"n_k": 300}
    need = training.memory(sizes)
    for name in ("n_k", "batch_size", "d_model", "d_v", "steps"):
        assert training.memory(sizes | {name: 10 * sizes[name]}) > need
    batches, held_out = training.draw(sizes | {"noise_sd": 1.0}, 0)
    assert need > sum(array.nbytes for batch in (batches, held_out) for array in batch)


MANY = {"learning_rate": np.linspace(0.01, 0.1, 40).tolist()}


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize(
    "changes",
    [
        # What each is most of: runs side by side, long libraries, batches, probes, cross matrices.
        {"n_k": 64, "batch_size": 1, "d_model": 4} | MANY,
        {"n_k": 600, "batch_size": 1, "d_model": 4},
        {"steps": 500, "d_v": 60},
        {"batch_size": 200},
        {"d_model": 128},
    ],
)
def test_memory_is_what_the_runs_of_a_seed_take(
    optimizer: str, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import tracemalloc

    if "steps" in changes:
        # Otherwise more is held for probes than for the steps of a short test.
        monkeypatch.setattr(training, "PROBES", 32)
    slab = SLAB | {"optimizer": optimizer, "steps": 4, "seeds": [0, 1]} | changes
    tracemalloc.start()
    cells.measure_cells(training.cells(slab), training.COLUMNS)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # The estimate refuses a run before it starts, so it must not be far below the truth; above
    # it there is room, because it does not know the optimizer and the loss.
    assert 0.5 < training.memory(slab) / peak < 2


def test_memory_grows_with_the_runs_up_to_a_cap() -> None:
    # A batch of one keeps what is drawn below what is trained.
    small = {"n_k": 64, "batch_size": 1, "d_model": 4}
    sizes = {k: v for k, v in SLAB.items() if isinstance(v, int)} | small

    def need(runs: int) -> int:
        return training.memory(sizes | {"learning_rate": [1.0] * runs, "scaling": {"on": {}}})

    assert training.SCORES // training._widest(sizes) == 16
    assert need(1) < need(8) < need(16) == need(10**6)


def test_a_run_is_refused_by_the_memory_of_its_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, Any]] = []

    def memory(slab: dict[str, Any]) -> int:
        seen.append(slab)
        return 0

    monkeypatch.setattr(training, "memory", memory)
    limits.check_memory(config_run.Run("mine", 50, {"training": learned.settings()}))
    assert seen[0]["learning_rate"] == [0.01, 0.1]
    assert list(seen[0]["scaling"]) == ["off", "on"]


# Best rates


def runs(cells_: dict[tuple[str, float], list[float]], steps: int = 40) -> pd.DataFrame:
    """Return a runs.csv by (scale rule, rate): steps to 90 % of each seed, inf if not reached."""
    found = []
    for (arm, rate), seeds in cells_.items():
        for seed, reached in enumerate(seeds):
            row = {column.name: math.nan for column in training.COLUMNS} | {
                "d_k": 64, "n_k": 16, "batch_size": 16, "optimizer": "adam", "loss": "values",
                "scaling": arm, "learning_rate": rate, "seed": seed, "step": steps,
                "accuracy": 0.95 if math.isfinite(reached) else 0.2,
                "steps_to_90": reached if math.isfinite(reached) else math.nan,
            }  # fmt: skip
            found += [row | {"step": 0, "steps_to_90": math.nan}, row]
    return learned.frame(found, "runs")


def best_of(table: pd.DataFrame, rate_grid: list[float]) -> dict[str, dict[str, Any]]:
    settings = {"steps": 40, "learning_rate": rate_grid, "scaling": RULES}
    found = list(rates.rows(settings, table))
    assert [row["best"] for row in found].count(1) == len({row["scaling"] for row in found})
    return {row["scaling"]: row for row in found if row["best"]}


INF = math.inf


def test_a_run_that_never_got_there_counts_as_slow() -> None:
    found = best_of(
        runs(
            {
                ("on", 0.1): [10, 11, 12, 13, 14, 15],
                ("on", 1.0): [5, 5, INF, INF, INF, INF],
                ("on", 10.0): [INF] * 6,
                ("off", 0.1): [20, 22, 30, 39, INF, INF],
                ("off", 1.0): [INF] * 6,
                ("off", 0.01): [INF] * 6,
            }
        ),
        [0.01, 0.1, 1.0, 10.0],
    )
    # At rate 1 the two that reached it were faster, and leaving the others out would choose it.
    assert found["on"]["learning_rate"] == 0.1
    assert (found["on"]["steps_to_90"], found["on"]["ci_low"], found["on"]["ci_high"]) == (
        12.5, 10, 15,
    )  # fmt: skip
    assert (found["off"]["steps_to_90"], found["off"]["ci_high"]) == (34.5, INF)
    assert (found["off"]["reached"], found["off"]["n_seeds"]) == (4, 6)
    # 20/10, 22/11, 30/12, 39/13, at least 40/14, at least 40/15.
    assert found["off"]["ratio_least"] == pytest.approx(typical([2, 2, 2.5, 3, 40 / 14, 40 / 15]))
    # 11 of the 21 pairs have one of the last two.
    assert found["off"]["ratio_most"] == INF
    assert (found["off"]["ratio_low"], found["off"]["ratio_high"]) == (2.0, INF)
    assert found["on"]["ratio_least"] == found["on"]["ratio_most"] == 1


def test_each_seed_is_reported_at_the_rate_that_the_other_half_chose() -> None:
    # Seeds 0, 2, 4 are faster at rate 0.1, seeds 1, 3, 5 at rate 1.
    table = runs({("on", 0.1): [10, 30, 10, 30, 10, 30], ("on", 1.0): [20, 12, 20, 12, 20, 12],
                  ("on", 0.01): [INF] * 6, ("on", 10.0): [INF] * 6})  # fmt: skip
    on = best_of(table, [0.01, 0.1, 1.0, 10.0])["on"]
    assert (on["rate_first"], on["rate_second"]) == (1.0, 0.1)
    # 20 for the first half at the second's rate, 30 for the second half at the first's.
    assert on["crossfit_steps"] == 25
    assert (on["crossfit_low"], on["crossfit_high"]) == (20, 30)
    # On all seeds the best is rate 1, with a median of 16.
    assert (on["learning_rate"], on["steps_to_90"]) == (1.0, 16)
    one = best_of(runs({("on", 0.1): [10.0], ("on", 1.0): [20.0]}), [0.1, 1.0])["on"]
    assert (one["rate_first"], one["rate_second"], one["crossfit_steps"]) == (0.1, 0.1, 10)


def test_a_rate_that_was_chosen_on_other_seeds_does_not_look_faster_than_it_is() -> None:
    # Seven rates, all as good: 40 steps. Chosen and reported on the same six seeds, the best looks
    # faster, by about a tenth; chosen on the other half, the mean of 300 medians is that of any
    # rate to within three standard errors of about 0.25 each.
    rng = np.random.default_rng(0)
    same, fair, any_rate = [], [], []
    for _ in range(300):
        drawn = 40 * np.exp(0.25 * rng.standard_normal((6, 7)))
        ones = np.ones_like(drawn)
        found = rates.Runs(list(range(6)), list(map(float, range(7))), drawn, ones, 0 * ones)
        same.append(intervals.median(drawn[:, rates.choose(found)]))
        fair.append(intervals.median(drawn[np.arange(6), rates.choose_by_halves(found).places]))
        any_rate.append(intervals.median(drawn[:, 0]))
    assert np.mean(same) < 0.9 * np.mean(any_rate)
    assert abs(np.mean(fair) - np.mean(any_rate)) < 3 * 0.25 * math.sqrt(2)


def test_an_arm_with_more_good_rates_gets_no_advantage_from_choosing() -> None:
    # The truth is 1 for both rules; the old one says that scaling helps with every second run.
    cases = {case.truth: case for case in verdicts_trained.CASES if case.claim == "training"}
    fair, old = (
        verdicts_trained.shares(case, 12, repeats=40)
        for truth, case in cases.items()
        if truth.endswith(("five with scaling", "on the same seeds"))
    )
    assert fair["true"] <= 0.15
    assert old["true"] > fair["true"]


@pytest.mark.parametrize("seeds", [6, 12, 80])
@pytest.mark.parametrize("case", verdicts_trained.CASES, ids=lambda case: f"{case[0]}, {case[1]}")
def test_no_number_of_seeds_gives_the_wrong_verdict(
    case: verdicts_trained.Case, seeds: int
) -> None:
    """The table of docs/verdicts-trained.md, with fewer runs."""
    found = verdicts_trained.shares(case, seeds, repeats=8)
    wrong = {"true": "false", "false": "true"}.get(case.right)
    if case.right == "undecided":
        assert found["undecided"] >= 0.75
    elif wrong:
        # A 95 % interval is wrong on one side in 2.5 %: two of eight would be 1.6 % chance.
        assert found[wrong] <= 0.125
        assert found[case.right] == 1 or seeds < 80


def test_a_best_rate_at_the_edge_says_so() -> None:
    table = runs(
        {("on", 0.1): [10.0], ("on", 1.0): [20.0], ("off", 0.1): [9.0], ("off", 1.0): [8.0]}
    )
    found = best_of(table, [0.1, 1.0])
    assert (found["on"]["edge"], found["off"]["edge"]) == ("lowest", "highest")
    assert math.isnan(found["on"]["ci_low"])
    alone = best_of(runs({("on", 0.1): [10.0]}), [0.1])
    assert alone["on"]["edge"] == "only"


def test_where_no_rate_gets_there_the_most_accurate_is_best() -> None:
    table = runs({("off", 0.1): [INF] * 6, ("off", 1.0): [INF] * 6, ("off", 3.0): [INF] * 6})
    table.loc[(table["learning_rate"] == 1.0), "accuracy"] = 0.5
    table.loc[(table["learning_rate"] == 3.0), "accuracy"] = math.nan
    found = best_of(table, [0.1, 1.0, 3.0])["off"]
    assert found["learning_rate"] == 1.0
    assert found["steps_to_90"] == INF
    assert math.isnan(found["ratio_least"])
    assert math.isnan(found["ratio_most"])


def test_neither_arm_there_leaves_the_ratio_open() -> None:
    none, some = pd.Series([INF, INF, INF]), pd.Series([10.0, 10.0, 10.0])

    def bounds(seeds: pd.Series, scaled: pd.Series) -> tuple[float, float]:
        row = rates.compare(seeds, scaled, 40)
        return row["ratio_least"], row["ratio_most"]

    assert bounds(none, none) == (0, INF)
    assert bounds(none, some) == (4, INF)
    assert bounds(some, none) == (0, 0.25)
    at_once = pd.Series([0.0, 0.0, 0.0])
    assert bounds(at_once, at_once) == (0, INF)


def typical(ratios: list[float]) -> float:
    """Return the median of the geometric means of all pairs, from their definition."""
    pairs = itertools.combinations_with_replacement(ratios, 2)
    return float(np.exp(np.median([(math.log(a) + math.log(b)) / 2 for a, b in pairs])))


def test_a_missed_run_bounds_the_ratio_of_its_own_seed() -> None:
    # The last two ratios are at least 40 and at least 31, by the 400 steps.
    scaled = pd.Series([10.0, 10.0, 10.0, 8.0, 10.0, 12.9])
    unscaled = pd.Series([120.0, 180.0, 280.0, 344.0, INF, INF])
    found = rates.compare(unscaled, scaled, 400)
    known = [12.0, 18.0, 28.0, 43.0]
    assert found["ratio_least"] == pytest.approx(typical([*known, 40, 400 / 12.9]))
    # 11 of the 21 pairs have one of the two.
    assert found["ratio_most"] == INF
    assert (found["ratio_low"], found["ratio_high"]) == (pytest.approx(12), INF)
    # The other way round every bound is the inverse of another.
    inverse = rates.compare(scaled, unscaled, 400)
    assert inverse["ratio_most"] == pytest.approx(1 / found["ratio_least"])
    assert inverse["ratio_least"] == pytest.approx(1 / found["ratio_most"])
    assert (inverse["ratio_low"], inverse["ratio_high"]) == (0, pytest.approx(1 / 12))


@pytest.mark.parametrize("seed", range(20))
def test_the_bounds_hold_what_longer_training_would_have_shown(seed: int) -> None:
    rng = np.random.default_rng(seed)
    unscaled, scaled = (pd.Series(rng.integers(1, 90, 9).astype(float)) for _ in range(2))
    whole = rates.compare(unscaled, scaled, 100)
    assert whole["ratio_least"] == whole["ratio_most"]
    assert whole["ratio_least"] == pytest.approx(typical(list(unscaled / scaled)))
    cut = rates.compare(*(x.where(x <= 40, INF) for x in (unscaled, scaled)), 40)
    assert cut["ratio_least"] <= whole["ratio_least"] <= cut["ratio_most"]
    assert cut["ratio_low"] <= whole["ratio_low"]
    assert cut["ratio_high"] >= whole["ratio_high"]


def test_the_interval_of_a_median_covers_it_in_95_of_100_samples() -> None:
    # Six values: outside only if all are on one side, 2/64.
    rng = np.random.default_rng(0)
    for count, expected in ((6, 1 - 2 / 64), (9, 1 - 2 * 10 / 512), (12, 1 - 2 * 79 / 4096)):
        samples = rng.exponential(size=(4000, count))
        ends = np.array([intervals.median_interval(sample) for sample in samples])
        inside = (ends[:, 0] <= math.log(2)) & (math.log(2) <= ends[:, 1])
        # Four standard errors of a share of 4000.
        assert abs(inside.mean() - expected) < 4 * math.sqrt(0.05 * 0.95 / 4000)
        assert expected >= 0.95
    assert np.isnan(intervals.median_interval(np.arange(5.0))).all()


# Twins and claims


def test_twins_of_a_real_run_are_the_runs_of_the_table() -> None:
    found = learned.tables()["twins"]
    assert len(found) == 2 * 2 * 2 * 2
    assert (found["steps_to_90"] == found["twin_steps_to_90"]).all()
    sgd = found[found["optimizer"] == "sgd"]
    # 20 steps of a few hundred roundings each.
    assert sgd["difference"].max() < 1e-12
    np.testing.assert_allclose(sgd["twin_rate"], sgd["learning_rate"] / np.sqrt(sgd["d_k"]))
    # At d_k = 16 the factors are powers of two, and Adam rounds alike; at 64 it amplifies rounding.
    adam = found[found["optimizer"] == "adam"]
    assert adam.loc[adam["d_k"] == 16, "difference"].max() == 0
    assert adam["difference"].max() < training_claims.SAME_LOSS_RTOL


def test_no_twins_without_the_arm_that_they_are_twins_of() -> None:
    assert learned.tables("scaling=off", "d_k=16", "seeds=1")["twins"].empty


def rates_table(
    ratios: dict[int, tuple[float, float, float]], edge: str = "", most: float | None = None
) -> pd.DataFrame:
    """A rates.csv of the arms at their best rates; `edge` is that of the unscaled one.

    A ratio has its interval; `most` is its upper bound where that is another than the lower.
    """
    found = []
    for d_k, (ratio, low, high) in ratios.items():
        common = {
            "d_k": d_k, "n_k": 16, "batch_size": 16, "optimizer": "adam", "loss": "values",
            "learning_rate": 0.01, "n_seeds": 6, "reached": 6, "steps": 400, "best": 1, "edge": "",
            "final_accuracy": 1.0, "diverged": 0,
        }  # fmt: skip
        on = {"scaling": "on", "steps_to_90": 10.0, "ci_low": 9.0, "ci_high": 11.0,
              "ratio_least": 1.0, "ratio_most": 1.0, "ratio_low": 1.0,
              "ratio_high": 1.0}  # fmt: skip
        off = {"scaling": "off", "steps_to_90": 10 * ratio, "ci_low": 10 * low,
               "ci_high": 10 * high, "ratio_least": ratio, "ratio_low": low,
               "ratio_high": high, "ratio_most": ratio if most is None else most,
               "edge": edge}  # fmt: skip
        for arm in (common | off, common | on):
            report = ("steps", "low", "high"), ("steps_to_90", "ci_low", "ci_high")
            found.append(
                arm | {f"crossfit_{name}": arm[own] for name, own in zip(*report, strict=True)}
            )
    return learned.frame(found, "rates")


def judged(
    table: pd.DataFrame, name: str = "rates", rules: Any = RULES, claim: str = ""
) -> dict[str, Any]:
    run = config_run.Run("mine", 50, {"training": {"scaling": rules}})
    ledger = judge.claims_table(run, {("training", name): table})
    claim = claim or {"rates": "training", "twins": "training_twin"}[name]
    return {row["claim"]: row for row in ledger}[claim]


def test_scaling_helps_by_the_interval_of_the_ratio_at_the_largest_d_k() -> None:
    helps = judged(rates_table({16: (2.0, 1.5, 3.0), 1024: (20.0, 10.0, 30.0)}))
    # The condition that it always has is of the initial weights.
    assert helps["verdict"] == "true with a condition"
    assert helps["condition"].startswith("if training begins with")
    assert "20 times (10 to 30) at d_k = 1024" in helps["numbers"]
    little = judged(rates_table({1024: (1.8, 1.5, 2.0)}))
    assert "only by a factor of 1.8 (1.5 to 2.0)" in little["condition"]
    harms = judged(rates_table({16: (2.0, 1.5, 3.0), 1024: (0.8, 0.7, 0.9)}))
    assert harms["verdict"] == "false"
    open_ = judged(rates_table({1024: (1.5, 0.9, 2.0)}))
    assert "too wide" in open_["condition"]


def test_what_was_not_reached_is_said_as_a_bound() -> None:
    found = judged(rates_table({1024: (40.0, 12.0, INF)}, most=INF))
    assert found["verdict"] == "true with a condition"
    assert "At d_k = 1024 the steps to 90 % accuracy, divided by" in found["answer"]
    assert "at least 40 (12 to unbounded) for optimizer = adam" in found["answer"]
    assert found["condition"].startswith("if training begins with")
    assert (found["value"], found["ci_low"]) == (40, 12)
    assert found["quantity"].startswith("lower bound of steps to 90 %")
    little = judged(rates_table({1024: (3.0, 2.0, INF)}, most=8.0))
    assert "only by a factor of at least 3" in little["condition"]
    less = judged(rates_table({1024: (0.0, 0.0, 0.5)}, most=0.2))
    assert less["verdict"] == "false"
    assert "at most 0.2" in less["answer"]
    assert less["value"] == 0.2


def test_the_outer_ends_decide() -> None:
    # The median is above 1, but an interval of bounds reaches below it.
    open_ = judged(rates_table({1024: (2.0, 0.0, INF)}, most=INF))
    assert "too wide" in open_["condition"]
    # Below six seeds there is no interval, and one number decides nothing.
    nan = math.nan
    for ratio, most in ((2.0, INF), (0.5, 3.0), (0.5, 0.9), (20.0, 20.0)):
        few = judged(rates_table({1024: (ratio, nan, nan)}, most=most))
        assert few["verdict"] == "not measured"
        assert "fewer than 6 seeds give no interval" in few["condition"]
    assert judged(rates_table({1024: (1.0, 1.0, 1.0)}))["verdict"] == "false"


@pytest.mark.parametrize(
    ("low", "high", "large", "small"),
    [
        (1.1, 3.0, "true with a condition", "true with a condition"),
        (1.0, 3.0, "too wide", "too wide"),
        (0.5, 3.0, "too wide", "too wide"),
        (0.5, 1.0, "too wide", "too wide"),
        (1.0, 1.0, "false", "larger d_k may differ"),
        (0.5, 0.9, "false", "larger d_k may differ"),
    ],
)
def test_the_verdict_is_the_one_of_the_rule(
    low: float, high: float, large: str, small: str
) -> None:
    for d_k, expected in (
        (decisions.MIN_DECISIVE_D_K, large),
        (decisions.MIN_DECISIVE_D_K - 1, small),
    ):
        found = judged(rates_table({d_k: ((low + high) / 2, low, high)}))
        if found["verdict"] == "not measured":
            assert expected in found["condition"]
        else:
            assert found["verdict"] == expected


def test_a_ratio_that_may_be_small_has_a_condition_and_a_large_one_has_none() -> None:
    for least, most in ((4.9, 4.9), (4.9, INF)):
        found = judged(rates_table({1024: (least, 2.0, INF)}, most=most))
        assert "by a factor" in found["condition"]
    for least, most in ((5.0, 5.0), (5.0, INF)):
        found = judged(rates_table({1024: (least, 2.0, INF)}, most=most))
        assert found["condition"].startswith("if training begins with")


@pytest.mark.parametrize(
    ("table", "rules", "reason"),
    [
        (rates_table({1024: (20.0, 10.0, 30.0)}, "lowest"), RULES, "at the edge of the grid"),
        (
            rates_table({1024: (0.0, 0.0, INF)}, most=INF),
            RULES,
            "too few runs reach 90 %, or some have it",
        ),
        (rates_table({16: (0.9, 0.8, 0.95)}), RULES, "larger d_k may differ"),
        (rates_table({1: (1.0, 1.0, 1.0)}), RULES, "both scale rules are the same"),
        (rates_table({64: (2.0, 1.5, 3.0)}), {"on": RULES["on"]}, "leaves the scores as they are"),
    ],
)
def test_what_cannot_be_decided_says_why(table: pd.DataFrame, rules: Any, reason: str) -> None:
    found = judged(table, rules=rules)
    assert found["verdict"] == "not measured"
    assert reason in found["condition"]


def stable(
    gap: tuple[float, float, float], *, d_k: int = 1024, open_: tuple[int, int] = (0, 0)
) -> dict[str, Any]:
    """The verdict of a table whose windows differ by a gap with its interval, in decades."""
    table = rates_table({d_k: (2.0, 1.5, 3.0)})
    for arm, width, end in (("off", 1.0, open_[0]), ("on", 1.0 + gap[0], open_[1])):
        rows_ = table["scaling"] == arm
        table.loc[rows_, ["window", "window_low", "window_high"]] = (
            width,
            width - 0.1,
            width + 0.1,
        )
        table.loc[rows_, "window_edge"] = end
        table.loc[rows_, "diverged"] = 3 if arm == "off" else 1
    table.loc[table["scaling"] == "off", ["window_gap", "gap_low", "gap_high"]] = gap
    return judged(table, claim="stability")


@pytest.mark.parametrize(
    ("gap", "changes", "verdict"),
    [
        ((1.5, 1.2, 1.8), {}, "true with a condition"),
        ((1.5, 0.2, 1.8), {}, "not measured"),
        ((0.3, 0.1, 0.5), {}, "not measured"),
        ((0.1, 0.0, 0.2), {}, "false"),
        ((-1.0, -1.5, -0.5), {}, "false"),
        ((0.1, 0.0, 0.2), {"d_k": 64}, "not measured"),
        ((1.5, 1.2, 1.8), {"d_k": 64}, "true with a condition"),
        ((0.0, 0.0, 0.0), {"d_k": 1}, "not measured"),
        # The narrower window has to end within the grid; the wider one may go on.
        ((1.5, 1.2, 1.8), {"open_": (1, 0)}, "not measured"),
        ((1.5, 1.2, 1.8), {"open_": (0, 1)}, "true with a condition"),
        ((0.1, 0.0, 0.2), {"open_": (0, 1)}, "not measured"),
        ((0.1, 0.0, 0.2), {"open_": (1, 0)}, "false"),
        ((0.3, 0.1, 0.5), {"open_": (1, 1)}, "not measured"),
    ],
)
def test_verdicts_about_stability(
    gap: tuple[float, float, float], changes: dict[str, Any], verdict: str
) -> None:
    assert stable(gap, **changes)["verdict"] == verdict


def test_stability_says_both_windows_and_what_diverged() -> None:
    found = stable((1.5, 1.2, 1.8), open_=(0, 1))
    assert "it is 1.0 (0.9 to 1.1) decades wide" in found["answer"]
    assert "at least 2.5 (2.4 to 2.6) decades with scaling" in found["answer"]
    assert "3 of 6 runs diverge without scaling, 1 with it" in found["answer"]
    assert "in 400 training steps" in found["condition"]


def test_stability_names_what_it_could_not_measure_and_counts_what_diverged_there() -> None:
    table = rates_table({1024: (2.0, 1.5, 3.0)})
    table["diverged"] = 0
    table["window_edge"] = 0
    table.loc[table["scaling"] == "off", ["window_gap", "gap_low", "gap_high"]] = (1.5, 1.2, 1.8)
    other = table.assign(loss="weights", window_edge=1)
    other.loc[other["scaling"] == "off", "diverged"] = 5
    found = judged(pd.concat([table, other]), claim="stability")
    assert found["verdict"] == "true with a condition"
    assert "loss = weights: at d_k = 1024 the window of learning rates" in found["condition"]
    assert "not measured for optimizer = " in found["condition"]
    assert "where it holds, in 400 training steps" in found["condition"]
    assert "5 of 6 runs diverge without scaling, 0 with it (optimizer = " in found["answer"]
    assert "0 of 6 runs diverge without scaling, 0 with it (optimizer = " in found["answer"]


def test_windows_are_counted_in_decades_by_seed() -> None:
    table = runs({("on", 0.01): [INF, INF], ("on", 0.1): [10, 11], ("on", 1.0): [20, INF],
                  ("on", 10.0): [INF, INF], ("off", 0.01): [INF, INF], ("off", 0.1): [12, 13],
                  ("off", 1.0): [INF, INF], ("off", 10.0): [INF, INF]})  # fmt: skip
    found = best_of(table, [0.01, 0.1, 1.0, 10.0])
    # A rate in the middle of the grid stands for a decade.
    assert (found["on"]["window"], found["off"]["window"]) == (1.5, 1.0)
    assert (found["off"]["window_gap"], found["on"]["window_gap"]) == (0.5, 0.0)
    assert (found["on"]["window_edge"], found["off"]["window_edge"]) == (0, 0)
    two = runs({("on", 0.1): [10, 11], ("on", 1.0): [20, 21]})
    ends = best_of(two, [0.1, 1.0])["on"]
    assert (ends["window"], ends["window_edge"]) == (1.0, 1)


def test_the_headline_says_every_optimizer_and_loss() -> None:
    parts = [
        rates_table({1024: (ratio, 0.9 * ratio, 1.1 * ratio)}).assign(optimizer=o, loss=loss)
        for ratio, o, loss in (
            (27.0, "adam", "values"), (1.8, "adam", "weights"), (23.0, "sgd", "values"),
            (2.2, "sgd", "weights"),
        )
    ]  # fmt: skip
    answer = judged(pd.concat(parts))["answer"]
    places = [
        answer.index(f" for optimizer = {optimizer}, loss = {loss}")
        for optimizer, loss in (
            ("adam", "values"), ("sgd", "values"), ("sgd", "weights"), ("adam", "weights")
        )
    ]  # fmt: skip
    assert "27 (24 to 30) for optimizer = adam, loss = values" in answer
    assert places == sorted(places)
    assert "chosen on other seeds" in answer


def test_one_pair_that_parts_denies_the_twin() -> None:
    table = learned.tables()["twins"]
    assert judged(table, "twins")["verdict"] == "true"
    late = table.assign(twin_steps_to_90=[*table["twin_steps_to_90"][:-1], 3.0])
    assert judged(late, "twins")["verdict"] == "false"
    apart = table.assign(difference=[0.01, *table["difference"][1:]])
    assert judged(apart, "twins")["verdict"] == "false"
    assert judged(table.iloc[:0], "twins")["verdict"] == "not measured"


def test_pairs_that_never_got_there_are_counted_apart() -> None:
    table = learned.tables()["twins"].assign(steps_to_90=8.0, twin_steps_to_90=8.0)
    there = judged(table, "twins")
    assert "16 of 16 pairs reach 90 % at the same step, relative" in there["numbers"]
    assert "neither" not in there["answer"]
    for name in ("steps_to_90", "twin_steps_to_90"):
        table[name] = [INF, INF, INF, *[8.0] * 13]
    some = judged(table, "twins")
    assert some["verdict"] == "true"
    said = "reach 90 % at the same step, in 3 neither run does, "
    assert f"13 of 16 pairs {said}relative" in some["numbers"]
    assert f"13 of 16 pairs, up to d_k = 64, {said}and the losses" in some["answer"]
    table["twin_steps_to_90"] = [9.0, INF, INF, *[8.0] * 13]
    parted = judged(table, "twins")
    assert parted["verdict"] == "false"
    assert "13 of 16 pairs reach 90 % at the same step, in 2 neither" in parted["numbers"]


# Figures and tables of the page


def draw(what: str, found: dict[str, pd.DataFrame]) -> Any:
    with style.context():
        figure = training_figures.BUILD[what](found)
        figure.draw_without_rendering()
    return figure


def words(figure: Any) -> str:
    found = [text.get_text() for text in figure.findobj(matplotlib.text.Text)]
    return " ".join(" ".join(found).split())


@pytest.mark.parametrize("what", FIGURES["training"])
@pytest.mark.parametrize(
    "grid",
    [
        (),
        ("scaling=off", "d_k=16", "seeds=1", "learning_rate=1"),
        ("optimizer=sgd", "loss=weights", "steps=1"),
        ("n_k=1", "steps=3", "seeds=1", "learning_rate=1e3"),
        ("d_k=[1,2,4,8,16,32]", "n_k=[2,4]", "batch_size=[1,2]", "scaling=[off,on,quarter,inverse]",
         "steps=3", "seeds=1", "optimizer=sgd"),
    ],
)  # fmt: skip
def test_figures_of_any_grid_can_be_drawn(what: str, grid: tuple[str, ...]) -> None:
    figure = draw(what, learned.tables(*grid))
    # A single key has no gradient.
    assert figure.axes or (what == "noise" and "Nothing to show" in words(figure))


def test_learning_curves_are_those_of_the_best_rates() -> None:
    found = learned.tables()
    figure = draw("curves", found)
    best = found["rates"].query("best == 1 and d_k == 64 and scaling == 'off' and loss == 'values'")
    rate = best.query("optimizer == 'adam'")["learning_rate"].item()
    expected = found["summary"].query(
        "metric == 'accuracy' and d_k == 64 and scaling == 'off' and loss == 'values' "
        f"and optimizer == 'adam' and learning_rate == {rate}"
    )
    line = {line.get_label(): line for line in figure.axes[1].lines}["off"]
    assert list(line.get_xdata()) == [0, 8, 16, 20]
    assert list(line.get_ydata()) == expected.sort_values("step")["mean"].tolist()


def test_what_was_not_reached_is_a_triangle_above_and_no_point() -> None:
    found = learned.tables() | {
        "rates": rates_table({16: (2.0, 1.5, 3.0), 1024: (INF, 30.0, INF)}),
        "twins": learned.tables()["twins"].iloc[:0],
    }
    figure = draw("steps", found)
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    assert list(lines["off"].get_ydata()) == [20.0]
    assert list(lines["_beyond"].get_ydata()) == [figure.axes[0].get_ylim()[1]]
    assert figure.axes[0].get_ylim()[1] > 400
    assert "beyond the steps trained" in words(figure)


def test_the_map_has_the_number_of_every_cell() -> None:
    table = rates_table({16: (2.0, 1.5, 3.0), 1024: (INF, 30.0, INF)})
    figure = draw("rates", learned.tables() | {"rates": table})
    numbers = [text.get_text() for axes in figure.axes[:2] for text in axes.texts]
    assert numbers == ["20", "–", "10", "10"]


def test_the_page_tables_best_rates_and_what_was_not_reached() -> None:
    table = pivot.summarized(rates_table({16: (2.0, 1.5, 3.0), 1024: (INF, 30.0, INF)}))
    steps, rate = pivots.pivots("training", table, {"scaling": ["off", "on"]}, pivot.COLUMNS)
    ((_, found),) = steps.blocks
    assert [[cell.mean for cell in line] for _, line in found] == [
        ["20", "10"],
        ["more than 400", "10"],
    ]
    assert rate.name == "learning_rate"


# The workflow


def test_the_workflow_makes_the_tables_and_judges_them(tmp_path: Path) -> None:
    done = snakemake(
        tmp_path, "--config", "grid=smoke", "experiments=training", "name=mine", "d_k=16",
        "optimizer=sgd", "steps=20", "learning_rate=[0.01,0.1,1]", "seeds=6",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "results/mine"
    for name, schema in learned.SCHEMAS.items():
        with (folder / f"training/{name}.csv").open(encoding="utf-8", newline="") as file:
            header, *found = csv.reader(file)
        assert header == [column.name for column in schema]
        assert found
    with (folder / "claims.csv").open(encoding="utf-8", newline="") as file:
        ledger = {row["claim"]: row for row in csv.DictReader(file)}
    assert ledger["training_twin"]["verdict"] == "true"
    # A row by hand has the digits of the pipeline.
    slab = learned.settings("d_k=16", "optimizer=sgd", "loss=values", "learning_rate=0.1")
    settings = {
        name: value[0] if isinstance(value, list) else value for name, value in slab.items()
    }
    by_hand = cells.measure_cells(
        training.cells(settings | {"learning_rate": [0.1], "seeds": [5, 6]}), training.COLUMNS
    )
    lines = (folder / "training/runs.csv").read_text(encoding="utf-8").splitlines()
    assert set(as_text(by_hand)) < set(lines)
    page = (folder / "report.html").read_text(encoding="utf-8")
    for what in FIGURES["training"]:
        assert f'id="figure-training-{what}"' in page
    # By the output no rate reaches 90 % in 20 steps, with either arm; by the weights both arms do.
    table = page.partition('id="table-training-steps_to_90"')[2].partition("</table>")[0]
    row = re.findall(r"<td[^>]*>([^<]*)", table.partition("<tbody>")[2])
    assert [cell.strip() for cell in row] == ["more than 20", "more than 20", "20", "12"]
    assert ledger["training"]["verdict"] == "not measured"
    assert "too few runs reach 90 %" in ledger["training"]["condition"]


def test_losses_of_nothing_do_not_differ_and_those_of_one_alone_do() -> None:
    zero, nan = np.array([0.0, 1.0]), np.array([math.nan, 1.0])
    assert equivalence._difference(zero, zero) == equivalence._difference(nan, nan) == 0
    assert equivalence._difference(zero, np.array([0.1, 1.0])) == INF
    assert equivalence._difference(nan, zero) == equivalence._difference(zero, nan) == INF
    assert equivalence._difference(np.array([2.0]), np.array([2.5])) == 0.25


def test_twin_rates_are_those_of_the_text() -> None:
    assert equivalence.twin_rate(0.5, factor=1 / 16, optimizer="sgd") == 0.5 / 16
    assert equivalence.twin_rate(0.5, factor=1 / 16, optimizer="adam") == 0.5 / 4
