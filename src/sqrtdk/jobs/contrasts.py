"""Write contrasts.csv."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from sqrtdk.config import resolve
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.schema import Settings
from sqrtdk.stats.contrasts import columns, contrast
from sqrtdk.stats.series import scaled_rule
from sqrtdk.storage import frames, guards, tables
from sqrtdk.system import command_line


def rows(settings: Settings, runs: pd.DataFrame, experiment: str) -> Iterator[tables.Row]:
    """Yield the contrasts of an experiment's runs with the rule that divides by √d_k, if any."""
    yield from contrast(runs, EXPERIMENTS[experiment].columns, scaled_rule(settings["scaling"]))


def main() -> None:
    """Write contrasts.csv of an experiment from the run's config and runs.csv."""
    configuration, experiment, runs, path = sys.argv[1:]
    settings = resolve.load(Path(configuration)).of(experiment)
    schema = EXPERIMENTS[experiment].columns
    found = rows(settings, frames.read(Path(runs), schema), experiment)
    guards.write_with_checksum(Path(path), tables.text(found, columns(schema)))


if __name__ == "__main__":
    command_line.run(main, "CONFIG", "EXPERIMENT", "RUNS.csv", "CONTRASTS.csv")
