"""Give the columns of each table of an experiment."""

from sqrtdk.experiments.base import Experiment, load
from sqrtdk.schema import Column
from sqrtdk.stats import contrasts, summary
from sqrtdk.theory import exact_table


def columns(experiment: Experiment, table: str) -> tuple[Column, ...]:
    """Return the columns of a table by its name. Raises KeyError for an unknown one."""
    common = {
        "runs": lambda: experiment.columns,
        "summary": lambda: summary.columns(experiment.columns),
        "contrasts": lambda: contrasts.columns(experiment.columns),
        "exact": lambda: exact_table.COLUMNS,
    }
    if table in common:
        return tuple(common[table]())
    return tuple(load(experiment.name, experiment.table(table).module).COLUMNS)
