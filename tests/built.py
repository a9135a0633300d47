"""Tables of an experiment's smoke grid, computed by the code itself without the workflow."""

from functools import cache
from typing import Any

import pandas as pd

from sqrtdk.config import compose
from sqrtdk.experiments import cells, schemas
from sqrtdk.experiments.base import load
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.schema import Column
from sqrtdk.stats import summary
from sqrtdk.storage import planning

Tables = dict[str, pd.DataFrame]
Schemas = dict[str, tuple[Column, ...]]


@cache
def tables(name: str) -> tuple[Tables, Schemas]:
    """Return the tables that the figures show, and their columns. Read them, never change them."""
    experiment = EXPERIMENTS[name]
    settings: Any = compose.compose(["grid=smoke", f"experiments={name}"], {}).settings[name]
    rows = [
        row
        for slab in planning.slabs(settings, experiment.batched_axes)
        for row in cells.measure_cells(
            experiment.cells(slab | {"seeds": [0, len(settings["seed"])]}), experiment.columns
        )
    ]
    columns: Schemas = {}
    found: Tables = {}

    def add(table: str, content: Any) -> None:
        columns[table] = schemas.columns(experiment, table)
        found[table] = pd.DataFrame(content, columns=[one.name for one in columns[table]])

    add("runs", rows)
    if experiment.summarised:
        add("summary", summary.summarize(found["runs"], experiment.columns, {}))
    for table in experiment.tables:
        module = load(name, table.module)
        add(table.name, list(module.rows(settings, *(found[need] for need in table.needs))))
    return found, columns
