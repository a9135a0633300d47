"""What the Snakefile needs to know: the run, its shards, and what each rule depends on."""

import ast
import fcntl
import hashlib
import json
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TextIO

import yaml
from snakemake.exceptions import WorkflowError

from sqrtdk import config, curves, exact, progress, shards
from sqrtdk.experiments.registry import EXPERIMENTS, Experiment
from sqrtdk.figures import FIGURES, TABLES

PACKAGE = Path(__file__).resolve().parent
STATE = Path(".snakemake/sqrtdk")
RESULTS = Path("results")
SHARDS = RESULTS / "shards"


class Workflow:
    """One run, as Snakemake's `config` describes it. Bad input raises WorkflowError."""

    def __init__(self, values: Mapping[str, Any], files: Sequence[Path] = ()) -> None:
        # Jobs call `python`; it has to be this one, also where the environment is not activated.
        os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        arguments = sys.argv[1:]
        # Not a parameter of a rule: a new command line alone makes no result stale.
        os.environ["SQRTDK_COMMAND"] = shlex.join(["snakemake", *arguments])
        try:
            self.run = compose(values, files, arguments)
            self.plans = {
                name: shards.plan(
                    SHARDS / name,
                    settings,
                    EXPERIMENTS[name].COLUMNS,
                    shard_seeds=self.run.shard_seeds,
                    within=EXPERIMENTS[name].WITHIN,
                )
                for name, settings in self.run.settings.items()
            }
            self.exact = {
                name: exact.specs(point for _, point in curves.points(name, settings))
                for name, settings in self.run.settings.items()
            }
        except config.ConfigError as error:
            # Not WorkflowError: Snakemake would add lines about its own files to it.
            sys.exit(f"sqrtdk: {error}")
        self.name = self.run.name
        self.folder = RESULTS / self.name
        self.experiments = list(self.run.settings)
        self._lock: TextIO | None = None
        self._expect()

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

    def measured(self, experiment: str) -> list[str]:
        """The shards that hold an experiment's cells."""
        return [str(path) for path in self.plans[experiment].shards]

    def expected(self, experiment: str) -> list[str]:
        """The shards that hold an experiment's exact expectations."""
        return [str(SHARDS / "exact" / name) for name in self.exact[experiment]]

    def shard_files(self) -> list[str]:
        """Every shard of the run."""
        return [
            path for name in self.experiments for path in self.measured(name) + self.expected(name)
        ]

    def slab(self, wildcards: Any) -> str:
        """What one shard job measures, as JSON."""
        path = SHARDS / wildcards.experiment / f"{wildcards.shard}.csv"
        return json.dumps(self.plans[wildcards.experiment].shards[path])

    def points(self, wildcards: Any) -> str:
        """The points of one shard of expectations, as JSON."""
        name = f"{wildcards.points}.csv"
        return next(json.dumps(specs[name]) for specs in self.exact.values() if name in specs)

    def tables(self, experiment: str) -> list[str]:
        """The tables that an experiment's figures are drawn from."""
        return [f"{self.folder}/{experiment}/{name}.csv" for name in TABLES[experiment]]

    def _expect(self) -> None:
        new = {
            path.stem: _milliseconds(EXPERIMENTS[name], slab)
            for name, plan in self.plans.items()
            for path, slab in plan.shards.items()
            if path in plan.missing or not plan.missing
        }
        progress.expect(new, ("all", *self.experiments))

    def answering(self) -> list[str]:
        """The tables that the concept check is answered from, of those that the run has."""
        needed = {"related": "summary", "scaling": "distances"}
        return [
            f"{self.folder}/{name}/{needed[name]}.csv"
            for name in self.experiments
            if name in needed
        ]

    def figures(self, experiment: str) -> list[str]:
        """The SVG files of an experiment's figures."""
        return [f"{self.folder}/figures/{experiment}-{what}.svg" for what in FIGURES[experiment]]

    def begin(self) -> None:
        """Take the lock of results/, or refuse a second run; open the progress log."""
        RESULTS.mkdir(exist_ok=True)
        self._lock = (RESULTS / ".lock").open("a+")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.seek(0)
            raise WorkflowError(
                f"another run is at work in {RESULTS}/ (process {self._lock.read().strip()}); "
                "wait for it or stop it, then give this command again"
            ) from None
        self._lock.truncate(0)
        self._lock.write(f"{os.getpid()}\n")
        self._lock.flush()
        progress.keep_log(self.folder / "logs" / "progress.log")


def _milliseconds(experiment: Experiment, slab: shards.Slab) -> float:
    # Measured: about 1.5 ms a cell, and 1 ms for each MiB that it touches.
    start, stop = slab["seeds"]
    cells = (stop - start) * len(slab["scaling"])
    return float(500 + cells * (1.5 + experiment.memory(slab) / 2**20))


def compose(
    values: Mapping[str, Any], files: Sequence[Path] = (), arguments: Sequence[str] = ()
) -> config.Run:
    """The run of Snakemake's config mapping, its config files and its command line.

    Raises ConfigError, also for a key that stands twice: the last would win in silence.
    """
    for file in files:
        _refuse_repeat_in(yaml.compose(file.read_text(encoding="utf-8")))
    _refuse_repeat(_config_keys(arguments))
    given = dict(values)
    grammar = given.pop("hydra", "")
    if not isinstance(grammar, str):
        raise config.refuse("hydra", grammar, "Hydra overrides in one string: hydra='d_k=16'")
    try:
        overrides = shlex.split(grammar)
    except ValueError as error:
        raise config.refuse("hydra", grammar, f"balanced quotes ({error})") from None
    return config.compose(overrides, given)


def _config_keys(arguments: Sequence[str]) -> Iterator[str]:
    """The keys that follow `--config` on a command line."""
    inside = False
    for argument in arguments:
        if argument.startswith("-"):
            option, _, argument = argument.partition("=")
            inside = option in ("--config", "-C")
        if inside and "=" in argument:
            yield argument.partition("=")[0]


def _refuse_repeat_in(node: yaml.Node | None) -> None:
    if isinstance(node, yaml.MappingNode):
        _refuse_repeat(key.value for key, _ in node.value)
        for _, value in node.value:
            _refuse_repeat_in(value)


def _refuse_repeat(keys: Iterable[str]) -> None:
    seen = set()
    for key in keys:
        if key in seen:
            raise config.given_twice(key)
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


def pages() -> list[str]:
    """The templates, styles and captions of the report."""
    files = (PACKAGE / "report").rglob("*.*")
    return sorted(os.path.relpath(path) for path in files if path.suffix not in (".py", ".pyc"))
