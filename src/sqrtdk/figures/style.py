"""What all figures share: inks, the look of an arm, panels, labels and saving. Draws no data.

The page recolours INK and RULE in the dark and leaves every other colour alone, so these two are
the only greys of a figure, and data colours are readable on white and on nearly black.
"""

import io
import math
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from sqrtdk import keys, tables

INK = "#222222"
RULE = "#cccccc"

FIXED = {"off": "#d55e00", "on": "#0072b2"}
"""Vermillion and blue of Okabe and Ito (2008), on every page the same."""

CYCLE = (
    "#009e73", "#b5489a", "#b07d00", "#7d7d7d", "#3f93c8", "#8a5a2b", "#7b62c9", "#6f8f00"
)  # fmt: skip
"""Further arms, all at least 2.9 : 1 against white and #111111. Hues alone do not carry eight
arms for every eye, so each arm has its own marker too."""

MARKERS = ("^", "D", "v", "P", "X", "<", ">", "p", "h", "d")

WIDTH, HEIGHT = 2.05, 1.9
"""Inches of a panel without its labels, about."""

MOST = 3
"""Panels side by side; more wrap, so that a figure is never wider than about ten inches."""

SMALL = 7.5
"""Points of notes and labels in a panel."""

CONTEXT: Any = {
    "axes.axisbelow": True,
    "axes.edgecolor": INK,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.labelsize": 8.5,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 9,
    "figure.dpi": 100,
    "figure.facecolor": "none",
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.h_pad": 0.06,
    "figure.constrained_layout.w_pad": 0.06,
    # The font that comes with matplotlib: the same bytes where other fonts are installed.
    "font.family": ["DejaVu Sans"],
    "font.size": 8.5,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "lines.linewidth": 1.7,
    "lines.markersize": 4,
    "savefig.facecolor": "none",
    "svg.fonttype": "path",
    "text.color": INK,
    # Names of the user's reach the figure: a dollar or an underscore in one is no formula.
    "text.parse_math": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
}


@contextmanager
def context() -> Iterator[None]:
    """The look of the figures, whatever matplotlibrc the machine has."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(CONTEXT)
        yield


def save(figure: Figure, folder: Path, name: str) -> None:
    """Write `name`.svg (transparent) and `name`.png (white), the same bytes every time."""
    with matplotlib.rc_context({"svg.hashsalt": name}):
        for suffix, options in {
            "svg": {"metadata": {"Date": None}},
            "png": {"facecolor": "white", "dpi": _dpi(figure)},
        }.items():
            buffer = io.BytesIO()
            figure.savefig(buffer, format=suffix, **options)  # type: ignore[arg-type]
            content = buffer.getvalue()
            if suffix == "svg":
                content = _shorter(content)
            tables.write_atomically(folder / f"{name}.{suffix}", content)


def _shorter(svg: bytes) -> bytes:
    """Without indent and digits below 1/100 point: a fifth less in the page that embeds it.

    >>> _shorter(b'<use x="53.999532" y="7.5" transform="scale(0.015625)"/>')
    b'<use x="53.99" y="7.5" transform="scale(0.015625)"/>'
    """
    return re.sub(rb'(?<=[ "])(-?\d+\.\d\d)\d+(?=[ "\n])', rb"\1", re.sub(rb"\n +", b"\n", svg))


def _dpi(figure: Figure) -> float:
    # Agg refuses 2^16 pixels a side; a figure for dozens of input laws can be that tall.
    return min(150.0, 60_000 / float(max(figure.get_size_inches())))


@dataclass(frozen=True)
class Look:
    """Colour and marker of one arm."""

    color: str
    marker: str


def looks(names: Iterable[str]) -> dict[str, Look]:
    """The look of every arm, `off` and `on` first; a set of names always gets the same looks."""
    found = set(names)
    fixed = {"off": Look(FIXED["off"], "o"), "on": Look(FIXED["on"], "s")}
    others = {
        name: Look(CYCLE[i % len(CYCLE)], MARKERS[i % len(MARKERS)])
        for i, name in enumerate(sorted(found - fixed.keys()))
    }
    return {name: look for name, look in (fixed | others).items() if name in found}


@dataclass(frozen=True)
class Panel:
    """Axes for one row of a figure and one group.

    All rows of `table` share `n_k`, `n_q`, input law and dtype, so that the rows that an arm has
    of a metric are one line. The `first` panel from the left names the y-axis.
    """

    axes: Axes
    table: pd.DataFrame
    row: str
    n_k: int
    first: bool


WHERE = ("n_q", "inputs", "dtype")
"""What tells the blocks of panels apart; n_k tells the panels of a block apart."""


def panels(
    table: pd.DataFrame, rows: Mapping[str, Sequence[str]], *, margin: int
) -> tuple[Figure, list[Panel]]:
    """A figure with a panel for every row and group in which one of the row's metrics exists.

    `rows` maps the name of a row to the metrics that it shows; `margin` is the room right of each
    panel, in characters. Groups that differ in more than
    n_k stand in separate blocks, one under the other, and never share a panel. A figure without
    any panel says that it has nothing to show.
    """
    wanted = table[table["metric"].isin([metric for shown in rows.values() for metric in shown])]
    if wanted.empty:
        figure = Figure(figsize=(5.5, 1.2))
        names = ", ".join(sorted({metric for shown in rows.values() for metric in shown}))
        figure.text(0.5, 0.5, f"Nothing to show:\n{names} is undefined in this grid.", ha="center")
        return figure, []
    lines = [
        (block, sizes, row)
        for _, block in wanted.groupby(list(WHERE))
        for sizes in _wrapped(sorted(block["n_k"].unique()))
        for row, shown in rows.items()
        if (block["n_k"].isin(sizes) & block["metric"].isin(shown)).any()
    ]
    columns = max(len(sizes) for _, sizes, _ in lines)
    varying = [name for name in WHERE if len(set(wanted[name])) > 1]
    # Room for the numbers and names of the axes, the titles and the small print.
    width = 0.3 + columns * (WIDTH + 0.45 + 0.075 * margin)
    height = 0.6 + len(lines) * (HEIGHT + 0.3) + len(lines) / len(rows) * 0.15 * (3 + len(varying))
    figure = Figure(figsize=(width, height))
    grid = figure.add_gridspec(len(lines), columns)
    made = []
    for place, (block, sizes, row) in enumerate(lines):
        there = block[block["metric"].isin(rows[row])]
        first = True
        for column, n_k in enumerate(sizes):
            shown = there[there["n_k"] == n_k]
            if not shown.empty:
                axes = figure.add_subplot(grid[place, column])
                made.append(Panel(axes, shown, row, int(n_k), first))
                first = False
    _describe(made, varying=varying)
    return figure, made


def _wrapped(sizes: list[int]) -> list[list[int]]:
    """The sizes in lines of at most MOST, as even as they can be.

    >>> _wrapped([1, 2, 3, 4, 5])
    [[1, 2, 3], [4, 5]]
    """
    length = math.ceil(len(sizes) / math.ceil(len(sizes) / MOST))
    return [sizes[i : i + length] for i in range(0, len(sizes), length)]


def _describe(made: list[Panel], *, varying: list[str]) -> None:
    """Title the top panel of each group and name d_k under its bottom one."""
    columns: dict[tuple[object, ...], list[Panel]] = {}
    for panel in made:
        group = (panel.n_k, *(panel.table[name].iloc[0] for name in WHERE))
        columns.setdefault(group, []).append(panel)
    for column in columns.values():
        where = column[0].table.iloc[0]
        title = [f"{name} = {where[name]}" for name in ("n_k", *varying)]
        # A name of 32 letters has a line of its own, or it would reach into the next panel.
        column[0].axes.set_title("\n".join(line for x in title for line in textwrap.wrap(x, 32)))
        column[-1].axes.set_xlabel(f"{keys.D_K.name} ({keys.D_K.unit})")


def d_k_axis(axes: Axes, values: Iterable[int]) -> None:
    """A log2 axis whose ticks are some of the grid's own d_k, as many as have room."""
    found = sorted({int(value) for value in values})
    axes.set_xscale("log", base=2)
    edge = 2.0 if len(found) == 1 else (found[-1] / found[0]) ** 0.04
    axes.set_xlim(found[0] / edge, found[-1] * edge)
    # Inches that a label takes, in octaves.
    room = math.log2(found[-1] / found[0]) * (0.066 * len(str(found[-1])) + 0.07) / WIDTH
    ticks: list[int] = []
    for value in found:
        if not ticks or math.log2(value / ticks[-1]) >= room:
            ticks.append(value)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([str(tick) for tick in ticks])


def log_limits(values: pd.Series, *, base: int, most: int) -> tuple[float, float]:
    """Limits around the positive values that are within `most` powers of the base of the top.

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


def log_axis(axes: Axes, limits: tuple[float, float], *, base: int) -> None:
    """A logarithmic y-axis with a tick at every, every second, … power of the base."""
    axes.set_yscale("log", base=base)
    axes.set_ylim(limits)
    powers = _powers(*limits, base)
    ticks = powers[:: math.ceil(len(powers) / 7)]
    axes.yaxis.set_major_locator(FixedLocator(ticks))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_yticklabels([number(tick) for tick in ticks])


def number(value: float) -> str:
    """A number as a label writes it.

    >>> number(0.25), number(1234), number(1e-8), number(0)
    ('0.25', '1234', '1e-8', '0')
    """
    if 100 <= abs(value) < 1e5:
        return f"{value:.0f}"
    return f"{value:.2g}".replace("e-0", "e-").replace("e+0", "e")


@dataclass(frozen=True)
class End:
    """The last point of a line and what it is called there."""

    y: float
    text: str
    color: str


def label_ends(axes: Axes, ends: Sequence[End]) -> None:
    """Name lines right of the axes at the height of their ends, pushed apart to be readable.

    The limits of the axes must be final.
    """
    places = []
    for end in ends:
        inside = axes.transAxes.inverted().transform(axes.transData.transform((1.0, end.y)))
        # A zero on a logarithmic axis has no place: it is below.
        height = float(inside[1]) if math.isfinite(inside[1]) else 0.0
        places.append((min(max(height, 0.0), 1.0), end))
    places.sort(key=lambda place: place[0])
    line = SMALL * 1.3 / 72 / HEIGHT
    half = [line * (1 + end.text.count("\n")) / 2 for _, end in places]
    wanted = [max(height, reach) for (height, _), reach in zip(places, half, strict=True)]
    # Pushing upwards and pushing downwards both make room; so does their mean, which stays close.
    up = _pushed(wanted, half)
    down = [-height for height in _pushed([-height for height in wanted[::-1]], half[::-1])][::-1]
    heights = [(one + other) / 2 for one, other in zip(up, down, strict=True)]
    # What hangs over at the bottom moves up again.
    heights = _pushed([max(h, reach) for h, reach in zip(heights, half, strict=True)], half)
    for (_, end), height in zip(places, heights, strict=True):
        axes.annotate(
            end.text,
            (1.0, height),
            (3, 0),
            xycoords="axes fraction",
            textcoords="offset points",
            color=end.color,
            fontsize=SMALL,
            fontweight="bold",
            va="center",
            linespacing=1.1,
        )


def _pushed(heights: list[float], half: list[float]) -> list[float]:
    """Ascending heights, each raised as far as labels of these half heights need.

    >>> _pushed([0.0, 0.5, 5.0], [1.0, 1.0, 1.0])
    [0.0, 2.0, 5.0]
    """
    found = heights[:1]
    for i in range(1, len(heights)):
        found.append(max(heights[i], found[-1] + half[i - 1] + half[i]))
    return found


def fits_at_ends(names: Sequence[str]) -> bool:
    """Whether the lines of a panel can be named at their ends; else they need a legend."""
    return len(names) <= 4 and max(map(len, names)) <= 16


def legend(figure: Figure, handles: Sequence[Line2D]) -> None:
    """One legend above all panels, in as many columns as have room."""
    longest = max(len(str(handle.get_label())) for handle in handles)
    room = figure.get_size_inches()[0] / (0.55 + 0.085 * longest)
    columns = max(1, min(len(handles), int(room)))
    figure.set_figheight(figure.get_figheight() + 0.2 * math.ceil(len(handles) / columns))
    figure.legend(handles=list(handles), loc="outside upper left", ncols=columns)


def note(figure: Figure, text: str) -> None:
    """Small print below the panels, wrapped to the figure's width."""
    characters = int(figure.get_size_inches()[0] * 72 / (SMALL * 0.55))
    figure.supxlabel(
        textwrap.fill(text, characters), x=0.01, ha="left", fontsize=SMALL, linespacing=1.3
    )


def says_seeds(table: pd.DataFrame) -> str:
    """What the bands of a summary table are, and on how many seeds they rest."""
    low, high = int(table["n_seeds"].min()), int(table["n_seeds"].max())
    if high == 1:
        return "1 seed: no interval, hence no band."
    seeds = f"{high} seeds" if low == high else f"{low} to {high} seeds"
    missing = " (none where there is only one)" if low == 1 else ""
    return f"Band: 95\N{NBSP}% t-interval of the mean over {seeds}{missing}."


def says_where(table: pd.DataFrame, names: Sequence[str] = WHERE) -> str:
    """The axes that have one value in the whole figure, so that no panel names them."""
    fixed = [name for name in names if len(set(table[name])) == 1]
    # No line ends inside an equation.
    equations = [f"{name}\N{NBSP}=\N{NBSP}{table[name].iloc[0]}" for name in fixed]
    return ", ".join(equations) + "." if equations else ""
