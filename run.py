#!/usr/bin/env python3
"""Set everything up and run the main job, on a machine with nothing but Python 3.11 or newer.

    python3 run.py                              the same as `snakemake`
    python3 run.py --config d_k='[16,64]'       its arguments pass through
    python3 run.py test                         the tests; arguments pass to pytest

Installs the locked packages into .venv/ next to this file, with uv. If uv is not found, it is
installed into .uv/. Paths of files on the command line are relative to the current folder. Results
are written next to this file, unless `--directory` names another folder.
"""

import sys

# Every Python 3 has to read this file in order to get here, so it contains no f-strings.
if sys.version_info < (3, 11):
    sys.exit("run.py: needs Python 3.11 or newer; this is Python %d.%d.%d" % sys.version_info[:3])

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parent
SOURCE = ROOT / "src"
OWN = ROOT / ".uv"
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
MARK = "sqrtdk.json"
"""File in an environment that was finished; says what is in it."""

sys.path.insert(0, str(SOURCE))
from sqrtdk import home  # the standard library is all that it needs

REDIRECTING = re.compile("PIP_|UV_|PYTHON|VIRTUAL_ENV$|__PYVENV_LAUNCHER__$")
"""Variables that can make pip, uv or Python use other folders, packages or settings."""

FETCHING = re.compile(
    "(PIP|UV)_.*(INDEX|LINKS|CERT|TLS|PROXY|HOST|HTTP|TIMEOUT|RETRIES|CACHE|OFFLINE|CONFIG"
    "|KEYRING|LINK_MODE|CONCURRENT)|PYTHON(UNBUFFERED|FAULTHANDLER)$"
)
"""Exceptions: variables that say from where and how to fetch packages, or do no harm."""

HELP = """%s
Keys of --config: .venv/bin/python -m sqrtdk.run --help
Options: .venv/bin/snakemake --help""" % (__doc__ or "")

FILES = (
    *("--report", "--report-stylesheet", "--report-metadata", "--archive", "--export-cwl"),
    *("--conda-prefix", "--apptainer-prefix", "--shadow-prefix", "--generate-unit-tests"),
)
"""Options whose path Snakemake would take as relative to its working directory."""


def environment() -> dict[str, str]:
    """Return the environment of all processes: with this folder's code and packages alone."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if FETCHING.match(name) or not REDIRECTING.match(name)
    }
    return kept | {"PYTHONPATH": str(SOURCE)} | home.variables(str(ROOT / ".cache"))


def fail(reason: str) -> NoReturn:
    """End with one line."""
    sys.exit("run.py: " + reason)


def works(settings: dict[str, str], *command: str) -> bool:
    """Return whether a command starts and ends with exit code 0; its output is dropped."""
    try:
        return subprocess.run(command, capture_output=True, env=settings).returncode == 0
    except OSError:
        return False


def find_uv(settings: dict[str, str]) -> str:
    """Return the path of uv, after installing it into a folder of its own if there is none."""
    own = OWN / "bin" / "uv"
    # A version manager's shim may be found and not run; an interrupted set-up leaves a broken file.
    for found in (shutil.which("uv"), str(own)):
        if found and works(settings, found, "--version"):
            return found
    print("run.py: installing uv into .uv/", file=sys.stderr)
    # Also against settings in pip's configuration files.
    settings = settings | {"PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    with beside(OWN) as new:
        create = [sys.executable, "-m", "venv", "--clear", str(new)]
        install = [str(new / "bin" / "python"), "-m", "pip", "install", "--quiet", "uv"]
        for step in (create, install):
            if subprocess.run(step, env=settings).returncode != 0:
                break
        if not works(settings, str(new / "bin" / "uv"), "--version"):
            fail(
                "cannot install uv; see above, or install it by hand (on Debian, python3-venv may "
                "be missing), and run the same command again"
            )
        replace(OWN, new)
    return str(own)


@contextlib.contextmanager
def beside(folder: Path) -> Iterator[Path]:
    """Yield where to build what will replace a folder; a build that fails is deleted."""
    new = folder.with_name(folder.name + ".new")
    remove(new)
    try:
        yield new
    finally:
        remove(new)


def replace(folder: Path, new: Path) -> None:
    """Put a finished folder in place of another one, which may belong to another user."""
    old = folder.with_name("%s.old-%d" % (folder.name, os.getpid()))
    with contextlib.suppress(FileNotFoundError):
        folder.rename(old)
    new.rename(folder)
    remove(old)


def remove(path: Path) -> None:
    """Delete a folder, a file or a link, as far as this user can."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def inspect(venv: Path) -> dict[str, Any] | None:
    """Return what identifies an environment, or None if its Python does not run."""
    show_version = "import sys; print('python%d.%d' % sys.version_info[:2])"
    try:
        command = [str(venv / "bin" / "python"), "-I", "-S", "-c", show_version]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    library = Path("lib", done.stdout.strip(), "site-packages")
    return {
        "folder": str(ROOT),
        "lock": hashlib.sha256((ROOT / "uv.lock").read_bytes()).hexdigest(),
        "library": str(library),
        "packages": sorted(path.name for path in (venv / library).glob("*.dist-info")),
    }


def is_ready(dev: bool) -> bool:
    """Return whether .venv/ was finished for this lock, and is still whole."""
    now = inspect(VENV)
    try:
        then = json.loads((VENV / MARK).read_text(encoding="utf-8"))
        return (
            now is not None
            and all(then[name] == now[name] for name in ("lock", "library"))
            and set(then["packages"]) <= set(now["packages"])
            and (then["folder"] == now["folder"] or not has_foreign_scripts())
            and then["dev"] >= dev
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def set_up(settings: dict[str, str], dev: bool) -> None:
    """Install what uv.lock lists beside .venv/, and put it in its place when it is complete.

    Until then nothing in .venv/ changes, because another user may need it, or this one may have
    no network.
    """
    uv = find_uv(settings)
    print("run.py: setting up .venv/", file=sys.stderr)
    runs, foreign = inspect(VENV) is not None, has_foreign_scripts()
    complete = runs and sync(uv, settings, VENV, dev, "--check")
    if complete and not foreign:
        return finish(VENV, dev)
    with beside(VENV) as new:
        # Relocatable: its scripts then run where the folder is moved or copied to.
        create = [uv, "venv", "--quiet", "--clear", "--relocatable", "--no-project"]
        create += ["--python", sys.executable, str(new)]
        if runs and not foreign:
            # What is there need not be fetched and compiled again.
            shutil.copytree(VENV, new, symlinks=True, ignore=shutil.ignore_patterns(MARK))
        elif subprocess.run(create, env=settings).returncode != 0:
            fail("cannot create an environment; see above. .venv/ is as it was")
        if sync(uv, settings, new, dev):
            finish(new, dev)
            return replace(VENV, new)
    if not complete:
        fail("cannot install the packages; see above. .venv/ is as it was")
    # The scripts of uv's own environments name their folder; without network they stay broken.
    return finish(VENV, dev)


def sync(uv: str, settings: dict[str, str], venv: Path, dev: bool, *options: str) -> bool:
    """Install what uv.lock lists, or with `--check` only look; return whether all is there."""
    # Without the project itself: its code is found by path, and nothing has to be built.
    command = [uv, "sync", "--project", str(ROOT), "--python", str(venv / "bin" / "python")]
    command += ["--frozen", "--inexact", "--no-install-project", *([] if dev else ["--no-dev"])]
    settings = settings | {"UV_PROJECT_ENVIRONMENT": str(venv)}
    if options:
        return works(settings, *command, *options)
    return subprocess.run(command, env=settings).returncode == 0


def finish(venv: Path, dev: bool) -> None:
    """Let an environment find this folder's code, and mark it as finished."""
    found = inspect(venv)
    if found is None:
        fail("the new Python does not run; delete .venv/ and run the same command again")
    # For .venv/bin/python without this file. Relative, so that a copy finds its own code; the name
    # sorts before that of an editable install, which may point to another folder.
    link = venv / found["library"] / "00-sqrtdk.pth"
    link.write_text(os.path.relpath(SOURCE, link.parent) + "\n", encoding="utf-8")
    (venv / MARK).write_text(json.dumps({**found, "dev": dev}) + "\n", encoding="utf-8")


def has_foreign_scripts() -> bool:
    """Return whether the scripts of .venv/ start the Python of another folder."""
    try:
        first = (VENV / "bin" / "snakemake").read_text(encoding="utf-8").partition("\n")[0]
    except (OSError, UnicodeDecodeError):
        return False
    return first.startswith("#!/") and first != "#!/bin/sh" and str(VENV) not in first


def prepare(settings: dict[str, str], dev: bool) -> None:
    """Set up what is missing; one process at a time."""
    if is_ready(dev):
        return
    if os.pathsep in str(ROOT):
        fail("%s: Python finds no code in a folder whose name contains %r" % (ROOT, os.pathsep))
    if not os.access(ROOT, os.W_OK):
        fail("cannot write to %s; set it up as a user who can, or copy it" % ROOT)
    folder = os.open(ROOT, os.O_RDONLY)
    # Some file systems have no locks.
    with contextlib.suppress(OSError):
        fcntl.flock(folder, fcntl.LOCK_EX)
    new = VENV.with_name(VENV.name + ".new")
    if not VENV.exists() and (new / MARK).exists():
        # It was complete, and its set-up ended between two renames.
        new.rename(VENV)
    if not is_ready(dev):
        set_up(settings, dev)
    os.close(folder)


def version() -> str:
    """Return this project's version, without importing what may not be installed."""
    text = (SOURCE / "sqrtdk" / "__init__.py").read_text(encoding="utf-8")
    found = re.search('^__version__ = "(.*)"', text, flags=re.MULTILINE)
    return found[1] if found else "unknown"


def as_typed(argument: str, here: Path) -> str:
    """Return pytest's argument, as an absolute path if it is one in the folder `here`."""
    return str(here / argument) if (here / argument.partition("::")[0]).exists() else argument


def for_snakemake(arguments: list[str], here: Path) -> list[str]:
    """Return Snakemake's arguments, for a user who may be in a folder other than this one."""
    if here == ROOT:
        return arguments
    # First, because the last of several counts.
    result = ["--snakefile", str(ROOT / "Snakefile"), "--directory", str(ROOT)]
    # Named, because Snakemake would take a folder `default` here for its profile.
    result += ["--workflow-profile", str(ROOT / "profiles" / "default")]
    for previous, argument in zip(["", *arguments], arguments, strict=False):
        option, equals, value = argument.partition("=")
        if previous in FILES and not argument.startswith("-"):
            argument = str(here / argument)
        elif equals and option in FILES:
            argument = option + equals + str(here / value)
        result.append(argument)
    return result


def main(arguments: list[str]) -> None:
    """Run pytest for `test`, otherwise Snakemake, in the locked environment."""
    try:
        here = Path.cwd()
    except FileNotFoundError:
        here = ROOT
        os.chdir(here)
    if {"-h", "--help"} & set(arguments[:1]):
        print(HELP)
        return
    settings = environment()
    dev = arguments[:1] == ["test"]
    try:
        prepare(settings, dev)
    except OSError as error:
        fail("cannot set up: %s" % error)
    if dev:
        os.chdir(ROOT)
        command = ["-m", "pytest", *(as_typed(argument, here) for argument in arguments[1:])]
    else:
        if arguments == ["--version"]:
            print("sqrtdk %s, with Snakemake" % version(), end=" ", flush=True)
        # -P: a file random.py or json.py in the current folder is not to be imported.
        command = ["-P", "-m", "snakemake", *for_snakemake(arguments, here)]
        # Files that the configuration names are relative to it.
        settings["SQRTDK_HERE"] = str(here)
    # Replaces this process: Ctrl-C then reaches the run alone, which ends in its own time.
    os.execve(PYTHON, [str(PYTHON), *command], settings)


if __name__ == "__main__":
    main(sys.argv[1:])
