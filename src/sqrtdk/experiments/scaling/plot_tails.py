"""Draw how the gradient is distributed over rows: without scaling few rows hold all of it."""

import itertools
import math
from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sqrtdk.experiments.words import ARRAYS
from sqrtdk.figures import style
from sqrtdk.figures.draw import Tables
from sqrtdk.figures.lines import plot_level
from sqrtdk.figures.panels import log_axis, log_limits, most_panels, sheet
from sqrtdk.figures.style import GROUP_AXES, INK

GRADIENT = "q"
"""The gradient shown; the table also has that of the logits."""

DECADES = 10
"""Decades of the axis of norms. Without scaling the smallest norms go down to 1e-50."""

STROKES = (":", "-.", "--", "-")
"""Line styles from the smallest d_k to the largest."""


def build_tails(tables: Tables) -> Figure:
    """Draw the share of rows with at least a norm above, and the energy that they hold below."""
    table = tables["tails"]
    table = table[table["gradient"] == GRADIENT]
    if not (table["row_norm"] > 0).any():
        return style.nothing("every gradient is zero in this grid.")
    looks = style.looks(table["scaling"])
    sizes = sorted(set(table["d_k"]))
    strokes = dict(zip(sizes, itertools.cycle(STROKES[-len(sizes) :]), strict=False))
    columns = min(len(looks), most_panels())
    blocks = math.ceil(len(looks) / most_panels())
    figure, grid = sheet(2 * blocks, columns, margin=4, headings=3 * blocks)
    for i, (rule, look) in enumerate(looks.items()):
        rows = table[table["scaling"] == rule]
        top, column = 2 * (i // most_panels()), i % most_panels()
        above, below = (figure.add_subplot(grid[top + j, column]) for j in range(2))
        above.set_title(f"scaling = {rule}", color=look.color, fontweight="bold")
        if column == 0:
            above.set_ylabel("rows with at least\nthis norm (share)")
            below.set_ylabel("part of the squared\ngradient (share)")
        above.set_xlabel("norm of a query's gradient")
        below.set_xlabel("strongest rows (share)")
        plot_norms(above, rows, look.color, strokes, table)
        plot_energy(below, rows, look.color, strokes, table)
    style.legend(
        figure,
        [
            Line2D([], [], color=INK, linestyle=stroke, label=f"d_k = {d_k}")
            for d_k, stroke in strokes.items()
        ],
    )
    seeds = int(table["n_seeds"].iloc[0])
    style.note(
        figure,
        f"Row norms of the gradient with respect to the {ARRAYS[GRADIENT]}, over √d_v, of all "
        f"queries of {seeds} seed{'s' if seeds > 1 else ''} pooled; no interval. Dashed above: "
        "half of the rows, so a line crosses it at the norm of its typical row; a line that "
        "leaves on the left continues to smaller norms. Dashed below: every row alike. "
        f"{style.says_where(table, ('n_k', *GROUP_AXES))}",
    )
    return figure


def plot_norms(
    axes: Axes, rows: pd.DataFrame, color: str, strokes: Mapping[Any, str], table: pd.DataFrame
) -> None:
    """Draw the share of rows with at least a norm, a line for each d_k."""
    log_axis(axes, log_limits(table["row_norm"], base=10, most=DECADES), base=10, along="x")
    log_axis(axes, log_limits(table["rows_share"], base=10, most=9), base=10)
    plot_level(axes, 0.5)
    for d_k, line in rows[rows["row_norm"] > 0].groupby("d_k"):
        axes.plot(
            line["row_norm"],
            line["rows_share"],
            color=color,
            linestyle=strokes[d_k],
            label=f"{d_k}",
        )


def plot_energy(
    axes: Axes, rows: pd.DataFrame, color: str, strokes: Mapping[Any, str], table: pd.DataFrame
) -> None:
    """Draw the share of the squared norm that the largest rows hold, a line for each d_k."""
    log_axis(axes, log_limits(table["rows_share"], base=10, most=9), base=10, along="x")
    axes.set_ylim(-0.02, 1.04)
    known = rows.dropna(subset=["energy_share"])
    if known.empty:
        axes.text(0.5, 0.5, "every row is 0", transform=axes.transAxes, ha="center")
    alike = sorted(set(table["rows_share"]))
    axes.plot(alike, alike, color=INK, linestyle="--", linewidth=0.9, label="_alike")
    for d_k, line in known.groupby("d_k"):
        axes.plot(
            line["rows_share"],
            line["energy_share"],
            color=color,
            linestyle=strokes[d_k],
            label=f"{d_k}",
        )
