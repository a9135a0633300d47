"""Draw the figures of an experiment."""

import io
import sys
from collections.abc import Callable
from pathlib import Path

from matplotlib.figure import Figure

from sqrtdk.config.errors import invalid_value
from sqrtdk.experiments import schemas
from sqrtdk.experiments.base import load
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.figures import draw as figures
from sqrtdk.figures import style
from sqrtdk.system import command_line


def prepare() -> None:
    """Load what matplotlib loads with the first figure: fonts, file formats, the parser of math."""
    with style.context():
        figure = Figure(figsize=(1, 1))
        figure.subplots().set_title("$d_k$", parse_math=True)
        for kind in ("svg", "png"):
            figure.savefig(io.BytesIO(), format=kind)


def main(draw: Callable[..., None] = figures.draw) -> None:
    """Draw an experiment's figures (first) from a folder of tables into another folder."""
    name, source, target = sys.argv[1:]
    experiment = EXPERIMENTS.get(name)
    if experiment is None:
        raise invalid_value("experiment", name, ", ".join(EXPERIMENTS), EXPERIMENTS)
    columns = {table: schemas.columns(experiment, table) for table in experiment.drawn_from}
    build = load(name, "figures").BUILD
    draw(name, build, columns, Path(source), Path(target))


if __name__ == "__main__":
    command_line.run(main, "EXPERIMENT", "TABLES", "FIGURES")
