"""Add up what each experiment of a run cost, from the benchmark files of its jobs."""

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.schema import Settings
from sqrtdk.stats.wording import format_number
from sqrtdk.storage import code_digest, planning


class Cost(NamedTuple):
    """Time and memory of an experiment in words, empty if unknown, and the claims it decides."""

    experiment: str
    time: str
    memory: str
    claims: list[str]


def costs(
    folder: Path,
    blocks: Mapping[str, Settings],
    shard_seeds: int,
    judged: Mapping[str, str],
) -> list[Cost]:
    """Return the cost of each experiment of the run in a folder, next to its `shards`.

    `judged` are the claims that the page has, with the experiment that decides each.
    """
    result = []
    for name, settings in blocks.items():
        found = list(_benchmarks(_files(folder, name, settings, shard_seeds)))
        seconds = sum(time for time, _ in found)
        largest = max((memory for _, memory in found), default=0.0)
        result.append(
            Cost(
                name,
                _time(seconds) if found else "",
                f"{format_number(largest, 2)} MB" if largest else "",
                [claim for claim, experiment in judged.items() if experiment == name],
            )
        )
    return result


def _files(folder: Path, name: str, settings: Settings, shard_seeds: int) -> Iterable[Path]:
    """Return the benchmark files of an experiment's shards, and of the jobs after them."""
    experiment = EXPERIMENTS[name]
    shards = folder.parent / "shards" / name
    if shards.is_dir():
        plan = planning.plan(
            shards,
            settings,
            experiment.columns,
            shard_seeds=shard_seeds,
            within=experiment.batched_axes,
            code=code_digest.measured_digest(experiment.measured_by),
        )
        yield from (path.with_suffix(".tsv") for path in plan.shards)
    yield from (folder / "logs").glob(f"{name}-*.tsv")


def _benchmarks(paths: Iterable[Path]) -> Iterable[tuple[float, float]]:
    """Yield seconds and megabytes of each job that was measured."""
    for path in paths:
        try:
            with path.open(encoding="utf-8", newline="") as file:
                for row in csv.DictReader(file, delimiter="\t"):
                    # A job too short to be sampled has no memory.
                    yield float(row["s"]), float(row["max_rss"])
        except (OSError, KeyError, ValueError):
            continue


def _time(seconds: float) -> str:
    if seconds < 60:
        return f"{max(seconds, 1):.0f} s"
    return f"{format_number(seconds / 60, 2)} minutes"
