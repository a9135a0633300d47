"""Collect the claims and questions of all experiments."""

from collections.abc import Collection
from dataclasses import replace
from functools import cache
from typing import Any

from sqrtdk.claims import chapter
from sqrtdk.claims.claim import Claim
from sqrtdk.claims.question import Question
from sqrtdk.experiments.base import FOLDER, load
from sqrtdk.experiments.registry import EXPERIMENTS, rank
from sqrtdk.system import errors, stdio


def _collected(module: str, name: str) -> dict[str, tuple[Any, ...]]:
    """Return a tuple of each experiment's module; of a module that fails, none, with a warning."""
    found = {}
    for experiment in EXPERIMENTS:
        if not (FOLDER / experiment / f"{module}.py").is_file():
            continue
        try:
            found[experiment] = getattr(load(experiment, module), name)
        except Exception as error:
            reason = f"{type(error).__name__}: {errors.one_line(error)}"
            stdio.warn(f"experiment {experiment}: its {module} are left out: {reason}")
    return found


@cache
def claims() -> tuple[Claim, ...]:
    """Return the claims of all experiments in the order of the chapter."""
    found = [
        replace(claim, experiment=experiment)
        for experiment, some in _collected("claims", "CLAIMS").items()
        for claim in some
    ]
    return tuple(sorted(found, key=lambda claim: rank(chapter.ORDER, claim.claim)[0]))


def claims_of(experiments: Collection[str]) -> tuple[Claim, ...]:
    """Return the claims of a run's table: all, without those of experiments to be asked for.

    A claim whose experiment the run lacks is there as well, as not measured. One that no run
    measures unless it is asked for, or that is left to the grid of research, is no gap.
    """

    def expected(experiment: str) -> bool:
        one = EXPERIMENTS[experiment]
        return not one.needs_key and not one.research

    return tuple(
        claim for claim in claims() if claim.experiment in experiments or expected(claim.experiment)
    )


@cache
def questions() -> tuple[tuple[str, Question], ...]:
    """Return the questions of all experiments, each with the name of its experiment."""
    found = [
        (experiment, question)
        for experiment, some in _collected("questions", "QUESTIONS").items()
        for question in some
    ]
    return tuple(sorted(found, key=lambda pair: pair[1].place))
