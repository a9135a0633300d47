"""The check that a run reproduces the reference numbers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Run, command

from sqrtdk.config import compose
from sqrtdk.experiments import cells
from sqrtdk.experiments.scaling import measure as scaling
from sqrtdk.experiments.scaling.experiment import EXPERIMENT
from sqrtdk.jobs import verify
from sqrtdk.storage import atomic, tables

RULES = {
    "off": {"rule": "constant", "value": 1},
    "on": {"rule": "power", "exponent": 0.5},
}


@pytest.fixture(scope="module")
def measured() -> list[tables.Row]:
    """The reference's cells, measured here and now."""
    found = []
    for d_k in (1, 16, 64, 1024):
        for n_k in (16, 64):
            slab: dict[str, Any] = {
                "d_k": d_k, "n_k": n_k, "n_q": 64, "d_v": 64, "dtype": "float64",
                "inputs": {"gaussian": {"law": "gaussian"}}, "scaling": RULES, "seeds": [0, 2],
            }  # fmt: skip
            found += cells.measure_cells(scaling.cells(slab), scaling.COLUMNS)
    return found


Check = Callable[..., Run]


@pytest.fixture
def check(in_process: Callable[..., Run]) -> Check:
    """Function: verify a folder with a scaling/runs.csv under a configuration."""

    def run(folder: Path, *overrides: str) -> Run:
        configured(folder, *overrides)
        return in_process(verify, folder)

    return run


def configured(folder: Path, *overrides: str) -> None:
    run = compose.compose(["grid=smoke", "experiments=scaling", *overrides], {})
    (folder / "config.yaml").write_text(run.to_yaml(), encoding="utf-8")


def compared(rows: list[tables.Row]) -> verify.Verification:
    reference = verify.read_rows(EXPERIMENT.reference_file, scaling.COLUMNS)
    return verify.compare(rows, reference, scaling.COLUMNS)


def test_todays_code_reproduces_the_reference(measured: list[tables.Row]) -> None:
    found = compared(measured)
    assert found.differ == []
    assert found.lacking == 0
    assert found.agree == found.cells * (len(scaling.COLUMNS) - 7) == 32 * 40


def test_a_number_that_is_off_is_named_with_its_cell(
    measured: list[tables.Row], tmp_path: Path
) -> None:
    off = [dict(row) for row in measured]
    off[3]["entropy_nats"] *= 1 + 1e-9
    off[4]["grad_q_rms"] *= 1 + 1e-13
    path = tmp_path / "scaling/runs.csv"
    atomic.write_atomically(path, tables.text(off, scaling.COLUMNS))
    configured(tmp_path)
    done = command(tmp_path, "sqrtdk.jobs.verify", tmp_path)
    assert done.returncode == 1
    (line, total) = done.stdout.splitlines()
    assert line.startswith("sqrtdk: d_k=1 n_k=16 n_q=64 inputs=gaussian dtype=float64 scaling=on")
    assert "entropy_nats is" in line
    assert "1279 of 1280 numbers agree" in total
    assert "does not reproduce" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_run_with_other_cells_has_nothing_to_compare(
    measured: list[tables.Row], tmp_path: Path, check: Check
) -> None:
    path = tmp_path / "scaling/runs.csv"
    others = [row | {"d_k": 3} for row in measured]
    atomic.write_atomically(path, tables.text(others, scaling.COLUMNS))
    done = check(tmp_path)
    assert done.returncode == 1
    assert "has none of the cells of the reference" in done.stderr
    some = [*measured[:5], *others]
    found = compared(some)
    assert (found.cells, found.lacking) == (5, 27)


def test_cells_that_mean_something_else_are_not_compared(
    measured: list[tables.Row], tmp_path: Path, check: Check
) -> None:
    atomic.write_atomically(tmp_path / "scaling/runs.csv", tables.text(measured, scaling.COLUMNS))
    assert "1280 of 1280 numbers agree" in check(tmp_path).stdout
    redefined = check(tmp_path, "scale_rules.on.exponent=0.4")
    assert "640 of 640 numbers agree" in redefined.stdout
    other = check(tmp_path, "scaling={d_v: 32}")
    assert "has none of the cells of the reference" in other.stderr


@pytest.mark.parametrize("content", [b"", b"\xff", b"d_k\n1\n"])
def test_what_is_no_table_is_answered_in_one_line(
    tmp_path: Path, check: Check, content: bytes
) -> None:
    atomic.write_atomically(tmp_path / "scaling/runs.csv", content)
    done = check(tmp_path)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("sqrtdk: ")
