"""Render the page of a run: everything that the template needs, read from the run's folder."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import cast

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from sqrtdk.claims import claim, question
from sqrtdk.config import entries, errors, yaml_reader
from sqrtdk.experiments import schemas
from sqrtdk.experiments.base import FOLDER, load
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.report import dictionary, gallery, pivots, prose
from sqrtdk.report.dictionary import read_rows
from sqrtdk.schema import Document, Settings
from sqrtdk.stats import agreement, decisions, summary
from sqrtdk.storage import frames
from sqrtdk.storage.tables import read_record

HERE = Path(__file__).resolve().parent / "templates"


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
    summaries = {
        name: frames.read(path, summary.columns(EXPERIMENTS[name].columns))
        for name in experiments
        if (path := folder / name / "summary.csv").is_file()
    }
    ledger = read_rows(folder / "claims.csv", claim.COLUMNS)
    record = folder / "provenance.json"
    provenance = read_record(record) if record.is_file() else {}
    pictures = gallery.figures(folder, experiments)
    tables = {name: _pivots(folder, name, table, blocks[name]) for name, table in summaries.items()}
    return {
        "css": Markup((HERE / "page.css").read_text(encoding="utf-8")),
        "name": settings["name"],
        "experiments": {name: EXPERIMENTS[name].title for name in experiments},
        "facts": {name: prose.facts(block) for name, block in blocks.items()},
        "lead": prose.lead(ledger),
        "gate": prose.gate(ledger),
        "tally": prose.tally(ledger),
        "claims": prose.by_source(ledger),
        "absent": prose.absent(ledger),
        "judged": len(ledger),
        "between": claim.SERIES_SEPARATOR,
        "verdicts": {verdict: verdict.replace(" ", "-") for verdict in claim.VERDICTS},
        "questions": prose.questions(read_rows(folder / "questions.csv", question.COLUMNS)),
        "sections": _sections(folder, experiments, {one.stem for one in pictures}),
        "figures": pictures,
        "stems": {figure.stem: figure.caption.title for figure in pictures},
        "crossings": pivots.from_which(
            read_rows(folder / "scaling/crossings.csv"), blocks.get("scaling", Settings())
        ),
        "tables": {name: found for name, found in tables.items() if found},
        "files": dictionary.downloads(folder, experiments),
        "methods": [x for x in experiments if (FOLDER / x / "method.html.j2").is_file()],
        "references": list(
            dict.fromkeys(
                EXPERIMENTS[x].references for x in experiments if EXPERIMENTS[x].references
            )
        ),
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


def _sections(folder: Path, experiments: Iterable[str], stems: set[str]) -> Document:
    """Return what the sections of their own name that experiments have, by experiment."""
    found = {
        name: load(name, "section").context(read_rows(folder / name / "runs.csv"), stems)
        for name in experiments
        if (FOLDER / name / "section.html.j2").is_file()
    }
    return {name: one for name, one in found.items() if one is not None}


def _pivots(folder: Path, name: str, table: pd.DataFrame, settings: Settings) -> list[pivots.Table]:
    """Return the compact tables of an experiment, from its summary or from what it names."""
    experiment = EXPERIMENTS[name]
    other = experiment.pivot.table
    if other == "summary":
        return pivots.pivots(name, table, settings)
    path = folder / name / f"{other}.csv"
    if not path.is_file():
        return []
    hook = load(name, "pivot")
    found = hook.summarized(frames.read(path, schemas.columns(experiment, other)))
    return pivots.pivots(name, found, settings, hook.COLUMNS)


def covered(summaries: Mapping[str, pd.DataFrame]) -> list[str]:
    """Return the metrics of a run that have an exact value, in the order of their columns."""
    found = {
        metric
        for table in summaries.values()
        for metric in table.loc[table["exact"].notna(), "metric"]
    }
    columns: Iterable[str] = dict.fromkeys(c.name for m in EXPERIMENTS.values() for c in m.columns)
    return [name for name in columns if name in found]
