"""Draw the figures of the encoder–decoder experiment: readers as lines, against length."""

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sqrtdk.experiments.encoder_decoder.measure import COLUMNS, LENGTH
from sqrtdk.figures import draw
from sqrtdk.figures.draw import Tables
from sqrtdk.figures.lines import PanelRow, build_lines, plot_level
from sqrtdk.figures.panels import Panel
from sqrtdk.figures.style import CYCLE, FIXED, INK, Look
from sqrtdk.schema import Key
from sqrtdk.stats.summary import last_step

STEPS = "steps to 90 %"
"""The name of the axis of steps."""

UNASKED = "most frequent value"

LOOKS = {
    "fixed": Look(CYCLE[5], "X"),
    "additive": Look(CYCLE[0], "^"),
    "dot": Look(FIXED["off"], "o"),
    "scaled_dot": Look(FIXED["on"], "s"),
    UNASKED: Look(INK, "", dashed=True),
}
"""Looks of the readers; dot products have the colours of scaling off and on."""

SAYS_UNASKED = (
    "most frequent value (dashed): what always answering with the most frequent value of the "
    "sequence would give. A line below it has not even kept which values occurred how often."
)

STEP = next(column for column in COLUMNS if column.name == "step")


def by_reader(table: pd.DataFrame) -> pd.DataFrame:
    """Add one line per reader and one for the most frequent value."""
    same = table[table["metric"] == "unasked_accuracy"]
    same = same[same["reader"] == table["reader"].iloc[0]]
    variants = [
        table.assign(variant=table["reader"]),
        same.assign(variant=UNASKED, metric="accuracy"),
    ]
    both: pd.DataFrame = pd.concat(variants, ignore_index=True)
    return both


def looks_of(table: pd.DataFrame) -> dict[str, Look]:
    """Return the looks of the lines of a table."""
    return {name: look for name, look in LOOKS.items() if name in set(table["variant"])}


def build_ends(table: pd.DataFrame, x: Key, across: str, where: Sequence[str]) -> Figure:
    """Draw accuracy at the end of training, and steps to 90 % if every seed reached it."""
    table = by_reader(last_step(table))
    shares = table[table["metric"] == "reached_90"]
    at = [x.name, across, *where, "reader"]
    all_there = shares.loc[shares["mean"] == 1, at]
    timed = table["metric"] == "steps_to_90"
    kept = table[timed].merge(all_there, on=at)
    late = shares[shares["mean"] < 1]
    budget = int(table["step"].max())
    step = 0.1 * budget
    top = budget + step * (1 + shares["reader"].nunique())

    def refer(axes: Axes, panel: Panel) -> None:
        if panel.row != STEPS:
            return
        plot_level(axes, budget)
        here = late
        for name in (across, *where):
            here = here[here[name] == panel.of(name)]
        for place, (reader, look) in enumerate(looks_of(table).items(), start=1):
            found = here[here["reader"] == reader]
            axes.plot(
                found[x.name],
                [budget + step * place] * len(found),
                linestyle="none",
                marker=look.marker,
                markerfacecolor="none",
                color=look.color,
                label="_late",
            )

    return build_lines(
        pd.concat([table[~timed], kept]),
        [PanelRow("accuracy", ("accuracy",)), PanelRow(STEPS, ("steps_to_90",), top=top)],
        f"Top: accuracy after {budget} training steps, {SAYS_UNASKED} Bottom: steps to an accuracy "
        f"of 0.9. Hollow above the dashed line: not every seed got there in {budget} steps.",
        refer,
        looks=looks_of(table),
        across=across,
        where=where,
        x=x,
    )


def build_length(tables: Tables) -> Figure:
    """Draw accuracy and steps to 90 % against source length, a panel for each state size."""
    return build_ends(tables["summary"], LENGTH, "hidden", ("d_k", "learning_rate"))


def build_curves(tables: Tables) -> Figure:
    """Draw accuracy against training steps, a panel for each length, at the largest state."""
    table = by_reader(tables["summary"])
    table = table[table["hidden"] == table["hidden"].max()]
    return build_lines(
        table,
        [PanelRow("accuracy", ("accuracy",))],
        f"Accuracy on held-out sequences during training; {SAYS_UNASKED}",
        looks=looks_of(table),
        across="length",
        where=("hidden", "d_k", "learning_rate"),
        x=STEP,
        count=True,
    )


BUILD: draw.Builders = {"length": build_length, "curves": build_curves}
