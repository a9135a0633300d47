"""Draw the figures of an experiment as a command: tables from one folder, figures into another."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from sqrtdk.figures import style
from sqrtdk.schema import Column
from sqrtdk.storage import frames
from sqrtdk.system import command_line

Tables = Mapping[str, pd.DataFrame]
"""The tables of an experiment by name."""

Builders = Mapping[str, Callable[[Tables], Figure]]
"""The function that draws each figure of an experiment, by the figure's name."""


def draw(experiment: str, build: Builders, **schemas: Sequence[Column]) -> None:
    """Draw an experiment's figures from the tables in the first folder into the second one."""

    def write() -> None:
        source, target = map(Path, sys.argv[1:])
        tables = {name: frames.read(source / f"{name}.csv", schemas[name]) for name in schemas}
        for what in build:
            with style.context():
                style.save(build[what](tables), target, f"{experiment}-{what}")

    command_line.run(write, "TABLES", "FIGURES")
