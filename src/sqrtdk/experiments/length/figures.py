"""Draw the figures of the length experiment: curves over n_k, and the best powers of log n."""

import math

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sqrtdk import schema
from sqrtdk.experiments.length.best import MOST, SHARE
from sqrtdk.experiments.length.curves import SHOWN
from sqrtdk.experiments.length.rows import COSINE, HEAD, ROW_LAWS
from sqrtdk.figures import draw, style, words
from sqrtdk.figures.draw import Tables
from sqrtdk.figures.lines import PanelRow, build_lines
from sqrtdk.figures.panels import Panel, sheet
from sqrtdk.figures.style import CYCLE, INK, MARKERS, Look
from sqrtdk.stats.wording import format_number

NAMES = words.LENGTHS
"""The rules of the curves in words."""

LAWS = {name: words.with_name(name, words.ROWS) for name in words.ROWS}
"""The laws of rows in words, with the names that claims and tables have."""

LOOKS = {NAMES[rule]: Look(CYCLE[i], MARKERS[i]) for i, rule in enumerate(SHOWN)}

SELECTIVITY = "selectivity"
"""The name of the row of panels that has the attainable weight."""

CRITERIA = {
    SHARE: "keeps the selectivity (of a match: its share of the attainable)",
    "entropy_share": "keeps the entropy's share",
}


def build_curves(tables: Tables) -> Figure:
    """Draw selectivity and entropy against n_k, a line for each rule, a panel for each law."""
    table = as_judged(tables["curves"])
    rules = [rule for rule in SHOWN if rule in set(table["rule"])]
    limits = table[table["attainable"] < 1].drop_duplicates(["rows", "n_k"]).sort_values("n_k")
    table = table.assign(variant=table["rule"].map(NAMES), known=table["exact"], exact=math.nan)
    table = table.assign(rows=table["rows"].map(LAWS))

    def refer(axes: Axes, panel: Panel) -> None:
        for metric, shown in panel.table.groupby("metric"):
            for variant, rows in shown.groupby("variant"):
                rows = rows.sort_values("n_k")
                axes.plot(
                    rows["n_k"], rows["known"], color=LOOKS[str(variant)].color, linewidth=1,
                    linestyle=":", zorder=1.8, label=f"_exact {metric}",
                )  # fmt: skip
        own = limits[limits["rows"].map(LAWS) == panel.of("rows")]
        if panel.row == SELECTIVITY and len(own):
            axes.plot(
                own["n_k"], own["attainable"], color=INK, linewidth=1, linestyle="--",
                zorder=1.7, label="_attainable",
            )  # fmt: skip

    return build_lines(
        table,
        [
            PanelRow(SELECTIVITY, ("selectivity",), top=1.04),
            PanelRow("entropy over ln n_k", ("entropy_share",), top=1.04),
        ],
        "Selectivity is the largest weight or, where there is a match, its weight over the largest "
        f"attainable one, as claims have it. {_says_attainable(limits)}Dotted, mostly hidden below "
        f"the lines: exact. {words.says_names(rules, NAMES, 'Names in the tables')}",
        refer,
        looks={name: look for name, look in LOOKS.items() if name in set(table["variant"])},
        across="rows",
        where=("n_q",),
        x=schema.N_K,
    )


def as_judged(table: pd.DataFrame) -> pd.DataFrame:
    """Return curves.csv with the selectivity as a share of the attainable, as claims judge it."""
    columns = ["mean", "ci_low", "ci_high", "exact"]
    return table.assign(**{name: table[name] / table["attainable"] for name in columns})


def _says_attainable(limits: pd.DataFrame) -> str:
    """Explain the line of the attainable weight, if it is drawn."""
    if limits.empty:
        return ""
    ends = " and ".join(
        f"{format_number(row['attainable'], 2)} at {row['n_k']} keys"
        for row in (limits.iloc[0].to_dict(), limits.iloc[-1].to_dict())
    )
    return (
        f"Dashed: the attainable weight of a match of cosine {COSINE:g} at d_k = {HEAD}, that "
        f"under an infinite factor, {ends}. No power of log n keeps the weight itself, because not "
        "even an infinite factor does. "
    )


def build_best(tables: Tables) -> Figure:
    """Draw the best power of log n of each law of rows, by criterion."""
    every = tables["best"][tables["best"]["criterion"].isin(CRITERIA)]
    table = every[every["mean"].notna()]
    if table.empty:
        return style.nothing("no seed of the run has a best power.")
    laws = [law for law in ROW_LAWS if law in set(table["rows"])]
    figure, grid = sheet(1, 1, margin=14, headings=1)
    axes = figure.add_subplot(grid[0, 0])
    for power, word in ((0.5, "1/2"), (1.0, "1"), (2.0, "2")):
        axes.vlines(power, -0.6, len(laws) - 0.5, color=INK, linestyle="--", linewidth=0.8)
        axes.text(power, len(laws) - 0.45, word, ha="center", va="bottom", fontsize="small")
    looks = {metric: Look(CYCLE[i], MARKERS[i]) for i, metric in enumerate(CRITERIA)}
    for row in table.to_dict("records"):
        look = looks[row["criterion"]]
        above = 0.12 if row["criterion"] == SHARE else -0.12
        height = len(laws) - 1 - laws.index(row["rows"]) + above
        axes.plot(
            [row["mean"]], [height], color=look.color, marker=look.marker, linestyle="none",
            markersize=5, label="_best",
        )  # fmt: skip
        axes.hlines(height, row["ci_low"], row["ci_high"], color=look.color)
        halves = [row["exact_first"], row["exact_last"]]
        axes.plot(
            halves, [height, height], color=look.color, linestyle=":", linewidth=1, marker="|",
            markersize=7, label="_halves",
        )  # fmt: skip
        axes.plot(
            [row["exact"]], [height], color=look.color, marker="o", linestyle="none",
            markersize=9, markerfacecolor="none", label="_exact",
        )  # fmt: skip
    axes.set_xlim(0.0, 2.5)
    axes.set_ylim(-0.6, len(laws) - 0.1)
    axes.set_yticks(range(len(laws)), [LAWS[law] for law in reversed(laws)])
    axes.set_xlabel("best power of log n_k")
    handles = [
        Line2D([], [], color=look.color, marker=look.marker, linestyle="none",
               label=CRITERIA[metric])
        for metric, look in looks.items()
    ]  # fmt: skip
    style.legend(figure, handles)
    none = f"Without a marker: no power from 0 to {MOST:g} does. "
    lacking = none if len(table) < len(every) else ""
    style.note(
        figure,
        "The power of log n_k at which the mean over rows has no slope over ln n_k. Ring: exact; "
        "ticks on a dotted line: exact for the lengths up to the middle one, and from it on. "
        f"{lacking}{style.says_seeds(table, 'Bar')}",
    )
    return figure


BUILD: draw.Builders = {"curves": build_curves, "best": build_best}
