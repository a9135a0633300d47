"""The jobs of this machine as forks: they end as processes of a shell would."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import snakemake.benchmark
from snakemake.benchmark import BenchmarkRecord

from sqrtdk.workflow import forks
from sqrtdk.workflow.forks import Command

pytestmark = pytest.mark.skipif(
    sys.platform != "linux",
    reason="only on Linux are jobs forks: macOS's libraries do not work in a fork, and its jobs go "
    "to a shell",
)

PREFIX = "set -e; "

CODE = """
import os, signal, sys

sys.path.append("/nowhere")
what, *words = sys.argv[1:]
print(os.environ["GREETING"], *words, file=sys.stderr)
if what == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
elif what == "work":
    sum(range(10**7))
elif what == "sleep":
    signal.pause()
elif what == "raise":
    raise ValueError("a bug")
sys.exit({"say": "some words"}.get(what, int(what) if what.isdigit() else 0))
"""


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., forks.Fork]]:
    """Function: start a small module of this package as a fork; its words are the arguments."""
    package = tmp_path_factory.mktemp("code") / "sqrtdk_job"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "job.py").write_text(CODE, encoding="utf-8")
    before = os.environ["PYTHONPATH"]
    os.environ["PYTHONPATH"] = f"{package.parent}{os.pathsep}{before}"
    server = forks.Server()
    variables = dict(os.environ) | {"GREETING": "hello"}

    def start(log: Path, *words: str) -> forks.Fork:
        return server.fork(Command(["sqrtdk_job.job", *words], str(log)), variables)

    yield start
    os.environ["PYTHONPATH"] = before
    server.end()
    assert server._process is not None
    assert server._process.returncode == 0


@pytest.mark.parametrize(
    ("what", "code", "last"),
    [
        ("0", 0, "hello a b"),
        ("3", 3, "hello a b"),
        ("say", 1, "some words"),
        ("raise", 1, "ValueError: a bug"),
        ("kill", 128 + 9, "hello a b"),
    ],
)
def test_a_fork_has_the_exit_code_and_the_log_of_a_process(
    started: Callable[..., forks.Fork], tmp_path: Path, what: str, code: int, last: str
) -> None:
    log = tmp_path / "a b.log"
    assert started(log, what, "a b").wait() == code
    said = log.read_text("utf-8").splitlines()
    assert said[0] == "hello a b"
    assert said[-1] == last


def test_a_fork_is_killed_by_its_number(started: Callable[..., forks.Fork], tmp_path: Path) -> None:
    found = started(tmp_path / "log", "sleep")
    assert found.pid != os.getpid()
    found.kill()
    assert found.wait() == 128 + signal.SIGKILL
    # And again, when it has ended.
    found.kill()
    assert found.wait() == 128 + signal.SIGKILL


def test_a_log_that_cannot_be_written_fails_the_job(
    started: Callable[..., forks.Fork], tmp_path: Path
) -> None:
    assert started(tmp_path / "none" / "log", "0").wait() == 1


def test_a_fork_reports_its_cpu_time_and_its_memory_itself(
    started: Callable[..., forks.Fork], tmp_path: Path
) -> None:
    processes, record = forks.Processes(), BenchmarkRecord()
    found = started(tmp_path / "log", "work")
    processes.forks[found.pid] = found
    with processes.benchmarked(found.pid, record):
        found.wait()
    assert not processes.forks
    # Ten million additions, of a process that has more than an interpreter.
    assert 0.01 < record.cpu_time <= record.running_time + 0.01
    assert 5 < record.max_rss < 500
    header, row = BenchmarkRecord.get_header(), record.to_tsv(False).split("\t")
    assert dict(zip(header, row, strict=True))["max_rss"] == f"{record.max_rss:.2f}"


def test_anything_else_is_measured_as_snakemake_does() -> None:
    record = BenchmarkRecord()
    with forks.Processes().benchmarked(os.getpid(), record) as found:
        pass
    assert found is record
    assert record.max_rss > 5


def test_without_a_server_a_shell_starts_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(forks.Server, "fork", refuse)
    text = f"{PREFIX}python -m sqrtdk.jobs.configure --version 2> {tmp_path}/log"
    options = {"shell": True, "stdout": subprocess.DEVNULL, "env": dict(os.environ)}
    assert forks.command_of(text)
    assert forks.Processes().Popen(text, **options).wait() == 0


@pytest.mark.parametrize(
    "text",
    [
        # The shell has to do something: expand, redirect more, or run something before it.
        'python -m sqrtdk.jobs.trace a.json "$SQRTDK_COMMAND" 2> log',
        "python -m sqrtdk.jobs.draw `pwd` 2> log",
        "python -m sqrtdk.jobs.draw *.csv 2> log",
        "python -m sqrtdk.jobs.draw ~/a 2> log",
        "python -m sqrtdk.jobs.verify smoke 2>&1 | tee log",
        "python -m sqrtdk.jobs.draw a > out 2> log",
        "python -m sqrtdk.jobs.draw a 2> log; touch b",
        "touch b; python -m sqrtdk.jobs.draw a 2> log",
        "python -m sqrtdk.jobs.draw a",
        # Not this project's code.
        "python -m benchmarks.measure a 2> log",
        "python -m sqrtdkx.jobs a 2> log",
    ],
)
def test_a_command_that_a_shell_has_to_read_goes_to_a_shell(text: str) -> None:
    assert forks.command_of(f"{PREFIX}{text}") is None


def test_another_python_than_this_one_is_started_by_a_shell(tmp_path: Path) -> None:
    # As `--sdm conda` puts that of its environment first.
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 7\n", encoding="utf-8")
    python.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    text = f"{PREFIX}python -m sqrtdk.jobs.draw a 2> {tmp_path}/log"
    options = {"shell": True, "stdout": None, "env": dict(os.environ) | {"PATH": path}}
    processes = forks.Processes()
    assert processes.Popen(text, **options).wait() == 7
    assert not processes.forks


def test_snakemake_starts_jobs_with_what_is_replaced() -> None:
    # Otherwise the replacement would do nothing, silently.
    assert forks.STARTS.sp is subprocess
    assert callable(snakemake.benchmark.benchmarked)
