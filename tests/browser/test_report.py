"""The report in a real browser: Debian's Chromium, without a network."""

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT

from sqrtdk.claims import claim
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.report.dictionary import read_rows
from sqrtdk.report.page import render
from sqrtdk.storage import guards, tables

IN_CI = bool(os.environ.get("CI"))

SCHEMES = ("light", "dark")

WIDTHS = (320, 390, 800, 1400)
"""Pixels: the narrowest phone, a usual one, a tablet, a laptop."""

SCREENSHOTS = ROOT / ".cache" / "screenshots"
"""Pictures for a person to look at, which git ignores."""

MOST_BYTES = 2_000_000
MOST_NODES = 15_000
MOST_PAGES = 25
MOST_INCOMPLETE = 10


def absent(reason: str) -> None:
    """Skip by name, but fail where the checks must not be left out."""
    if IN_CI:
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def folder(request: pytest.FixtureRequest) -> Path:
    """In CI the run of the main job, elsewhere the session's smoke run."""
    default = ROOT / "results/default"
    if IN_CI and (default / "report.html").is_file():
        return default
    smoke: Path = request.getfixturevalue("smoke")
    return smoke / "results/smoke"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One browser for all tests."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        absent("Playwright is not installed: uv sync --group browser")
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        absent("Chromium is not installed: apt-get install chromium")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=found,
            # A container has no user namespaces, and little shared memory.
            args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
        )
        yield launched
        launched.close()


@dataclass
class Opened:
    """A page, with what it wrote to the console and what it asked for."""

    page: Any
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


@pytest.fixture(scope="module", params=SCHEMES)
def opened(request: pytest.FixtureRequest, browser: Any, folder: Path) -> Iterator[Opened]:
    """The report in one colour scheme, opened once for all tests of the scheme."""
    context = browser.new_context(
        offline=True, color_scheme=request.param, viewport={"width": 1400, "height": 900}
    )
    found = Opened(context.new_page())
    found.page.on("console", lambda message: found.said.append(message.text))
    found.page.on("pageerror", lambda error: found.said.append(str(error)))
    found.page.on("request", lambda asked: found.asked.append(asked.url))
    found.page.goto((folder / "report.html").as_uri())
    yield found
    context.close()


@pytest.fixture
def page(opened: Opened) -> Any:
    return opened.page


def test_the_report_says_nothing_on_the_console_and_asks_for_nothing(
    opened: Opened, folder: Path
) -> None:
    assert opened.said == []
    # Pictures inside of the page are data: addresses, which ask nobody.
    others = [url for url in opened.asked if not url.startswith("data:")]
    assert others == [(folder / "report.html").as_uri()]


def test_every_link_inside_the_page_leads_to_one_place(page: Any) -> None:
    dead = page.evaluate(
        """() => [...document.querySelectorAll('a[href^="#"]')]
            .map(link => decodeURIComponent(link.getAttribute('href').slice(1)))
            .filter(id => document.querySelectorAll('#' + CSS.escape(id)).length !== 1)"""
    )
    assert dead == []


def test_a_link_to_something_folded_shows_it(page: Any) -> None:
    """A reader who follows a link, or gets one by mail, sees its target."""
    hidden = page.evaluate(
        """() => [...new Set([...document.querySelectorAll('a[href^="#"]')]
            .map(link => link.getAttribute('href')))].filter(href => {
                location.hash = href;
                const target = document.getElementById(decodeURIComponent(href.slice(1)));
                return target && target.getClientRects().length === 0;
            })"""
    )
    assert hidden == []


def test_downloads_are_the_tables_of_the_run(page: Any, folder: Path) -> None:
    links = page.eval_on_selector_all(
        "a[href]", "links => links.map(link => link.getAttribute('href'))"
    )
    files = {x for x in links if not x.startswith(("#", "http:", "https:", "mailto:"))}
    assert {"claims.csv", "config.yaml", "provenance.json"} <= files
    tables = {path.relative_to(folder).as_posix() for path in folder.glob("*/*.csv")}
    assert {x for x in files if x.endswith(".csv")} - {"claims.csv", "questions.csv"} <= tables
    missing = [name for name in files if not (folder / name).is_file()]
    assert missing == []


def test_a_download_has_the_bytes_of_its_table(browser: Any, folder: Path) -> None:
    context = browser.new_context(offline=True, accept_downloads=True)
    page = context.new_page()
    page.goto((folder / "report.html").as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    with page.expect_download() as download:
        page.locator('a[href="claims.csv"][download], a[href="claims.csv"]').first.click()
    assert Path(download.value.path()).read_bytes() == (folder / "claims.csv").read_bytes()
    context.close()


def shown(page: Any) -> list[str]:
    """Return the classes of the panels of the interactive figure that are visible."""
    found: list[str] = page.eval_on_selector_all(
        ".play .panel",
        "all => all.filter(one => one.getClientRects().length).map(one => one.className)",
    )
    return found


def test_the_figure_asks_for_a_guess_first_and_answers_it(page: Any) -> None:
    assert page.locator(".play .reply:visible").count() == 0
    assert page.locator(".play input[name=d_k]:visible").count() == 0
    page.locator(".play input[name=guess]").first.check()
    assert page.locator(".play .reply:visible").count() == 1
    assert page.locator(".play input[name=d_k]:visible").count() > 1


def test_the_figure_follows_the_mouse(page: Any) -> None:
    page.locator(".play input[name=guess]").last.check()
    choices = page.locator(".play input[name=d_k]")
    seen = []
    for place in range(choices.count()):
        choice = choices.nth(place)
        choice.check()
        panels = shown(page)
        assert len(panels) == 1
        assert f"d{choice.get_attribute('value')}" in panels[0].split()
        seen.append(page.locator(".play .panel:visible").first.inner_text())
    # Every width has numbers of its own.
    assert len(set(seen)) == len(seen) > 1


def test_the_figure_follows_the_keyboard(page: Any) -> None:
    page.locator(".play input[name=guess]").last.check()
    choices = page.locator(".play input[name=d_k]")
    choices.first.check()
    choices.first.focus()
    before = shown(page)
    page.keyboard.press("ArrowRight")
    value = page.evaluate("document.activeElement.value")
    assert page.evaluate("document.activeElement.name") == "d_k"
    assert shown(page) != before
    assert f"d{value}" in shown(page)[0].split()


LEAVE_TWO_ALIKE = """() => {
    const seen = new Map();
    const look = one => {
        let chain = "";
        for (; one; one = one.parentElement)
            chain += one.tagName + ["class", "style", "fill"].map(name => one.getAttribute(name));
        return chain;
    };
    for (const one of document.querySelectorAll("body *")) {
        if (one.children.length) continue;
        const its = look(one), before = seen.get(its) || 0;
        seen.set(its, before + 1);
        if (before > 1) one.remove();
    }
}"""
"""Removes elements without parts that look like two others: by their classes, styles and colours,
and by those of all that they are in."""


def test_the_report_is_accessible(opened: Opened, folder: Path) -> None:
    from axe_playwright_python.sync_playwright import Axe

    # The check of colours takes most of the time, so it looks at few elements that look alike.
    colours = ["color-contrast", "link-in-text-block"]
    few = opened.page.context.new_page()
    few.goto((folder / "report.html").as_uri())
    few.evaluate(LEAVE_TWO_ALIKE)
    asked = [(few, {"runOnly": {"type": "rule", "values": colours}})]
    if not is_dark(few):
        # The page is the same in both schemes but for its colours.
        asked.append((opened.page, {"rules": {name: {"enabled": False} for name in colours}}))
    incomplete: dict[str, int] = {}
    for page, options in asked:
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        options["resultTypes"] = ["violations", "incomplete"]
        found = Axe().run(page, options=options).response
        violations = {
            one["id"]: [node["target"] for node in one["nodes"]][:3] for one in found["violations"]
        }
        assert violations == {}
        incomplete |= {one["id"]: len(one["nodes"]) for one in found["incomplete"]}
    few.close()
    # axe could not decide these; each is one element for a person to look at.
    assert len(incomplete) <= MOST_INCOMPLETE, incomplete


def is_dark(page: Any) -> bool:
    found: bool = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    return found


def test_the_page_does_not_scroll_sideways(page: Any) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    # The schemes differ in colours alone, so the dark one has the narrowest page for its picture.
    for width in WIDTHS[:1] if is_dark(page) else WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        for state in ("true", "false"):
            page.evaluate(f"document.querySelectorAll('details').forEach(x => x.open = {state})")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        if width in (WIDTHS[0], WIDTHS[-1]):
            name = f"report-{'dark' if is_dark(page) else 'light'}-{width}.png"
            page.screenshot(path=SCREENSHOTS / name, full_page=True)


def test_the_page_does_not_scroll_sideways_at_twice_the_size(page: Any) -> None:
    # Zooming to 200 % halves the width in CSS pixels and keeps the window.
    page.set_viewport_size({"width": 640, "height": 450})
    assert page.evaluate("document.documentElement.scrollWidth") <= 640


def test_the_page_is_small(page: Any, folder: Path) -> None:
    assert (folder / "report.html").stat().st_size <= MOST_BYTES
    assert page.evaluate("document.querySelectorAll('*').length") <= MOST_NODES


def of_the_chapter(run: Path, target: Path) -> Path:
    """Write the report of a run without its experiments beyond the chapter, as the default run."""
    shutil.copytree(run, target, ignore=shutil.ignore_patterns("report.html"))
    beyond = {name for name, one in EXPERIMENTS.items() if one.research}
    settings = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))
    settings["experiments"] = [name for name in settings["experiments"] if name not in beyond]
    kept = {name: value for name, value in settings.items() if name not in beyond}
    (target / "config.yaml").write_text(yaml.safe_dump(kept, sort_keys=False), encoding="utf-8")
    claims = target / "claims.csv"
    rows = [row for row in read_rows(claims, claim.COLUMNS) if row["experiment"] not in beyond]
    guards.write_with_checksum(claims, tables.text(rows, claim.COLUMNS))
    (target / "report.html").write_text(render(target), encoding="utf-8")
    return target


def test_the_printed_page_is_short(browser: Any, folder: Path, tmp_path: Path) -> None:
    context = browser.new_context(offline=True)
    page = context.new_page()
    page.goto((of_the_chapter(folder, tmp_path / "run") / "report.html").as_uri())
    printed: bytes = page.pdf(format="A4")
    context.close()
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", printed)) < MOST_PAGES
