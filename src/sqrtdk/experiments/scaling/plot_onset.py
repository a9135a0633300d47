"""Draw the d_k from which half of the entropy is lost and gradients are smaller without scaling."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from sqrtdk import schema
from sqrtdk.experiments.words import ARRAYS
from sqrtdk.figures import style
from sqrtdk.figures.draw import Tables
from sqrtdk.figures.lines import PAIR
from sqrtdk.figures.panels import heading, log_axis, log_limits, sheet, size_axis
from sqrtdk.figures.style import GROUP_AXES, INK, Look

HALF = "half_entropy"

CHAPTER_D_K = 64
"""The d_k of real models that the chapter names: "often 64 or more"."""

TITLES = {
    HALF: "half of the entropy gone",
    "rms": "rms gradient smaller",
    "median": "median gradient smaller",
}

D_K = f"{schema.D_K.name} ({schema.D_K.unit})"

SMALL_MARK, RING = 3.0, 8.5
"""Sizes in points of a measured marker, and of the exact one around it."""


class Span(NamedTuple):
    """The range of d_k on the axis of the gradients' panels, and the places for no d_k."""

    low: float
    high: float
    always: float
    never: float

    def place(self, d_k: float, beyond: str) -> float:
        """Return the position of a crossing; infinity is never."""
        if beyond or math.isinf(d_k):
            return self.always if beyond == "always" else self.never
        return d_k


def span_of(table: pd.DataFrame, largest: int) -> Span:
    """Return the span of all crossings, the grid's largest d_k and the chapter's."""
    found = table[["d_k", "ci_low", "ci_high", "exact"]].to_numpy(float).ravel()
    found = found[np.isfinite(found)]
    low, high = min([CHAPTER_D_K / 4, *found]), max([CHAPTER_D_K * 4, largest, *found])
    step = (high / low) ** 0.16
    return Span(low, high, low / step, high * step)


def split(table: pd.DataFrame) -> pd.DataFrame:
    """Return the crossings with their `kind` and, for a gradient, the array."""
    parts = table["quantity"].str.extract(r"^grad_(?P<x>\w+)_(?P<kind>rms|median)$")
    kinds = parts["kind"].where(table["quantity"] != HALF, HALF)
    return table.assign(x=parts["x"], kind=kinds).dropna(subset="kind")


def build_onset(tables: Tables) -> Figure:
    """Draw where half of the entropy is lost, and where gradients get smaller without scaling."""
    table, measured = split(tables["crossings"]), tables["summary"]
    kinds = [kind for kind in (HALF, *PAIR) if (table["kind"] == kind).any()]
    if not kinds:
        return style.nothing(
            "a crossing takes scaling off (and on, for gradients) and more than one key."
        )
    blocks = [block for _, block in table.groupby(list(GROUP_AXES))]
    varying = [name for name in GROUP_AXES if len(set(table[name])) > 1]
    looks = style.look_of_sizes(table["n_k"])
    span = span_of(table[table["kind"] != HALF], int(measured["d_k"].max()))
    # Rows that are high enough for one ring per n_k.
    headings = 2 + len(varying) + max(0, 3 * (len(looks) - 2))
    figure, grid = sheet(len(blocks), len(kinds), margin=2, headings=headings * len(blocks))
    for i, block in enumerate(blocks):
        names = list(dict.fromkeys(block["x"].dropna()))
        title = heading({name: block[name].iloc[0] for name in varying})
        labelled = True
        for j, kind in enumerate(kinds):
            rows = block[block["kind"] == kind]
            if rows.empty:
                continue
            axes = figure.add_subplot(grid[i, j])
            axes.set_title("\n".join(filter(None, [title, TITLES[kind]])))
            title = ""
            if kind == HALF:
                plot_halves(axes, rows, looks)
            else:
                plot_crossings(axes, rows, looks, span, names, labelled=labelled)
                labelled = False
    style.legend(
        figure,
        [
            Line2D(
                [], [], color=look.color, marker=look.marker, linestyle="none", label=f"n_k = {n_k}"
            )
            for n_k, look in looks.items()
        ],
    )
    style.note(figure, " ".join(small_print(table, measured, kinds)))
    return figure


def small_print(table: pd.DataFrame, measured: pd.DataFrame, kinds: list[str]) -> list[str]:
    """Describe the marks."""
    several = measured["n_seeds"].max() > 1
    said = [
        "The d_k from which on, without scaling, half of the entropy is gone, or the rms or the "
        "median of the gradient's row norms is smaller than with scaling."
    ]
    said += ["Filled: measured, interpolated between the d_k of the grid."]
    if several:
        said += [
            f"Bar: where the ends of the 95\N{NBSP}% intervals over {style.seeds(measured)} "
            "cross, widened by what interpolation may be wrong; unseen where smaller than the "
            "point."
        ]
    else:
        said += ["1 seed: no interval."]
    if table["exact"].notna().any():
        said += ["Ring: exact."]
    said += [f"Dashed: d_k = {CHAPTER_D_K}, a usual size in real models."]
    if set(kinds) & set(PAIR):
        said += [
            f"never: not up to d_k = {measured['d_k'].max()}, the grid's largest (filled), or at "
            "no d_k (ring)."
        ]
    if (table["beyond"] == "always").any():
        said += ["always: at every d_k of the grid above 1."]
    if (table.loc[table["kind"] == HALF, "beyond"] != "").any():
        said += ["↓ ↑: below, or above, every d_k of the grid."]
    return [*said, style.says_where(table)]


def plot_halves(axes: Axes, rows: pd.DataFrame, looks: Mapping[int, Look]) -> None:
    """Draw the d_k at which half of the entropy is lost, against n_k."""
    size_axis(axes, rows["n_k"])
    axes.set_xlabel(f"{schema.N_K.name} ({schema.N_K.unit})")
    axes.set_ylabel(D_K)
    shown = rows[["d_k", "ci_low", "ci_high", "exact"]].to_numpy(float).ravel()
    limits = log_limits(pd.Series([*shown[np.isfinite(shown)], CHAPTER_D_K]), base=2, most=24)
    log_axis(axes, (limits[0], limits[1] * 1.3), base=2)
    axes.axhline(CHAPTER_D_K, color=INK, linestyle="--", linewidth=0.9)
    axes.annotate(
        f"d_k = {CHAPTER_D_K}",
        (0.02, CHAPTER_D_K),
        (0, 3),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        fontsize=style.SMALL,
    )
    for row in rows.to_dict("records"):
        n_k, look = row["n_k"], looks[row["n_k"]]
        ends = [row["ci_low"], min(row["ci_high"], axes.get_ylim()[1])]
        axes.plot([n_k, n_k], ends, color=look.color, label="_interval")
        axes.plot(
            n_k,
            row["d_k"],
            color=look.color,
            marker=look.marker,
            markersize=SMALL_MARK,
            linestyle="none",
            label=f"{n_k}",
        )
        if row["beyond"]:
            below = row["beyond"] == "always"
            axes.annotate(
                "↓" if below else "↑",
                (n_k, 0.02 if below else 0.98),
                color=look.color,
                xycoords=("data", "axes fraction"),
                ha="center",
                va="bottom" if below else "top",
            )
        plot_ring(axes, n_k, row["exact"], look)


def plot_ring(axes: Axes, x: float, y: float, look: Look) -> None:
    """Draw a ring at an exact value, around the measured one."""
    if math.isfinite(x) and math.isfinite(y):
        axes.plot(
            x,
            y,
            color=look.color,
            marker=look.marker,
            markersize=RING,
            markeredgewidth=0.9,
            markerfacecolor="none",
            linestyle="none",
            label="_exact",
        )


def plot_crossings(
    axes: Axes,
    rows: pd.DataFrame,
    looks: Mapping[int, Look],
    span: Span,
    names: list[str],
    *,
    labelled: bool,
) -> None:
    """Draw for each gradient and n_k the d_k from which it is smaller without scaling."""
    _set_places(axes, span, always="always" in set(rows["beyond"]))
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.yaxis.set_major_locator(FixedLocator(range(len(names))))
    axes.set_yticklabels([ARRAYS[x] for x in names] if labelled else [""] * len(names))
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    for edge in range(1, len(names)):
        axes.axhline(edge - 0.5, color=style.RULE, linewidth=0.6)
    axes.axvline(CHAPTER_D_K, color=INK, linestyle="--", linewidth=0.9)
    axes.axvline((span.high * span.never) ** 0.5, color=INK, linewidth=0.8)
    order = {n_k: i for i, n_k in enumerate(looks)}
    for row in rows.to_dict("records"):
        look = looks[row["n_k"]]
        y = names.index(row["x"]) + 0.8 * ((order[row["n_k"]] + 0.5) / len(order) - 0.5)
        ends = [row["ci_low"], min(row["ci_high"], span.never)]
        axes.plot(ends, [y, y], color=look.color, label="_interval")
        axes.plot(
            span.place(row["d_k"], row["beyond"]),
            y,
            color=look.color,
            marker=look.marker,
            markersize=SMALL_MARK,
            linestyle="none",
            label=f"{row['x']} {row['n_k']}",
        )
        if not math.isnan(row["exact"]):
            plot_ring(axes, span.place(row["exact"], ""), y, look)


def _set_places(axes: Axes, span: Span, *, always: bool) -> None:
    log_axis(axes, (span.low, span.high), base=2, along="x")
    near = (span.never / span.high) ** 0.4
    low, high = (span.low * near if always else span.low), span.high / near
    ends = (span.always if always else span.low, span.never)
    ticks: dict[float, str] = {}
    for tick in axes.get_xticks():
        label = style.format_label(tick)
        # As far apart as their labels need: about 40 characters fit below a panel.
        room = math.log(ends[1] / ends[0]) * (len(label) + 1) / 40
        if low <= tick <= high and (not ticks or math.log(tick / max(ticks)) >= room):
            ticks[float(tick)] = label
    ticks |= {span.never: "never"} | ({span.always: "always"} if always else {})
    step = span.never / span.high
    axes.set_xlim((span.always if always else span.low) / step**0.5, span.never * step**0.5)
    axes.xaxis.set_major_locator(FixedLocator(list(ticks)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels(ticks.values())
    axes.set_xlabel(D_K)
