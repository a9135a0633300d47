"""report.md: headline, verdicts and figures of a run, for the page of a repository."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from sqrtdk.claims import claim, question
from sqrtdk.experiments.base import FOLDER
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.report import prose, story
from sqrtdk.report.dictionary import read_rows
from sqrtdk.report.gallery import read_caption
from sqrtdk.storage.tables import read_record

SIGNS = {claim.TRUE: "✓", claim.CONDITIONAL: "◐", claim.FALSE: "✗", claim.NOT_MEASURED: "–"}

UNANSWERED = "Not measured: "
"""What an answer of questions.csv has where the run lacks its numbers."""

Row = Mapping[str, str]


def render(folder: Path, *, figures: Sequence[str] | None = None) -> str:
    """Return the page of the run in a folder; with `figures`, only these figures, by stem."""
    rows = read_rows(folder / "claims.csv", claim.COLUMNS)
    stems = [
        (name, f"{name}-{one.name}")
        for name, experiment in EXPERIMENTS.items()
        for one in experiment.figures
    ]
    shown = [
        (name, stem)
        for name, stem in stems
        if (figures is None or stem in figures) and (folder / "figures" / f"{stem}.png").is_file()
    ]
    blocks = [
        f"# {story.title(list(story.checked(folder).settings))}",
        *_headline(folder, rows),
        "## Verdicts",
        _tally(rows),
        *_verdicts(rows, {stem for _, stem in shown}),
        *_questions(folder),
        "## Figures" if shown else "",
        *(_figure(*one) for one in shown),
        _source(folder),
    ]
    return "\n\n".join(filter(None, blocks)) + "\n"


def _headline(folder: Path, rows: Sequence[Row]) -> Iterable[str]:
    """Return the findings that open the report, as paragraphs: those that open its page."""
    leads = story.collect(folder, story.checked(folder).settings).leads
    if leads:
        return map(_told, leads)
    return [escape("".join(parts)) for *parts, _ in prose.lead(rows)["sentences"]]


def _told(text: str) -> str:
    r"""Return text of the story, which has **stress**, and links to places that only the page has.

    >>> _told("**d_k** is [large](#why)")
    '**d\\_k** is large'
    """
    words = re.sub(r"\[([^\]]+)\]\(#[\w-]+\)", r"\1", text)
    return escape(words).replace(r"\*\*", "**")


def _tally(rows: Sequence[Row]) -> str:
    counts = {v: sum(row["verdict"] == v for row in rows) for v in claim.VERDICTS}
    return ", ".join(f"{SIGNS[v]} {count} {v}" for v, count in counts.items() if count)


def _verdicts(rows: Iterable[Row], stems: set[str]) -> Iterable[str]:
    """Return the table of the claims that the run has numbers for, also undecided ones."""
    measured = [
        (row, said)
        for row in rows
        if (said := claim.said(row["verdict"], row["numbers"])) != claim.NOT_MEASURED
    ]
    if not measured:
        return []
    lines = ["| | Statement | Verdict | Condition | Figure |", "|---|---|---|---|---|"]
    for row, verdict in measured:
        stem = row["figure"]
        link = f"[{stem}](#{anchor(stem)})" if stem in stems else stem
        cells = (SIGNS[row["verdict"]], row["sentence"], verdict, row["condition"])
        lines.append(f"| {' | '.join([*map(escape, cells), link])} |")
    return ["\n".join(lines)]


def _questions(folder: Path) -> Iterable[str]:
    """Return the questions that the run answers, each with its answer."""
    rows = read_rows(folder / "questions.csv", question.COLUMNS)
    answered = [row for row in rows if UNANSWERED not in row["answer"]]
    if not answered:
        return []
    lines = [f"**{escape(row['question'])}** {escape(row['answer'])}" for row in answered]
    return ["## Questions", *lines]


def _figure(experiment: str, stem: str) -> str:
    caption = read_caption(FOLDER / experiment / "captions" / f"{stem}.rst", stem)
    # The PNG has a white background; the SVG has none, and a dark page would hide its ink.
    # A heading of the stem alone: its anchor is the same wherever Markdown is shown.
    picture = f"![{escape(caption.title)}](figures/{stem}.png)"
    text = " ".join(map(escape, caption.paragraphs))
    end = "" if caption.title.endswith(("?", "!")) else "."
    return "\n\n".join(
        [f"### {stem}", picture, f"**{escape(caption.title)}{end}** {text}".rstrip()]
    )


def _source(folder: Path) -> str:
    """Return the line that says what made the run."""
    path = folder / "provenance.json"
    record = read_record(path) if path.is_file() else {}
    code, command = record.get("code", {}), record.get("command", "")
    if not record:
        return ""
    revision = code.get("revision", "unknown")
    return (
        f"Made by `{command}` on {record.get('time_utc', '')[:10]} with sqrtdk "
        f"{record.get('sqrtdk', '')}, revision {revision}."
    )


def anchor(heading: str) -> str:
    """Return the anchor that Markdown renderers give a heading.

    >>> anchor("scaling-logit_std")
    'scaling-logit_std'
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def escape(text: str) -> str:
    r"""Return text in which Markdown and HTML find nothing of their own.

    >>> escape("n_k < 3 | *x*")
    'n\\_k &lt; 3 \\| \\*x\\*'
    """
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|])", r"\\\1", " ".join(escaped.split()))
