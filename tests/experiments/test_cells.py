"""Cells: each gives one row or several, and a failure stops only its own cell."""

from functools import partial

import pytest

from sqrtdk.experiments import cells
from sqrtdk.schema import Column

COLUMNS = (
    Column("seed", "An axis.", read=int, axis=True),
    Column("step", "An axis that the cell itself gives.", read=int, axis=True),
    Column("loss", "A metric."),
)


def test_a_cell_gives_one_row_or_several() -> None:
    several = [{"step": 0, "loss": 2.0}, {"step": 1, "loss": 1.0}]
    found = cells.measure_cells(
        [({"seed": 3}, lambda: several), ({"seed": 4}, lambda: several[0])], COLUMNS
    )
    assert [(row["seed"], row["step"]) for row in found] == [(3, 0), (3, 1), (4, 0)]


def test_a_row_that_is_not_a_number_fails_its_whole_cell_and_no_other(capsys) -> None:
    bad = [{"step": 0, "loss": 2.0}, {"step": 1, "loss": float("inf")}]
    good = {"step": 0, "loss": 2.0}
    reached = []

    def measure() -> dict[str, float]:
        reached.append(True)
        return good

    with pytest.raises(SystemExit) as stopped:
        cells.measure_cells([({"seed": 3}, lambda: bad), ({"seed": 4}, measure)], COLUMNS)
    assert reached
    said = str(stopped.value)
    assert said == "sqrtdk: 1 of 2 cells failed:\nseed=3: TableError: loss is inf"
    assert "Traceback" not in capsys.readouterr().err


def test_what_cells_share_is_computed_once() -> None:
    calls = []

    def compute(rules: list[str], seeds: list[int]) -> list[list[str]]:
        calls.append((rules, seeds))
        return [[f"{rule} {seed}" for seed in seeds] for rule in rules]

    at = cells.lazy_batch(compute, ["off", "on"], [3, 4])
    assert [at(1, 0), at(0, 1), at(1, 1)] == ["on 3", "off 4", "on 4"]
    assert calls == [(["off", "on"], [3, 4])]


def test_where_cells_fail_together_only_the_one_to_blame_fails_alone() -> None:
    def compute(rules: list[str], seeds: list[int]) -> list[list[dict[str, float]]]:
        if "off" in rules and 4 in seeds:
            raise OverflowError("too large")
        return [[{"step": 0, "loss": 1.0} for _ in seeds] for _ in rules]

    rules, seeds = ["off", "on"], [3, 4]
    at = cells.lazy_batch(compute, rules, seeds)
    found = [
        ({"scaling": rule, "seed": seed}, partial(at, arm, place))
        for arm, rule in enumerate(rules)
        for place, seed in enumerate(seeds)
    ]
    with pytest.raises(SystemExit) as stopped:
        cells.measure_cells(found, COLUMNS)
    lines = str(stopped.value).splitlines()
    assert lines == [
        "sqrtdk: 1 of 4 cells failed:",
        "scaling=off seed=4: OverflowError: too large",
    ]


def test_what_is_no_fault_of_the_numbers_has_its_traceback(capsys) -> None:
    def measure() -> dict[str, float]:
        raise KeyError("loss")

    with pytest.raises(SystemExit, match="seed=3: KeyError: 'loss'"):
        cells.measure_cells([({"seed": 3}, measure)], COLUMNS)
    assert "Traceback" in capsys.readouterr().err


def test_a_cell_without_enough_memory_asks_for_more_of_it_in_one_line(capsys) -> None:
    def measure() -> dict[str, float]:
        raise MemoryError("Unable to allocate 2.00 GiB")

    with pytest.raises(SystemExit) as stopped:
        cells.measure_cells([({"seed": 3}, measure)], COLUMNS, {"seed": {"rule": "a"}})
    assert str(stopped.value).endswith(
        "seed=3: MemoryError: Unable to allocate 2.00 GiB; try smaller n_k, n_q or d_k, or a "
        "machine or job with more memory"
    )
    assert not capsys.readouterr().err
