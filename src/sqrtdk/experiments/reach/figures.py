"""Draw the figure of the reach experiment: readers as lines, against distance from the end."""

from matplotlib.figure import Figure

from sqrtdk.experiments.encoder_decoder.figures import SAYS_UNASKED, by_reader, looks_of
from sqrtdk.experiments.reach.measure import COLUMNS, STAGES
from sqrtdk.figures import draw
from sqrtdk.figures.draw import Tables
from sqrtdk.figures.lines import PanelRow, build_lines

DISTANCE = next(column for column in COLUMNS if column.name == "distance")

NORM = "log10_jacobian_norm"


def build_distance(tables: Tables) -> Figure:
    """Draw the Jacobian norm before and after training, and accuracy, a panel for each length."""
    table = by_reader(tables["summary"])
    initial, trained = STAGES
    norm = table["metric"] == NORM
    # Two rows of panels show the same metric at the two stages.
    table = table.assign(metric=table["metric"].where(~norm, NORM + " " + table["stage"]))
    means = table.loc[norm, "mean"]
    table = table[norm | (table["stage"] == trained)]
    low, high = means.min(), means.max()
    room = 0.05 * (high - low) or 1.0
    return build_lines(
        table,
        [
            *(
                PanelRow(f"log₁₀ norm, {stage}", (f"{NORM} {stage}",), high + room, low - room)
                for stage in STAGES
            ),
            PanelRow("accuracy", ("accuracy",)),
        ],
        "Norm of the derivative of the answer with respect to the state that many pairs before the "
        f"end, in decades, before training ({initial}) and after ({trained}). Bottom: accuracy "
        f"after training of questions about the pair at that distance; {SAYS_UNASKED}",
        looks=looks_of(table),
        across="length",
        where=("hidden", "d_k", "learning_rate"),
        x=DISTANCE,
        count=True,
    )


BUILD: draw.Builders = {"distance": build_distance}
