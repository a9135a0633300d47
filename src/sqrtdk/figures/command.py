"""What the figure modules do as commands: tables from one folder, figures into another."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from sqrtdk import commands, summary
from sqrtdk.figures import FIGURES, TABLES, style
from sqrtdk.keys import Column

Tables = Mapping[str, pd.DataFrame]
"""The tables of an experiment by name."""

Builders = Mapping[str, Callable[[Tables], Figure]]
"""What draws each figure of an experiment."""


def draw(experiment: str, build: Builders, **schemas: Sequence[Column]) -> None:
    """Draw an experiment's figures from the tables in the first folder into the second one."""

    def write() -> None:
        source, target = map(Path, sys.argv[1:])
        tables = {
            name: summary.read(source / f"{name}.csv", schemas[name]) for name in TABLES[experiment]
        }
        for what in FIGURES[experiment]:
            with style.context():
                style.save(build[what](tables), target, f"{experiment}-{what}")

    commands.run(write, "TABLES", "FIGURES")
