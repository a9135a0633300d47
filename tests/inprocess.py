"""Run the whole pipeline in this process: the commands that Snakemake lists, one by one."""

import os
import re
import runpy
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

from conftest import ROOT, Run, snakemake

from sqrtdk.jobs import merge
from sqrtdk.workflow import request, shard_jobs, targets


def commands_of(folder: Path, *arguments: str) -> list[list[str]]:
    """List the arguments of every job of a run in `folder`, in the order in which it runs them."""
    done = snakemake(folder, "-n", "-p", *arguments)
    assert done.returncode == 0, done.stderr
    return commands(done)


def commands(dry: Run) -> list[list[str]]:
    """List the same, of a dry run with `-p`."""
    lines = re.findall(
        r"^Shell command: python -m (.*)$", dry.stdout + dry.stderr, flags=re.MULTILINE
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


def write_job_files(
    folder: Path, arguments: Sequence[str], commands: Sequence[Sequence[str]]
) -> None:
    """Write the files that a run writes for its shard jobs before it starts them."""
    with within(folder, ["snakemake", *arguments]):
        run = request.compose({}, (), arguments)
        plans = {name: merge.plan_of(run, name, targets.SHARDS / name) for name in run.settings}
        exact = {name: targets.exact_shards(name, run.settings[name]) for name in plans}
        jobs = shard_jobs.ShardJobs(shard_jobs.shards_of(plans, exact), (), free=1)
        made = [paths for module, *paths in commands if module == "sqrtdk.jobs.shards"]
        jobs.write(SimpleNamespace(output=paths) for paths in made)


def build(folder: Path, *arguments: str) -> Path:
    """Run every job of `snakemake ARGUMENTS` in this process, and return results/<name>/.

    A job that fails raises here, with its traceback.
    """
    commands = commands_of(folder, *arguments)
    write_job_files(folder, arguments, commands)
    for module, *rest in commands:
        # The record of the machine, and what is made from it, are alike for all grids.
        if module in ("sqrtdk.jobs.trace", "sqrtdk.jobs.export"):
            continue
        with within(folder, [module, *rest]):
            Path(rest[-1]).parent.mkdir(parents=True, exist_ok=True)
            run_module(module)
    return next(path.parent for path in folder.glob("results/*/report.html"))
