"""Render the page of a run: everything that the template needs, read from the run's folder."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import cast

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from sqrtdk.claims import claim, question
from sqrtdk.config import entries, errors, yaml_reader
from sqrtdk.experiments import schemas
from sqrtdk.experiments.base import FOLDER, Experiment, load
from sqrtdk.experiments.compact import Table
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.experiments.story import RunTables, plain
from sqrtdk.experiments.words import in_words
from sqrtdk.report import compute, dictionary, gallery, mathml, pivots, prose, small, story
from sqrtdk.report.dictionary import read_rows
from sqrtdk.schema import Document, Settings
from sqrtdk.stats import agreement, decisions, summary
from sqrtdk.storage import frames
from sqrtdk.storage.tables import read_record

HERE = Path(__file__).resolve().parent / "templates"

WORDS_PER_MINUTE = 220
"""Usual speed of reading, for the reading time of the story."""

Contents = list[tuple[str, list[tuple[str, str]]]]
"""The parts of the page with the ids and titles of their sections."""


def render(folder: Path) -> str:
    """Return the whole page of the run in a folder."""
    environment = Environment(
        loader=FileSystemLoader([HERE, FOLDER]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["prose"] = prose.prose
    environment.filters["told"] = prose.told
    environment.filters["tex"] = mathml.tex
    environment.globals["in_words"] = in_words
    # A method reads its numbers from the code: {{ load("training", "measure").LEARNT_ACCURACY }}.
    environment.globals["load"] = load
    return environment.get_template("page.html.j2").render(context(folder))


def context(folder: Path) -> Document:
    """Return all variables of the template."""
    yaml_text = (folder / "config.yaml").read_text(encoding="utf-8")
    settings = yaml_reader.read_config(folder / "config.yaml")
    listed = settings.get("experiments")
    if not isinstance(listed, list) or "name" not in settings:
        raise errors.ConfigError(f"{folder}/config.yaml is not the resolved configuration of a run")
    experiments = [name for name in listed if name in EXPERIMENTS]
    blocks = {name: cast(Settings, settings.get(name) or {}) for name in experiments}
    run = story.checked(folder)
    checked = {name: block for name, block in run.settings.items() if name in experiments}
    summaries = {
        name: frames.read(path, summary.columns(EXPERIMENTS[name].columns))
        for name in experiments
        if (path := folder / name / "summary.csv").is_file()
    }
    ledger = read_rows(folder / "claims.csv", claim.COLUMNS)
    record = folder / "provenance.json"
    provenance = read_record(record) if record.is_file() else {}
    pictures = gallery.figures(folder, experiments)
    tables = {name: _tables(folder, name, summaries, blocks, checked) for name in experiments}
    told = story.collect(folder, checked)
    sections = _sections(folder, experiments, {one.stem for one in pictures})
    found = {
        "name": settings["name"],
        "experiments": {name: EXPERIMENTS[name].title for name in experiments},
        "facts": {name: prose.facts(block) for name, block in blocks.items()},
        "story": told,
        "order": [(screen.name, screen.title) for screen in told.screens],
        "reading": _minutes(told),
        "heading": story.title(experiments),
        "beyond": story.is_beyond(experiments),
        "research": [name for name, one in EXPERIMENTS.items() if one.research],
        "lead": prose.lead(ledger),
        "gate": prose.gate(ledger),
        "tally": prose.tally(ledger),
        "claims": prose.by_source(ledger),
        "absent": prose.absent(ledger),
        "judged": len(ledger),
        "between": claim.SERIES_SEPARATOR,
        "verdicts": {verdict: verdict.replace(" ", "-") for verdict in claim.VERDICTS},
        "questions": prose.questions(
            # The page has the others among the questions that people ask.
            row
            for row in read_rows(folder / "questions.csv", question.COLUMNS)
            if row["question"] not in {plain(one.question) for one in told.asked}
        ),
        "sections": sections,
        "figures": pictures,
        "stems": {figure.stem: figure.caption.title for figure in pictures},
        "tables": {name: some for name, some in tables.items() if some},
        "files": dictionary.downloads(folder, experiments),
        "methods": [x for x in experiments if (FOLDER / x / "method.html.j2").is_file()],
        "references": _each(EXPERIMENTS[x].references for x in experiments),
        "limits": _each(limit for x in experiments for limit in EXPERIMENTS[x].limits),
        "compute": compute.costs(
            folder, checked, run.shard_seeds, {row["claim"]: row["experiment"] for row in ledger}
        ),
        "checks": prose.checks(ledger, experiments),
        "with_theory": [x for x in experiments if EXPERIMENTS[x].has_exact],
        "covered": covered(summaries),
        "entries": {mapping: prose.entries(settings, mapping) for mapping in entries.FORMULAS},
        "agreement": agreement,
        "decisions": decisions,
        "dictionary": dictionary.dictionary(folder, experiments),
        "configuration": yaml_text,
        "provenance": prose.flat(provenance),
        "command": provenance.get("command", ""),
        "code": provenance.get("code", {}),
        "date": provenance.get("time_utc", "")[:10],
        "version": provenance.get("sqrtdk", ""),
    }
    listing = contents(found)
    ids = [id_ for _, entries_ in listing for id_, _ in entries_]
    return found | {
        "css": Markup((HERE / "page.css").read_text(encoding="utf-8")),
        "contents": listing,
        "follow": follow(ids),
        "targets": {*ids, *(f"claim-{row['claim']}" for row in ledger)},
    }


def _each(texts: Iterable[str]) -> list[str]:
    """Return each text once; empty ones not at all."""
    return [text for text in dict.fromkeys(texts) if text]


def _minutes(told: story.Story) -> int:
    """Return the minutes that the story takes to read, at least 1."""
    texts = [*told.leads, *(text for one in told.screens for text in one.told.paragraphs)]
    return max(1, round(sum(len(re.findall(r"\S+", text)) for text in texts) / WORDS_PER_MINUTE))


def contents(found: Document) -> Contents:
    """Return the entries of the page's contents, by its parts."""
    told = [("answer", "The answer"), *found["order"]]
    judged = [("claims", "Statements, tested")] if found["judged"] else []
    judged += [("questions", "Concept check")] if found["questions"] else []
    judged += [("asked", "Questions people ask")] if found["story"].asked else []
    judged += [(section["id"], section["title"]) for section in found["sections"].values()]
    record = [("figures", "Figures")] if found["figures"] else []
    record += [("tables", "Tables")] if found["tables"] else []
    record += [("method", "Method"), ("limits", "Limitations"), ("reproduce", "Reproduce")]
    record += [("downloads", "Downloads"), ("dictionary", "Data dictionary")]
    record += [("configuration", "Configuration")]
    record += [("provenance", "Provenance")] if found["provenance"] else []
    record += [("sources", "Cite and sources")]
    parts = [("The story", told), ("The ledger", judged), ("The record", record)]
    return [(part, entries_) for part, entries_ in parts if entries_]


def follow(ids: Sequence[str]) -> Markup:
    """Return CSS that marks the entry of the contents whose section is on screen.

    A section drives the animation of its link while it crosses the upper part of the window.
    Browsers without scroll-driven animations leave the contents unmarked.
    """
    names = ",".join(f"--at-{id_}" for id_ in ids)
    rules = [f".page{{timeline-scope:{names}}}"]
    for id_ in ids:
        rules.append(f"#{id_}{{view-timeline:--at-{id_};view-timeline-inset:30% 69%}}")
        rules.append(f'nav a[href="#{id_}"]{{animation-timeline:--at-{id_}}}')
    return Markup("@supports (timeline-scope:none){{{}}}").format(Markup("".join(rules)))


def _sections(folder: Path, experiments: Iterable[str], stems: set[str]) -> Document:
    """Return what the sections of their own name that experiments have, by experiment."""
    found = {
        name: load(name, "section").context(read_rows(folder / name / "runs.csv"), stems)
        for name in experiments
        if (FOLDER / name / "section.html.j2").is_file()
    }
    return {name: one for name, one in found.items() if one is not None}


def _tables(
    folder: Path,
    name: str,
    summaries: Mapping[str, pd.DataFrame],
    blocks: Mapping[str, Settings],
    checked: Mapping[str, Settings],
) -> list[Table]:
    """Return the compact tables of an experiment, from its summary or from what it names."""
    experiment, settings = EXPERIMENTS[name], blocks[name]
    derived = _small(folder, experiment, settings)
    other, found = experiment.pivot.table, list[Table]()
    path = folder / name / f"{other}.csv"
    if other == "summary" and name in summaries and not experiment.small:
        found = pivots.pivots(name, summaries[name], settings)
    elif other != "summary" and path.is_file():
        hook = load(name, "pivot")
        table = hook.summarized(frames.read(path, schemas.columns(experiment, other)))
        found = pivots.pivots(name, table, settings, hook.COLUMNS)
    if experiment.pivot.also and name in checked:
        run = RunTables(name, folder, checked[name])
        found = [*load(name, experiment.pivot.also).tables(run), *found]
    return [*derived, *found]


def _small(folder: Path, experiment: Experiment, settings: Settings) -> list[Table]:
    """Return the small tables of an experiment whose derived tables are there."""
    found = []
    for wanted in experiment.small:
        path = folder / experiment.name / f"{wanted.table}.csv"
        if path.is_file():
            columns = schemas.columns(experiment, wanted.table)
            found.append(small.small(wanted, frames.read(path, columns), columns, settings))
    return [one for one in found if one is not None]


def covered(summaries: Mapping[str, pd.DataFrame]) -> list[str]:
    """Return the metrics of a run that have an exact value, in the order of their columns."""
    found = {
        metric
        for table in summaries.values()
        for metric in table.loc[table["exact"].notna(), "metric"]
    }
    columns: Iterable[str] = dict.fromkeys(c.name for m in EXPERIMENTS.values() for c in m.columns)
    return [name for name in columns if name in found]
