"""The figures of the scaling experiment: tables to panels. Every number is read, none computed."""

import itertools
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D

from sqrtdk import examples, summary
from sqrtdk.experiments.scaling import COLUMNS
from sqrtdk.figures import FIGURES, style
from sqrtdk.figures.style import INK, End, Look, Panel

Looks = dict[str, Look]

DECADES = 4
"""Of the gradients' axes. Medians go down to 1e-10; an axis that held them all would make every
other difference flat."""

PAIR = ("rms", "median")
"""The two averages of a gradient's row norms: they tell opposite stories."""


def lines_of(table: pd.DataFrame, metric: str) -> dict[str, pd.DataFrame]:
    """The rows of a metric, by arm and in order of d_k. Raises ValueError where groups mix."""
    found = {}
    for arm, rows in table[table["metric"] == metric].groupby("scaling"):
        if rows["d_k"].duplicated().any():
            raise ValueError(f"{metric}, {arm}: several groups would become one zig-zag line")
        found[str(arm)] = rows.sort_values("d_k")
    return found


def plot_metric(table: pd.DataFrame, axes: Axes, metric: str, looks: Looks) -> None:
    """A metric's mean against d_k with its interval over seeds, one line an arm.

    A median has dashed lines and hollow markers. The limits of a logarithmic axis must be final.
    """
    median = metric.endswith("_median")
    lines = lines_of(table, metric)
    for arm, look in looks.items():
        if arm not in lines:
            continue
        rows = lines[arm]
        axes.plot(
            rows["d_k"], rows["mean"], color=look.color, marker=look.marker, label=arm,
            linestyle="--" if median else "-", markerfacecolor="none" if median else look.color,
        )  # fmt: skip
        band = rows.dropna(subset=["ci_low", "ci_high"])
        d_k, low, high = (band[name].to_numpy(float) for name in ("d_k", "ci_low", "ci_high"))
        if axes.get_yscale() == "log":
            # An interval of a mean of positive numbers may end below 0, which has no place there.
            low = np.where(low > 0, low, axes.get_ylim()[0])
        if len(band) == 1:
            # A band over one d_k has no area.
            axes.vlines(d_k, low, high, color=look.color)
        elif len(band):
            axes.fill_between(d_k, low, high, color=look.color, alpha=0.3, linewidth=0)


def plot_exact(table: pd.DataFrame, axes: Axes, metric: str) -> None:
    """The exact expectations that the table has, dotted over the measured lines."""
    for rows in lines_of(table.dropna(subset=["exact"]), metric).values():
        axes.plot(
            rows["d_k"], rows["exact"], color=INK, linestyle=":", linewidth=1, zorder=3,
            marker="." if len(rows) == 1 else "",
        )  # fmt: skip


def plot_level(axes: Axes, y: float, text: str = "") -> None:
    """A horizontal reference with its name. Over the lines: an arm may lie exactly on it."""
    axes.axhline(y, color=INK, linestyle="--", linewidth=0.9, zorder=3)
    axes.annotate(
        text, (0.98, y), (0, 4), xycoords=("axes fraction", "data"),
        textcoords="offset points", ha="right", va="bottom", fontsize=style.SMALL,
    )  # fmt: skip


def plot_root(axes: Axes, d_k: pd.Series) -> None:
    """The line √d_k with its name."""
    ends = [float(d_k.min()), float(d_k.max())]
    axes.plot(ends, [end**0.5 for end in ends], color=INK, linestyle="--", linewidth=0.9, zorder=3)
    middle = math.prod(ends) ** 0.5
    axes.annotate(
        "√d_k", (middle, middle**0.5), (-4, 3), textcoords="offset points", ha="right",
        fontsize=style.SMALL,
    )  # fmt: skip


def plot_exits(table: pd.DataFrame, axes: Axes, metric: str, looks: Looks) -> None:
    """A triangle on the axis where a line leaves it downwards. The limits must be final."""
    low = axes.get_ylim()[0]
    for arm, rows in lines_of(table, metric).items():
        below = rows[rows["mean"] < low]
        if len(below):
            axes.plot(
                [below["d_k"].iloc[0]], [low], linestyle="none", marker="v", markersize=6,
                color=looks[arm].color, clip_on=False, zorder=4,
            )  # fmt: skip


def plot_weights(table: pd.DataFrame, axes: Axes) -> AxesImage:
    """One weight matrix as an image: a row a query, a column a key."""
    n_query, n_key = len(set(table["query"])), len(set(table["key"]))
    weights = table.sort_values(["query", "key"])["weight"].to_numpy(float)
    matrix = weights.reshape(n_query, n_key)
    # The square root keeps 1/n_k and 1 apart from 0 and from each other.
    image = axes.imshow(
        matrix, cmap="viridis", norm=PowerNorm(0.5, vmin=0, vmax=1), aspect="auto",
        interpolation="none",
    )  # fmt: skip
    axes.set_xticks(sorted({0, n_key - 1}))
    axes.set_yticks(sorted({0, n_query - 1}))
    axes.grid(visible=False)
    return image


@dataclass(frozen=True)
class Row:
    """One row of panels: the metrics that it shows and its y-axis, the same in all its panels.

    With a `base` the axis is logarithmic and holds at most `powers` of it, the largest ones;
    else it goes from 0 to `top`.
    """

    label: str
    metrics: tuple[str, ...]
    top: float = 1.04
    base: int | None = None
    powers: int = 99


def build_lines(
    table: pd.DataFrame,
    rows: Sequence[Row],
    sentence: str,
    refer: Callable[[Axes, Panel], None] = lambda axes, panel: None,
) -> Figure:
    """A figure of metrics against d_k; `refer` adds a panel's reference lines."""
    looks = style.looks(table["scaling"])
    by_label = {row.label: row for row in rows}
    names = [name_of(arm, metric) for arm in looks for metric in rows[0].metrics]
    at_ends = style.fits_at_ends(names)
    figure, made = style.panels(
        table,
        {row.label: row.metrics for row in rows},
        margin=max(map(len, names)) if at_ends else 0,
    )
    for panel in made:
        row, axes = by_label[panel.row], panel.axes
        style.d_k_axis(axes, table["d_k"])
        if row.base is None:
            axes.set_ylim(-0.02 * row.top, row.top)
        else:
            means = table.loc[table["metric"].isin(row.metrics), "mean"]
            limits = style.log_limits(means, base=row.base, most=row.powers)
            style.log_axis(axes, limits, base=row.base)
        if panel.first:
            axes.set_ylabel(row.label)
        refer(axes, panel)
        for metric in row.metrics:
            plot_metric(panel.table, axes, metric, looks)
            plot_exact(panel.table, axes, metric)
            plot_exits(panel.table, axes, metric, looks)
        if at_ends:
            ends = [end for metric in row.metrics for end in ends_of(panel, metric, looks)]
            style.label_ends(axes, ends)
    if made:
        if not at_ends:
            style.legend(figure, keys_of(looks, rows[0].metrics))
        shown = table[table["metric"].isin([metric for row in rows for metric in row.metrics])]
        style.note(figure, " ".join(small_print(shown, sentence)))
    return figure


def name_of(arm: str, metric: str) -> str:
    """What a line is called: its arm and, of a pair of averages, which one it is."""
    average = metric.rpartition("_")[2]
    return f"{arm} {average}" if average in PAIR else arm


def ends_of(panel: Panel, metric: str, looks: Looks) -> Iterator[End]:
    """The end of each line of a metric; one that is below the axis says where it goes."""
    low = panel.axes.get_ylim()[0]
    for arm, rows in lines_of(panel.table, metric).items():
        last = float(rows["mean"].iloc[-1])
        goes = f"\n↓ {style.number(last)}" if last < low else ""
        yield End(last, name_of(arm, metric) + goes, looks[arm].color)


def keys_of(looks: Looks, metrics: Sequence[str]) -> list[Line2D]:
    """The entries of a legend: the arms and, of a pair of averages, the two kinds of line."""
    arms = [
        Line2D([], [], color=look.color, marker=look.marker, label=arm)
        for arm, look in looks.items()
    ]
    if len(metrics) == 1:
        return arms
    rms, median = PAIR
    return [
        *arms,
        Line2D([], [], color=INK, linestyle="-", label=rms),
        Line2D([], [], color=INK, linestyle="--", label=median),
    ]


def small_print(shown: pd.DataFrame, sentence: str) -> Iterator[str]:
    """What a reader must know of the marks, the seeds and the axes that no panel names."""
    yield sentence
    yield style.says_seeds(shown)
    if shown["exact"].notna().any():
        yield "Dotted: exact expectation."
    yield style.says_where(shown)


def build_entropy(table: pd.DataFrame) -> Figure:
    """Entropy with its ceiling ln n_k."""
    ceiling = math.log(table["n_k"].max())

    def refer(axes: Axes, panel: Panel) -> None:
        plot_level(axes, math.log(panel.n_k), f"ln n_k = {math.log(panel.n_k):.2f}")

    row = Row("entropy (nats)", ("entropy_nats",), top=1.14 * ceiling or 1.0)
    return build_lines(
        table, [row], "Dashed: ln n_k, the entropy of equal weights. Line: mean over seeds.", refer
    )


def build_max_weight(table: pd.DataFrame) -> Figure:
    """The largest weight with its floor 1/n_k."""
    return build_lines(
        table,
        [Row("max_weight", ("max_weight",))],
        "Dashed: 1/n_k, every key weighted alike. Line: mean over seeds.",
        lambda axes, panel: plot_level(axes, 1 / panel.n_k),
    )


def build_gradients(table: pd.DataFrame, arrays: Sequence[str]) -> Figure:
    """Root mean square and median of the gradients' row norms, a row of panels for each array."""
    rows = [
        Row(f"grad_{x} (row norm)", (f"grad_{x}_rms", f"grad_{x}_median"), base=10, powers=DECADES)
        for x in arrays
    ]
    return build_lines(
        table,
        rows,
        f"Norms of the rows of the gradient with respect to {' and '.join(arrays)}, over √d_v. "
        "Solid: rms, their root mean square (quadratic mean over seeds). Dashed, hollow: median, "
        "the typical row (mean over seeds). ▼: the line leaves the axis there; ↓ is its value at "
        "the largest d_k.",
    )


def build_dead_entries(table: pd.DataFrame) -> Figure:
    """How many positions get almost no gradient, and how much of it the largest rows hold."""
    return build_lines(
        table,
        [
            Row("grad_logits_dead_entries\n(share)", ("grad_logits_dead_entries",)),
            Row("grad_logits_top1_share\n(share)", ("grad_logits_top1_share",)),
        ],
        "Above: share of single positions whose gradient is below 1e-3/n_k in magnitude. Below: "
        "share of the squared gradient held by the largest 1 % of queries (at least one query). "
        "Line: mean over seeds.",
    )


def build_logit_std(table: pd.DataFrame) -> Figure:
    """Standard deviation of the logits with the laws of unrelated vectors."""
    arms = set(table["scaling"])

    def refer(axes: Axes, panel: Panel) -> None:
        if "on" in arms:
            plot_level(axes, 1.0)
        if "off" in arms:
            plot_root(axes, panel.table["d_k"])

    return build_lines(
        table,
        [Row("logit_std", ("logit_std",), base=2)],
        "Dashed: √d_k (off) and 1 (on), the law for unrelated q and k of unit variance. Line: "
        "quadratic mean over seeds.",
        refer,
    )


def build_weights(table: pd.DataFrame) -> Figure:
    """One real weight matrix for each arm (row) and d_k (column), on one colour scale."""
    looks = style.looks(table["scaling"])
    fixed = ["n_k", *style.WHERE, "seed"]
    lines = [
        rows[rows["scaling"] == arm]
        for _, rows in table.groupby(fixed)
        for arm in looks
        if arm in set(rows["scaling"])
    ]
    sizes = sorted(table["d_k"].unique())
    side = 1.5
    width, height = max(1.6 + len(sizes) * side, 4.2), 0.75 + len(lines) * (side + 0.02)
    figure = Figure(figsize=(width, height))
    grid = figure.add_gridspec(len(lines), len(sizes))
    images = {}
    for (i, rows), (j, d_k) in itertools.product(enumerate(lines), enumerate(sizes)):
        matrix = rows[rows["d_k"] == d_k]
        if matrix.empty:
            continue
        axes = figure.add_subplot(grid[i, j])
        images[axes] = plot_weights(matrix, axes)
        if i == 0:
            axes.set_title(f"d_k = {d_k}")
        if i == len(lines) - 1:
            axes.set_xlabel("key")
        axes.tick_params(labelleft=j == 0, labelbottom=i == len(lines) - 1)
        if j == 0:
            axes.set_ylabel(f"scaling = {rows['scaling'].iloc[0]}\nquery")
    bar = figure.colorbar(
        next(iter(images.values())), ax=list(images), ticks=[0, 0.01, 0.05, 0.1, 0.25, 0.5, 1],
        format=lambda weight, _: style.number(weight), aspect=24, pad=0.015,
        shrink=min(1.0, 3 / len(lines)), anchor=(0.0, 1.0),
        label="weight\n(colour by its square root)",
    )  # fmt: skip
    # 256 little rectangles would be most of the file.
    for collection in bar.ax.collections:
        collection.set_rasterized(True)
    style.note(figure, " ".join(_matrix_print(table)))
    return figure


def _matrix_print(table: pd.DataFrame) -> Iterator[str]:
    for axis, of in (("query", "n_q"), ("key", "n_k")):
        shown, there = int(table[axis].max()) + 1, int(table[of].max())
        which = f"all {there}" if shown == there else f"the first {shown} of {there}"
        yield f"{axis.capitalize()}: {which}."
    if int(table["key"].max()) + 1 == int(table["n_k"].max()):
        yield "Each row sums to 1."
    yield style.says_where(table, ("n_k", *style.WHERE, "seed"))


BUILD: dict[str, Callable[[pd.DataFrame], Figure]] = {
    "entropy": build_entropy,
    "max_weight": build_max_weight,
    "gradients": partial(build_gradients, arrays=("logits", "q")),
    "gradients_k_v": partial(build_gradients, arrays=("k", "v")),
    "dead_entries": build_dead_entries,
    "weights": build_weights,
    "logit_std": build_logit_std,
}


def main() -> None:
    """Draw the summary.csv and weights.csv named first into the folder named third."""
    table = summary.read(Path(sys.argv[1]), summary.columns(COLUMNS))
    weights = summary.read(Path(sys.argv[2]), examples.COLUMNS)
    for what in FIGURES["scaling"]:
        with style.context():
            figure = BUILD[what](weights if what == "weights" else table)
            style.save(figure, Path(sys.argv[3]), f"scaling-{what}")


if __name__ == "__main__":
    main()
