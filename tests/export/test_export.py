"""A run for other places: report.md, ro-crate-metadata.json and codemeta.json."""

import hashlib
import html
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT, Run

from sqrtdk.claims import claim
from sqrtdk.export import citation, markdown
from sqrtdk.jobs import export, showcase
from sqrtdk.report.dictionary import read_rows


@pytest.fixture
def exported(smoke: Path, tmp_path: Path, in_process: Callable[..., Run]) -> Path:
    folder = tmp_path / "smoke"
    shutil.copytree(smoke / "results/smoke", folder)
    done = in_process(export, folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_crate_lists_every_file_once_and_each_is_there(exported: Path) -> None:
    found = json.loads((exported / "ro-crate-metadata.json").read_text(encoding="utf-8"))
    graph: dict[str, Any] = {entity["@id"]: entity for entity in found["@graph"]}
    assert len(graph) == len(found["@graph"])
    parts = [part["@id"] for part in graph["./"]["hasPart"]]
    assert all((exported / part).exists() for part in parts)
    tables = {path.relative_to(exported).as_posix() for path in exported.rglob("*.csv")}
    assert tables <= set(parts)
    # Everything that is referred to inside of the crate is described.
    links = set(re.findall(r'"@id": "([^"]+)"', json.dumps(found)))
    assert {link for link in links if "://" not in link} <= set(graph)
    (action,) = (x for x in graph.values() if x["@type"] == "CreateAction")
    record = json.loads((exported / "provenance.json").read_text(encoding="utf-8"))
    assert action["name"] == record["command"]
    path = "scaling/runs.csv"
    assert graph[path]["sha256"] == hashlib.sha256((exported / path).read_bytes()).hexdigest()
    assert (exported / "workflow/Snakefile").read_bytes() == (ROOT / "Snakefile").read_bytes()


def test_codemeta_says_what_the_citation_and_the_provenance_say(exported: Path) -> None:
    found = json.loads((exported / "codemeta.json").read_text(encoding="utf-8"))
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    record = json.loads((exported / "provenance.json").read_text(encoding="utf-8"))
    assert found["license"].endswith(f"/{cited['license']}")
    assert found["headline"] == cited["title"]
    versions = {one["name"]: one["version"] for one in found["softwareRequirements"]}
    assert versions == record["packages"]


def test_the_page_has_a_row_for_each_verdict_and_links_that_lead_somewhere(exported: Path) -> None:
    text = (exported / "report.md").read_text(encoding="utf-8")
    rows = read_rows(exported / "claims.csv", claim.COLUMNS)
    measured = [row for row in rows if row["verdict"] != claim.NOT_MEASURED or row["numbers"]]
    table = [line for line in text.splitlines() if line.startswith("| ")]
    # One line more, the head.
    assert len(table) == len(measured) + 1
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in table} == {6}
    headings = {markdown.anchor(line[4:]) for line in text.splitlines() if line.startswith("### ")}
    for link in re.findall(r"\]\(([^)]+)\)", text):
        assert link[1:] in headings if link.startswith("#") else (exported / link).is_file()


def test_the_page_opens_like_the_report(exported: Path) -> None:
    opening = (exported / "report.md").read_text(encoding="utf-8").partition("## ")[0]
    page = (exported / "report.html").read_text(encoding="utf-8")
    leads = re.findall(r'<p class="lead">(.*?)</p>', page)
    assert leads
    plain = re.sub(r"[\\_*]", "", html.unescape(opening))
    for lead in leads:
        # The page writes d_k with a subscript.
        words = html.unescape(re.sub(r"<[^>]+>", "", lead))
        assert " ".join(words.replace("_", "").split()) in plain


def test_a_page_of_some_figures_has_no_other(smoke: Path) -> None:
    text = markdown.render(smoke / "results/smoke", figures=["scaling-entropy"])
    assert re.findall(r"\(figures/([^)]*)\)", text) == ["scaling-entropy.png"]
    assert set(re.findall(r"\(#([^)]*)\)", text)) == {"scaling-entropy"}


def test_the_authors_are_those_of_the_citation() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert len(citation.read().authors) == len(cited["authors"])
    assert all(citation.read().authors)


def test_the_showcase_has_its_page_and_figures_and_is_small(
    smoke: Path, tmp_path: Path, in_process: Callable[..., Run]
) -> None:
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures/old.png").touch()
    done = in_process(showcase, smoke / "results/smoke", tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "index.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\(figures/([^)]*)\)", text))
    assert linked == {path.name for path in (tmp_path / "figures").iterdir()}
    assert linked == {f"{stem}.png" for stem in showcase.FIGURES}


def test_the_committed_showcase_is_complete_and_below_a_megabyte() -> None:
    folder = ROOT / "docs/report"
    text = (folder / "index.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\(figures/([^)]*)\)", text))
    assert linked == {path.name for path in (folder / "figures").iterdir()}
    assert sum(path.stat().st_size for path in folder.rglob("*.*")) < 1_000_000
