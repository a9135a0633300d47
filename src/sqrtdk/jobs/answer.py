"""Write questions.csv: answers from the tables of a run.

First come the questions of the chapter's concept check, then those of the run's experiments beyond
the chapter, with the answers that the report has.
"""

import sys
from pathlib import Path

from sqrtdk.claims import verdicts
from sqrtdk.claims.question import COLUMNS, Question
from sqrtdk.config import resolve
from sqrtdk.config import run as config_run
from sqrtdk.experiments import schemas, statements
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.experiments.story import RunTables, module, plain
from sqrtdk.stats.intervals import MissingError
from sqrtdk.storage import frames, guards, tables
from sqrtdk.system import command_line


def answered_questions(run: config_run.Run, folder: Path) -> list[tables.Row]:
    """Return the questions with their answers, from the tables of a run's folder."""
    result: list[tables.Row] = []
    for experiment, question in statements.questions():
        try:
            text = _answer(run, folder, experiment, question)
        except MissingError as reason:
            text = f"Not measured: {reason}."
        result.append(
            {
                "question": question.question,
                "answer": f"{question.known} {text}".strip(),
                "figure": question.figure,
            }
        )
    return result + beyond_chapter(run, folder)


def beyond_chapter(run: config_run.Run, folder: Path) -> list[tables.Row]:
    """Return the questions of the run's research experiments, each with its answer in a line."""
    figures = {f"claim-{claim.claim}": claim.figure for claim in statements.claims()}
    asked = [
        (one, RunTables(name, folder, settings))
        for name, settings in run.settings.items()
        if EXPERIMENTS[name].research
        for one in getattr(module(name, "asked"), "ASKED", ())
    ]
    result: list[tables.Row] = []
    for one, its_tables in sorted(asked, key=lambda pair: pair[0].place):
        try:
            text = f"{one.known} {one.measured(its_tables)}"
        except MissingError as reason:
            text = f"{one.known} Not measured: {reason}."
        result.append(
            {
                "question": plain(one.question),
                "answer": plain(text),
                "figure": figures.get(one.link, one.link.removeprefix("figure-")),
            }
        )
    return result


def _answer(run: config_run.Run, folder: Path, experiment: str, question: Question) -> str:
    """Return an answer from the tables that the question needs. Raises MissingError."""
    if experiment not in run.settings:
        raise MissingError(f"{verdicts.absent(experiment)}; the default grid has it")
    found = {}
    for place, name in enumerate(question.needs):
        path = folder / experiment / f"{name}.csv"
        if place == 0 or path.is_file():
            found[name] = frames.read(path, schemas.columns(EXPERIMENTS[experiment], name))
    return question.answer(run.settings[experiment], found)


def main() -> None:
    """Answer the questions of the run whose config is the first argument, into the second path."""
    path = Path(sys.argv[1])
    found = answered_questions(resolve.load(path), path.parent)
    guards.write_with_checksum(Path(sys.argv[2]), tables.text(found, COLUMNS))


if __name__ == "__main__":
    command_line.run(main, "CONFIG", "QUESTIONS.csv")
