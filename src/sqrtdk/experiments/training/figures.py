"""Draw the figures of the training experiment: curves, steps, learning rates, gradient noise."""

import math
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from sqrtdk.experiments.training import rates
from sqrtdk.experiments.training.measure import LEARNT_ACCURACY, LOSS, OPTIMIZER
from sqrtdk.figures import draw, style
from sqrtdk.figures.draw import Tables
from sqrtdk.figures.lines import PanelRow, build_lines, by_scaling, plot_level, plot_within
from sqrtdk.figures.panels import log_axis, log_limits, sheet, size_axis
from sqrtdk.figures.style import INK, RULE, Look
from sqrtdk.stats import intervals

SIZES = 4
"""Maximum number of panels of learning curves, for values of d_k spread over the grid."""

FIRST_STEP = 8.0
"""The axis of steps is linear up to this step, so that it can show step 0."""

TWIN = Look(style.FIXED["off"], "o", dashed=True)
"""Uses the colour of the unscaled rule, because it has no scaling either."""

PANEL_AXES = ("n_k", "batch_size", "loss", "optimizer")


def chosen(table: pd.DataFrame, **wanted: str) -> pd.DataFrame:
    """Return the rows of the middle n_k, the smallest batch and the wanted value of each axis."""
    if table.empty:
        return table
    sizes = sorted(set(table["n_k"]))
    table = table[table["n_k"] == sizes[len(sizes) // 2]]
    table = table[table["batch_size"] == table["batch_size"].min()]
    for axis, value in wanted.items():
        there = sorted(set(table[axis]))
        table = table[table[axis] == (value if value in there else there[0])]
    return table


def at_best(table: pd.DataFrame, found: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a summary at the best learning rate of their scale rule."""
    axes = [column.name for column in rates.COLUMNS if column.axis]
    return table.merge(found.loc[found["best"] == 1, axes], on=axes)


def reported(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per rule of a rates.csv, with the steps at rates chosen on other seeds."""
    best = table[table["best"] == 1]
    return best.assign(
        steps_to_90=best["crossfit_steps"],
        ci_low=best["crossfit_low"],
        ci_high=best["crossfit_high"],
    )


# Learning curves


def build_curves(tables: Tables) -> Figure:
    """Draw accuracy and entropy against the step, each scale rule at its best learning rate."""
    metrics = {"accuracy": "accuracy (share)", "entropy_nats": "entropy (nats)"}
    table = at_best(tables["summary"], tables["rates"])
    table = chosen(table[table["metric"].isin(metrics)], loss="values", optimizer="adam")
    looks = style.looks(table["scaling"])
    sizes = intervals.evenly_spaced(sorted(set(table["d_k"])), SIZES)
    figure, grid = sheet(len(metrics), len(sizes), margin=0, headings=2)
    figure.set_figwidth(max(0.9 + 2.15 * len(sizes), 4.2))
    ceiling = math.log(table["n_k"].iloc[0])
    for line, (metric, name) in enumerate(metrics.items()):
        for column, d_k in enumerate(sizes):
            axes = figure.add_subplot(grid[line, column])
            there = table[(table["d_k"] == d_k) & (table["metric"] == metric)]
            plot_curves(there, axes, looks)
            level, top = (
                (LEARNT_ACCURACY, 1.04) if metric == "accuracy" else (ceiling, 1.08 * ceiling)
            )
            axes.set_ylim(-0.02 * top, top or 1.0)
            plot_level(axes, level)
            if line == 0:
                axes.set_title(f"d_k = {d_k}")
            else:
                axes.set_xlabel("step")
            if column == 0:
                axes.set_ylabel(name)
            else:
                axes.tick_params(labelleft=False)
    style.legend(figure, _rule_handles(looks))
    style.note(
        figure,
        "Each scale rule at its best learning rate. Means over held-out queries. Dashed: "
        f"{100 * LEARNT_ACCURACY:.0f} % accuracy, and ln n_k, the entropy of equal weights. "
        f"{style.says_seeds(table)} Steps are linear up to {FIRST_STEP:.0f} and logarithmic after "
        f"it; points are where it was measured. {style.says_where(table, PANEL_AXES)}",
    )
    return figure


def plot_curves(table: pd.DataFrame, axes: Axes, looks: dict[str, Look]) -> None:
    """Draw one metric against the step, a line for each scale rule, with its band."""
    for variant, look in looks.items():
        rows = table[table["scaling"] == variant].sort_values("step")
        axes.plot(rows["step"], rows["mean"], color=look.color, marker=look.marker, label=variant)
        known = rows.dropna(subset=["ci_low", "ci_high"])
        axes.fill_between(
            known["step"], known["ci_low"], known["ci_high"], color=look.color, alpha=0.3,
            linewidth=0,
        )  # fmt: skip
    last = float(table["step"].max())
    axes.set_xscale("symlog", base=2, linthresh=FIRST_STEP, linscale=0.8)
    axes.set_xlim(-0.4, max(last, FIRST_STEP) * 1.08)
    powers = [2**i for i in range(3, 40, 2) if 2**i <= last / 1.5]
    axes.xaxis.set_major_locator(FixedLocator([0, *powers, last]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([f"{x:.0f}" for x in (0, *powers, last)])


# Steps to 90 %


def build_steps(tables: Tables) -> Figure:
    """Draw steps to 90 % against d_k at the best rate, a panel for each optimizer and loss."""
    table = chosen(tables["rates"])
    table, same = reported(table), chosen(tables["twins"])
    looks = style.looks(table["scaling"])
    lines, columns = (
        _there(table, OPTIMIZER.name, OPTIMIZER.choices),
        _there(table, LOSS.name, LOSS.choices),
    )
    figure, grid = sheet(len(lines), len(columns), margin=2, headings=2 * len(lines))
    figure.set_figwidth(max(0.9 + 3.1 * len(columns), 5.2))
    budget = int(table["steps"].max())
    finite = table[["steps_to_90", "ci_low", "ci_high"]].to_numpy(float)
    finite = finite[np.isfinite(finite) & (finite > 0)]
    limits = log_limits(pd.Series([*finite, float(budget), 1.6 * budget]), base=10, most=9)
    for line, optimizer in enumerate(lines):
        for column, loss in enumerate(columns):
            axes = figure.add_subplot(grid[line, column])
            axes.set_title(f"{optimizer}, loss = {loss}")
            size_axis(axes, table["d_k"])
            log_axis(axes, limits, base=10)
            plot_level(axes, budget)
            # On the left, because the bars of slow runs are on the right.
            axes.annotate(
                f"{budget} steps trained", (0.03, budget), (0, 4), va="bottom",
                xycoords=("axes fraction", "data"), textcoords="offset points",
                fontsize=style.SMALL,
            )  # fmt: skip
            for place, (variant, look) in enumerate(looks.items()):
                rows = _of(table, scaling=variant, optimizer=optimizer, loss=loss)
                shift = 1.0 + 0.06 * (place - (len(looks) - 1) / 2)
                rows = rows.assign(d_k=rows["d_k"] * shift).sort_values("d_k")
                plot_within(axes, rows, ("steps_to_90", "ci_low", "ci_high"), look, label=variant)
            plot_twins(_of(same, optimizer=optimizer, loss=loss), axes)
            if line == len(lines) - 1:
                axes.set_xlabel("d_k (dimensions)")
            if column == 0:
                axes.set_ylabel("steps to 90 %")
    equivalent = Line2D(
        [], [], color=TWIN.color, marker=TWIN.marker, linestyle="none", markersize=8,
        markerfacecolor="none", label="off, rescaled",
    )  # fmt: skip
    style.legend(figure, [*_rule_handles(looks), *([equivalent] if len(same) else [])])
    style.note(figure, " ".join(_steps_print(table, rings=len(same) > 0)))
    return figure


def plot_twins(rows: pd.DataFrame, axes: Axes) -> None:
    """Draw rings at the median step at which the equivalent unscaled runs reached 90 %."""
    for d_k, found in rows.groupby("d_k"):
        steps = float(found["twin_steps_to_90"].median())
        if math.isfinite(steps):
            axes.plot(
                [float(str(d_k))], [steps], color=TWIN.color, marker=TWIN.marker, markersize=9,
                markerfacecolor="none", linestyle="none", zorder=3, label="_twin",
            )  # fmt: skip


def _steps_print(table: pd.DataFrame, *, rings: bool) -> Iterable[str]:
    yield (
        "Median over seeds of the steps after which 90 % of the held-out queries find their item, "
        "each seed at the learning rate of the grid that is best for the other half of the seeds."
    )
    seeds = style.seeds(table)
    if table["ci_low"].notna().any():
        yield f"Bars: 95 % interval of the median by order statistics over {seeds}."
    else:
        yield f"{seeds}: no interval, for which six are needed."
    yield "▲: the median or the end of the bar is beyond the steps trained."
    if rings:
        yield (
            "Rings: without scaling, but from smaller initial weights and at another learning "
            "rate, so that it should be the same run as with 1/√d_k."
        )
    edges = table[table["edge"] != ""]
    if len(edges):
        variants = sorted(set(edges["scaling"]))
        yield (
            f"At {len(edges)} of {len(table)} points ({', '.join(variants)}) a chosen rate is at "
            "the edge of the grid, so that a better one may lie beyond."
        )
    yield style.says_where(table, PANEL_AXES)


# The window of learning rates


def build_rates(tables: Tables) -> Figure:
    """Draw steps to 90 % by learning rate and d_k, a panel for each optimizer and scale rule."""
    table = chosen(tables["rates"], loss="values")
    looks = style.looks(table["scaling"])
    lines = _there(table, OPTIMIZER.name, OPTIMIZER.choices)
    sizes, grid_rates = (sorted(set(table[name])) for name in ("d_k", "learning_rate"))
    width = 0.7 + 0.36 * len(sizes)
    height = 0.5 + 0.19 * len(grid_rates)
    figure = Figure(figsize=(max(1.7 + width * len(looks), 4.6), 0.9 + height * len(lines)))
    grid = figure.add_gridspec(len(lines), len(looks))
    norm = LogNorm(vmin=4, vmax=max(float(table["steps"].max()), 8.0))
    images: dict[Axes, AxesImage] = {}
    for line, optimizer in enumerate(lines):
        for column, (variant, look) in enumerate(looks.items()):
            axes = figure.add_subplot(grid[line, column])
            rows = _of(table, optimizer=optimizer, scaling=variant)
            images[axes] = plot_rates(rows, axes, sizes, grid_rates, norm)
            axes.set_title(f"{optimizer}, {variant}", color=look.color, fontweight="bold")
            if line == len(lines) - 1:
                axes.set_xlabel("d_k (dimensions)")
            if column == 0:
                axes.set_ylabel("learning rate")
            else:
                axes.tick_params(labelleft=False)
    bar = figure.colorbar(
        next(iter(images.values())), ax=list(images), aspect=30, pad=0.015,
        shrink=min(1.0, 1.6 / len(lines)), anchor=(0.0, 1.0), label="steps to 90 %",
    )  # fmt: skip
    ticks = [2**i for i in range(2, 30) if 2**i <= norm.vmax]
    bar.set_ticks(ticks, labels=[str(x) for x in ticks])
    bar.ax.yaxis.set_minor_locator(NullLocator())
    for collection in bar.ax.collections:
        collection.set_rasterized(True)
    style.note(
        figure,
        "Median over seeds of the steps to 90 % accuracy. –: not reached by half of the seeds in "
        f"{int(table['steps'].max())} steps. Framed: the best rate of its d_k. "
        f"{style.seeds(table).capitalize()}. {style.says_where(table, PANEL_AXES)}",
    )
    return figure


def plot_rates(
    rows: pd.DataFrame,
    axes: Axes,
    sizes: Sequence[int],
    grid_rates: Sequence[float],
    norm: LogNorm,
) -> AxesImage:
    """Draw the map of one scale rule, with the numbers in it."""
    steps = np.full((len(grid_rates), len(sizes)), np.inf)
    for row in rows.to_dict("records"):
        place = grid_rates.index(row["learning_rate"]), sizes.index(row["d_k"])
        steps[place] = row["steps_to_90"]
    # A logarithmic scale cannot show 90 % at step 0, which a single item reaches.
    matrix = np.ma.masked_invalid(np.maximum(steps, 1.0))
    image = axes.imshow(
        matrix, cmap="viridis_r", norm=norm, aspect="auto", origin="lower", interpolation="none"
    )
    for (i, j), value in np.ndenumerate(steps):
        reached = math.isfinite(value)
        on_cell = style.ON_CELLS[int(reached and norm(max(value, 1.0)) > 0.55)]
        axes.text(
            j, i, f"{value:.0f}" if reached else "–", ha="center", va="center",
            fontsize=6.5, color=on_cell if reached else INK,
        )  # fmt: skip
    for row in rows[(rows["best"] == 1) & (rows["reached"] > 0)].to_dict("records"):
        x, y = sizes.index(row["d_k"]), grid_rates.index(row["learning_rate"])
        axes.plot(
            np.array([-0.5, 0.5, 0.5, -0.5, -0.5]) + x, np.array([-0.5, -0.5, 0.5, 0.5, -0.5]) + y,
            color=style.FIXED["off"], linewidth=1.8, label="_best",
        )  # fmt: skip
    axes.set_xticks(range(len(sizes)), [str(size) for size in sizes])
    axes.set_yticks(range(len(grid_rates)), [style.format_label(rate) for rate in grid_rates])
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(True)
        spine.set_color(RULE)
    return image


# The noise of the gradient


def build_noise(tables: Tables) -> Figure:
    """Draw the signal-to-noise ratio of the gradient at initialisation, a panel for each loss."""
    table = tables["summary"]
    # The ratio does not depend on the optimizer and the learning rate.
    first = (table["optimizer"] == table["optimizer"].iloc[0]) & (
        table["learning_rate"] == table["learning_rate"].min()
    )
    return build_lines(
        by_scaling(table[first & (table["step"] == 0)]),
        [PanelRow("signal-to-noise ratio", ("grad_snr",), base=10, powers=4)],
        "Gradient of the loss of one batch with respect to W_q and W_k, before the first step: "
        "the norm of its expectation over the root mean square of its deviation from it.",
        across="loss",
        where=("n_k", "batch_size"),
    )


# Helpers


def _of(table: pd.DataFrame, **axes: str) -> pd.DataFrame:
    for name, value in axes.items():
        table = table[table[name] == value]
    return table


def _there(table: pd.DataFrame, axis: str, order: Sequence[str]) -> list[str]:
    found = set(table[axis])
    return [value for value in order if value in found]


def _rule_handles(looks: dict[str, Look]) -> list[Line2D]:
    return [
        Line2D([], [], color=look.color, marker=look.marker, label=variant)
        for variant, look in looks.items()
    ]


BUILD: draw.Builders = {
    "curves": build_curves,
    "steps": build_steps,
    "rates": build_rates,
    "noise": build_noise,
}
