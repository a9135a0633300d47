"""Render the page of a comparison."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from sqrtdk.compare import changes, curves, sides
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.figures import style
from sqrtdk.report import svg
from sqrtdk.stats import changes as stats_changes
from sqrtdk.stats import wording
from sqrtdk.stats.intervals import Estimate
from sqrtdk.storage import tables

HERE = Path(__file__).resolve().parent / "templates"

MOST_ROWS = 300
"""Rows that the page repeats from compare.csv; of a larger comparison it has one row a metric."""


class Metric(NamedTuple):
    """A metric in all common cells, with the cell where it changed most for its interval."""

    name: str
    counts: dict[str, int]
    most: tables.Row


class Part(NamedTuple):
    """One experiment of the page."""

    name: str
    title: str
    counts: dict[str, int]
    metrics: list[Metric]
    varying: list[str]
    fixed: str
    rows: list[tables.Row]
    only: tuple[int, int]
    picture: Markup


class Comparison(NamedTuple):
    """A comparison: the rows of compare.csv and the page."""

    rows: list[tables.Row]
    page: str


def compare(first: sides.Side, second: sides.Side) -> Comparison:
    """Compare two sides. Raises ConfigError if they have no experiment in common."""
    parts, rows = [], []
    for experiment in sides.common(first, second):
        frames = first.read(experiment), second.read(experiment)
        found = changes.compare(experiment, *frames)
        rows += found.rows
        parts.append(_part(experiment, found, frames, (first.name, second.name)))
    return Comparison(rows, _render(first, second, parts, rows))


def _part(
    experiment: str,
    found: changes.Compared,
    frames: Sequence[pd.DataFrame],
    names: tuple[str, str],
) -> Part:
    by_metric: dict[str, list[tables.Row]] = {}
    for row in found.rows:
        by_metric.setdefault(str(row["metric"]), []).append(row)
    known = EXPERIMENTS[experiment]
    axes = [c.name for c in known.columns if c.axis and c.name != "seed"]
    varying = [name for name in axes if len({row[name] for row in found.rows}) > 1]
    constant = [name for name in axes if name not in varying]
    return Part(
        name=experiment,
        title=known.title,
        counts=_counts(found.rows),
        metrics=[
            Metric(name, _counts(rows), max(rows, key=_strength))
            for name, rows in by_metric.items()
        ],
        varying=varying,
        fixed=at(found.rows[0], constant) if found.rows else "",
        rows=found.rows if len(found.rows) <= MOST_ROWS else [],
        only=(found.only_first, found.only_second),
        picture=_picture(experiment, found, frames, names),
    )


def _picture(
    experiment: str,
    found: changes.Compared,
    frames: Sequence[pd.DataFrame],
    names: tuple[str, str],
) -> Markup:
    known = EXPERIMENTS[experiment]
    # An example has no curves.
    shown = curves.view(known, found.rows) if known.summarised else None
    if shown is None:
        return Markup()
    tables_ = [curves.summarized(shown, known, frame) for frame in frames]
    with style.context():
        text = curves.svg(curves.build(shown, names, tables_), experiment)
    title = f"{known.title}: {names[0]} and {names[1]}"
    metrics = ", ".join(metric.name for metric in shown.metrics)
    description = f"{metrics} against {shown.x.name}, in both runs."
    return svg.embed(text, title=title, description=description)


def _counts(rows: Sequence[tables.Row]) -> dict[str, int]:
    return {name: sum(row["outcome"] == name for row in rows) for name in stats_changes.OUTCOMES}


def _strength(row: tables.Row) -> float:
    """Return how far the nearest end of the interval is from no change, in half widths."""
    none = 1.0 if row["kind"] == "ratio" else 0.0
    found = _estimate(row)
    off, half = abs(found.mean - none), (found.high - found.low) / 2
    if row["outcome"] == stats_changes.SAME or off == 0:
        return 0.0
    # Without an interval, after every change that has one.
    return float(1 + off / half) if half > 0 else float(off / (1 + off))


def _estimate(row: tables.Row) -> Estimate:
    return Estimate(*(float(row[name]) for name in ("change", "ci_low", "ci_high")))


def at(row: Mapping[str, object], axes: Sequence[str]) -> str:
    """Return some axes of a row of compare.csv in words.

    >>> at({"d_k": 16, "n_k": 64, "metric": "max_weight"}, ["d_k", "n_k"])
    'd_k = 16, n_k = 64'
    """
    return ", ".join(f"{name} = {row[name]}" for name in axes)


def change(row: tables.Row) -> str:
    """Return the change of a row with its interval; a ratio begins with a multiplication sign."""
    found = wording.format_estimate(_estimate(row))
    return f"× {found}" if row["kind"] == "ratio" else found


def _render(
    first: sides.Side, second: sides.Side, parts: Sequence[Part], rows: Sequence[tables.Row]
) -> str:
    environment = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"at": at, "change": change, "number": wording.format_number}
    flips = changes.flips(first, second)
    counts = _counts(rows)
    return environment.get_template("compare.html.j2").render(
        css=Markup((HERE / "compare.css").read_text(encoding="utf-8")),
        first=first,
        second=second,
        settings=changes.settings(first, second, [part.name for part in parts]),
        code=changes.code(first, second),
        recorded=bool(first.record and second.record),
        commands=[(side.name, side.record.get("command", "")) for side in (first, second)],
        judged=bool(first.verdicts and second.verdicts),
        flips=[one for one in flips if one.decided],
        undecided=[one for one in flips if not one.decided],
        parts=parts,
        rows=len(rows),
        counts=counts,
        intervals=counts[stats_changes.WITHIN] + counts[stats_changes.DIFFERS],
        outcomes=stats_changes.OUTCOMES,
        most=MOST_ROWS,
    )
