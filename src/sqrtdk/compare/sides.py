"""Read one side of a comparison: the folder of a run, or the committed reference numbers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from sqrtdk.claims import claim
from sqrtdk.config import errors, yaml_reader
from sqrtdk.experiments import schemas
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.report.dictionary import read_rows
from sqrtdk.schema import Document
from sqrtdk.storage import frames, tables

REFERENCE = "reference"
"""Name of the numbers in the repository that `snakemake verify` compares with."""

TABLE = "runs"


@dataclass(frozen=True)
class Side:
    """One side of a comparison.

    config    the resolved configuration, as in config.yaml
    record    provenance.json; empty without one
    runs      the path of each experiment's runs.csv
    verdicts  the rows of claims.csv by claim; empty without one
    """

    name: str
    config: Document
    runs: Mapping[str, Path]
    record: Document = field(default_factory=dict)
    verdicts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def read(self, experiment: str) -> pd.DataFrame:
        """Return runs.csv of an experiment. Raises TableError."""
        return frames.read(self.runs[experiment], schemas.columns(EXPERIMENTS[experiment], TABLE))


def read(folder: Path) -> Side:
    """Read a side from the folder of a run; a folder named `reference` is the reference.

    Raises ConfigError or TableError where the folder has no run, or a file that was changed.
    """
    if folder.name == REFERENCE:
        return reference()
    path = folder / "config.yaml"
    if not path.is_file():
        raise tables.TableError(f"{folder} is not the folder of a run, which has a config.yaml")
    config = yaml_reader.read_config(path)
    listed = config.get("experiments")
    if not isinstance(listed, list):
        raise errors.ConfigError(f"{path} is not the resolved configuration of a run")
    record = folder / "provenance.json"
    rows = read_rows(folder / "claims.csv", claim.COLUMNS)
    return Side(
        name=folder.name,
        config=config,
        runs={
            name: path
            for name in listed
            if name in EXPERIMENTS and (path := folder / name / f"{TABLE}.csv").is_file()
        },
        record=tables.read_record(record) if record.is_file() else {},
        verdicts={row["claim"]: row for row in rows},
    )


def reference() -> Side:
    """Return the reference numbers: some cells, without a record of the machine or verdicts."""
    known = {name: one for name, one in EXPERIMENTS.items() if one.reference is not None}
    config: dict[str, Any] = {"experiments": list(known)}
    for name, experiment in known.items():
        table = frames.read(experiment.reference_file, experiment.columns)
        axes = [column.name for column in experiment.columns if column.axis]
        values = {axis: sorted(table[axis].unique().tolist()) for axis in axes}
        block = config[name] = {key.name: values.get(key.name) for key in experiment.config_keys}
        block["seeds"] = len(block.pop("seed"))
        settings = experiment.reference.settings if experiment.reference else {}
        for key in experiment.config_keys:
            value = settings.get(key.name)
            if key.named_in and isinstance(value, Mapping):
                config.setdefault(key.named_in, {}).update(value)
            elif key.name in settings:
                block[key.name] = value
    return Side(REFERENCE, config, {name: one.reference_file for name, one in known.items()})


def common(first: Side, second: Side) -> list[str]:
    """Return the experiments of both sides, in the order of the report. Raises ConfigError."""
    found = [name for name in EXPERIMENTS if name in first.runs and name in second.runs]
    if not found:
        has = "; ".join(
            f"{side.name} has {', '.join(side.runs) or 'none that is finished'}"
            for side in (first, second)
        )
        raise errors.ConfigError(f"runs: no experiment is in both: {has}")
    return found
