"""Jobs on a cluster: which ones a run has submitted, so that none outlives it unnoticed.

The record is a file, because a run may be killed. Snakemake's own record, its markers of
unfinished files, loses the number of a job as soon as the job starts.
"""

import contextlib
import shutil
import subprocess
import threading
from collections.abc import Callable
from typing import Any

from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo

from sqrtdk.system import interrupts, stdio
from sqrtdk.workflow.code_files import STATE

RECORD = STATE / "submitted"
"""The record. Its first line names the executor and the run; `+ID` and `-ID` follow."""

TRIES = 3
"""How often jobs are cancelled by name: one may be submitted while another is cancelled."""


class Submissions:
    """The jobs that this run has on a cluster, through Snakemake's executor of a name."""

    def __init__(self, name: str, executor: Any) -> None:
        self._name, self._executor = name, executor
        # SLURM's executor gives all jobs of a run this name.
        self._run = getattr(executor, "run_uuid", "")
        self._ids: set[str] = set()
        self._lock = threading.Lock()

    def follow(self) -> None:
        """Record every job from now on, and cancel them if this process is stopped."""
        RECORD.parent.mkdir(parents=True, exist_ok=True)
        RECORD.write_text(f"{self._name} {self._run}\n", encoding="utf-8")
        for method, sign in (
            ("report_job_submission", "+"),
            ("report_job_success", "-"),
            ("report_job_error", "-"),
        ):
            setattr(self._executor, method, self._noting(getattr(self._executor, method), sign))
        interrupts.when_stopped(self.stop)

    def _note(self, sign: str, number: str) -> None:
        with RECORD.open("a", encoding="utf-8") as file:
            file.write(f"{sign}{number}\n")

    def _noting(self, report: Callable[..., None], sign: str) -> Callable[..., None]:
        def noting(info: SubmittedJobInfo, *arguments: Any, **options: Any) -> None:
            if info.external_jobid is not None:
                with self._lock:
                    (self._ids.add if sign == "+" else self._ids.discard)(info.external_jobid)
                    self._note(sign, info.external_jobid)
            report(info, *arguments, **options)

        return noting

    def stop(self) -> str:
        """Cancel the jobs, and return the line about it. Called in a signal handler."""
        # No lock here: the interrupted code may hold it.
        ids = sorted(self._ids)
        # SLURM's executor submits in threads of its own, which would go on.
        with contextlib.suppress(Exception):
            self._executor._job_submission_executor.shutdown(wait=False, cancel_futures=True)
        if not ids:
            return ""
        return self.cancel(ids)

    def cancel(self, ids: list[str]) -> str:
        """Cancel jobs by their numbers, and return the line about it."""
        count = f"{len(ids)} {'job' if len(ids) == 1 else 'jobs'}"
        settings = getattr(self._executor.workflow, "executor_settings", None)
        if getattr(settings, "cancel_cmd", "") is None:
            return (
                f"{count} on the cluster cannot be cancelled without --{self._name}-cancel-cmd: "
                f"{' '.join(ids)}"
            )
        # One that has ended in the meantime is an error of its command, and no reason to stop here.
        with contextlib.suppress(Exception):
            self._executor.cancel_jobs([_submitted(one) for one in ids])
            # The next run does not have to.
            for number in ids:
                self._note("-", number)
        cancel_by_name(self._run)
        return f"{count} on the cluster cancelled"

    def cancel_orphans(self) -> None:
        """Cancel what a run that was killed has left on the cluster."""
        name, run, ids = read()
        if not ids:
            return
        if name != self._name:
            stdio.warn(
                f"an earlier run has submitted jobs with the executor {name}, which may still run: "
                f"{' '.join(ids)}"
            )
            return
        cancel_by_name(run)
        stdio.warn(f"left by an earlier run: {self.cancel(ids)}")


def _submitted(number: str) -> SubmittedJobInfo:
    return SubmittedJobInfo(job=None, external_jobid=number, aux={})


def read() -> tuple[str, str, list[str]]:
    """Return the executor, the run and the unfinished jobs of the record of the last run."""
    try:
        first, *lines = RECORD.read_text(encoding="utf-8").splitlines() or [""]
    except FileNotFoundError:
        return "", "", []
    name, _, run = first.partition(" ")
    ids: dict[str, None] = {}
    for line in lines:
        if line.startswith("+"):
            ids[line[1:]] = None
        else:
            ids.pop(line[1:], None)
    return name, run, list(ids)


def cancel_by_name(run: str) -> None:
    """Cancel SLURM's jobs of a run, also those whose numbers are not known yet."""
    if not run or shutil.which("scancel") is None:
        return
    for _ in range(TRIES):
        subprocess.run(["scancel", f"--name={run}"], capture_output=True, check=False)
        queue = ["squeue", "--noheader", "--states=PD,R", "--format=%i", f"--name={run}"]
        if not subprocess.run(queue, capture_output=True, check=False).stdout.strip():
            return


def begin(workflow: Any, name: str) -> None:
    """Cancel what an earlier run has left, and follow the jobs of this one."""
    submissions = Submissions(name, workflow.scheduler._executor)
    submissions.cancel_orphans()
    submissions.follow()
