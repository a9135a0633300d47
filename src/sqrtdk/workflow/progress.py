"""What a run tells on the terminal: one line of progress, one line for a mistake.

A Snakemake logger plugin (profiles/default names it). Failed jobs, warnings and everything not
said better here are printed as Snakemake formats them.
"""

import argparse
import contextlib
import difflib
import logging
import re
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TextIO

import yte
from snakemake.exceptions import WorkflowError
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

from sqrtdk.system import disk, errors, interrupts, stdio
from sqrtdk.workflow import arguments

MILLISECONDS = {"draw": 3000, "derive": 4000, "exact_shard": 2500, "report": 2500}
"""Work of the jobs that take longer than most, by rule; each experiment has a rule that draws."""

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
)

MOST_LINES = 40
"""Lines of one log, and of the list of what failed."""

CELLS_FAILED = re.compile(r"sqrtdk: \d+ of \d+ cells failed:")
"""How `cells.rows` heads the cells that it names."""


FAULTS = ("AttributeError", "ImportError", "KeyError", "NameError", "SyntaxError", "TypeError")
"""Errors that are the program's also where they come before the Snakefile was read."""


class Expected:
    """What the Snakefile knows of the run and the handler, which is made before it, does not."""

    read = False
    """Whether the Snakefile was read: before that an error is one of the command line."""
    shards: Mapping[str, float] = {}
    """Work of each shard that may be computed, in milliseconds."""
    targets: tuple[str, ...] = ()
    """Names that a person may ask for."""
    refusal: str | None = None
    """Why no job is to start, where there is a reason."""
    log: TextIO | None = None
    """A second place for the lines of progress."""


class LogHandler(LogHandlerBase):
    """Snakemake's events as a few lines for a person."""

    def __post_init__(self) -> None:
        stdio.ensure()
        # Python's own handlers, that of Snakemake's log file among them, would print a traceback
        # for each line that a full disk does not take.
        logging.raiseExceptions = False
        self.failed: list[str] = []
        self.running: dict[int, float] = {}
        self.total = self.done = 0.0
        self.began = time.monotonic()
        self.unfinished = False
        self.told = 0.0
        # Before a config file is read: Snakemake's way would run the Python that stands in it.
        yte.process_yaml = partial(_read_config, yte.process_yaml)

    def emit(self, record: logging.LogRecord) -> None:
        """Follow one event; its fields are attributes of the record."""
        try:
            if record.levelno >= logging.WARNING:
                end_if_hopeless(record)
            self.follow(record)
        except OSError:
            # Nobody listens any more, and this thread has to go on watching.
            pass
        except Exception:
            with contextlib.suppress(OSError):
                traceback.print_exc()

    def follow(self, record: logging.LogRecord) -> None:
        """Count jobs, and print what is worth a line."""
        event = vars(record)
        kind = event.get("event")
        everything = self.common_settings.printshellcmds or self.common_settings.verbose
        if kind == LogEvent.RUN_INFO:
            jobs = {rule: count for rule, count in event["stats"].items() if rule != "total"}
            self.total = sum(self.work(rule) * count for rule, count in jobs.items())
        elif kind == LogEvent.JOB_INFO:
            shard = (event["wildcards"] or {}).get("shard")
            self.running[event["jobid"]] = self.work(event["rule_name"], shard)
        elif kind == LogEvent.JOB_FINISHED:
            self.done += self.running.pop(event["job_id"], 0)

        if kind == LogEvent.PROGRESS:
            self.tell(event["done"], event["total"])
        elif kind == LogEvent.JOB_ERROR and not everything:
            self.print(self.failure(event))
        elif kind == LogEvent.ERROR:
            text = self.format(record)
            if "At least one job did not complete" in text and self.failed:
                self.print(self.failures())
            # What a command was and what it said stands in the error of its job, which follows.
            elif everything or "CalledProcessError" not in text:
                self.print(mistake(text, event.get("exception")))
        elif everything or kind not in (*TOLD_BY_PROGRESS, LogEvent.RUN_INFO, LogEvent.JOB_INFO):
            text = self.format(record).strip()
            if text.startswith("Nothing to be done") and not self.common_settings.dryrun:
                # No job starts, so nobody else refuses it.
                give_up(Expected.refusal)
            if text and not text.startswith(CHATTER):
                self.print(text)
        elif kind == LogEvent.RUN_INFO and self.common_settings.dryrun:
            self.print(self.format(record).strip())

    def failure(self, event: Mapping[str, Any]) -> str:
        """What a failed job was to make and what it said; it is kept for the end as well."""
        made = next(iter(event["output"]), event["rule_name"])
        said = log_of(event)
        cells = said[1:] if said and CELLS_FAILED.match(said[0]) else []
        self.failed += cells or [f"{made}: {said[-1] if said else 'its job said nothing'}"]
        head = f"sqrtdk: {made} failed; {' '.join(event['log']) or 'its job'} says:"
        return "\n    ".join([head, *shortened(said)])

    def failures(self) -> str:
        """The list that ends a run in which jobs failed."""
        head = (
            f"sqrtdk: {len(self.failed)} failed, as listed here; shards and files that do not "
            "depend on them are finished and kept"
        )
        return "\n    ".join([head, *shortened(self.failed)])

    def work(self, rule: str, shard: str | None = None) -> float:
        """A job's work in milliseconds, roughly; without its name that of a usual shard."""
        if rule != "measure_shard":
            return MILLISECONDS.get("draw" if rule.startswith("draw_") else rule, 500)
        usual = sum(Expected.shards.values()) / max(len(Expected.shards), 1)
        return Expected.shards.get(shard or "", usual)

    def tell(self, done: int, total: int) -> None:
        """Write the line of progress: over the last one on a terminal."""
        passed = time.monotonic() - self.began
        share = 1.0 if done == total else min(self.done / max(self.total, 1), 0.99)
        left = f"about {clock(passed / share - passed)} left" if share > 0.02 else "estimating"
        line = f"{done} of {total} jobs, {share:.0%} of the work, {clock(passed)} passed, {left}"
        if Expected.log is not None:
            try:
                print(line, file=Expected.log, flush=True)
            except OSError as error:
                give_up(disk.fault(str(error)))
        if sys.stderr.isatty():
            self.unfinished = done < total
            end = "" if self.unfinished else "\n"
            print(f"\r\033[K{line}", end=end, file=sys.stderr, flush=True)
        elif passed - self.told >= 1 or done == total:
            # Thousands of quick jobs would otherwise fill a log with thousands of lines.
            self.told = passed
            print(line, file=sys.stderr, flush=True)

    def print(self, text: str) -> None:
        """Print whole lines, below an unfinished line of progress."""
        print("\n" * self.unfinished + text, file=sys.stderr, flush=True)
        self.unfinished = False

    @property
    def writes_to_stream(self) -> bool:
        """This is the terminal's handler; Snakemake adds none of its own."""
        return True

    @property
    def writes_to_file(self) -> bool:
        """The log file is Snakemake's own."""
        return False

    @property
    def has_filter(self) -> bool:
        """Snakemake's filter would keep from this handler what it counts."""
        return True

    @property
    def has_formatter(self) -> bool:
        """Snakemake's formatter applies, so a failed job shows its log."""
        return False

    @property
    def needs_rulegraph(self) -> bool:
        """No graph is drawn."""
        return False


def mistake(text: str, exception: str | None) -> str:
    """An error as one line where a person made it; unchanged where the program did."""
    missing = re.search(r"No rule to produce (.*?) \(if you", text)
    if missing:
        target = missing[1]
        key = target.partition("=")[0]
        if "=" in target and arguments.KEY.fullmatch(key):
            return f"sqrtdk: {target!r} is a key and no target; allowed: --config {target}"
        near = difflib.get_close_matches(target, Expected.targets, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]}?" if near else ""
        return f"sqrtdk: unknown target {target!r}; known: {', '.join(Expected.targets)}{hint}"
    if "Target rules may not contain wildcards" in text:
        known = ", ".join(Expected.targets)
        words = " ".join(word for word in sys.argv[1:] if word.isidentifier())
        return f"sqrtdk: {words!r}: a rule that makes many files is no target; known: {known}"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("sqrtdk: ")]
    if ours:
        return ours[0]
    comments = [word for word in sys.argv if re.search(r"=\s*#", word)]
    if not Expected.read and comments and exception == "AssertionError":
        # All that Snakemake says of a value that is none to YAML.
        allowed = "allowed: KEY=VALUE, with quotes around a value that has signs"
        return f"sqrtdk: {comments[0]!r} has a comment for its value; {allowed}"
    if not Expected.read and (found := arguments.mistake(sys.argv[1:])):
        return f"sqrtdk: {found}"
    if not Expected.read and exception not in FAULTS:
        return "sqrtdk: " + re.sub(r"^\w+Error:\s*(\[Errno \d+\] )?", "", lines[-1])
    return text


def refuse_option(parser: argparse.ArgumentParser, message: str) -> NoReturn:
    """End with one line for an option that Snakemake cannot read."""
    # All that Snakemake says of a target that `--quiet` took for one of its own words.
    if "--quiet" in message and (found := arguments.mistake(sys.argv[1:])):
        errors.answer(errors.MistakeError(found))
    errors.refuse_option(parser, message)


def shortened(lines: list[str]) -> list[str]:
    """Lines, the first of them where they are many.

    >>> shortened(["a"] * 42)[-2:]
    ['a', 'and 2 more']
    """
    more = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], f"and {more} more"] if more > 0 else lines


def log_of(event: Mapping[str, Any]) -> list[str]:
    """The end of what a failed job said: the cells that it names, or its last lines."""
    lines: list[str] = []
    for path in event["log"]:
        with contextlib.suppress(OSError):
            lines += Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    heads = [place for place, line in enumerate(lines) if CELLS_FAILED.match(line)]
    return lines[heads[-1] :] if heads else lines[-MOST_LINES:]


def end_if_hopeless(record: logging.LogRecord) -> None:
    """End the run where an error is a disk's or a damaged file's: other jobs would fail as well."""
    event = vars(record)
    kind = event.get("event")
    # Before the Snakefile is read, what is told as an error is one of the command line.
    if Expected.read or kind != LogEvent.ERROR:
        give_up(disk.fault(record.getMessage()))
    if kind == LogEvent.JOB_ERROR:
        for path in event["log"]:
            # The disk may have had no room for a reason.
            give_up(reason(path) or disk.ask(Path(path).parent))


def reason(log: str) -> str | None:
    """What the last line of a failed job's log says, if it is no fault of a cell's numbers."""
    try:
        last = Path(log).read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[2]
    except OSError:
        return None
    return last if last.startswith("sqrtdk: ") else disk.fault(last)


def give_up(line: str | None) -> None:
    """End the run with a line, if there is one."""
    if line is not None:
        interrupts.end(line, 1)


def _read_config(template: Callable[..., Any], file: Any, **options: Any) -> Any:
    """A config file, read as it stands; what else Snakemake reads with yte is left to it."""
    # Not at the top, because `snakemake --version` needs none of it.
    from sqrtdk.config import errors as config_errors
    from sqrtdk.config import yaml_reader

    if not options.get("require_use_yte") or isinstance(file, str):
        return template(file, **options)
    try:
        return yaml_reader.read_text(file.read().removeprefix("\ufeff"))
    except (config_errors.ConfigError, UnicodeDecodeError) as error:
        raise WorkflowError(f"sqrtdk: {file.name}: {error}") from None


def clock(seconds: float) -> str:
    """Seconds as m:ss or h:mm:ss.

    >>> clock(75), clock(3700)
    ('1:15', '1:01:40')
    """
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"


def expect(
    shards: Mapping[str, float], targets: tuple[str, ...], refusal: str | None = None
) -> None:
    """Tell the handler what the Snakefile found out."""
    Expected.read, Expected.shards, Expected.targets = True, shards, targets
    Expected.refusal = refusal


def keep_log(path: Path) -> None:
    """From now on write the lines of progress to a file too. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Expected.log = path.open("w", encoding="utf-8")
