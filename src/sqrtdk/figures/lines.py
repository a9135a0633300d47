"""Figures of metrics against d_k or another axis, with one line or row of points per variant.

A variant is a scale rule or whatever else the column `variant` names. All numbers come from the
tables. If theory has a metric, its exact curve is a thin line with the measured means as points;
otherwise a line joins the means.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sqrtdk import schema
from sqrtdk.figures import style, words
from sqrtdk.figures.panels import (
    End,
    Panel,
    count_axis,
    fits_at_ends,
    label_ends,
    log_axis,
    log_limits,
    panels,
    size_axis,
)
from sqrtdk.figures.style import GROUP_AXES, INK, Look
from sqrtdk.schema import Column, Key

Looks = Mapping[str, Look]
Curves = Mapping[str, pd.DataFrame]
"""Rows by variant, in order of d_k."""

PAIR = ("rms", "median")
"""The two averages of a gradient's row norms, which can lead to opposite conclusions."""

MAX_MARKERS = 12
"""Maximum number of markers on a line of counts."""

NO_CURVES = pd.DataFrame(columns=["d_k", "n_k", "n_q", "inputs", "scaling", "metric", "exact"])
"""exact.csv of an experiment that theory does not cover."""


def by_scaling(table: pd.DataFrame) -> pd.DataFrame:
    """Return a summary with a line for each scale rule."""
    return table.assign(variant=table["scaling"])


def lines_of(table: pd.DataFrame, metric: str, x: str = "d_k") -> dict[str, pd.DataFrame]:
    """Return the rows of a metric, by variant, in order of x. Raises ValueError if groups mix."""
    found = {}
    for variant, rows in table[table["metric"] == metric].groupby("variant"):
        if rows[x].duplicated().any():
            raise ValueError(f"{metric}, {variant}: several groups would become one zig-zag line")
        found[str(variant)] = rows.sort_values(x)
    return found


def curves_of(exact: pd.DataFrame, panel: Panel, metric: str) -> dict[str, pd.DataFrame]:
    """Return the exact curves of the variants that have exact values in the panel."""
    rows = panel.table[(panel.table["metric"] == metric) & panel.table["exact"].notna()]
    if rows.empty:
        return {}
    chosen = exact[
        (exact["metric"] == metric)
        & (exact["n_k"] == panel.of("n_k"))
        & (exact["n_q"] == panel.of("n_q"))
        & (exact["inputs"] == rows["inputs"].iloc[0])
        & exact["scaling"].isin(rows["variant"])
    ]
    return {str(variant): found.sort_values("d_k") for variant, found in chosen.groupby("scaling")}


def plot_curve(axes: Axes, rows: pd.DataFrame, look: Look) -> None:
    """Draw an exact curve as a thin line; for a single d_k as a dash."""
    axes.plot(
        rows["d_k"],
        rows["exact"],
        color=look.color,
        linewidth=1,
        zorder=1.8,
        label="_exact",
        marker="_" if len(rows) == 1 else "",
        markersize=18,
    )


def plot_bars(axes: Axes, x: pd.Series, low: np.ndarray, high: np.ndarray, look: Look) -> None:
    """Draw vertical interval bars, all as one line with gaps."""
    at = np.repeat(x.to_numpy(float), 3)
    ends = np.column_stack([low, high, np.full(len(low), np.nan)]).ravel()
    axes.plot(at, ends, color=look.color, linewidth=1.3, zorder=1.9, label="_interval")


def plot_metric(
    table: pd.DataFrame,
    axes: Axes,
    metric: str,
    looks: Looks,
    *,
    on_curve: Sequence[str] = (),
    x: str = "d_k",
    markevery: int = 1,
) -> None:
    """Draw a metric's mean against x with its interval over seeds, and every nth marker.

    Variants in `on_curve` are points with bars, the others lines with bands; a median is dashed.
    The limits of a logarithmic axis must be final.
    """
    lines = lines_of(table, metric, x)
    for variant, look in looks.items():
        if variant not in lines:
            continue
        rows = lines[variant]
        dashed = look.dashed or metric.endswith("_median")
        axes.plot(
            rows[x],
            rows["mean"],
            color=look.color,
            marker=look.marker,
            label=variant,
            linestyle="none" if variant in on_curve else "--" if dashed else "-",
            markerfacecolor="none" if dashed else look.color,
            markevery=markevery,
        )
        known = rows.dropna(subset=["ci_low", "ci_high"])
        low, high = (known[name].to_numpy(float) for name in ("ci_low", "ci_high"))
        if axes.get_yscale() == "log":
            # An interval of positive numbers may end below 0, which a log axis cannot show.
            low = np.where(low > 0, low, axes.get_ylim()[0])
        # A band over one point would be invisible.
        if variant in on_curve or len(known) == 1:
            plot_bars(axes, known[x], low, high, look)
        elif len(known):
            axes.fill_between(known[x], low, high, color=look.color, alpha=0.3, linewidth=0)


def plot_exits(table: pd.DataFrame, axes: Axes, metric: str, looks: Looks, x: str = "d_k") -> bool:
    """Draw a triangle on the axis where a line leaves it downwards, and return whether one does.

    The limits must be final.
    """
    low, any_leaves = axes.get_ylim()[0], False
    for variant, rows in lines_of(table, metric, x).items():
        below = rows[rows["mean"] < low]
        if len(below):
            any_leaves = True
            axes.plot(
                [below[x].iloc[0]],
                [low],
                linestyle="none",
                marker="v",
                markersize=6,
                color=looks[variant].color,
                clip_on=False,
                zorder=4,
                label="_exit",
            )
    return any_leaves


def plot_within(
    axes: Axes, rows: pd.DataFrame, columns: tuple[str, str, str], look: Look, *, label: str
) -> None:
    """Draw points over d_k, with bars, and a triangle at the top for what is out of range.

    `columns` are the value and the ends of its interval.
    """
    at = rows["d_k"].to_numpy(float)
    y, low, high = (rows[name].to_numpy(float) for name in columns)
    bottom, top = axes.get_ylim()
    line = look.line | {"marker": ""}
    axes.plot(at, np.clip(y, bottom, top), linewidth=1.2, label="_line", **line)
    known = np.isfinite(y)
    points = look.line | {"linestyle": "none"}
    axes.plot(at[known], np.maximum(y[known], bottom), markersize=5, label=label, **points)
    axes.vlines(
        at, np.clip(low, bottom, top), np.clip(high, bottom, top), color=look.color, linewidth=1.3
    )
    beyond = np.isinf(y) | np.isinf(high)
    # An empty line that is not clipped has no position, which breaks the layout.
    if beyond.any():
        axes.plot(
            at[beyond], np.full(int(beyond.sum()), top), color=look.color, marker="^", markersize=7,
            linestyle="none", clip_on=False, zorder=4, label="_beyond",
        )  # fmt: skip


def plot_level(axes: Axes, y: float, text: str = "", *, outside: bool = False) -> None:
    """Draw a horizontal reference with its name, above the lines: a line may be exactly on it.

    The name is above the reference, or `outside` the panel where lines would cross it.
    """
    axes.axhline(y, color=INK, linestyle="--", linewidth=0.9, zorder=3)
    axes.annotate(
        text,
        (1.0 if outside else 0.98, y),
        (3, 0) if outside else (0, 4),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        ha="left" if outside else "right",
        va="center" if outside else "bottom",
        fontsize=style.SMALL,
    )


def plot_ceiling(axes: Axes, panel: Panel) -> None:
    """Draw the entropy of equal weights."""
    ceiling = math.log(panel.of("n_k"))
    plot_level(axes, ceiling, f"ln n_k = {ceiling:.2f}")


@dataclass(frozen=True)
class PanelRow:
    """One row of panels: the metrics that it shows and its y-axis, the same in all its panels.

    With a `base` the axis is logarithmic and holds at most the `powers` largest powers of it;
    otherwise it goes from `bottom` to `top`.
    """

    label: str
    metrics: tuple[str, ...]
    top: float = 1.04
    bottom: float = 0.0
    base: int | None = None
    powers: int = 99


def build_lines(
    table: pd.DataFrame,
    rows: Sequence[PanelRow],
    sentence: str,
    refer: Callable[[Axes, Panel], None] = lambda axes, panel: None,
    *,
    exact: pd.DataFrame = NO_CURVES,
    looks: Looks | None = None,
    across: str = "n_k",
    where: Sequence[str] = GROUP_AXES,
    mean: str = "mean",
    x: Key | Column = schema.D_K,
    count: bool = False,
    names: Mapping[str, str] = MappingProxyType({}),
    exits: str = "",
) -> Figure:
    """Build a figure of metrics against `x`; `refer` adds a panel's reference lines.

    The column `variant` of the summary names the line of a row, `looks` has its colour and marker,
    and `mean` describes how seeds were pooled. Sizes have a log2 axis; a `count` has a linear one.
    A legend has the words of `names` for variants. `exits` says why lines leave an axis.
    """
    looks = looks or style.looks(table["variant"])
    by_label = {row.label: row for row in rows}
    labels = [name_of(variant, metric, rows[0]) for variant in looks for metric in rows[0].metrics]
    at_ends = fits_at_ends(labels)
    figure, made = panels(
        table,
        {row.label: row.metrics for row in rows},
        across=across,
        where=where,
        margin=max(map(len, labels), default=0) if at_ends else 0,
        x=x,
    )
    marks, any_leaves = set(), False
    for panel in made:
        row, axes = by_label[panel.row], panel.axes
        # Sizes are compared across panels, counts within a panel.
        _set_axes(axes, row, table)
        (count_axis if count else size_axis)(axes, (panel.table if count else table)[x.name])
        if panel.first:
            axes.set_ylabel(row.label)
        refer(axes, panel)
        for metric in row.metrics:
            curves = curves_of(exact, panel, metric)
            for variant, curve in curves.items():
                plot_curve(axes, curve, looks[variant])
            # Few enough markers to be distinguishable.
            every = math.ceil(panel.table[x.name].nunique() / MAX_MARKERS) if count else 1
            plot_metric(
                panel.table, axes, metric, looks, on_curve=list(curves), x=x.name, markevery=every
            )
            any_leaves |= plot_exits(panel.table, axes, metric, looks, x.name)
            variants = set(lines_of(panel.table, metric, x.name))
            marks |= {"Bar"} if curves else set()
            marks |= {"Band"} if variants - curves.keys() and len(set(table[x.name])) > 1 else set()
        if (panel.table["mean"] == 0).all():
            axes.text(0.5, 0.5, "0 everywhere", transform=axes.transAxes, ha="center")
        if at_ends:
            label_ends(axes, list(ends_of(panel, row, looks, x.name)))
    if made:
        if not at_ends:
            style.legend(figure, keys_of(looks, rows[0].metrics, names))
        leaves = "▼: the line leaves the axis there" if any_leaves else ""
        if leaves and at_ends and any_ends_below(figure):
            leaves += f"; ↓ is its value at the largest {words.axis(x.name)}"
        leaves += (f", {exits}." if exits else ".") if leaves else ""
        shown = table[table["metric"].isin([metric for row in rows for metric in row.metrics])]
        said = " ".join(filter(None, (sentence, leaves)))
        style.note(figure, " ".join(small_print(shown, said, marks, mean, where)))
    return figure


def _set_axes(axes: Axes, row: PanelRow, table: pd.DataFrame) -> None:
    if row.base is None:
        axes.set_ylim(row.bottom - 0.02 * (row.top - row.bottom), row.top)
    else:
        means = table.loc[table["metric"].isin(row.metrics), "mean"]
        log_axis(axes, log_limits(means, base=row.base, most=row.powers), base=row.base)


def name_of(variant: str, metric: str, row: PanelRow) -> str:
    """Return the name of a line: its variant and, in a row with a pair of averages, which one."""
    return f"{variant} {metric.rpartition('_')[2]}" if len(row.metrics) > 1 else variant


def ends_of(panel: Panel, row: PanelRow, looks: Looks, x: str = "d_k") -> Iterator[End]:
    """Yield the end of each line of a panel; if it is below the axis, its label says so."""
    low = panel.axes.get_ylim()[0]
    for metric in row.metrics:
        for variant, rows in lines_of(panel.table, metric, x).items():
            last = float(rows["mean"].iloc[-1])
            goes = f"\n↓ {style.format_label(last)}" if last < low else ""
            yield End(last, name_of(variant, metric, row) + goes, looks[variant].color)


def any_ends_below(figure: Figure) -> bool:
    """Return whether a label at the end of a line gives a value below the axis."""
    return any("↓" in text.get_text() for axes in figure.axes for text in axes.texts)


def keys_of(
    looks: Looks, metrics: Sequence[str], names: Mapping[str, str] = MappingProxyType({})
) -> list[Line2D]:
    """Return the entries of a legend: the variants and, for two averages, two kinds of point.

    `names` are the words for variants.
    """
    variants = [
        Line2D([], [], label=words.with_name(variant, names), **look.line)
        for variant, look in looks.items()
    ]
    if len(metrics) == 1:
        return variants
    rms, median = PAIR
    return [
        *variants,
        Line2D([], [], color=INK, marker="o", linestyle="-", label=rms),
        Line2D([], [], color=INK, marker="o", linestyle="--", markerfacecolor="none", label=median),
    ]


def small_print(
    shown: pd.DataFrame, sentence: str, marks: set[str], mean: str, where: Sequence[str]
) -> Iterator[str]:
    """Yield what a reader must know about the marks, the seeds and the axes that no panel names."""
    if sentence:
        yield sentence
    over = f"{mean} over seeds" if shown["n_seeds"].max() > 1 else "of one seed"
    if "Bar" in marks:
        yield f"Points: {over}. Thin line: exact."
        if "Band" in marks:
            yield "Thick line: joins points."
    else:
        yield f"Points and lines: {over}."
    yield style.says_seeds(shown, " or ".join(sorted(marks)).capitalize() or "Bar")
    yield style.says_where(shown, where)
