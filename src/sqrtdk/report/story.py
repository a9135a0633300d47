"""Collect what the experiments of a run tell: the answer, the screens, the questions people ask."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sqrtdk.config import errors, resolve
from sqrtdk.config.run import Run
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.experiments.story import Asked, Lead, RunTables, Screen, Told, module
from sqrtdk.schema import Settings
from sqrtdk.stats.intervals import MissingError

TITLE = "Why attention divides by √d_k"

BEYOND_TITLE = "The scale of attention: questions beyond the chapter"
"""The title of a run most of whose experiments are not about the chapter."""

LEADS = 4
"""Sentences of the answer: what happens, why, what it costs, where the remedy ends."""


def is_beyond(experiments: Sequence[str]) -> bool:
    """Return whether most experiments of a run are not about the chapter."""
    known = [name for name in experiments if name in EXPERIMENTS]
    return 2 * sum(EXPERIMENTS[name].research for name in known) > len(known)


def title(experiments: Sequence[str]) -> str:
    """Return the title of a run's report."""
    return BEYOND_TITLE if is_beyond(experiments) else TITLE


class Shown(NamedTuple):
    """A screen of the page."""

    name: str
    title: str
    told: Told


class Answered(NamedTuple):
    """A question that people ask: what is known, what this run measured, where more is."""

    name: str
    question: str
    known: str
    measured: str
    lacking: str
    link: str
    elsewhere: bool = False
    """Whether another grid measures it."""


class Story(NamedTuple):
    """Everything that the page tells before its ledger."""

    leads: Sequence[str]
    picture: Told | None
    screens: Sequence[Shown]
    asked: Sequence[Answered]


def checked(folder: Path) -> Run:
    """Return a run's checked configuration, from its folder.

    The page of a folder whose configuration another version wrote has its tables, but no story.
    """
    try:
        return resolve.load(folder / "config.yaml")
    except errors.ConfigError:
        return Run("", 1, {})


def collect(folder: Path, blocks: Mapping[str, Settings]) -> Story:
    """Return the story of a run from its folder and the settings of its experiments."""
    runs = {name: RunTables(name, folder, settings) for name, settings in blocks.items()}
    leads = list(_told(_all(runs, "story", "LEAD")))[:LEADS]
    screens = [
        Shown(screen.name, screen.title, told)
        for screen, told in _told(_all(runs, "story", "SCREENS"))
    ]
    first = next((one.told for one in screens if not one.title), None)
    # A complete run also answers questions beyond the chapter, without numbers of its own.
    chapter = {x for x, one in EXPERIMENTS.items() if not (one.research or one.needs_key)}
    beyond = {
        name: RunTables(name, folder, {})
        for name, one in EXPERIMENTS.items()
        if one.research and name not in blocks and chapter <= blocks.keys()
    }
    asked = [
        _answered(run, one) if run.experiment in runs else _left_out(one)
        for run, one in _all(runs | beyond, "asked", "ASKED")
    ]
    return Story([text for _, text in leads], first, [x for x in screens if x.title], asked)


def _all(runs: Mapping[str, RunTables], where: str, name: str) -> list[tuple[RunTables, Any]]:
    """Return the entries of a tuple in a module of each experiment, by their place."""
    found: list[tuple[RunTables, Any]] = []
    for experiment, run in runs.items():
        there = module(experiment, where)
        found += [(run, one) for one in getattr(there, name, ())]
    return sorted(found, key=lambda pair: pair[1].place)


def _told(entries: Iterable[tuple[RunTables, Lead | Screen]]) -> Iterable[tuple[Any, Any]]:
    """Yield what the run's tables can tell."""
    for run, one in entries:
        try:
            yield one, one.tell(run)
        except MissingError:
            continue


def _left_out(one: Asked) -> Answered:
    where = "this run leaves it to snakemake --config grid=research"
    return Answered(one.name, one.question, one.known, "", where, one.link, elsewhere=True)


def _answered(run: RunTables, one: Asked) -> Answered:
    try:
        return Answered(one.name, one.question, one.known, one.measured(run), "", one.link)
    except MissingError as reason:
        return Answered(one.name, one.question, one.known, "", str(reason), one.link)
