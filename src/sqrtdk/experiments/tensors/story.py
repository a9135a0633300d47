"""Tell what a trained model does: the spread of the logits of its heads, with 1/√d_k."""

import re
from pathlib import PurePath

from sqrtdk.experiments.story import RunTables, Screen, Told, short
from sqrtdk.experiments.tensors.claims import SCALED
from sqrtdk.experiments.tensors.models import NEAR_1
from sqrtdk.figures import chart
from sqrtdk.figures.chart import Axis, Line, Note
from sqrtdk.stats.intervals import MissingError


def models(run: RunTables) -> Told:
    """Tell the spread of the logits over the heads of each file."""
    table = run.table("models")
    table = table[(table["scaling"] == SCALED) & (table["path"] != "")]
    spread = table[table["metric"] == "logit_std"].sort_values("median").to_dict("records")
    if not spread:
        raise MissingError(f"the run measured no head with scaling = {SCALED}")
    near = table[table["metric"] == "near_1"].set_index("path")["mean"]
    lines, text = [], []
    for place, row in enumerate(spread, start=1):
        # A file may have any name; here it must not be read as a formula or as stress.
        name = re.sub(r"[^\w .-]", "_", PurePath(row["path"]).stem)
        ends = (float(place), float(row["minimum"]), float(row["maximum"]))
        lines.append(Line("on", "", (), [(float(place), float(row["median"]))], [ends]))
        share = near.get(row["path"])
        nearly = "" if share is None else f"; {100 * share:.0f} % are near 1"
        text.append(
            f"{place}: {name}, d_k = {int(row['d_k'])}, {int(row['heads'])} heads, median "
            f"{short(row['median'])} ({short(row['minimum'])} to {short(row['maximum'])}{nearly})."
        )
    values = [float(row[end]) for row in spread for end in ("minimum", "maximum")]
    low, high = max(min(*values, 0.5), 1e-3), max(*values, 2.0)
    y = Axis("spread of the scores, σ", low, high, chart.powers(low, high, 2), log=True)
    x = Axis("file, in the order of the list", 0.5, len(spread) + 0.5,
             [float(i + 1) for i in range(len(spread))])  # fmt: skip
    return Told(
        [
            "In a trained model queries and keys are related, and their lengths are learned, so "
            "that nothing says that their scores spread by 1. Measured with 1/√d_k, the spread "
            "over the heads of each file:",
            *text,
        ],
        chart.draw(
            x, y, lines, title="Spread of the logits over the heads of each file",
            notes=[Note("1: unrelated vectors", y=1.0)],
        ),
        f"Median over heads (point), smallest and largest head (line). Near 1 is {NEAR_1[0]} to "
        f"{NEAR_1[1]}.",
    )  # fmt: skip


SCREENS = (Screen(90, "real-models", "What real models do", models),)
