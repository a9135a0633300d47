"""Run the whole pipeline in this process: the commands that Snakemake lists, one by one."""

import os
import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conftest import ROOT, snakemake


def commands_of(folder: Path, *arguments: str) -> list[list[str]]:
    """List the arguments of every job of a run in `folder`, in the order in which it runs them."""
    done = snakemake(folder, "-n", "-p", *arguments)
    assert done.returncode == 0, done.stderr
    lines = re.findall(
        r"^Shell command: python -m (.*)$", done.stdout + done.stderr, flags=re.MULTILINE
    )
    return [words(line) for line in lines]


def words(line: str) -> list[str]:
    """Split a shell line into words, without what follows a redirection."""
    found = shlex.split(line)
    ends = [i for i, word in enumerate(found) if word in ("2>", "2>&1", "|", ">")]
    return found[: ends[0]] if ends else found


@contextmanager
def within(folder: Path, argv: list[str]) -> Iterator[None]:
    """Run in a folder and with these command-line arguments."""
    before, there = sys.argv, Path.cwd()
    sys.argv = argv
    os.chdir(folder)
    try:
        yield
    finally:
        sys.argv = before
        os.chdir(there)


def run_module(module: str) -> None:
    """Run a module like `python -m`, but without a new process."""
    file = (ROOT / "src").joinpath(*module.split(".")).with_suffix(".py")
    runpy.run_path(
        str(file if file.exists() else file.with_suffix("") / "__main__.py"), run_name="__main__"
    )


def build(folder: Path, *arguments: str) -> Path:
    """Run every job of `snakemake ARGUMENTS` in this process, and return results/<name>/.

    A job that fails raises here, with its traceback.
    """
    for module, *rest in commands_of(folder, *arguments):
        # The record of the machine, and what is made from it, are alike for all grids.
        if module in ("sqrtdk.jobs.trace", "sqrtdk.jobs.export"):
            continue
        with within(folder, [module, *rest]):
            Path(rest[-1]).parent.mkdir(parents=True, exist_ok=True)
            run_module(module)
    return next(path.parent for path in folder.glob("results/*/report.html"))
