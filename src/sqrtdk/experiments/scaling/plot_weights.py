"""Draw the weight matrices of one random draw, one for each scale rule and d_k."""

import itertools
from collections.abc import Iterator

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from sqrtdk.figures import style
from sqrtdk.figures.draw import Tables


def plot_weights(table: pd.DataFrame, axes: Axes) -> AxesImage:
    """Draw one weight matrix as an image: one row per query, one column per key."""
    n_query, n_key = len(set(table["query"])), len(set(table["key"]))
    weights = table.sort_values(["query", "key"])["weight"].to_numpy(float)
    matrix = weights.reshape(n_query, n_key)
    # The square root separates 1/n_k and 1 from 0 and from each other.
    image = axes.imshow(
        matrix,
        cmap="viridis",
        norm=PowerNorm(0.5, vmin=0, vmax=1),
        aspect="auto",
        interpolation="none",
    )
    axes.set_xticks(sorted({0, n_key - 1}))
    axes.set_yticks(sorted({0, n_query - 1}))
    axes.grid(visible=False)
    return image


def build_weights(tables: Tables) -> Figure:
    """Draw one weight matrix for each scale rule (row) and d_k (column), on one colour scale."""
    table = tables["weights"]
    looks = style.looks(table["scaling"])
    fixed = ["n_k", *style.GROUP_AXES, "seed"]
    lines = [
        rows[rows["scaling"] == rule]
        for _, rows in table.groupby(fixed)
        for rule in looks
        if rule in set(rows["scaling"])
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
        next(iter(images.values())),
        ax=list(images),
        ticks=[0, 0.01, 0.05, 0.1, 0.25, 0.5, 1],
        format=lambda weight, _: style.format_label(weight),
        aspect=24,
        pad=0.015,
        shrink=min(1.0, 3 / len(lines)),
        anchor=(0.0, 1.0),
        label="weight\n(colour by its square root)",
    )
    # 256 small rectangles would be most of the file.
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
    yield "One draw of random vectors, no trained model."
    yield style.says_where(table, ("n_k", *style.GROUP_AXES, "seed"))
