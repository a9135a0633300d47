import importlib
import itertools
import re
import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import same_color

from sqrtdk import examples, summary, tables
from sqrtdk.experiments.scaling import COLUMNS
from sqrtdk.figures import FIGURES, scaling, style

SUMMARY = summary.columns(COLUMNS)
METRICS = [column.name for column in COLUMNS if not column.axis]
LINE_FIGURES = [what for what in FIGURES["scaling"] if what != "weights"]
CAPTIONS = Path(style.__file__).parents[1] / "report" / "captions"


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
            mean = value(metric, d, n, arm)
            several = seeds > 1
            rows.append(
                axes
                | {
                    "metric": metric,
                    "n_seeds": seeds,
                    "mean": mean,
                    "sd": 0.3 * mean if several else np.nan,
                    "median": mean,
                    "ci_low": 0.9 * mean if several else np.nan,
                    "ci_high": 1.2 * mean if several else np.nan,
                    "exact": np.nan,
                    "z": np.nan,
                }
            )
    return pd.DataFrame(rows, columns=[column.name for column in SUMMARY])


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
    return pd.DataFrame(rows, columns=[column.name for column in examples.COLUMNS])


def build(what, table):
    with style.context():
        return scaling.BUILD[what](table)


def draw(what, table):
    """The figure after its layout: what raises or warns while drawing does so here."""
    with style.context():
        figure = scaling.BUILD[what](table)
        figure.canvas.draw()
    return figure


def titles(figure):
    return [axes.get_title(loc="left") for axes in figure.axes]


def texts(figure):
    """Every text of a figure."""
    return [text.get_text() for text in figure.findobj(matplotlib.text.Text)]


def arms(axes):
    """The measured lines of a panel by arm; references and exits have no name."""
    return {line.get_label(): line for line in axes.lines if line.get_label()[0] != "_"}


def bands(axes):
    """The lower and upper edges of each band, against d_k."""
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
        for axes in build(what, summary_table(scaling=names)).axes:
            for name, line in arms(axes).items():
                if name in style.FIXED:
                    assert line.get_color() == style.FIXED[name]
                else:
                    assert line.get_color() not in style.FIXED.values()


def test_ten_arms_differ_in_colour_or_marker_and_get_a_legend():
    names = ["off", "on", *(f"rule_{i}" for i in range(10))]
    looks = style.looks(names)
    assert len(set(looks.values())) == len(looks)
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
    value = lambda metric, d_k, n_k, arm: 1.0  # noqa: E731
    figure = draw("gradients", summary_table(value=value))
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
        "grad_logits (row norm)", "", "grad_q (row norm)", ""
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
    assert f"off median\n↓ {style.number(last)}" in [text.get_text() for text in axes.texts]
    (exit_,) = [line for line in axes.lines if line.get_marker() == "v"]
    assert list(exit_.get_xdata()) == [4096]
    assert same_color(exit_.get_color(), style.FIXED["off"])


def test_gradients_that_are_all_zero_have_an_axis_and_say_so():
    figure = draw("gradients", summary_table(value=lambda metric, d_k, n_k, arm: 0.0))
    assert "on rms\n↓ 0" in texts(figure)


@pytest.mark.parametrize("what", LINE_FIGURES)
def test_one_seed_has_no_band_and_says_so(what):
    figure = draw(what, summary_table(seeds=1))
    assert not any(axes.collections for axes in figure.axes)
    assert any("1 seed: no interval" in text for text in texts(figure))


@pytest.mark.parametrize("what", LINE_FIGURES)
def test_the_band_says_what_it_is_and_on_how_many_seeds_it_rests(what):
    (said,) = [text for text in texts(build(what, summary_table())) if "Band" in text]
    said = " ".join(said.split())
    assert "95 % t-interval of the mean over 13 seeds" in said
    assert "n_q = 11, inputs = gaussian, dtype = float64" in said


def test_one_d_k_has_points_with_intervals():
    table = summary_table((64,), (5,))
    (axes,) = draw("entropy", table).axes
    (off, _) = axes.collections
    rows = rows_of(table, "entropy_nats", 5, "off")
    ((start, end),) = off.get_segments()
    assert (start[1], end[1]) == (rows["ci_low"].item(), rows["ci_high"].item())
    assert arms(axes)["off"].get_marker() == "o"


def test_the_exact_expectation_is_drawn_where_the_table_has_one():
    table = summary_table()
    assert not any("Dotted" in text for text in texts(build("entropy", table)))
    table.loc[table["metric"] == "entropy_nats", "exact"] = 0.5
    figure = draw("entropy", table)
    dotted = [line for line in figure.axes[0].lines if line.get_linestyle() == ":"]
    assert [list(line.get_ydata()) for line in dotted] == [[0.5] * 4] * 2
    assert any("Dotted: exact expectation." in text for text in texts(figure))


def test_undefined_metrics_leave_no_empty_panel():
    assert titles(draw("logit_std", summary_table(n_k=(1, 5)))) == ["n_k = 5"]
    figure = draw("logit_std", summary_table(n_k=(1,), scaling=[f"rule_{i}" for i in range(9)]))
    assert figure.axes == []
    assert any("logit_std is undefined in this grid" in text for text in texts(figure))
    assert len(draw("dead_entries", summary_table(n_k=(1,))).axes) == 1
    assert [axes.get_ylabel() for axes in draw("dead_entries", summary_table(n_k=(1, 5))).axes] == [
        "grad_logits_dead_entries\n(share)", "", "grad_logits_top1_share\n(share)"
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
        scaling.lines_of(table[table["n_k"] == 5], "entropy_nats")


EXOTIC = {
    "one cell": {"d_k": (64,), "n_k": (5,), "scaling": ("on",), "seeds": 1},
    "one cell of one key": {"d_k": (1,), "n_k": (1,), "scaling": ("off",), "seeds": 1},
    "one key among others": {"n_k": (1, 5)},
    "neighbours": {"d_k": (63, 64, 65), "n_k": (5,)},
    "huge range": {"d_k": [4**i for i in range(13)], "n_k": (100_000,)},
    "twelve arms": {"n_k": (5,), "scaling": [f"a_rule_with_a_long_name_{i}" for i in range(12)]},
    "long names": {"n_k": (5,), "inputs": ("x" * 32, "y" * 32), "n_q": (1, 2)},
    "two seeds": {"seeds": 2},
}


@pytest.mark.parametrize("grid", EXOTIC.values(), ids=EXOTIC.keys())
def test_any_grid_can_be_drawn_without_a_warning(grid):
    table = summary_table(**grid)
    for what in LINE_FIGURES:
        figure = draw(what, table)
        assert all(arms(axes) for axes in figure.axes)


@pytest.mark.parametrize("d_k", [(4,), (4, 16)])
def test_an_interval_that_reaches_zero_goes_down_to_the_axis(d_k):
    table = summary_table(d_k, (5,))
    table["ci_low"] = 0.0
    axes = draw("gradients", table).axes[0]
    lows = {path.vertices[:, 1].min() for band in axes.collections for path in band.get_paths()}
    assert lows == {axes.get_ylim()[0]}


def test_weights_are_shown_as_they_are_on_one_scale():
    table = weights_table()
    figure = draw("weights", table)
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
    figure = draw("weights", weights_table(**grid))
    assert sum(bool(axes.images) for axes in figure.axes) == len(grid["d_k"]) * len(grid["scaling"])


def test_a_second_run_writes_the_same_bytes_in_the_inks_of_the_page(tmp_path):
    summary_csv, weights_csv = tmp_path / "summary.csv", tmp_path / "weights.csv"
    rows = summary_table(n_k=(5,)).to_dict("records")
    summary_csv.write_text(tables.text(rows, SUMMARY))
    rows = weights_table().to_dict("records")
    weights_csv.write_text(tables.text(rows, examples.COLUMNS))
    command = [sys.executable, "-W", "error", "-m", "sqrtdk.figures.scaling"]
    folders = [tmp_path / "one", tmp_path / "two"]
    runs = [subprocess.Popen([*command, summary_csv, weights_csv, folder]) for folder in folders]
    assert [run.wait() for run in runs] == [0, 0]
    first, second = ({path.name: path.read_bytes() for path in f.iterdir()} for f in folders)
    assert set(first) == {
        f"scaling-{what}.{suffix}" for what in FIGURES["scaling"] for suffix in ("svg", "png")
    }
    assert first == second
    for name in (f"scaling-{what}.svg" for what in FIGURES["scaling"]):
        svg = first[name].decode()
        inks = set(re.findall(r"(?:fill|stroke): (?!none)([^;\"]+)", svg))
        assert inks <= {style.INK, style.RULE, *style.FIXED.values()}
        assert "<dc:date>" not in svg
        assert len(svg) < 200_000


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
    module = importlib.import_module(f"sqrtdk.figures.{experiment}")
    assert set(module.BUILD) == set(FIGURES[experiment])
    for what in FIGURES[experiment]:
        text = (CAPTIONS / f"{experiment}-{what}.rst").read_text(encoding="utf-8")
        title, rule, blank, body = text.rstrip("\n").split("\n", 3)
        # A shorter rule is no title to docutils, which Snakemake's report uses.
        assert rule == "=" * len(title)
        assert blank == ""
        assert 1 <= body.count(". ") + 1 <= 3
