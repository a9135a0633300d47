"""Draw the figures of the exponent experiment: curves over d_k, and the best exponents."""

import math
from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sqrtdk.experiments.exponent.best import CRITERIA
from sqrtdk.experiments.exponent.curves import keys, shown
from sqrtdk.figures import draw, style
from sqrtdk.figures.draw import Tables
from sqrtdk.figures.lines import keys_of, plot_curve, plot_metric
from sqrtdk.figures.panels import sheet, size_axis
from sqrtdk.figures.style import CYCLE, INK, MARKERS, Look

LAWS = {
    "gaussian": "unrelated (gaussian)",
    "correlated": "match (correlated)",
    "planted": "cosine 0.5 (planted)",
    "same": "equal match (same)",
}
"""The input laws of the research grid in words and by name, from unrelated to fully related."""

LOOKS = {name: Look(CYCLE[i], MARKERS[i]) for i, name in enumerate(CRITERIA)}


METRICS = (("entropy_nats", "entropy (nats)"), ("match_weight", "weight of the match"))
"""Metrics of the curves, and the labels of their axes."""

COLUMNS = 4
"""The most laws that are next to each other."""


def build_curves(tables: Tables) -> Figure:
    """Draw the entropy and, of a match, its weight over d_k: a line for each exponent."""
    table, exact = tables["summary"], tables["curves"]
    table = table[table["n_k"] == keys(table["n_k"])]
    names = {p: f"p = {p:g}" for p in shown(table["exponent"])}
    table = table[table["exponent"].isin(list(names))]
    table = table.assign(variant=table["exponent"].map(names))
    exact = exact.assign(variant=exact["exponent"].map(names))
    looks = {name: Look(CYCLE[i], MARKERS[i]) for i, name in enumerate(names.values())}
    laws = laws_of(table)
    columns = min(COLUMNS, len(laws))
    lines = 2 * math.ceil(len(laws) / columns)
    figure, grid = sheet(lines, columns, margin=0, headings=lines)
    top = 1.05 * math.log(table["n_k"].iloc[0]) or 1.0
    spare, named = None, set[tuple[int, int]]()
    for i, law in enumerate(laws):
        for line, (metric, label) in enumerate(METRICS):
            place = grid[2 * (i // columns) + line, i % columns]
            rows = table[(table["inputs"] == law) & (table["metric"] == metric)]
            # Without a match, the weight of key i is that of any key.
            if metric == "match_weight" and rows["mean"].max() <= 4 / table["n_k"].iloc[0]:
                spare = spare or place
                continue
            axes = figure.add_subplot(place)
            size_axis(axes, table["d_k"])
            axes.set_ylim(-0.02 * top, top) if line == 0 else axes.set_ylim(-0.02, 1.04)
            axes.set_title(LAWS.get(law, law) if line == 0 else "")
            axes.set_ylabel(label if (i // columns, line) not in named else "")
            named.add((i // columns, line))
            axes.set_xlabel("d_k (dimensions)" if line else "")
            known = exact[exact["inputs"] == law]
            for name, curve in known.groupby("variant"):
                plot_curve(axes, curve.assign(exact=curve[metric]), looks[str(name)])
            plot_metric(rows, axes, metric, looks, on_curve=sorted(set(known["variant"])))
    handles = keys_of(looks, METRICS[0][:1])
    if spare is None:
        style.legend(figure, handles)
    else:
        empty = figure.add_subplot(spare)
        empty.set_axis_off()
        empty.legend(handles=handles, loc="center")
    style.note(
        figure,
        "The scores are multiplied by a factor proportional to d_k to the power -p, which is "
        "1/√d_k at d_k = 64. Below: the weight of the match, where there is one. Points: mean over "
        f"seeds. {_says_exact(laws, set(exact['inputs']))} {style.says_seeds(table, 'Bar')} "
        f"{style.says_where(table, ('n_k', 'n_q'))}",
    )
    return figure


def laws_of(table: pd.DataFrame) -> list[str]:
    """Return the input laws of a table, from unrelated to fully related, and then those of a user.

    >>> laws_of(pd.DataFrame({"inputs": ["mine", "same", "gaussian"]}))
    ['gaussian', 'same', 'mine']
    """
    there = set(table["inputs"])
    return [*(law for law in LAWS if law in there), *sorted(there - LAWS.keys())]


def _says_exact(laws: Sequence[str], known: set[str]) -> str:
    without = [law for law in laws if law not in known]
    if not without:
        return "Thin line: exact."
    lines = f"For {' and '.join(without)} theory has none; there a thick line joins the points."
    return f"Thin line: exact. {lines}" if known else lines


def build_best(tables: Tables) -> Figure:
    """Draw the best exponent of each input law, by criterion."""
    table = tables["best"]
    table = table[table["mean"].notna()]
    if table.empty:
        return style.nothing("no seed of the run has a best exponent.")
    laws = laws_of(table)
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
        labels = [LAWS.get(law, law) if column == 0 else "" for law in reversed(laws)]
        axes.set_yticks(range(len(laws)), labels)
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
        f"exact{_says_without(table)}. {style.says_seeds(table, 'Bar')}",
    )
    return figure


def _says_without(table: pd.DataFrame) -> str:
    """Name the laws without an exact value, if there are any."""
    without = sorted(set(table.loc[table["exact"].isna(), "inputs"]))
    return f"; theory has none for {' and '.join(without)}" if without else ""


BUILD: draw.Builders = {"curves": build_curves, "best": build_best}
