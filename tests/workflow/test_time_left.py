"""The time left: a recorded default run through the estimator, its record, and its line."""

import collections
import csv
import io
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from snakemake_interface_logger_plugins.common import LogEvent

from sqrtdk.workflow import progress, time_left
from sqrtdk.workflow.time_left import TimeLeft

HERE = Path(__file__).parent


def replay(weights: dict[str, float]) -> tuple[TimeLeft, list[tuple[float, float]]]:
    """Shares of the run that have passed, and what was then expected for the whole, over it.

    `run.csv` has the jobs of a default run on two cores: start and end in seconds, and the
    seconds that the experiment estimated. `weights.json` is from an earlier run of an earlier
    version, with fewer seeds.
    """
    with (HERE / "run.csv").open(encoding="utf-8", newline="") as file:
        jobs = list(csv.DictReader(file))
    found = TimeLeft(weights=weights, slots=2)
    found.expect(
        {job["shard"]: (job["about"], float(job["expected"])) for job in jobs if job["shard"]},
        collections.Counter(job["rule"] for job in jobs),
    )
    events = [(float(job[end]), end, n) for n, job in enumerate(jobs) for end in ("start", "end")]
    whole = max(now for now, *_ in events)
    shares: list[tuple[float, float]] = []
    for now, what, n in sorted(events, key=lambda event: (event[0], event[1] == "start")):
        while len(shares) / 200 <= now / whole:
            at = len(shares) / 200
            shares.append((at, at + found.left(at * whole) / whole))
        if what == "start":
            found.start(n, jobs[n]["rule"], jobs[n]["shard"] or jobs[n]["about"], now)
        else:
            found.end(n, now)
    return found, shares


@pytest.mark.parametrize("earlier", [True, False])
def test_from_a_tenth_of_the_run_on_its_length_is_known_to_15_percent(earlier: bool) -> None:
    weights = json.loads((HERE / "weights.json").read_text("utf-8")) if earlier else {}
    _, shares = replay(weights)
    assert max(abs(whole - 1) for at, whole in shares if at >= 0.1) < 0.15
    assert max(abs(whole - 1) for at, whole in shares if at >= 0.5) < 0.1


def test_a_run_that_is_like_the_earlier_one_is_known_from_its_start() -> None:
    first, _ = replay({})
    _, shares = replay(first.measured())
    # What is left: two cores are never busy to the last second.
    assert max(abs(whole - 1) for _, whole in shares) < 0.08


def test_a_busy_machine_and_a_job_that_takes_longer_are_noticed() -> None:
    found = TimeLeft(slots=1)
    found.expect({f"s{n}": ("scaling", 10.0) for n in range(10)}, {"measure_shard": 10})
    assert found.left(0.0) == 100
    for n in range(5):
        found.start(n, "measure_shard", f"s{n}", 20.0 * n)
        found.end(n, 20.0 * (n + 1))
    # Each took 20 seconds instead of 10, so five more take about 100.
    assert found.left(100.0) == pytest.approx(100, rel=0.1)
    found.start(5, "measure_shard", "s5", 100.0)
    assert found.left(400.0) > found.left(150.0)


def test_a_record_is_kept_and_a_broken_one_is_not_read(tmp_path: Path) -> None:
    found = TimeLeft(weights={"scaling": 2.0, "merge scaling": 1.0})
    found.expect({"s": ("scaling", 3.0)}, {"measure_shard": 1, "merge": 1})
    found.start(0, "measure_shard", "s", 0.0)
    found.end(0, 12.0)
    found.start(1, "merge", "scaling", 12.0)
    found.end(1, 15.0)
    path = time_left.record_path(tmp_path)
    time_left.write_record(path, found.measured())
    # Half of the new ratio 12 / 3 and half of the old one; the same for the merge's seconds.
    assert time_left.read_record(path) == {"scaling": 3.0, "merge scaling": 2.0}
    for text in ("[1]", "{", '{"scaling": "long"}', '{"scaling": null}'):
        path.write_text(text, encoding="utf-8")
        assert time_left.read_record(path) == {}
    assert time_left.read_record(tmp_path / "none") == {}


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

    monkeypatch.setattr(progress.RunState, "shards", {"a": ("scaling", 8.0), "b": ("scaling", 2.0)})
    monkeypatch.setattr(progress.LogHandler, "tick", lambda self: None)
    # A machine that has measured before knows its speed.
    monkeypatch.chdir(tmp_path)
    found = handler(common_settings=OutputSettings(), failed={})

    def follow(event: LogEvent, **fields: Any) -> None:
        record = logging.LogRecord("", logging.INFO, "", 0, "", None, None)
        vars(record).update({"event": event, **fields})
        found.follow(record)

    follow(LogEvent.RUN_INFO, stats={"measure_shard": 2, "total": 2})
    follow(LogEvent.RESOURCES_INFO, cores=2)
    assert found.time_left.left(0.0) == pytest.approx(5.0)
    follow(LogEvent.JOB_INFO, jobid=1, rule_name="measure_shard", wildcards={"shard": "a"})
    assert found.time_left.running[1][:2] == ("scaling", 8.0)
    follow(LogEvent.JOB_FINISHED, job_id=1)
    assert not found.time_left.running
