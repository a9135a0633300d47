"""Report a run on the terminal: one line of progress, one line for a user error.

This is a Snakemake logger plugin (profiles/default names it). Failed jobs, warnings and everything
else are printed as Snakemake formats them.
"""

import contextlib
import logging
import re
import shutil
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from snakemake.settings.enums import Quietness
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

from sqrtdk.schema import Document
from sqrtdk.system import disk, interrupts, stdio
from sqrtdk.workflow import arguments, job_logs, patches, times
from sqrtdk.workflow.job_logs import MOST_LINES
from sqrtdk.workflow.time_left import Job, Place, TimeLeft
from sqrtdk.workflow.times import Times

STATE = Path(".snakemake/sqrtdk")
"""Folder of the record of how long jobs took."""

TICKS = (1.0, 30.0)
"""Seconds between two lines of progress while no job ends, on a terminal and elsewhere."""

TOLD_BY_PROGRESS = (
    LogEvent.JOB_FINISHED,
    LogEvent.JOB_STARTED,
    LogEvent.SHELLCMD,
    LogEvent.RESOURCES_INFO,
    LogEvent.WORKFLOW_STARTED,
    LogEvent.DEBUG_DAG,
)
"""Events without a line of their own; `--printshellcmds` or `--verbose` brings them back."""

CHATTER = (
    "Select jobs to execute",
    "Using shell",
    "Conda environments: ignored",
    "Assuming unrestricted shared filesystem",
    "Execute ",
    "Provided cores",
    "Rules claiming more threads",
    "Exiting because a job execution failed",
    "Missing metadata for file",
)

BUGS = ("AttributeError", "ImportError", "KeyError", "NameError", "SyntaxError", "TypeError")
"""Errors that are bugs even if they are raised before the Snakefile was read."""


class RunState:
    """State that the Snakefile passes to the log handler, which is created first."""

    read = False
    """True once the Snakefile was read; earlier errors are those of the command line."""
    jobs: tuple[Mapping[int, Job], Mapping[Place, float]] = {}, {}
    """The jobs of the run, by Snakemake's numbers, and how many run at a time; known before the
    first one starts."""
    targets: tuple[str, ...] = ()
    """Names of the public targets."""
    refusal: str | None = None
    """The reason to start no job, if any."""
    log: TextIO | None = None
    """A second place for the lines of progress."""


class LogHandler(LogHandlerBase):
    """Show Snakemake's events as a few lines."""

    is_quiet = False
    """Whether `--quiet` keeps the progress from the terminal."""

    def __post_init__(self) -> None:
        stdio.ensure()
        # Python's own handlers, such as that of Snakemake's log file, would print a traceback
        # for each line that does not fit on a full disk.
        logging.raiseExceptions = False
        self.failed: dict[int, list[str]] = {}
        self.time_left = TimeLeft()
        self.jobs = 0, 0
        self.began = time.monotonic()
        self.unfinished = False
        self.printed_at = 0.0
        quiet = set(self.common_settings.quiet or ())
        self.is_quiet = bool(quiet & {Quietness.PROGRESS, Quietness.ALL})
        # Before a config file is read.
        patches.read_config_files_as_data()

    def emit(self, record: logging.LogRecord) -> None:
        """Follow one event; its fields are attributes of the record."""
        try:
            if record.levelno >= logging.WARNING:
                abort_on_fatal(record)
            self.follow(record)
        except OSError:
            # The output is closed, but this thread must keep following the run.
            pass
        except Exception:
            with contextlib.suppress(OSError):
                traceback.print_exc()

    def follow(self, record: logging.LogRecord) -> None:
        """Count jobs, and print the events that deserve a line."""
        event = vars(record)
        kind = event.get("event")
        everything = self.common_settings.printshellcmds or self.common_settings.verbose
        if kind == LogEvent.RUN_INFO:
            jobs = {rule: count for rule, count in event["stats"].items() if rule != "total"}
            own = times.read(times.record_path(STATE))
            self.time_left.times = Times(own, times.read(times.USUAL))
            self.jobs = 0, sum(jobs.values())
            if not (self.common_settings.dryrun or self.is_quiet):
                threading.Thread(target=self.tick, daemon=True).start()
        elif kind == LogEvent.JOB_INFO:
            if not self.time_left.jobs:
                self.time_left.expect(*RunState.jobs)
            self.time_left.start(event["jobid"], time.monotonic())
        elif kind == LogEvent.JOB_FINISHED:
            self.time_left.end(event["job_id"], time.monotonic())
            # It had failed before, and was repeated.
            self.failed.pop(event["job_id"], None)

        elif kind == LogEvent.JOB_ERROR:
            self.time_left.fail(event["jobid"])

        if kind == LogEvent.PROGRESS:
            self.jobs = event["done"], event["total"]
            self.print_progress(*self.jobs)
            if event["done"] == event["total"]:
                found = self.time_left.times.with_run(self.time_left.measured())
                times.write(times.record_path(STATE), found)
        elif kind == LogEvent.JOB_ERROR and not everything:
            self.print(self.failure(event))
        elif kind == LogEvent.ERROR:
            text = self.format(record)
            if "At least one job did not complete" in text and self.failed:
                self.print(self.failures())
            # The error of the job follows and includes the command and its output.
            elif everything or "CalledProcessError" not in text:
                self.print(user_message(text, event.get("exception")))
        elif everything or kind not in (*TOLD_BY_PROGRESS, LogEvent.RUN_INFO, LogEvent.JOB_INFO):
            text = self.format(record).strip()
            if text.startswith("Nothing to be done") and not self.common_settings.dryrun:
                # No job starts, so nothing else would refuse the run.
                abort(RunState.refusal)
            if text and not text.startswith(CHATTER):
                self.print(text)
        elif kind == LogEvent.RUN_INFO and self.common_settings.dryrun:
            self.print(self.format(record).strip())

    def failure(self, event: Document) -> str:
        """Return the files and the last log lines of a failed job; record them for the end."""
        made = next(iter(event["output"]), event["rule_name"])
        said, why = job_logs.log_of(event), job_logs.batch_system_says(event)
        cells = said[1:] if said and job_logs.CELLS_FAILED.match(said[0]) else []
        # Of the last attempt of a job that is repeated.
        self.failed[event["jobid"]] = cells or [
            f"{made}: {why or (said[-1] if said else 'its job printed nothing')}"
        ]
        head = f"sqrtdk: {made} failed"
        if why:
            head += f": {why}"
        if said or not why:
            head += f"; {' '.join(event['log']) or 'its job'} says:"
        return "\n    ".join([head, *shortened(said)])

    def failures(self) -> str:
        """Return the list that ends a run with failed jobs."""
        failed = [line for lines in self.failed.values() for line in lines]
        head = (
            f"sqrtdk: {len(failed)} failed, as listed here; shards and files that do not "
            "depend on them are finished and kept"
        )
        return "\n    ".join([head, *shortened(failed)])

    def tick(self) -> None:
        """Print the line of progress again and again while jobs run, until all have ended."""
        pause = TICKS[0 if sys.stderr.isatty() else 1]
        printed, lock = time.monotonic(), self.lock or threading.RLock()
        while self.jobs[0] < self.jobs[1]:
            time.sleep(pause / 4)
            with lock, contextlib.suppress(OSError):
                now = max(printed, self.began + self.printed_at)
                if self.jobs[0] < self.jobs[1] and time.monotonic() - now >= pause:
                    printed = time.monotonic()
                    self.show(self.line(*self.jobs), end="")

    def line(self, done: int, total: int) -> str:
        """Return the line of progress."""
        now = time.monotonic()
        passed = now - self.began
        if done == total:
            share, left = 1.0, "about 0:00 left"
        else:
            seconds = self.time_left.left(now)
            known = seconds is not None and done > 0
            share = min(passed / max(passed + (seconds or 0.0), 1e-9), 0.99) if known else 0.0
            left = f"about {clock(seconds or 0.0)} left" if known else "estimating"
        return f"{done} of {total} jobs, {share:.0%} of the work, {clock(passed)} passed, {left}"

    def show(self, line: str, end: str) -> None:
        """Print a line of progress; on a terminal it replaces the previous one."""
        if sys.stderr.isatty():
            # A line that wraps could not be replaced.
            width = shutil.get_terminal_size().columns - 1
            self.unfinished = not end
            print(f"\r\033[K{line[:width]}", end=end, file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)

    def print_progress(self, done: int, total: int) -> None:
        """Write the line of progress to the terminal and to the log."""
        passed, line = time.monotonic() - self.began, self.line(done, total)
        if RunState.log is not None:
            try:
                print(line, file=RunState.log, flush=True)
            except OSError as error:
                abort(disk.explain_os_error(str(error)))
        if self.is_quiet:
            return
        # Otherwise thousands of quick jobs would fill a log with thousands of lines.
        if sys.stderr.isatty() or passed - self.printed_at >= 1 or done == total:
            self.printed_at = passed
            self.show(line, "" if done < total else "\n")

    def print(self, text: str) -> None:
        """Print whole lines, below an unfinished line of progress."""
        print("\n" * self.unfinished + text, file=sys.stderr, flush=True)
        self.unfinished = False

    @property
    def writes_to_stream(self) -> bool:
        """Return True: this handler replaces Snakemake's own on the terminal."""
        return True

    @property
    def writes_to_file(self) -> bool:
        """Return False: the log file is Snakemake's own."""
        return False

    @property
    def has_filter(self) -> bool:
        """Return True: Snakemake's filter would hide events that this handler counts."""
        return True

    @property
    def has_formatter(self) -> bool:
        """Return False: Snakemake's formatter applies, so a failed job shows its log."""
        return False

    @property
    def needs_rulegraph(self) -> bool:
        """Return False: no graph is drawn."""
        return False


def user_message(text: str, exception: str | None) -> str:
    """Return a user error as one line; return other errors unchanged."""
    missing = re.search(r"No rule to produce (.*?) \(if you", text)
    if missing:
        target = missing[1]
        key = target.partition("=")[0]
        if "=" in target and arguments.KEY.fullmatch(key):
            return f"sqrtdk: {target!r} is a key, not a target; allowed: --config {target}"
        return f"sqrtdk: {arguments.unknown_target(target, RunState.targets)}"
    if "Target rules may not contain wildcards" in text:
        known = ", ".join(RunState.targets)
        words = " ".join(word for word in sys.argv[1:] if word.isidentifier())
        return f"sqrtdk: {words!r}: a rule that makes many files is not a target; known: {known}"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("sqrtdk: ")]
    if ours:
        return ours[0]
    comments = [word for word in sys.argv if re.search(r"=\s*#", word)]
    if not RunState.read and comments and exception == "AssertionError":
        # Snakemake says nothing else about a value that YAML reads as empty.
        allowed = "allowed: KEY=VALUE, with quotes around a value that has signs"
        return f"sqrtdk: {comments[0]!r} has a comment as its value; {allowed}"
    if not RunState.read and (found := arguments.command_error(sys.argv[1:])):
        return f"sqrtdk: {found}"
    if not RunState.read and (exception not in BUGS or "in parse_args" in text):
        said = lines[1:] if exception == "WorkflowError" else lines[-1:]
        return "sqrtdk: " + re.sub(r"^\w+Error:\s*(\[Errno \d+\] )?", "", " ".join(said))
    return late_message(text, lines, exception)


def late_message(text: str, lines: list[str], exception: str | None) -> str:
    """Return an error of a command line that Snakemake notices only after it has read the files."""
    resource = re.search(r"Resource '\w+' .*", text)
    if resource:
        return f"sqrtdk: {resource[0].strip()}"
    unfinished = re.search(r"File (\S+) marked for report but does not exist", text)
    if unfinished:
        needs = "--report needs a finished run; give the same command without --report first"
        return f"sqrtdk: {unfinished[1]} is missing; {needs}"
    if exception in ("FileNotFoundError", "PermissionError", "NotADirectoryError"):
        return "sqrtdk: " + re.sub(r"^\w+Error:\s*(\[Errno \d+\] )?", "", lines[-1])
    if exception in ("WorkflowError", "UnknownRuleException") and len(lines) < 10:
        return "sqrtdk: " + " ".join(lines[1:] or lines)
    return text


class OneLine(logging.Filter):
    """Shorten errors of the command line, which Snakemake logs before it has a log handler."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Change the record's message; return True, which keeps the record."""
        event = vars(record)
        if event.get("event") == LogEvent.ERROR and not RunState.read:
            record.msg = user_message(record.getMessage(), event.get("exception"))
            record.args = ()
        return True


def shortened(lines: list[str]) -> list[str]:
    """Return the first lines, and how many more there are.

    >>> shortened(["a"] * 42)[-2:]
    ['a', 'and 2 more']
    """
    more = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], f"and {more} more"] if more > 0 else lines


def abort_on_fatal(record: logging.LogRecord) -> None:
    """Stop the run for a disk error or a damaged file: other jobs would fail as well."""
    event = vars(record)
    kind = event.get("event")
    # Before the Snakefile is read, an error is one of the command line.
    if RunState.read or kind != LogEvent.ERROR:
        abort(disk.explain_os_error(record.getMessage()))
    if kind == LogEvent.JOB_ERROR:
        for path in job_logs.own_logs(event):
            # The disk may have had no space for the reason.
            abort(job_logs.reason(path) or disk.probe(Path(path).parent))


def abort(line: str | None) -> None:
    """Stop the run with a line, if there is one."""
    if line is not None:
        interrupts.end(line, 1)


def clock(seconds: float) -> str:
    """Format seconds as m:ss or h:mm:ss.

    >>> clock(75), clock(3700)
    ('1:15', '1:01:40')
    """
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"


def pass_state(targets: tuple[str, ...], refusal: str | None = None) -> None:
    """Pass the Snakefile's state to the handler."""
    RunState.read, RunState.targets, RunState.refusal = True, targets, refusal


def pass_jobs(jobs: Mapping[int, Job], slots: Mapping[Place, float]) -> None:
    """Pass to the handler what the run will do, before its first job starts."""
    RunState.jobs = jobs, slots


def keep_log(path: Path) -> None:
    """Also write the lines of progress to a file from now on. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    RunState.log = path.open("w", encoding="utf-8")
