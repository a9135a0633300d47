"""Draw the figure of the capacity experiment: the fixed vector against the size of its state."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sqrtdk.experiments.encoder_decoder.figures import SAYS_UNASKED, by_reader, looks_of
from sqrtdk.experiments.encoder_decoder.judging import SETTLED
from sqrtdk.experiments.encoder_decoder.measure import GAIN, HIDDEN, LEARNT_ACCURACY
from sqrtdk.figures import draw
from sqrtdk.figures.draw import Tables
from sqrtdk.figures.lines import PanelRow, build_lines, plot_level
from sqrtdk.figures.panels import Panel
from sqrtdk.stats.summary import last_step


def build_hidden(tables: Tables) -> Figure:
    """Draw accuracy and the gain in the second half of training, a panel for each learning rate."""
    table = by_reader(last_step(tables["summary"]))
    steps = int(table["step"].max())

    def refer(axes: Axes, panel: Panel) -> None:
        plot_level(axes, LEARNT_ACCURACY if panel.row == "accuracy" else SETTLED)

    gained = table[table["metric"] == GAIN.name]
    ends = pd.concat([gained[end] for end in ("mean", "ci_low", "ci_high")])
    top, bottom = max(float(ends.max()), 2 * SETTLED), min(float(ends.min()), -SETTLED)
    return build_lines(
        table,
        [
            PanelRow("accuracy", ("accuracy",)),
            PanelRow("gain of accuracy", (GAIN.name,), 1.1 * top, 1.1 * bottom),
        ],
        f"Top: accuracy after {steps} training steps; thin line: {LEARNT_ACCURACY}, from which on "
        f"the task counts as learnt; {SAYS_UNASKED} Bottom: what the second half of these steps "
        f"adds to the accuracy; below {SETTLED} (thin line) training has settled.",
        refer,
        looks=looks_of(table),
        across="learning_rate",
        where=("length", "d_k"),
        x=HIDDEN,
    )


BUILD: draw.Builders = {"hidden": build_hidden}
