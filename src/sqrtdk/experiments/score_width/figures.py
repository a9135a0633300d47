"""Draw the figure of the score width experiment: readers as lines, against d_k."""

from matplotlib.figure import Figure

from sqrtdk.experiments.encoder_decoder.figures import build_ends
from sqrtdk.experiments.encoder_decoder.measure import D_K
from sqrtdk.experiments.score_width.measure import COLUMNS
from sqrtdk.figures import draw
from sqrtdk.figures.draw import Tables
from sqrtdk.stats import summary


def build_d_k(tables: Tables) -> Figure:
    """Draw accuracy and steps to 90 % against score width, a panel for each learning rate."""
    return build_ends(tables["summary"], D_K, "learning_rate", ("length", "hidden"))


BUILD: draw.Builders = {"d_k": build_d_k}

if __name__ == "__main__":
    draw.draw("score_width", BUILD, summary=summary.columns(COLUMNS))
