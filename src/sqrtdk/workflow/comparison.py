"""Describe `snakemake compare` for the Snakefile: which runs, and where the page goes."""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from snakemake.exceptions import WorkflowError

from sqrtdk.config import errors
from sqrtdk.storage import atomic, code_digest, guards
from sqrtdk.workflow import progress, session
from sqrtdk.workflow.code_files import STATE

KEY = "runs"

REFERENCE = "reference"
"""The committed numbers, which `snakemake verify` compares with, by their name in `runs`."""

FILES = ("config.yaml", "provenance.json", "claims.csv", "*/runs.csv")
"""Files of a run that are compared."""


class Comparison:
    """Two runs to compare, in place of a run to build. `results` is the folder that has them."""

    experiments: tuple[str, ...] = ()

    def __init__(self, results: Path, names: tuple[str, str]) -> None:
        self.results, self.names = results, names
        self.folder = results / "compare" / "..".join(names)
        # The reference has no folder.
        self._runs = [results / name for name in names if name != REFERENCE]
        changed = [path for run in self._runs for path in guards.changed(run)]
        self._refusal = f"sqrtdk: {guards.refusal(changed[0])}" if changed else None
        self._lock: TextIO | None = None
        progress.pass_state(("compare",), self._refusal)

    @property
    def comparison(self) -> "Comparison":
        """Return the comparison that the Snakefile builds."""
        return self

    @property
    def everything(self) -> list[str]:
        """Return the files of the comparison."""
        return [f"{self.folder}/compare.html", f"{self.folder}/compare.csv"]

    @property
    def runs(self) -> list[str]:
        """Return the folders of both sides, as the job takes them."""
        return [str(self.results / name) for name in self.names]

    def request(self, wildcards: Any) -> str:
        """Return a file that changes exactly if what is compared changes.

        The runs themselves are not inputs: Snakemake would bring those of its own configuration up
        to date before it compares them.
        """
        found = {
            path.as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for run in self._runs
            for pattern in FILES
            for path in sorted(run.glob(pattern))
        }
        path = STATE / "compare" / f"{self.folder.name}.json"
        text = json.dumps(found, indent=1)
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            atomic.write_atomically(path, text)
        return str(path)

    def begin(self, workflow: object) -> None:
        """Take the lock of results/, or refuse a second run; open the progress log."""
        self._lock = session.begin(self.folder, (), self._refusal)


class Absent:
    """The comparison of a command that names no runs: asking for it is an error."""

    def __init__(self, results: Path) -> None:
        self.folder = results / "compare" / "-"
        self.runs: list[str] = []
        self._results = results

    def request(self, wildcards: Any) -> str:
        """Raise WorkflowError."""
        allowed, _ = _known(self._results)
        raise WorkflowError(f"sqrtdk: compare: {KEY} is missing; allowed: --config {allowed}")


def chosen(value: object, results: Path) -> Comparison:
    """Return the comparison of the runs that a configuration names. Raises ConfigError."""
    allowed, known = _known(results)
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != 2:
        raise errors.invalid_value(KEY, value, f"{allowed}: two of {errors.listing(known)}")
    # Names of digits are numbers in YAML.
    first, second = (str(name) for name in value)
    for name in (first, second):
        if name not in known:
            raise errors.invalid_value(
                KEY, name, f"{allowed}: two of {errors.listing(known)}", known
            )
    if first == second:
        raise errors.invalid_value(KEY, list(value), "two different runs")
    return Comparison(results, (first, second))


def _known(results: Path) -> tuple[str, list[str]]:
    """Return an example of the key, and the names of the runs that there are."""
    known = [*sorted(path.parent.name for path in results.glob("*/config.yaml")), REFERENCE]
    return f"{KEY}='[{known[0]},{known[-1]}]'", known


def pages() -> list[str]:
    """Return the template and the style of the page."""
    folder = code_digest.PACKAGE / "compare" / "templates"
    return sorted(os.path.relpath(path) for path in folder.iterdir())
