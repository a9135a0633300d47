"""The smoke run as an unknown user id has it: no home that it can write to, and no network.

One run serves twice: it is the session's finished smoke run, and it shows that one like this works.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import warm

import sqrtdk

ROOT = Path(sqrtdk.__file__).resolve().parents[2]

UNKNOWN = 12345
"""A user id that no system has a name for."""

NOT_COPIED = shutil.ignore_patterns(
    ".git",
    ".venv",
    ".uv",
    ".cache",
    ".snakemake",
    "results",
    # What is compiled of the project has the times of its files, so Python need not do it again.
    "*-pytest-*.pyc",
    ".*_cache",
    ".hypothesis",
)


RUNS = ("unwritable", "elsewhere", "smoke", "again", "usual")
"""Names of the commands whose ends are told."""


class UnavailableError(Exception):
    """This machine cannot be such a place; says why."""


class Done(NamedTuple):
    """How one command ended."""

    returncode: int
    stdout: str
    stderr: str


def checkout(folder: Path) -> Path:
    """Copy the project without what is installed or computed."""
    shutil.copytree(ROOT, folder, ignore=NOT_COPIED)
    return folder


def as_unknown_user() -> list[str]:
    """Return what starts a command as an unknown user id, without network."""
    if os.getuid() != 0 or sys.platform != "linux":
        raise UnavailableError("only root of a Linux machine can be another user")
    user = ["setpriv", f"--reuid={UNKNOWN}", f"--regid={UNKNOWN}", "--clear-groups"]
    for prefix in (["unshare", "--net", *user], user):
        if (
            shutil.which(prefix[0])
            and subprocess.run([*prefix, "true"], check=False).returncode == 0
        ):
            return prefix
    raise UnavailableError("setpriv is not installed")


def python_of_everybody(prefix: list[str]) -> str:
    """Return a Python, 3.11 or newer, that another user can run."""
    code = "import ensurepip, os, sys; os.stat(sys.executable); assert sys.version_info >= (3, 11)"
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        command = [*prefix, str(Path(python).resolve()), "-c", code]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return str(Path(python).resolve())
    raise UnavailableError("other users can run no Python 3.11 or newer here")


def give(folder: Path, owner: int) -> None:
    """Give a folder to a user."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, owner, owner, follow_symlinks=False)


UV = """#!/bin/sh
if test "$1" = sync; then set -- "$@" --no-compile-bytecode; fi
exec '{uv}' "$@"
"""
"""uv that leaves most modules uncompiled, because the runs here load few of them."""


def uv_of_this_machine(folder: Path) -> Iterator[str]:
    """Yield the folder of a uv, if there is one; without one, run.py installs its own."""
    known = shutil.which("uv") or shutil.which("uv", path=str(ROOT / ".uv" / "bin"))
    if known:
        folder.mkdir()
        (folder / "uv").write_text(UV.format(uv=known), encoding="utf-8")
        (folder / "uv").chmod(0o755)
        yield str(folder)


def copy_compiled(site: Path) -> None:
    """Copy what this environment has compiled of the packages of another; Python checks it."""
    own = Path(sysconfig.get_path("purelib"))
    packages = [one.name for one in site.iterdir() if one.is_dir() and (own / one.name).is_dir()]
    find = ["find", *packages, "-name", "__pycache__", "-prune", "-print0"]
    listed = subprocess.run(find, cwd=own, stdout=subprocess.PIPE, check=True).stdout
    copy = ["xargs", "-0", "cp", "-r", "--parents", "-t", str(site)]
    subprocess.run(copy, cwd=own, input=listed, check=True)


def build(folder: Path, smoke: tuple[str, ...]) -> dict[str, Any]:
    """Set a checkout up as root and run it as the unknown user; return how each command ended.

    `python` of the result is the version that it ran with.

    `folder` gets the smoke run of these arguments, and `folder`/../other the result of a small run
    into a folder other than the checkout, which could not be written to then.
    Raises UnavailableError.
    """
    prefix = as_unknown_user()
    python = python_of_everybody(prefix)
    # Others may enter the folders of pytest no more than root's home.
    root = checkout(Path("/tmp") / f"sqrtdk-{os.getpid()}" / "ein Projekt ü")
    try:
        usual = "/usr/local/bin:/usr/bin:/bin"
        path = {"PATH": os.pathsep.join([*uv_of_this_machine(root.parent / "uv"), usual])}
        command = [python, str(root / "run.py"), "--version"]
        done = subprocess.run(
            command, env=os.environ | path, capture_output=True, text=True, check=False
        )
        if "cannot install" in done.stderr:
            raise UnavailableError("no registry of packages can be reached")
        assert done.returncode == 0, done.stderr
        # As root, who alone can write what is compiled.
        own = str(root / ".venv/bin/python")
        subprocess.run([own, "-m", "compileall", "-q", str(root / "src")], check=True)
        show = "import sys; print(*sys.version_info[:2])"
        version = subprocess.check_output([own, "-c", show], text=True)
        found: dict[str, Any] = {"python": [int(part) for part in version.split()]}
        (site,) = root.glob(".venv/lib/*/site-packages")
        if found["python"] == list(sys.version_info[:2]):
            copy_compiled(site)
        else:
            load = "; ".join(f"import {name}" for name in (*warm.LOADED, "yaml"))
            subprocess.run([own, "-c", load], check=True)
        path = {"PATH": usual}

        # Another kernel of BLAS would give other last digits than runs outside.
        kernel = {name: x for name, x in os.environ.items() if name.startswith("OPENBLAS_")}

        def run(*arguments: str, cwd: Path = root) -> Done:
            done = subprocess.run(
                [*prefix, python, str(root / "run.py"), *arguments],
                cwd=cwd,
                env=path | kernel | {"HOME": "/", "UV_OFFLINE": "1", "LC_ALL": "C"},
                capture_output=True,
                text=True,
                check=False,
            )
            return Done(done.returncode, done.stdout, done.stderr)

        out = root.parent / "out"
        out.mkdir()
        give(out, UNKNOWN)
        small = ("--config", "experiments=worked_example")
        found["unwritable"] = run(*small, cwd=out)
        found["elsewhere"] = run("--directory", ".", *small, cwd=out)
        give(root, UNKNOWN)
        found["smoke"] = run(*smoke)
        found["again"] = run(*smoke)
        give(root.parent, 0)
        # With the times of the files, which Snakemake knows.
        for name in ("results", ".snakemake"):
            shutil.move(root / name, folder / name)
        shutil.move(out, folder.with_name("other"))
        return found
    finally:
        shutil.rmtree(root.parent)
