"""List the files that a rule depends on besides its tables: code, benchmarks and pages."""

import ast
import hashlib
import os
from functools import cache
from pathlib import Path

from sqrtdk.experiments.base import FOLDER
from sqrtdk.storage import atomic, code_digest
from sqrtdk.system import project_files

STATE = Path(".snakemake/sqrtdk")
"""Files that Snakemake compares times with, and nothing else."""

PARTS = (
    *("float64", "float32", "primitives", "narrow", "accuracy"),
    *("memory", "workers", "starts", "whole"),
)
"""The parts of `snakemake benchmark`."""

PAGES = (".j2", ".css", ".rst")
"""Endings of templates, styles and captions."""


def code(*modules: str) -> str:
    """Return a file that changes exactly if the code behind `python -m module` does.

    The first one is run as `python -m`, the others are loaded by their names. Rules list the file
    as an input in place of the sources, so that an edited docstring, comment or error message runs
    nothing again.
    """
    name, *others = modules
    if others:
        name += f"-{hashlib.sha256(' '.join(others).encode()).hexdigest()[:12]}"
    path, text = STATE / "code" / name, "".join(f"{code_digest.digest(x)}\n" for x in modules)
    known = path.read_text(encoding="utf-8") if path.is_file() else None
    if known != text:
        atomic.write_atomically(path, text)
    if known is None:
        # Nothing is known about results that are older than the sources themselves.
        sources = (source for module in modules for source in code_digest.closure(module))
        newest = max(source.stat().st_mtime_ns for source in sources)
        os.utime(path, ns=(newest, newest))
    return str(path)


def modules_of(experiment: str, *names: str) -> list[str]:
    """Return those of some modules of an experiment's folder that it has and that can be read."""
    files = {name: FOLDER / experiment / f"{name}.py" for name in names}
    found = [name for name, path in files.items() if _is_python(path)]
    return [f"sqrtdk.experiments.{experiment}.{name}" for name in found]


@cache
def _is_python(path: Path) -> bool:
    try:
        ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return False
    return True


def benchmarks(part: str) -> list[str]:
    """Return the inputs of a part of the benchmarks: the code that measures and the timed code."""
    own = [f"benchmarks/{name}.py" for name in ("contestants", "measure", "slabs")]
    timed = ["sqrtdk.experiments.scaling.measure", "sqrtdk.jobs.trace"]
    if part in ("starts", "whole"):
        timed += [
            "sqrtdk.workflow.targets",
            "sqrtdk.report.__main__",
            "sqrtdk.experiments.scaling.figures",
        ]
    return [*own, *map(code, timed)]


def pages() -> list[str]:
    """Return the templates, styles and captions of the report."""
    folders = (code_digest.PACKAGE / "report", FOLDER)
    files = (path for folder in folders for path in folder.rglob("*.*"))
    return sorted(os.path.relpath(path) for path in files if path.suffix in PAGES)


def citation() -> str:
    """Return the file that says how the project is cited."""
    return os.path.relpath(project_files.find("CITATION.cff"))


def workflow_files() -> list[str]:
    """Return the Snakefile and its rules, which an archive of a run has copies of."""
    files = [project_files.find("Snakefile"), *project_files.find("rules").glob("*.smk")]
    return sorted(map(os.path.relpath, files))
