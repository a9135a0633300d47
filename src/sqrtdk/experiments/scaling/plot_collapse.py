"""Draw the collapse: metrics against the spread of the logits instead of d_k.

At one n_k everything depends on the spread of the logits only, so that every d_k and every scale
rule lies on one curve. In units of m_n, the sum of squared weights does so for every n_k.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sqrtdk.figures import style
from sqrtdk.figures.draw import Tables
from sqrtdk.figures.lines import plot_bars
from sqrtdk.figures.panels import (
    End,
    fits_at_ends,
    heading,
    label_ends,
    log_axis,
    log_limits,
    sheet,
)
from sqrtdk.figures.style import GROUP_AXES, INK, Look
from sqrtdk.schema import Document
from sqrtdk.theory import asymptotics
from sqrtdk.theory.fixed_sigma import expected_max

SPREAD = "logit_std"
"""The x-axis of the first panels, which is a metric."""

METRICS = ("entropy_normalized", "jacobian_norm", "grad_logits_dead_entries")

SQUARES = "sum_sq_weights"
"""The metric whose curve is the same for all n_k if its axis is in units of m_n."""

NAMES = {
    SPREAD: "spread of the logits",
    "entropy_normalized": "entropy (share)",
    "jacobian_norm": "norm of the Jacobian",
    "grad_logits_dead_entries": "entries near zero (share)",
    SQUARES: "sum of squared weights",
}
"""The names of the axes, which have little space."""

KEY_COLUMNS = ["d_k", "n_k", *GROUP_AXES, "scaling"]


def against_spread(table: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return the rows of a metric whose logits have a spread, with the spread in a column.

    `table` is the summary or exact.csv; the spread is the measured or the exact one.
    """
    value = "mean" if "mean" in table else "exact"
    axes = [name for name in KEY_COLUMNS if name in table]
    spread = table.loc[table["metric"] == SPREAD, [*axes, value]]
    spread = spread[spread[value] > 0].rename(columns={value: SPREAD})
    return table[table["metric"] == metric].merge(spread, on=axes)


def over_largest(spread: pd.Series, n_k: int) -> pd.Series:
    """Return the spread in units of m_n, the mean of the largest of n_k standard normals.

    >>> over_largest(pd.Series([1.0]), 2).round(4).tolist()
    [1.7725]
    """
    return spread / expected_max(n_k)


def build_collapse(tables: Tables) -> Figure:
    """Draw three metrics against logit_std, and sum_sq_weights against logit_std over m_n."""
    shown = pd.concat([against_spread(tables["summary"], m) for m in (*METRICS, SQUARES)])
    if shown.empty:
        return style.nothing("the logits have no spread in this grid.")
    rules, sizes = style.looks(shown["scaling"]), style.look_of_sizes(shown["n_k"])
    names = [f"n_k = {n_k}" for n_k in sizes]
    at_ends = fits_at_ends(names)
    blocks = [block for _, block in shown.groupby(list(GROUP_AXES))]
    varying = [name for name in GROUP_AXES if len(set(shown[name])) > 1]
    figure, grid = sheet(
        2 * len(blocks),
        2,
        margin=max(map(len, names)) if at_ends else 0,
        headings=(2 + len(varying)) * len(blocks),
    )
    for i, block in enumerate(blocks):
        for j, metric in enumerate(sorted(set(block["metric"]), key=[*METRICS, SQUARES].index)):
            axes = figure.add_subplot(grid[2 * i + j // 2, j % 2])
            rows = block[block["metric"] == metric]
            set_axes(axes, metric, shown[shown["metric"] == metric])
            plot_curves(axes, metric, covered(tables["exact"], rows), sizes)
            plot_points(axes, metric, rows, rules, sizes)
            if metric == SQUARES:
                plot_law(axes)
            if j == 0:
                axes.set_title(heading({name: block[name].iloc[0] for name in varying}))
            if at_ends:
                label_ends(axes, ends_of(rows, sizes))
    kinds = [Line2D([], [], color=INK, label=rule, **marker(look)) for rule, look in rules.items()]
    if not at_ends:
        kinds += [
            Line2D([], [], color=look.color, label=f"n_k = {n_k}") for n_k, look in sizes.items()
        ]
    style.legend(figure, kinds)
    style.note(
        figure,
        "A point is one d_k, scale rule (marker) and n_k (colour). Points: mean over seeds (of "
        "spreads and norms the quadratic mean). "
        + ("Thin line: exact. " if shown["exact"].notna().any() else "")
        + "Dashed: max(0, 1 - m_n/σ) with the spread σ, the law of large σ, up to corrections of "
        "relative order √(2 ln n_k)/σ; m_n is the mean of the largest of n_k standard normals. "
        f"{style.says_seeds(shown, 'Bar')} {style.says_where(shown)}",
    )
    return figure


def covered(exact: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the exact curves of the series among the rows of a metric that have an exact value."""
    axes = ["n_k", "n_q", "inputs", "scaling"]
    with_exact = rows.loc[rows["exact"].notna(), axes].drop_duplicates()
    return against_spread(exact, rows["metric"].iloc[0]).merge(with_exact)


def marker(look: Look) -> Document:
    """Return a hollow marker, so that points of several rules at one position can be seen."""
    return {"marker": look.marker, "linestyle": "none", "markerfacecolor": "none"}


def set_axes(axes: Axes, metric: str, everything: pd.DataFrame) -> None:
    """Set the axes of a metric's panel, the same for all groups."""
    axes.set_ylabel(NAMES[metric])
    axes.set_xlabel(f"{NAMES[SPREAD]}{' / m_n' if metric == SQUARES else ''}")
    spread = [x_of(rows, metric, n_k) for n_k, rows in everything.groupby("n_k")]
    log_axis(axes, log_limits(pd.concat(spread), base=2, most=24), base=2, along="x")
    top = 1.04 if metric != "jacobian_norm" else 1.15 * float(everything["mean"].max()) or 1.0
    axes.set_ylim(-0.03 * top, top)


def x_of(rows: pd.DataFrame, metric: str, n_k: Any) -> pd.Series:
    """Return the position of the points of one n_k along a panel's axis."""
    return over_largest(rows[SPREAD], int(n_k)) if metric == SQUARES else rows[SPREAD]


def plot_curves(axes: Axes, metric: str, curves: pd.DataFrame, sizes: Mapping[Any, Look]) -> None:
    """Draw the exact curve of every n_k and scale rule, along d_k."""
    for (n_k, _), curve in curves.groupby(["n_k", "scaling"]):
        rows = curve.sort_values("d_k")
        axes.plot(
            x_of(rows, metric, n_k),
            rows["exact"],
            color=sizes[n_k].color,
            linewidth=1,
            zorder=1.8,
            label="_exact",
            marker="_" if len(rows) == 1 else "",
            markersize=18,
        )


def plot_points(
    axes: Axes,
    metric: str,
    rows: pd.DataFrame,
    rules: Mapping[Any, Look],
    sizes: Mapping[Any, Look],
) -> None:
    """Draw a point with its bar for every d_k, n_k and scale rule."""
    for (n_k, rule), points in rows.groupby(["n_k", "scaling"]):
        x, look = x_of(points, metric, n_k), sizes[n_k]
        axes.plot(x, points["mean"], color=look.color, label=f"{n_k} {rule}", **marker(rules[rule]))
        plot_bars(axes, x, points["ci_low"].to_numpy(), points["ci_high"].to_numpy(), look)


def plot_law(axes: Axes) -> None:
    """Draw the law of sum_sq_weights at large x = logit_std / m_n: max(0, 1 - 1/x)."""
    # In these units it is the same for every number of keys.
    n_k = 2
    low, high = axes.get_xlim()
    x = np.geomspace(low, high, 97)
    law = asymptotics.large_sigma(x * expected_max(n_k), n_k)
    axes.plot(
        x,
        law.sum_sq_weights,
        color=INK,
        linestyle="--",
        linewidth=0.9,
        zorder=3,
        label="_law",
    )


def ends_of(rows: pd.DataFrame, sizes: Mapping[Any, Look]) -> list[End]:
    """Return the n_k of each curve, at the height of its right end."""
    last = rows.sort_values(SPREAD).groupby("n_k").tail(1)
    return [
        End(float(y), f"n_k = {n_k}", sizes[n_k].color)
        for n_k, y in zip(last["n_k"], last["mean"], strict=True)
    ]
