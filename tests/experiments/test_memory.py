"""Estimates of a job's memory against what Python's allocator saw."""

import tracemalloc
from typing import Any

import pytest

from sqrtdk.experiments import cells
from sqrtdk.experiments.registry import EXPERIMENTS

SIZES = {"n_k": 701, "n_q": 503, "d_k": 17, "d_v": 5, "dtype": "float64", "seeds": [0, 1]}
LAW = {"inputs": {"gaussian": {"law": "gaussian"}}}
RULES = {"scaling": {"off": {"rule": "constant", "value": 1.0}}}

TASK = {
    "d_k": 67, "n_k": 17, "batch_size": 13, "d_model": 19, "d_v": 11, "noise_sd": 0.6, "steps": 53,
    "learning_rate": [0.01, 0.03], "seeds": [0, 1],
}  # fmt: skip
TRANSFORMER = {
    "task": "text", "d_head": [8], "learning_rate": 0.01, "d_model": 32, "n_tokens": 37, "steps": 2,
    "batch": 3, "log_every": 2, "seeds": [0, 2],
}  # fmt: skip

SLABS: dict[str, dict[str, Any]] = {
    "scaling": SIZES | LAW | RULES,
    "related": SIZES | LAW | RULES,
    "exponent": SIZES | LAW | {"exponent_steps": 2},
    "precision": SIZES | LAW | RULES
    | {"input_sd": [1.0], "precision": ["float16"], "order": ["before"]},
    "remedies": TASK | {"remedy": ["off", "warmup", "on", "qk_norm_1"]},
    "remedies, many keys": TASK | {"remedy": ["off", "qk_norm_1"], "n_k": 149},
    "sinks": TASK | {"attention": ["softmax", "sigmoid_bias"], "first_key": ["learned"]},
    "extrapolation": TASK | RULES | {"n_asked": [17, 257], "multiplier": ["fixed", "learned"]},
    "projections": TASK | {"projections": ["separate"], "relation": "turned"},
    "transformer": TRANSFORMER | RULES | {"network": "transformer"},
    "transformer, recurrent": TRANSFORMER | RULES | {"network": "gru"},
}  # fmt: skip


@pytest.mark.parametrize("name", SLABS)
def test_the_estimated_memory_of_a_cell_is_that_of_its_arrays(name: str) -> None:
    known, slab = EXPERIMENTS[name.partition(",")[0]], SLABS[name]
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
