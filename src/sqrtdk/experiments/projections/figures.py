"""Draw the figure of the projections experiment: accuracy during training."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sqrtdk.experiments.encoder_decoder.measure import LEARNT_ACCURACY
from sqrtdk.experiments.projections.measure import COLUMNS
from sqrtdk.figures import draw
from sqrtdk.figures.draw import Tables
from sqrtdk.figures.lines import PanelRow, build_lines, plot_level
from sqrtdk.figures.panels import Panel
from sqrtdk.figures.style import CYCLE, FIXED, Look
from sqrtdk.stats.summary import last_step

STEP = next(column for column in COLUMNS if column.name == "step")

LOOKS = {
    "separate": Look(FIXED["on"], "s"),
    "shared_qk": Look(FIXED["off"], "o"),
    "identity_v": Look(CYCLE[0], "^"),
}


def at_best(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows at the learning rate with the best accuracy, for each head and relation."""
    axes = ["d_k", "n_k", "batch_size", "relation", "projections"]
    ends = last_step(table)
    ends = ends[ends["metric"] == "accuracy"].sort_values("mean", kind="stable")
    best = ends.groupby(axes, sort=False).tail(1)[[*axes, "learning_rate"]]
    found: pd.DataFrame = table.merge(best, on=[*axes, "learning_rate"])
    return found


def build_accuracy(tables: Tables) -> Figure:
    """Draw accuracy and the weight on the item against the step, a panel for each relation."""
    table = at_best(tables["summary"])
    table = table.assign(variant=table["projections"])

    def refer(axes: Axes, panel: Panel) -> None:
        if panel.row == "accuracy":
            plot_level(axes, LEARNT_ACCURACY)

    return build_lines(
        table,
        [PanelRow("accuracy", ("accuracy",)), PanelRow("weight on the item", ("asked_weight",))],
        "Top: share of held-out queries whose output is nearest to their item's answer; dashed: "
        f"{LEARNT_ACCURACY}, from which on the task counts as learnt. Bottom: mean attention "
        "weight on the item that is asked for. Each head at the learning rate with its best "
        "accuracy.",
        refer,
        looks={name: look for name, look in LOOKS.items() if name in set(table["variant"])},
        across="relation",
        where=("d_k", "n_k", "batch_size"),
        x=STEP,
        count=True,
    )


BUILD: draw.Builders = {"accuracy": build_accuracy}
