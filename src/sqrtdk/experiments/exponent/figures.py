"""Draw the figures of the exponent experiment: curves over d_k, and the best exponents."""

import math

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sqrtdk.experiments.exponent.best import CRITERIA
from sqrtdk.figures import draw, style
from sqrtdk.figures.draw import Tables
from sqrtdk.figures.lines import PanelRow, build_lines
from sqrtdk.figures.panels import sheet
from sqrtdk.figures.style import CYCLE, INK, MARKERS, Look

SHOWN = (0.25, 0.5, 0.75, 1.0, 1.25)
"""Exponents with a line of their own, if the run has them."""

KEYS = 256
"""The n_k of the curves, or the closest that the run has: at it a match has some of the weight."""

LAWS = {
    "gaussian": "unrelated (gaussian)",
    "correlated": "match (correlated)",
    "planted": "cosine 0.5 (planted)",
    "same": "equal match (same)",
}
"""The input laws of the research grid in words and by name, from unrelated to fully related."""

LOOKS = {name: Look(CYCLE[i], MARKERS[i]) for i, name in enumerate(CRITERIA)}


def build_curves(tables: Tables) -> Figure:
    """Draw the entropy and the weight of the match over d_k, a line for each exponent."""
    table = tables["summary"]
    table = table[table["n_k"] == min(table["n_k"], key=lambda n_k: abs(math.log(n_k / KEYS)))]
    known = sorted(set(table["exponent"].tolist()))
    nearest = {known[int(np.argmin(np.abs(np.array(known) - p)))] for p in SHOWN}
    names = {p: f"p = {p:g}" for p in sorted(nearest)}
    table = table[table["exponent"].isin(nearest)]
    table = table.assign(variant=table["exponent"].map(names))
    # Without a match, the weight of key i is that of any key.
    largest = table.groupby(["inputs", "metric"])["mean"].transform("max")
    table = table[(table["metric"] != "match_weight") | (largest > 4 / table["n_k"])]
    looks = {name: Look(CYCLE[i], MARKERS[i]) for i, name in enumerate(names.values())}
    return build_lines(
        table.assign(inputs=table["inputs"].map(lambda law: LAWS.get(law, law))),
        [
            PanelRow("entropy (nats)", ("entropy_nats",), top=1.05 * math.log(table["n_k"].max())),
            PanelRow("weight of the match", ("match_weight",), top=1.04),
        ],
        "The scores are multiplied by a factor proportional to d_k to the power -p, which is "
        "1/√d_k at d_k = 64. Below: the weight of the key that is the match where there is one.",
        looks=looks,
        across="inputs",
        where=("n_k", "n_q"),
    )


def build_best(tables: Tables) -> Figure:
    """Draw the best exponent of each input law, by criterion."""
    table = tables["best"]
    table = table[table["mean"].notna()]
    if table.empty:
        return style.nothing("no seed of the run has a best exponent.")
    there = set(table["inputs"])
    laws = [*(law for law in LAWS if law in there), *sorted(there - LAWS.keys())]
    sizes = sorted(set(table["n_k"]))
    figure, grid = sheet(1, len(sizes), margin=0, headings=2)
    for column, n_k in enumerate(sizes):
        axes = figure.add_subplot(grid[0, column])
        axes.set_title(f"n_k = {n_k}")
        for power, word in ((0.5, "√d_k"), (1.0, "d_k")):
            axes.vlines(power, -0.6, len(laws) - 0.5, color=INK, linestyle="--", linewidth=0.8)
            axes.text(power, len(laws) - 0.45, word, ha="center", va="bottom", fontsize="small")
        for place, law in enumerate(reversed(laws)):
            for criterion, look in LOOKS.items():
                rows = table[
                    (table["n_k"] == n_k)
                    & (table["inputs"] == law)
                    & (table["criterion"] == criterion)
                ]
                for row in rows.to_dict("records"):
                    height = place + (0.12 if criterion == "entropy" else -0.12)
                    axes.plot(
                        [row["mean"]], [height], color=look.color, marker=look.marker,
                        linestyle="none", markersize=5, label="_best",
                    )  # fmt: skip
                    axes.hlines(height, row["ci_low"], row["ci_high"], color=look.color)
                    if not pd.isna(row["exact"]):
                        axes.plot(
                            [row["exact"]], [height], color=look.color, marker="o",
                            linestyle="none", markersize=9, markerfacecolor="none",
                            label="_exact",
                        )  # fmt: skip
        axes.set_xlim(0.0, 1.5)
        axes.set_ylim(-0.6, len(laws) - 0.1)
        shown = [LAWS.get(law, law) if column == 0 else "" for law in reversed(laws)]
        axes.set_yticks(range(len(laws)), shown)
        axes.set_xlabel("best exponent of d_k")
    words = {"entropy": "keeps the entropy", "match": "keeps the weight of the match"}
    style.legend(
        figure,
        [
            Line2D(
                [], [], color=look.color, marker=look.marker, linestyle="none", label=words[name]
            )
            for name, look in LOOKS.items()
            if name in set(table["criterion"])
        ],
    )
    style.note(
        figure,
        "The exponent p of d_k at which the mean over queries has no slope over ln d_k. Ring: "
        f"exact, where theory has it. {style.says_seeds(table, 'Bar')}",
    )
    return figure


BUILD: draw.Builders = {"curves": build_curves, "best": build_best}
