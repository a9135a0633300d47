"""Draw the figures of the precision experiment: type and order as lines, input_sd as panels."""

import itertools

from matplotlib.figure import Figure

from sqrtdk.experiments.precision.measure import HALVES, ORDER
from sqrtdk.figures import draw
from sqrtdk.figures.draw import Tables
from sqrtdk.figures.lines import PanelRow, build_lines
from sqrtdk.figures.style import CYCLE, Look

SHAPES = {"float16": "D", "bfloat16": "^"}

LOOKS = {
    f"{precision} {order}": Look(CYCLE[i], SHAPES[precision], dashed=order == "before")
    for (i, precision), order in itertools.product(enumerate(HALVES), ORDER.choices)
}


def build_errors(tables: Tables) -> Figure:
    """Draw the error of the weights, overflow and broken rows, a panel for each input_sd."""
    table = tables["summary"]
    table = table.assign(variant=table["precision"] + " " + table["order"])
    return build_lines(
        table,
        [
            PanelRow("error of the weights", ("weight_error",), base=10, powers=6),
            PanelRow("scores that overflow\n(share)", ("overflow_share",)),
            PanelRow("rows that are undefined\n(share)", ("broken_rows",)),
        ],
        "Top: how far the weights of a row are from those of float64 (total variation distance). "
        "Middle: share of the scores that overflow. Bottom: share of the rows whose weights are "
        "undefined. Scale applied to q before the score product (dashed, hollow) or to the "
        "scores after it (solid, filled).",
        looks={name: look for name, look in LOOKS.items() if name in set(table["variant"])},
        across="input_sd",
        where=("n_k", "n_q", "inputs", "scaling"),
    )


BUILD: draw.Builders = {"errors": build_errors}
