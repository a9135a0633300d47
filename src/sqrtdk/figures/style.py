"""The style shared by all figures: colours, looks of variants, small print, saving. Draws no data.

The page changes INK and RULE in dark mode and leaves every other colour unchanged. So these two are
the only greys of a figure, and data colours are readable on white and on nearly black.
"""

import io
import math
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from sqrtdk.figures import words
from sqrtdk.figures.lean import lean
from sqrtdk.storage import guards

INK = "#222222"
RULE = "#cccccc"

FIXED = {"off": "#d55e00", "on": "#0072b2"}
"""Vermillion and blue of Okabe and Ito (2008), the same in every figure."""

CYCLE = ("#009e73", "#b5489a", "#b07d00", "#7d7d7d", "#8a5a2b", "#7b62c9", "#6f8f00", "#3f93c8")
"""Colours of further variants, with a contrast of at least 2.9 : 1 against white and #111111. Eight
hues are not distinguishable for every reader, so each variant also has its own marker. The last one
is close to that of `on`."""

MARKERS = ("^", "D", "v", "P", "X", "<", ">", "p", "h", "d")

ON_CELLS = ("#111111", "#ffffff")
"""Text colours on light and dark cells; the page leaves them unchanged, like the cells."""

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
    # The font that matplotlib ships, so that installed fonts do not change the bytes.
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
    "svg.fonttype": "none",
    "text.color": INK,
    # Names that a user chose appear in figures; a dollar in a name does not start a formula.
    "text.parse_math": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 7.5,
    # Grid lines already lead to the numbers.
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "ytick.labelsize": 7.5,
}


@dataclass(frozen=True)
class Medium:
    """What a figure is made for.

    `width` in inches is that of the finished figure, by default what its panels need; at most
    `columns` panels are in a row, each about `height` inches high. Without `notes` there is no
    small print below the panels: a paper has a caption. `changes` are differences of style.
    """

    columns: int = 3
    height: float = 1.9
    width: float | None = None
    notes: bool = True
    changes: Any = ()


SCREEN = Medium()

PAPER = Medium(
    columns=2,
    height=1.3,
    # A column of the usual two-column styles.
    width=3.3,
    notes=False,
    changes=(
        # Both fonts come with matplotlib.
        *{"font.family": ["STIXGeneral"], "mathtext.fontset": "stix"}.items(),
        *{"font.size": 7, "axes.labelsize": 7, "axes.titlesize": 7, "legend.fontsize": 7}.items(),
        *{"xtick.labelsize": 6, "ytick.labelsize": 6}.items(),
        *{"lines.linewidth": 1.1, "lines.markersize": 2.5}.items(),
        # Letters, not drawings of letters, so that they can be searched and edited.
        ("pdf.fonttype", 42),
    ),
)

_MEDIUM = ContextVar("medium", default=SCREEN)


def medium() -> Medium:
    """Return what the figures are being drawn for."""
    return _MEDIUM.get()


@contextmanager
def context(medium: Medium = SCREEN) -> Iterator[None]:
    """Apply the style of the figures, whatever matplotlibrc the machine has."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(CONTEXT)
        matplotlib.rcParams.update(medium.changes)
        token = _MEDIUM.set(medium)
        try:
            yield
        finally:
            _MEDIUM.reset(token)


def save(figure: Figure, folder: Path, name: str) -> None:
    """Write `name`.svg (transparent) and `name`.png (white), the same bytes every time."""
    with matplotlib.rc_context({"svg.hashsalt": name}):
        svg = _printed(FigureCanvasSVG(figure).print_svg, metadata={"Date": None})
        guards.write_with_checksum(folder / f"{name}.svg", lean(svg))
        # The second file reuses the layout of the first.
        figure.set_layout_engine("none")
        _set_indices(figure)
        figure.set_dpi(_dpi(figure))
        figure.set_facecolor("white")
        png = _printed(FigureCanvasAgg(figure).print_png)
        guards.write_with_checksum(folder / f"{name}.png", png)


def _printed(write: Callable[..., None], **options: Any) -> bytes:
    """Return what a method of a canvas writes.

    `Figure.savefig` draws each figure a second time, for its layout; the drawing itself does that.
    """
    buffer = io.BytesIO()
    write(buffer, **options)
    return buffer.getvalue()


def save_pdf(figure: Figure, folder: Path, name: str) -> None:
    """Write `name`.pdf in the width of the medium, the same bytes every time."""
    figure.set_figwidth(medium().width or figure.get_figwidth())
    _set_indices(figure)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="pdf", metadata={"CreationDate": None})
    guards.write_with_checksum(folder / f"{name}.pdf", buffer.getvalue())


SLIDE = (1920, 1080)
"""Pixels of a picture for a slide, 16 : 9."""


def save_slide(figure: Figure, folder: Path, name: str) -> None:
    """Write `name`.png, white, as wide and high as a slide; the panels grow to fill it."""
    across, up = SLIDE
    width, height = figure.get_size_inches()
    wanted = max(width, height * across / up)
    figure.set_size_inches(wanted, wanted * up / across)
    _set_indices(figure)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", facecolor="white", dpi=across / wanted)
    guards.write_with_checksum(folder / f"{name}.png", buffer.getvalue())


def _set_indices(figure: Figure) -> None:
    """Set names such as d_k with an index in all texts, for a file that holds pictures of them."""
    for text in figure.findobj(Text):
        words = text.get_text()
        if "$" not in words and _INDEXED.search(words):
            text.set_parse_math(True)
            text.set_text(_INDEXED.sub(r"$\1_{\2}$", words))


_INDEXED = re.compile(r"(?<![A-Za-z])([dmnqkW])_(head|model|[kqvijn])(?![A-Za-z])")


def _dpi(figure: Figure) -> float:
    # Agg refuses 2^16 pixels a side; a figure for dozens of input laws can be that tall.
    return min(150.0, 60_000 / float(max(figure.get_size_inches())))


@dataclass(frozen=True)
class Look:
    """Colour, marker and line of one variant. A dashed line has hollow markers."""

    color: str
    marker: str
    dashed: bool = False

    @property
    def line(self) -> Any:
        """Return the options of matplotlib for the line of the variant."""
        return {
            "color": self.color,
            "marker": self.marker,
            "linestyle": "--" if self.dashed else "-",
            "markerfacecolor": "none" if self.dashed else self.color,
        }


def looks(names: Iterable[str]) -> dict[str, Look]:
    """Return the look of every variant, `off` and `on` first; the same names get the same looks.

    No two of them are equal: beyond the colours of the cycle, lines are dashed. The colour that is
    close to that of `on` is not used beside it.
    """
    found = set(names)
    fixed = {"off": Look(FIXED["off"], "o"), "on": Look(FIXED["on"], "s")}
    colors = CYCLE[:-1] if "on" in found else CYCLE
    others = {
        name: Look(colors[i % len(colors)], MARKERS[i % len(MARKERS)], i // len(colors) % 2 == 1)
        for i, name in enumerate(sorted(found - fixed.keys()))
    }
    return {name: look for name, look in (fixed | others).items() if name in found}


def in_words(found: Mapping[str, Look], names: Mapping[str, str] = words.RULES) -> dict[str, Look]:
    """Return looks by the words for their names."""
    return {names.get(name, name): look for name, look in found.items()}


def look_of_sizes(sizes: Iterable[int]) -> dict[int, Look]:
    """Return the look of every n_k, for figures that show several in one panel."""
    return {
        size: Look(CYCLE[i % len(CYCLE)], MARKERS[i % len(MARKERS)])
        for i, size in enumerate(sorted(set(sizes)))
    }


def format_label(value: float) -> str:
    """Format a number for a label.

    >>> format_label(0.25), format_label(1234), format_label(1e-8), format_label(0)
    ('0.25', '1234', '1e-8', '0')
    """
    if 100 <= abs(value) < 1e5:
        return f"{value:.0f}"
    return f"{value:.2g}".replace("e-0", "e-").replace("e+0", "e")


def legend(figure: Figure, handles: Sequence[Line2D]) -> None:
    """Add one legend above all panels, in as many columns as fit."""
    longest = max(len(str(handle.get_label())) for handle in handles)
    room = figure.get_size_inches()[0] / (0.55 + 0.085 * longest)
    columns = max(1, min(len(handles), int(room)))
    figure.set_figheight(figure.get_figheight() + 0.2 * math.ceil(len(handles) / columns))
    figure.legend(handles=list(handles), loc="outside upper left", ncols=columns)


def note(figure: Figure, text: str) -> None:
    """Add small print below the panels, wrapped to the figure's width, if the medium has it."""
    if not medium().notes:
        return
    characters = int(figure.get_size_inches()[0] * 72 / (SMALL * 0.55))
    figure.supxlabel(
        textwrap.fill(text, characters), x=0.01, ha="left", fontsize=SMALL, linespacing=1.3
    )


def nothing(text: str) -> Figure:
    """Return a figure that has nothing to show and says why."""
    figure = Figure(figsize=(5.5, 1.2))
    figure.text(0.5, 0.5, f"Nothing to show:\n{text}", ha="center")
    return figure


GROUP_AXES = ("n_q", "inputs", "dtype")
"""Axes that separate the groups of a grid, as well as n_k."""


def seeds(table: pd.DataFrame) -> str:
    """Return the number of seeds of a table, in words."""
    low, high = int(table["n_seeds"].min()), int(table["n_seeds"].max())
    if high == 1:
        return "1 seed"
    return f"{high} seeds" if low == high else f"{low} to {high} seeds"


def says_seeds(table: pd.DataFrame, mark: str = "Band") -> str:
    """Describe the intervals of a summary table and the number of seeds behind them."""
    if table["n_seeds"].max() == 1:
        return "1 seed: no interval."
    missing = " (none where there is only one)" if table["n_seeds"].min() == 1 else ""
    return f"{mark}: 95\N{NBSP}% interval over {seeds(table)}{missing}."


def says_where(table: pd.DataFrame, names: Sequence[str] = GROUP_AXES) -> str:
    """Return the axes that have one value in the whole figure, so that no panel names them."""
    fixed = [name for name in names if len(set(table[name])) == 1]
    # Non-breaking spaces keep an equation on one line.
    equations = [f"{words.axis(name)} = {table[name].iloc[0]}" for name in fixed]
    return ", ".join(one.replace(" ", "\N{NBSP}") for one in equations) + "." if equations else ""
