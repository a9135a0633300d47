"""Jobs on a cluster, which here is this machine behind a script that submits jobs."""

import argparse
import math
import os
import re
import signal
import sys
import threading
import tomllib
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from conftest import ROOT, snakemake
from snakemake import cli
from snakemake.scheduling.job_scheduler import JobScheduler

from sqrtdk.config import compose
from sqrtdk.config.errors import ConfigError
from sqrtdk.experiments import cells
from sqrtdk.experiments.scaling import measure
from sqrtdk.jobs import merge
from sqrtdk.schema import Slab
from sqrtdk.storage import shard_files
from sqrtdk.system import interrupts
from sqrtdk.workflow import executors, expected_jobs, job_logs, patches, progress, submissions
from sqrtdk.workflow.time_left import Job, Place, TimeLeft

GRID = {"experiments": "scaling", "d_k": 16, "n_k": 16, "n_q": 4, "d_v": 4, "shard_seeds": 2}
TABLE = "results/one/scaling/runs.csv"

SUBMIT = """#!/bin/sh
echo "$1" >> submitted
setsid sh "$1" > "$1.out" 2>&1 &
echo $!
"""


def shards_of(scaling: object, seeds: int, folder: Path) -> dict[Path, Slab]:
    """Return the shards of the grid's plan, measured in this process."""
    run = compose.compose([], GRID | {"scaling": scaling, "seeds": seeds, "name": "one"})
    return merge.plan_of(run, "scaling", folder / "results/shards/scaling").shards


def test_a_cluster_measures_what_was_planned_in_one_job_though_the_disk_has_other_shards(
    tmp_path: Path,
) -> None:
    # What another run has left: some of the cells, cut in another way.
    for path, slab in shards_of("on", 2, tmp_path).items():
        rows = cells.measure_cells(measure.cells(slab), measure.COLUMNS)
        shard_files.write_shard(path, cast(dict[str, Any], slab), rows, measure.COLUMNS)
        before = path.stat().st_mtime_ns
    submit = tmp_path / "submit.sh"
    submit.write_text(SUBMIT, encoding="utf-8")
    submit.chmod(0o755)
    options = ("--executor", "cluster-generic", "--jobs", "2", "--latency-wait", "60")
    config = [f"{key}={value}" for key, value in GRID.items()]
    done = snakemake(
        tmp_path, TABLE, *options, "--cluster-generic-submit-cmd", str(submit),
        "--config", *config, "scaling=[off,on]", "seeds=4", "name=one",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert path.stat().st_mtime_ns == before
    # Two shards with scaling off and one with it on, in a job; the table is made here.
    assert len((tmp_path / "submitted").read_text(encoding="utf-8").splitlines()) == 1
    assert len(list((tmp_path / "results/shards/scaling").glob("*.csv"))) == 4
    slabs = shards_of(["off", "on"], 4, tmp_path / "elsewhere").values()
    rows = [
        row for slab in slabs for row in cells.measure_cells(measure.cells(slab), measure.COLUMNS)
    ]
    path = tmp_path / "all.csv"
    shard_files.write_shard(path, {}, rows, measure.COLUMNS)
    lines = merge.merge(shard_files.read_shard(path, measure.COLUMNS), measure.COLUMNS)
    assert (tmp_path / TABLE).read_text(encoding="utf-8") == "".join(lines)
    # Each shard of the job has its own time and memory, for the report.
    times = list((tmp_path / "results/shards/scaling").glob("dk*.tsv"))
    assert len(times) == 3
    assert all("max_rss" in file.read_text(encoding="utf-8") for file in times)


class Executor:
    """An executor of Snakemake that only remembers what is asked of it."""

    run_uuid = ""

    def __init__(self) -> None:
        self.cancelled: list[str] = []
        self.workflow = SimpleNamespace(executor_settings=SimpleNamespace(cancel_cmd="cancel"))

    def report_job_submission(self, info: Any) -> None: ...

    def report_job_success(self, info: Any) -> None: ...

    def report_job_error(self, info: Any, msg: str = "") -> None: ...

    def cancel_jobs(self, infos: list[Any]) -> None:
        self.cancelled += [info.external_jobid for info in infos]


@pytest.fixture
def executor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Executor:
    """An executor with the jobs 1 to 4, of which 2 has ended and 3 has failed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(interrupts, "_hooks", [])
    made: Any = Executor()
    submissions.Submissions("mine", made).follow()
    for number in "1234":
        made.report_job_submission(submissions._submitted(number))
    made.report_job_success(submissions._submitted("2"))
    made.report_job_error(submissions._submitted("3"), msg="failed")
    return cast(Executor, made)


def test_a_stopped_run_cancels_its_unfinished_jobs_and_says_so(
    executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[bytes] = []
    monkeypatch.setattr(interrupts, "_alone", lambda: 9)
    monkeypatch.setattr(os, "write", lambda handle, text: written.append(text))
    monkeypatch.setattr(os, "_exit", lambda code: written.append(b"%d" % code))
    monkeypatch.setattr(interrupts.psutil.Process, "children", lambda self, recursive: [])
    interrupts.stop(signal.SIGTERM, None)
    assert executor.cancelled == ["1", "4"]
    assert b"stopped by SIGTERM" in written[0]
    assert written[1:] == [b"sqrtdk: 2 jobs on the cluster cancelled\n", b"143"]
    # The next run does not cancel them again.
    assert submissions.read() == ("mine", "", [])


@pytest.mark.usefixtures("executor")
def test_the_next_run_cancels_what_a_killed_one_has_left(
    capsys: pytest.CaptureFixture[str],
) -> None:
    after: Any = Executor()
    submissions.begin(SimpleNamespace(scheduler=SimpleNamespace(_executor=after)), "mine")
    assert after.cancelled == ["1", "4"]
    assert "left by an earlier run: 2 jobs on the cluster cancelled" in capsys.readouterr().err
    # They are not its own.
    assert submissions.read() == ("mine", "", [])


@pytest.mark.usefixtures("executor")
def test_what_cannot_be_cancelled_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    after: Any = Executor()
    after.workflow.executor_settings.cancel_cmd = None
    submissions.Submissions("mine", after).cancel_orphans()
    assert "cannot be cancelled without --mine-cancel-cmd: 1 4" in capsys.readouterr().err
    submissions.Submissions("other", after).cancel_orphans()
    assert "with the executor mine, which may still run: 1 4" in capsys.readouterr().err
    assert after.cancelled == []


def options(*words: str) -> Any:
    """Return what the Snakefile sees of a command line."""
    _, parsed = cli.parse_args(["-s", str(ROOT / "Snakefile"), "-j4", *words])

    # Named like the function of Snakemake that calls the Snakefile.
    def args_to_api(args: Any) -> Any:
        return executors.options()

    assert executors.HOLDER in vars(cli)
    return args_to_api(parsed)


def test_the_executor_is_that_of_the_command_line_and_of_profiles(tmp_path: Path) -> None:
    assert executors.is_here(options())
    assert executors.is_here(options("-n"))
    assert executors.is_here(executors.options())
    assert executors.name_of(options("--executor", "cluster-generic")) == "cluster-generic"
    (tmp_path / "config.yaml").write_text("executor: cluster-generic\n", encoding="utf-8")
    assert not executors.is_here(options("--profile", str(tmp_path)))


def test_the_profile_for_slurm_has_what_the_usual_one_has() -> None:
    text = (ROOT / "profiles/slurm/config.yaml").read_text(encoding="utf-8")
    assert "executor: slurm\n" in text
    common = (ROOT / "profiles/default/config.yaml").read_text(encoding="utf-8").splitlines()
    settings = [line for line in common if line and not line.startswith("#")]
    assert [line for line in settings if line not in text.splitlines()] == []


@pytest.mark.parametrize(
    "option", ["--sdm apptainer", "--use-apptainer", "--sdm env-modules", "--use-envmodules"]
)
def test_software_for_jobs_that_no_rule_names_is_refused(option: str) -> None:
    with pytest.raises(ConfigError, match=r"--sdm: .*the whole command in the image"):
        executors.is_here(options(*option.split()))
    assert executors.is_here(options("--sdm", "conda"))


@pytest.mark.parametrize(
    "words", [["--executor", "slurm"], ["--slurm-account", "x"], ["--slurm-no-account"]]
)
def test_slurm_without_its_package_is_answered_with_how_to_install_it(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--executor", choices=["local"])
    monkeypatch.setattr(parser, "error", partial(patches._refuse_option, parser))
    monkeypatch.setattr(patches, "find_spec", lambda name: None)
    with pytest.raises(SystemExit):
        parser.parse_args(words)
    (line,) = capsys.readouterr().err.splitlines()
    assert "uv sync --extra slurm" in line
    monkeypatch.setattr(patches, "find_spec", lambda name: name)
    with pytest.raises(SystemExit):
        parser.parse_args(words)
    assert "--extra" not in capsys.readouterr().err


def test_the_image_and_conda_have_what_pyproject_lists_for_slurm() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (needed,) = project["optional-dependencies"]["slurm"]
    assert needed in (ROOT / "environment.yml").read_text(encoding="utf-8")
    image = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert "uv sync --frozen --no-dev --no-editable --extra slurm" in image
    copied = " ".join(re.findall(r"^COPY (.*) \S+$", image, re.MULTILINE)).split()
    assert all((ROOT / name).exists() for name in copied)
    # Whatever a wheel carries, and the code.
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]
    carried = wheel["build"]["targets"]["wheel"]["force-include"]
    assert {"src", "pyproject.toml", "uv.lock", *carried} <= set(copied)
    assert 'ENTRYPOINT ["python", "-m", "sqrtdk.workflow"]' in image


def test_the_time_left_on_a_cluster_counts_its_slots() -> None:
    # 12 jobs of an estimated minute: 2 have ended after 2 minutes each, 4 have run for one.
    found = TimeLeft()
    jobs = {n: Job("cluster x", 60.0, place=Place.CLUSTER) for n in range(12)}
    found.expect(jobs, {Place.HERE: 1, Place.CLUSTER: 4})
    for n in range(6):
        found.start(n, 0.0 if n < 2 else 120.0)
        if n < 2:
            found.end(n, 120.0)
    # 4 jobs for another minute, then 6 others of 2 minutes, 4 at a time: the last ones begin at 3
    # minutes. The estimate keeps some weight.
    assert found.left(180.0) == pytest.approx(60 + 120 + 120, rel=0.05)
    # However many slots there are, a job takes its time.
    found.slots = {Place.HERE: 1, Place.CLUSTER: math.inf}
    assert found.left(180.1) == pytest.approx(120, rel=0.05)


@pytest.mark.parametrize(("jobs", "places"), [(7, 7), (sys.maxsize, math.inf)])
def test_the_slots_of_a_cluster_are_those_that_may_be_submitted(jobs: int, places: float) -> None:
    settings = SimpleNamespace(local_cores=3)
    run = SimpleNamespace(local_exec=False, nodes=jobs, resource_settings=settings)
    assert expected_jobs.slots(run) == {Place.HERE: 3, Place.CLUSTER: places}
    here = SimpleNamespace(local_exec=True, cores=5)
    assert expected_jobs.slots(here) == {Place.HERE: 5}


def test_beside_a_cluster_no_more_jobs_run_here_than_local_cores() -> None:
    # As Snakemake makes it.
    local = SimpleNamespace(pool=ThreadPoolExecutor(7), workers=7)
    run = SimpleNamespace(
        scheduler=SimpleNamespace(_local_executor=local),
        resource_settings=SimpleNamespace(local_cores=2),
    )
    patches.keep_local_cores(run)
    third, go = threading.Event(), threading.Event()
    for job in (go.wait, go.wait, third.set):
        local.pool.submit(job)
    # Two threads wait, and there is no other.
    assert len(local.pool._threads) == 2
    assert not third.is_set()
    go.set()
    local.pool.shutdown()
    assert third.is_set()
    # Without a cluster there is no such executor.
    run.scheduler._local_executor = None
    patches.keep_local_cores(run)


def test_the_scheduler_of_a_cluster_has_one_timer_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timers: list[Any] = []
    monkeypatch.setattr(
        patches.threading,
        "Timer",
        lambda delay, call: timers.append(call) or SimpleNamespace(start=lambda: None),
    )
    looks: list[str] = []
    scheduler = SimpleNamespace(_open_jobs=SimpleNamespace(release=lambda: looks.append("look")))
    run: Any = SimpleNamespace(scheduler=scheduler)
    patches.arm_one_timer(run)
    for _ in range(3):
        run.scheduler._schedule_reevalutation(1)
    assert len(timers) == 1
    timers[0]()
    assert looks == ["look"]
    run.scheduler._schedule_reevalutation(1)
    assert len(timers) == 2
    # The scheduler calls it by this name.
    assert hasattr(JobScheduler, "_schedule_reevalutation")


def failed_job(number: int, *logs: Path) -> dict[str, Any]:
    return {
        "jobid": number, "rule_name": "shards_x", "output": ["results/shards/x/a.csv"],
        "log": list(map(str, logs)),
    }  # fmt: skip


def test_failing_cells_are_counted_once_however_long_the_log_of_the_batch_system(
    tmp_path: Path,
) -> None:
    own, system = tmp_path / "a.log", tmp_path / ".snakemake/slurm_logs/1.log"
    system.parent.mkdir(parents=True)
    own.write_text("sqrtdk: 2 of 9 cells failed:\nd_k=1: an error\nd_k=2: an error\n")
    system.write_text("a line of Snakemake\n" * 300)
    handler = object.__new__(progress.LogHandler)
    handler.failed = {}
    # Three attempts of one job.
    for _ in range(3):
        handler.failure(failed_job(1, own, system))
    own.unlink()
    assert handler.failure(failed_job(2, own, system)).count("a line of Snakemake") == 40
    head, *lines = handler.failures().split("\n    ")
    assert head.startswith("sqrtdk: 3 failed")
    assert lines[:2] == ["d_k=1: an error", "d_k=2: an error"]


def test_why_the_batch_system_has_ended_a_job_is_said(tmp_path: Path) -> None:
    handler = object.__new__(progress.LogHandler)
    handler.failed = {}
    own = tmp_path / "a.log"
    refused = failed_job(1, own) | {"rule_msg": "sbatch failed: too much\nmemory\n sbatch call: x"}
    assert handler.failure(refused).endswith("a.csv failed: sbatch failed: too much memory")
    own.write_text("measuring\n")
    late = failed_job(2, own) | {"rule_msg": "SLURM status is: 'TIMEOUT'. "}
    assert f"failed: SLURM status is: 'TIMEOUT'; {own} says:" in handler.failure(late)
    # What Snakemake itself says of a job that has failed on a cluster.
    plain = failed_job(3, own) | {"rule_msg": "For further error details see the log."}
    assert f"a.csv failed; {own} says:" in handler.failure(plain)
    lines = handler.failures()
    assert "a.csv: sbatch failed: too much memory" in lines
    assert "a.csv: SLURM status is: 'TIMEOUT'" in lines


def test_a_job_that_was_cancelled_does_not_end_the_run(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("sqrtdk: stopped by SIGTERM; finished results are kept\n")
    assert job_logs.reason(str(log)) is None
    system = tmp_path / ".snakemake/1.log"
    system.parent.mkdir()
    system.write_text("OSError: [Errno 28] No space left on device: '/tmp/x'\n")
    assert job_logs.own_logs(failed_job(1, log, system)) == [str(log)]
