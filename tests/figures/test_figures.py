import importlib
import itertools
import math
import re
import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import same_color
from registered import BUILT, FIGURES, TABLES

from sqrtdk.experiments.precision import measure as precision
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.experiments.related import cosines
from sqrtdk.experiments.scaling import crossings, plot_collapse, tails, weights
from sqrtdk.experiments.scaling.measure import COLUMNS
from sqrtdk.experiments.tensors import heads as trained_heads
from sqrtdk.experiments.tensors import models as trained_models
from sqrtdk.experiments.tensors import rescaled
from sqrtdk.figures import lines, style
from sqrtdk.jobs import draw as draw_job
from sqrtdk.schema import Column
from sqrtdk.stats import summary
from sqrtdk.storage import tables
from sqrtdk.theory import exact_table, fixed_sigma

SUMMARY = summary.columns(COLUMNS)
SCHEMAS = {
    "summary": SUMMARY,
    "exact": exact_table.COLUMNS,
    "crossings": crossings.COLUMNS,
    "tails": tails.COLUMNS,
    "weights": weights.COLUMNS,
    "cosines": cosines.COLUMNS,
}
PRECISION = summary.columns(precision.COLUMNS)
METRICS = [column.name for column in COLUMNS if not column.axis]
BUILD = {
    name: importlib.import_module(f"sqrtdk.experiments.{name}.figures").BUILD for name in FIGURES
}
RECALL_LINES = ("fixed", "additive", "dot", "scaled_dot", "most frequent value")
SUMMARY_FIGURES = [what for what in FIGURES["scaling"] if what not in ("weights", "tails", "onset")]
SUMMARY_RELATED = [what for what in FIGURES["related"] if what != "cosines"]
LINE_FIGURES = [what for what in SUMMARY_FIGURES if what != "collapse"]
CAPTIONS = Path(style.__file__).parents[1] / "experiments"


def frame(rows, columns):
    return pd.DataFrame(rows, columns=[column.name for column in columns])


def value_of(metric, d_k, n_k, arm):
    """Something of the metric's kind and size: shares within 0 and 1, medians that vanish."""
    grown = 1.0 if arm == "on" else d_k**0.5
    if "share" in metric or "dead" in metric or "weight" in metric:
        return 1 - 0.9 / grown
    if metric == "entropy_nats":
        return np.log(n_k) / grown
    if metric.endswith("_median"):
        return 0.2 * np.exp(-grown / 4)
    return grown


def summary_table(
    d_k=(1, 4, 16, 64),
    n_k=(3, 5, 7),
    *,
    n_q=(11,),
    inputs=("gaussian",),
    dtype=("float64",),
    scaling=("off", "on"),
    seeds=13,
    value=value_of,
):
    rows = []
    for d, n, m, law, kind, arm in itertools.product(d_k, n_k, n_q, inputs, dtype, scaling):
        axes = {"d_k": d, "n_k": n, "n_q": m, "inputs": law, "dtype": kind, "scaling": arm}
        for metric in METRICS:
            if n == 1 and metric in ("logit_std", "entropy_normalized", "grad_logits_top1_share"):
                continue
            rows.append(axes | {"metric": metric} | statistics(value(metric, d, n, arm), seeds))
    return frame(rows, SUMMARY)


def statistics(mean, seeds):
    several = 1 if seeds > 1 else np.nan
    return {
        "n_seeds": seeds, "mean": mean, "sd": 0.3 * mean * several, "median": mean,
        "ci_low": 0.9 * mean * several, "ci_high": 1.2 * mean * several, "exact": np.nan,
        "z": np.nan,
    }  # fmt: skip


def with_theory(table, laws=("gaussian",)):
    """Return the table with exact values 1 % above the means of some laws, and their curves."""
    known = table["metric"].isin(["logit_std", "sum_sq_weights", "max_weight", "jacobian_norm"])
    known |= table["metric"].str.endswith("_rms") | table["metric"].str.startswith("entropy")
    table = table.assign(exact=table["mean"].where(known & table["inputs"].isin(laws)).mul(1.01))
    at = table.dropna(subset=["exact"]).drop_duplicates(
        ["d_k", "n_k", "n_q", "inputs", "scaling", "metric"]
    )
    between = at.assign(d_k=at["d_k"] * 1.3)
    curve = pd.concat([at, between]) if len(set(at["d_k"])) > 1 else at
    return table, curve[[column.name for column in exact_table.COLUMNS]]


def crossings_table(n_k=(3, 5, 7), *, n_q=(11,), **special):
    """Half of the entropy at 2 + n_k; rms never smaller but for logits; medians at 10 n_k."""
    rows = []
    for n, m in itertools.product(n_k, n_q):
        axes = {"n_k": n, "n_q": m, "inputs": "gaussian", "dtype": "float64"}
        found = {"half_entropy": (2.0 + n, 2.5 + n, "")}
        for x in crossings.CROSSING_GRADIENTS:
            found[f"grad_{x}_rms"] = (np.nan, np.inf, "never")
            found[f"grad_{x}_median"] = (10.0 * n, np.nan, "")
        found |= {"grad_logits_rms": (100.0 * n, 101.0 * n, "")} | special
        for quantity, (d_k, exact, beyond) in found.items():
            rows.append(
                axes
                | {
                    "quantity": quantity, "d_k": d_k, "ci_low": 0.9 * d_k, "ci_high": 1.1 * d_k,
                    "beyond": beyond, "exact": exact, "two_ln_n_k": 2 * np.log(n),
                }
            )  # fmt: skip
    return frame(rows, crossings.COLUMNS)


def tails_table(d_k=(1, 4, 16, 64), *, scaling=("off", "on"), size=1.0):
    rows = [
        {
            "d_k": d, "n_k": 5, "n_q": 11, "inputs": "gaussian", "dtype": "float64",
            "scaling": arm, "gradient": x, "rows_share": share, "n_seeds": 13,
            "row_norm": size * (share ** -(d / 4) if arm == "off" else 1.5 - share),
            "energy_share": share**0.5 if size else np.nan,
        }
        for d, arm, x in itertools.product(d_k, scaling, tails.TAIL_GRADIENTS)
        for share in (0.01, 0.1, 0.5, 1.0)
    ]  # fmt: skip
    return frame(rows, tails.COLUMNS)


def precision_table(input_sd=(1, 64), *, d_k=(4, 16), n_k=(5,), scaling=("on",), seeds=13, zero=()):
    rows = []
    for d, n, sd, kind, order, arm, metric in itertools.product(
        d_k, n_k, input_sd, precision.HALVES, ("before", "after"), scaling,
        ("scale", "overflow_share", "broken_rows", "weight_error", "max_weight_error"),
    ):  # fmt: skip
        fails = metric == "weight_error" or (kind == "float16" and order == "after" and sd > 1)
        mean = 0.0 if not fails or metric in zero else min(1.0, 1e-4 * sd * d)
        axes = {"d_k": d, "n_k": n, "n_q": 11, "inputs": "gaussian", "input_sd": sd,
                "precision": kind, "order": order, "scaling": arm}  # fmt: skip
        rows.append(axes | {"metric": metric} | statistics(mean, seeds))
    return frame(rows, PRECISION)


def weights_table(d_k=(1, 64), *, n_q=11, n_k=3, scaling=("off", "on")):
    rows = [
        {
            "d_k": d, "n_k": n_k, "n_q": n_q, "inputs": "gaussian", "dtype": "float64",
            "scaling": arm, "seed": 0, "query": query, "key": key,
            "weight": (query * n_k + key) / (n_q * n_k),
        }
        for d, arm in itertools.product(d_k, scaling)
        for query, key in itertools.product(range(min(n_q, 16)), range(min(n_k, 16)))
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=[column.name for column in weights.COLUMNS])


def cosines_table(d_k=(16, 64), *, scaling=("off", "on"), cosines_=(0.0, 0.25, 0.5), seeds=13):
    rows = [
        {"d_k": d, "n_k": 5, "n_q": 11, "inputs": "graded", "dtype": "float64", "scaling": arm,
         "cosine": cosine, "metric": metric, **{name: value for name, value in
         statistics((1 + cosine * d) / (1 + d), seeds).items()
         if name in ("n_seeds", "mean", "ci_low", "ci_high")}}
        for d, arm, cosine, metric in itertools.product(
            d_k, scaling, cosines_, ("heard", "weight")
        )
    ]  # fmt: skip
    return frame(rows, cosines.COLUMNS)


def tables_of(table, **others):
    """Return the tables of an experiment; those that are not given have only a header."""
    return {name: frame([], schema) for name, schema in SCHEMAS.items()} | others | {
        "summary": table
    }  # fmt: skip


def build(what, table, experiment="scaling", **others):
    with style.context():
        return BUILD[experiment][what](tables_of(table, **others))


def draw(what, table, experiment="scaling", **others):
    """Return the figure after its layout: errors and warnings while drawing are raised here."""
    with style.context():
        figure = BUILD[experiment][what](tables_of(table, **others))
        # All that drawing does but for the pixels, which nobody looks at here.
        figure.draw_without_rendering()
    return figure


def titles(figure):
    return [axes.get_title(loc="left") for axes in figure.axes]


def texts(figure):
    """Return every text of a figure."""
    return [text.get_text() for text in figure.findobj(matplotlib.text.Text)]


def prose(figure):
    """Return all words of a figure, without line breaks."""
    return " ".join(" ".join(texts(figure)).split())


def arms(axes):
    """Return the measured lines of a panel by scale rule; references and exits have no name."""
    return {line.get_label(): line for line in axes.lines if line.get_label()[0] != "_"}


def marks(axes, label):
    """The lines of a panel that are no measured ones: `_exact`, `_interval`, `_exit`, `_law`."""
    return [line for line in axes.lines if line.get_label() == label]


def points(line):
    return list(zip(line.get_xdata(), line.get_ydata(), strict=True))


def bands(axes):
    """Return the lower and upper edges of each band, against d_k."""
    found = []
    for collection in axes.collections:
        (path,) = collection.get_paths()
        x, y = path.vertices.T
        edges = {at: (min(y[x == at]), max(y[x == at])) for at in sorted(set(x))}
        found.append(edges)
    return found


def rows_of(table, metric, n_k, arm):
    chosen = (table["metric"] == metric) & (table["n_k"] == n_k) & (table["scaling"] == arm)
    return table[chosen].sort_values("d_k")


@pytest.mark.parametrize("metric", ["entropy", "max_weight", "logit_std"])
def test_lines_and_bands_are_the_table(metric):
    table = summary_table()
    column = {"entropy": "entropy_nats"}.get(metric, metric)
    figure = build(metric, table.sample(frac=1, random_state=0))
    assert titles(figure) == ["n_k = 3", "n_k = 5", "n_k = 7"]
    for axes, n_k in zip(figure.axes, (3, 5, 7), strict=True):
        found = dict(zip(("off", "on"), bands(axes), strict=True))
        for arm, line in arms(axes).items():
            rows = rows_of(table, column, n_k, arm)
            assert list(line.get_xdata()) == list(rows["d_k"])
            assert list(line.get_ydata()) == list(rows["mean"])
            edges = zip(rows["ci_low"], rows["ci_high"], strict=True)
            assert found[arm] == dict(zip(rows["d_k"], edges, strict=True))


def test_the_arms_have_their_colours_in_every_figure_and_grid():
    for what, names in itertools.product(LINE_FIGURES, [("off", "on"), ("on",), ("off", "a", "b")]):
        for axes in build(what, summary_table(n_k=(5,), scaling=names)).axes:
            for name, line in arms(axes).items():
                if name in style.FIXED:
                    assert line.get_color() == style.FIXED[name]
                else:
                    assert line.get_color() not in style.FIXED.values()


def test_ten_arms_differ_in_colour_or_marker_and_get_a_legend():
    names = ["off", "on", *(f"rule_{i}" for i in range(10))]
    looks = style.looks(names)
    # Beyond the colours that there are, lines of one colour differ in their stroke.
    assert len({(look.color, look.dashed) for look in looks.values()}) == len(looks)
    assert style.CYCLE[-1] not in {look.color for look in looks.values()}
    figure = draw("entropy", summary_table(scaling=names))
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == names


def contrast(one, other):
    lights = []
    for color in (one, other):
        channels = np.array(matplotlib.colors.to_rgb(color))
        linear = np.where(channels > 0.04045, ((channels + 0.055) / 1.055) ** 2.4, channels / 12.92)
        lights.append(linear @ [0.2126, 0.7152, 0.0722] + 0.05)
    return max(lights) / min(lights)


@pytest.mark.parametrize("color", [*style.FIXED.values(), *style.CYCLE])
def test_data_colours_are_legible_on_the_light_and_the_dark_page(color):
    assert contrast(color, "#ffffff") >= 2.9
    assert contrast(color, "#111111") >= 2.9


def test_ends_of_lines_are_named_without_overlap():
    figure = draw("gradients", summary_table(value=lambda *at: 1.0))
    for axes in figure.axes:
        labels = [text for text in axes.texts if text.get_text()]
        assert {text.get_text() for text in labels} == {
            "off rms", "off median", "on rms", "on median"
        }  # fmt: skip
        boxes = sorted((text.get_window_extent() for text in labels), key=lambda box: box.y0)
        # A descender may touch the line below it.
        assert all(low.y1 <= high.y0 + 1 for low, high in itertools.pairwise(boxes))


def test_gradients_show_rms_and_median_in_rows_for_each_array():
    table = summary_table(n_k=(5, 7))
    figure = build("gradients", table)
    assert [axes.get_ylabel() for axes in figure.axes] == [
        "gradient at the logits", "", "gradient at the queries", ""
    ]  # fmt: skip
    axes = figure.axes[2]
    drawn = {
        (line.get_label(), line.get_linestyle()): list(line.get_ydata())
        for line in axes.lines
        if line.get_label()[0] != "_"
    }
    assert drawn == {
        (arm, kind): list(rows_of(table, f"grad_q_{average}", 5, arm)["mean"])
        for arm in ("off", "on")
        for average, kind in (("rms", "-"), ("median", "--"))
    }


def test_a_line_that_leaves_the_axis_says_where_and_how_far():
    table = summary_table((1, 64, 4096), (5,))
    axes = draw("gradients", table).axes[0]
    last = rows_of(table, "grad_logits_median", 5, "off")["mean"].iloc[-1]
    assert f"off median\n↓ {style.format_label(last)}" in [text.get_text() for text in axes.texts]
    (exit_,) = marks(axes, "_exit")
    assert list(exit_.get_xdata()) == [4096]
    assert same_color(exit_.get_color(), style.FIXED["off"])


@pytest.mark.parametrize("laws", [("gaussian",), ("gaussian", "student_t")])
def test_a_note_explains_the_marks_and_laws_that_are_drawn_and_no_others(laws):
    level = summary_table(n_k=(5,), inputs=laws, value=lambda metric, d_k, n_k, arm: 0.5)
    said = prose(draw("gradients", level, "related"))
    assert ("heavy tails" in said) == ("student_t" in laws)
    assert not {"▼", "↓"} & set(said)
    falling = summary_table(n_k=(5,), inputs=laws, value=lambda metric, d_k, n_k, arm: d_k**-3.0)
    said = prose(draw("gradients", falling, "related"))
    assert "▼: the line leaves the axis there; ↓ is its value at the largest d_k." in said


def test_gradients_that_are_all_zero_have_an_axis_and_say_so():
    figure = draw("gradients", summary_table(value=lambda metric, d_k, n_k, arm: 0.0))
    assert "on rms\n↓ 0" in texts(figure)
    assert texts(figure).count("0 everywhere") == len(figure.axes)


@pytest.mark.parametrize("what", SUMMARY_FIGURES)
def test_one_seed_has_no_interval_and_says_so(what):
    figure = draw(what, summary_table(seeds=1))
    assert not any(axes.collections for axes in figure.axes)
    drawn = [line.get_ydata() for axes in figure.axes for line in marks(axes, "_interval")]
    assert np.isnan(np.concatenate([*drawn, [np.nan]])).all()
    assert "1 seed: no interval" in prose(figure)


@pytest.mark.parametrize("what", LINE_FIGURES)
def test_the_band_says_what_it_is_and_on_how_many_seeds_it_rests(what):
    (said,) = [text for text in texts(build(what, summary_table())) if "Band" in text]
    said = " ".join(said.split())
    assert "95 % interval over 13 seeds" in said
    assert "n_q = 11, inputs = gaussian, dtype = float64" in said


def test_one_d_k_has_points_with_intervals_and_the_exact_value_as_a_dash():
    table, exact = with_theory(summary_table((64,), (5,)))
    for theory_ in (frame([], exact_table.COLUMNS), exact):
        (axes,) = draw("entropy", table, exact=theory_).axes
        (off, _) = marks(axes, "_interval")
        rows = rows_of(table, "entropy_nats", 5, "off")
        assert points(off)[:2] == [(64, rows["ci_low"].item()), (64, rows["ci_high"].item())]
        assert arms(axes)["off"].get_marker() == "o"
    assert [line.get_marker() for line in marks(axes, "_exact")] == ["_", "_"]


@pytest.mark.parametrize("metric", ["entropy", "max_weight", "logit_std"])
def test_points_with_bars_lie_on_the_exact_curve_where_there_is_one(metric):
    table, exact = with_theory(summary_table(inputs=("gaussian", "planted")))
    column = {"entropy": "entropy_nats"}.get(metric, metric)
    figure = draw(metric, table, exact=exact.sample(frac=1, random_state=0))
    covered = {axes.get_title(loc="left"): axes for axes in figure.axes}
    axes, other = covered["n_k = 5\ninputs = gaussian"], covered["n_k = 5\ninputs = planted"]
    for arm, curve, bars in zip(
        ("off", "on"), marks(axes, "_exact"), marks(axes, "_interval"), strict=True
    ):
        rows = rows_of(exact, column, 5, arm)
        assert points(curve) == list(zip(rows["d_k"], rows["exact"], strict=True))
        measured = arms(axes)[arm]
        assert measured.get_linestyle() == "None"
        assert same_color(curve.get_color(), measured.get_color())
        assert curve.get_zorder() < measured.get_zorder()
        rows = rows_of(table[table["inputs"] == "gaussian"], column, 5, arm)
        ends = bars.get_ydata().reshape(-1, 3)
        assert ends[:, :2].tolist() == rows[["ci_low", "ci_high"]].to_numpy().tolist()
    assert not axes.collections
    assert not marks(other, "_exact")
    assert len(bands(other)) == 2
    assert "Thin line: exact. Thick line: joins points." in prose(figure)
    assert "Band or bar: 95" in prose(figure)
    assert not any("exact" in text for text in texts(build(metric, summary_table())))


def test_the_law_of_the_spread_has_its_name_and_is_dashed_only_where_no_curve_is():
    table, exact = with_theory(summary_table(n_k=(5,)))
    for theory_, dashed in ((exact, 0), (None, 2)):
        known = table if theory_ is not None else table.assign(exact=np.nan)
        (axes,) = draw("logit_std", known, exact=exact).axes
        assert [line.get_linestyle() for line in axes.lines].count("--") == dashed
        assert {"√d_k", "1"} <= {text.get_text() for text in axes.texts}


def test_undefined_metrics_leave_no_empty_panel():
    assert titles(draw("logit_std", summary_table(n_k=(1, 5)))) == ["n_k = 5"]
    figure = draw("logit_std", summary_table(n_k=(1,), scaling=[f"rule_{i}" for i in range(9)]))
    assert figure.axes == []
    assert any("logit_std is undefined in this grid" in text for text in texts(figure))
    assert len(draw("dead_entries", summary_table(n_k=(1,))).axes) == 1
    assert [axes.get_ylabel() for axes in draw("dead_entries", summary_table(n_k=(1, 5))).axes] == [
        "entries near zero\n(share)", "", "held by the strongest\nqueries (share)"
    ]  # fmt: skip


@pytest.mark.parametrize("count", range(1, 9))
def test_panels_wrap_and_every_column_names_its_axis(count):
    figure = draw("entropy", summary_table(n_k=range(2, 2 + count)))
    assert titles(figure) == [f"n_k = {n_k}" for n_k in range(2, 2 + count)]
    assert all(axes.get_xlabel() == "d_k (dimensions)" for axes in figure.axes)
    assert figure.get_figwidth() <= 10


def test_groups_have_panels_of_their_own_and_never_share_a_line():
    table = summary_table(n_k=(5, 7), inputs=("gaussian", "planted"), dtype=("float32", "float64"))
    figure = draw("entropy", table)
    assert len(figure.axes) == 8
    assert len(set(titles(figure))) == 8
    assert "n_k = 7\ninputs = planted\ndtype = float32" in titles(figure)
    for axes in figure.axes:
        assert all(len(line.get_xdata()) == 4 for line in arms(axes).values())
    with pytest.raises(ValueError, match="zig-zag"):
        lines.lines_of(lines.by_scaling(table[table["n_k"] == 5]), "entropy_nats")


EXOTIC = {
    "one cell": {"d_k": (64,), "n_k": (5,), "scaling": ("on",), "seeds": 1},
    "one cell of one key": {"d_k": (1,), "n_k": (1,), "scaling": ("off",), "seeds": 1},
    "one key among others": {"n_k": (1, 5)},
    "neighbours": {"d_k": (63, 64, 65), "n_k": (5,)},
    "huge range": {"d_k": [4**i for i in range(13)], "n_k": (100_000,)},
    "twelve arms": {"n_k": (5,), "scaling": [f"a_rule_with_a_long_name_{i}" for i in range(12)]},
    "long names": {"n_k": (5,), "inputs": ("x" * 32, "y" * 32), "n_q": (1, 2)},
    "two seeds": {"n_k": (5,), "seeds": 2},
}


@pytest.mark.parametrize("grid", EXOTIC.values(), ids=EXOTIC.keys())
def test_any_grid_can_be_drawn_without_a_warning(grid):
    table, exact = with_theory(summary_table(**grid))
    for experiment, whats in (("scaling", SUMMARY_FIGURES), ("related", SUMMARY_RELATED)):
        for what in whats:
            figure = draw(what, table, experiment, exact=exact)
            assert all(arms(axes) for axes in figure.axes)
            assert figure.axes or any("Nothing to show" in text for text in texts(figure))


@pytest.mark.parametrize("d_k", [(4,), (4, 16)])
def test_an_interval_that_reaches_zero_goes_down_to_the_axis(d_k):
    table = summary_table(d_k, (5,))
    table["ci_low"] = 0.0
    axes = draw("gradients", table).axes[0]
    lows = {path.vertices[:, 1].min() for band in axes.collections for path in band.get_paths()}
    lows |= {float(np.nanmin(bar.get_ydata())) for bar in marks(axes, "_interval")}
    assert lows == {axes.get_ylim()[0]}


def test_weights_are_shown_as_they_are_on_one_scale():
    table = weights_table()
    figure = draw("weights", summary_table(), weights=table)
    images = [axes.images[0] for axes in figure.axes if axes.images]
    assert len(images) == 4
    for image in images:
        assert image.get_array().tolist() == [
            [(3 * q + k) / 33 for k in range(3)] for q in range(11)
        ]
        assert (image.norm.vmin, image.norm.vmax) == (0, 1)
    assert titles(figure)[:2] == ["d_k = 1", "d_k = 64"]
    assert [axes.get_ylabel() for axes in figure.axes if "query" in axes.get_ylabel()] == [
        "scaling = off\nquery", "scaling = on\nquery"
    ]  # fmt: skip
    assert any("Query: all 11. Key: all 3. Each row sums to 1." in text for text in texts(figure))


@pytest.mark.parametrize(
    "grid",
    [
        {"d_k": (1,), "n_q": 1, "n_k": 1, "scaling": ("on",)},
        {"d_k": (1, 2, 3, 4, 5), "n_k": 100, "scaling": [f"rule_{i}" for i in range(10)]},
    ],
)
def test_weights_of_any_grid_can_be_drawn(grid):
    figure = draw("weights", summary_table(), weights=weights_table(**grid))
    assert sum(bool(axes.images) for axes in figure.axes) == len(grid["d_k"]) * len(grid["scaling"])


def test_the_collapse_is_each_metric_against_the_measured_spread():
    def value(metric, d_k, n_k, arm):
        return 1 / (d_k + n_k) if arm == "on" else 1 / d_k

    table, exact = with_theory(summary_table((1, 4, 16), (1, 5, 7), value=value))
    figure = draw("collapse", table.sample(frac=1, random_state=0), exact=exact)
    assert [axes.get_ylabel() for axes in figure.axes] == [
        "entropy (share)", "norm of the Jacobian", "entries near zero (share)",
        "sum of squared weights",
    ]  # fmt: skip
    shown = zip(figure.axes, [*plot_collapse.METRICS, "sum_sq_weights"], strict=True)
    for (axes, metric), n_k, arm in itertools.product(list(shown), (5, 7), ("off", "on")):
        unit = fixed_sigma.expected_max(n_k) if metric == "sum_sq_weights" else 1
        spread, rows = (rows_of(table, name, n_k, arm) for name in ("logit_std", metric))
        found = sorted(points(arms(axes)[f"{n_k} {arm}"]))
        assert found == sorted(zip(spread["mean"] / unit, rows["mean"], strict=True))
    # Two n_k and two arms; n_k = 1 has no spread.
    assert [len(marks(axes, "_exact")) for axes in figure.axes] == [4, 4, 0, 4]
    (law,) = marks(figure.axes[-1], "_law")
    assert all(y == pytest.approx(max(0, 1 - 1 / x)) for x, y in points(law))
    assert "relative order √(2 ln n_k)/σ" in prose(figure)


def test_tails_are_lines_of_the_table_by_d_k_in_panels_by_arm():
    table = tails_table()
    figure = draw("tails", summary_table(), tails=table.sample(frac=1, random_state=0).sort_index())
    assert titles(figure) == ["scaling = off", "", "scaling = on", ""]
    for (arm, column), axes in zip(
        itertools.product(("off", "on"), ("row_norm", "energy_share")), figure.axes, strict=True
    ):
        chosen = table[(table["scaling"] == arm) & (table["gradient"] == "q")]
        assert set(arms(axes)) - {"1"} == {"4", "16", "64"}
        for d_k, line in arms(axes).items():
            rows = chosen[chosen["d_k"] == int(d_k)]
            x, y = ("row_norm", "rows_share") if column == "row_norm" else ("rows_share", column)
            assert points(line) == list(zip(rows[x], rows[y], strict=True))
    assert "13 seeds pooled" in prose(figure)
    strokes = [text.get_text() for text in figure.legends[0].get_texts()]
    assert strokes == [f"d_k = {d_k}" for d_k in (1, 4, 16, 64)]


@pytest.mark.parametrize(
    ("table", "panels"),
    [
        (tails_table((64,), scaling=("on",)), 2),
        (tails_table(scaling=[f"rule_{i}" for i in range(10)]), 20),
        (tails_table(range(1, 8)), 4),
        (tails_table(size=0.0), 0),
        (pd.concat([tails_table(scaling=("on",), size=0.0), tails_table(scaling=("off",))]), 4),
    ],
    ids=["one cell", "ten arms", "seven sizes", "all zero", "one arm zero"],
)
def test_tails_of_any_grid_can_be_drawn(table, panels):
    figure = draw("tails", summary_table(), tails=table)
    assert len(figure.axes) == panels
    assert panels or any("every gradient is zero" in text for text in texts(figure))


def places(axes):
    """Return the measured and the exact crossings of a panel."""
    return {name: points(line)[0] for name, line in arms(axes).items()}, [
        points(line)[0] for line in marks(axes, "_exact")
    ]


def test_the_onset_shows_crossings_with_exact_rings_and_says_never():
    figure = draw("onset", summary_table(), crossings=crossings_table())
    halves_, rms, median = figure.axes
    measured, exact = places(halves_)
    assert measured == {str(n): (n, 2.0 + n) for n in (3, 5, 7)}
    assert exact == [(n, 2.5 + n) for n in (3, 5, 7)]
    # 2 ln n_k is where the random energy model has no entropy left, not where half is gone.
    assert not any("ln n_k" in text for text in texts(figure))
    assert "d_k = 64" in texts(figure)
    never = dict(zip([x.get_text() for x in rms.get_xticklabels()], rms.get_xticks(), strict=True))[
        "never"
    ]
    measured, exact = places(rms)
    assert {name: x for name, (x, _) in measured.items() if name.startswith("logits")} == {
        f"logits {n}": 100.0 * n for n in (3, 5, 7)
    }
    assert {x for name, (x, _) in measured.items() if not name.startswith("logits")} == {never}
    assert [x for x, _ in exact] == [*(101.0 * n if i == 0 else never
                                      for n in (3, 5, 7) for i in range(5))]  # fmt: skip
    measured, exact = places(median)
    assert measured["q 5"][0] == 50
    assert not exact
    heights = [y for _, y in measured.values()]
    assert len(set(heights)) == len(heights)


def test_a_crossing_outside_of_the_grid_is_an_arrow_or_stands_at_the_edge():
    special = {"half_entropy": (np.nan, 6.0, "always"), "grad_q_median": (np.nan, np.nan, "always")}
    figure = draw("onset", summary_table(), crossings=crossings_table((5,), **special))
    assert "↓" in texts(figure)
    median = figure.axes[-1]
    assert median.get_xticklabels()[-1].get_text() == "always"
    assert places(median)[0]["q 5"][0] == median.get_xticks()[-1]


@pytest.mark.parametrize(
    ("table", "panels"),
    [
        (crossings_table(()), 0),
        (crossings_table((5,)), 3),
        (crossings_table(range(2, 10), n_q=(11, 13)), 6),
        (crossings_table((5,)).query("quantity == 'half_entropy'"), 1),
        (crossings_table((5,)).query("quantity != 'half_entropy'"), 2),
        (crossings_table((5,), n_q=(11, 13)).query("quantity != 'half_entropy' or n_q == 11"), 5),
        (crossings_table().assign(ci_low=np.nan, ci_high=np.nan, exact=np.nan), 3),
    ],
    ids=[
        "no pair of arms",
        "one n_k",
        "many",
        "off alone",
        "one key",
        "group without",
        "no theory",
    ],
)
def test_the_onset_of_any_grid_can_be_drawn(table, panels):
    figure = draw("onset", summary_table(), crossings=table)
    assert len(figure.axes) == panels
    assert panels or any("Nothing to show" in text for text in texts(figure))
    assert all(len(titles(figure)[i]) > 0 for i in range(panels))


def test_weight_by_cosine_has_a_panel_for_each_d_k_and_a_line_for_each_rule():
    table = cosines_table()
    planted = cosines_table(cosines_=(0.0, 0.5)).assign(inputs="planted")
    figure = draw("cosines", summary_table(), "related", cosines=pd.concat([table, planted]))
    assert titles(figure)[:2] == ["d_k = 16", "d_k = 64"]
    assert len(figure.axes) == 4
    for axes in figure.axes:
        assert set(arms(axes)) == {"off", "on"}
    rows = table[(table["d_k"] == 64) & (table["scaling"] == "on") & (table["metric"] == "weight")]
    assert list(arms(figure.axes[1])["on"].get_ydata()) == list(rows["mean"])
    assert "inputs = graded" in prose(figure)
    assert "planted" not in prose(figure)


@pytest.mark.parametrize(
    "table",
    [
        cosines_table(()),
        cosines_table((4,), scaling=("on",), seeds=1),
        cosines_table([4**i for i in range(9)], scaling=[f"rule_{i}" for i in range(12)]),
        cosines_table(cosines_=(1.0,)),
        cosines_table().assign(mean=0.0, ci_low=0.0, ci_high=0.0),
    ],
    ids=["no related keys", "one cell", "many", "one cosine", "all zero"],
)
def test_weight_by_cosine_of_any_grid_can_be_drawn(table):
    figure = draw("cosines", summary_table(), "related", cosines=table)
    assert figure.axes or any("Nothing to show" in text for text in texts(figure))


@pytest.mark.parametrize("what", SUMMARY_RELATED)
def test_related_has_a_panel_for_each_law_and_a_line_for_each_rule(what):
    rules = ("off", "on", "inverse", "qk_norm", "soft_cap")
    laws = ("gaussian", "planted", "sphere", "student_t")
    table, exact = with_theory(summary_table(n_k=(7,), inputs=laws, scaling=rules))
    figure = draw(what, table, "related", exact=exact)
    assert [title for title in titles(figure) if title] == [f"inputs = {law}" for law in laws]
    for axes in figure.axes:
        assert set(arms(axes)) == set(rules)
        named = {text.get_text().split("\n")[0] for text in axes.texts}
        assert set(rules) <= named
    covered = [axes for axes in figure.axes if marks(axes, "_exact")]
    assert covered == [figure.axes[0]]
    metric = "entropy_nats" if what == "entropy" else "grad_q_rms"
    rows = rows_of(table[table["inputs"] == "planted"], metric, 7, "inverse")
    assert list(arms(figure.axes[1])["inverse"].get_ydata()) == list(rows["mean"])


def test_precision_has_a_panel_for_each_input_sd_and_says_where_all_is_zero():
    table = precision_table()
    figure = draw("errors", table, "precision")
    assert titles(figure) == ["input sd = 1", "input sd = 64", *4 * [""]]
    zero = [any(text.get_text() == "0 everywhere" for text in axes.texts) for axes in figure.axes]
    assert zero == [False, False, True, False, True, False]
    chosen = table[(table["input_sd"] == 64) & (table["precision"] == "float16")]
    for axes, metric in zip(
        figure.axes[1::2], ("weight_error", "overflow_share", "broken_rows"), strict=True
    ):
        for order, stroke in (("before", "--"), ("after", "-")):
            line = arms(axes)[f"float16 {order}"]
            rows = chosen[(chosen["metric"] == metric) & (chosen["order"] == order)]
            assert points(line) == list(zip(rows["d_k"], rows["mean"], strict=True))
            assert line.get_linestyle() == stroke


@pytest.mark.parametrize(
    ("grid", "panels"),
    [
        ({"input_sd": (1,), "d_k": (4,), "seeds": 1}, 3),
        ({"zero": ("weight_error",), "n_k": (1, 5)}, 12),
        ({"scaling": ("inverse", "on")}, 12),
        ({"input_sd": (1, 2, 4, 8)}, 12),
    ],
    ids=["one cell", "no error", "two rules", "four deviations"],
)
def test_precision_of_any_grid_can_be_drawn(grid, panels):
    assert len(draw("errors", precision_table(**grid), "precision").axes) == panels


RECALL = ("encoder_decoder", "capacity", "score_width", "reach")


def recall_table(experiment, *, seeds=5, **grid):
    """A summary of an experiment with readers; accuracies grow with step and d_k, and with
    attention. A seed less reaches 90 % with unscaled dot products than with others."""
    columns = summary.columns(EXPERIMENTS[experiment].columns)
    axes = [c.name for c in columns if c.axis and c.name != "metric"]
    usual = {
        "d_k": (16, 64), "length": (2, 8), "hidden": (16, 32), "learning_rate": (0.003, 0.01),
        "reader": ("fixed", "additive", "dot", "scaled_dot"), "step": (0, 10, 20),
        "stage": ("initial", "trained"), "distance": (0, 1, 2),
    }  # fmt: skip
    usual |= {"d_k": (16,)} if experiment == "encoder_decoder" else {"hidden": (16,)}
    usual |= {"learning_rate": (0.003,)} if experiment != "score_width" else {"length": (8,)}
    usual |= {"d_k": (16,)} if experiment == "reach" else {}
    metrics = [c.name for c in EXPERIMENTS[experiment].columns if not c.axis]
    rows = []
    for values in itertools.product(*((usual | grid)[name] for name in axes)):
        at = dict(zip(axes, values, strict=True))
        solved = at["reader"] not in ("fixed", "dot")
        for metric in metrics:
            mean = {"accuracy": 0.9 if solved else 0.2, "reached_90": 1.0 if solved else 0.0}.get(
                metric, 0.5 + at.get("distance", 0)
            )
            mean = -mean if "log10" in metric else mean
            if metric != "steps_to_90" or solved:
                rows.append(at | {"metric": metric} | statistics(mean, seeds))
    return frame(rows, columns)


RECALL_GRIDS = (
    {}, {"seeds": 1}, {"reader": ("fixed",)}, {"reader": ("dot",)}, {"length": (1,)},
    {"step": (1,), "distance": (0,)}, {"d_k": (16,)},
    {"learning_rate": (0.001, 0.01), "hidden": (16, 64)},
)  # fmt: skip


@pytest.mark.parametrize(
    ("experiment", "grid"),
    [
        (experiment, grid)
        for experiment, grid in itertools.product(RECALL, RECALL_GRIDS)
        # These have one d_k anyway.
        if "d_k" not in grid or experiment not in ("encoder_decoder", "reach")
    ],
)
def test_figures_of_readers_can_be_drawn_for_any_grid(experiment, grid):
    table = recall_table(experiment, **grid)
    for builder in BUILD[experiment].values():
        with style.context():
            figure = builder({"summary": table})
            figure.draw_without_rendering()
        assert figure.axes


def test_a_reader_that_not_every_seed_learnt_has_no_steps_but_a_mark_above_the_budget():
    with style.context():
        figure = BUILD["score_width"]["d_k"]({"summary": recall_table("score_width")})
    steps = [axes for axes in figure.axes if axes.get_ylim()[1] > 2]
    assert len(steps) == 2
    for axes in steps:
        lines = axes.get_lines()
        assert {x.get_label() for x in lines} & set(RECALL_LINES) == {"additive", "scaled_dot"}
        late = [x for x in lines if x.get_label() == "_late" and len(x.get_xdata())]
        assert [list(x.get_xdata()) for x in late] == [[16, 64]] * 2
        assert all(min(x.get_ydata()) > 20 for x in late)


def test_the_accuracy_of_the_most_frequent_value_is_drawn_once_and_dashed():
    with style.context():
        figure = BUILD["reach"]["distance"]({"summary": recall_table("reach")})
    drawn = [
        [x for x in axes.get_lines() if x.get_label() == "most frequent value"]
        for axes in figure.axes
    ]
    assert sorted(map(len, drawn)) == [0, 0, 0, 0, 1, 1]
    assert {x.get_linestyle() for found in drawn for x in found} == {"--"}


def test_an_axis_of_counts_is_linear_and_has_whole_ticks():
    with style.context():
        figure = BUILD["encoder_decoder"]["curves"]({"summary": recall_table("encoder_decoder")})
    for axes in figure.axes:
        assert axes.get_xscale() == "linear"
        assert axes.get_xlabel() == "step"
        assert all(tick == int(tick) for tick in axes.get_xticks())


LAWS = ("gaussian", "non_centred", "planted", "sphere", "student_t")
RULES = ("off", "on", "inverse", "qk_norm", "soft_cap")


def heads_tables() -> tuple[dict[str, pd.DataFrame], dict[str, tuple[Column, ...]]]:
    """Return the tables of two files with three layers of two heads, one head without a σ."""
    known = {column.name: 0.5 for column in trained_heads.COLUMNS}
    heads = pd.DataFrame(
        known | {
            "path": path, "scaling": scaling, "layer": layer, "head": head, "d_k": 32, "inputs": 1,
            "logit_std": math.nan if (layer, head) == (0, 1) else 1 + layer + head,
            "entropy_normalized_deviation": 0.1 * layer, "place": 1 + 2 * layer + head,
        }
        for path in ("a.npz", "b.npz") for scaling in ("on", "off")
        for layer in range(3) for head in range(2)
    )  # fmt: skip
    tables = {
        "heads": heads,
        "models": pd.DataFrame(trained_models.rows({}, heads)),
        "rescaled": pd.DataFrame(rescaled.measured()),
    }
    columns = {
        "heads": trained_heads.COLUMNS, "models": trained_models.COLUMNS,
        "rescaled": rescaled.COLUMNS,
    }  # fmt: skip
    return tables, columns


@pytest.mark.parametrize("experiment", [name for name in FIGURES if name in BUILT])
def test_the_command_writes_each_figure_in_the_inks_of_the_page(experiment, smoke):
    # That a second process writes the same bytes: tests/workflow/test_pipeline.py, deleted files.
    run = smoke / "results/smoke"
    look_at_inks(run / "figures", experiment)
    # Neither a warning of matplotlib's nor anything else.
    assert (run / f"logs/{experiment}-draw.log").read_text(encoding="utf-8") == ""


def test_the_command_draws_files_of_heads_in_the_inks_of_the_page(
    tmp_path, in_process, monkeypatch
):
    # The pixels of the PNG files are a third of the time, and nobody looks at them here.
    monkeypatch.setattr(style, "_dpi", lambda figure: 10.0)
    assert set(FIGURES) - set(BUILT) == {"tensors"}
    found, schemas = heads_tables()
    for name in TABLES["tensors"]:
        text = tables.text(found[name].to_dict("records"), schemas[name])
        (tmp_path / f"{name}.csv").write_text(text)
    done = in_process(draw_job, "tensors", tmp_path, tmp_path / "drawn")
    assert done.returncode == 0, done.stderr
    look_at_inks(tmp_path / "drawn", "tensors")


def look_at_inks(folder, experiment):
    """Assert that a folder has an experiment's figures, in colours that the page can change."""
    names = [f"{experiment}-{what}" for what in FIGURES[experiment]]
    drawn = {path.name for path in folder.glob(f"{experiment}-*")}
    assert drawn == {f"{name}.{suffix}" for name in names for suffix in ("svg", "png")}
    for name in names:
        svg = (folder / f"{name}.svg").read_text(encoding="utf-8")
        inks = set(re.findall(r"(?:fill|stroke): ?(?!none)([^;\"}]+)", svg))
        assert inks <= {style.INK, style.RULE, *style.FIXED.values(), *style.CYCLE, *style.ON_CELLS}
        assert "<dc:date>" not in svg


def test_the_largest_figures_of_the_default_grid_are_small_files(tmp_path):
    sizes = [2**i for i in range(13)]
    grids = {
        ("scaling", "gradients"): summary_table(sizes, (16, 64, 256)),
        ("related", "gradients"): summary_table(sizes[4:11:2], (256,), inputs=LAWS, scaling=RULES),
        ("precision", "errors"): precision_table((1, 16, 64), d_k=sizes[::2]),
    }
    for (experiment, what), table in grids.items():
        known = with_theory(table) if experiment != "precision" else (table, None)
        figure = build(what, known[0], experiment, exact=known[1])
        with style.context():
            style.save(figure, tmp_path, "figure")
        assert 20_000 < (tmp_path / "figure.svg").stat().st_size < 100_000


def test_a_matplotlibrc_changes_nothing():
    with matplotlib.rc_context({"font.size": 20, "lines.linewidth": 9, "axes.grid": False}):
        (axes,) = build("entropy", summary_table(n_k=(5,))).axes
        assert arms(axes)["on"].get_linewidth() == style.CONTEXT["lines.linewidth"]
        assert matplotlib.rcParams["font.size"] == 20


def test_listing_the_figures_does_not_load_matplotlib():
    code = "import sys, sqrtdk.figures; sys.exit('matplotlib' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("experiment", FIGURES)
def test_every_figure_has_a_builder_and_a_caption(experiment):
    module = importlib.import_module(f"sqrtdk.experiments.{experiment}.figures")
    assert set(module.BUILD) == set(FIGURES[experiment])
    for what in FIGURES[experiment]:
        text = (CAPTIONS / experiment / "captions" / f"{experiment}-{what}.rst").read_text(
            encoding="utf-8"
        )
        title, rule, blank, body = text.rstrip("\n").split("\n", 3)
        # A shorter rule is no title to docutils, which Snakemake's report uses.
        assert rule == "=" * len(title)
        assert blank == ""
        assert 1 <= body.count(". ") + 1 <= 3
