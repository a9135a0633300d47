"""A job on another machine: the Snakefile's rules for shards, without the plan of the run.

Snakemake starts itself on the node, twice with SLURM, and reads the Snakefile each time. So nothing
is imported here that a job does not need.
"""

import re
from collections.abc import Sequence

from sqrtdk.storage import job_files
from sqrtdk.workflow import environment, progress

RULE = re.compile(r"shards_\w+_([0-9a-f]{12})")
"""Name of a rule of `job_files.Job`; the end is the address of its job file."""


class Node:
    """What the rules for shards ask of a run, on another machine."""

    experiments: Sequence[str] = ("(?!exact/)[^/]+",)
    """A pattern: which experiments there are, only the process that plans knows."""

    def __init__(self, arguments: Sequence[str]) -> None:
        environment.prepare_jobs()
        progress.pass_state(())
        names = [match[1] for word in arguments if (match := RULE.fullmatch(word))]
        there = [name for name in names if job_files.path_of(name).is_file()]
        self.batches = [job_files.read(name) for name in there]
        self.shards = self

    def priority(self, *paths: str) -> int:
        """Return the priority of a job, which has no other beside it."""
        return 0

    def threads(self, path: str, cores: int | None) -> int:
        """Return the cores that a job occupies."""
        return 1

    def mem_mb(self, path: str, attempt: int) -> int:
        """Return no memory: the batch system has already reserved it."""
        return 0

    def runtime(self, path: str, attempt: int) -> int:
        """Return no time: the batch system has already set the limit."""
        return 0
