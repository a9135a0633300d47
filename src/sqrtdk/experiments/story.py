"""Define what an experiment tells in the report: screens of the story, answers to questions.

A folder may have `story.py` with `LEAD`, sentences of the report's answer, and `SCREENS`, and
`asked.py` with `ASKED`, questions that people ask. All numbers in them come from the tables of the
run; what a run lacks is left out, or said to be lacking.
"""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from markupsafe import Markup

from sqrtdk.experiments import schemas
from sqrtdk.experiments.base import FOLDER, load
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.figures import chart
from sqrtdk.figures.chart import Axis, Line, Note
from sqrtdk.schema import Settings
from sqrtdk.stats.intervals import Estimate, MissingError
from sqrtdk.stats.series import RuleKind, Series, series_of
from sqrtdk.stats.wording import format_estimate, format_number, format_percent
from sqrtdk.storage import frames

KEYS = 256
"""The number of keys that the story prefers: neither few nor slow to measure."""

HEAD = 64
"""The d_k that it names, the usual size of an attention head."""

WORDS = {"off": "without √d_k", "on": "with √d_k"}
"""The two arms in words, by the class of their colour."""

PAIR: tuple[tuple[RuleKind, str], ...] = (("unscaled", "off"), ("scaled", "on"))


class Told(NamedTuple):
    """The content of a screen: paragraphs, a picture with its caption, and what folds out below."""

    paragraphs: Sequence[str]
    picture: Markup = Markup("")
    caption: str = ""
    more: Sequence[tuple[str, Markup]] = ()
    css: str = ""


@dataclass(frozen=True)
class RunTables:
    """The tables of one experiment of a run; they are read when they are asked for."""

    experiment: str
    folder: Path
    settings: Settings

    def table(self, name: str) -> pd.DataFrame:
        """Return a table of the experiment. Raises MissingError if the run does not have it."""
        path = self.folder / self.experiment / f"{name}.csv"
        if not path.is_file():
            raise MissingError(f"the run has no {self.experiment}/{name}.csv")
        if name not in self._known:
            columns = schemas.columns(EXPERIMENTS[self.experiment], name)
            self._known[name] = frames.read(path, columns)
        return self._known[name].copy()

    @cached_property
    def _known(self) -> dict[str, pd.DataFrame]:
        """Return the tables that were read, which several screens show."""
        return {}

    @cached_property
    def series(self) -> list[Series]:
        """Return the series of the summary, with paired ratios where the run has them."""
        contrasts = None
        if EXPERIMENTS[self.experiment].paired:
            path = self.folder / self.experiment / "contrasts.csv"
            contrasts = self.table("contrasts") if path.is_file() else None
        return series_of(self.settings, self.table("summary"), contrasts)

    def main(self, inputs: str = "") -> Series:
        """Return the series that the story is told of: the one whose n_k is closest to `KEYS`.

        Without a name of `inputs`, of unrelated vectors. Raises MissingError.
        """
        fit = [x for x in self.series if x.axes["inputs"] == inputs or (not inputs and x.unrelated)]
        fit = [x for x in fit if x.n_k > 1]
        if not fit:
            raise MissingError(f"the run has no {inputs or 'unrelated'} vectors")
        return min(fit, key=lambda x: abs(math.log(x.n_k / KEYS)))

    @cached_property
    def exact(self) -> pd.DataFrame:
        """Return exact.csv."""
        return self.table("exact")


@dataclass(frozen=True)
class Lead:
    """A sentence of the report's answer. `tell` raises MissingError for a run that lacks it."""

    place: int
    tell: Callable[[RunTables], str]


@dataclass(frozen=True)
class Screen:
    """A screen of the story, in the order of `place`; `tell` raises MissingError.

    The screen 0 has the picture of the answer and no title of its own.
    """

    place: int
    name: str
    title: str
    tell: Callable[[RunTables], Told]


@dataclass(frozen=True)
class Asked:
    """A question that people ask, in the order of `place`.

    `known` is said of any run; `measured` adds the run's numbers or raises MissingError. `link` is
    the place in the page that shows more, without the #; a link to a claim or a screen that the
    run lacks is left out.
    """

    place: int
    name: str
    question: str
    known: str
    measured: Callable[[RunTables], str]
    link: str


def module(experiment: str, name: str) -> Any | None:
    """Return a module of an experiment's folder, or None if it has none."""
    return load(experiment, name) if (FOLDER / experiment / f"{name}.py").is_file() else None


def plain(text: str) -> str:
    """Return text of the story without its **stress** and its links to places of the page.

    >>> plain("**d_k** is [large](#why)")
    'd_k is large'
    """
    return re.sub(r"\[([^\]]+)\]\(#[\w-]+\)", r"\1", text).replace("**", "")


# Sizes and numbers


def head(sizes: Iterable[int]) -> int:
    """Return the d_k of the story: `HEAD`, or the value of the grid that is closest to it."""
    return min(sizes, key=lambda d_k: (abs(math.log(d_k / HEAD)), d_k))


def both(series: Series, metric: str, d_k: int) -> tuple[Estimate, Estimate]:
    """Return a metric without and with √d_k. Raises MissingError."""
    found = []
    for arm, _ in PAIR:
        curve = series.curve(arm, metric)
        if d_k not in curve:
            raise MissingError(f"the table has no {metric} at d_k = {d_k}")
        found.append(curve[d_k])
    return found[0], found[1]


def said(value: Estimate) -> str:
    """Return a number with its interval, without the exact value, which the ledger has."""
    return format_estimate(value._replace(exact=math.nan))


def percent(value: Estimate) -> str:
    """Return a share as a percentage with its interval."""
    return format_percent(value._replace(exact=math.nan))


short = format_number
"""A number with three digits."""

# Pictures


def lines(
    run: RunTables,
    series: Series,
    metrics: Sequence[tuple[str, str]],
    *,
    pairs: Sequence[tuple[RuleKind, str]] = PAIR,
) -> list[Line]:
    """Return the lines of some metrics over d_k, without and with √d_k.

    `metrics` are pairs of a column and what is added to the arm's name at the line's end. A line
    is the exact curve where theory has one, and joins the means elsewhere.
    """
    result = []
    for metric, words in metrics:
        for arm, kind in pairs:
            points = series.curve(arm, metric)
            exact = _exact(run, series, str(series.rules[arm]), metric)
            means = [(float(d_k), point.mean) for d_k, point in points.items()]
            result.append(
                Line(
                    kind,
                    "\n".join(filter(None, [WORDS[kind], words])),
                    exact or means,
                    means,
                    [(float(d_k), x.low, x.high) for d_k, x in points.items() if x.low < x.high],
                    dashed=metric.endswith("_median"),
                )
            )
    return result


def _exact(run: RunTables, series: Series, arm: str, metric: str) -> list[tuple[float, float]]:
    points = series.curves.get((arm, metric), {})
    if all(math.isnan(point.exact) for point in points.values()):
        return []
    try:
        table = run.exact
    except MissingError:
        return []
    rows = table[
        (table["metric"] == metric)
        & (table["scaling"] == arm)
        & (table["n_k"] == series.n_k)
        & (table["n_q"] == series.axes["n_q"])
        & (table["inputs"] == series.axes["inputs"])
    ].sort_values("d_k")
    return list(zip(rows["d_k"].astype(float), rows["exact"].astype(float), strict=True))


def over_d_k(series: Series) -> Axis:
    """Return the axis of d_k of a series."""
    known = {d_k for curve in series.curves.values() for d_k in curve}
    return chart.sizes("d_k, numbers per vector", known)


def picture(
    run: RunTables,
    series: Series,
    metrics: Sequence[tuple[str, str]],
    y: Axis,
    *,
    title: str,
    notes: Sequence[Note] = (),
    area: bool = False,
) -> Markup:
    """Return a chart of metrics over d_k; `area` shades between the first two lines."""
    drawn = lines(run, series, metrics)
    between = (drawn[0].curve, drawn[2].curve) if area and len(drawn) > 2 else None
    return chart.draw(over_d_k(series), y, drawn, title=title, notes=notes, area=between)
