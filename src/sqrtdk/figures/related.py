"""The figures of the related experiment: scale rules as lines, input laws as panels."""

import math

from matplotlib.figure import Figure

from sqrtdk import curves, summary
from sqrtdk.experiments.related import COLUMNS
from sqrtdk.figures import command
from sqrtdk.figures.command import Tables
from sqrtdk.figures.lines import Row, build_lines, by_scaling, plot_ceiling

WHERE = ("n_k", "n_q", "dtype")

DECADES = 5
"""Of the gradients' axes: related vectors without a scale leave none of it."""


def build_entropy(tables: Tables) -> Figure:
    """Entropy with its ceiling, a panel for each input law."""
    table = by_scaling(tables["summary"])
    return build_lines(
        table,
        [Row("entropy (nats)", ("entropy_nats",), top=1.14 * math.log(table["n_k"].max()) or 1.0)],
        "A line for each scale rule. Dashed: ln n_k, the entropy of equal weights.",
        plot_ceiling,
        exact=tables["exact"],
        across="inputs",
        where=WHERE,
    )


def build_gradients(tables: Tables) -> Figure:
    """Root mean square and median of the query gradients, a panel for each input law."""
    return build_lines(
        by_scaling(tables["summary"]),
        [Row(name, (name,), base=10, powers=DECADES) for name in ("grad_q_rms", "grad_q_median")],
        "A line for each scale rule. Norms of the rows of the gradient with respect to q, over "
        "√d_v: root mean square, and below it the median, the typical row (dashed, hollow). ▼: "
        "the line leaves the axis there; ↓ is its value at the largest d_k.",
        exact=tables["exact"],
        across="inputs",
        where=WHERE,
        mean="mean (of rms the quadratic mean)",
    )


BUILD: command.Builders = {"entropy": build_entropy, "gradients": build_gradients}

if __name__ == "__main__":
    command.draw("related", BUILD, summary=summary.columns(COLUMNS), exact=curves.COLUMNS)
