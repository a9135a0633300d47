"""Draw one small matrix as a picture: names, printed digits and tints, and arrows between matrices.

Positions and sizes are in inches from the upper left corner of the figure, because the size of a
matrix follows from its digits and not from the figure.
"""

from typing import NamedTuple

from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

from sqrtdk.experiments.worked_example.matrices import Matrix, entry
from sqrtdk.figures.style import INK, RULE, SMALL

CELL = (0.52, 0.24)
"""Width and height of one entry."""

NAMES = 0.5
"""Width of the names of rows."""

HEADING_HEIGHT = 0.37
"""Height of a title and of the names of columns."""


class Box(NamedTuple):
    """The position of the entries of a matrix."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def middle(self) -> tuple[float, float]:
        """Return the centre of the box."""
        return (self.left + self.right) / 2, (self.top + self.bottom) / 2


def plot_matrix(
    figure: Figure,
    matrix: Matrix,
    title: str,
    at: tuple[float, float],
    *,
    largest: float,
    named: bool = True,
) -> Box:
    """Draw a matrix whose title begins at a position; `named` is whether its rows have names.

    An entry of magnitude `largest` has the strongest tint; if `largest` is infinite there is none.
    """
    (left, top), (wide, high) = at, CELL
    left, top = left + NAMES * named, top + HEADING_HEIGHT
    n_rows, n_columns = len(matrix.rows), len(matrix.columns)
    box = Box(left, top, left + wide * n_columns, top + high * n_rows)
    width, height = figure.get_size_inches()
    axes = figure.add_axes(
        (
            box.left / width,
            1 - box.bottom / height,
            (box.right - box.left) / width,
            (box.bottom - box.top) / height,
        )
    )
    axes.set_xlim(0, n_columns)
    axes.set_ylim(n_rows, 0)
    axes.set_axis_off()
    axes.text(0, -0.82, title, fontsize=9, fontweight="bold")
    # In each column, the digits and the name above them are right-aligned.
    end = 0.93
    for j, name in enumerate(matrix.columns):
        axes.text(j + end, -0.22, name, ha="right", fontsize=SMALL)
    for i, (name, values) in enumerate(zip(matrix.rows, matrix.entries, strict=True)):
        if named:
            axes.text(-0.14, i + 0.5, name, ha="right", va="center_baseline", fontsize=SMALL)
        for j, value in enumerate(values):
            shown = entry(value, largest)
            axes.add_patch(
                Rectangle((j, i), 1, 1, facecolor=shown.color, alpha=shown.opacity, linewidth=0)
            )
            axes.text(
                j + end, i + 0.5, shown.text, ha="right", va="center_baseline", fontsize=SMALL
            )
    axes.hlines(range(n_rows + 1), 0, n_columns, colors=RULE, linewidth=0.6, clip_on=False)
    axes.vlines(range(n_columns + 1), 0, n_rows, colors=RULE, linewidth=0.6, clip_on=False)
    return box


def arrow(
    figure: Figure, start: tuple[float, float], end: tuple[float, float], words: str = ""
) -> None:
    """Draw an arrow between two positions, with words above its middle."""
    width, height = figure.get_size_inches()
    ends = [(x / width, 1 - y / height) for x, y in (start, end)]
    middle = [sum(place) / 2 for place in zip(*ends, strict=True)]
    figure.text(
        middle[0], middle[1] + 0.05 / height, words, ha="center", va="bottom", fontsize=SMALL
    )
    figure.add_artist(
        FancyArrowPatch(
            *ends,
            arrowstyle="-|>",
            mutation_scale=9,
            color=INK,
            linewidth=0.9,
            shrinkA=0,
            shrinkB=0,
            transform=figure.transFigure,
        )
    )
