"""Draw the figures of the worked example: its matrices in the order of the computation."""

import math

from matplotlib.figure import Figure

from sqrtdk.experiments.worked_example import matrices
from sqrtdk.experiments.worked_example.matrices import Matrices, Matrix
from sqrtdk.experiments.worked_example.measure import ARMS
from sqrtdk.experiments.worked_example.plot_matrix import (
    CELL,
    HEADING_HEIGHT,
    NAMES,
    Box,
    arrow,
    plot_matrix,
)
from sqrtdk.figures import draw, style
from sqrtdk.figures.draw import Tables

WIDE, HIGH = CELL

GAP = 0.5
"""Inches between two matrices, with room for an arrow."""

EDGE = 0.06
"""Inches between a figure's edge and its content."""

PRINT = 0.45
"""Height of the two lines of small print, in inches."""

TINTS = "Tint: green above 0, purple below, the stronger the larger the magnitude within an array"


def sheet(width: float, height: float, note: str) -> Figure:
    """Return a figure with freely placed parts and small print below them."""
    figure = Figure(figsize=(width, height + PRINT))
    figure.set_layout_engine("none")
    style.note(figure, note)
    return figure


# From x to q, k, v


def build_projections(tables: Tables) -> Figure:
    """Draw the tokens x, the weight matrices, and the queries, keys and values."""
    found = matrices.matrices_of(tables["runs"].to_dict("records"))
    block, drop = NAMES + 4 * WIDE, 0.4
    first = EDGE
    second = first + HEADING_HEIGHT + 3 * HIGH + drop
    third = second + HEADING_HEIGHT + 4 * HIGH + drop
    figure = sheet(
        2 * EDGE + 3 * block + 2 * GAP,
        third + HEADING_HEIGHT + 3 * HIGH + 3 * EDGE,
        f"{TINTS}. A row of q, k or v belongs to the token of the same name in x.",
    )
    places = [EDGE + i * (block + GAP) for i in range(3)]

    def put(name: str, title: str, left: float, top: float) -> Box:
        matrix = found[name, "on"]
        return plot_matrix(figure, matrix, title, (left, top), largest=matrix.largest)

    x = put("x", "x", places[1], first)
    starts = [
        (x.left - NAMES - 0.08, x.middle[1]),
        (x.middle[0], x.bottom + 0.06),
        (x.right + 0.08, x.middle[1]),
    ]
    for letter, left, start in zip("qkv", places, starts, strict=True):
        weights = put(f"W_{letter}", f"W_{letter}", left, second)
        made = put(letter, f"{letter} = x W_{letter}", left, third)
        arrow(figure, start, (weights.middle[0], weights.top - HEADING_HEIGHT - 0.03))
        arrow(
            figure,
            (weights.middle[0], weights.bottom + 0.06),
            (made.middle[0], made.top - HEADING_HEIGHT - 0.03),
        )
    return figure


# With and without scaling

LINE = 0.18 + HEADING_HEIGHT + 3 * HIGH
"""Height of one scale rule's part: its name and its matrices."""

GAP = 0.22


def variants(width: float, note: str) -> Figure:
    """Return a figure with space for two parts: without scaling above, with scaling below."""
    where = "within an array, off and on together"
    tints = TINTS.replace("within an array", where)
    return sheet(width, 2 * LINE + GAP + 4 * EDGE, f"{tints}. {note}")


def line(
    figure: Figure,
    found: Matrices,
    variant: str,
    left: float,
    steps: list[tuple[str, str]],
) -> dict[str, Box]:
    """Draw one scale rule from left to right: its name, its arrays and the steps between them."""
    width, height = figure.get_size_inches()
    top = EDGE + (0 if variant == "off" else LINE + GAP)
    figure.text(
        (left + NAMES) / width,
        1 - top / height,
        f"scaling = {variant}",
        va="top",
        fontsize=9,
        fontweight="bold",
        color=style.FIXED[variant],
    )
    boxes: dict[str, Box] = {}
    at = left
    for i, (name, words) in enumerate(steps):
        if name == "entropy":
            matrix, at, largest = _entropy(found["weight_rows", variant]), at - GAP + 0.1, math.inf
        else:
            matrix = found[name, variant]
            largest = max(found[name, one].largest for one in ARMS)
        title = "" if name == "entropy" else name
        at_top = (at, top + 0.18)
        box = plot_matrix(figure, matrix, title, at_top, largest=largest, named=i == 0)
        if i and name != "entropy":
            arrow(figure, (at - GAP + 0.07, box.middle[1]), (at - 0.07, box.middle[1]), words)
        boxes[name] = box
        at = box.right + GAP
    return boxes


def _entropy(rows: Matrix) -> Matrix:
    place = rows.columns.index("entropy_nats")
    return Matrix(rows.rows, ["entropy"], [[row[place]] for row in rows.entries])


def build_attention(tables: Tables) -> Figure:
    """Draw the arrays from the scores to the output, without scaling and with it."""
    found = matrices.matrices_of(tables["runs"].to_dict("records"))
    scores = found["scores", "on"]
    lead = NAMES + 3 * WIDE + 0.6
    most = math.log(len(scores.columns))
    figure = variants(
        2 * EDGE + lead + NAMES + (3 + 3 + 1 + 4) * WIDE + 0.1 + 2 * GAP,
        "Row: the token that looks; key: the token that it looks at. A row of weights sums to 1; "
        f"its entropy is in nats, at most ln {len(scores.columns)} = "
        f"{matrices.format_entry(most)}.",
    )
    middle = EDGE + LINE + GAP / 2 - 1.5 * HIGH - HEADING_HEIGHT
    begin = plot_matrix(figure, scores, "scores = q kᵀ", (EDGE, middle), largest=scores.largest)
    for variant in ARMS:
        steps = [("logits", ""), ("weights", "softmax"), ("entropy", ""), ("output", "times v")]
        boxes = line(figure, found, variant, EDGE + lead, steps)
        shift = -0.1 if variant == "off" else 0.1
        start = (begin.right + 0.07, begin.middle[1] + shift)
        end = (boxes["logits"].left - NAMES - 0.06, boxes["logits"].middle[1])
        arrow(figure, start, end)
        width, height = figure.get_size_inches()
        x, y = (start[0] + end[0]) / 2 - 0.05, (start[1] + end[1]) / 2 + 1.2 * shift
        factor = "× 1" if variant == "off" else f"÷ √d_k = {found['sqrt_d_k', variant].largest:g}"
        figure.text(
            x / width, 1 - y / height, factor, ha="right", va="center", fontsize=style.SMALL
        )
    return figure


def build_gradients(tables: Tables) -> Figure:
    """Draw the gradient of the sum of the output, backwards, without scaling and with it."""
    found = matrices.matrices_of(tables["runs"].to_dict("records"))
    figure = variants(
        2 * EDGE + NAMES + (3 + 3 + 4) * WIDE + 2 * GAP,
        "Gradient of L, the sum of all entries of the output. A row of grad_logits sums to 0.",
    )
    for variant in ARMS:
        factor = style.format_label(found["scale", variant].largest)
        steps = [("grad_logits", ""), ("grad_scores", f"× {factor}"), ("grad_q", "times k")]
        line(figure, found, variant, EDGE, steps)
    return figure


BUILD: draw.Builders = {
    "projections": build_projections,
    "attention": build_attention,
    "gradients": build_gradients,
}
