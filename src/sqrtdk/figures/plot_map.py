"""Draw a table of numbers as coloured cells with a scale of colours."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure

from sqrtdk.figures import style


def plot_map(figure: Figure, axes: Axes, matrix: pd.DataFrame, label: str, *, signed: bool) -> None:
    """Draw a matrix with one cell for each number, and its scale of colours beside it.

    Signed numbers have a scale around 0. Others are not negative and have a logarithmic one.
    """
    values = matrix.to_numpy(float)
    size = np.abs(values[np.isfinite(values)])
    norm: Normalize
    if signed:
        most = float(size.max(initial=0.0)) or 1.0
        norm = Normalize(-most, most)
    else:
        above = size[size > 0]
        low, high = (float(above.min()), float(above.max())) if len(above) else (0.5, 2.0)
        norm = LogNorm(low, high if high > low else 2 * low)
    image = axes.imshow(
        values,
        cmap="PuOr" if signed else "viridis",
        norm=norm,
        aspect="auto",
        interpolation="none",
    )
    for ticks, names in ((axes.set_xticks, matrix.columns), (axes.set_yticks, matrix.index)):
        places = np.arange(len(names))[:: max(1, len(names) // 8)]
        ticks(places, [str(names[place]) for place in places])
    axes.grid(visible=False)
    ends = _ticks(norm, signed=signed)
    bar = figure.colorbar(
        image, ax=axes, ticks=ends, format=lambda value, _: style.format_label(value), pad=0.02
    )
    bar.ax.minorticks_off()
    # 256 small rectangles would be most of the file.
    for collection in bar.ax.collections:
        collection.set_rasterized(True)


def _ticks(norm: Normalize, *, signed: bool) -> list[float]:
    low, high = float(norm.vmin or 0.0), float(norm.vmax or 1.0)
    return [low, 0.0, high] if signed else [low, (low * high) ** 0.5, high]
