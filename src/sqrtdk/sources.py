"""Which source files a module's numbers and pages come from: its import closure in this package.

Snakemake does not look inside imports, so rules list these files as inputs; and a shard's address
holds their digest, so a shard that other code made is never taken for this code's.
"""

import ast
import hashlib
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
REFERENCE = PACKAGE / "reference.csv"
"""The numbers that `snakemake verify` compares a run with."""


@cache
def closure(module: str) -> tuple[Path, ...]:
    """The files that `python -m module` can import of this package, itself included, sorted."""
    found: dict[str, Path] = {}
    todo = [module]
    while todo:
        name = todo.pop()
        path = _source(name)
        if path is not None and name not in found:
            found[name] = path
            todo += [name.rpartition(".")[0], *_imported(path)]
    return tuple(sorted(found.values()))


@cache
def digest(module: str) -> str:
    """Digest of the contents of a module's closure."""
    found = hashlib.sha256()
    for path in closure(module):
        found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()[:12]


def _source(module: str) -> Path | None:
    """The file of a module of this package."""
    base = PACKAGE.parent.joinpath(*module.split("."))
    files = (base.with_suffix(".py"), base / "__init__.py")
    return next((path for path in files if path.is_file() and PACKAGE in path.parents), None)


@cache
def _imported(path: Path) -> tuple[str, ...]:
    """Every dotted name that a source file's imports may load, wherever they stand in it."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return tuple(name for name in names if name.split(".")[0] == PACKAGE.name)
