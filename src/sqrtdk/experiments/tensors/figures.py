"""Draw the figures of trained models: heads beside unrelated vectors, maps, rankings, scales."""

import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import PurePath

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy.interpolate import PchipInterpolator

from sqrtdk.experiments.tensors.models import NO_MODEL, SLOPE
from sqrtdk.figures import draw, style
from sqrtdk.figures.draw import Tables
from sqrtdk.figures.panels import log_axis, log_limits
from sqrtdk.figures.plot_map import plot_map
from sqrtdk.figures.style import FIXED, INK, SMALL

METRICS = {
    "entropy_normalized": "entropy / ln n",
    "max_weight": "largest weight",
}

MAX_FILES = 6
"""Files that a figure shows; tables have all."""

MAX_HEADS = 16
"""Heads that a ranking shows."""

SHOWN = "on"
"""The scale rule of maps and rankings, where a run has it."""

NO_HEADS = "no head has a query that sees two keys."


def build_sigma(tables: Tables) -> Figure:
    """Draw entropy and largest weight of every head against its σ, a column for each file."""
    table = tables["heads"].dropna(subset=["logit_std"])
    table = table[table["logit_std"] > 0]
    if table.empty:
        return style.nothing(NO_HEADS)
    files, note = _files(table)
    looks = style.looks(table["scaling"])
    figure = Figure(figsize=(0.9 + 2.6 * max(len(files), 2), 5.0))
    grid = figure.add_gridspec(len(METRICS), len(files))
    limits = log_limits(table["logit_std"], base=10, most=6)
    for (i, metric), (j, path) in itertools.product(enumerate(METRICS), enumerate(files)):
        axes = figure.add_subplot(grid[i, j])
        here = table[table["path"] == path]
        axes.plot(*_line(here, f"{metric}_expected"), color=INK, linewidth=1.2, zorder=3)
        for name, look in looks.items():
            mine = here[here["scaling"] == name]
            axes.plot(
                mine["logit_std"], mine[metric], look.marker, color=look.color, alpha=0.6,
                markersize=3.5, markeredgewidth=0,
            )  # fmt: skip
        log_axis(axes, limits, base=10, along="x")
        axes.set_ylim(-0.03, 1.03)
        if i == 0:
            axes.set_title(_title(path))
        if i == len(METRICS) - 1:
            axes.set_xlabel("σ of the logits")
        if j == 0:
            axes.set_ylabel(METRICS[metric])
    handles = [
        Line2D([], [], color=look.color, marker=look.marker, linestyle="", label=name)
        for name, look in looks.items()
    ]
    handles.append(Line2D([], [], color=INK, linewidth=1.2, label="unrelated vectors, exact"))
    style.legend(figure, handles)
    style.note(
        figure,
        f"A point is a head, averaged over queries and inputs. The line is exact at the σ of each "
        f"head and smooth between them. {note}".strip(),
    )
    return figure


def _line(heads: pd.DataFrame, column: str) -> tuple[np.ndarray, np.ndarray]:
    """Return a smooth line through a column at the σ of each head, without overshoot."""
    means = heads.dropna(subset=[column]).groupby("logit_std")[column].mean()
    if len(means) < 2:
        return means.index.to_numpy(float), means.to_numpy(float)
    through = PchipInterpolator(np.log(means.index.to_numpy(float)), means.to_numpy(float))
    sigma = np.geomspace(means.index.min(), means.index.max(), 200)
    return sigma, through(np.log(sigma))


def build_map(tables: Tables) -> Figure:
    """Draw σ and the deviation of the entropy as layer × head maps, two for each file."""
    table, rule = _of_one_rule(tables["heads"])
    if table.empty:
        return style.nothing(NO_HEADS)
    files, note = _files(table)
    sizes = [table.loc[table["path"] == path, "layer"].nunique() for path in files]
    heights = [max(0.9, min(2.6, 0.22 * size)) for size in sizes]
    figure = Figure(figsize=(7.4, 0.8 + sum(heights) + 0.75 * len(files)))
    grid = figure.add_gridspec(len(files), 2, height_ratios=heights)
    for i, path in enumerate(files):
        here = table[table["path"] == path]
        for j, (column, label) in enumerate(
            (("logit_std", "σ"), ("entropy_normalized_deviation", "entropy / ln n − unrelated"))
        ):
            axes = figure.add_subplot(grid[i, j])
            matrix = here.pivot_table(index="layer", columns="head", values=column)
            plot_map(figure, axes, matrix, label, signed=j == 1)
            axes.set_title(f"{_title(path)}: {label}")
            axes.set_ylabel("layer" if j == 0 else "")
            axes.set_xlabel("head" if i == len(files) - 1 else "")
    style.note(figure, f"scaling = {rule}. σ: logarithmic colours. {note}".strip())
    return figure


def build_ranking(tables: Tables) -> Figure:
    """Draw the heads whose entropy is furthest from that of unrelated vectors at their σ."""
    table, rule = _of_one_rule(tables["heads"])
    table = table.dropna(subset=["entropy_normalized_deviation"])
    if table.empty:
        return style.nothing(NO_HEADS)
    files, note = _files(table)
    columns = min(len(files), 3)
    lines = math.ceil(len(files) / columns)
    figure = Figure(figsize=(0.6 + 3.1 * max(columns, 1.5), 0.7 + 3.0 * lines))
    grid = figure.add_gridspec(lines, columns)
    for i, path in enumerate(files):
        axes = figure.add_subplot(grid[i // columns, i % columns])
        here = table[table["path"] == path].sort_values("place").head(MAX_HEADS)
        places = np.arange(len(here))
        axes.hlines(
            places, here["entropy_normalized_expected"], here["entropy_normalized"], colors=INK,
            linewidth=0.8,
        )  # fmt: skip
        axes.plot(here["entropy_normalized"], places, "s", color=FIXED["on"], markersize=4)
        axes.plot(
            here["entropy_normalized_expected"], places, "o", markerfacecolor="none",
            markeredgecolor=INK, markersize=4.5,
        )  # fmt: skip
        names = zip(here["layer"], here["head"], here["logit_std"], strict=True)
        axes.set_yticks(
            places,
            [f"{layer}.{head}  σ {style.format_label(sigma)}" for layer, head, sigma in names],
        )
        axes.invert_yaxis()
        axes.set_xlim(-0.03, 1.03)
        axes.set_title(_title(path))
        if i // columns == lines - 1:
            axes.set_xlabel("entropy / ln n")
    style.legend(
        figure,
        [
            Line2D([], [], color=FIXED["on"], marker="s", linestyle="", label="measured"),
            Line2D(
                [], [], markerfacecolor="none", markeredgecolor=INK, marker="o", linestyle="",
                label="unrelated vectors at the same σ",
            ),
        ],
    )  # fmt: skip
    text = f"Layer.head, the largest deviation first; scaling = {rule}. {note}"
    style.note(figure, text.strip())
    return figure


def build_rescaled(tables: Tables) -> Figure:
    """Draw what trained models compute against the multiple of their own scale."""
    table = tables["rescaled"]
    if table.empty:
        return style.nothing(f"{NO_MODEL}.")
    models = list(dict.fromkeys(table["model"]))
    figure = Figure(figsize=(0.9 + 2.3 * len(models), 3.2))
    grid = figure.add_gridspec(1, len(models))
    for i, model in enumerate(models):
        axes = figure.add_subplot(grid[0, i])
        here = table[table["model"] == model].sort_values("factor")
        is_loss = here["kind"].iloc[0] == "loss"
        values = here["value"] if is_loss else 100 * here["value"] / here["things"]
        axes.plot(here["factor"], values, "o-", color=FIXED["on"], markersize=3.5)
        log_axis(axes, log_limits(here["factor"], base=2, most=9), base=2, along="x")
        if not is_loss:
            axes.set_ylim(-3, 105)
        _mark_scales(axes, math.sqrt(here["d_k"].iloc[0]), high=is_loss)
        axes.set_title(f"{model} (d_k = {here['d_k'].iloc[0]})")
        axes.set_xlabel("times its own scale")
        axes.set_ylabel("nats per token" if is_loss else "right (%)" if i == 0 else "")
    style.note(figure, " ".join(_tasks(table)))
    return figure


def build_d_k(tables: Tables) -> Figure:
    """Draw the median σ of the heads of each file against d_k, with 1/√d_k applied."""
    table, rule = _of_one_rule(tables["models"])
    points = table[(table["metric"] == "logit_std") & (table["median"] > 0)]
    if points.empty:
        return style.nothing(NO_HEADS)
    figure = Figure(figsize=(5.6, 3.6))
    axes = figure.add_subplot()
    spans = pd.concat([points["minimum"], points["maximum"], pd.Series([1.0])])
    log_axis(axes, log_limits(spans[spans > 0], base=2, most=9), base=2)
    sizes = pd.concat([points["d_k"] / 2, points["d_k"] * 2])
    log_axis(axes, log_limits(sizes, base=2, most=9), base=2, along="x")
    axes.axhline(1, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
    looks = style.look_of_sizes(range(len(points)))
    # Files with the same d_k are side by side.
    shift = points.groupby("d_k").cumcount() * 0.12
    for place, (row, by) in enumerate(zip(points.to_dict("records"), shift, strict=True)):
        look, x = looks[place], row["d_k"] * 2**by
        axes.vlines(x, row["minimum"], row["maximum"], colors=look.color, linewidth=0.9)
        if not math.isnan(row["ci_low"]):
            axes.vlines(x, row["ci_low"], row["ci_high"], colors=look.color, linewidth=3)
        axes.plot(x, row["median"], look.marker, color=look.color, markersize=6)
    axes.set_xlabel("d_k")
    axes.set_ylabel("σ of the logits")
    handles = [
        Line2D(
            [], [], color=looks[i].color, marker=looks[i].marker, linestyle="", label=_title(path)
        )
        for i, path in enumerate(points["path"])
    ]
    style.legend(figure, handles)
    style.note(figure, " ".join(_slope(table, rule)))
    return figure


def _slope(table: pd.DataFrame, rule: str) -> Iterator[str]:
    yield (
        f"scaling = {rule}. Point: median over heads; thick: its 95\N{NBSP}% interval; thin: all "
        "heads. Dashed: σ = 1, unrelated vectors of unit variance."
    )
    for row in table[table["metric"] == SLOPE].to_dict("records"):
        yield (
            f"Slope of ln σ on ln d_k over {row['heads']} files: {row['mean']:.2f} "
            f"({row['ci_low']:.2f} to {row['ci_high']:.2f}). Files differ in more than d_k."
        )


def _tasks(table: pd.DataFrame) -> Iterator[str]:
    for model, found in table.groupby("model", sort=False):
        of = "mean over" if found["kind"].iloc[0] == "loss" else "of"
        yield f"{model}: {found['task'].iloc[0]}, {of} {found['things'].iloc[0]}."
    yield "Measured once, not by this run."


def _mark_scales(axes: Axes, root: float, *, high: bool) -> None:
    """Mark the model's own scale, none at all (√d_k times it), and 1/d_k."""
    y, above = (0.98, "top") if high else (0.02, "bottom")
    for factor, text, side in (
        (1 / root, "1/d_k", "left"), (1.0, "own", "left"), (root, "none", "right"),
    ):  # fmt: skip
        axes.axvline(factor, color=INK, linewidth=0.7, linestyle=(0, (4, 3)))
        axes.text(
            factor, y, f" {text}", transform=axes.get_xaxis_transform(), fontsize=SMALL,
            rotation=90, ha=side, va=above,
        )  # fmt: skip


def _of_one_rule(table: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return the rows of the scale rule `on`, or of the first one, and its name."""
    names = sorted(set(table["scaling"]))
    rule = SHOWN if SHOWN in names else next(iter(names), SHOWN)
    return table[table["scaling"] == rule], rule


def _files(table: pd.DataFrame) -> tuple[Sequence[str], str]:
    """Return the first files of a table, and a note if there are more."""
    found = sorted(set(table["path"]))
    more = f"Shown: {MAX_FILES} of {len(found)} files." if len(found) > MAX_FILES else ""
    return found[:MAX_FILES], more


def _title(path: str) -> str:
    name = PurePath(path).stem
    return name if len(name) <= 24 else f"{name[:23]}…"


BUILD: draw.Builders = {
    "sigma": build_sigma,
    "map": build_map,
    "ranking": build_ranking,
    "rescaled": build_rescaled,
    "d_k": build_d_k,
}
