"""Draw the figure of the projections experiment: accuracy against the learning rate."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sqrtdk import summary
from sqrtdk.experiments.encoder_decoder import SOLVED
from sqrtdk.experiments.projections import COLUMNS
from sqrtdk.experiments.training import LEARNING_RATE
from sqrtdk.figures import command
from sqrtdk.figures.command import Tables
from sqrtdk.figures.encoder_decoder import at_end
from sqrtdk.figures.lines import Row, build_lines, plot_level
from sqrtdk.figures.panels import Panel
from sqrtdk.figures.style import CYCLE, FIXED, Look

LOOKS = {
    "separate": Look(FIXED["on"], "s"),
    "shared_qk": Look(FIXED["off"], "o"),
    "identity_v": Look(CYCLE[0], "^"),
}


def build_accuracy(tables: Tables) -> Figure:
    """Draw accuracy and the weight on the item asked for, a panel for each relation."""
    table = at_end(tables["summary"])
    table = table.assign(arm=table["projections"])

    def refer(axes: Axes, panel: Panel) -> None:
        if panel.row == "accuracy":
            plot_level(axes, SOLVED)

    return build_lines(
        table,
        [Row("accuracy", ("accuracy",)), Row("weight on the item", ("asked_weight",))],
        f"After {int(table['step'].max())} training steps. Top: share of held-out queries whose "
        f"output is nearest to their item's answer; dashed: {SOLVED}, from which on the task "
        "counts as learnt. Bottom: mean attention weight on the item that is asked for.",
        refer,
        looks={name: look for name, look in LOOKS.items() if name in set(table["arm"])},
        across="relation",
        where=("d_k", "n_k", "batch_size"),
        x=LEARNING_RATE,
    )


BUILD: command.Builders = {"accuracy": build_accuracy}

if __name__ == "__main__":
    command.draw("projections", BUILD, summary=summary.columns(COLUMNS))
