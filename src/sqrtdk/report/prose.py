"""Turn a run into text: its claims, questions and formulas as the page shows them."""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from sqrtdk.claims import claim as claims_claim
from sqrtdk.claims import verdicts as claims_ledger
from sqrtdk.config import entries as config_entries
from sqrtdk.experiments import statements
from sqrtdk.report import mathml
from sqrtdk.schema import Document
from sqrtdk.stats import wording
from sqrtdk.stats.intervals import Estimate
from sqrtdk.stats.wording import NBSP

SOURCES = {
    "chapter": "Sentences of the chapter",
    "ours": "Our own sentences, which the chapter does not say",
}
"""The parts of the list of claims, by their source."""

PARAGRAPH = 200
"""Maximum characters of a paragraph that is not split into sentences."""

Row = Mapping[str, str]


class Question(NamedTuple):
    """A question of the concept check with its answer in paragraphs."""

    question: str
    paragraphs: list[str]
    figure: str


class Entry(NamedTuple):
    """A scale rule or input law of the configuration."""

    name: str
    formula: str
    parameters: str
    meaning: str


def prose(text: str) -> Markup:
    """Format text for the page: indices, powers and code as such, numbers with their units.

    >>> print(prose("n_k^-2 < 3 in `d_k`"))
    <var>n<sub>k</sub></var><sup>−2</sup> &lt; 3 in <code>d_k</code>
    """
    # Every other part was between backticks.
    parts = re.split(r"`([^`]*)`", text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if place % 2 else _prose(part)
        for place, part in enumerate(parts)
    )


def _prose(text: str) -> Markup:
    joined = re.sub(r" (?=[%=≈])|(?<=[=≈]) ", NBSP, text)
    joined = re.sub(r"\(-?[\d.e-]+ to -?[\d.e-]+\)", lambda m: m[0].replace(" ", NBSP), joined)
    letters = r"(?<![\w-])([dnqkW])_([kqvij]|model|head)(?![\w-])"
    text = re.sub(letters, r"<var>\1<sub>\2</sub></var>", str(escape(joined)))
    root = r"((?:\d/)?√)(<var>.*?</var>|\d+)([.,;:?)]*)"
    whole = r'<span class="whole">\1<span class="root">\2</span>\3</span>'
    text = re.sub(root, whole, text)
    return Markup(re.sub(r"\^(-?\w+)", lambda m: f"<sup>{m[1].replace('-', '−')}</sup>", text))


def told(text: str) -> Markup:
    """Format text of the story: as `prose`, with **stress** and formulas between dollars.

    >>> print(told("**a** < $b$"))
    <strong>a</strong> &lt; <math><mi>b</mi></math>
    """
    found = Markup("")
    for words, formula in mathml.with_formulas(text):
        for place, part in enumerate(words.split("**")):
            found += (
                Markup("<strong>{}</strong>").format(_linked(part)) if place % 2 else _linked(part)
            )
        found += formula
    return found


def _linked(text: str) -> Markup:
    """Format text with links to other places of the page: [words](#id)."""
    words, *rest = re.split(r"\[([^\]]+)\]\(#([\w-]+)\)", text)
    found = prose(words)
    for label, target, after in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        found += Markup('<a href="#{}">{}</a>{}').format(target, prose(label), prose(after))
    return found


def first_line(text: str | None) -> str:
    """Return the first line of a docstring."""
    return (text or "").strip().partition("\n")[0]


def facts(block: Document) -> list[tuple[str, str]]:
    """Return the axes of an experiment, each in a few words."""
    shown = []
    for key, value in block.items():
        values = value if isinstance(value, list) else [value]
        few = ", ".join(map(str, values))
        if len(values) > 6 and all(isinstance(x, int) for x in values):
            few = f"{len(values)} values from {min(values)} to {max(values)}"
        elif len(values) > 6:
            few = f"{len(values)} values"
        shown.append((key, few))
    return shown


# Claims and questions


def lead(ledger: Sequence[Row]) -> Document:
    """Return the findings that open the page, each with the series of its numbers.

    A run without any of the opening claims opens with its other findings.
    """
    rows = {row["claim"]: row for row in ledger}
    leading = sorted((one for one in statements.claims() if one.lead), key=lambda one: one.lead)
    opening = [rows[one.claim] for one in leading if one.claim in rows]
    gates = _gates()
    measured = [row for row in opening if row["verdict"] != claims_claim.NOT_MEASURED]
    measured = measured or [
        row
        for row in ledger
        if row["verdict"] != claims_claim.NOT_MEASURED and row["claim"] not in gates
    ]
    reasons = dict.fromkeys(row["condition"] for row in opening)
    return {
        # The finding is before the colon, its numbers are after it.
        "sentences": [(*row["answer"].partition(": "), row["series"]) for row in measured],
        "reasons": [] if measured else list(reasons),
    }


def _gates() -> set[str]:
    return {one.claim for one in statements.claims() if one.role == "gate"}


def tally(ledger: Sequence[Row]) -> list[tuple[str, int]]:
    """Count the claims with each verdict."""
    counts = [(v, sum(row["verdict"] == v for row in ledger)) for v in claims_claim.VERDICTS]
    return [(verdict, count) for verdict, count in counts if count]


def is_absent(row: Row) -> bool:
    """Return whether a claim was not measured because the run lacks its experiment."""
    return row["condition"] == claims_ledger.absent(row["experiment"])


def by_source(ledger: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """Return the claims that a run judged, the chapter's first, with the heading of their part."""
    parts = [
        (title, [decided(row) for row in ledger if row["source"] == source and not is_absent(row)])
        for source, title in SOURCES.items()
    ]
    return [(title, rows) for title, rows in parts if rows]


def decided(row: Row) -> Row:
    """Return a claim with its verdict and the number that decides it in words."""
    said = claims_claim.said(row["verdict"], row["numbers"])
    if not row["value"]:
        return {**row, "said": said, "decides": ""}
    ends = (float(row[name] or "nan") for name in ("ci_low", "ci_high"))
    value = wording.format_estimate(Estimate(float(row["value"]), *ends))
    return {**row, "said": said, "decides": f"{row['quantity']}: {value}"}


def checks(ledger: Sequence[Row], experiments: Sequence[str]) -> dict[str, str]:
    """Return the key of --config that measures each claim: the run's experiments that decide it."""
    also = {one.claim: one.also for one in statements.claims()}
    found = {}
    for row in ledger:
        names = dict.fromkeys([row["experiment"], *also.get(row["claim"], {})])
        known = [name for name in names if name in experiments] or [row["experiment"]]
        listed = known[0] if len(known) == 1 else f"'[{','.join(known)}]'"
        found[row["claim"]] = f"experiments={listed}"
    return found


def absent(ledger: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the claims of each experiment that the run does not have."""
    found: dict[str, list[Row]] = {}
    for row in filter(is_absent, ledger):
        found.setdefault(row["experiment"], []).append(row)
    return found


def gate(ledger: Sequence[Row]) -> dict[str, str]:
    """Return the agreement of measurement and theory in one line; empty if it was not judged."""
    gates = _gates()
    row = next((row for row in ledger if row["claim"] in gates), None)
    if row is None or is_absent(row):
        return {}
    verdict = row["verdict"]
    if verdict == claims_claim.NOT_MEASURED:
        text = f"not measured, {row['condition']}"
        return {"claim": row["claim"], "verdict": verdict, "text": text}
    passed = "passed" if verdict == claims_claim.TRUE else "not passed"
    return {"claim": row["claim"], "verdict": verdict, "text": f"{row['numbers']}, {passed}"}


def questions(rows: Iterable[Row]) -> list[Question]:
    """Return the concept check, with long answers split into sentences."""
    return [Question(row["question"], _paragraphs(row["answer"]), row["figure"]) for row in rows]


def _paragraphs(text: str) -> list[str]:
    return [text] if len(text) <= PARAGRAPH else re.split(r"(?<=[.!?]) (?=[A-Z])", text)


# Method


def entries(document: Document, mapping: str) -> list[Entry]:
    """Return the entries of `scale_rules` or `input_laws` in a resolved configuration."""
    word, formulas = config_entries.FORMULAS[mapping]
    return [
        Entry(
            name,
            str(entry.get(word, "")),
            ", ".join(
                f"{key} = {'none' if value is None else value}"
                for key, value in entry.items()
                if key != word
            ),
            meaning(formulas.get(str(entry.get(word)))),
        )
        for name, entry in (document.get(mapping) or {}).items()
    ]


def meaning(formula: Callable[..., Any] | None) -> str:
    """Return the first line of a formula's docstring, and of each class that it names."""
    text = first_line(formula.__doc__) if formula else ""
    named = [getattr(inspect.getmodule(formula), x, None) for x in re.findall(r"`(\w+)`", text)]
    return " ".join([text, *(first_line(x.__doc__) for x in named if inspect.isclass(x))])


def flat(record: Document, prefix: str = "") -> list[tuple[str, str]]:
    """Return a nested record as lines: the path of each value in words, and the value.

    >>> flat({"blas": {"kernel": "Haswell"}, "changed": None})
    [('blas, kernel', 'Haswell'), ('changed', 'unknown')]
    >>> flat({"measured_on": [{"nodes": 2}, {"nodes": 1}]})
    [('measured on 1, nodes', '2'), ('measured on 2, nodes', '1')]
    """
    lines = []
    for key, value in record.items():
        name = f"{prefix}{str(key).replace('_', ' ') if '/' not in str(key) else key}"
        if isinstance(value, Mapping):
            lines += flat(value, f"{name}, ")
        elif isinstance(value, list) and all(isinstance(one, Mapping) for one in value):
            for place, one in enumerate(value, start=1):
                lines += flat(one, f"{name} {place}, ")
        else:
            words = {True: "yes", False: "no", None: "unknown"}
            known = value is None or isinstance(value, bool)
            lines.append((name, words[value] if known else str(value)))
    return lines
