"""Cells: one row or several of each, and a failure stops its own cell alone."""

import pytest

from sqrtdk import cells
from sqrtdk.keys import Column

COLUMNS = (
    Column("seed", "An axis.", read=int, axis=True),
    Column("step", "An axis that the cell itself gives.", read=int, axis=True),
    Column("loss", "A metric."),
)


def test_a_cell_gives_one_row_or_several() -> None:
    several = [{"step": 0, "loss": 2.0}, {"step": 1, "loss": 1.0}]
    found = cells.rows([({"seed": 3}, lambda: several), ({"seed": 4}, lambda: several[0])], COLUMNS)
    assert [(row["seed"], row["step"]) for row in found] == [(3, 0), (3, 1), (4, 0)]


def test_a_row_that_is_not_a_number_fails_its_whole_cell_and_no_other(capsys) -> None:
    bad = [{"step": 0, "loss": 2.0}, {"step": 1, "loss": float("inf")}]
    good = {"step": 0, "loss": 2.0}
    reached = []

    def measure() -> dict[str, float]:
        reached.append(True)
        return good

    with pytest.raises(SystemExit) as stopped:
        cells.rows([({"seed": 3}, lambda: bad), ({"seed": 4}, measure)], COLUMNS)
    assert reached
    assert str(stopped.value) == "1 of 2 cells failed:\nseed=3"
    assert "loss is inf" in capsys.readouterr().err


def test_what_cells_share_is_computed_once_also_where_it_fails() -> None:
    calls = []

    def compute() -> list[dict[str, float]]:
        calls.append(True)
        raise ValueError("of them all")

    shared = cells.once(compute)
    for _ in range(3):
        with pytest.raises(ValueError, match="of them all"):
            shared()
    assert len(calls) == 1
    assert cells.once(lambda: [{"loss": 1.0}])() == [{"loss": 1.0}]
