"""Run cells by hand: one configuration in, the rows of its cells out.

    python -m sqrtdk.run d_k=64 seed=3 scaling=off
    python -m sqrtdk.run --multirun d_k=16,64 seed='range(0,5)' scaling=on,off out=rows.csv

Prints CSV (on a terminal, a readable list) with the same digits as the pipeline's runs.csv.
"""

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from sqrtdk.config import errors as config_errors
from sqrtdk.config import help as config_help
from sqrtdk.config import limits, resolve
from sqrtdk.config import overrides as config_overrides
from sqrtdk.config import run as config_run
from sqrtdk.config.errors import ConfigError
from sqrtdk.experiments import cells
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.schema import Column
from sqrtdk.storage import atomic, planning, tables
from sqrtdk.storage.tables import Row
from sqrtdk.system import command_line, errors, stdio

VALUED = {
    **dict.fromkeys(("--cfg", "-c"), ("job", "hydra", "all")),
    **dict.fromkeys(("--info", "-i"), ("all", "config", "defaults", "defaults-tree", "plugins")),
}
"""Hydra options that take a value, also as the next word, and the allowed values."""

OPTIONS = ("--multirun", "-m", "--resolve", "--hydra-help", "--version", *VALUED)
"""Allowed Hydra options. The other ones can load configurations that execute Python."""

MISTAKES = (errors.UserError, HydraException, OmegaConfBaseException, OSError)


def measure(run: config_run.Run) -> tuple[list[Row], tuple[Column, ...]]:
    """Return every row of a run of one experiment, in order, and the table's columns."""
    if len(run.settings) != 1:
        raise ConfigError(f"experiments: this command takes one: {' or '.join(run.settings)}")
    ((experiment, settings),) = run.settings.items()
    module = EXPERIMENTS[experiment]
    found: list[Row] = []
    for slab in planning.slabs(settings, module.batched_axes):
        for start, stop in planning.blocks(settings["seed"], len(settings["seed"])):
            part = slab | {"seeds": [start, stop]}
            found += cells.measure_cells(module.cells(part), module.columns, part)
    return sorted(found, key=tables.axes_of(module.columns)), module.columns


def show(rows: list[Row], columns: tuple[Column, ...], *, header: bool) -> None:
    """Print rows: as CSV, or on a terminal as a list with units. Raises OSError."""
    say = stdio.say
    if not sys.stdout.isatty():
        lines = tables.text(rows, columns)
        say(lines if header else lines.split("\n", 1)[1], end="")
        return
    for row in rows:
        for column in columns:
            say(f"{column.name:26} {row[column.name]!s:24} {column.unit}".rstrip())
        say("")


def main() -> None:
    """Run Hydra on the command line; user errors end in one line and exit code 2."""
    stdio.ensure()
    command_line.check_code()
    if {"--help", "-h"} & set(sys.argv[1:]):
        try:
            stdio.say(config_help.text())
        except OSError as error:
            errors.exit_with(error)
        return
    # Makes Hydra raise its errors instead of printing them, so that they are reported here.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    done: list[Row] = []
    table: tuple[Column, ...] = ()
    out: Path | None = None
    typed: set[str] = set()
    noted: set[str] = set()
    unprinted: OSError | None = None

    @hydra.main(config_path=str(config_overrides.CONF), config_name="cell", version_base="1.3")
    def job(composed: DictConfig) -> None:
        nonlocal table, out, unprinted
        try:
            values: Any = OmegaConf.to_container(composed, resolve=True)
            out = _out(values.pop("out"))
            run = resolve.resolve(values, typed)
            limits.check_limits(run)
            for note in run.notes:
                if note not in noted:
                    stdio.warn(note)
            noted.update(run.notes)
            rows, columns = measure(run)
            refuse_clash(rows, columns, done, table)
            table = columns
        except MISTAKES as error:
            # Hydra would print its own line before passing the exception on.
            errors.exit_with(error)
        try:
            show(rows, table, header=not done)
        except OSError as error:
            # The file is still written.
            unprinted = error
        done.extend(rows)

    try:
        options, overrides = split(sys.argv[1:])
        check_options(options)
        sweep = bool({"-m", "--multirun"} & set(options))
        checked = config_overrides.check_overrides(overrides, extra=["out"], sweep=sweep)
        typed |= config_overrides.blocks_of(checked)
        if sum(word.startswith("out=") and "," in word for word in overrides):
            raise config_errors.invalid_value("out", overrides, "one file for all rows of a sweep")
        with tempfile.TemporaryDirectory() as scratch:
            # Hydra writes a record of a sweep, which is not needed: the rows go to `out`.
            kept = [f"hydra.sweep.dir={scratch}"] if sweep else []
            sys.argv[1:] = [*options, *kept, *checked]
            job()
        if out is not None:
            done.sort(key=tables.axes_of(table))
            atomic.write_atomically(out, tables.text(done, table))
        # With `out` the file is complete, and `| head -1` closes the pipe on purpose.
        if unprinted is not None and not (out and isinstance(unprinted, BrokenPipeError)):
            raise unprinted
    except (*MISTAKES, ValueError) as error:
        # Hydra's sweeps raise a plain ValueError for a range of step 0.
        errors.exit_with(error)


def refuse_clash(
    rows: list[Row], columns: tuple[Column, ...], done: list[Row], table: tuple[Column, ...]
) -> None:
    """Raise ConfigError if rows of a sweep do not fit into one table with the previous ones."""
    if done and columns != table:
        raise ConfigError("experiments: a sweep takes one, because each has its own columns")
    axes = tables.axes_of(columns)
    seen = {axes(row) for row in done}
    for row in rows:
        if axes(row) in seen:
            cell = " ".join(f"{c.name}={row[c.name]}" for c in columns if c.axis)
            raise ConfigError(f"the sweep has the cell {cell} twice")


def check_options(words: Sequence[str]) -> None:
    """Raise ConfigError for unknown options, and for values that an option does not take."""
    for place, word in enumerate(words):
        option, given, value = word.partition("=")
        if not word.startswith("-"):
            continue
        if option not in OPTIONS or (given and option not in VALUED):
            listed = ", ".join(OPTIONS)
            raise config_errors.invalid_value(
                "option", word, f"{listed} and --help", (*OPTIONS, "--help")
            )
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
    path = Path(value)
    # Pipes and devices never end or take no temporary file; most disks allow no longer name.
    if (path.exists() and not path.is_file()) or not path.parent.is_dir() or len(path.name) > 200:
        raise config_errors.invalid_value(
            "out", value, "the path of a CSV file in a folder that exists"
        )
    if (path.parent.parent / "config.yaml").exists() or (path.exists() and not _is_rows(path)):
        raise config_errors.invalid_value(
            "out", value, "a new file, or one that this command wrote"
        )
    return path


def _is_rows(path: Path) -> bool:
    """Return whether a file begins with the header of an experiment's rows."""
    with path.open("rb") as file:
        first = file.readline(10_000).rstrip(b"\n").decode(errors="replace")
    headers = (",".join(c.name for c in one.columns) for one in EXPERIMENTS.values())
    return first in headers


if __name__ == "__main__":
    main()
