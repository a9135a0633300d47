"""What the story tells: its numbers are those of the tables, and what a run lacks is left out."""

import math
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from claims.test_ledger import table
from report.test_page import build

from sqrtdk.config import resolve
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.experiments.scaling import asides, one_query
from sqrtdk.experiments.story import Asked, module
from sqrtdk.figures import chart, lean
from sqrtdk.figures.chart import Axis, Line
from sqrtdk.report import mathml, prose, story
from sqrtdk.report.page import render

SETTINGS = {
    "d_k": [4, 16], "n_k": [8], "n_q": [5], "d_v": 2, "dtype": ["float64"], "seed": [0, 1, 2],
    "inputs": {"gaussian": {"law": "gaussian"}},
    "scaling": {
        "off": {"rule": "constant", "value": 1}, "on": {"rule": "power", "exponent": 0.5},
    },
}  # fmt: skip


def told(folder: Path) -> story.Story:
    return story.collect(folder, resolve.load(folder / "config.yaml").settings)


def test_the_story_of_a_run_has_its_screens_in_order_and_its_numbers(tmp_path: Path) -> None:
    frame = table()
    found = told(build(tmp_path, frame))
    assert [screen.name for screen in found.screens][:4] == [
        "play",
        "why",
        "landslide",
        "threshold",
    ]
    at = (frame["metric"] == "logit_std") & (frame["n_k"] == 64) & (frame["d_k"] == 64)
    (mean,) = frame[at & (frame["scaling"] == "off")]["mean"]
    why = next(screen for screen in found.screens if screen.name == "why")
    assert f"spread by {mean:.2f}" in " ".join(why.told.paragraphs)


def test_a_run_without_scaling_off_has_no_story_that_compares_with_it(tmp_path: Path) -> None:
    found = told(build(tmp_path, table(arms=["on"])))
    assert not found.leads
    assert not found.screens
    assert all(one.lacking for one in found.asked if one.name in ("root", "length"))


def test_questions_are_asked_each_once_and_link_to_the_page() -> None:
    asked: list[Asked] = [
        one for name in EXPERIMENTS for one in getattr(module(name, "asked"), "ASKED", ())
    ]
    assert len({one.name for one in asked}) == len({one.place for one in asked}) == len(asked)
    assert len(asked) >= 15


def test_the_figure_to_play_with_shows_a_panel_for_every_choice(tmp_path: Path) -> None:
    text = render(build(tmp_path, table()))
    chosen = {name: re.findall(rf'id="play-{name}-(\d+)"', text) for name in ("d_k", "n_k")}
    assert chosen["n_k"] == ["16", "64"]
    for n_k in chosen["n_k"]:
        part = text.partition(f'class="length n{n_k}"')[2].partition('class="curves"')[0]
        assert re.findall(r'class="panel d(\d+)"', part) == chosen["d_k"]
    # Without CSS one panel stays, and every choice has a rule that shows it.
    shown = re.findall(r'class="(?:panel d|length n)(\d+)">', text)
    assert len(shown) == 1 + len(chosen["n_k"])
    for d_k in chosen["d_k"]:
        assert f".play:has(#play-d_k-{d_k}:checked) .panel.d{d_k}" in text


def test_one_query_is_a_row_of_softmax_in_the_middle_of_its_draw() -> None:
    frame = pd.DataFrame(one_query.rows(SETTINGS))
    for _, rows in frame.groupby(["d_k", "scaling"]):
        weights = rows.sort_values("rank")["weight"].to_numpy()
        assert len(weights) == 8
        # A softmax of eight numbers in double precision.
        assert weights.sum() == pytest.approx(1, abs=1e-12)
        assert (np.diff(weights) <= 0).all()
    for _, rows in frame.groupby("d_k"):
        assert len(set(rows["query"])) == 1


def test_asides_are_what_theory_says() -> None:
    found = {(row["case"], row["quantity"]): row for row in asides.rows({"seed": list(range(40))})}
    spread = "spread of the logits"
    d_model, d_k = asides.D_MODEL, asides.HEAD
    exact = {
        ("64 × 64", "variance of the scores"): 64.0,
        ("variance 1/d_model", spread): 1.0,
        ("PyTorch Linear", spread): 1 / 3,
        ("Xavier, q, k and v at once", spread): 1 / 2,
        ("Xavier, one head", spread): 2 * d_model / (d_model + d_k),
        ("He", spread): 2.0,
        ("normal, 0.02", spread): 0.02**2 * d_model,
        ("T5, no division", spread): 1.0,
        # A mean of 1 doubles the mean square of q, which multiplies the variance of k.
        ("mean 1", spread): math.sqrt(2),
        ("after the softmax", "sum of a row"): d_k**-0.5,
        ("embedding", "position over embedding"): math.sqrt(d_model / 2),
        ("embedding times √d_model", "position over embedding"): math.sqrt(1 / 2),
    }
    for at, value in exact.items():
        # Five standard errors of 40 draws are within 4 % for all of these.
        assert found[at]["mean"] == pytest.approx(value, rel=0.04), at
    same = [found[case, "largest weight"]["mean"] for case in ("none", "after the softmax")]
    assert same[0] == same[1]


def test_a_chart_places_points_on_its_axes_and_names_stay_apart() -> None:
    x, y = Axis("d_k", 1, 100, [1, 10, 100], log=True), Axis("y", 0, 1, [0, 1])
    left, right = chart.place(x, y, (1, 0)), chart.place(x, y, (100, 1))
    middle = chart.place(x, y, (10, 0.5))
    assert middle == pytest.approx(tuple((a + b) / 2 for a, b in zip(left, right, strict=True)))
    lines = [Line("off", "one", [(1, 0.5), (100, 0.5)]), Line("on", "two", [(1, 0.5), (100, 0.5)])]
    root = ElementTree.fromstring(str(chart.draw(x, y, lines, title="t")))
    heights = [
        float(one.get("y", "")) for one in root.iter("text") if "end" in one.get("class", "")
    ]
    assert abs(heights[1] - heights[0]) >= chart.LINE - 0.1


@pytest.mark.parametrize(("at_left", "side"), [(0.05, "end"), (0.6, None)])
def test_the_text_of_a_level_is_where_no_line_crosses_it(at_left: float, side: str | None) -> None:
    x, y = Axis("d_k", 0, 1, [0, 1]), Axis("weight", 0, 1, [0, 1])
    lines = [Line("on", "a", [(0, at_left), (1, 1)]), Line("inverse", "b", [(0, 0.0), (1, 0.0)])]
    note = chart.Note("equal shares", y=0.0)
    root = ElementTree.fromstring(str(chart.draw(x, y, lines, title="t", notes=[note])))
    (text,) = (one for one in root.iter("text") if "".join(one.itertext()) == "equal shares")
    assert text.get("text-anchor") == side


def test_a_run_beyond_the_chapter_has_a_title_of_its_own() -> None:
    assert story.title(["scaling", "related", "exponent"]) == story.TITLE
    assert story.title(["related", "exponent", "length"]) == story.BEYOND_TITLE
    assert story.title([]) == story.TITLE


def test_a_lean_drawing_keeps_text_as_text_with_indices() -> None:
    svg = (
        f'<svg xmlns="{lean.SVG}"><g id="a"><g id="b"><path d="M 1.23456 2 \nL 3 4 " '
        'style="fill: none; stroke: #222222"/><text style="font-size: 8px" x="1.04">n_k = 4</text>'
        "</g></g></svg>"
    )
    root = ElementTree.fromstring(lean.lean(svg.encode()))
    assert [child.tag.rpartition("}")[2] for child in root] == ["path", "text"]
    assert "".join(root[1].itertext()) == "nk = 4"
    assert root[0].get("d") == "M1.23 2L3 4"


@pytest.mark.parametrize(("formula", "text"), [(r"\sqrt{d_k}", "dk"), (r"a \le b", "a≤b")])
def test_formulas_are_mathml(formula: str, text: str) -> None:
    root = ElementTree.fromstring(str(mathml.tex(formula)))
    assert root.tag == "math"
    assert "".join(root.itertext()) == text


def test_told_text_is_escaped_and_has_stress_links_and_formulas() -> None:
    found = str(prose.told("**a <b>** and [c](#d) $e$"))
    assert found.startswith('<strong>a &lt;b&gt;</strong> and <a href="#d">c</a> <math>')
