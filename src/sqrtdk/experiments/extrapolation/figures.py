"""Draw the figure of length: weight on the match and loss against n, a panel for each family."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sqrtdk.experiments.extrapolation.measure import MULTIPLIER
from sqrtdk.figures import draw, style, words
from sqrtdk.figures.draw import Tables
from sqrtdk.figures.panels import End, label_ends, log_axis, log_limits, sheet, size_axis
from sqrtdk.figures.style import INK, Look
from sqrtdk.stats.wording import format_number

METRICS = (
    ("match_weight", "weight on the match", "best_match_weight"),
    ("held_out_loss", "held-out loss", "best_loss"),
)
"""A metric, the name of its axis and its best possible value."""

REFERENCE = "on"
"""The rule that every panel has."""

FAMILIES: Mapping[str, Sequence[str]] = {
    "powers of log n": ("sqrt_log_n", "log_n", "square_log_n", "ssmax"),
    "growing otherwise": ("gap", "yarn"),
    "not growing": ("qk_clip", "softmax1", "ngpt"),
}
"""The panels of a line, with few enough rules to be labelled; others are in one of their own."""

SHARED = ("d_k", "n_k", "batch_size")


def of_one_size(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the largest d_k, the smallest n_k and the smallest batch."""
    table = table[table["d_k"] == table["d_k"].max()]
    for axis in ("n_k", "batch_size"):
        table = table[table[axis] == table[axis].min()]
    return table


def families(table: pd.DataFrame) -> dict[str, list[str]]:
    """Return the panels of a line that have a rule of their own, with the rules of each.

    >>> families(pd.DataFrame({"scaling": ["gap", "mine", "on"]}))
    {'growing otherwise': ['on', 'gap'], 'other rules': ['on', 'mine']}
    """
    there = set(table["scaling"])
    known = {name for names in FAMILIES.values() for name in names}
    groups = {
        title: [name for name in names if name in there] for title, names in FAMILIES.items()
    } | {"other rules": sorted(there - known - {REFERENCE})}
    first = [REFERENCE] if REFERENCE in there else []
    return {title: [*first, *names] for title, names in groups.items() if names} or {"": first}


def build_match(tables: Tables) -> Figure:
    """Draw each metric against the number of keys, a line of panels for each kind of multiplier."""
    table = of_one_size(tables["lengths"])
    looks, groups = style.looks(table["scaling"]), families(table)
    kinds = [x for x in MULTIPLIER.choices if x in set(table["multiplier"])]
    lines = [(kind, metric) for kind in kinds for metric in METRICS]
    margin = max(len(_label(name)) for name in looks)
    figure, grid = sheet(len(lines), len(groups), margin=margin, headings=2 * len(lines))
    losses = pd.concat([table[x] for x in ("held_out_loss", "held_out_loss_high", "best_loss")])
    limits = log_limits(losses, base=10, most=4)
    for line, (kind, (metric, label, best)) in enumerate(lines):
        rows = table[table["multiplier"] == kind]
        for column, (title, names) in enumerate(groups.items()):
            axes = figure.add_subplot(grid[line, column])
            size_axis(axes, table["n_asked"])
            axes.set_title(f"{title}\n{kind} multiplier" if metric == METRICS[0][0] else "")
            if line == len(lines) - 1:
                axes.set_xlabel("keys asked")
            if column == 0:
                axes.set_ylabel(label)
            if metric == "held_out_loss":
                log_axis(axes, limits, base=10)
            else:
                axes.set_ylim(-0.02, 1.04)
            first = rows.drop_duplicates("n_asked").sort_values("n_asked")
            axes.plot(first["n_asked"], first[best], color=INK, linestyle=":", label="_best")
            ends = []
            for name in names:
                shown = rows[rows["scaling"] == name].sort_values("n_asked")
                if len(shown):
                    _plot(shown, axes, metric, looks[name])
                    last = float(shown[metric].iloc[-1])
                    ends.append(End(last, _label(name), looks[name].color))
            label_ends(axes, ends)
    style.note(
        figure,
        f"Trained with {int(table['n_k'].iloc[0])} keys, with a fixed or a learned multiplier of "
        "the scale, each at the learning rate of the grid that is best there for the other half of "
        f"the seeds. Dotted: the best possible weights. {_says_losses(table)} "
        f"{words.says_names(looks)} {style.says_seeds(table)} {style.says_where(table, SHARED)}",
    )
    return figure


def _label(name: str) -> str:
    """Return the label of a line: the words for a rule without its constants."""
    return words.rule(name).partition(",")[0]


def _says_losses(table: pd.DataFrame) -> str:
    """Say how much larger than the best possible one the losses at the most keys are."""
    last = table[table["n_asked"] == table["n_asked"].max()]
    times = last["held_out_loss"] / last["best_loss"]
    low, high = (format_number(float(end), 2) for end in (times.min(), times.max()))
    return (
        f"No rule is near them in loss: asked at {int(last['n_asked'].iloc[0])} keys, the losses "
        f"are {low} to {high} times that of the best possible weights."
        if times.min() > 1.5
        else f"Asked at the most keys, the losses are {low} to {high} times theirs."
    )


def _plot(rows: pd.DataFrame, axes: Axes, metric: str, look: Look) -> None:
    axes.plot(rows["n_asked"], rows[metric], label="_line", **look.line)
    low, high = (rows[f"{metric}_{end}"].to_numpy(float) for end in ("low", "high"))
    if axes.get_yscale() == "log":
        low = np.maximum(low, axes.get_ylim()[0])
    axes.fill_between(
        rows["n_asked"].to_numpy(float), low, high, color=look.color, alpha=0.2, linewidth=0
    )


BUILD: draw.Builders = {"match": build_match}
