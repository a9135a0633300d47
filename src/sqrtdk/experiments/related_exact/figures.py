"""Draw the figure of the agreement of related vectors with theory."""

from matplotlib.figure import Figure

from sqrtdk.experiments.related_exact.gate import ALL
from sqrtdk.experiments.related_exact.measure import LAWS, METRICS
from sqrtdk.figures import draw, style
from sqrtdk.figures.draw import Tables
from sqrtdk.figures.panels import sheet
from sqrtdk.figures.style import CYCLE, INK, MARKERS, Look
from sqrtdk.stats.agreement import RMS_Z

WORDS = {
    "entropy_nats": "entropy",
    "sum_sq_weights": "sum of squared weights",
    "max_weight": "largest weight",
    "match_weight": "weight of the match",
    "jacobian_sq": "squared Jacobian",
    "grad_logits_sq": "gradient, logits",
    "grad_q_sq": "gradient, queries",
    "grad_k_sq": "gradient, keys",
    ALL: "all",
}


def build_z(tables: Tables) -> Figure:
    """Draw the root mean square of z of each metric, a panel for each law."""
    table = tables["gate"]
    laws = [law for law in LAWS if law in set(table["vectors"])]
    names = [*METRICS, ALL]
    figure, grid = sheet(1, len(laws), margin=0, headings=1)
    look = Look(CYCLE[0], MARKERS[0])
    ends = table[["ci_low", "ci_high", "rms_z"]]
    low, high = min(0.7, float(ends.min().min())), max(1.3, float(ends.max().max()))
    for column, law in enumerate(laws):
        axes = figure.add_subplot(grid[0, column])
        axes.set_title(law)
        axes.axvspan(*RMS_Z, color=INK, alpha=0.08, linewidth=0)
        axes.axvline(1.0, color=INK, linestyle="--", linewidth=0.8)
        for row in table[table["vectors"] == law].to_dict("records"):
            height = len(names) - 1 - names.index(row["metric"])
            axes.plot(
                [row["rms_z"]], [height], color=look.color, marker=look.marker, linestyle="none",
                markersize=5, label="_rms",
            )  # fmt: skip
            axes.hlines(height, row["ci_low"], row["ci_high"], color=look.color)
        axes.set_xlim(low, high)
        axes.set_ylim(-0.6, len(names) - 0.4)
        shown = [WORDS[name] for name in names[::-1]] if column == 0 else [""] * len(names)
        axes.set_yticks(range(len(names)), shown)
        axes.set_xlabel("rms of z")
    style.note(
        figure,
        "Root mean square over independent points of the deviation of a mean from its exact value, "
        "in standard errors. Chance alone gives 1 (dashed); shaded: the bounds of the test. Bar: "
        f"95 % interval over {int(table['n_seeds'].min())} points.",
    )
    return figure


BUILD: draw.Builders = {"z": build_z}
