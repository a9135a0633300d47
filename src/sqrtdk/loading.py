"""Load the tables of a finished run as data frames."""

import csv
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pandas as pd

from sqrtdk.config import resolve
from sqrtdk.config.run import Run
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.messages import shorten
from sqrtdk.report import dictionary
from sqrtdk.schema import Column
from sqrtdk.storage import frames
from sqrtdk.storage.tables import TableError


@dataclass(frozen=True)
class LoadedRun:
    """A finished run.

    folder  where it is, such as results/default
    config  the resolved configuration: `config.settings["scaling"]["d_k"]` is the list of its d_k
    tables  its tables by path without ending, such as `tables["scaling/summary"]`
    """

    folder: Path
    config: Run
    tables: Mapping[str, pd.DataFrame]


class _Tables(Mapping[str, pd.DataFrame]):
    """The tables below a folder. Each is read when it is first used."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        self._folder = folder
        self._names = names
        self._read: dict[str, pd.DataFrame] = {}

    def __getitem__(self, name: str) -> pd.DataFrame:
        if name not in self._names:
            raise KeyError(f"{name!r}; the tables are {', '.join(self._names)}")
        if name not in self._read:
            self._read[name] = read_table(self._folder / f"{name}.csv")
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<tables {', '.join(self._names)}>"


def load_run(folder: str | Path) -> LoadedRun:
    """Load the configuration and the tables of the run in a folder, such as results/default.

    Raises UserError where there is no run, or where its configuration is invalid.
    """
    folder = _as_path("folder", folder)
    path = folder / "config.yaml"
    if not path.is_file():
        raise TableError(f"{folder} is not the folder of a run, which has a config.yaml")
    config = resolve.load(path)
    names = [name.removesuffix(".csv") for name in dictionary.known(config.settings)]
    there = [name for name in names if (folder / f"{name}.csv").is_file()]
    return LoadedRun(folder, config, _Tables(folder, there))


def read_table(path: str | Path) -> pd.DataFrame:
    """Read a table of a run as a data frame with the types of its columns.

    An undefined value is NaN. The header decides which table it is, so the file may have been
    moved, or be the rows that were measured by hand. Raises UserError for any other file, and for a
    table that was changed after it was written.
    """
    path = _as_path("path", path)
    try:
        with path.open(encoding="utf-8", newline="") as file:
            header = tuple(next(csv.reader(file), ()))
    except (OSError, ValueError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise TableError(f"{path} cannot be read as a table: {reason}") from None
    schema = _schemas().get(header)
    if schema is None:
        raise TableError(f"{path} is not a table of a run of this version")
    return frames.read(path, schema)


def _as_path(name: str, path: object) -> Path:
    """Return a path. Raises TypeError for anything but text or a path."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{name} is {shorten(path)}; allowed: text or a path")
    return Path(path)


@cache
def _schemas() -> dict[tuple[str, ...], tuple[Column, ...]]:
    """Return the columns of every table that a run can have, by their names."""
    known = dictionary.known(EXPERIMENTS).values()
    return {tuple(column.name for column in table.columns): table.columns for table in known}
