"""Draw the figure of the temperature experiment."""

from matplotlib.figure import Figure

from sqrtdk.figures import draw
from sqrtdk.figures.draw import Tables
from sqrtdk.figures.lines import PanelRow, build_lines
from sqrtdk.figures.style import CYCLE, Look


def build_entropy(tables: Tables) -> Figure:
    """Draw the entropy against d_k, a line for each temperature."""
    table = tables["summary"]
    table = table.assign(variant="temperature " + table["temperature"].astype(str))
    variants = sorted(set(table["variant"]))
    return build_lines(
        table,
        [PanelRow("entropy (nats)", ("entropy",))],
        "Entropy of the weights, mean over queries and seeds.",
        looks={variant: Look(CYCLE[i], "o") for i, variant in enumerate(variants)},
        across="n_k",
        where=(),
    )


BUILD: draw.Builders = {"entropy": build_entropy}
