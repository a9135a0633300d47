"""The time left: a recorded default run through the estimator, its record, and its line."""

import csv
import io
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from snakemake_interface_logger_plugins.common import LogEvent

from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.workflow import order, progress, times
from sqrtdk.workflow.time_left import Job, Place, TimeLeft
from sqrtdk.workflow.times import Record, Taken, Times

HERE = Path(__file__).parent

SIZES = {"default": 5, "research": 6}
"""Runs that were recorded from the records of Snakemake, and their sizes (`times.size_of`)."""

SMALL = {"smoke": 1}
"""A small run, whose tables take a tenth of what those of the others take."""


def recorded(name: str) -> tuple[dict[int, Job], list[tuple[float, int, bool]]]:
    """Return the jobs of a run of two cores, and when each ended and started, in this order.

    Times are in seconds. The size of a run, which the kind of a table's job has, is in its name.
    """
    with (HERE / "runs" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    jobs, events = {}, []
    for row in rows:
        is_shard = float(row["priority"]) < order.TABLES
        number = int(row["id"])
        jobs[number] = Job(
            row["kind"] if is_shard else f"{row['kind']}@{(SIZES | SMALL)[name]}",
            float(row["units"]),
            frozenset(map(int, row["needs"].split())),
            float(row["priority"]),
        )
        events += [(float(row["start"]), number, True), (float(row["end"]), number, False)]
    return jobs, sorted(events, key=lambda event: (event[0], event[2]))


def taken(name: str, factor: Callable[[str], float] = lambda kind: 1.0) -> Record:
    """Return the record of a machine on which each kind of a recorded run took a factor longer."""
    jobs, events = recorded(name)
    began = {number: at for at, number, starts in events if starts}
    found: dict[str, Taken] = {}
    for at, number, starts in events:
        if not starts:
            kind, units = jobs[number].kind, jobs[number].units
            before = found.get(kind, Taken(0.0, 0.0))
            took = factor(kind) * (at - began[number])
            found[kind] = Taken(before.seconds + took, before.units + units)
    return found


def promises(name: str, known: Times) -> list[tuple[float, float]]:
    """Return shares of a run that had passed, and the ratio of the time promised then to it."""
    jobs, events = recorded(name)
    found = TimeLeft(times=known)
    found.expect(jobs, {Place.HERE: 2})
    whole = max(at for at, *_ in events)
    shares: list[tuple[float, float]] = []
    for now, number, starts in events:
        while len(shares) / 100 <= now / whole:
            at = len(shares) / 100
            shares.append((at, at + found.left(at * whole) / whole))
        if starts:
            found.start(number, now)
        else:
            found.end(number, now)
    return shares


def worst(shares: list[tuple[float, float]], since: float = 0.1) -> float:
    """Return the largest error of a promise from a share of the run on."""
    return max(abs(whole - 1) for at, whole in shares if at >= since)


@pytest.mark.parametrize("name", SIZES)
def test_a_run_that_is_like_an_earlier_one_is_known_from_its_start(name: str) -> None:
    # What is left is the difference between the shards of an experiment.
    assert worst(promises(name, Times(own=taken(name))), since=0.0) < 0.08


@pytest.mark.parametrize("slower", [0.5, 2.0])
@pytest.mark.parametrize("name", SIZES)
def test_from_a_tenth_of_a_machines_first_run_on_its_length_is_known_to_15_percent(
    name: str, slower: float
) -> None:
    usual = taken(name, lambda kind: slower)
    assert worst(promises(name, Times(usual=usual))) < 0.15


def test_a_small_run_in_a_fresh_clone_has_usual_times_of_its_own_size() -> None:
    jobs, _ = recorded("smoke")
    usual = times.read(times.USUAL)
    assert {job.kind for job in jobs.values() if "@" in job.kind and job.units} <= set(usual)
    # A run of 29 s on a busy machine: the times of another one just like it give 0.66 to 1.
    whole = [found for at, found in promises("smoke", Times(usual=usual)) if at >= 0.1]
    assert min(whole) > 0.65
    assert max(whole) < 1.5


def test_a_machine_on_which_kinds_differ_from_the_usual_is_known_to_15_percent() -> None:
    # Kinds take 12 percent more or less than usual, and all take 1.4 times as long.
    def factor(kind: str) -> float:
        return 1.4 * (1.12 if sum(kind.encode()) % 2 else 0.88)

    assert worst(promises("default", Times(usual=taken("default", factor)))) < 0.15


def test_the_end_of_a_run_is_as_long_as_its_chain_of_jobs() -> None:
    # Two cores: shards of 30 and 10 seconds, then a table and a figure of 5 seconds, one by one.
    jobs = {
        0: Job("x", 30.0), 1: Job("x", 10.0),
        2: Job("merge x@3", 1.0, frozenset({0, 1})), 3: Job("draw_x@3", 1.0, frozenset({2})),
    }  # fmt: skip
    known = Times({"x": Taken(1, 1), "merge x@3": Taken(5, 1), "draw_x@3": Taken(5, 1)})
    found = TimeLeft(times=known)
    assert found.left(0.0) is None
    found.expect(jobs, {Place.HERE: 2})
    assert found.left(0.0) == pytest.approx(40)
    # On one core the second shard waits; a shard of both cores keeps others out.
    found.expect(jobs, {Place.HERE: 1})
    assert found.left(0.0) == pytest.approx(50)
    found.expect(jobs | {1: Job("x", 10.0, cores=2)}, {Place.HERE: 2})
    assert found.left(0.0) == pytest.approx(50)


def test_a_busy_machine_and_a_job_that_takes_longer_are_noticed() -> None:
    found = TimeLeft(times=Times({"scaling": Taken(1, 1)}))
    found.expect({n: Job("scaling", 10.0) for n in range(10)}, {Place.HERE: 1})
    assert found.left(0.0) == 100
    for n in range(5):
        found.start(n, 20.0 * n)
        found.end(n, 20.0 * (n + 1))
    # Each took 20 seconds instead of 10, so five more take about 100.
    assert found.left(101.0) == pytest.approx(99, rel=0.1)
    found.start(5, 100.0)
    assert found.left(400.0) > found.left(150.0)


def test_what_waits_for_a_failed_job_is_not_waited_for() -> None:
    found = TimeLeft(times=Times({"x": Taken(1, 1), "draw_x@0": Taken(7, 1)}))
    found.expect({0: Job("x", 10.0), 1: Job("draw_x@0", 1.0, frozenset({0}))}, {Place.HERE: 1})
    found.start(0, 0.0)
    assert found.left(4.0) == pytest.approx(13)
    found.fail(0)
    found._last = None
    assert found.left(5.0) == 0
    # It is repeated.
    found.start(0, 100.0)
    found._last = None
    assert found.left(100.0) == pytest.approx(17)


def test_thousands_of_jobs_are_not_played_again_for_each_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = TimeLeft()
    found.expect({n: Job("x", 1.0) for n in range(1000)}, {Place.HERE: 2})
    found.left(0.0)
    monkeypatch.setattr(found, "_play", lambda now: pytest.fail("played again"))
    assert found.left(0.001) == pytest.approx(500 - 0.001)


def test_unknown_work_takes_what_similar_work_took() -> None:
    usual = {
        "a": Taken(30, 10), "b": Taken(10, 10), "merge a@3": Taken(1, 1), "merge a@5": Taken(4, 1),
        "draw_a@5": Taken(9, 3),
    }  # fmt: skip
    # This machine takes twice as long as usual for a, and so for all that it has not done.
    known = Times({"a": Taken(60, 10)}, usual)
    assert known.each("a") == 6
    assert known.each("b") == 2
    assert known.each("cluster b") == 2
    # One that nobody knows takes what all shards here take.
    assert known.each("c") == 6
    assert Times({}, usual).each("c") == 2
    # The nearest size, the same rule, then any rule.
    assert known.each("merge a@2") == 2
    assert known.each("merge a@6") == 8
    assert known.each("merge new@5") == 8
    assert known.each("report@5") == 2 * times.OTHER_SECONDS
    assert Times().each("c") == 1
    # The target of an experiment is no shard of it.
    assert known.each("a@3") == 2 * times.OTHER_SECONDS


def test_a_record_is_kept_and_a_broken_one_is_not_read(tmp_path: Path) -> None:
    found = TimeLeft(times=Times({"scaling": Taken(6, 3), "x": Taken(1, 1)}))
    found.expect({0: Job("scaling", 3.0), 1: Job("merge scaling@2", 1.0)}, {Place.HERE: 1})
    for number, (start, end) in enumerate([(0.0, 12.0), (12.0, 15.0)]):
        found.start(number, start)
        found.end(number, end)
    path = times.record_path(tmp_path)
    times.write(path, found.times.with_run(found.measured()))
    # As many units as before: those of before count half.
    assert times.read(path) == {
        "scaling": (12 + 3, 3 + 1.5), "merge scaling@2": (3, 1), "x": (1, 1),
    }  # fmt: skip
    # A small run leaves the record of a large one nearly as it was.
    small = Times({"scaling": Taken(100, 100)}).with_run({"scaling": Taken(9, 1)})["scaling"]
    assert small.seconds / small.units == pytest.approx(1.08, rel=0.01)
    broken = ("[1]", "{", '{"scaling": "long"}', '{"scaling": null}', '{"x@big": [1, 1]}',
              '{"scaling": [1]}', '{"scaling": [0, 1]}', '{"scaling": 2.0}')  # fmt: skip
    for text in broken:
        path.write_text(text, encoding="utf-8")
        assert times.read(path) == {}
    assert times.read(tmp_path / "none") == {}


def test_every_experiment_has_a_usual_time() -> None:
    usual = times.read(times.USUAL)
    sampled = {name for name in EXPERIMENTS if name != "tensors"}
    assert sampled <= set(usual)
    assert {f"merge {name}" for name in sampled} <= {kind.partition("@")[0] for kind in usual}


def test_a_log_of_progress_shows_how_long_the_run_had_promised_to_take() -> None:
    from campaigns import promises

    lines = ["1 of 9 jobs, 0% of the work, 0:01 passed, estimating"]
    lines += [f"x, {n}:00 passed, about {2 * (10 - n)}:00 left" for n in range(1, 11)]
    # After a tenth it promises another 18 minutes, and 9 are left.
    expected = [(n + 2 * (10 - n)) / 10 for n in range(1, 10)]
    assert promises.promised("\n".join(lines)) == pytest.approx(expected)
    # The first promise comes after half of the run.
    late = promises.promised("0:05 passed, about 0:03 left\n0:10 passed, about 0:00 left")
    assert late == pytest.approx([math.nan] * 4 + [0.8] * 5, nan_ok=True)


class Terminal(io.StringIO):
    """A terminal of 40 columns."""

    def isatty(self) -> bool:
        return True


def handler(**fields: Any) -> progress.LogHandler:
    found = object.__new__(progress.LogHandler)
    found.began, found.time_left, found.jobs = time.monotonic(), TimeLeft(), (1, 3)
    found.unfinished, found.printed_at, found.lock = False, 0.0, None
    for name, value in fields.items():
        setattr(found, name, value)
    return found


def test_the_line_never_wraps(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((40, 24)))
    handler().print_progress(1, 3)
    said = screen.getvalue()
    assert said.startswith("\r\033[K1 of 3 jobs, ")
    assert len(said.removeprefix("\r\033[K")) == 39


def test_the_line_ticks_while_a_job_runs_and_stops_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress, "TICKS", (0.004, 0.004))
    found, lines = handler(), list[str]()

    def show(line: str, end: str) -> None:
        lines.append(line)
        if len(lines) == 3:
            found.jobs = (3, 3)

    monkeypatch.setattr(found, "show", show)
    found.tick()
    assert len(lines) == 3
    assert all(line.startswith("1 of 3 jobs, ") for line in lines)


def test_the_handler_follows_jobs_and_slots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import logging

    from snakemake.settings.types import OutputSettings

    jobs = {1: Job("scaling", 8.0), 2: Job("scaling", 2.0)}
    monkeypatch.setattr(progress.RunState, "jobs", (jobs, {Place.HERE: 2}))
    monkeypatch.setattr(progress.LogHandler, "tick", lambda self: None)
    # The usual times would count, and those of a machine that has measured before.
    monkeypatch.setattr(times, "USUAL", tmp_path / "none")
    monkeypatch.chdir(tmp_path)
    found = handler(common_settings=OutputSettings(), failed={}, print=lambda text: None)

    def follow(event: LogEvent, **fields: Any) -> None:
        record = logging.LogRecord("", logging.INFO, "", 0, "", None, None)
        vars(record).update({"event": event, **fields})
        found.follow(record)

    follow(LogEvent.RUN_INFO, stats={"measure_shard": 2, "total": 2})
    assert "estimating" in found.line(0, 2)
    follow(LogEvent.JOB_INFO, jobid=1)
    assert found.time_left.left(found.time_left.running[1]) == pytest.approx(8.0)
    follow(LogEvent.JOB_ERROR, jobid=1, rule_name="measure_shard", output=[], log=[])
    assert not found.time_left.running
    follow(LogEvent.JOB_INFO, jobid=1)
    follow(LogEvent.JOB_FINISHED, job_id=1)
    assert not found.time_left.running
    assert found.time_left.measured().keys() == {"scaling"}


def test_with_quiet_the_line_goes_to_the_log_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    screen, log = Terminal(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(progress.RunState, "log", log)
    handler(is_quiet=True).print_progress(2, 3)
    assert screen.getvalue() == ""
    assert log.getvalue().startswith("2 of 3 jobs, ")
