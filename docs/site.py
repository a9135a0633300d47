"""Hooks of the documentation site: the reference from the schemas, and formulas as MathML."""

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from sqrtdk.compare import changes
from sqrtdk.config import help as config_help
from sqrtdk.config import keys as config_keys
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.report import dictionary
from sqrtdk.schema import Column

ROOT = Path(__file__).resolve().parents[1]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the reference, and leave out files of the folder that are not pages."""
    pages = {"commands": commands(), "keys": keys(), "columns": columns()}
    for name, text in pages.items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links to files outside of docs/, which the site does not have, into their names."""
    return re.sub(r"\[(`?[^\]\[]+`?)\]\(\.\./[^)]*\)", r"\1", markdown)


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Write formulas as MathML, which needs no script."""
    inline = re.sub(r'<span class="arithmatex">\\\((.*?)\\\)</span>', _inline, content, flags=re.S)
    return re.sub(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', _block, inline, flags=re.S)


def _inline(found: re.Match[str]) -> str:
    return convert(html.unescape(found[1]))


def _block(found: re.Match[str]) -> str:
    return f"<p>{convert(html.unescape(found[1]), display='block')}</p>"


def commands() -> str:
    """Return the page of the commands: targets from the rules, and the help of the run script."""
    rules = re.findall(
        r'^rule (\w+):\n    "([^"]+)"',
        "\n".join(path.read_text("utf-8") for path in sorted((ROOT / "rules").glob("*.smk"))),
        flags=re.MULTILINE,
    )
    known = dict(rules)
    targets = [
        ("all", "The whole run: tables, figures, claims and the report. The default."),
        *((name, one.title) for name, one in EXPERIMENTS.items()),
        *((name, known[name]) for name in TARGETS if name in known),
    ]
    lines = [
        "# Commands",
        "",
        "`python3 run.py TARGET --config KEY=VALUE` installs what is missing and runs Snakemake. "
        "With uv, `uv run snakemake` takes the same arguments. The keys are in [Keys](keys.md).",
        "",
        *_table(("Target", "What it makes"), ((f"`{name}`", what) for name, what in targets)),
        "",
        "## One cell by hand",
        "",
        "The help of `python -m sqrtdk.run`:",
        "",
        "```text",
        *config_help.text().splitlines(),
        "```",
    ]
    return "\n".join(lines)


TARGETS = ("verify", "compare", "figures_paper", "showcase", "benchmark")
"""Targets beside the experiments, in the order of the page."""


def keys() -> str:
    """Return the page of the configuration keys."""
    lines = ["# Keys", "", "Keys of a configuration, on the command line or in a file.", ""]
    lines += ["## Of the whole run", ""]
    lines += _table(("Key", "Meaning"), ((f"`{k}`", v) for k, v in config_keys.RUN_KEYS.items()))
    for name, experiment in EXPERIMENTS.items():
        lines += ["", f"## {name}", "", experiment.title, ""]
        lines += _table(
            ("Key", "Unit", "Meaning", "Allowed"),
            (
                (f"`{key.name}`", key.unit, key.meaning, key.allowed)
                for key in experiment.config_keys
            ),
        )
    return "\n".join(lines)


def columns() -> str:
    """Return the page of the tables and their columns."""
    lines = [
        "# Tables and columns",
        "",
        "Tables are CSV files with one header line. Numbers are the shortest text that reads back "
        "to the same bits; an undefined value is an empty field.",
    ]
    by_columns: dict[tuple[Column, ...], list[tuple[str, str]]] = {}
    for path, table in dictionary.known(EXPERIMENTS).items():
        by_columns.setdefault(table.columns, []).append((path, table.note))
    compared = "One row per metric and cell that both runs have."
    by_columns[changes.COLUMNS] = [("compare/FIRST..SECOND/compare.csv", compared)]
    for schema, found in by_columns.items():
        paths = ", ".join(path for path, _ in found)
        lines += ["", f"## {paths}", "", found[0][1], ""]
        lines += _table(
            ("Column", "Unit", "Meaning"),
            ((f"`{column.name}`", column.unit, column.meaning) for column in schema),
        )
    return "\n".join(lines)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{' --- |' * len(heads)}"
    for row in rows:
        cells = (html.escape(cell, quote=False).replace("|", "\\|") for cell in row)
        yield f"| {' | '.join(cells)} |"
