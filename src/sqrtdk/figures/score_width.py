"""The figure of the score width experiment: readers as lines, against d_k."""

from matplotlib.figure import Figure

from sqrtdk import summary
from sqrtdk.experiments.encoder_decoder import D_K
from sqrtdk.experiments.score_width import COLUMNS
from sqrtdk.figures import command
from sqrtdk.figures.command import Tables
from sqrtdk.figures.encoder_decoder import build_ends


def build_d_k(tables: Tables) -> Figure:
    """Accuracy and steps to 90 % against score width, a panel for each learning rate."""
    return build_ends(tables["summary"], D_K, "learning_rate", ("length", "hidden"))


BUILD: command.Builders = {"d_k": build_d_k}

if __name__ == "__main__":
    command.draw("score_width", BUILD, summary=summary.columns(COLUMNS))
