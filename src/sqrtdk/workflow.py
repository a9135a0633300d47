"""What the Snakefile needs to know: the run, its shards, what each rule depends on, its progress."""

import ast
import fcntl
import hashlib
import logging
import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NoReturn, TextIO

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger
from snakemake_interface_logger_plugins.common import LogEvent

from sqrtdk import config, shards
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.figures import FIGURES

PACKAGE = Path(__file__).resolve().parent
STATE = Path(".snakemake/sqrtdk")
RESULTS = Path("results")


class Workflow:
    """One run, as Snakemake's `config` describes it. Bad input raises WorkflowError."""

    def __init__(self, values: Mapping[str, Any], arguments: list[str] | None = None) -> None:
        # Jobs call `python`; it has to be this one, also where the environment is not activated.
        os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        try:
            self.run = compose(values, sys.argv[1:] if arguments is None else arguments)
            self.plans = {
                name: shards.plan(
                    RESULTS / "shards" / name,
                    settings,
                    EXPERIMENTS[name].COLUMNS,
                    shard_seeds=self.run.shard_seeds,
                )
                for name, settings in self.run.settings.items()
            }
        except config.ConfigError as error:
            raise WorkflowError(str(error)) from None
        self.name = self.run.name
        self.folder = RESULTS / self.name
        self.experiments = list(self.run.settings)
        self._lock: TextIO | None = None

    @property
    def request(self) -> str:
        """The wanted configuration as a file, newer than config.yaml exactly if they differ.

        So Snakemake notices a changed grid by time stamp alone, also where its own records are
        gone, and nothing under results/ changes before a job runs.
        """
        text = self.run.to_yaml()
        path = STATE / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.yaml"
        resolved = self.folder / "config.yaml"
        same = resolved.is_file() and resolved.read_text(encoding="utf-8") == text
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or not same:
            path.write_text(text, encoding="utf-8")
        if same:
            os.utime(path, (0, 0))
        return str(path)

    def shard_files(self, experiment: str) -> list[str]:
        """The paths of an experiment's shards."""
        return [str(path) for path in self.plans[experiment].shards]

    def slab(self, wildcards: Any) -> str:
        """What one shard job computes, as JSON."""
        path = RESULTS / "shards" / wildcards.experiment / f"{wildcards.shard}.csv"
        return shards.to_json(self._slab(path))

    def cost(self, wildcards: Any) -> int:
        """A shard's work in units of about a millisecond."""
        path = RESULTS / "shards" / wildcards.experiment / f"{wildcards.shard}.csv"
        return self._cost(wildcards.experiment, self._slab(path))

    def _slab(self, path: Path) -> shards.Slab:
        for plan in self.plans.values():
            if path in plan.shards:
                return plan.shards[path]
        raise WorkflowError(f"{path} is no shard of this configuration")

    def _cost(self, experiment: str, slab: shards.Slab) -> int:
        # Time is near linear in the bytes that a cell touches, beside a constant per cell.
        start, stop = slab["seeds"]
        memory = EXPERIMENTS[experiment].memory(slab)
        return 1 + (stop - start) * len(slab["scaling"]) * (1 + memory // 2**24)

    def figures(self, experiment: str) -> list[str]:
        """The stems of an experiment's figures, without .svg and .png."""
        return [f"{self.folder}/figures/{experiment}-{what}" for what in FIGURES[experiment]]

    def begin(self) -> None:
        """Take the lock of results/, or refuse a second run, and start to show progress."""
        RESULTS.mkdir(exist_ok=True)
        self._lock = (RESULTS / ".lock").open("a+")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.seek(0)
            holder = self._lock.read().strip() or "unknown"
            raise WorkflowError(
                f"another run is at work in {RESULTS.resolve()} (process {holder}); "
                "wait for it or stop it, then give this command again"
            ) from None
        self._lock.truncate(0)
        self._lock.write(f"{os.getpid()}\n")
        self._lock.flush()


def compose(values: Mapping[str, Any], arguments: list[str]) -> config.Run:
    """The run of Snakemake's config mapping. Raises ConfigError."""
    refuse_repeats(arguments)
    given = dict(values)
    grammar = given.pop("hydra", "")
    if not isinstance(grammar, str):
        raise config.refuse("hydra", grammar, "Hydra overrides in one string: hydra='d_k=16'")
    try:
        overrides = shlex.split(grammar)
    except ValueError as error:
        raise config.refuse("hydra", grammar, f"balanced quotes ({error})") from None
    return config.compose(overrides, given)


def refuse_repeats(arguments: list[str]) -> None:
    """Refuse a key that `--config` names twice: Snakemake would keep the last in silence."""
    seen = set()
    inside = False
    for argument in arguments:
        if argument.startswith("-"):
            inside = argument in ("--config", "-C")
        elif inside and "=" in argument:
            key = argument.partition("=")[0]
            if key in seen:
                raise config.ConfigError(f"{key} is given twice; give it once, a list for several")
            seen.add(key)


def code(module: str) -> list[str]:
    """The source files that `python -m module` can import of this package, itself included.

    Snakemake does not look inside imports, so rules list these files as inputs.
    """
    found: dict[str, Path] = {}
    todo = [module]
    while todo:
        name = todo.pop()
        path = _source(name)
        if name and name not in found and path is not None:
            found[name] = path
            todo += [name.rpartition(".")[0], *_imported(path)]
    return sorted(os.path.relpath(path) for path in found.values())


def _source(module: str) -> Path | None:
    """The file of a module of this package."""
    base = PACKAGE.parent.joinpath(*module.split("."))
    files = (base.with_suffix(".py"), base / "__init__.py")
    return next((path for path in files if path.is_file() and PACKAGE in path.parents), None)


@cache
def _imported(path: Path) -> list[str]:
    """Every dotted name that a source file's imports may load, wherever they stand in it."""
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return [name for name in names if name.split(".")[0] == PACKAGE.name]


class Progress(logging.Handler):
    """Says after every job how much of the work is done and how long the rest may take.

    A terminal gets one line that is written over; anything else, and the log file, a line a job.
    """

    def __init__(self, work: Callable[[str, Any], int], total: int, log: TextIO) -> None:
        super().__init__()
        self.work, self.total, self.log = work, total, log
        self.done = 0
        self.open: dict[int, int] = {}
        self.began = time.monotonic()

    def emit(self, record: logging.LogRecord) -> None:
        """Follow Snakemake's job events."""
        event = getattr(record, "event", None)
        if event == LogEvent.JOB_INFO:
            self.open[record.jobid] = self.work(record.rule_name, record.wildcards)  # type: ignore[attr-defined]
        elif event == LogEvent.JOB_FINISHED:
            self.done += self.open.pop(record.job_id, 0)  # type: ignore[attr-defined]
        elif event == LogEvent.PROGRESS:
            self.say(f"{record.done} of {record.total} jobs")  # type: ignore[attr-defined]

    def say(self, jobs: str) -> None:
        """Write one line of progress."""
        passed = time.monotonic() - self.began
        share = min(self.done / self.total, 1.0)
        left = f"about {_clock(passed / share - passed)} left" if share > 0 else "estimating"
        line = f"{share:4.0%} of the work, {jobs}, {_clock(passed)} passed, {left}"
        self.log.write(f"{line}\n")
        self.log.flush()
        if sys.stderr.isatty():
            end = "\n" if share == 1 else ""
            print(f"\r\033[K{line}", end=end, file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
