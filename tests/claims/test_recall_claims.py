"""Verdicts about encoder and decoder, for tables like the real ones and for others."""

import itertools
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sqrtdk.config import run as config_run
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.experiments.score_width import published
from sqrtdk.experiments.score_width import widths as experiments_widths
from sqrtdk.experiments.story import RunTables
from sqrtdk.jobs import judge
from sqrtdk.stats import summary
from sqrtdk.storage import tables

READERS = ("fixed", "additive", "dot", "scaled_dot")
STEPS = 400

Value = Callable[[dict[str, Any]], float | None]


def table(
    experiment: str, axes: dict[str, Iterable[Any]], metrics: dict[str, Value],
    *, error: float = 0.01, seeds: int = 5,
) -> pd.DataFrame:  # fmt: skip
    """A summary of one experiment; a metric that is None somewhere has no row there."""
    columns = [c.name for c in summary.columns(EXPERIMENTS[experiment].columns)]
    names = columns[: columns.index("metric")]
    usual = {"d_k": [64], "length": [16], "hidden": [32], "learning_rate": [0.01]} | axes
    rows = []
    for values in itertools.product(*(usual[name] for name in names)):
        at = dict(zip(names, values, strict=True))
        for metric, value in metrics.items():
            mean = value(at)
            if mean is not None:
                half = error if seeds > 1 else math.nan
                rows.append((*values, metric, seeds, mean, half, mean, mean - half, mean + half))
    return pd.DataFrame(rows, columns=columns[:-2]).assign(exact=math.nan, z=math.nan)


def judged(experiment: str, frame: pd.DataFrame) -> dict[str, dict[str, Any]]:
    rows = judge.claims_table(
        config_run.Run("mine", 50, {experiment: {"steps": STEPS}}), {(experiment, "summary"): frame}
    )
    return {row["claim"]: row for row in rows if row["experiment"] == experiment}


# Source length


def lengths(
    fixed: float = 0.2, attention: float = 1.0, *, dot: float = 1.0, upto: int = 16,
    gain: float = 0.0, **more: Any,
) -> dict[str, Any]:  # fmt: skip
    def accuracy(at: dict[str, Any]) -> float:
        if at["reader"] == "fixed":
            return 1.0 if at["length"] < 4 else fixed
        return dot if at["reader"] == "dot" else attention

    axes = {"length": [n for n in (1, 2, 4, 8, 16) if n <= upto], "reader": READERS}
    metrics = {
        "accuracy": accuracy,
        "accuracy_gain": lambda at: gain,
        "unasked_accuracy": lambda at: 0.26,
    }
    frame = table(
        "encoder_decoder", axes | {"step": [0, STEPS]} | more.pop("axes", {}), metrics, **more
    )
    return judged("encoder_decoder", frame)["bottleneck"]


def test_attention_removes_the_bottleneck_of_a_table_like_the_real_one() -> None:
    row = lengths()
    assert row["verdict"] == "true with a condition"
    assert f"after {STEPS} training steps" in row["condition"]
    assert "; the fixed vector answers up to length = 2" in row["condition"]
    assert "no better than the most frequent value" in row["condition"]
    assert (
        "at length = 16, after 400 training steps, the fixed vector answers 20 % (19 to 21)"
        in row["answer"]
    )
    assert row["value"] == 0.2


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({"attention": 0.5, "dot": 0.5}, "false"),
        # An attention that is still rising, or has learnt nothing yet, cannot deny the claim.
        ({"attention": 0.5, "dot": 0.5, "gain": 0.1}, "not measured"),
        ({"attention": 0.2, "dot": 0.2}, "not measured"),
        ({"fixed": 1.0}, "false"),
        ({"dot": 0.5}, "true with a condition"),
        ({"fixed": 0.9}, "not measured"),
        ({"fixed": 1.0, "upto": 8}, "not measured"),
        ({"upto": 2}, "not measured"),
        ({"seeds": 1}, "true with a condition"),
        ({"axes": {"reader": ["fixed"]}}, "not measured"),
        ({"axes": {"reader": ["dot", "additive"]}}, "not measured"),
    ],
)
def test_verdicts_about_the_bottleneck(changes: dict[str, Any], verdict: str) -> None:
    assert lengths(**changes)["verdict"] == verdict


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"fixed": 0.2}, "it may be too small or need more training"),
        ({"fixed": 0.5}, "has settled, so its size is the limit"),
        ({"fixed": 0.5, "gain": 0.1}, "may still be improving, so more training may help"),
        ({"fixed": 0.5, "gain": 0.05}, "may still be improving, so more training may help"),
    ],
)
def test_a_vector_that_is_too_small_is_told_from_one_that_is_not_trained(
    changes: dict[str, Any], said: str
) -> None:
    assert said in lengths(**changes)["condition"]


def test_an_attention_that_fails_at_the_longest_source_is_named() -> None:
    assert "not with dot" in lengths(dot=0.5)["condition"]
    assert "undecided with dot" in lengths(dot=0.9)["condition"]
    assert "not with" not in lengths()["condition"]


def test_every_state_size_is_judged_and_named() -> None:
    row = lengths(axes={"hidden": [16, 64]})
    assert row["numbers"].count("hidden = ") == 2
    assert row["series"] in ("hidden = 16", "hidden = 64")


# Capacity


def sizes(
    accuracy: dict[int, float], gain: dict[int, float], *, best: float = 0.003, **more: Any
) -> dict[str, Any]:
    """The verdict on fixed vectors by size; other learning rates are worse by 0.1."""
    axes = {
        "length": [4], "hidden": list(accuracy), "learning_rate": [0.001, 0.003, 0.01],
        "reader": ["fixed"], "step": [0, STEPS],
    }  # fmt: skip
    metrics: dict[str, Value] = {
        "accuracy": lambda at: (
            accuracy[at["hidden"]] - (0.0 if at["learning_rate"] == best else 0.1)
        ),
        "accuracy_gain": lambda at: gain.get(at["hidden"], 0.0),
        "unasked_accuracy": lambda at: 0.43,
    }
    return judged("capacity", table("capacity", axes, metrics, **more))["capacity"]


MEASURED = {8: 0.37, 16: 0.53, 32: 0.84, 64: 0.96}, {16: 0.13, 32: 0.22}


def test_capacity_and_optimisation_are_told_apart_in_a_table_like_the_real_one() -> None:
    row = sizes(*MEASURED)
    assert row["verdict"] == "true with a condition"
    assert row["condition"] == (
        f"at length = 4; at hidden = 16 and 32 accuracy is still improving after {STEPS} steps"
    )
    assert "With 8 units it answers 37 % (36 to 38)" in row["answer"]
    assert "fewer than with the most frequent value of the sequence" in row["answer"]
    assert "With 64 units it answers 96 %" in row["answer"]
    assert row["value"] == 0.37


@pytest.mark.parametrize(
    ("accuracy", "gain", "changes", "verdict"),
    [
        # The smallest still rises, or has learnt nothing: training may be all it lacks.
        ({8: 0.37, 64: 0.96}, {8: 0.1}, {}, "not measured"),
        ({8: 0.125, 64: 0.96}, {}, {}, "not measured"),
        # It answers at one of the rates.
        ({8: 0.96, 64: 0.96}, {}, {}, "not measured"),
        # No size answers, and all have settled; or some may yet.
        ({8: 0.37, 64: 0.4}, {}, {}, "false"),
        ({8: 0.37, 64: 0.4}, {64: 0.1}, {}, "not measured"),
        # An interval across the line.
        ({8: 0.37, 64: 0.96}, {8: 0.05}, {}, "not measured"),
        ({8: 0.37, 64: 0.9}, {}, {}, "not measured"),
        ({8: 0.37}, {}, {}, "not measured"),
        ({8: 0.37, 64: 0.96}, {}, {"seeds": 1}, "true with a condition"),
    ],
)
def test_verdicts_about_capacity(
    accuracy: dict[int, float], gain: dict[int, float], changes: dict[str, Any], verdict: str
) -> None:
    assert sizes(accuracy, gain, **changes)["verdict"] == verdict


def test_a_best_rate_at_the_edge_is_said_of_a_size_that_fails() -> None:
    said = "at hidden = 8 the best learning rate is at the edge of the grid"
    assert said in sizes({8: 0.37, 64: 0.99}, {}, best=0.01)["condition"]
    assert "edge" not in sizes({8: 0.37, 64: 0.99}, {})["condition"]


# Score width

SEEDS = 6
RATES = (0.001, 0.01, 0.1)


def width_runs(
    steps: Value, *, sizes: Iterable[int] = (16, 256, 1024), spread: float = 0.1,
    readers: Iterable[str] = READERS[1:], learning_rates: Iterable[float] = RATES,
    seeds: int = SEEDS,
) -> pd.DataFrame:  # fmt: skip
    """Last rows of a runs.csv where 90 % is reached after so many steps, or never for None.

    Steps differ by up to `spread` between seeds, each reader and d_k in an order of its own. At the
    ends of the grid of learning rates everything takes twice as long.
    """
    rates_ = list(learning_rates)
    found = []
    for place, (reader, d_k, rate) in enumerate(itertools.product(readers, sizes, rates_)):
        at = {"length": 8, "hidden": 32, "d_k": d_k, "reader": reader, "learning_rate": rate}
        value = steps(at)
        worse = 2.0 if len(rates_) > 2 and rate in (rates_[0], rates_[-1]) else 1.0
        order = np.random.default_rng(place).permutation(seeds)
        for seed in range(seeds):
            where = order[seed] / max(1, seeds - 1)
            took = math.inf if value is None else value * worse * (1 + spread * (2 * where - 1))
            there = took <= STEPS
            found.append(
                at | {"seed": seed, "step": STEPS, "accuracy": 1.0 if there else 0.4 / worse,
                      "steps_to_90": took if there else math.nan}
            )  # fmt: skip
    return pd.DataFrame(found)


def widths(steps: Value, **changes: Any) -> dict[str, Any]:
    runs = width_runs(steps, **changes)
    settings = {"steps": STEPS, "learning_rate": sorted(set(runs["learning_rate"]))}
    frame = pd.DataFrame(
        experiments_widths.rows(settings, runs),
        columns=[column.name for column in experiments_widths.COLUMNS],
    )
    rows = judge.claims_table(
        config_run.Run("mine", 50, {"score_width": settings}),
        {("score_width", "widths"): frame},
    )
    return {row["claim"]: row for row in rows}["score_width"]


def real(at: dict[str, Any]) -> float | None:
    """Dot: 100 steps at d_k = 16, more at 256, never at 1024. Others: 100 everywhere."""
    return {16: 100.0, 256: 300.0}.get(at["d_k"]) if at["reader"] == "dot" else 100.0


def test_unscaled_dot_falls_behind_in_a_table_like_the_real_one() -> None:
    row = widths(real)
    assert row["verdict"] == "true with a condition"
    assert row["condition"] == (
        f"from d_k = 256 on, in {STEPS} steps, each at learning rates that were chosen on other "
        "seeds"
    )
    assert f"it needs more than {STEPS} steps (0 of " in row["answer"]
    assert "seeds reach it, final accuracy 40 %)" in row["answer"]
    # 400 steps over about 100.
    assert row["value"] == pytest.approx(4, rel=0.1)


def slow(reader: str) -> Value:
    return lambda at: 300.0 if (at["reader"], at["d_k"]) == (reader, 1024) else real(at)


def never(reader: str, d_k: int) -> Value:
    return lambda at: None if (at["reader"], at["d_k"]) == (reader, d_k) else real(at)


@pytest.mark.parametrize(
    ("steps", "changes", "verdict"),
    [
        (lambda at: 50.0 if (at["reader"], at["d_k"]) == ("dot", 1024) else 100.0, {}, "false"),
        # Surely less than twice the steps is not behind.
        (lambda at: 100.0, {}, "false"),
        (lambda at: 100.0, {"sizes": (16, 64)}, "not measured"),
        (slow("dot"), {}, "true with a condition"),
        (slow("additive"), {}, "false"),
        (slow("scaled_dot"), {}, "false"),
        (never("additive", 256), {}, "false"),
        # What does not keep up refutes the claim whatever dot does, and on a small grid too.
        (
            lambda at: None if (at["reader"], at["d_k"]) == ("additive", 256) else 100.0,
            {"sizes": (16, 256)},
            "false",
        ),
        # Within these intervals the others may be as fast as at the smallest d_k or twice as slow.
        (real, {"spread": 0.5}, "not measured"),
        (real, {"spread": 0.2}, "true with a condition"),
        (never("scaled_dot", 1024), {}, "false"),
        # Never at the smallest d_k either: how much slower it is at the largest stays open.
        (lambda at: None if at["reader"] == "dot" else 100.0, {}, "not measured"),
        (real, {"sizes": (16, 256)}, "true with a condition"),
        (real, {"sizes": (16,)}, "not measured"),
        (real, {"readers": ("dot", "scaled_dot")}, "not measured"),
        # Fewer than six seeds give no interval of a median, and one number decides nothing.
        (real, {"seeds": 1}, "not measured"),
        (real, {"seeds": 5}, "not measured"),
        (real, {"readers": READERS}, "true with a condition"),
    ],
)
def test_verdicts_about_score_width(steps: Value, changes: dict[str, Any], verdict: str) -> None:
    assert widths(steps, **changes)["verdict"] == verdict


@pytest.mark.parametrize("seeds", [5, 6, 10, 20, 40, 80])
@pytest.mark.parametrize("times", [1.0, 1.2, 1.5, 4.0])
def test_more_seeds_of_the_same_truth_never_turn_the_verdict_round(
    times: float, seeds: int
) -> None:
    def steps(at: dict[str, Any]) -> float | None:
        wide = (at["reader"], at["d_k"]) == ("additive", 1024)
        return 60.0 * times if wide else 300.0 if at["reader"] == "dot" and at["d_k"] > 16 else 60.0

    found = widths(steps, spread=0.25, seeds=seeds, sizes=(16, 1024))["verdict"]
    right = "false" if times > 2 else "true with a condition"
    assert found in (right, "not measured")
    assert found == right or seeds < 20


def test_the_answer_says_who_does_not_keep_up_and_what_is_not_certain_of_dot() -> None:
    def steps(at: dict[str, Any]) -> float | None:
        if at["reader"] == "dot":
            return 200.0 if at["d_k"] == 1024 else 100.0
        return None if (at["reader"], at["d_k"]) == ("additive", 256) else 100.0

    answer = widths(steps, spread=0.4)["answer"]
    assert "Unscaled dot attention does not surely fall behind" in answer
    assert (
        "Attention with additive scores does not keep up: at d_k = 256 it needs more than"
    ) in answer
    assert "keep up" not in widths(real)["answer"]


def test_each_reader_is_judged_at_its_best_learning_rate() -> None:
    def steps(at: dict[str, Any]) -> float | None:
        # Wide additive attention fails at one rate, unscaled dot at 1024 learns at the other.
        if at["learning_rate"] == 0.01:
            return None if (at["reader"], at["d_k"]) == ("additive", 1024) else real(at)
        return 350.0 if at["reader"] == "dot" else 100.0

    row = widths(steps, learning_rates=(0.001, 0.01))
    assert row["verdict"] == "true with a condition"
    assert row["value"] == pytest.approx(3.5, rel=0.2)


def test_a_chosen_rate_at_the_edge_of_the_grid_is_said() -> None:
    assert "edge" not in widths(real)["condition"]
    two = widths(real, learning_rates=(0.001, 0.01))
    assert "a chosen rate is at the edge of the grid for " in two["condition"]
    assert "additive at d_k = 16" in two["condition"]


def test_a_seed_that_missed_90_counts_as_slow_and_is_not_left_out() -> None:
    def steps(at: dict[str, Any]) -> float | None:
        return 399.0 if (at["reader"], at["d_k"]) == ("dot", 1024) else 100.0

    # Half of the seeds are above the 400 steps trained.
    row = widths(steps, sizes=(16, 1024), spread=0.01)
    assert row["verdict"] == "true with a condition"
    assert "dot takes 100" in row["numbers"]
    assert row["value"] > 3.9


# Projections


def heads(
    accuracy: dict[str, float], gain: float = 0.0, *, relations: Iterable[str] = ("same", "turned"),
    **more: Any,
) -> dict[str, Any]:  # fmt: skip
    axes = {
        "d_k": [64], "n_k": [16], "batch_size": [16], "relation": list(relations),
        "projections": list(accuracy), "learning_rate": [0.003, 0.01], "step": [0, STEPS],
    }  # fmt: skip

    def at_end(at: dict[str, Any]) -> float:
        return 1.0 if at["relation"] == "same" else accuracy[at["projections"]]

    metrics: dict[str, Value] = {
        "accuracy": lambda at: at_end(at) - (0.0 if at["learning_rate"] == 0.01 else 0.3),
        "accuracy_gain": lambda at: 0.0 if at["projections"] == "separate" else gain,
        "asked_weight": lambda at: 0.9 if at_end(at) > 0.9 else 0.04,
    }
    return judged("projections", table("projections", axes, metrics, **more))["projections"]


def test_each_projection_is_needed_in_a_table_like_the_real_one() -> None:
    row = heads({"separate": 1.0, "shared_qk": 0.65, "identity_v": 0.72})
    assert row["verdict"] == "true with a condition"
    assert "if the query and the answer differ from their item" in row["condition"]
    assert "shared_qk answers 100 %" in row["condition"]
    assert "with W_q = W_k it is 65 %" in row["answer"]
    assert row["value"] == 0.72


@pytest.mark.parametrize(
    ("accuracy", "changes", "verdict"),
    [
        ({"separate": 1.0, "shared_qk": 0.99, "identity_v": 0.7}, {}, "false"),
        ({"separate": 1.0, "shared_qk": 0.7, "identity_v": 0.99}, {}, "false"),
        ({"separate": 0.7, "shared_qk": 0.7, "identity_v": 0.7}, {}, "not measured"),
        ({"separate": 1.0, "shared_qk": 0.7, "identity_v": 0.7}, {"gain": 0.1}, "not measured"),
        ({"separate": 1.0, "shared_qk": 0.9, "identity_v": 0.7}, {}, "not measured"),
        ({"separate": 1.0, "shared_qk": 0.7}, {}, "not measured"),
        (
            {"separate": 1.0, "shared_qk": 0.7, "identity_v": 0.7},
            {"relations": ["same"]},
            "not measured",
        ),
        (
            {"separate": 1.0, "shared_qk": 0.7, "identity_v": 0.7},
            {"relations": ["turned"], "seeds": 1},
            "true with a condition",
        ),
    ],
)
def test_verdicts_about_projections(
    accuracy: dict[str, float], changes: dict[str, Any], verdict: str
) -> None:
    assert heads(accuracy, **changes)["verdict"] == verdict


# Reach


def reach_table(
    *, initial: float = -0.2, trained: float = -0.02, attention: float = 0.0, far: int = 15,
    right: Value = lambda at: 0.3, readers: Iterable[str] = READERS, gain: float = 0.0, **more: Any,
) -> pd.DataFrame:  # fmt: skip
    """A summary where the fixed vector loses so many decades a pair, attention others."""

    def decades(at: dict[str, Any]) -> float:
        lost = {"initial": initial, "trained": trained}[at["stage"]]
        return float(at["distance"] * (lost if at["reader"] == "fixed" else attention))

    axes = {
        "reader": list(readers), "stage": ["initial", "trained"], "distance": range(far + 1),
    }  # fmt: skip
    metrics: dict[str, Value] = {
        "relative_log10_norm": decades,
        "accuracy": right,
        "accuracy_gain": lambda at: gain if at["stage"] == "trained" else None,
    }
    return table("reach", axes, metrics, **more)


def reached(**changes: Any) -> dict[str, dict[str, Any]]:
    return judged("reach", reach_table(**changes))


def test_a_table_like_the_real_one_refutes_that_reach_is_all() -> None:
    rows = reached()
    assert {name: row["verdict"] for name, row in rows.items()} == {
        "reach": "true", "vanishing": "false"
    }  # fmt: skip
    assert "15 pairs" in rows["reach"]["answer"]
    assert "Reach is not what it lacks." in rows["vanishing"]["answer"]
    assert "reaches back to every distance" in rows["vanishing"]["answer"]


@pytest.mark.parametrize(
    ("changes", "reach", "vanishing"),
    [
        # Attention that loses more than a decade; a source too short for the fixed vector to.
        ({"attention": -0.1}, "false", "false"),
        ({"far": 3}, "not measured", "false"),
        # Within reach all is answered, beyond nothing: reach is what is missing.
        (
            {"trained": -0.2, "right": lambda at: 1.0 if at["distance"] < 10 else 0.2},
            "true",
            "true with a condition",
        ),
        # All within reach is answered, and no distance is surely beyond: 12 to 15 may be either.
        ({"trained": -0.15, "error": 0.5, "right": lambda at: 2.0}, "true", "not measured"),
        # Within reach some distances are answered and others not.
        ({"right": lambda at: 1.0 if at["distance"] < 10 else 0.2}, "true", "not measured"),
        # Not even what is within reach is answered.
        ({"trained": -0.2}, "true", "false"),
        ({"right": lambda at: 1.0}, "true", "not measured"),
        # It may still be learning what it does not answer, or has not begun to.
        ({"gain": 0.1}, "true", "not measured"),
        ({"gain": 0.05}, "true", "not measured"),
        ({"right": lambda at: 0.125}, "true", "not measured"),
        ({"readers": ("fixed",)}, "not measured", "false"),
        ({"readers": ("dot",)}, "not measured", "not measured"),
        ({"far": 0}, "not measured", "not measured"),
        ({"seeds": 1}, "true", "false"),
    ],
)
def test_verdicts_about_reach(changes: dict[str, Any], reach: str, vanishing: str) -> None:
    rows = reached(**changes)
    assert (rows["reach"]["verdict"], rows["vanishing"]["verdict"]) == (reach, vanishing)


def test_the_answer_about_what_a_gradient_reaches_has_the_training_budget() -> None:
    assert f"After {STEPS} training steps the gradient" in reached()["vanishing"]["answer"]
    row = reached(trained=-0.2, right=lambda at: 1.0 if at["distance"] < 10 else 0.2)["vanishing"]
    assert row["condition"].startswith(f"after {STEPS} training steps; their second half adds")
    # -2 decades are within the interval of distance 10: the ones before are surely within reach.
    assert "the fixed vector reaches 9 pairs back" in row["answer"]


def test_too_few_seeds_are_blamed_only_where_more_would_decide() -> None:
    wide = reached(trained=-0.15, error=0.5, right=lambda at: 2.0)["vanishing"]
    assert "the intervals are too wide to decide" in wide["condition"]
    mixed = reached(right=lambda at: 1.0 if at["distance"] < 10 else 0.2)["vanishing"]
    assert mixed["condition"] == (
        "within reach of its gradient the fixed vector answers some distances but not others"
    )


def test_a_norm_that_underflows_before_training_is_0() -> None:
    frame = reach_table(trained=-0.02)
    gone = (frame["metric"] == "relative_log10_norm") & (frame["distance"] == 15)
    frame = frame[~(gone & (frame["stage"] == "initial") & (frame["reader"] == "fixed"))]
    assert "before training it keeps 0." in judged("reach", frame)["vanishing"]["answer"]


def test_a_derivative_that_underflows_is_not_judged() -> None:
    frame = table(
        "reach",
        {"reader": READERS, "stage": ["initial", "trained"], "distance": range(16)},
        {
            "relative_log10_norm": lambda at: (
                None if (at["reader"], at["distance"]) == ("dot", 15) else -0.2 * at["distance"]
            ),
            "accuracy": lambda at: 0.3,
        },
    )
    assert judged("reach", frame)["reach"]["verdict"] == "not measured"


def test_published_numbers_stand_beside_the_steps_of_a_run(tmp_path: Path) -> None:
    runs = width_runs(real, sizes=(16, 1024))
    settings: Any = {"steps": STEPS, "learning_rate": sorted(set(runs["learning_rate"]))}
    columns = experiments_widths.COLUMNS
    frame = pd.DataFrame(list(experiments_widths.rows(settings, runs)))
    text = tables.text(frame.to_dict("records"), columns)
    (tmp_path / "score_width").mkdir()
    (tmp_path / "score_width/widths.csv").write_text(text, encoding="utf-8")
    (table,) = published.tables(RunTables("score_width", tmp_path, settings))
    ((_, lines),) = table.blocks
    shown = {size: [cell.mean if cell else "" for cell in cells] for size, cells in lines}
    # The order: BLEU of dot and additive, then steps of both.
    assert shown[1024] == ["18.22", "22.10", f"more than {STEPS}", "100"]
    assert shown[128] == ["22.03", "22.23", "", ""]
    assert shown[16] == ["", "", "100", "100"]
    assert "published by Britz et al. 2017" in table.meaning
    assert published.tables(RunTables("score_width", tmp_path / "none", settings)) == []
