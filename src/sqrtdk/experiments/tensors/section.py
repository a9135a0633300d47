"""Give the report a table of the heads of each file that differ most from unrelated vectors."""

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple, TypedDict

import pandas as pd

from sqrtdk.experiments.tensors import gaps, heads, measure
from sqrtdk.stats.wording import format_number

MAX_HEADS, MAX_FILES = 12, 6
"""Heads of a file and files that the page shows; heads.csv has all."""

SHOWN = "on"
"""The scale rule of the table, where a run has it."""


class File(NamedTuple):
    """The heads of one file: their number, and a row of text for each one that is shown.

    `lengths` has a row of text for each power of ln n, over `causal` heads; empty without any.
    """

    name: str
    heads: int
    rows: list[list[str]]
    causal: int
    lengths: list[list[str]]


class Section(TypedDict):
    """What section.html.j2 names."""

    id: str
    title: str
    lead: str
    rule: str
    files: list[File]
    more: int
    pictured: bool


def context(rows: Sequence[Mapping[str, str]], stems: set[str]) -> Section | None:
    """Return the section of a run, from its runs.csv and the names of the page's figures."""
    if not rows:
        return None
    runs = pd.DataFrame(rows)
    for column in measure.COLUMNS:
        if column.read is not str:
            runs[column.name] = pd.to_numeric(runs[column.name])
    table = pd.DataFrame(heads.rows({}, runs))
    rules = sorted(set(table["scaling"]))
    rule = SHOWN if SHOWN in rules else rules[0]
    table = table[table["scaling"] == rule].sort_values(["path", "place"])
    files = [
        File(
            PurePath(str(path)).name,
            len(found),
            [_text(row) for row in found.head(MAX_HEADS).to_dict("records")],
            int(found["gap_scale"].notna().sum()),
            _lengths(found),
        )
        for path, found in table.groupby("path")
    ]
    return {
        "id": "heads",
        "title": "Your own model",
        "lead": "The heads of your files.",
        "rule": rule,
        "files": files[:MAX_FILES],
        "more": max(0, len(files) - MAX_FILES),
        "pictured": "tensors-sigma" in stems,
    }


def _text(row: Mapping[Any, Any]) -> list[str]:
    def pair(name: str) -> list[str]:
        return [_number(row[name]), _number(row[f"{name}_expected"])]

    return [
        f"{int(row['layer'])}.{int(row['head'])}",
        _number(row["logit_std"]),
        _number(row["alignment"]),
        *pair("entropy_normalized"),
        *pair("max_weight"),
        _number(100 * row["saturated_rows"], 2),
        _number(row["max_logit"]),
    ]


def _lengths(table: pd.DataFrame) -> list[list[str]]:
    """Return a row for each power of ln n: what it keeps, as quartiles over the causal heads."""
    known = table[table["gap_scale"].notna()]
    if known.empty:
        return []
    found = [
        [f"power {power:g}", *(_quartiles(known[f"{x}_log_{end}"]) for x in _MEASURES)]
        for end, power in gaps.POWERS.items()
    ]
    return [*found, ["best power", *(_quartiles(known[f"power_{x}"]) for x in _MEASURES)]]


_MEASURES = ("max_weight", "entropy")


def _quartiles(values: pd.Series) -> str:
    """Return the median with both quartiles, and how many heads have no value."""
    known = values.dropna()
    if known.empty:
        return "none"
    low, median, high = (float(known.quantile(share)) for share in (0.25, 0.5, 0.75))
    missing = len(values) - len(known)
    lack = f"; {missing} heads without" if missing else ""
    return f"{median:.2f} ({low:.2f} to {high:.2f}{lack})"


def _number(value: float, digits: int = 3) -> str:
    return "–" if value != value else format_number(float(value), digits)
