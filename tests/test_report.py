import html
import json
import math
import re
import struct
import subprocess
import sys
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from test_claims import LAWS, RULES, table

from sqrtdk import claims, config, estimates, examples, summary, tables
from sqrtdk.estimates import Estimate
from sqrtdk.experiments import scaling
from sqrtdk.figures import FIGURES
from sqrtdk.keys import Column
from sqrtdk.report import page, svg
from sqrtdk.report.page import prose, read_caption, render

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
    """A page as a browser reads it: elements balanced, with their attributes and text."""

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


def build(
    folder: Path, frame: pd.DataFrame, *, pictures: bool = True, drop: tuple[str, ...] = ()
) -> Path:
    """A run's folder with the tables of a frame, its ledger, and placeholder figures."""
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
    run = config.Run("mine", 50, {"scaling": settings})
    rows = claims.ledger(run, {"scaling": frame})
    columns = [c for c in summary.columns(scaling.COLUMNS) if c.name not in drop]
    write(folder / "scaling" / "summary.csv", frame, columns)
    tables.write_atomically(folder / "claims.csv", tables.text(rows, claims.COLUMNS))
    tables.write_atomically(folder / "config.yaml", run.to_yaml())
    record = {
        "command": "snakemake --config name=mine",
        "sqrtdk": "0.1.0",
        "time_utc": "2030-01-02T",
    }
    record |= {"code": {"revision": "v1", "commit": "c0ffee", "changed": True}}  # type: ignore[dict-item]
    tables.write_atomically(folder / "provenance.json", json.dumps(record))
    for stem in STEMS if pictures else ():
        tables.write_atomically(folder / "figures" / f"{stem}.svg", SVG)
        tables.write_atomically(folder / "figures" / f"{stem}.png", b"")
    return folder


def write(path: Path, frame: pd.DataFrame, columns: list[Column]) -> None:
    rows = [{str(k): v for k, v in row.items()} for row in frame.to_dict("records")]
    tables.write_atomically(path, tables.text(rows, columns))


def check(text: str) -> Page:
    """What holds for every report, whatever the run."""
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
            assert not re.search(r"(https?:)?//", " ".join(values.values())), values
        if tag == "img":
            assert attributes["src"].startswith("data:image/png;base64,")
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
        assert {"href": f"figures/{stem}.svg"} in found.all("a")
        assert {"href": f"figures/{stem}.png"} in found.all("a")
    pictures = [one for one in found.all("svg") if one.get("role") == "img"]
    assert len(pictures) == len(STEMS)
    assert "Lines are means over 20 seeds" in found.words("figure-scaling-entropy")


def test_the_answer_comes_first_and_every_claim_has_a_verdict(tmp_path: Path) -> None:
    folder = build(tmp_path, table())
    found = check(render(folder))
    sections = [a["id"] for a in found.all("section")]
    assert sections[:4] == ["answer", "claims", "figures", "tables"]
    ledger = ledger_of(folder)
    for row in ledger:
        words = found.words(f"claim-{row['claim']}")
        assert row["verdict"] in words
        assert plain(row["rule"]) in words
        assert plain(row["answer"]) in words
    answer = found.words("answer")
    for claim in ("saturation", "stable", "gradients_rms", "from_64"):
        row = next(row for row in ledger if row["claim"] == claim)
        assert plain(row["answer"]) in answer


def ledger_of(folder: Path) -> list[dict[str, str]]:
    frame = pd.read_csv(folder / "claims.csv", dtype=str, keep_default_na=False)
    return [{str(k): str(v) for k, v in row.items()} for row in frame.to_dict("records")]


def plain(text: str) -> str:
    """Text as the page's words have it: d_k is set as an index, and some spaces do not break."""
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", "", str(prose(text))))).strip()


NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e-?\d+)?(?![\w.]*\d)")


def test_every_number_of_answer_and_claims_is_in_a_table(tmp_path: Path) -> None:
    folder = build(tmp_path, table())
    found = check(render(folder))
    ledger = (folder / "claims.csv").read_text(encoding="utf-8")
    known = set(NUMBER.findall(ledger)) | set(
        NUMBER.findall((folder / "config.yaml").read_text(encoding="utf-8"))
    )
    counts = {str(n) for n in range(len(claims.CLAIMS) + 1)} | {"95"}
    shown = found.words("answer") + found.words("claims")
    # How many values an axis has is a count of the configuration.
    assert set(NUMBER.findall(shown)) <= known | counts | {"6"}


def test_every_cell_of_a_table_is_a_row_of_the_summary(tmp_path: Path) -> None:
    frame = table()
    text = render(build(tmp_path, frame))
    body = text.partition('id="table-scaling-max_weight"')[2].partition("</table>")[0]
    cells = re.findall(r"<td[^>]*>([\d.e-]+) <small>(\([^<]*\))</small></td>", body)
    rows = frame[frame["metric"] == "max_weight"].sort_values(["d_k", "n_k", "scaling"])
    expected = [
        estimates.estimate(Estimate(row["mean"], row["ci_low"], row["ci_high"]))
        for _, row in rows.iterrows()
    ]
    assert [" ".join(cell) for cell in cells] == expected


def test_exact_values_stand_beneath_the_means(tmp_path: Path) -> None:
    frame = table()
    assert "<small>exact " not in render(build(tmp_path / "a", frame))
    frame["exact"] = frame["mean"]
    assert "<small>exact 0.5</small>" in render(build(tmp_path / "b", frame)).replace(
        "0.5000", "0.5"
    )


@pytest.mark.parametrize(
    ("frame", "drop"),
    [
        (table(arms=["off"]), ()),
        (table(arms=["quarter"]), ()),
        (table(n_k=[16]), ()),
        (table(n_k=[1]), ()),
        (table(d_k=[64]), ()),
        (table(seeds=1), ()),
        (table(arms=["inverse", "off", "on", "quarter"]), ()),
        (table(inputs=["gaussian", "planted"]), ()),
        (table(), ("exact", "z", "sd", "ci_low", "ci_high")),
    ],
    ids=["off", "custom", "one n_k", "n_k 1", "one d_k", "one seed", "arms", "laws", "columns"],
)
def test_odd_runs_have_a_report(tmp_path: Path, frame: pd.DataFrame, drop: tuple[str, ...]) -> None:
    found = check(render(build(tmp_path, frame, drop=drop)))
    assert found.words("answer")
    if int(frame["n_seeds"].max()) == 1:
        assert "One seed: there is no interval." in found.words("figure-scaling-entropy")


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
    frame = table(d_k=range(1, 25), n_k=range(2, 42), arms=["inverse", "off", "on"])
    text = render(build(tmp_path, frame, pictures=False))
    found = check(text)
    assert len(text) < 400_000
    assert "Shown: 16 of 24 values of" in found.words("tables")
    assert "10 of 40 series" in found.words("tables")


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


def test_the_note_of_real_weights_names_the_draw(tmp_path: Path) -> None:
    folder = build(tmp_path, table())
    row = dict.fromkeys((column.name for column in examples.COLUMNS), 0) | {"seed": 7}
    text = tables.text([row], examples.COLUMNS)
    tables.write_atomically(folder / "scaling" / "weights.csv", text)
    found = check(render(folder))
    assert "One draw, seed 7: not an average." in found.words("figure-scaling-weights")
    assert "scaling/weights.csv" in found.words("downloads")


def test_the_dictionary_has_every_column(tmp_path: Path) -> None:
    found = check(render(build(tmp_path, table())))
    words = found.words("dictionary")
    for column in (*scaling.COLUMNS, *summary.STATISTICS, *claims.COLUMNS):
        assert column.name in words
        assert plain(column.meaning) in words
    for key in scaling.KEYS:
        assert plain(key.meaning) in words


def test_the_same_folder_gives_the_same_page(tmp_path: Path) -> None:
    folder = build(tmp_path, table())
    first = render(folder)
    subprocess.run([sys.executable, "-m", "sqrtdk.report", str(folder)], check=True)
    assert (folder / "report.html").read_text(encoding="utf-8") == first


def test_a_drawing_too_large_for_the_page_is_shown_as_a_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = build(tmp_path, table())
    png = b"\x89PNG\r\n\x1a\n" + bytes(8) + struct.pack(">II", 1500, 750)
    (folder / "figures" / "scaling-entropy.png").write_bytes(png)
    (folder / "figures" / "scaling-entropy.svg").write_text(SVG + " " * 5000, encoding="utf-8")
    monkeypatch.setattr(page, "LARGEST", 5000)
    (image,) = check(render(folder)).all("img")
    assert image["alt"].startswith("Entropy of the attention weights. ")
    assert image["style"] == "--natural: 960px; aspect-ratio: 960 / 480"
    with pytest.raises(ValueError, match="T is not a PNG"):
        svg.raster(b"", title="T", description="")


def picture(text: str = SVG, prefix: str = "a") -> str:
    return str(svg.inline(text, prefix=prefix, title="T <1>", description="D"))


def test_a_picture_keeps_what_it_shows_and_nothing_that_acts_or_loads() -> None:
    found = picture()
    for gone in (
        "<script",
        "alert",
        "foreignObject",
        "onclick",
        "example.org",
        "metadata",
        "<style",
        "DTD",
    ):
        assert gone not in found
    for kept in ("data:image/png;base64,iVBORw0KGgo=", "a &lt; b", "clip-path", "T &lt;1&gt;"):
        assert kept in found
    assert 'viewBox="0 0 432 216"' in found
    assert "--natural: 576px" in found


def test_ids_of_two_pictures_do_not_meet() -> None:
    both = [set(re.findall(r'\bid="([^"]*)"', picture(prefix=prefix))) for prefix in ("a", "b")]
    assert not both[0] & both[1]
    assert 'href="#a-DejaVuSans-6f"' in picture()
    assert 'clip-path="url(#a-p1)"' in picture()


def test_ink_and_grid_follow_the_page() -> None:
    found = picture()
    assert "fill: var(--ink)" in found
    assert "stroke: var(--rule)" in found
    assert "#222222" not in found


@pytest.mark.parametrize("text", ["no picture", "<html></html>"])
def test_what_is_no_svg_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a is not an SVG"):
        picture(text)


def test_a_caption_is_a_title_and_paragraphs(tmp_path: Path) -> None:
    path = tmp_path / "scaling-entropy.rst"
    path.write_text("Title\n=====\n\nOne\nline of ``d_k``.\n\nTwo.\n", encoding="utf-8")
    assert read_caption(path, "") == ("Title", ["One line of d_k.", "Two."])
    missing = read_caption(tmp_path / "none.rst", "scaling-max_weight")
    assert missing == ("scaling: max weight", [])


@pytest.mark.parametrize("stem", STEMS)
def test_every_figure_has_a_caption(stem: str) -> None:
    captions = Path(svg.__file__).parent / "captions"
    assert read_caption(captions / f"{stem}.rst", stem).paragraphs


def test_contrast_of_text_is_at_least_aa() -> None:
    css = (Path(svg.__file__).parent / "page.css").read_text(encoding="utf-8")
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
    """Contrast ratio of two colours, WCAG 2.1."""
    a, b = sorted((luminance(one), luminance(two)))
    return (b + 0.05) / (a + 0.05)


def luminance(color: str) -> float:
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [x / 12.92 if x <= 0.03928 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return math.fsum(w * x for w, x in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
