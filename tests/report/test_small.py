"""The small tables of the page: rows, columns, blocks and cells of derived tables."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from sqrtdk.experiments import schemas
from sqrtdk.experiments.base import Small, Value
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.report.small import small
from sqrtdk.schema import Column

SCHEMA = (
    Column("scaling", "", read=str, axis=True),
    Column("d_k", "", read=int, axis=True),
    Column("task", "", read=str, axis=True),
    Column("rate", "", axis=True),
    Column("seed", "", read=int, axis=True),
    Column("loss", "", "nats"),
    Column("low", ""),
    Column("high", ""),
    Column("known", ""),
    Column("count", "", read=int),
)
SETTINGS: Any = {"scaling": ["on", "mine"], "task": ["b", "a"]}


def table(**changes: Any) -> pd.DataFrame:
    rows = [
        {"scaling": scaling, "d_k": d_k, "task": task, "rate": 0.1, "seed": 0, "loss": 2.0 + place,
         "low": 1.5, "high": 9.5, "known": 2.5, "count": 7}
        for place, (scaling, d_k, task) in enumerate(
            (x, y, z) for x in ("mine", "on") for y in (4, 16) for z in ("a", "b")
        )
    ]  # fmt: skip
    return pd.DataFrame(rows).assign(**changes)


def wanted(*numbers: Value, **changes: Any) -> Small:
    return Small("one", "A title", "A meaning.", "scaling", numbers, **changes)


def test_rows_are_in_the_order_of_the_configuration_and_named_in_words() -> None:
    loss = Value("", "loss", ("low", "high"), "known")
    found = small(wanted(loss, side="d_k"), table(), SCHEMA, SETTINGS)
    assert found is not None
    assert (found.series, found.arms) == (["d_k = 4", "d_k = 16"], [""])
    assert [label for label, _ in found.blocks] == ["task = b", "task = a"]
    _, ((first, (cell, _)), (second, _)) = found.blocks[0]
    assert (first, second) == ("1/√d_k (on)", "mine")
    assert cell is not None
    assert (cell.mean, cell.interval, cell.exact) == ("7.0", "(1.5 to 9.5)", "exact 2.500")
    assert found.fixed == "rate = 0.1, seed = 0"
    assert (found.title, found.name) == ("A title", "one")


def test_a_table_has_the_rows_of_its_condition_and_none_without_any() -> None:
    loss = Value("loss", "loss")
    found = small(wanted(loss, where={"d_k": 4, "task": "a"}), table(), SCHEMA, SETTINGS)
    assert found is not None
    ((_, rows),) = found.blocks
    assert [cells[0].mean for _, cells in rows if cells[0]] == ["6.00", "2.00"]
    assert small(wanted(loss, where={"d_k": 5}), table(), SCHEMA, SETTINGS) is None
    assert small(wanted(loss), table(loss=math.nan), SCHEMA, SETTINGS) is None


def test_settings_and_counts_are_shown_as_they_are_and_what_never_happens_in_words() -> None:
    numbers = (Value("best", "rate"), Value("seeds", "count"), Value("loss", "loss"))
    where = {"d_k": 4, "task": "a"}
    found = small(wanted(*numbers, where=where), table(loss=math.inf), SCHEMA, SETTINGS)
    assert found is not None
    # An axis that is shown as a number separates no rows.
    assert found.fixed == "d_k = 4, task = a, seed = 0"
    ((_, rows),) = found.blocks
    assert [cell.mean for cell in rows[0][1] if cell] == ["0.1", "7", "never"]


def test_seeds_are_pooled_with_their_interval_and_other_rows_are_counted() -> None:
    losses = [0.1, 0.3, 0.2, 0.6]
    rows = pd.concat([table().iloc[:1].assign(seed=i, loss=x) for i, x in enumerate(losses)])
    number = Value("loss", "loss")
    found = small(wanted(number, pooled=("seed",)), rows, SCHEMA, SETTINGS)
    assert found is not None
    cell = found.blocks[0][1][0][1][0]
    half = scipy.stats.t.ppf(0.975, 3) * np.std(losses, ddof=1) / 2
    assert cell is not None
    # No loss is below 0, so its interval ends there.
    assert 0.3 - half < 0
    assert (cell.mean, cell.interval) == ("0.30", f"(0.00 to {0.3 + half:.2f})")
    found = small(wanted(number, pooled=("d_k", "seed")), rows, SCHEMA, SETTINGS)
    assert found is not None
    cell = found.blocks[0][1][0][1][0]
    assert cell is not None
    assert (cell.mean, cell.interval, cell.seeds) == ("0.300", "", "4 runs")


@pytest.mark.parametrize("name", [name for name, one in EXPERIMENTS.items() if one.small])
def test_small_tables_name_columns_of_a_derived_table_that_exists(name: str) -> None:
    experiment = EXPERIMENTS[name]
    for one in experiment.small:
        assert one.table in {table.name for table in experiment.tables}
        columns = {column.name: column for column in schemas.columns(experiment, one.table)}
        named = [column for x in one.numbers for column in (x.number, *x.ends, x.exact) if column]
        assert {*named, one.down, *one.where, *one.pooled} <= set(columns)
        assert not one.side or one.side in columns
        assert columns[one.down].axis
