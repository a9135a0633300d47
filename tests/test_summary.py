"""Summary: intervals over seeds, quadratic means where theory gives mean squares."""

import math
from pathlib import Path

import numpy as np
import pytest

from sqrtdk import summary, tables
from sqrtdk.experiments import scaling
from sqrtdk.keys import Column

SCHEMA = (
    Column("d_k", "An axis.", read=int, axis=True),
    Column("scaling", "An axis.", read=str, axis=True),
    Column("seed", "The unit.", read=int, axis=True),
    Column("entropy", "A metric."),
    Column("norm", "A metric.", pool="rms"),
    Column("share", "A metric.", optional=True),
)


def write(path: Path, text: str) -> Path:
    path.write_text("d_k,scaling,seed,entropy,norm,share\n" + text, encoding="utf-8")
    return path


def test_the_interval_is_students_by_hand() -> None:
    # Mean 2, sd 1, n 3: half width t(0.975, 2) / sqrt(3), with t = 4.302652729749464 (tables).
    low, high = summary.interval(np.array([1.0, 2.0, 3.0]))
    half = 4.302652729749464 / math.sqrt(3)
    # stdtrit agrees with printed tables to their last digit, 1e-15; two more roundings.
    assert low == pytest.approx(2 - half, rel=1e-14)
    assert high == pytest.approx(2 + half, rel=1e-14)


def test_the_interval_covers_the_mean_in_95_percent_of_samples() -> None:
    rng = np.random.default_rng(0)
    trials = 4000
    hits = sum(
        low < 0 < high
        for low, high in (summary.interval(rng.standard_normal(5)) for _ in range(trials))
    )
    # Binomial standard error sqrt(.95 * .05 / 4000) = 0.0034; four of them.
    assert abs(hits / trials - 0.95) < 0.014


def test_rms_columns_pool_the_squares() -> None:
    found = summary.statistics(np.array([3.0, 4.0, 5.0]), pool="rms")
    low, high = summary.interval(np.array([9.0, 16.0, 25.0]))
    assert found["mean"] == math.sqrt(50 / 3)
    # The lower end of the squares' interval is below 0, where a square cannot be.
    assert low < 0
    assert (found["ci_low"], found["ci_high"]) == (0.0, math.sqrt(high))
    assert (found["sd"], found["median"]) == (1.0, 4.0)


def test_one_seed_has_a_mean_and_no_interval() -> None:
    found = summary.statistics(np.array([3.0]))
    assert (found["mean"], found["median"], found["n_seeds"]) == (3.0, 3.0, 1)
    assert all(math.isnan(found[name]) for name in ("sd", "ci_low", "ci_high", "exact", "z"))


def test_a_table_has_one_row_per_axes_and_metric_in_order(tmp_path: Path) -> None:
    path = write(
        tmp_path / "runs.csv", "2,off,0,1,1,\n16,off,0,2,1,\n2,on,0,3,1,0.5\n2,on,1,5,1,\n"
    )
    rows = summary.summarize(summary.read(path, SCHEMA), SCHEMA, {})
    assert [(row["d_k"], row["scaling"], row["metric"]) for row in rows] == [
        (2, "off", "entropy"),
        (2, "off", "norm"),
        (2, "on", "entropy"),
        (2, "on", "norm"),
        (2, "on", "share"),
        (16, "off", "entropy"),
        (16, "off", "norm"),
    ]
    assert [row["mean"] for row in rows if row["metric"] == "entropy"] == [1, 4, 2]
    # Undefined for seed 1, so it rests on one seed and says so.
    assert [row["n_seeds"] for row in rows if row["metric"] == "share"] == [1]


def test_floats_are_read_to_the_last_bit(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    values = [float(x) for x in rng.standard_normal(500) * 10.0 ** rng.integers(-300, 300, 500)]
    path = write(
        tmp_path / "runs.csv", "".join(f"2,off,{i},{x!r},1,1\n" for i, x in enumerate(values))
    )
    assert list(summary.read(path, SCHEMA)["entropy"]) == values


def test_a_table_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("d_k,scaling\n2,off\n", encoding="utf-8")
    with pytest.raises(tables.TableError, match=r"runs\.csv has the columns of another version"):
        summary.read(path, SCHEMA)


def test_an_empty_field_of_a_required_column_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="could not convert string to float"):
        summary.read(write(tmp_path / "runs.csv", "2,off,0,,1,1\n"), SCHEMA)


def test_the_columns_are_the_contract() -> None:
    names = " ".join(column.name for column in summary.columns(scaling.COLUMNS))
    assert names == (
        "d_k n_k n_q inputs dtype scaling metric n_seeds mean sd median ci_low ci_high exact z"
    )
