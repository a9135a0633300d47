"""Draw the figures of the sinks: losses and weights with a match and without one."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sqrtdk.experiments.sinks.model import ATTENTIONS
from sqrtdk.figures import draw, style, words
from sqrtdk.figures.draw import Tables
from sqrtdk.figures.panels import log_axis, log_limits, sheet
from sqrtdk.figures.style import FIXED, INK
from sqrtdk.stats.intervals import evenly_spaced

SHARED = ("d_k", "n_k", "batch_size")

PANELS = 3
"""Values of d_k with a panel of their own."""

MATCH = {"matched": FIXED["on"], "unmatched": FIXED["off"]}
"""The colours of queries with a match and without one."""

KINDS = {"matched": "query with a match", "unmatched": "query without a match"}

FIRST = {"none": "o", "learned": "s"}
"""The markers without a first key and with one."""


class Quantity(NamedTuple):
    """A panel of dots: its title, the columns of the two kinds of queries, and its d_k."""

    title: str
    columns: dict[str, str]
    d_k: int


def of_smallest(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the smallest n_k and the smallest batch."""
    for axis in ("n_k", "batch_size"):
        table = table[table[axis] == table[axis].min()]
    return table


def _build(
    table: pd.DataFrame,
    quantities: Sequence[Quantity],
    finish: Callable[[Axes, pd.DataFrame], None],
    sentence: str,
) -> Figure:
    """Draw a panel for each quantity, a line of dots for each kind of attention."""
    names = [name for name in ATTENTIONS if name in set(table["attention"])]
    figure, grid = sheet(1, len(quantities), margin=0, headings=1)
    for place, quantity in enumerate(quantities):
        axes = figure.add_subplot(grid[0, place])
        axes.set_title(quantity.title)
        here = table[table["d_k"] == quantity.d_k]
        finish(axes, here)
        for line, name in enumerate(names):
            for first, marker in FIRST.items():
                rows = here[(here["attention"] == name) & (here["first_key"] == first)]
                height = len(names) - 1 - line + (0.2 if first == "none" else -0.2)
                for kind, column in quantity.columns.items():
                    apart = 0.08 if kind == "matched" else -0.08
                    _dot(axes, rows, column, height + apart, MATCH[kind], marker)
        shown = [words.ATTENTION[name] if place == 0 else "" for name in reversed(names)]
        axes.set_yticks(range(len(names)), shown)
        axes.set_ylim(-0.6, len(names) - 0.4)
    handles = [
        Line2D([], [], color=color, marker="o", linestyle="none", label=KINDS[kind])
        for kind, color in MATCH.items()
    ]
    for first, marker in FIRST.items():
        handle = Line2D(
            [], [], color=INK, marker=marker, linestyle="none", label=words.FIRST_KEYS[first]
        )
        handle.set_markerfacecolor("none")
        handles.append(handle)
    style.legend(figure, handles)
    style.note(
        figure,
        f"{sentence} Each at the learning rate of the grid that is best for the other half of the "
        f"seeds. {style.says_seeds(table, 'Bar')} {style.says_where(table, SHARED)} "
        f"{words.says_names(names, words.ATTENTION)}",
    )
    return figure


def _dot(
    axes: Axes, rows: pd.DataFrame, column: str, height: float, color: str, marker: str
) -> None:
    if rows.empty or not np.isfinite(rows[column].iloc[0]):
        return
    row = rows.iloc[0]
    axes.plot(
        [row[column]], [height], color=color, marker=marker, linestyle="none", markersize=5,
        label="_dot",
    )  # fmt: skip
    axes.hlines(height, row[f"{column}_low"], row[f"{column}_high"], color=color, linewidth=1.3)


def build_loss(tables: Tables) -> Figure:
    """Draw the losses of queries with a match and without one, and the best possible ones."""
    table = of_smallest(tables["sinks"])
    sizes = evenly_spaced(sorted(set(table["d_k"])), PANELS)
    table = table[table["d_k"].isin(sizes)]
    columns = {kind: f"loss_{kind}" for kind in MATCH}
    shown = pd.concat([table[x] for x in (*columns.values(), "best_matched", "best_unmatched")])
    limits = log_limits(shown, base=10, most=6)

    def finish(axes: Axes, rows: pd.DataFrame) -> None:
        log_axis(axes, limits, base=10, along="x")
        axes.set_xlabel("held-out loss")
        for kind, color in MATCH.items():
            axes.axvline(rows[f"best_{kind}"].mean(), color=color, linestyle="--", linewidth=1.0)

    return _build(
        table,
        [Quantity(f"d_k = {d_k}", columns, d_k) for d_k in sizes],
        finish,
        "Half the squared distance of the output to the item's value, or to 0 without a match. "
        "Dashed: the best possible output, the expected value given the query and the library.",
    )


def build_weights(tables: Tables) -> Figure:
    """Draw the weight on the first key, on the sink logit, and on items, at the largest d_k."""
    table = of_smallest(tables["sinks"])
    table = table[table["d_k"] == table["d_k"].max()]

    def finish(axes: Axes, rows: pd.DataFrame) -> None:
        axes.set_xlim(-0.03, max(1.03, 1.05 * float(rows["item_weight_matched"].max())))
        axes.set_xlabel("weight")

    quantities = [
        Quantity(title, {kind: f"{name}_{kind}" for kind in MATCH}, table["d_k"].iloc[0])
        for title, name in (
            ("on the first key", "first_weight"),
            ("on the sink logit", "sink_weight"),
            ("on all items", "item_weight"),
        )
    ]
    return _build(
        table,
        quantities,
        finish,
        "Mean weight of held-out queries. Sigmoid weights need not sum to 1.",
    )


BUILD: draw.Builders = {"loss": build_loss, "weights": build_weights}
