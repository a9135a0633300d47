"""Estimates of a job's memory against what Python's allocator saw."""

import tracemalloc
from typing import Any

import pytest

from sqrtdk.experiments import cells
from sqrtdk.experiments.registry import EXPERIMENTS

SIZES = {"n_k": 701, "n_q": 503, "d_k": 17, "d_v": 5, "dtype": "float64", "seeds": [0, 1]}
LAW = {"inputs": {"gaussian": {"law": "gaussian"}}}
RULES = {"scaling": {"off": {"rule": "constant", "value": 1.0}}}

SLABS: dict[str, dict[str, Any]] = {
    "scaling": SIZES | LAW | RULES,
    "related": SIZES | LAW | RULES,
    "exponent": SIZES | LAW | {"exponent_steps": 2},
    "precision": SIZES | LAW | RULES
    | {"input_sd": [1.0], "precision": ["float16"], "order": ["before"]},
}  # fmt: skip


@pytest.mark.parametrize("name", SLABS)
def test_the_estimated_memory_of_a_cell_is_that_of_its_arrays(name: str) -> None:
    known, slab = EXPERIMENTS[name], SLABS[name]
    assert known.memory is not None
    # What the first cell loads is not counted.
    cells.measure_cells(known.cells(slab | {"n_k": 3, "n_q": 2}), known.columns, slab)
    tracemalloc.start()
    try:
        cells.measure_cells(known.cells(slab), known.columns, slab)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # An estimate that is too low ends a job on a cluster; one of twice the peak reserves a node
    # that another job could use. Below, 5 % for small arrays, which no estimate lists.
    assert 0.95 < known.memory(slab) / peak < 2
