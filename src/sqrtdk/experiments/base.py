"""Define what an experiment is: one object that names everything in its folder.

`experiments/NAME/experiment.py` ends in `EXPERIMENT = Experiment(...)`. It imports `measure`, this
module and at most another experiment's `EXPERIMENT`, because every shard job reads it. Claims,
figures, questions and derived tables are modules of the same folder, loaded by name when needed.
"""

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from sqrtdk.experiments.cells import Cell
from sqrtdk.schema import Column, Key, Settings

FOLDER = Path(__file__).resolve().parent
"""The folder of the experiments' folders."""


@dataclass(frozen=True)
class Table:
    """A derived table of an experiment: `module` of its folder has its `COLUMNS` and `rows`.

    `rows(settings, *needed)` gets the run's settings of the experiment and the tables that it
    `needs`, and returns the rows in their order. `note` describes a row. `judges` is for a
    table that decides claims.
    """

    name: str
    module: str
    note: str
    needs: tuple[str, ...] = ()
    judges: bool = False


@dataclass(frozen=True)
class Figure:
    """A figure: its name in `BUILD` of the folder's `figures` module, and the tables it shows.

    `seeds_from` is the table that has the number of seeds.
    """

    name: str
    tables: tuple[str, ...] = ("summary",)
    seeds_from: str = "summary"


@dataclass(frozen=True)
class Pivot:
    """The content of the report's compact tables of an experiment.

    `metrics` are tabulated, by default the first six. `down` is the axis with a row for each value,
    at most `most` of them, and the values of the axis `side` are next to each other. Where they are
    not of summary.csv, `table` names another table, and the module `pivot` of the folder has
    `summarized`, which gives it the shape of a summary, and `COLUMNS`, the meanings of its metrics.
    `worded` adds words to names of the configuration, as the figures have them. `also` names a
    module of the folder with `tables`, which makes further compact tables of a run.
    """

    metrics: tuple[str, ...] = ()
    side: str = "scaling"
    down: str = "d_k"
    most: int = 16
    table: str = "summary"
    worded: bool = False
    also: str = ""


@dataclass(frozen=True)
class Value:
    """A number of a small table: its name in words, and the columns that it is read from.

    These are the number, the ends of its interval and the exact value, as far as there are any.
    """

    words: str
    number: str
    ends: tuple[str, ...] = ()
    exact: str = ""


@dataclass(frozen=True)
class Small:
    """A small table of the report that answers a question, from a derived table.

    It has a row for each value of the axis `down`, at most `most`, and the `numbers` for each value
    of the column `side` next to each other. Other axes that vary make blocks. The rows are those
    with the values of `where`; over the axes `pooled` there is the mean, with an interval if that
    is the seed alone. An experiment with small tables has no compact tables of its summary.
    """

    table: str
    title: str
    meaning: str
    down: str
    numbers: tuple[Value, ...]
    side: str = ""
    where: Mapping[str, object] = field(default_factory=dict)
    pooled: tuple[str, ...] = ()
    most: int = 16


@dataclass(frozen=True)
class Reference:
    """Rows of runs.csv that the project's own machine measured, in the file `reference.csv`.

    `settings` are those behind them that no column has: the entry of each name, and the keys
    without an axis.
    """

    settings: Settings


class Measure(Protocol):
    """The module `measure` of an experiment, whose code the numbers come from.

    `CONFIG_KEYS` are its keys, `COLUMNS` those of runs.csv, and `cells` yields the cells of a slab.
    It may also have:

    - `BATCHED_AXES`: axes over which the cells of one slab share their draw, besides seeds and
      scale rules;
    - `memory(slab)`: the bytes that a job holds at its peak beyond what it imports; without it
      nothing is checked;
    - `seconds(slab)`: about how long one seed of a slab takes on one core; without it all seeds
      count alike in the progress line;
    - `refuse(settings)`: raises UserError for settings that cannot be measured, before any job
      starts.
    """

    __name__: str
    CONFIG_KEYS: tuple[Key, ...]
    COLUMNS: tuple[Column, ...]

    @property
    def cells(self) -> Callable[[Any], Iterable[Cell]]:
        """Return the cells of a slab. Any, because the slab of each experiment has its own keys."""


@dataclass(frozen=True)
class Experiment:
    """Everything that the engines know of an experiment.

    `row` describes a row of its runs.csv, and `measure` is the module of its folder that makes it.
    `scalar_scale_only` is for one that takes only scale rules that
    are one factor of d_k and n_k, `has_exact` for columns that theory has expectations of. One that
    is not `summarised` has no sample of seeds. An `example` keeps its numbers: keys for all
    experiments leave it alone. `paired` is for ratios of scale rules that share their draws. A run
    without the key `needs_key` leaves the experiment out. A `research` experiment is in the grid
    of that name and not in the default grid.
    `companion_of` names the experiment whose target builds this one too. `references` is a template
    of literature for the report, `NAME/FILE`; several experiments may share one. `limits` are
    sentences about what its numbers do not say; several experiments may share one.
    """

    name: str
    title: str
    row: str
    measure: Measure
    scalar_scale_only: bool = False
    has_exact: bool = False
    summarised: bool = True
    example: bool = False
    needs_key: str = ""
    research: bool = False
    paired: bool = False
    companion_of: str = ""
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    pivot: Pivot = Pivot()
    small: tuple[Small, ...] = ()
    references: str = ""
    limits: tuple[str, ...] = ()
    reference: Reference | None = None

    @property
    def measured_by(self) -> str:
        """Return the name of the module whose code the numbers come from."""
        return self.measure.__name__

    @property
    def config_keys(self) -> tuple[Key, ...]:
        """Return the configuration keys."""
        return self.measure.CONFIG_KEYS

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns of runs.csv."""
        return self.measure.COLUMNS

    @property
    def cells(self) -> Callable[[Any], Iterable[Cell]]:
        """Return the function that yields the cells of a slab."""
        return self.measure.cells

    @property
    def batched_axes(self) -> tuple[str, ...]:
        """Return the axes over which the cells of one slab share their draw."""
        found: tuple[str, ...] = getattr(self.measure, "BATCHED_AXES", ())
        return found

    @property
    def memory(self) -> Callable[[Any], int] | None:
        """Return the estimate of a job's memory, if the module has one."""
        return getattr(self.measure, "memory", None)

    @property
    def seconds(self) -> Callable[[Any], float] | None:
        """Return the estimate of the time of a seed, if the module has one."""
        return getattr(self.measure, "seconds", None)

    @property
    def refuse(self) -> Callable[[Any], None] | None:
        """Return the check of settings, if the module has one."""
        return getattr(self.measure, "refuse", None)

    @property
    def reference_file(self) -> Path:
        """Return the path of the numbers that `snakemake verify` compares a run with."""
        return FOLDER / self.name / "reference.csv"

    @property
    def drawn_from(self) -> tuple[str, ...]:
        """Return the tables that the figures show, each once."""
        return tuple(dict.fromkeys(table for one in self.figures for table in one.tables))

    @property
    def judged_by(self) -> tuple[str, ...]:
        """Return the tables that claims of this experiment may be judged by."""
        return (
            *(["summary"] if self.summarised else []),
            *(["contrasts"] if self.paired else []),
            *(table.name for table in self.tables if table.judges),
        )

    def table(self, name: str) -> Table:
        """Return a derived table by its name. Raises KeyError."""
        return {one.name: one for one in self.tables}[name]


def load(experiment: str, module: str) -> Any:
    """Import a module of an experiment's folder."""
    return importlib.import_module(f"{__package__}.{experiment}.{module}")
