"""Verdicts about encoder and decoder: tables like the real ones, and others."""

import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

import pandas as pd
import pytest

from sqrtdk import claims, config, summary
from sqrtdk.experiments.registry import EXPERIMENTS

READERS = ("fixed", "additive", "dot", "scaled_dot")
STEPS = 400

Value = Callable[[dict[str, Any]], float | None]


def table(
    experiment: str, axes: dict[str, Iterable[Any]], metrics: dict[str, Value],
    *, error: float = 0.01, seeds: int = 5,
) -> pd.DataFrame:  # fmt: skip
    """A summary of one experiment; a metric that is None somewhere has no row there."""
    columns = [c.name for c in summary.columns(EXPERIMENTS[experiment].COLUMNS)]
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
    rows = claims.ledger(
        config.Run("mine", 50, {experiment: {"steps": STEPS}}), {experiment: frame}
    )
    return {row["claim"]: row for row in rows if row["experiment"] == experiment}


# Source length


def lengths(
    fixed: float = 0.2, attention: float = 1.0, *, dot: float = 1.0, upto: int = 16, **more: Any
) -> dict[str, Any]:
    def accuracy(at: dict[str, Any]) -> float:
        if at["reader"] == "fixed":
            return 1.0 if at["length"] < 4 else fixed
        return dot if at["reader"] == "dot" else attention

    axes = {"length": [n for n in (1, 2, 4, 8, 16) if n <= upto], "reader": READERS}
    metrics = {"accuracy": accuracy, "unasked_accuracy": lambda at: 0.26}
    frame = table(
        "encoder_decoder", axes | {"step": [0, STEPS]} | more.pop("axes", {}), metrics, **more
    )
    return judged("encoder_decoder", frame)["bottleneck"]


def test_attention_removes_the_bottleneck_of_a_table_like_the_real_one() -> None:
    row = lengths()
    assert row["verdict"] == "true with a condition"
    assert f"after {STEPS} training steps" in row["condition"]
    assert "the fixed vector answers too up to length = 2" in row["condition"]
    assert "at length = 16 the fixed vector answers 20 % (19 to 21)" in row["answer"]
    assert row["value"] == 0.2


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({"attention": 0.5, "dot": 0.5}, "false"),
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


def test_an_attention_that_fails_at_the_longest_source_is_named() -> None:
    assert "not with dot" in lengths(dot=0.5)["condition"]
    assert "undecided with dot" in lengths(dot=0.9)["condition"]
    assert "not with" not in lengths()["condition"]


def test_every_state_size_is_judged_and_named() -> None:
    row = lengths(axes={"hidden": [16, 64]})
    assert row["numbers"].count("hidden = ") == 2
    assert row["series"] in ("hidden = 16", "hidden = 64")


# Score width


def widths(
    steps: Value, *, sizes: Iterable[int] = (16, 256, 1024), rates: Iterable[float] = (0.01,),
    readers: Iterable[str] = READERS[1:], **more: Any,
) -> dict[str, Any]:  # fmt: skip
    """The verdict of a table where 90 % is reached after so many steps, or never for None."""
    axes = {
        "d_k": list(sizes), "reader": list(readers), "learning_rate": list(rates), "step": [STEPS]
    }  # fmt: skip
    metrics: dict[str, Value] = {
        "accuracy": lambda at: 0.4 if steps(at) is None else 1.0,
        "reached_90": lambda at: 0.0 if steps(at) is None else 1.0,
        "steps_to_90": steps,
    }
    return judged("score_width", table("score_width", axes, metrics, **more))["score_width"]


def real(at: dict[str, Any]) -> float | None:
    """Dot: 100 steps at d_k = 16, more at 256, never at 1024. Others: 100 everywhere."""
    return {16: 100.0, 256: 300.0}.get(at["d_k"]) if at["reader"] == "dot" else 100.0


def test_unscaled_dot_falls_behind_in_a_table_like_the_real_one() -> None:
    row = widths(real)
    assert row["verdict"] == "true with a condition"
    assert row["condition"] == f"from d_k = 256 on, in {STEPS} steps, at the learning rate 0.01"
    assert "it gets there with no seed and ends at an accuracy of 40 %" in row["answer"]
    assert row["value"] == 0.4


def slow(reader: str) -> Value:
    return lambda at: 300.0 if (at["reader"], at["d_k"]) == (reader, 1024) else real(at)


def never(reader: str, d_k: int) -> Value:
    return lambda at: None if (at["reader"], at["d_k"]) == (reader, d_k) else real(at)


@pytest.mark.parametrize(
    ("steps", "changes", "verdict"),
    [
        (lambda at: 50.0 if (at["reader"], at["d_k"]) == ("dot", 1024) else 100.0, {}, "false"),
        # Equal up to the intervals: nothing is certain.
        (lambda at: 100.0, {}, "not measured"),
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
        (real, {"error": 40.0}, "not measured"),
        (real, {"error": 30.0}, "true with a condition"),
        (never("scaled_dot", 1024), {}, "false"),
        # As slow at the smallest d_k: nothing grows with it.
        (lambda at: None if at["reader"] == "dot" else 100.0, {}, "false"),
        (real, {"sizes": (16, 256)}, "true with a condition"),
        (real, {"sizes": (16,)}, "not measured"),
        (real, {"readers": ("dot", "scaled_dot")}, "not measured"),
        (real, {"seeds": 1}, "true with a condition"),
        (real, {"readers": READERS}, "true with a condition"),
    ],
)
def test_verdicts_about_score_width(steps: Value, changes: dict[str, Any], verdict: str) -> None:
    assert widths(steps, **changes)["verdict"] == verdict


def test_the_answer_says_who_does_not_keep_up_and_what_is_not_certain_of_dot() -> None:
    answer = widths(
        lambda at: None if (at["reader"], at["d_k"]) == ("additive", 256) else 100.0
    )["answer"]  # fmt: skip
    assert "Unscaled dot attention does not surely fall behind" in answer
    assert (
        "Attention with additive scores does not keep up: at d_k = 256 it gets there with no seed"
    ) in answer
    assert "keep up" not in widths(real)["answer"]


def test_each_reader_is_judged_at_its_best_learning_rate() -> None:
    def steps(at: dict[str, Any]) -> float | None:
        # Wide additive attention fails at one rate, unscaled dot at 1024 learns at the other.
        if at["learning_rate"] == 0.01:
            return None if (at["reader"], at["d_k"]) == ("additive", 1024) else real(at)
        return 350.0 if at["reader"] == "dot" else 100.0

    row = widths(steps, rates=(0.001, 0.01))
    assert row["verdict"] == "true with a condition"
    assert "at the best of the learning rates 0.001 and 0.01" in row["condition"]
    assert row["value"] == 1.0


@pytest.mark.parametrize(
    ("there", "verdict"),
    # Fisher's exact test of so many of 5 seeds against 5 of 5: 1/252, 5/210 and 10/120.
    [(0.0, "true with a condition"), (0.2, "true with a condition"), (0.4, "not measured")],
)
def test_fewer_seeds_are_fewer_only_where_chance_is_unlikely(there: float, verdict: str) -> None:
    frame = table(
        "score_width",
        {"d_k": [16, 1024], "reader": READERS[1:], "step": [STEPS]},
        {
            "accuracy": lambda at: 0.95,
            "reached_90": lambda at: there if (at["reader"], at["d_k"]) == ("dot", 1024) else 1.0,
            # Those that got there were as fast: a mean over them alone would hide the others.
            "steps_to_90": lambda at: 100.0,
        },
    )
    row = judged("score_width", frame)["score_width"]
    assert row["verdict"] == verdict
    assert "5 of 5" not in row["numbers"]
    wanted = "no seed" if there == 0 else f"{round(5 * there)} of 5 seeds"
    assert f"gets there with {wanted} and ends at an accuracy of" in row["numbers"]


# Reach


def reach_table(
    *, initial: float = -0.2, trained: float = -0.02, attention: float = 0.0, far: int = 15,
    right: Value = lambda at: 0.3, readers: Iterable[str] = READERS, **more: Any,
) -> pd.DataFrame:  # fmt: skip
    """A summary where the fixed vector loses so many decades a pair, attention others."""

    def decades(at: dict[str, Any]) -> float:
        lost = {"initial": initial, "trained": trained}[at["stage"]]
        return float(at["distance"] * (lost if at["reader"] == "fixed" else attention))

    axes = {
        "reader": list(readers), "stage": ["initial", "trained"], "distance": range(far + 1),
    }  # fmt: skip
    metrics: dict[str, Value] = {"relative_log10_norm": decades, "accuracy": right}
    return table("reach", axes, metrics, **more)


def reached(**changes: Any) -> dict[str, dict[str, Any]]:
    return judged("reach", reach_table(**changes))


def test_a_table_like_the_real_one_refutes_that_reach_is_all() -> None:
    rows = reached()
    assert {name: row["verdict"] for name, row in rows.items()} == {
        "reach": "true", "vanishing": "false"
    }  # fmt: skip
    assert "15 pairs" in rows["reach"]["answer"]
    assert "Reach is not what the fixed vector lacks" in rows["vanishing"]["answer"]
    assert "reaches every distance" in rows["vanishing"]["answer"]


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
    assert f"after {STEPS} training steps its gradient" in reached()["vanishing"]["answer"]
    row = reached(trained=-0.2, right=lambda at: 1.0 if at["distance"] < 10 else 0.2)["vanishing"]
    assert row["condition"] == f"after {STEPS} training steps"
    # -2 decades are within the interval of distance 10: the ones before are surely within reach.
    assert "its gradient reaches 9 pairs back" in row["answer"]


def test_too_few_seeds_are_blamed_only_where_more_would_decide() -> None:
    wide = reached(trained=-0.15, error=0.5, right=lambda at: 2.0)["vanishing"]
    assert "the intervals are too wide to decide" in wide["condition"]
    mixed = reached(right=lambda at: 1.0 if at["distance"] < 10 else 0.2)["vanishing"]
    assert mixed["condition"] == (
        "within reach of its gradient the fixed vector answers some distances and others not"
    )


def test_a_norm_that_underflows_before_training_is_0() -> None:
    frame = reach_table(trained=-0.02)
    gone = (frame["metric"] == "relative_log10_norm") & (frame["distance"] == 15)
    frame = frame[~(gone & (frame["stage"] == "initial") & (frame["reader"] == "fixed"))]
    assert "(0 before training)" in judged("reach", frame)["vanishing"]["answer"]


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
