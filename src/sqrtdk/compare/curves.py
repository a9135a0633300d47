"""Draw both runs' curves of an experiment in one figure."""

import io
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sqrtdk.experiments.base import Experiment
from sqrtdk.figures import panels, style
from sqrtdk.schema import Column, Document
from sqrtdk.stats import changes as stats_changes
from sqrtdk.stats import summary
from sqrtdk.storage import tables

MOST_METRICS = 6

MOST_ARMS = 8
"""Lines of a panel. Each is drawn twice, and there are eight colours."""

DECADES = 1.5
"""A metric that spans more powers of ten has a logarithmic axis."""


class View(NamedTuple):
    """The content of a figure of an experiment: metrics against `x`, a line for each `side`.

    `at` are the values of the other axes, the same in all panels.
    """

    metrics: tuple[Column, ...]
    x: Column
    side: Column | None
    at: Document


def view(experiment: Experiment, rows: Sequence[tables.Row]) -> View | None:
    """Choose what to show of an experiment's rows of compare.csv, or nothing without a size.

    Where the runs have many values of the other axes, the view is at those where most metrics
    differ.
    """
    own = experiment.pivot.table == "summary"
    axes = {c.name: c for c in experiment.columns if c.axis and c.name != "seed"}
    found = {row["metric"] for row in rows}
    named = experiment.pivot.metrics if own else ()
    metrics = [c for c in experiment.columns if not c.axis and c.name in found]
    metrics = ([c for c in metrics if c.name in named] or metrics)[:MOST_METRICS]
    sizes = [c for c in axes.values() if c.read in (int, float)]
    if not sizes or not rows:
        return None
    longest = max(sizes, key=lambda c: len({row[c.name] for row in rows}))
    down = axes.get(experiment.pivot.down)
    x = down if own and down in sizes else longest
    side = axes.get(experiment.pivot.side)
    rest = [name for name in axes if name != x.name and (side is None or name != side.name)]
    shown = {c.name for c in metrics}
    counts: dict[tuple[Any, ...], tuple[int, int]] = {}
    for row in rows:
        if row["metric"] in shown:
            at = tuple(row[name] for name in rest)
            differ, there = counts.get(at, (0, 0))
            counts[at] = differ + (row["outcome"] == stats_changes.DIFFERS), there + 1
    most_different, _ = max(counts.items(), key=lambda item: item[1])
    chosen = dict(zip(rest, most_different, strict=True))
    known = {row["metric"] for row in rows if all(row[x] == chosen[x] for x in rest)}
    return View(tuple(c for c in metrics if c.name in known), x, side, chosen)


def summarized(shown: View, experiment: Experiment, runs: pd.DataFrame) -> pd.DataFrame:
    """Return the summary of one run at the values of the view."""
    there = runs
    for name, value in shown.at.items():
        there = there[there[name] == value]
    schema = [c for c in experiment.columns if c.axis or c in shown.metrics]
    names = [column.name for column in summary.columns(experiment.columns)]
    return pd.DataFrame(summary.summarize(there, schema, {}), columns=names)


def build(shown: View, names: tuple[str, str], sides: Sequence[pd.DataFrame]) -> Figure:
    """Build the figure: the first run with filled points and solid lines, the second hollow."""
    both = pd.concat(sides)
    arms = sorted({str(x) for x in both[shown.side.name]}) if shown.side else [""]
    looks = style.looks(arms[:MOST_ARMS])
    columns = min(panels.most_panels(), len(shown.metrics))
    lines = math.ceil(len(shown.metrics) / columns)
    figure, grid = panels.sheet(lines, columns, margin=0, headings=2 * lines)
    for place, metric in enumerate(shown.metrics):
        axes = figure.add_subplot(grid[place // columns, place % columns])
        axes.set_title(metric.name)
        axes.set_xlabel(f"{shown.x.name} ({shown.x.unit})" if shown.x.unit else shown.x.name)
        _set_axes(axes, both[both["metric"] == metric.name], shown.x)
        for table, dashed in zip(sides, (False, True), strict=True):
            for arm, look in looks.items():
                rows = table[table["metric"] == metric.name]
                if shown.side:
                    rows = rows[rows[shown.side.name].astype(str) == arm]
                rows = rows.sort_values(shown.x.name)
                axes.plot(
                    rows[shown.x.name], rows["mean"], color=look.color, marker=look.marker,
                    linestyle="--" if dashed else "-", linewidth=1.3,
                    markerfacecolor="none" if dashed else look.color,
                )  # fmt: skip
                axes.fill_between(
                    rows[shown.x.name], rows["ci_low"], rows["ci_high"],
                    color=look.color, alpha=0.15, linewidth=0,
                )  # fmt: skip
    _legend(figure, looks, names)
    more = len(arms) - len(looks)
    left_out = (
        f" {more} more of {shown.side.name} are in compare.csv." if shown.side and more else ""
    )
    where = ", ".join(f"{name}\N{NBSP}=\N{NBSP}{value}" for name, value in shown.at.items())
    style.note(figure, f"Bands: 95\N{NBSP}% intervals over seeds. At {where}.{left_out}")
    return figure


def _set_axes(axes: Axes, rows: pd.DataFrame, x: Column) -> None:
    means, sizes = rows["mean"], sorted(set(rows[x.name]))
    positive = means[means > 0]
    if len(positive) == len(means) and math.log10(positive.max() / positive.min()) > DECADES:
        panels.log_axis(axes, panels.log_limits(means, base=10, most=99), base=10)
    if x.read is int and sizes[0] > 0 and sizes[-1] > 8 * sizes[0]:
        panels.size_axis(axes, sizes)
    elif sizes[0] > 0 and sizes[-1] > 8 * sizes[0]:
        axes.set_xscale("log")


def _legend(figure: Figure, looks: Mapping[str, style.Look], names: tuple[str, str]) -> None:
    handles = [
        Line2D([], [], color=style.INK, linestyle="-", marker="o", label=names[0]),
        Line2D(
            [], [], color=style.INK, linestyle="--", marker="o", markerfacecolor="none",
            label=names[1],
        ),
    ]  # fmt: skip
    handles += [
        Line2D([], [], color=look.color, marker=look.marker, label=arm)
        for arm, look in looks.items()
        if arm
    ]
    style.legend(figure, handles)


def svg(figure: Figure, name: str) -> str:
    """Return a figure as SVG, the same text every time."""
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()
