"""Arrange figures: panels, their axes, and the names at the ends of lines."""

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from sqrtdk import schema
from sqrtdk.figures import style, words
from sqrtdk.figures.style import GROUP_AXES
from sqrtdk.schema import Column, Key

WIDTH = 2.05
"""Approximate width of a panel without its labels, in inches, on a screen."""


def most_panels() -> int:
    """Return the most panels in a row; more wrap, so that a figure is at most so wide."""
    return style.medium().columns


def panel_width() -> float:
    """Return the approximate width of a panel without its labels, in inches."""
    width = style.medium().width
    # About half an inch of a panel's share is for the numbers of its axis.
    return WIDTH if width is None else width / most_panels() - 0.5


@dataclass(frozen=True)
class Panel:
    """Axes for one row of a figure and one group.

    All rows of `table` share every axis except that along x and the variant, so that the rows of
    one variant and metric are one line. The `first` panel from the left names the y-axis.
    """

    axes: Axes
    table: pd.DataFrame
    row: str
    first: bool

    def of(self, name: str) -> Any:
        """Return the value of an axis that all rows share."""
        return self.table[name].iloc[0]


def sheet(lines: int, columns: int, *, margin: int, headings: int) -> tuple[Figure, GridSpec]:
    """Return an empty figure, and the grid of its panels.

    `margin` is the room right of each panel, in characters; `headings` is the number of lines of
    text above panels, from top to bottom of the figure.
    """
    # Space for the numbers and names of the axes and for the small print.
    width = 0.3 + columns * (WIDTH + 0.45 + 0.075 * margin)
    medium = style.medium()
    height = 0.6 + lines * (medium.height + 0.3) + 0.15 * headings
    figure = Figure(figsize=(medium.width or max(width, 4.2), height))
    return figure, figure.add_gridspec(lines, columns)


def panels(
    table: pd.DataFrame,
    rows: Mapping[str, Sequence[str]],
    *,
    across: str = "n_k",
    where: Sequence[str] = GROUP_AXES,
    margin: int,
    x: Key | Column = schema.D_K,
) -> tuple[Figure, list[Panel]]:
    """Build a figure with a panel for every row and group in which one of the row's metrics exists.

    `rows` maps the name of a row to the metrics that it shows. The panels of a row differ in
    `across`. Groups that differ in `where` are in separate blocks, one below the other, and
    never share a panel; `x` is on the x-axis. A figure without any panel says that it has nothing
    to show.
    """
    wanted = table[table["metric"].isin([metric for shown in rows.values() for metric in shown])]
    if wanted.empty:
        names = ", ".join(sorted({metric for shown in rows.values() for metric in shown}))
        return style.nothing(f"{names} is undefined in this grid."), []
    blocks = [block for _, block in wanted.groupby(list(where))] if where else [wanted]
    lines = [
        (block, values, row)
        for block in blocks
        for values in _wrapped(sorted(block[across].unique()))
        for row, shown in rows.items()
        if (block[across].isin(values) & block["metric"].isin(shown)).any()
    ]
    columns = max(len(values) for _, values, _ in lines)
    varying = [name for name in where if len(set(wanted[name])) > 1]
    headings = math.ceil(len(lines) / len(rows)) * (3 + len(varying))
    figure, grid = sheet(len(lines), columns, margin=margin, headings=headings)
    made = []
    for place, (block, values, row) in enumerate(lines):
        there = block[block["metric"].isin(rows[row])]
        first = True
        for column, value in enumerate(values):
            shown = there[there[across] == value]
            if not shown.empty:
                axes = figure.add_subplot(grid[place, column])
                made.append(Panel(axes, shown, row, first))
                first = False
    _describe(made, across, where, varying=varying, x=x)
    return figure, made


def _wrapped(values: list[Any]) -> list[list[Any]]:
    """Return the values in lines of at most MOST, as even as possible.

    >>> _wrapped([1, 2, 3, 4, 5])
    [[1, 2, 3], [4, 5]]
    """
    length = math.ceil(len(values) / math.ceil(len(values) / most_panels()))
    return [values[i : i + length] for i in range(0, len(values), length)]


def _describe(
    made: list[Panel],
    across: str,
    where: Sequence[str],
    *,
    varying: Sequence[str],
    x: Key | Column,
) -> None:
    """Title the top panel of each group and name the x-axis under its bottom one."""
    columns: dict[tuple[object, ...], list[Panel]] = {}
    for panel in made:
        group = tuple(panel.of(name) for name in (across, *where))
        columns.setdefault(group, []).append(panel)
    for column in columns.values():
        names = (across, *varying)
        column[0].axes.set_title(heading({name: column[0].of(name) for name in names}))
        name = words.axis(x.name)
        column[-1].axes.set_xlabel(f"{name} ({x.unit})" if x.unit not in ("", f"{name}s") else name)


def heading(values: Mapping[str, object]) -> str:
    """Return a panel's title: the axes that it differs in."""
    equations = [f"{words.axis(name)} = {value}" for name, value in values.items()]
    # A name of 32 letters gets its own line, or it would reach into the next panel.
    return "\n".join(line for x in equations for line in textwrap.wrap(x, 32))


def count_axis(axes: Axes, values: Iterable[int]) -> None:
    """Set a linear axis from the smallest to the largest count, with whole numbers as ticks."""
    found = sorted({int(value) for value in values})
    edge = 0.04 * (found[-1] - found[0]) or 0.5
    axes.set_xlim(found[0] - edge, found[-1] + edge)
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))


def size_axis(axes: Axes, values: Iterable[int]) -> None:
    """Set a log2 axis whose ticks are sizes of the grid, as many as fit."""
    found = sorted({int(value) for value in values})
    axes.set_xscale("log", base=2)
    edge = 2.0 if len(found) == 1 else (found[-1] / found[0]) ** 0.04
    axes.set_xlim(found[0] / edge, found[-1] * edge)
    # Width of a label, in octaves.
    room = math.log2(found[-1] / found[0]) * (0.066 * len(str(found[-1])) + 0.07) / panel_width()
    ticks: list[int] = []
    for value in found:
        if not ticks or math.log2(value / ticks[-1]) >= room:
            ticks.append(value)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([str(tick) for tick in ticks])


def log_limits(values: pd.Series, *, base: int, most: int) -> tuple[float, float]:
    """Return limits around the positive values within `most` powers of the base below the top.

    At least one whole power of the base, which gets a tick, is between them.
    """
    positive = values[values > 0]
    if positive.empty:
        return 0.5 / base, 2.0 * base
    edge = base**0.3
    high = float(positive.max()) * edge
    low = max(float(positive.min()) / edge, high / float(base) ** most)
    if _powers(low, high, base):
        return low, high
    nearest = float(base) ** round(math.log((low * high) ** 0.5, base))
    return min(low, nearest / 1.1), max(high, nearest * 1.1)


def _powers(low: float, high: float, base: int) -> list[float]:
    exponents = range(math.ceil(math.log(low, base)), math.floor(math.log(high, base)) + 1)
    return [float(base) ** exponent for exponent in exponents]


def log_axis(
    axes: Axes, limits: tuple[float, float], *, base: int, along: Literal["x", "y"] = "y"
) -> None:
    """Set a logarithmic axis with a tick at every, every second, … power of the base."""
    powers = _powers(*limits, base)
    ticks = powers[:: math.ceil(len(powers) / 7)]
    axis = axes.xaxis if along == "x" else axes.yaxis
    if along == "x":
        axes.set_xscale("log", base=base)
        axes.set_xlim(limits)
    else:
        axes.set_yscale("log", base=base)
        axes.set_ylim(limits)
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    # 1/8 needs three digits.
    axis.set_ticklabels(
        [f"{x:.3g}" if base == 2 and x < 1 else style.format_label(x) for x in ticks]
    )


@dataclass(frozen=True)
class End:
    """The last point of a line and its label."""

    y: float
    text: str
    color: str


def label_ends(axes: Axes, ends: Sequence[End]) -> None:
    """Label lines right of the axes at the height of their ends, moved apart to be readable.

    The limits of the axes must be final.
    """
    places = []
    for end in ends:
        inside = axes.transAxes.inverted().transform(axes.transData.transform((1.0, end.y)))
        # A zero on a logarithmic axis is below it.
        height = float(inside[1]) if math.isfinite(inside[1]) else 0.0
        places.append((min(max(height, 0.0), 1.0), end))
    places.sort(key=lambda place: place[0])
    line = style.SMALL * 1.3 / 72 / style.medium().height
    half = [line * (1 + end.text.count("\n")) / 2 for _, end in places]
    wanted = [max(height, reach) for (height, _), reach in zip(places, half, strict=True)]
    # Moving up and moving down both separate the labels; so does their mean, which is closer.
    up = _pushed(wanted, half)
    down = [-height for height in _pushed([-height for height in wanted[::-1]], half[::-1])][::-1]
    heights = [(one + other) / 2 for one, other in zip(up, down, strict=True)]
    # Labels below the bottom move up again.
    heights = _pushed([max(h, reach) for h, reach in zip(heights, half, strict=True)], half)
    for (_, end), height in zip(places, heights, strict=True):
        axes.annotate(
            end.text,
            (1.0, height),
            (3, 0),
            xycoords="axes fraction",
            textcoords="offset points",
            color=end.color,
            fontsize=style.SMALL,
            fontweight="bold",
            va="center",
            linespacing=1.1,
        )


def _pushed(heights: list[float], half: list[float]) -> list[float]:
    """Return ascending heights, each raised as far as labels of these half heights need.

    >>> _pushed([0.0, 0.5, 5.0], [1.0, 1.0, 1.0])
    [0.0, 2.0, 5.0]
    """
    found = heights[:1]
    for i in range(1, len(heights)):
        found.append(max(heights[i], found[-1] + half[i - 1] + half[i]))
    return found


def fits_at_ends(names: Sequence[str]) -> bool:
    """Return whether the lines of a panel can be labelled at their ends; otherwise use a legend."""
    return len(names) <= 6 and max(map(len, names), default=0) <= 16
