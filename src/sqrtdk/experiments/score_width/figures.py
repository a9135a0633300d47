"""Draw the figure of the score width experiment: readers as lines, against d_k."""

from matplotlib.figure import Figure

from sqrtdk.experiments.encoder_decoder.figures import build_ends
from sqrtdk.experiments.encoder_decoder.measure import D_K
from sqrtdk.figures import draw
from sqrtdk.figures.draw import Tables


def build_d_k(tables: Tables) -> Figure:
    """Draw accuracy and steps to 90 % against score width, a panel for each learning rate."""
    return build_ends(tables["summary"], D_K, "learning_rate", ("length", "hidden"))


BUILD: draw.Builders = {"d_k": build_d_k}
