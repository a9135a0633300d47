"""Draw the figures of the transformer: loss by rate, attention in training, and its start."""

from collections.abc import Iterable

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sqrtdk import schema
from sqrtdk.experiments.transformer.measure import COLUMNS
from sqrtdk.experiments.transformer.model import LAYERS
from sqrtdk.figures import draw, style, words
from sqrtdk.figures.draw import Tables
from sqrtdk.figures.lines import PanelRow, build_lines, ends_of, keys_of, plot_level, plot_metric
from sqrtdk.figures.panels import (
    Panel,
    fits_at_ends,
    label_ends,
    log_axis,
    log_limits,
    panels,
)
from sqrtdk.figures.style import CYCLE, Look
from sqrtdk.stats.summary import last_step

STEP = next(column for column in COLUMNS if column.name == "step")
RATE = next(column for column in COLUMNS if column.name == "learning_rate")

GRU = Look(CYCLE[-1], "*", dashed=True)

NAMES = {**words.RULES, "gru": "recurrent"}
"""The lines in words."""

TASKS = {"text": "the next character", "recall": "associative recall"}
"""The tasks in words."""

LACKS = "the run has no transformer."
"""The reason of a figure about attention, if a run trains the recurrent network alone."""

RATES = 3
"""Learning rates of the figures over steps: the best one with scaling, and the next larger ones."""


def build_rates(tables: Tables) -> Figure:
    """Draw the loss after training against the rate, a panel for each d_head, a block a task."""
    table = tables["arms"]
    table = _named(table, table["scaling"].where(table["network"] == "transformer", "gru"))
    table = table.assign(
        metric="loss", mean=table["loss"], ci_low=table["loss_low"],
        ci_high=table["loss_high"],
    )  # fmt: skip
    # The rows of the recurrent network repeat for every scale rule.
    table = table.drop_duplicates(["task", "d_head", "variant", "learning_rate"])
    looks = _looks(tables["arms"]["scaling"])
    looks |= {NAMES["gru"]: GRU} if NAMES["gru"] in set(table["variant"]) else {}
    at_ends = fits_at_ends(list(looks))
    margin = max(map(len, looks)) if at_ends else 0
    figure, made = panels(
        table, {"loss": ("loss",)}, across="d_head", where=("task",), margin=margin, x=RATE
    )
    row = PanelRow("held-out loss (nats)", ("loss",))
    for panel in made:
        axes = panel.axes
        log_axis(axes, log_limits(table["learning_rate"], base=10, most=99), base=10, along="x")
        task = table[table["task"] == panel.of("task")]
        low, top = float(task["mean"].min()), float(task["mean"].max())
        # Losses that all stay far from 0 are compared with each other.
        axes.set_ylim(0.9 * low if low > top / 2 else -0.03 * top, 1.05 * top)
        if panel.first:
            axes.set_ylabel(row.label)
        plot_level(axes, float(task["unattended"].iloc[0]))
        plot_metric(panel.table, axes, "loss", looks, x=RATE.name)
        if at_ends:
            label_ends(axes, list(ends_of(panel, row, looks, RATE.name)))
    if made:
        if not at_ends:
            style.legend(figure, keys_of(looks, row.metrics))
        style.note(
            figure,
            "Cross-entropy after the last step; a run that diverged counts with its loss at "
            "initialisation. Coloured and dashed: a gated recurrent network with as many "
            "parameters, the same in all panels of a task. Level line: the loss that needs no "
            "attention, for characters that of a table of pairs. "
            f"{style.says_seeds(table)} {words.says_names(tables['arms']['scaling'])}",
        )
    return figure


def _named(table: pd.DataFrame, lines: pd.Series) -> pd.DataFrame:
    """Return a table with its tasks, and the names of its lines as `variant`, in words."""
    return table.assign(
        task=table["task"].replace(TASKS), variant=lines.map(lambda name: NAMES.get(name, name))
    )


def _looks(names: Iterable[str]) -> dict[str, Look]:
    return style.in_words(style.looks(names), NAMES)


def by_rate(table: pd.DataFrame) -> pd.DataFrame:
    """Return the transformers of the largest d_head at `RATES` rates of each task."""
    table = table[table["network"] == "transformer"]
    table = table[table["d_head"] == table["d_head"].max()]
    parts = []
    for _, rows in table.groupby("task", sort=True):
        ends = last_step(rows)
        ends = ends[ends["metric"] == "held_out_loss"]
        own = ends[ends["scaling"] == "on"]
        best = (own if len(own) else ends).sort_values("mean")["learning_rate"].iloc[0]
        grid = sorted(rate for rate in set(rows["learning_rate"]) if rate >= best)
        parts.append(rows[rows["learning_rate"].isin(grid[:RATES])])
    return pd.concat(parts) if parts else table


def _over_steps(
    tables: Tables, metric: str, label: str, sentence: str, base: int | None, exits: str = ""
) -> Figure:
    table = by_rate(tables["summary"])
    if table.empty:
        return style.nothing(LACKS)
    return build_lines(
        _named(table, table["scaling"]),
        [
            PanelRow(f"{label}\nlayer {layer}", (f"{metric}_{layer}",), base=base)
            for layer in range(LAYERS)
        ],
        f"{sentence} {words.says_names(table['scaling'])}",
        looks=_looks(table["scaling"]),
        across="learning_rate",
        where=("task", "d_head"),
        mean="mean" if base is None else "median",
        x=STEP,
        count=True,
        exits=exits,
    )


def build_attention(tables: Tables) -> Figure:
    """Draw the entropy of each layer through training."""
    return _over_steps(
        tables, "entropy", "entropy over its maximum",
        "Entropy of the weights of a row over ln of the number of keys that it sees, at the best "
        "learning rate with 1/√d_head and at larger ones.", None,
    )  # fmt: skip


def build_logits(tables: Tables) -> Figure:
    """Draw the largest logit of each layer through training."""
    return _over_steps(
        tables, "max_logit", "largest logit",
        "Largest logit of the held-out sequences, at the best learning rate with 1/√d_head and at "
        "larger ones.",
        10,
        exits="because all logits of most seeds are negative",
    )  # fmt: skip


def build_start(tables: Tables) -> Figure:
    """Draw the entropy of a row before training against its number of visible keys."""
    if tables["start"].empty:
        return style.nothing(LACKS)
    table = tables["start"].rename(columns={"exact": "formula", "entropy": "mean"})
    looks = _looks(table["scaling"])
    table = _named(table, table["scaling"]).assign(metric="entropy", exact=float("nan"))

    def refer(axes: Axes, panel: Panel) -> None:
        for name, rows in panel.table.groupby("variant"):
            known = rows[rows["formula"].notna()].sort_values("n_k")
            axes.plot(known["n_k"], known["formula"], color=looks[str(name)].color, linewidth=1,
                      linestyle=":", zorder=1.8, label="_exact")  # fmt: skip

    return build_lines(
        table,
        [PanelRow("entropy (nats)", ("entropy",), top=1.05 * float(table["mean"].max()))],
        "Entropy of a row in layer 0 before the first step. Dotted: exact for that many unrelated "
        f"keys{_of_sphere(table)}; the tokens of one sequence are not quite unrelated. "
        f"{words.says_names(tables['start']['scaling'])}",
        refer,
        looks=looks,
        across="d_head",
        where=("task",),
        x=schema.N_K,
    )


def _of_sphere(table: pd.DataFrame) -> str:
    """Say which law the exact values of QK-norm have, if some are drawn."""
    known = table.loc[table["scaling"] == "qk_norm", "formula"].notna().any()
    return ", of QK-norm for keys on the sphere, because it takes cosines" if known else ""


BUILD: draw.Builders = {
    "rates": build_rates,
    "attention": build_attention,
    "logits": build_logits,
    "start": build_start,
}
