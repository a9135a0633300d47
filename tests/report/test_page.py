import html
import itertools
import json
import math
import re
import struct
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from claims.test_ledger import LAWS, RULES, table
from conftest import command
from registered import FIGURES

from sqrtdk.claims import claim as claims_claim
from sqrtdk.claims import question as questions
from sqrtdk.claims import verdicts as claims_ledger
from sqrtdk.config import resolve
from sqrtdk.config import run as config_run
from sqrtdk.experiments import statements
from sqrtdk.experiments.precision import measure as precision
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.experiments.scaling import crossings, tails, weights
from sqrtdk.experiments.scaling import measure as scaling
from sqrtdk.jobs import judge
from sqrtdk.report import dictionary, gallery, svg
from sqrtdk.report import prose as report_prose
from sqrtdk.report.gallery import read_caption
from sqrtdk.report.page import render
from sqrtdk.report.prose import prose
from sqrtdk.schema import Column
from sqrtdk.stats import agreement, summary, wording
from sqrtdk.stats.intervals import Estimate
from sqrtdk.storage import atomic, tables
from sqrtdk.theory import exact_table

VOID = {"meta", "link", "br", "hr", "img", "input", "col", "base", "source", "wbr", "area"}
HEADINGS = {f"h{level}": level for level in range(1, 7)}
STEMS = [f"scaling-{what}" for what in FIGURES["scaling"]]

SVG = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">
<svg xmlns:xlink="http://www.w3.org/1999/xlink" width="432pt" height="216pt"
 viewBox="0 0 432 216" xmlns="http://www.w3.org/2000/svg" version="1.1">
 <metadata><about>https://example.org/metadata</about></metadata>
 <defs><style type="text/css">*{stroke-linejoin: round}</style>
  <clipPath id="p1"><rect x="0" y="0" width="400" height="200"/></clipPath>
  <path id="DejaVuSans-6f" d="M 0 0 L 9 9" style="stroke: #222222"/></defs>
 <!-- on -->
 <g id="line" clip-path="url(#p1)" onclick="alert(1)"><use xlink:href="#DejaVuSans-6f"
  style="fill: #222222"/><path d="M 1 1 L 5 5" style="fill: none; stroke: #cccccc"/></g>
 <image xlink:href="data:image/png;base64,iVBORw0KGgo=" width="4" height="4"/>
 <image xlink:href="https://example.org/spy.png" width="4" height="4"/>
 <rect style="fill: url(https://example.org/spy.svg#a)" width="1" height="1"/>
 <script>alert(2)</script><foreignObject><p>no</p></foreignObject>
 <text x="1" y="1">a &lt; b</text>
</svg>
"""


class Page(HTMLParser):
    """A page like in a browser: balanced elements, with their attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text: dict[str, list[str]] = {}
        self.sections: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)
            self.sections.append(self.elements[-1][1].get("id", ""))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> repeats an attribute"
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag
        self.sections.pop()

    def handle_data(self, data: str) -> None:
        for section in self.sections:
            if section:
                self.text.setdefault(section, []).append(data)

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def words(self, section: str) -> str:
        return re.sub(r"\s+", " ", "".join(self.text.get(section, []))).strip()


def build(folder: Path, frame: pd.DataFrame, *, pictures: bool = True) -> Path:
    """Write a folder of `scaling` with the tables of a frame, its ledger, placeholder figures."""
    arms = {name: RULES.get(name, RULES["quarter"]) for name in frame["scaling"].unique()}
    settings: dict[str, Any] = {
        "d_k": sorted(map(int, frame["d_k"].unique())),
        "n_k": sorted(map(int, frame["n_k"].unique())),
        "n_q": [8],
        "d_v": 8,
        "inputs": {name: LAWS[name] for name in frame["inputs"].unique()},
        "dtype": ["float64"],
        "scaling": arms,
        "seed": list(range(int(frame["n_seeds"].max()))),
    }
    fill(folder, "scaling", settings, frame)
    for stem in STEMS if pictures else ():
        atomic.write_atomically(folder / "figures" / f"{stem}.svg", SVG)
        atomic.write_atomically(folder / "figures" / f"{stem}.png", b"")
    return folder


def fill(folder: Path, experiment: str, settings: dict[str, Any], frame: pd.DataFrame) -> None:
    """Write the folder of a run of one experiment: summary, ledger, configuration, provenance."""
    run = config_run.Run("mine", 50, {experiment: settings})
    rows = judge.claims_table(run, {(experiment, "summary"): frame})
    columns = summary.columns(EXPERIMENTS[experiment].columns)
    write(folder / experiment / "summary.csv", frame, list(columns))
    atomic.write_atomically(folder / "claims.csv", tables.text(rows, claims_claim.COLUMNS))
    atomic.write_atomically(folder / "config.yaml", run.to_yaml())
    record = {
        "command": "snakemake --config name=mine",
        "sqrtdk": "0.1.0",
        "time_utc": "2030-01-02T",
    }
    record |= {"code": {"revision": "v1", "commit": "c0ffee", "changed": True}}
    atomic.write_atomically(folder / "provenance.json", json.dumps(record))


def write(path: Path, frame: pd.DataFrame, columns: list[Column]) -> None:
    rows = [{str(k): v for k, v in row.items()} for row in frame.to_dict("records")]
    atomic.write_atomically(path, tables.text(rows, columns))


def check(text: str) -> Page:
    """Check what holds for every report, whatever the run."""
    found = Page(text)
    ids = [attributes["id"] for _, attributes in found.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for tag, attributes in found.elements:
        for name in ("aria-labelledby", "aria-describedby"):
            assert set(attributes.get(name, "").split()) <= set(ids)
        for name in ("href", "xlink:href"):
            if attributes.get(name, "").startswith("#"):
                assert attributes[name][1:] in ids, attributes[name]
        for url in re.findall(r"url\(#([^)]*)\)", " ".join(attributes.values())):
            assert url in ids
        assert not [name for name in attributes if name.startswith("on")]
        # Only a link that a person follows may lead outside.
        if tag != "a":
            values = {k: v for k, v in attributes.items() if k not in ("content", "xmlns")}
            # A browser loads nothing for an image, whatever its data name.
            values = {k: v for k, v in values.items() if (tag, k) != ("img", "src")}
            assert not re.search(r"(https?:)?//", " ".join(values.values())), values
        if tag == "img":
            assert attributes["src"].startswith(("data:image/png;base64,", "data:image/svg+xml,"))
            assert attributes["alt"]
            continue
        if tag == "svg":
            assert attributes.get("role") == "img" or attributes.get("aria-hidden") == "true"
    assert "url(" not in text.partition("<style>")[2].partition("</style>")[0]
    assert "@import" not in text
    assert not {"script", "link", "iframe", "object", "embed", "foreignobject"} & {
        tag for tag, _ in found.elements
    }
    levels = [HEADINGS[tag] for tag, _ in found.elements if tag in HEADINGS]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in pairwise(levels))
    assert found.all("html") == [{"lang": "en"}]
    assert all(len(found.all(tag)) == 1 for tag in ("main", "nav", "header", "footer"))
    assert len(found.all("table")) == len(found.all("caption"))
    assert all("scope" in attributes for attributes in found.all("th"))
    policy = next(
        m["content"] for m in found.all("meta") if m.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:;")
    return found


def test_a_report_is_whole_safe_and_accessible(tmp_path: Path) -> None:
    found = check(render(build(tmp_path, table())))
    for stem in STEMS:
        assert f"figure-{stem}" in found.text
        links = {one["href"] for one in found.all("a")}
        assert {f"figures/{stem}.svg", f"figures/{stem}.png"} <= links
    assert len(found.all("img")) == len(STEMS)
    assert "20 seeds." in found.words("figure-scaling-entropy")


def test_the_answer_comes_first_and_every_claim_has_a_verdict(tmp_path: Path) -> None:
    folder = build(tmp_path, table())
    found = check(render(folder))
    assert order(found, "answer", "claims", "figures", "tables")
    ledger = ledger_of(folder)
    for row in ledger:
        words = found.words(f"claim-{row['claim']}")
        if row["condition"] == claims_ledger.absent(row["experiment"]):
            assert words == f"“{plain(row['sentence'])}”"
            continue
        assert plain(row["rule"]) in words
        assert plain(row["answer"]) in words
        assert f"{plain(row['sentence'])} {row['verdict']}" in found.words("claims")
    answer = found.words("answer")
    # The true half of the slogan beside the false one.
    for half in ("most gradients get close to zero", "but not on average", "without the division"):
        assert half in answer


def order(found: Page, *ids: str) -> bool:
    """Return whether the parts of a page have this order, and its contents too."""
    there = [attributes.get("id", "") for _, attributes in found.elements]
    linked = [one["href"][1:] for one in found.all("a") if one["href"].startswith("#")]
    return all(
        sequence.index(a) < sequence.index(b)
        for sequence in (there, linked)
        for a, b in pairwise(ids)
    )


def ledger_of(folder: Path) -> list[dict[str, str]]:
    frame = pd.read_csv(folder / "claims.csv", dtype=str, keep_default_na=False)
    return [{str(k): str(v) for k, v in row.items()} for row in frame.to_dict("records")]


def plain(text: str) -> str:
    """Return text as it is on the page: d_k has an index, and some spaces do not break."""
    return bare(str(prose(text)))


def bare(markup: str) -> str:
    """Return the visible text of some markup."""
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", "", markup))).strip()


NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e-?\d+)?(?![\w.]*\d)")


def test_every_number_of_answer_and_claims_is_in_a_table(tmp_path: Path) -> None:
    frame = table()
    folder = build(tmp_path, frame)
    found = check(render(folder))
    ledger = (folder / "claims.csv").read_text(encoding="utf-8")
    known = set(NUMBER.findall(ledger)) | set(
        NUMBER.findall((folder / "config.yaml").read_text(encoding="utf-8"))
    )
    counts = {str(n) for n in range(len(statements.claims()) + 1)} | {"95", "3"}
    for row in ledger_of(folder):
        ends = [float(row[name] or "nan") for name in ("value", "ci_low", "ci_high")]
        known |= set(NUMBER.findall(wording.format_estimate(Estimate(*ends))))
    assert set(NUMBER.findall(found.words("claims"))) <= known | counts
    # A number of the answer is one of the summary, a ratio of two of them, or the root of a d_k.
    numbers = pd.concat([frame[name] for name in ("mean", "ci_low", "ci_high")])
    numbers = np.unique(numbers[np.isfinite(numbers) & (numbers > 0)].to_numpy(float))
    allowed = np.concatenate(
        [numbers, 100 * numbers, np.divide.outer(numbers, numbers).ravel(), [4.0, 8.0, 64.0]]
    )
    for text in set(NUMBER.findall(found.words("answer"))) - known - counts - {"5"}:
        half = 0.5 * 10.0 ** -len(text.partition(".")[2]) * 1.0001
        assert np.abs(allowed - float(text)).min() <= half, text


def test_every_cell_of_a_table_is_a_row_of_the_summary(tmp_path: Path) -> None:
    frame = table()
    text = render(build(tmp_path, frame))
    body = text.partition('id="table-scaling-max_weight"')[2].partition("</table>")[0]
    cells = re.findall(r"<td[^>]*>([\d.e-]+) <small>(\([^<]*\))</small></td>", body)
    rows = frame[frame["metric"] == "max_weight"].sort_values(["d_k", "n_k", "scaling"])
    expected = [
        wording.format_estimate(Estimate(row["mean"], row["ci_low"], row["ci_high"]))
        for _, row in rows.iterrows()
    ]
    assert [" ".join(cell) for cell in cells] == expected


def test_exact_values_stand_beneath_the_means(tmp_path: Path) -> None:
    frame = table()
    assert "exact 0.5000</small>" not in render(build(tmp_path / "a", frame))
    frame["exact"] = frame["mean"]
    assert ") exact 0.5000</small>" in render(build(tmp_path / "b", frame))


@pytest.mark.parametrize(
    "frame",
    [
        table(arms=["off"]),
        table(arms=["quarter"]),
        table(n_k=[16]),
        table(n_k=[1]),
        table(d_k=[64]),
        table(seeds=1),
        table(arms=["inverse", "off", "on", "quarter"]),
        table(inputs=["gaussian", "planted"]),
    ],
    ids=["off", "custom", "one n_k", "n_k 1", "one d_k", "one seed", "arms", "laws"],
)
def test_odd_runs_have_a_report(tmp_path: Path, frame: pd.DataFrame) -> None:
    found = check(render(build(tmp_path, frame)))
    assert found.words("answer")
    if int(frame["n_seeds"].max()) == 1:
        assert "One seed, no interval." in found.words("figure-scaling-entropy")


def test_a_run_that_measures_none_of_the_answer_says_what_it_lacks(tmp_path: Path) -> None:
    found = check(render(build(tmp_path, table(arms=["quarter"]))))
    assert "This run does not measure" in found.words("answer")
    assert "no scale rule" in found.words("answer")


def test_a_run_without_figures_claims_and_provenance_has_a_report(tmp_path: Path) -> None:
    folder = build(tmp_path, table(), pictures=False)
    (folder / "claims.csv").unlink()
    (folder / "provenance.json").unlink()
    found = check(render(folder))
    assert "holds no claims.csv" in found.words("answer")


def test_large_grids_stay_compact(tmp_path: Path) -> None:
    frame = table(d_k=range(1, 25), n_k=range(2, 27), arms=["inverse", "off", "on"])
    text = render(build(tmp_path, frame, pictures=False))
    found = check(text)
    assert len(text) < 400_000
    assert "Shown: 16 of 24 values of" in found.words("tables")
    assert "10 of 25 series" in found.words("tables")


def test_what_comes_from_outside_is_escaped(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    frame = table()
    frame["scaling"] = frame["scaling"].replace({"on": evil})
    folder = build(tmp_path, frame)
    for name in ("config.yaml", "provenance.json"):
        path = folder / name
        content = path.read_text(encoding="utf-8").replace("mine", f"{evil} & ' onload='x")
        path.write_text(content if name != "config.yaml" else quoted(content), encoding="utf-8")
    text = render(folder)
    check(text)
    assert evil not in text
    assert "&lt;script&gt;" in text


def quoted(text: str) -> str:
    return re.sub(r"^name: (.*)$", lambda m: f"name: {json.dumps(m[1])}", text, flags=re.MULTILINE)


def add(path: Path, columns: tuple[Column, ...], *rows: dict[str, Any]) -> None:
    """Write a table whose rows have zeros, or nothing, in every cell that is not given."""
    usual = {c.name: "0" if c.read is str else c.read("0") for c in columns}
    atomic.write_atomically(path, tables.text([usual | row for row in rows], columns))


def test_a_figure_has_the_seeds_of_its_own_table(tmp_path: Path) -> None:
    folder = build(tmp_path, table())
    add(folder / "scaling/weights.csv", weights.COLUMNS, {"seed": 7})
    add(folder / "scaling/tails.csv", tails.COLUMNS, {"n_seeds": 3}, {"n_seeds": 5})
    found = check(render(folder))
    assert "One draw, seed 7." in found.words("figure-scaling-weights")
    assert "3 to 5 seeds." in found.words("figure-scaling-tails")
    assert "20 seeds." in found.words("figure-scaling-max_weight")
    described = [one["alt"] for one in found.all("img")]
    assert any(alt.startswith("The largest attention weight. ") for alt in described)
    assert all(alt.endswith(" seeds.") or "seed 7." in alt for alt in described)


SERIES = {"n_k": 16, "n_q": 8, "inputs": "gaussian", "dtype": "float64", "two_ln_n_k": 5.5452}
NONE = {"d_k": math.nan, "ci_low": math.nan, "ci_high": math.nan, "exact": math.nan}


def crossing(quantity: str, beyond: str = "", **numbers: Any) -> dict[str, Any]:
    return SERIES | NONE | {"quantity": quantity, "beyond": beyond} | numbers


def cells_of(text: str, name: str) -> list[list[str]]:
    """Return the cells of a table's body, row by row, including row headers."""
    body = text.partition(f'id="table-{name}"')[2].partition("</table>")[0].partition("</thead>")[2]
    rows = re.findall(r"<tr.*?</tr>", body, flags=re.DOTALL)
    cells = [re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row, flags=re.DOTALL) for row in rows]
    return [[bare(cell) for cell in row] for row in cells]


def test_crossings_are_numbers_with_intervals_or_words(tmp_path: Path) -> None:
    folder = build(tmp_path, table())
    add(
        folder / "scaling/crossings.csv",
        crossings.COLUMNS,
        crossing("half_entropy", d_k=7.04, ci_low=6.77, ci_high=7.25, exact=7.094),
        crossing("grad_logits_rms", "never", exact=8536.02),
        crossing("grad_logits_median", d_k=4.65),
        crossing("grad_q_rms", "never", exact=math.inf),
        crossing("grad_q_median", "always"),
        crossing("grad_k_median", "never"),
    )
    text = render(folder)
    check(text)
    assert cells_of(text, "scaling-crossings") == [
        ["half of the entropy gone", "7.0 (6.8 to 7.2) exact 7.094"],
        ["2 ln nk: all of the entropy gone, in the limit of many keys", "5.55"],
        ["gradient at the logits smaller"],
        ["root mean square", "none up to 1024 exact 8536"],
        ["median row", "4.65"],
        ["gradient at the queries smaller"],
        ["root mean square", "never none up to 1024"],
        ["median row", "already at 4"],
        ["gradient at the keys smaller"],
        ["root mean square", "undefined"],
        ["median row", "none up to 1024"],
    ]


def test_crossings_of_many_series_stay_compact(tmp_path: Path) -> None:
    folder = build(tmp_path, table(n_k=range(2, 42)))
    rows = [
        crossing("half_entropy", d_k=9.0, n_k=n_k, n_q=n_q, inputs=inputs, dtype=dtype)
        for n_k in range(2, 42)
        for n_q in (8, 16)
        for inputs in ("gaussian", "planted")
        for dtype in ("float64", "float32")
    ]
    add(folder / "scaling/crossings.csv", crossings.COLUMNS, *rows)
    text = render(folder)
    found = check(text)
    assert "Shown: 30 of 320 series." in found.words("table-scaling-crossings")
    assert plain("n_k = 2, n_q = 8, inputs = gaussian, dtype = float64") in found.words("tables")
    assert [len(row) for row in cells_of(text, "scaling-crossings")] == [31, 31]


def test_a_run_without_any_crossing_has_no_table_of_them(tmp_path: Path) -> None:
    folder = build(tmp_path / "a", table())
    add(folder / "scaling/crossings.csv", crossings.COLUMNS)
    assert "table-scaling-crossings" not in render(folder)
    # Nor has one that a folder keeps from an earlier run.
    fill(tmp_path / "b", "precision", *half())
    row = crossing("grad_q_rms", "never")
    add(tmp_path / "b/scaling/crossings.csv", crossings.COLUMNS, row)
    assert "table-scaling-crossings" not in render(tmp_path / "b")


def test_a_grid_of_d_k_1_alone_has_nothing_to_cross(tmp_path: Path) -> None:
    folder = build(tmp_path, table(d_k=[1]))
    add(folder / "scaling/crossings.csv", crossings.COLUMNS, crossing("grad_q_rms", "never"))
    assert ["root mean square", "none up to 1"] in cells_of(render(folder), "scaling-crossings")


def test_the_concept_check_follows_the_claims(tmp_path: Path) -> None:
    folder = build(tmp_path, table())
    first = "Short <answer>. Of two sentences."
    long = "A sentence with a number of 0.5 (0.4 to 0.6) in it. " * 5
    add(
        folder / "questions.csv",
        questions.COLUMNS,
        {"question": "Why d_k?", "answer": first, "figure": "scaling-entropy"},
        {"question": "What else?", "answer": long.strip(), "figure": "scaling-missing"},
    )
    text = render(folder)
    found = check(text)
    assert order(found, "answer", "claims", "questions", "figures")
    part = text.partition('<section id="questions"')[2].partition("</section>")[0]
    part = part.partition("<details")[2]
    paragraphs = [bare(p) for p in re.findall(r"<p>(.*?)</p>", part)]
    assert paragraphs == [first, *[plain(long[:52])] * 5]
    assert part.count('href="#figure-scaling-entropy"') == 1
    assert "scaling-missing" not in part
    assert {"href": "#questions"} in found.all("a")


def gated(z: float) -> pd.DataFrame:
    """Return a table in which every mean of a metric with theory is z standard errors off."""
    frame = table()
    known = frame["metric"].isin(["entropy_nats", "max_weight", "grad_q_rms"])
    frame.loc[known, "exact"] = frame.loc[known, "mean"]
    frame.loc[known, "z"] = z
    return frame


@pytest.mark.parametrize(("z", "verdict"), [(1.0, "passed"), (9.0, "not passed")])
def test_the_gate_stands_beside_the_answer(tmp_path: Path, z: float, verdict: str) -> None:
    frame = gated(z)
    found = check(render(build(tmp_path, frame)))
    gate = agreement.agreement_test(frame)
    (score,) = agreement.normal_scores(np.array([z]), np.array([20]))
    line = f"{gate.points} means at {gate.draws} combinations of sizes miss their exact values by "
    line += f"{score:.2f} standard errors in root mean square, where chance alone gives 1, and by "
    line += f"{score:.1f} at most, {verdict}."
    assert f"Measurement against theory: {line}" in found.words("answer")
    low, high = agreement.RMS_Z
    assert f"is between {low} and {high} and the largest" in found.words("method")
    assert f"below {agreement.MAX_ABS_Z}" in found.words("method")
    for metric in ("entropy_nats", "max_weight", "grad_q_rms"):
        assert metric in found.words("method").partition("an exact value: ")[2]


def test_a_gate_that_was_not_measured_says_so(tmp_path: Path) -> None:
    found = check(render(build(tmp_path, table())))
    assert "theory: not measured, no exact value with at least 20 seeds." in found.words("answer")
    assert "No mean of this run has an exact value." in found.words("method")


def test_rules_and_laws_are_those_of_the_configuration(tmp_path: Path) -> None:
    folder = build(tmp_path, table(inputs=["gaussian", "planted"]))
    path = folder / "config.yaml"
    settings = path.read_text(encoding="utf-8")
    more = "scale_rules:\n  qk: {rule: qk_norm, scale: 8}\n  cap: {rule: soft_cap, cap: null}\n"
    path.write_text(settings.replace("scale_rules:\n", more), encoding="utf-8")
    text = render(folder)
    check(text)
    laws = {row[0]: row[1:] for row in cells_of(text, "input_laws")}
    rules = {row[0]: row[1:] for row in cells_of(text, "scale_rules")}
    assert laws["planted"][:2] == ["planted", plain("cosine = 0.5")]
    assert laws["planted"][2].startswith("Give each query a match: ")
    assert rules["on"][:2] == ["power", plain("exponent = 0.5")]
    # A formula that is a class has its words there.
    assert "Cosine similarity of q and k times scale" in rules["qk"][2]
    assert rules["cap"][1] == plain("cap = none")


def half(
    *, n_q: tuple[int, ...] = (8,), rules: tuple[str, ...] = ("on",)
) -> tuple[dict[str, Any], pd.DataFrame]:
    """Settings and summary of an experiment without theory and with axes of its own."""
    settings: dict[str, Any] = {
        "d_k": [2, 64],
        "n_k": [16],
        "n_q": list(n_q),
        "inputs": {"gaussian": LAWS["gaussian"]},
        "input_sd": [1, 16, 64],
        "precision": ["float16", "bfloat16"],
        "order": ["before", "after"],
        "scaling": {name: RULES[name] for name in rules},
        "seed": list(range(4)),
    }
    axes = [c for c in summary.columns(precision.COLUMNS) if c.axis and c.name != "metric"]
    rows: list[dict[str, Any]] = []
    for values in itertools.product(*(settings[axis.name] for axis in axes)):
        at = dict(zip([axis.name for axis in axes], values, strict=True))
        mean = 0.5 if at["order"] == "after" and at["input_sd"] == 64 else 0.25
        for column in precision.COLUMNS:
            if not column.axis:
                numbers = {"mean": mean, "sd": 0.01, "median": mean, "n_seeds": 4}
                ends = {"ci_low": mean - 0.01, "ci_high": mean + 0.01}
                unknown = {"exact": math.nan, "z": math.nan}
                rows.append(at | {"metric": column.name} | numbers | ends | unknown)
    return settings, pd.DataFrame(rows)


def test_a_run_of_half_precision_alone_has_its_own_answer_method_and_table(tmp_path: Path) -> None:
    fill(tmp_path, "precision", *half())
    text = render(tmp_path)
    found = check(text)
    assert "The order matters in float16" in found.words("answer")
    method = found.words("method")
    assert "total variation distance" in method
    assert "chain rule" not in method
    assert "Crossings in" not in method
    head = text.partition('id="table-precision-weight_error"')[2].partition("</thead>")[0]
    names = [bare(x) for x in re.findall(r"<th [^>]*>(.*?)</th>", head)]
    both = [plain(f"order = {order}") for order in ("before", "after")]
    kinds = [plain(f"precision = {kind}") for kind in ("float16", "bfloat16")]
    assert names == ["dk", *kinds, *both, *both]
    one = ["0.25 (0.24 to 0.26)"] * 4
    two = ["0.25 (0.24 to 0.26)", "0.50 (0.49 to 0.51)"] * 2
    expected = []
    for sd, row in ((1, one), (16, one), (64, two)):
        expected += [[plain(f"input_sd = {sd}")], ["2", *row], ["64", *row]]
    assert cells_of(text, "precision-weight_error") == expected
    assert plain("At n_k = 16, n_q = 8, inputs = gaussian, scaling = on.") in found.words("tables")


def test_more_axes_than_fit_side_by_side_become_blocks(tmp_path: Path) -> None:
    fill(tmp_path, "precision", *half(n_q=(8, 16), rules=("off", "on")))
    found = check(render(tmp_path))
    assert plain("n_q = 16, input_sd = 64") in found.words("tables")
    assert plain("precision = float16, scaling = off") in found.words("tables")
    assert "Shown: 12 of 24 series." in found.words("tables")


def test_a_run_of_related_vectors_alone_explains_its_cells(tmp_path: Path) -> None:
    frame = table(n_k=[16], arms=["inverse", "off", "on"], inputs=["gaussian", "planted"])
    settings: dict[str, Any] = {
        "d_k": sorted(map(int, frame["d_k"].unique())),
        "n_k": [16],
        "n_q": [8],
        "d_v": 8,
        "inputs": LAWS,
        "dtype": ["float64"],
        "scaling": {name: RULES[name] for name in ("off", "on", "inverse")},
        "seed": list(range(20)),
    }
    fill(tmp_path, "related", settings, frame)
    text = render(tmp_path)
    found = check(text)
    for part in ("chain rule", "With a planted match"):
        assert part in found.words("method")
    assert "tails.csv" not in found.words("method")
    # In the order of the configuration, not of the alphabet.
    head = text.partition('id="table-related-max_weight"')[2].partition("</thead>")[0]
    assert re.findall(r"<th [^>]*>(\w+)</th>", head) == ["off", "on", "inverse"] * 2


def test_semicolons_and_colons_inside_of_a_series_are_no_end_of_it(tmp_path: Path) -> None:
    folder = build(tmp_path, table())
    path = folder / "claims.csv"
    rows = ledger_of(folder)
    row = next(row for row in rows if row["claim"] == "scores_grow")
    row["numbers"] = claims_claim.SERIES_SEPARATOR.join(
        ["n_k = 1: 2; 3: 4", "all: 5", "4 more series"]
    )
    atomic.write_atomically(path, tables.text(rows, claims_claim.COLUMNS))
    text = render(folder)
    part = text.partition('id="claim-scores_grow"')[2].partition("</details>")[0]
    lines = [bare(line) for line in re.findall(r"<li>(.*?)</li>", part)]
    assert lines == [plain("n_k = 1: 2; 3: 4"), "all: 5", "4 more series"]


def test_the_gate_is_its_claims_numbers_and_verdict() -> None:
    row = {"claim": "agreement", "experiment": "scaling", "condition": "", "numbers": "2 of 3; 4"}
    assert report_prose.gate([row | {"verdict": "true"}])["text"] == "2 of 3; 4, passed"
    assert report_prose.gate([row | {"verdict": "false"}])["text"] == "2 of 3; 4, not passed"
    assert report_prose.gate([]) == {}
    absent = {"verdict": "not measured", "condition": claims_ledger.absent("scaling")}
    assert report_prose.gate([row | absent]) == {}


def test_claims_without_their_experiment_stand_in_one_line(tmp_path: Path) -> None:
    fill(tmp_path, "precision", *half())
    found = check(render(tmp_path))
    said = found.words("claims")
    for experiment in ("scaling", "related"):
        assert said.count(f"the run has no experiment {experiment}") == 1
    assert "the run has no experiment" not in found.words("answer")
    ledger = ledger_of(tmp_path)
    assert len(ledger) == len(statements.claims_of(()))
    for row in ledger:
        assert plain(row["sentence"]) in said
    missing = sum(row["verdict"] == "not measured" for row in ledger)
    assert f"not measured {missing} of {len(ledger)}" in said


def test_tables_of_an_earlier_run_of_the_same_name_are_not_listed(tmp_path: Path) -> None:
    fill(tmp_path, "precision", *half())
    for name in ("scaling/runs.csv", "scaling/tails.csv", "related/summary.csv"):
        add(tmp_path / name, TABLES.get(name, tails.COLUMNS), {})
    text = render(tmp_path)
    listed = {row[0] for row in cells_of(text, "downloads")}
    assert listed == {"precision/summary.csv", "claims.csv", "config.yaml", "provenance.json"}
    assert "tails.csv" not in check(text).words("dictionary")


def test_a_summary_of_another_version_is_refused(tmp_path: Path) -> None:
    folder = build(tmp_path, table())
    path = folder / "scaling/summary.csv"
    path.write_text(path.read_text(encoding="utf-8").replace(",exact,z", ",z", 1), encoding="utf-8")
    with pytest.raises(tables.TableError, match="the columns of another version"):
        render(folder)


TABLES = {
    "scaling/runs.csv": scaling.COLUMNS,
    "scaling/exact.csv": exact_table.COLUMNS,
    "scaling/crossings.csv": crossings.COLUMNS,
    "scaling/tails.csv": tails.COLUMNS,
    "scaling/weights.csv": weights.COLUMNS,
    "questions.csv": questions.COLUMNS,
}


def test_dictionary_and_downloads_have_every_table(tmp_path: Path) -> None:
    folder = build(tmp_path, table())
    for path, columns in TABLES.items():
        add(folder / path, columns, {"quantity": "half_entropy"}, {"quantity": "grad_q_rms"})
    text = render(folder)
    found = check(text)
    known = TABLES | {
        "scaling/summary.csv": summary.columns(scaling.COLUMNS),
        "claims.csv": claims_claim.COLUMNS,
    }
    said = found.words("dictionary")
    for path, columns in known.items():
        assert path in said
        for column in columns:
            assert column.name in said
            assert plain(column.meaning) in said
    for key in scaling.CONFIG_KEYS:
        assert plain(key.meaning) in said
    files = {row[0]: row[1:] for row in cells_of(text, "downloads")}
    assert set(files) == {*known, "config.yaml", "provenance.json"}
    for path in TABLES:
        rows, size, what = files[path]
        assert rows == "2"
        assert re.fullmatch(r"[\d.]+ (bytes|kB)", size)
        assert what


def test_tables_with_the_same_columns_are_explained_once(tmp_path: Path) -> None:
    folder = build(tmp_path, table())
    path = folder / "config.yaml"
    settings = path.read_text(encoding="utf-8")
    path.write_text(
        settings.replace("[scaling]", "[encoder_decoder, score_width]"), encoding="utf-8"
    )
    assert "encoder_decoder/runs.csv, score_width/runs.csv" in check(render(folder)).words(
        "dictionary"
    )


def test_the_same_folder_gives_the_same_page(tmp_path: Path) -> None:
    folder = build(tmp_path, table())
    first = render(folder)
    assert command(tmp_path, "sqrtdk.report", folder).returncode == 0
    assert (folder / "report.html").read_text(encoding="utf-8") == first


def test_a_drawing_too_large_for_the_page_is_shown_as_a_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = build(tmp_path, table())
    png = b"\x89PNG\r\n\x1a\n" + bytes(8) + struct.pack(">II", 1500, 750)
    (folder / "figures" / "scaling-entropy.png").write_bytes(png)
    (folder / "figures" / "scaling-entropy.svg").write_text(SVG + " " * 5000, encoding="utf-8")
    monkeypatch.setattr(gallery, "LARGEST", 5000)
    image = check(render(folder)).all("img")[0]
    assert image["alt"].startswith("Entropy of the attention weights. ")
    assert (image["width"], image["height"]) == ("960", "480")
    with pytest.raises(ValueError, match="T is not a PNG"):
        svg.raster(b"", title="T", description="")


def picture(text: str = SVG) -> str:
    return str(svg.embed(text, title="T <1>", description='D "quoted"'))


def shown_svg(text: str) -> str:
    """Return the drawing that an image of the page holds, as a browser decodes it."""
    (image,) = Page(text).all("img")
    kind, _, data = image["src"].partition(",")
    assert kind == "data:image/svg+xml"
    return unquote(data)


def test_a_picture_is_one_image_whatever_its_file_holds() -> None:
    # Scripts of an image do not run and it loads nothing; all that matters is that it stays one.
    found = Page(picture())
    assert [tag for tag, _ in found.elements] == ["img"]
    (image,) = found.all("img")
    assert image["alt"] == 'T <1>. D "quoted"'
    assert (image["width"], image["height"]) == ("576", "288")
    assert set(image) == {"class", "alt", "width", "height", "loading", "decoding", "src"}


def test_a_picture_is_drawn_as_its_file_is() -> None:
    drawn = ElementTree.fromstring(shown_svg(picture()))
    original = ElementTree.fromstring(SVG)
    assert drawn.attrib == original.attrib
    # What could act or load elsewhere is not in it.
    for gone in ("script", "onclick", "foreignObject", "metadata", "example.org"):
        assert gone in SVG
        assert gone not in shown_svg(picture())
    for tag in ("use", "path", "rect", "text"):
        name = f"{{http://www.w3.org/2000/svg}}{tag}"
        assert [x.text for x in drawn.iter(name)] == [x.text for x in original.iter(name)]
    for hard in ("100%", "a#b", "it's", 'a "b"', "a&amp;b"):
        text = SVG.replace("a &lt; b", hard)
        words = [x.text for x in ElementTree.fromstring(shown_svg(picture(text))).iter()]
        assert html.unescape(hard) in words


def test_ink_and_grid_follow_the_readers_colour_scheme() -> None:
    found = shown_svg(picture())
    assert "fill: var(--ink)" in found
    assert "stroke: var(--rule)" in found
    light, dark = found.partition("<style>")[2].partition("</style>")[0].split("@media")
    assert "--ink:#222222" in light
    assert "prefers-color-scheme:dark" in dark
    assert "--ink:#e6e4df" in dark


@pytest.mark.parametrize("text", ["no picture", "<html></html>"])
def test_what_is_no_svg_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an SVG"):
        picture(text)


def test_a_caption_is_a_title_and_paragraphs(tmp_path: Path) -> None:
    path = tmp_path / "scaling-entropy.rst"
    path.write_text("Title\n=====\n\nOne\nline of ``d_k``.\n\nTwo.\n", encoding="utf-8")
    assert read_caption(path, "") == ("Title", ["One line of d_k.", "Two."])
    missing = read_caption(tmp_path / "none.rst", "scaling-max_weight")
    assert missing == ("scaling: max weight", [])


@pytest.mark.parametrize("stem", STEMS)
def test_every_figure_has_a_caption(stem: str) -> None:
    captions = Path(svg.__file__).parents[1] / "experiments" / stem.split("-")[0] / "captions"
    shown, *folded = read_caption(captions / f"{stem}.rst", stem).paragraphs
    # The page shows the first paragraph, and folds the others.
    assert len(re.findall(r"[.?!](?= [A-Z]|$)", shown)) <= 2
    assert len(folded) <= 1


def test_formulas_of_the_methods_are_mathml() -> None:
    for path in (Path(svg.__file__).parents[1] / "experiments").glob("*/method.html.j2"):
        lines = path.read_text(encoding="utf-8").splitlines()
        formulas = [line for line in lines if 'class="formula"' in line]
        assert [line for line in formulas if "| tex(display=true)" not in line] == [], path


def test_contrast_of_text_is_at_least_aa() -> None:
    css = (Path(svg.__file__).parent / "templates/page.css").read_text(encoding="utf-8")
    light, dark = (dict(re.findall(r"--([\w-]+): (#\w{6})", part)) for part in blocks(css))
    for colors in (light, dark):
        texts = set(colors) - {"paper", "rule", "faint"}
        assert texts >= {"ink", "soft", "link", "true", "condition", "false", "open"}
        for name in texts:
            for ground in ("paper", "faint") if name in ("ink", "soft") else ("paper",):
                assert contrast(colors[name], colors[ground]) >= 4.5, name


def blocks(css: str) -> tuple[str, str]:
    first, second = css.split("prefers-color-scheme: dark", 1)
    return first, second.partition("}")[0]


def contrast(one: str, two: str) -> float:
    """Return the contrast ratio of two colours, WCAG 2.1."""
    a, b = sorted((luminance(one), luminance(two)))
    return (b + 0.05) / (a + 0.05)


def luminance(color: str) -> float:
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [x / 12.92 if x <= 0.03928 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return math.fsum(w * x for w, x in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def lookups() -> tuple[dict[str, Any], pd.DataFrame]:
    """Settings and summary of training with readers; of five seeds two never reach 90 % once."""
    settings: dict[str, Any] = {
        "d_k": [64], "length": [2, 16], "hidden": [32], "learning_rate": [0.01],
        "reader": ["fixed", "dot"], "seed": list(range(5)), "steps": 20, "batch": 4,
        "log_every": 10, "check_every": 10, "training_dtype": "float64",
    }  # fmt: skip
    rows: list[dict[str, Any]] = []
    for length, reader, step in itertools.product((2, 16), ("fixed", "dot"), (0, 10, 20)):
        at = {
            "d_k": 64, "length": length, "hidden": 32, "learning_rate": 0.01, "reader": reader,
            "step": step,
        }  # fmt: skip
        found = {"accuracy": step / 20, "unasked_accuracy": 0.25, "reached_90": 1.0}
        found |= {"steps_to_90": 10.0} if step == 20 else {}
        for metric, mean in found.items():
            late = metric == "steps_to_90" and (length, reader) == (16, "fixed")
            numbers = {"n_seeds": 3 if late else 5, "mean": mean, "sd": 0.1, "median": mean}
            ends = {"ci_low": mean - 0.01, "ci_high": mean + 0.01, "exact": math.nan}
            rows.append(at | {"metric": metric} | numbers | ends | {"z": math.nan})
    return settings, pd.DataFrame(rows)


def test_training_is_tabulated_at_its_last_step_against_the_length_of_the_source(
    tmp_path: Path,
) -> None:
    settings, frame = lookups()
    fill(tmp_path, "encoder_decoder", settings, frame)
    text = render(tmp_path)
    check(text)
    head = text.partition('id="table-encoder_decoder-accuracy"')[2].partition("</thead>")[0]
    names = [bare(x) for x in re.findall(r"<th [^>]*>(.*?)</th>", head)]
    assert names == ["length", "fixed", "dot"]
    end = "1.00 (0.99 to 1.01)"
    assert cells_of(text, "encoder_decoder-accuracy") == [["2", end, end], ["16", end, end]]


def test_a_number_that_some_seeds_do_not_have_says_how_many_have_it(tmp_path: Path) -> None:
    settings, frame = lookups()
    fill(tmp_path, "encoder_decoder", settings, frame)
    steps = "10.000 (9.990 to 10.010)"
    assert cells_of(render(tmp_path), "encoder_decoder-steps_to_90") == [
        ["2", steps, steps], ["16", f"{steps} 3 of 5 seeds", steps]
    ]  # fmt: skip
    rows = frame.astype(str).to_dict("records")
    assert gallery.seeds(rows) == "5 seeds."


def test_a_run_without_scale_rules_can_be_read_back(tmp_path: Path) -> None:
    settings, frame = lookups()
    fill(tmp_path, "encoder_decoder", settings, frame)
    run = resolve.load(tmp_path / "config.yaml")
    assert run.settings["encoder_decoder"] == settings


def test_a_block_has_the_distances_that_its_sources_have_and_only_some_of_many(
    tmp_path: Path,
) -> None:
    settings, _ = lookups()
    settings["length"] = [2, 4, 16]
    del settings["log_every"], settings["check_every"]
    rows: list[dict[str, Any]] = []
    for length, reader, stage in itertools.product(
        (2, 4, 16), ("fixed", "dot"), ("initial", "trained")
    ):
        for distance, metric in itertools.product(range(length), ("jacobian_norm", "accuracy")):
            at = {
                "d_k": 64, "length": length, "hidden": 32, "learning_rate": 0.01,
                "reader": reader, "stage": stage, "distance": distance, "metric": metric,
            }  # fmt: skip
            numbers = {"n_seeds": 5, "mean": 0.5, "sd": 0.1, "median": 0.5, "ci_low": 0.4}
            rows.append(at | numbers | {"ci_high": 0.6, "exact": math.nan, "z": math.nan})
    fill(tmp_path, "reach", settings, pd.DataFrame(rows))
    text = render(tmp_path)
    check(text)
    first = [row[0] for row in cells_of(text, "reach-accuracy")]
    two, four, many = (plain(f"length = {length}") for length in (2, 4, 16))
    assert first[:8] == [two, "0", "1", four, "0", "1", "2", "3"]
    assert first[8:] == [many, "0", "3", "6", "9", "12", "15"]
    assert "Shown: 6 of 16 values of distance." in text


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_row_is_said_to_be_a_cell_where_cells_have_one(name: str) -> None:
    module = EXPERIMENTS[name]
    keys = {key.name for key in module.config_keys if key.axis}
    more = {column.name for column in module.columns if column.axis} - keys
    note = dictionary.known([name])[f"{name}/runs.csv"].note
    assert (note == "One row per cell.") == (not more)
    assert note == module.row


@pytest.mark.parametrize("name", [x for x, one in EXPERIMENTS.items() if one.summarised])
def test_the_dictionary_says_which_table_of_exact_values_has_no_rows(name: str) -> None:
    note = dictionary.known([name])[f"{name}/exact.csv"].note
    assert note.startswith("Has no rows") != EXPERIMENTS[name].has_exact
