"""Draw the figures of the scaling experiment from its summary."""

import math
from collections.abc import Sequence
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sqrtdk.experiments.scaling.plot_collapse import build_collapse
from sqrtdk.experiments.scaling.plot_onset import build_onset
from sqrtdk.experiments.scaling.plot_tails import build_tails
from sqrtdk.experiments.scaling.plot_weights import build_weights
from sqrtdk.experiments.words import ARRAYS
from sqrtdk.figures import draw, style
from sqrtdk.figures.draw import Tables
from sqrtdk.figures.lines import (
    PanelRow,
    build_lines,
    by_scaling,
    lines_of,
    plot_ceiling,
    plot_level,
)
from sqrtdk.figures.panels import Panel
from sqrtdk.figures.style import INK

DECADES = 4
"""Decades of the gradients' axes. Medians go down to 1e-10; an axis that shows them all would hide
every other difference."""


def build_entropy(tables: Tables) -> Figure:
    """Draw the entropy with its ceiling ln n_k."""
    table = by_scaling(tables["summary"])
    ceiling = math.log(table["n_k"].max())
    return build_lines(
        table,
        [PanelRow("entropy (nats)", ("entropy_nats",), top=1.14 * ceiling or 1.0)],
        "Dashed: ln n_k, the entropy of equal weights.",
        plot_ceiling,
        exact=tables["exact"],
    )


def build_max_weight(tables: Tables) -> Figure:
    """Draw the largest weight with its floor 1/n_k."""
    return build_lines(
        by_scaling(tables["summary"]),
        [PanelRow("largest weight", ("max_weight",))],
        "Dashed: 1/n_k, every key weighted alike.",
        lambda axes, panel: plot_level(axes, 1 / panel.of("n_k")),
        exact=tables["exact"],
    )


def build_gradients(tables: Tables, arrays: Sequence[str]) -> Figure:
    """Draw root mean square and median of the gradients' row norms, a row for each array."""
    rows = [
        PanelRow(
            f"gradient at the {ARRAYS[x]}",
            (f"grad_{x}_rms", f"grad_{x}_median"),
            base=10,
            powers=DECADES,
        )
        for x in arrays
    ]
    return build_lines(
        by_scaling(tables["summary"]),
        rows,
        f"Norms of the rows of the gradient with respect to {' and '.join(arrays)}, over √d_v. "
        "Filled: rms, their root mean square. Hollow, dashed: median, the typical row.",
        exact=tables["exact"],
        mean="mean (of rms the quadratic mean)",
    )


def build_dead_entries(tables: Tables) -> Figure:
    """Draw the share of positions with almost no gradient, and that of the largest rows."""
    return build_lines(
        by_scaling(tables["summary"]),
        [
            PanelRow("entries near zero\n(share)", ("grad_logits_dead_entries",)),
            PanelRow("held by the strongest\nqueries (share)", ("grad_logits_top1_share",)),
        ],
        "Above: share of single positions whose gradient is below 1e-3/n_k in magnitude. Below: "
        "share of the squared gradient held by the largest 1 % of queries, rounded up.",
        exact=tables["exact"],
    )


def build_logit_std(tables: Tables) -> Figure:
    """Draw the standard deviation of the logits with the laws of unrelated vectors."""
    table = by_scaling(tables["summary"])
    without = table[table["scaling"].isin(["off", "on"]) & table["exact"].isna()]
    dashed = "Dashed: √d_k (off) and 1 (on), the law for unrelated q and k of unit variance."
    return build_lines(
        table,
        [PanelRow("spread of the logits", ("logit_std",), base=2)],
        dashed if (without["metric"] == "logit_std").any() else "",
        plot_laws,
        exact=tables["exact"],
        mean="quadratic mean",
    )


def plot_laws(axes: Axes, panel: Panel) -> None:
    """Draw √d_k and 1 with their names, dashed unless they are drawn as exact curves."""
    for variant, rows in lines_of(panel.table, "logit_std").items():
        if variant not in ("off", "on"):
            continue
        law, name = (0.5, "√d_k") if variant == "off" else (0.0, "1")
        ends = [float(rows["d_k"].min()), float(rows["d_k"].max())]
        if rows["exact"].isna().any():
            axes.plot(
                ends, [end**law for end in ends], color=INK, linestyle="--", linewidth=0.9, zorder=3
            )
        middle = math.prod(ends) ** 0.5
        axes.annotate(
            name,
            (middle, middle**law),
            (-4, 4),
            textcoords="offset points",
            ha="right",
            fontsize=style.SMALL,
        )


BUILD: draw.Builders = {
    "entropy": build_entropy,
    "max_weight": build_max_weight,
    "gradients": partial(build_gradients, arrays=("logits", "q")),
    "gradients_k_v": partial(build_gradients, arrays=("k", "v")),
    "dead_entries": build_dead_entries,
    "tails": build_tails,
    "weights": build_weights,
    "logit_std": build_logit_std,
    "collapse": build_collapse,
    "onset": build_onset,
}
