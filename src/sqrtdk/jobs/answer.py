"""Write questions.csv: answers from the tables of a run."""

import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from sqrtdk.claims import ledger
from sqrtdk.config import resolve
from sqrtdk.config import run as config_run
from sqrtdk.experiments.questions import COLUMNS, PATH, long_range, stand_for, why_divide
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.stats import contrasts, summary
from sqrtdk.stats.intervals import MissingError
from sqrtdk.stats.series import Series, series_of
from sqrtdk.storage import frames, guards, tables
from sqrtdk.system import command_line


def rows(run: config_run.Run, folder: Path) -> list[tables.Row]:
    """Return the questions with their answers, from the tables of a run's folder."""

    def table_of(experiment: str) -> pd.DataFrame:
        if experiment not in run.settings:
            raise MissingError(ledger.absent(experiment))
        schema = summary.columns(EXPERIMENTS[experiment].COLUMNS)
        return frames.read(folder / experiment / "summary.csv", schema)

    def series(experiment: str) -> list[Series]:
        table, path = table_of(experiment), folder / experiment / "contrasts.csv"
        schema = contrasts.columns(EXPERIMENTS[experiment].COLUMNS)
        paired = frames.read(path, schema) if path.is_file() else None
        return series_of(run.settings[experiment], table, paired)

    def of_distances() -> str:
        try:
            return long_range(table_of("reach"))
        except MissingError as reason:
            return f"{PATH} Not measured: {reason}."

    asked: tuple[tuple[str, Callable[[], str], str], ...] = (
        (
            "What do query, key and value stand for?",
            lambda: stand_for(series("related")),
            "related-entropy",
        ),
        (
            "Why are the scores divided by √d_k?",
            lambda: why_divide(series("scaling")),
            "scaling-entropy",
        ),
        ("How does attention solve long-range dependency?", of_distances, "reach-distance"),
    )
    result = []
    for question, answer, figure in asked:
        try:
            text = answer()
        except MissingError as reason:
            text = f"Not measured: {reason}."
        result.append({"question": question, "answer": text, "figure": figure})
    return result


def main() -> None:
    """Answer the questions of the run whose config is the first argument, into the second path."""
    path = Path(sys.argv[1])
    found = rows(resolve.load(path), path.parent)
    guards.write_guarded(Path(sys.argv[2]), tables.text(found, COLUMNS))


if __name__ == "__main__":
    command_line.run(main, "CONFIG", "QUESTIONS.csv")
