"""Find the source files that a module imports from this package, and digest what they compute.

Snakemake does not look inside imports, so rules use a digest of a module's import closure to see
whether its code changed. Another digest is part of a shard's address, so that a shard from other
code is never reused. Both leave out docstrings, comments, type hints and error messages, which
change no number.
"""

import ast
import contextlib
import hashlib
import importlib.util
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from sqrtdk.system import project_files

PACKAGE = project_files.PACKAGE

WORDING = (
    "sqrtdk",
    "sqrtdk.system.command_line",
    "sqrtdk.system.disk",
    "sqrtdk.system.errors",
    "sqrtdk.system.stdio",
)
"""Modules that read a command line or word an error, and the list of public names. No digest
includes them."""

MEANINGS = {"Column": (1, "meaning"), "Key": (2, "meaning")}
"""The argument of each call that explains a key or a column, by position and by name."""


@cache
def closure(module: str) -> tuple[Path, ...]:
    """Return the files that `python -m module` can import from this package, sorted."""
    return tuple(sorted(_closure(module).values()))


@cache
def digest(module: str) -> str:
    """Digest the code of a module's closure: it changes if the module's output may change."""
    return _digest(_file(path).code for path in _computing(module))


@cache
def measured_digest(module: str) -> str:
    """Digest the code that a module's numbers depend on, for the addresses of its shards.

    This also leaves out the explanation of a column.
    """
    return _digest(_file(path).measured for path in _computing(module))


def _computing(module: str) -> list[Path]:
    return sorted(path for name, path in _closure(module).items() if name not in WORDING)


def _digest(parts: Iterable[str]) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(bytes.fromhex(part))
    return found.hexdigest()[:12]


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _closure(module: str) -> dict[str, Path]:
    """Return a module's import closure in this package by dotted name."""
    found: dict[str, Path] = {}
    todo = [module]
    while todo:
        name = todo.pop()
        path = _source(name)
        if path is not None and name not in found:
            found[name] = path
            todo += [name.rpartition(".")[0], *_file(path).imported]
    return found


@cache
def _source(module: str) -> Path | None:
    """Return the file of a module of this package, or None for any other name."""
    base = PACKAGE.parent.joinpath(*module.split("."))
    files = (base.with_suffix(".py"), base / "__init__.py")
    return next((path for path in files if path.is_file() and PACKAGE in path.parents), None)


class _File(NamedTuple):
    """What a digest needs of a file."""

    imported: tuple[str, ...]
    """Every dotted name of this package that it imports, at any depth."""

    code: str
    """The SHA-256 of its code, without wording."""

    measured: str
    """The same without the descriptions of columns and keys."""

    text: str
    """The SHA-256 of all of its text."""


_parsed: dict[str, _File] = {}
"""What this process has parsed, by the file's name in the package."""


@cache
def _file(path: Path) -> _File:
    """Read a file; it is parsed only if it has changed, because that takes most of the time."""
    text = path.read_text(encoding="utf-8")
    if PACKAGE not in path.parents:
        return _read(text)
    name = path.relative_to(PACKAGE).as_posix()
    known = _known().get(name)
    if known is None or known.text != _hashed(text):
        known = _parsed[name] = _read(text)
    return known


def _read(text: str) -> _File:
    tree = _Untyped().visit(ast.parse(text))
    imported = tuple(_imported(tree))
    code = measured = _hashed(serialize(_Unworded().visit(tree)))
    # Few modules explain a column.
    if any(f"{name}(" in text for name in MEANINGS):
        tree = _Unexplained().visit(_Untyped().visit(ast.parse(text)))
        measured = _hashed(serialize(_Unworded().visit(tree)))
    return _File(imported, code, measured, _hashed(text))


def _place() -> Path:
    """Return the file that keeps what was read, beside the bytecode of this module."""
    return Path(importlib.util.cache_from_source(__file__)).with_suffix(".json")


def _seal(content: str) -> str:
    """Digest kept files together with the rules of this module, by which they were read."""
    return _hashed(Path(__file__).read_text(encoding="utf-8") + content)


@cache
def _known() -> Mapping[str, _File]:
    """Return the files that an earlier process read; none if that is damaged or of other rules."""
    try:
        seal, content = _place().read_text(encoding="utf-8").split("\n", 1)
        if seal != _seal(content):
            return {}
        found: dict[str, list[Any]] = json.loads(content)
        return {name: _File(tuple(imported), *rest) for name, (imported, *rest) in found.items()}
    except (OSError, ValueError):
        return {}


def keep_parsed() -> None:
    """Keep what was parsed for later processes, as Python keeps bytecode, if that can be written.

    A copy of the package takes it along.
    """
    if sys.dont_write_bytecode or not _parsed:
        return
    files = {**_known(), **_parsed}
    content = json.dumps({x: files[x] for x in files if (PACKAGE / x).is_file()}, indent=0)
    with contextlib.suppress(OSError):
        _place().parent.mkdir(parents=True, exist_ok=True)
        # Not `write_atomically`, which also waits for the disk: what is cut is not read.
        new = _place().with_suffix(f".{os.getpid()}")
        new.write_text(f"{_seal(content)}\n{content}", encoding="utf-8")
        new.replace(_place())


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in _statements(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        yield from (name for name in names if name.split(".")[0] == PACKAGE.name)


Function = ast.FunctionDef | ast.AsyncFunctionDef

BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
"""The fields of a syntax tree that are lists of statements, or of nodes that have such lists."""


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield every statement below a node."""
    for name in BLOCKS:
        for one in getattr(node, name, ()):
            yield one
            yield from _statements(one)


class _Statements(ast.NodeTransformer):
    """Visit statements only: expressions are nine tenths of a tree, and are of no interest here."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for name in BLOCKS:
            block = getattr(node, name, None)
            if block:
                visited = map(self.visit, block)
                block[:] = [one for one in visited if one is not None]
        return node


class _Untyped(_Statements):
    """Drop what only type checkers read."""

    def visit_If(self, node: ast.If) -> ast.If | None:
        self.generic_visit(node)
        is_of_types = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        return None if is_of_types else node


class _Unexplained(ast.NodeTransformer):
    """Drop the descriptions of keys and columns."""

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        name = node.func.attr if isinstance(node.func, ast.Attribute) else None
        name = node.func.id if isinstance(node.func, ast.Name) else name
        place, keyword = MEANINGS.get(name or "", (len(node.args), ""))
        # Arguments after a starred one have no known position.
        if not any(isinstance(one, ast.Starred) for one in node.args[: place + 1]):
            node.args[place : place + 1] = [ast.Constant("")] * len(node.args[place : place + 1])
        node.keywords = [one for one in node.keywords if not keyword or one.arg != keyword]
        return node


class _Unworded(_Statements):
    """Drop docstrings, type hints and error messages."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return None
        if isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "sys.exit":
            node.value = ast.Name("exit")
        return node

    def visit_Raise(self, node: ast.Raise) -> ast.Raise:
        return ast.Raise(node.exc.func if isinstance(node.exc, ast.Call) else node.exc, node.cause)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt | None:
        return None if node.value is None else ast.Assign([node.target], node.value)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        # The hints of a dataclass or a named tuple are its fields.
        fields = [serialize(one) for one in node.body if isinstance(one, ast.AnnAssign)]
        self.generic_visit(node)
        node.body += [ast.Expr(ast.Constant(one)) for one in fields]
        return node

    def visit_FunctionDef(self, node: Function) -> Function:
        node.returns = None
        given = node.args
        for one in (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg):
            if one is not None:
                one.annotation = None
        self.generic_visit(node)
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> Function:
        return self.visit_FunctionDef(node)


UNWRITTEN = frozenset({"ctx", "kind", "type_comment"})
"""The fields of a syntax tree that change no number."""


def serialize(node: Any) -> str:
    """Return a syntax tree as text that is the same on every Python version.

    `ast.dump` writes empty fields on some versions only, and text in f-strings is cut up
    differently.
    """
    if isinstance(node, ast.AST):
        if isinstance(node, ast.JoinedStr):
            return f"JoinedStr({','.join(map(serialize, _joined(node.values)))})"
        fields = [
            f"{name}={serialize(value)}"
            for name in node._fields
            if name not in UNWRITTEN
            and (value := getattr(node, name, None)) is not None
            and value != []
        ]
        return f"{type(node).__name__}({','.join(fields)})"
    if isinstance(node, list):
        return f"[{','.join(map(serialize, node))}]"
    return repr(node)


def _joined(values: list[ast.expr]) -> Iterator[ast.expr]:
    """Return the parts of an f-string, with neighbouring pieces of text as one."""
    text = ""
    for part in [*values, None]:
        if isinstance(part, ast.Constant):
            text += str(part.value)
            continue
        if text:
            yield ast.Constant(text)
        text = ""
        if part is not None:
            yield part
