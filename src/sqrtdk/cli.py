"""Run cells by hand: one configuration in, the rows of its cells out.

    python -m sqrtdk.run d_k=64 seed=3 scaling=off
    python -m sqrtdk.run --multirun d_k=16,64 seed='range(0,5)' scaling=on,off out=rows.csv

Prints CSV (on a terminal, a readable list) with the same digits as the pipeline's runs.csv.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import hydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from sqrtdk.config import compose as config_compose
from sqrtdk.config import errors as config_errors
from sqrtdk.config import help as config_help
from sqrtdk.config import limits, resolve
from sqrtdk.config import overrides as config_overrides
from sqrtdk.config import run as config_run
from sqrtdk.config.errors import ConfigError
from sqrtdk.experiments import cells
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.schema import Column, Slab
from sqrtdk.storage import atomic, planning, tables
from sqrtdk.storage.tables import Row
from sqrtdk.system import command_line, errors, stdio

VALUED = {
    **dict.fromkeys(("--cfg", "-c"), ("job", "hydra", "all")),
    **dict.fromkeys(("--info", "-i"), ("all", "config", "defaults", "defaults-tree", "plugins")),
}
"""Hydra options that take a value, also as the next word, and the allowed values."""

OPTIONS = ("--multirun", "-m", "--resolve", "--hydra-help", *VALUED)
"""Allowed Hydra options. The other ones can load configurations that execute Python."""

MISTAKES = (errors.UserError, HydraException, OmegaConfBaseException, OSError)


def slabs_of(run: config_run.Run) -> Iterator[Slab]:
    """Yield the slabs of a run of one experiment, with blocks of its seeds."""
    ((experiment, settings),) = run.settings.items()
    for slab in planning.slabs(settings, EXPERIMENTS[experiment].batched_axes):
        for start, stop in planning.blocks(settings["seed"], len(settings["seed"])):
            yield slab | {"seeds": [start, stop]}


def cells_of(run: config_run.Run) -> Iterator[cells.Cell]:
    """Yield the cells of a run of one experiment; none is measured yet."""
    module = EXPERIMENTS[next(iter(run.settings))]
    for slab in slabs_of(run):
        yield from module.cells(slab)


def measure(run: config_run.Run) -> tuple[list[Row], tuple[Column, ...]]:
    """Return every row of a run of one experiment, in order, and the table's columns."""
    module = EXPERIMENTS[next(iter(run.settings))]
    found: list[Row] = []
    for slab in slabs_of(run):
        found += cells.measure_cells(module.cells(slab), module.columns, slab)
    return sorted(found, key=tables.axes_of(module.columns)), module.columns


def show(rows: list[Row], columns: tuple[Column, ...]) -> None:
    """Print rows as CSV without a header, or on a terminal as a list with units. Raises OSError."""
    say = stdio.say
    if not sys.stdout.isatty():
        say(tables.text(rows, columns).split("\n", 1)[1], end="")
        return
    for row in rows:
        for column in columns:
            say(f"{column.name:26} {row[column.name]!s:24} {column.unit}".rstrip())
        say("")


def main() -> None:
    """Compute what the command line asks for; user errors end in one line and exit code 2."""
    closed = stdio.ensure()
    command_line.check_code()
    words = sys.argv[1:]
    try:
        if {"--help", "-h"} & set(words):
            stdio.say(config_help.text())
        elif "--version" in words:
            stdio.say(command_line.version())
        else:
            request = read(words)
            if request.runs:
                compute(request, hidden="stdout" in closed)
    except KeyboardInterrupt:
        command_line.stop()
    except (*MISTAKES, ValueError) as error:
        # Hydra's sweeps raise a plain ValueError for a range of step 0.
        errors.exit_with(error)


@dataclass
class Request:
    """The runs of a command line, one for each combination of a sweep, and the file of the rows."""

    runs: list[config_run.Run] = field(default_factory=list)
    out: Path | None = None


def read(words: Sequence[str]) -> Request:
    """Compose and check every combination of a command line. Raises one of MISTAKES.

    There are no runs if Hydra answers an option such as `--cfg` itself.
    """
    # Makes Hydra raise its errors instead of printing them, so that they are reported here.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    request = Request()
    given: set[str | None] = set()
    typed: set[str] = set()

    @hydra.main(config_path=str(config_overrides.CONF), config_name="cell", version_base="1.3")
    def job(composed: DictConfig) -> None:
        try:
            values: Any = OmegaConf.to_container(composed, resolve=True)
            out = values.pop("out")
            given.add(out if out is None else str(out))
            if len(given) > 1:
                raise config_errors.invalid_value("out", out, "one file for all rows of a sweep")
            request.out = _out(out)
            run = resolve.resolve(values, typed)
            limits.check_limits(run)
            if len(run.settings) != 1:
                names = " or ".join(run.settings)
                raise ConfigError(f"experiments: this command takes one: {names}")
        except MISTAKES as error:
            # Hydra would print its own line before passing the exception on.
            errors.exit_with(error)
        request.runs.append(run)

    options, overrides = split(words)
    check_options(options)
    sweep = bool({"-m", "--multirun"} & set(options))
    checked = config_compose.check(overrides, {}, "cell", extra=["out"], sweep=sweep)
    typed |= config_overrides.blocks_of(checked)
    with tempfile.TemporaryDirectory() as scratch:
        # Hydra writes a record of a sweep, which is not needed: the rows go to `out`.
        kept = [f"hydra.sweep.dir={scratch}"] if sweep else []
        sys.argv[1:] = [*options, *kept, *checked]
        job()
    refuse_clash(request.runs)
    return request


def compute(request: Request, *, hidden: bool = False) -> None:
    """Measure, print and write the rows of a request. Raises OSError, UserError.

    What cannot be written is found before anything is measured. `hidden` means that the caller has
    closed the standard output.
    """
    out, runs = request.out, request.runs
    if hidden and out is None:
        raise ConfigError("standard output is closed; allowed: out=FILE.csv, or an open one")
    for note in dict.fromkeys(note for run in runs for note in run.notes):
        stdio.warn(note)
    columns = EXPERIMENTS[next(iter(runs[0].settings))].columns
    done: list[Row] = []
    unprinted: OSError | None = None

    def attempt(print_part: Callable[[], None]) -> None:
        nonlocal unprinted
        try:
            if unprinted is None:
                print_part()
        except OSError as error:
            if out is None:
                raise
            # The file is still written.
            unprinted = error

    if not sys.stdout.isatty():
        attempt(lambda: stdio.say(tables.text([], columns), end=""))
    for run in runs:
        rows, _ = measure(run)
        attempt(partial(show, rows, columns))
        done += rows
    if out is not None:
        done.sort(key=tables.axes_of(columns))
        atomic.write_atomically(out, tables.text(done, columns))
    # With `out` the file is complete, and `| head -1` closes the pipe on purpose.
    if unprinted is not None and not isinstance(unprinted, BrokenPipeError):
        raise unprinted


def refuse_clash(runs: Sequence[config_run.Run]) -> None:
    """Raise ConfigError if the rows of a sweep would not fit into one table."""
    if len({tuple(run.settings) for run in runs}) > 1:
        raise ConfigError("experiments: a sweep takes one, because each has its own columns")
    seen: set[tuple[Any, ...]] = set()
    for run in runs if len(runs) > 1 else ():
        found = {tuple(axes.items()): axes for axes, _ in cells_of(run)}
        for axes in (found[key] for key in found.keys() & seen):
            cell = " ".join(f"{name}={value}" for name, value in axes.items())
            raise ConfigError(f"the sweep has the cell {cell} twice")
        seen |= found.keys()


def check_options(words: Sequence[str]) -> None:
    """Raise ConfigError for unknown options, and for values that an option does not take."""
    for place, word in enumerate(words):
        option, given, value = word.partition("=")
        if not word.startswith("-"):
            continue
        if option not in OPTIONS or (given and option not in VALUED):
            listed = (*OPTIONS, "--version", "--help")
            raise config_errors.invalid_value("option", word, config_errors.join(listed), listed)
        if option in VALUED:
            after = value if given else " ".join(words[place + 1 : place + 2])
            if after not in VALUED[option]:
                raise config_errors.invalid_value(
                    option, after, " or ".join(VALUED[option]), VALUED[option]
                )


def split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return Hydra's options, with their values, and the overrides."""
    options: list[str] = []
    overrides: list[str] = []
    takes = False
    for word in words:
        option = word.startswith("-")
        (options if option or (takes and "=" not in word) else overrides).append(word)
        takes = option and word in VALUED
    return options, overrides


def _out(value: object) -> Path | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value or "\0" in value:
        raise config_errors.invalid_value("out", value, "the path of a CSV file")
    # A link is followed, so that it stays a link.
    path = Path(value).resolve()
    # Pipes and devices never end or take no temporary file; most disks allow no longer name.
    if (path.exists() and not path.is_file()) or not path.parent.is_dir() or len(path.name) > 200:
        raise config_errors.invalid_value(
            "out", value, "the path of a CSV file in a folder that exists"
        )
    if (path.parent.parent / "config.yaml").exists() or (path.exists() and not _is_rows(path)):
        raise config_errors.invalid_value(
            "out", value, "a new file, or one that this command wrote"
        )
    try:
        atomic.try_writing(path)
    except OSError as error:
        allowed = f"a file that can be written ({error.strerror})"
        raise config_errors.invalid_value("out", value, allowed) from None
    return path


def _is_rows(path: Path) -> bool:
    """Return whether a file begins with the header of an experiment's rows."""
    with path.open("rb") as file:
        first = file.readline(10_000).rstrip(b"\n").decode(errors="replace")
    headers = (",".join(c.name for c in one.columns) for one in EXPERIMENTS.values())
    return first in headers
