"""Draw the figure of the initialisation experiment: σ against d_model."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sqrtdk.experiments.initialisation.measure import D_MODEL
from sqrtdk.experiments.initialisation.model import INITS
from sqrtdk.figures import draw, style, words
from sqrtdk.figures.draw import Tables
from sqrtdk.figures.lines import PanelRow, build_lines, plot_level
from sqrtdk.figures.panels import Panel
from sqrtdk.figures.style import CYCLE, MARKERS, Look
from sqrtdk.figures.words import INITS as NAMES

LOOKS: dict[str, Look] = {NAMES[init]: Look(CYCLE[i], MARKERS[i]) for i, init in enumerate(INITS)}

CASES = {
    ("layer_norm", 0): "LayerNorm",
    ("layer_norm", 50): "LayerNorm, tokens alike",
    ("none", 0): "no LayerNorm, small",
}
"""The panels of a scale rule, by norm and correlation of tokens in per cent."""


def build_sigma(tables: Tables) -> Figure:
    """Draw σ against d_model, a line for each initialisation, a panel for each start."""
    table = tables["sigma"]
    table = table[(table["d_k"] == table["d_k"].max()) & (table["n_k"] == table["n_k"].max())]
    table = table[table["embedding_sd"] == table["embedding_sd"].min()]
    parts = []
    for (norm, cosine), name in CASES.items():
        chosen = table[(table["norm"] == norm) & (table["cosine_percent"] == cosine)]
        parts.append(chosen.assign(start=name, variant=chosen["init"].map(NAMES), metric="σ"))
    rules = {**words.RULES, "off": "none"}
    found = pd.concat(parts).rename(columns={"exact": "formula"}).assign(exact=float("nan"))
    found = found.assign(scaling=found["scaling"].map(lambda name: rules.get(name, name)))
    if found.empty:
        return style.nothing("the run has none of the starts of this figure.")
    looks = {name: look for name, look in LOOKS.items() if name in set(found["variant"])}

    def refer(axes: Axes, panel: Panel) -> None:
        plot_level(axes, 1.0)
        for init, rows in panel.table.groupby("variant"):
            rows = rows.sort_values("d_model")
            axes.plot(rows["d_model"], rows["formula"], color=looks[str(init)].color, linewidth=1,
                      zorder=1.8, label="_exact", linestyle=":")  # fmt: skip

    return build_lines(
        found,
        [PanelRow("σ of the logits", ("σ",), base=10)],
        "σ: standard deviation of the logits across keys. Dotted, mostly hidden below the lines: "
        "exact. Dashed: 1. Tokens alike: correlation 0.5. "
        f"{words.says_names([x for x in INITS if x in set(table['init'])], words.INITS)}",
        refer,
        looks=looks,
        across="start",
        where=("scaling", "d_k", "n_k", "embedding_sd"),
        x=D_MODEL,
    )


BUILD: draw.Builders = {"sigma": build_sigma}
