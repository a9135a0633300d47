"""List the files of a run, and the meaning of every key and column in them."""

import csv
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from sqrtdk.claims import claim, question
from sqrtdk.config import keys as config_keys
from sqrtdk.experiments import schemas
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.schema import Column
from sqrtdk.stats import wording
from sqrtdk.storage import guards, tables


class File(NamedTuple):
    """A file of the run. `rows` is empty if it is not a table."""

    path: str
    what: str
    rows: str
    size: str


class Schema(NamedTuple):
    """The dictionary of one table or of the configuration, or of several with the same columns."""

    names: list[str]
    note: str
    entries: list[tuple[str, str, str]]
    shared: tuple[str, ...] = ()
    """Names that are explained once for several tables."""


class Table(NamedTuple):
    """The meaning of one row of a table, and its columns."""

    note: str
    columns: tuple[Column, ...]


NOTES = {
    "summary": "One row per metric and combination of axes, over the seeds.",
    "exact": "One row per exact value, also between the d_k of the grid.",
}

NO_EXACT = "Has no rows: theory has no expectation of a column of this experiment."

PAIRED = (
    "Ratios of arms that share their draws, with paired intervals: one row per metric, arm and "
    "combination of axes."
)


def known(experiments: Iterable[str]) -> dict[str, Table]:
    """Return every table that a run of these experiments can have, by its path."""
    result = {}
    for name in experiments:
        experiment = EXPERIMENTS[name]
        notes = {"runs": experiment.row}
        if experiment.summarised:
            notes |= NOTES if experiment.has_exact else NOTES | {"exact": NO_EXACT}
        if experiment.paired:
            notes["contrasts"] = PAIRED
        notes |= {table.name: table.note for table in experiment.tables}
        for table, note in notes.items():
            result[f"{name}/{table}.csv"] = Table(note, schemas.columns(experiment, table))
    result["claims.csv"] = Table("One row per claim.", claim.COLUMNS)
    result["questions.csv"] = Table("One row per question of the concept check.", question.COLUMNS)
    return result


OTHERS = {
    "config.yaml": "The resolved configuration.",
    "provenance.json": "Code, versions, machine, command, and digests of the tables.",
    "report.md": "Headline, verdicts and figures, for the page of a repository.",
    "ro-crate-metadata.json": "The run as a Workflow Run RO-Crate, for an archive.",
    "codemeta.json": "The software of the run, for a software catalogue.",
}


def downloads(folder: Path, experiments: Iterable[str]) -> list[File]:
    """Return every table and record of the run, with its size; figures have separate links.

    A folder may hold more: tables of an earlier run of this name, with other experiments.
    """
    notes = OTHERS | {path: table.note for path, table in known(experiments).items()}
    return [
        File(name, what, _count(path), _size(path.stat().st_size))
        for name, what in sorted(notes.items())
        if (path := folder / name).is_file()
    ]


def _count(path: Path) -> str:
    """Count the rows of a table without parsing it: no cell contains a line end."""
    if path.suffix != ".csv":
        return ""
    with path.open("rb") as file:
        return str(sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(2**20), b"")) - 1)


def _size(count: int) -> str:
    for unit, scale in (("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{wording.format_number(count / scale, 2)} {unit}"
    return f"{count} bytes"


def dictionary(folder: Path, experiments: Iterable[str]) -> list[Schema]:
    """Return the meaning of every key and column, from the definitions that the code uses."""
    experiments = list(experiments)
    run = [(name, "", meaning) for name, meaning in config_keys.RUN_KEYS.items()]
    found = [Schema(["config.yaml"], "Keys of the whole run.", run)]
    for name in experiments:
        keys = [
            (key.name, key.unit, f"{key.meaning} ({key.allowed})")
            for key in EXPERIMENTS[name].config_keys
        ]
        found.append(Schema([f"config.yaml: {name}"], "Keys of the experiment.", keys))
    for path, table in known(experiments).items():
        # The two tables that every experiment has are explained even if they were deleted.
        if path.endswith(("/runs.csv", "/summary.csv")) or (folder / path).is_file():
            columns = [(column.name, column.unit, column.meaning) for column in table.columns]
            found.append(Schema([path], table.note, columns))
    merged: list[Schema] = []
    for schema in found:
        same = next((one for one in merged if one[1:] == schema[1:]), None)
        if same:
            same.names.extend(schema.names)
        else:
            merged.append(schema)
    return _shared(merged)


def _shared(schemas: list[Schema]) -> list[Schema]:
    """Return the schemas with what several of them have explained once, in front."""
    count = Counter(entry for schema in schemas for entry in schema.entries)
    common = [entry for entry, times in count.items() if times > 1]
    if not common:
        return schemas
    rest = [
        schema._replace(
            entries=[entry for entry in schema.entries if count[entry] == 1],
            shared=tuple(entry[0] for entry in schema.entries if count[entry] > 1),
        )
        for schema in schemas
    ]
    return [Schema(["Several files"], "Names that mean the same in each of them.", common), *rest]


def read_rows(path: Path, columns: Iterable[Column] = ()) -> list[dict[str, str]]:
    """Read a table with all cells as text; return no rows without such a file.

    Raises TableError for a file that is not a table, and if it lacks one of some columns.
    """
    if not path.is_file():
        return []
    guards.refuse_changed(path)
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            rows = list(reader)
    except (UnicodeDecodeError, csv.Error) as error:
        raise tables.TableError(f"{path} cannot be read as its table: {error}") from None
    names = [column.name for column in columns]
    if not set(names) <= set(reader.fieldnames or ()) or any(None in row.values() for row in rows):
        raise tables.TableError(f"{path} lacks the columns {', '.join(names)}; delete it")
    return rows
