"""Draw the figure of length: weight on the match, loss, entropy and accuracy against n."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sqrtdk.experiments.extrapolation.measure import MULTIPLIER
from sqrtdk.figures import draw, style
from sqrtdk.figures.draw import Tables
from sqrtdk.figures.panels import log_axis, log_limits, sheet, size_axis
from sqrtdk.figures.style import INK, Look

PANELS = (
    ("match_weight", "weight on the match", "best_match_weight"),
    ("held_out_loss", "held-out loss", "best_loss"),
    ("entropy_nats", "entropy (nats)", ""),
)
"""A metric, the name of its axis and its best possible value."""

SHARED = ("d_k", "n_k", "batch_size")

NEAR_ON = "#3f93c8"
"""A colour of the cycle that is close to that of 1/√d_k."""


def of_one_size(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the largest d_k, the smallest n_k and the smallest batch."""
    table = table[table["d_k"] == table["d_k"].max()]
    for axis in ("n_k", "batch_size"):
        table = table[table[axis] == table[axis].min()]
    return table


def looks_of(table: pd.DataFrame) -> dict[str, Look]:
    """Return the look of every rule; the blue that is close to that of 1/√d_k comes last.

    Where no rule is `off`, its colour serves another one.
    """
    found = style.looks(table["scaling"])
    spare = [color for name, color in style.FIXED.items() if name not in found]
    colors = itertools.cycle([*(x for x in style.CYCLE if x != NEAR_ON), *spare, NEAR_ON])
    return {
        name: look if name in style.FIXED else replace(look, color=next(colors))
        for name, look in found.items()
    }


def build_match(tables: Tables) -> Figure:
    """Draw each metric against the number of keys, a row of panels for each kind of multiplier."""
    table = of_one_size(tables["lengths"])
    looks = looks_of(table)
    kinds = [x for x in MULTIPLIER.choices if x in set(table["multiplier"])]
    figure, grid = sheet(len(kinds), len(PANELS), margin=0, headings=2 * len(kinds))
    losses = pd.concat([table[x] for x in ("held_out_loss", "held_out_loss_high", "best_loss")])
    limits = log_limits(losses, base=10, most=4)
    for line, kind in enumerate(kinds):
        for column, (metric, label, best) in enumerate(PANELS):
            axes = figure.add_subplot(grid[line, column])
            size_axis(axes, table["n_asked"])
            axes.set_title(f"{label}\n{kind} multiplier" if len(kinds) > 1 else label)
            if line == len(kinds) - 1:
                axes.set_xlabel("keys asked")
            if metric == "held_out_loss":
                log_axis(axes, limits, base=10)
            else:
                top = math.log(table["n_asked"].max()) if metric == "entropy_nats" else 1.0
                axes.set_ylim(-0.02 * top, 1.04 * top)
            rows = table[table["multiplier"] == kind]
            for scaling, look in looks.items():
                _plot(rows[rows["scaling"] == scaling], axes, metric, look)
            if best:
                first = rows.drop_duplicates("n_asked").sort_values("n_asked")
                axes.plot(first["n_asked"], first[best], color=INK, linestyle=":", label="_best")
            if metric == "entropy_nats":
                sizes = np.array(sorted(set(table["n_asked"])))
                axes.plot(sizes, np.log(sizes), color=INK, linestyle="--", label="_ln")
    handles = [
        Line2D([], [], color=look.color, marker=look.marker, label=name)
        for name, look in style.in_words(looks).items()
    ]
    style.legend(figure, handles)
    style.note(
        figure,
        f"Trained with {int(table['n_k'].iloc[0])} keys, with a fixed or a learned multiplier of "
        "the scale, each at the learning rate of the grid that is best there for the other half of "
        "the seeds. Dotted: the best possible weights. Dashed: ln n, the entropy of equal weights. "
        f"{style.says_seeds(table)} {style.says_where(table, SHARED)}",
    )
    return figure


def _plot(rows: pd.DataFrame, axes: Axes, metric: str, look: Look) -> None:
    rows = rows.sort_values("n_asked")
    axes.plot(rows["n_asked"], rows[metric], color=look.color, marker=look.marker, label="_line")
    low, high = (rows[f"{metric}_{end}"].to_numpy(float) for end in ("low", "high"))
    if axes.get_yscale() == "log":
        low = np.maximum(low, axes.get_ylim()[0])
    axes.fill_between(
        rows["n_asked"].to_numpy(float), low, high, color=look.color, alpha=0.2, linewidth=0
    )


BUILD: draw.Builders = {"match": build_match}
