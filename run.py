#!/usr/bin/env python3
"""Set everything up and run the main job, on a machine with nothing but Python 3.11 or newer.

    python3 run.py                              the same as `snakemake`
    python3 run.py --config d_k='[16,64]'       its arguments pass through
    python3 run.py test                         the tests; arguments pass to pytest

Uses uv where it is found and otherwise installs it into .uv/ beside this file.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
OWN = ROOT / ".uv"


def find_uv() -> str:
    """The path of uv, installed into a folder of its own where there is none."""
    own = OWN / "bin" / "uv"
    found = shutil.which("uv")
    # A shim of a version manager is found and still cannot run.
    if found and subprocess.run([found, "--version"], capture_output=True).returncode == 0:
        return found
    if not own.exists():
        print(f"run.py: installing uv into {OWN.name}/", file=sys.stderr)
        create = [sys.executable, "-m", "venv", "--clear", str(OWN)]
        install = [str(OWN / "bin" / "python"), "-m", "pip", "install", "--quiet", "uv"]
        for step in (create, install):
            if subprocess.run(step, env=environment()).returncode != 0:
                sys.exit(
                    "run.py: cannot install uv; install it by hand, or on Debian the package "
                    "python3-venv, and give the command again"
                )
    return str(own)


def environment() -> dict[str, str]:
    """This process's environment, without what would turn caches off or point to another one."""
    # Without bytecode every job of the pipeline would compile its imports again.
    ignored = ("PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME")
    return {name: value for name, value in os.environ.items() if name not in ignored}


def main(arguments: list[str]) -> None:
    """Run pytest for `test`, otherwise snakemake, in the locked environment."""
    if sys.version_info < (3, 11):
        sys.exit(f"run.py: needs Python 3.11 or newer; this is {sys.version.split()[0]}")
    if arguments[:1] == ["test"]:
        command = ["pytest", *arguments[1:]]
    else:
        command = ["--no-dev", "snakemake", *arguments]
    os.chdir(ROOT)
    uv = find_uv()
    # What uv does is of interest the first time, when it takes a minute.
    quiet = ["--quiet"] if (ROOT / ".venv").exists() else []
    # Replaces this process: Ctrl-C then reaches the run alone, which ends in its own time.
    os.execve(uv, [uv, "run", "--frozen", *quiet, *command], environment())


if __name__ == "__main__":
    main(sys.argv[1:])
