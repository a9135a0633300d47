"""Draw the figures of the remedies: steps, loss against the rate, transfer, largest logits."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sqrtdk.figures import draw, style
from sqrtdk.figures.draw import Tables
from sqrtdk.figures.lines import plot_level, plot_within
from sqrtdk.figures.panels import log_axis, log_limits, sheet, size_axis
from sqrtdk.figures.style import INK, Look
from sqrtdk.figures.words import REMEDIES, with_name
from sqrtdk.stats.intervals import Estimate
from sqrtdk.stats.wording import format_number, format_percent

GROUPS: Mapping[str, Sequence[str]] = {
    "acting on the optimizer": ("off", "warmup", "adamw", "clipping", "on"),
    "acting on the logits": ("off", "temperature", "soft_cap", "qk_clip", "on"),
    "QK-norm, and 8/d_k": ("qk_norm_1", "qk_norm_8", "qk_norm_32", "inverse_64", "on"),
}
"""The panels of a figure with all remedies, with the two references where they help."""

CROSSFIT = ("crossfit_steps", "crossfit_low", "crossfit_high")

TRANSFER = ("off", "on", "inverse_64", "qk_norm_8")
"""The remedies of the figures about rates and logits."""

SHARED = ("n_k", "batch_size")


FAR = 3.0
"""Times the least loss of all above which the figure names a remedy."""

ROOM = 1.3
"""Factor beyond the sizes of the grid, for points that are moved apart."""


def looks_of(table: pd.DataFrame) -> dict[str, Look]:
    """Return the look of every remedy, the same in all figures."""
    there = set(table["remedy"])
    return {name: look for name, look in style.looks(REMEDIES).items() if name in there}


def of_one_size(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the smallest n_k and batch."""
    for axis in SHARED:
        table = table[table[axis] == table[axis].min()]
    return table


def _handles(looks: Mapping[str, Look], names: Sequence[str]) -> list[Line2D]:
    return [
        Line2D([], [], label=with_name(name, REMEDIES), **looks[name].line)
        for name in looks
        if name in names
    ]


def _panels(table: pd.DataFrame) -> tuple[Figure, list[tuple[Axes, list[str]]]]:
    """Return a figure with a panel for each group of remedies that the table has."""
    there = set(table["remedy"])
    groups = {
        title: [name for name in names if name in there]
        for title, names in GROUPS.items()
        if there & (set(names) - {"off", "on"})
    } or {"": sorted(there)}
    figure, grid = sheet(1, len(groups), margin=0, headings=1)
    found = []
    for place, (title, names) in enumerate(groups.items()):
        axes = figure.add_subplot(grid[0, place])
        axes.set_title(title)
        found.append((axes, names))
    return figure, found


def build_steps(tables: Tables) -> Figure:
    """Draw steps to 90 % against d_k at the best rate, with the prototype's numbers as rings."""
    table = of_one_size(tables["ladder"])
    looks, budget = looks_of(table), int(table["steps"].max())
    figure, made = _panels(table)
    shown = table[list(CROSSFIT)].to_numpy(float)
    shown = shown[np.isfinite(shown) & (shown > 0)]
    limits = log_limits(pd.Series([*shown, float(budget), 1.5 * budget]), base=10, most=9)
    for place, (axes, names) in enumerate(made):
        size_axis(axes, table["d_k"])
        axes.set_xlim(table["d_k"].min() / ROOM, table["d_k"].max() * ROOM)
        log_axis(axes, limits, base=10)
        plot_level(axes, budget, f"{budget} steps trained")
        axes.set_xlabel("d_k (dimensions)")
        if place == 0:
            axes.set_ylabel("steps to 90 %")
        else:
            axes.tick_params(labelleft=False)
        for i, name in enumerate(names):
            shift = 1.0 + 0.05 * (i - (len(names) - 1) / 2)
            _plot_steps(table[table["remedy"] == name], axes, looks[name], shift)
    ring = Line2D(
        [], [], color=INK, marker="o", linestyle="none", markerfacecolor="none", markersize=8,
        label="prototype",
    )  # fmt: skip
    rings = [ring] if table["prototype_steps"].notna().any() else []
    style.legend(figure, [*_handles(looks, list(looks)), *rings])
    said = [f"Bars: 95 % interval of the median by order statistics over {style.seeds(table)} "
            "(none below six)."]  # fmt: skip
    if np.isinf(table[list(CROSSFIT)].to_numpy(float)).any():
        said.append("▲ at the top: the median or the end of the bar is beyond the steps trained.")
    if rings:
        said.append("Rings: an earlier prototype of 4 seeds in code of its own.")
    edges = int((table["edge"] != "").sum())
    at_edge = (
        f"At {edges} of {len(table)} points a chosen rate is at the edge of the grid."
        if edges
        else "No chosen rate is at the edge of the grid."
    )
    style.note(
        figure,
        "Median over seeds of the steps after which 90 % of the held-out queries find their item, "
        "each seed at the learning rate of the grid that is best for the other half of the seeds. "
        f"{' '.join(said)} {at_edge} "
        f"{style.says_where(table, SHARED)}",
    )
    return figure


def _plot_steps(rows: pd.DataFrame, axes: Axes, look: Look, shift: float) -> None:
    rows = rows.sort_values("d_k").assign(d_k=lambda found: found["d_k"] * shift)
    plot_within(axes, rows, CROSSFIT, look, label="_points")
    for at, steps in zip(rows["d_k"], rows["prototype_steps"], strict=True):
        if math.isfinite(steps):
            axes.plot(
                [at], [steps], color=look.color, marker="o", markersize=9, markerfacecolor="none",
                linestyle="none", zorder=3, label="_prototype",
            )  # fmt: skip


def build_loss(tables: Tables) -> Figure:
    """Draw the final loss against the learning rate at the largest d_k."""
    table = of_one_size(tables["summary"])
    table = table[(table["metric"] == "held_out_loss") & (table["d_k"] == table["d_k"].max())]
    if table.empty:
        return style.nothing("held_out_loss is undefined in this grid.")
    looks = looks_of(table)
    figure, made = _panels(table)
    limits = log_limits(pd.concat([table["mean"], table["ci_high"]]), base=10, most=4)
    for place, (axes, names) in enumerate(made):
        _rate_axis(axes, table["learning_rate"])
        log_axis(axes, limits, base=10)
        if place == 0:
            axes.set_ylabel("held-out loss")
        else:
            axes.tick_params(labelleft=False)
        for name in names:
            _plot_band(table[table["remedy"] == name], axes, looks[name], limits[0])
    style.legend(figure, _handles(looks, list(looks)))
    style.note(
        figure,
        f"Held-out loss at the end, at d_k = {int(table['d_k'].max())}: half the squared distance "
        f"of the output to the value, mean over queries and seeds. {_says_ends(table)} "
        f"{style.says_seeds(table)} "
        f"{style.says_where(table, SHARED)}",
    )
    return figure


def _says_ends(table: pd.DataFrame) -> str:
    """Say which remedies end far above the best loss, each at its best rate."""
    least = table.groupby("remedy")["mean"].min()
    times = (least / least.min()).sort_values()
    far = times[times > FAR]
    if far.empty:
        return f"At its best rate each ends at most {format_number(times.max(), 2)} times the best."
    named = ", ".join(f"{REMEDIES[str(name)]} {format_number(x, 2)}" for name, x in far.items())
    return (
        f"Even at the best of these rates some end far above the least loss of all, "
        f"{format_number(least.min(), 2)}: {named} times it."
    )


def _rate_axis(axes: Axes, values: pd.Series) -> None:
    log_axis(axes, log_limits(values, base=10, most=12), base=10, along="x")
    axes.set_xlabel("learning rate")


def _plot_band(
    rows: pd.DataFrame, axes: Axes, look: Look, floor: float, x: str = "learning_rate"
) -> None:
    rows = rows.sort_values(x)
    axes.plot(rows[x], rows["mean"], label="_line", **look.line)
    known = rows.dropna(subset=["ci_low", "ci_high"])
    low, high = (known[end].to_numpy(float) for end in ("ci_low", "ci_high"))
    axes.fill_between(
        known[x].to_numpy(float), np.maximum(low, floor), np.maximum(high, floor),
        color=look.color, alpha=0.25, linewidth=0,
    )  # fmt: skip


def build_transfer(tables: Tables) -> Figure:
    """Draw the best rate, and the alignment at it, against d_k."""
    table = of_one_size(tables["transfer"])
    table = table[table["remedy"].isin(TRANSFER)]
    if table.empty:
        return style.nothing(f"the run has none of {', '.join(TRANSFER)}.")
    looks = looks_of(table)
    figure, grid = sheet(1, 2, margin=0, headings=0)
    rates, aligned = (figure.add_subplot(grid[0, i]) for i in range(2))
    for axes in (rates, aligned):
        size_axis(axes, table["d_k"])
        axes.set_xlabel("d_k (dimensions)")
    ends = pd.concat([table[x] for x in ("best_rate", "rate_low", "rate_high")])
    limits = log_limits(ends, base=10, most=6)
    log_axis(rates, limits, base=10)
    rates.set_ylabel("best learning rate")
    aligned.set_ylim(-0.02, 1.04)
    aligned.set_ylabel("cosine of a query and its key")
    for name, look in looks.items():
        rows = table[table["remedy"] == name]
        for axes, mean, low, high, floor in (
            (rates, "best_rate", "rate_low", "rate_high", limits[0]),
            (aligned, "alignment", "alignment_low", "alignment_high", -1.0),
        ):
            shown = rows.assign(mean=rows[mean], ci_low=rows[low], ci_high=rows[high])
            _plot_band(shown, axes, look, floor, x="d_k")
    style.legend(figure, _handles(looks, list(looks)))
    style.note(
        figure,
        "Left: learning rate with the fewest steps to 90 %, interpolated on the grid for each "
        "seed; geometric mean over seeds. Right: cosine of a held-out query and its key after the "
        f"last step, at that rate. {style.says_seeds(table)} "
        f"{style.says_where(table, SHARED)}",
    )
    return figure


def build_logits(tables: Tables) -> Figure:
    """Draw the largest logit against the rate, a line for each d_k, and both limits."""
    table = of_one_size(tables["summary"])
    table = table[(table["metric"] == "max_logit") & table["remedy"].isin(TRANSFER)]
    if table.empty:
        return style.nothing("max_logit is undefined in this grid.")
    limits_of = of_one_size(tables["instability"]) if len(tables["instability"]) else None
    names = [name for name in TRANSFER if name in set(table["remedy"])]
    looks = style.look_of_sizes(table["d_k"])
    columns = min(2, len(names))
    lines = math.ceil(len(names) / columns)
    figure, grid = sheet(lines, columns, margin=0, headings=lines)
    limits = log_limits(table["median"], base=10, most=9)
    for place, name in enumerate(names):
        axes = figure.add_subplot(grid[place // columns, place % columns])
        axes.set_title(with_name(name, REMEDIES))
        _rate_axis(axes, table["learning_rate"])
        log_axis(axes, limits, base=10)
        if place % columns == 0:
            axes.set_ylabel("largest logit")
        else:
            axes.tick_params(labelleft=False)
        for d_k, look in looks.items():
            rows = table[(table["remedy"] == name) & (table["d_k"] == d_k)]
            rows = rows.sort_values("learning_rate")
            axes.plot(rows["learning_rate"], rows["median"], label="_line", **look.line)
        _plot_limits(axes, limits_of, name)
    handles = [Line2D([], [], label=f"d_k = {d_k}", **look.line) for d_k, look in looks.items()]
    style.legend(figure, handles)
    style.note(
        figure,
        "Largest logit of the held-out queries after the last step, median over "
        f"{style.seeds(table)}. {_says_limits(limits_of, names)}"
        f"{style.says_where(table, SHARED)}",
    )
    return figure


def _says_limits(table: pd.DataFrame | None, names: Sequence[str]) -> str:
    """Explain the lines of the limits that are drawn, with the share that the level puts right."""
    if table is None:
        return ""
    level = table.iloc[0]
    text = (
        f"Dashed, {style.format_label(level['threshold'])}: the logit that best separates runs "
        "that fail, which end above the loss of equal weights, from the others, over all remedies "
        f"of the run and all smaller d_k; {format_percent(Estimate(float(level['separated'])))} of "
        "these runs are on its right side. "
    )
    if table.loc[table["remedy"].isin(names), "limit"].notna().any():
        text += (
            "Vertical: rate from which on runs of the largest d_k fail (solid) and its prediction "
            "from smaller d_k (dotted). "
        )
    return text


def _plot_limits(axes: Axes, table: pd.DataFrame | None, name: str) -> None:
    if table is None or not (table["remedy"] == name).any():
        return
    row = table[table["remedy"] == name].iloc[0]
    plot_level(axes, float(row["threshold"]))
    for column, line in (("limit", "-"), ("predicted_limit", ":")):
        if math.isfinite(row[column]):
            axes.axvline(row[column], color=INK, linestyle=line, linewidth=1.1, label="_limit")


BUILD: draw.Builders = {
    "steps": build_steps,
    "loss": build_loss,
    "transfer": build_transfer,
    "logits": build_logits,
}
