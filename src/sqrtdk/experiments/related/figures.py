"""Draw the figures of the related experiment: scale rules as lines, input laws as panels."""

import math
from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from sqrtdk.experiments.related import cosines
from sqrtdk.figures import draw, style, words
from sqrtdk.figures.draw import Tables
from sqrtdk.figures.lines import (
    PanelRow,
    build_lines,
    by_scaling,
    keys_of,
    plot_ceiling,
    plot_level,
    plot_metric,
)
from sqrtdk.figures.panels import log_axis, log_limits, panels
from sqrtdk.stats.intervals import evenly_spaced

PANEL_AXES = ("n_k", "n_q", "dtype")

DECADES = 5
"""Decades of the gradients' axes; related vectors without a scale fall below all of them."""


def says_inputs(table: pd.DataFrame) -> str:
    """Say what the names of the input laws of a figure mean."""
    return words.says_names(sorted(set(table["inputs"])), words.INPUTS, "Input laws")


def _of_sphere(exact: pd.DataFrame) -> str:
    """Say which law the exact values of QK-norm have, if some are drawn."""
    if "qk_norm" not in set(exact["scaling"]):
        return ""
    return "QK-norm takes cosines, so its exact line for unrelated vectors is that of the sphere. "


def build_entropy(tables: Tables) -> Figure:
    """Draw the entropy with its ceiling, a panel for each input law."""
    table = by_scaling(tables["summary"])
    return build_lines(
        table,
        [
            PanelRow(
                "entropy (nats)", ("entropy_nats",), top=1.14 * math.log(table["n_k"].max()) or 1.0
            )
        ],
        "A line for each scale rule. Dashed: ln n_k, the entropy of equal weights. "
        f"{_of_sphere(tables['exact'])}"
        f"{says_inputs(table)}",
        plot_ceiling,
        exact=tables["exact"],
        across="inputs",
        where=PANEL_AXES,
        names=words.RULES,
    )


def build_logit_std(tables: Tables) -> Figure:
    """Draw the standard deviation of the logits, a panel for each input law."""
    table = by_scaling(tables["summary"])
    return build_lines(
        table,
        [PanelRow("spread of the logits", ("logit_std",), base=2)],
        "A line for each scale rule. Standard deviation of the logits across the keys of a query. "
        f"{says_inputs(table)}",
        exact=tables["exact"],
        across="inputs",
        where=PANEL_AXES,
        names=words.RULES,
        mean="quadratic mean",
    )


def build_gradients(tables: Tables) -> Figure:
    """Draw the root mean square and median of the query gradients, a panel for each input law."""
    table = by_scaling(tables["summary"])
    heavy = (
        "Under heavy tails few rows make the rms, so that it depends on d_k with 1/√d_k too. "
        if "student_t" in set(table["inputs"])
        else ""
    )
    return build_lines(
        table,
        [
            PanelRow(f"gradient at the queries\n({words})", (name,), base=10, powers=DECADES)
            for name, words in (("grad_q_rms", "rms"), ("grad_q_median", "median"))
        ],
        "A line for each scale rule. Norms of the rows of the gradient with respect to q, over "
        "√d_v: root mean square, and below it the median, the typical row (dashed, hollow). "
        f"{heavy}{says_inputs(table)}",
        exact=tables["exact"],
        across="inputs",
        where=PANEL_AXES,
        names=words.RULES,
        mean="mean (of rms the quadratic mean)",
    )


COSINE = next(column for column in cosines.COLUMNS if column.name == "cosine")

WEIGHTS = {"weight": "mean weight of a key", "heard": "share of queries"}
"""Rows of the cosines figure: a metric and the label of its axis."""


def build_cosines(tables: Tables) -> Figure:
    """Draw the weight of a key against its cosine with the query, a panel for each d_k."""
    table = graded(tables["cosines"])
    if table.empty:
        return style.nothing("no input law of the run has keys of known cosine.")
    looks = style.looks(table["scaling"])
    where = ("inputs", *PANEL_AXES)
    figure, made = panels(
        by_scaling(table),
        {label: (metric,) for metric, label in WEIGHTS.items()},
        across="d_k",
        where=where,
        margin=0,
        x=COSINE,
    )
    for panel in made:
        axes = panel.axes
        (metric,) = set(panel.table["metric"])
        if metric == "weight":
            means = table.loc[table["metric"] == metric, "mean"]
            log_axis(axes, log_limits(means, base=10, most=DECADES), base=10)
            plot_level(axes, 1 / panel.of("n_k"), "1/n_k", outside=True)
        else:
            axes.set_ylim(-0.02, 1.04)
            plot_level(axes, 0.5)
        _cosine_axis(axes, sorted(set(table["cosine"])))
        if panel.first:
            axes.set_ylabel(panel.row)
        plot_metric(panel.table, axes, metric, looks, x="cosine")
    style.legend(figure, keys_of(looks, ("weight",), words.RULES))
    style.note(
        figure,
        "Above: the weight that a key gets, mean over queries; dashed: an equal share, 1/n_k. "
        "Below: the share of queries that give it at least that much; dashed: half of them. At "
        "cosine 0: all unrelated keys together. "
        f"{says_inputs(table)} {style.says_seeds(table)} {style.says_where(table, where)}",
    )
    return figure


def graded(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the input laws with the most cosines; the others would add nothing."""
    count = table.groupby("inputs")["cosine"].transform("nunique")
    found: pd.DataFrame = table[count == count.max()]
    return found


def _cosine_axis(axes: Axes, cosines_shown: Sequence[float]) -> None:
    low, high = cosines_shown[0], cosines_shown[-1]
    edge = 0.04 * (high - low) or 0.5
    axes.set_xlim(low - edge, high + edge)
    axes.xaxis.set_major_locator(FixedLocator(evenly_spaced(cosines_shown, 5)))


BUILD: draw.Builders = {
    "entropy": build_entropy,
    "logit_std": build_logit_std,
    "gradients": build_gradients,
    "cosines": build_cosines,
}
