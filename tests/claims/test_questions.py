"""The concept check: a conclusion is printed only if the numbers support it."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from claims.test_ledger import LAWS, RULES, Alter, change, table
from claims.test_recall_claims import reach_table

from sqrtdk.config import run as config_run
from sqrtdk.experiments import schemas
from sqrtdk.experiments.reach import measure as reach
from sqrtdk.experiments.reach.questions import PATH, long_range
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.experiments.related import measure as related
from sqrtdk.experiments.related.questions import stand_for
from sqrtdk.experiments.scaling import measure as scaling
from sqrtdk.experiments.scaling.questions import why_divide
from sqrtdk.jobs import answer
from sqrtdk.stats import summary
from sqrtdk.stats.intervals import MissingError
from sqrtdk.stats.series import Series, series_of
from sqrtdk.storage import atomic, tables

SETTINGS: dict[str, Any] = {
    "scaling": {name: RULES[name] for name in ("off", "on")},
    "inputs": LAWS,
}
NEARLY = "nearly that key's value"


def series(frame: pd.DataFrame) -> list[Series]:
    return series_of(SETTINGS, frame)


def matched(weight: float, error: float = 0.002) -> str:
    """The answer where a planted match gets this weight."""

    def alter(row: dict[str, Any]) -> float | None:
        match = (row["metric"], row["scaling"], row["inputs"]) == ("max_weight", "on", "planted")
        return weight if match else None

    both = ("gaussian", "planted")
    frame = table(n_k=[16], inputs=both, alter=alter, error=error)
    return stand_for(series(frame))


def test_a_match_that_takes_the_output_is_said_to() -> None:
    assert NEARLY in matched(0.95)
    # Too little, and too wide to tell.
    assert NEARLY not in matched(0.46)
    assert NEARLY not in matched(0.95, error=0.1)
    assert "one planted match gives it 0.46" in matched(0.46)


def test_a_match_without_a_counterpart_is_not_measured() -> None:
    with pytest.raises(MissingError, match="both a planted match and unrelated vectors"):
        stand_for(series(table(inputs=["planted"])))
    frame = table(d_k=[4, 16], n_k=[16], inputs=["gaussian", "planted"])
    apart = frame[(frame["inputs"] == "planted") == (frame["d_k"] == 4)]
    with pytest.raises(MissingError, match="no d_k in common"):
        stand_for(series(apart))


def why(alter: Alter = lambda row: None) -> str:
    return why_divide(series(table(n_k=[16], alter=alter)))


def test_the_chain_of_causes_has_its_numbers_and_three_sentences() -> None:
    found = why()
    for part in (
        "to the power 0.5",
        "so that the softmax saturates: at d_k = 1024, ",
        "The typical query then gets far less gradient: at d_k = 1024, the median norm of a query",
        # exp(-32 / 8) without scaling, exp(-1 / 8) with it.
        "gradient at the logits is 0.02075 ",
        "few queries have the rest: on average the largest of 8 rows holds ",
        "With √d_k the softmax hardly notices d_k: ",
        "(n_k = 16)",
    ):
        assert part in found
    assert found.count(". ") == 2


@pytest.mark.parametrize(
    ("alter", "gone"),
    [
        (change("entropy_normalized", lambda d: 0.9), "saturates"),
        (change("grad_logits_median", lambda d: 0.5), "far less gradient"),
        (change("grad_logits_top1_share", lambda d: 0.01), "have the rest"),
        (change("entropy_nats", lambda d: 1 / d, arm="on"), "hardly notices"),
    ],
)
def test_a_link_that_the_numbers_do_not_carry_is_numbers_alone(alter: Alter, gone: str) -> None:
    assert gone in why()
    assert gone not in why(alter)


def test_the_chain_needs_both_arms_and_unrelated_vectors() -> None:
    with pytest.raises(MissingError, match="no scale rule"):
        why_divide(series_of(SETTINGS | {"scaling": {"off": RULES["off"]}}, table()))
    with pytest.raises(MissingError, match="no unrelated vectors"):
        why_divide(series(table(inputs=["planted"])))


def test_only_a_value_is_said_to_get_its_weight_of_the_gradient() -> None:
    assert "the gradient of a value is its weight" in PATH
    assert "gradients of queries and keys pass through the softmax" in PATH


def test_what_is_true_by_construction_is_not_measured() -> None:
    found = long_range(reach_table())
    # Keys were drawn alike at every position: their weight says nothing of distance.
    assert "quarter" not in found
    assert "equal share" not in found


LACKS = "Not measured: the run has no experiment"


def test_a_run_answers_from_its_tables_and_says_what_it_lacks(tmp_path: Path) -> None:
    run = config_run.Run("mine", 50, {"scaling": SETTINGS})
    frame = table(n_k=[16])
    write(tmp_path / "scaling/summary.csv", frame, summary.columns(scaling.COLUMNS))
    stands, divides, reaches = (row["answer"] for row in answer.answered_questions(run, tmp_path))
    assert stands == f"{LACKS} related; the default grid has it."
    assert divides == why()
    assert reaches == f"{PATH} {LACKS} reach; the default grid has it."
    other = config_run.Run("mine", 50, {"related": SETTINGS})
    both = table(n_k=[16], inputs=["gaussian", "planted"])
    write(tmp_path / "related/summary.csv", both, summary.columns(related.COLUMNS))
    stands, divides, _ = (row["answer"] for row in answer.answered_questions(other, tmp_path))
    assert "one planted match" in stands
    assert divides == f"{LACKS} scaling; the default grid has it."


def test_where_reach_was_measured_the_long_range_answer_compares_with_recurrence(
    tmp_path: Path,
) -> None:
    run = config_run.Run("mine", 50, {"scaling": SETTINGS, "reach": {}})
    write(tmp_path / "scaling/summary.csv", table(n_k=[16]), summary.columns(scaling.COLUMNS))
    columns = summary.columns(reach.COLUMNS)
    frame = reach_table()
    write(tmp_path / "reach/summary.csv", frame, columns)
    *_, row = answer.answered_questions(run, tmp_path)
    assert row["answer"].startswith(PATH)
    assert "over 15 pairs attention keeps at least 1.00" in row["answer"]
    # Too short a source to tell: the rest of the answer is left.
    write(tmp_path / "reach/summary.csv", frame[frame["distance"] < 3], columns)
    *_, row = answer.answered_questions(run, tmp_path)
    assert row["answer"].startswith(f"{PATH} Not measured: ")


def test_a_run_beyond_the_chapter_answers_its_own_questions_in_a_line(tmp_path: Path) -> None:
    run = config_run.Run("mine", 50, {"exponent": {"inputs": LAWS}})
    columns = schemas.columns(EXPERIMENTS["exponent"], "best")
    row = {
        "n_k": 64, "n_q": 4, "inputs": "planted", "criterion": "entropy", "n_seeds": 3,
        "n_without": 0, "mean": 0.97, "ci_low": 0.96, "ci_high": 0.98, "exact": 0.97,
    }  # fmt: skip
    write(tmp_path / "exponent/best.csv", pd.DataFrame([row]), columns)
    rows = answer.answered_questions(run, tmp_path)
    why_root, enough = rows[-2:]
    assert why_root["question"] == "Why the square root, and not another power?"
    assert why_root["figure"] == "exponent-best"
    # The name of the input law is explained where it is used.
    assert "for one match (planted) 0.97 (0.96 to 0.98) at n_k = 64" in why_root["answer"]
    assert enough["answer"].endswith("Not measured: the run has no exponent/limits.csv.")
    assert not any(mark in str(one) for one in rows for mark in ("**", "](#"))


def write(path: Path, frame: pd.DataFrame, columns: Any) -> None:
    rows = [{str(k): v for k, v in row.items()} for row in frame.to_dict("records")]
    atomic.write_atomically(path, tables.text(rows, columns))
