"""Draw the figures of an experiment as a command: tables from one folder, figures into another."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from sqrtdk.figures import style
from sqrtdk.schema import Column
from sqrtdk.storage import frames

Tables = Mapping[str, pd.DataFrame]
"""The tables of an experiment by name."""

Builders = Mapping[str, Callable[[Tables], Figure]]
"""The function that draws each figure of an experiment, by the figure's name."""


def draw(
    experiment: str,
    build: Builders,
    schemas: Mapping[str, Sequence[Column]],
    source: Path,
    target: Path,
) -> None:
    """Draw an experiment's figures from the tables in the first folder into the second one."""
    tables = _tables(schemas, source)
    for what in build:
        with style.context():
            style.save(build[what](tables), target, f"{experiment}-{what}")


def draw_for_print(
    experiment: str,
    build: Builders,
    schemas: Mapping[str, Sequence[Column]],
    source: Path,
    target: Path,
) -> None:
    """Draw an experiment's figures for a paper (PDF) and for slides (PNG), from the same tables."""
    tables = _tables(schemas, source)
    for what in build:
        with style.context(style.PAPER):
            style.save_pdf(build[what](tables), target, f"{experiment}-{what}")
        with style.context():
            style.save_slide(build[what](tables), target, f"{experiment}-{what}")


def _tables(schemas: Mapping[str, Sequence[Column]], source: Path) -> Tables:
    return {name: frames.read(source / f"{name}.csv", schemas[name]) for name in schemas}
