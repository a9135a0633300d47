"""Job files: what a job measures, as planned by the process that started the run.

A job reads its slabs here and nowhere else. So it does not compose the configuration, look for
shards or digest code, and what it measures does not depend on files that other jobs have written in
the meantime.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from sqrtdk.schema import Document
from sqrtdk.storage import code_digest
from sqrtdk.system import errors

JOBS = Path(".snakemake/sqrtdk/jobs")
"""Folder of the job files, which a job shares with the process that started the run."""

LISTS = Path(".snakemake/sqrtdk/shards")
"""Folder of the lists of all shards of a run, by its name."""

EXACT = "exact"
"""In place of an experiment's name: shards of exact expectations."""


@dataclass(frozen=True)
class Job:
    """The work of one job: slabs of one experiment by the paths of their shards.

    `module` is the one whose code the numbers come from, and `code` a digest of its files, which
    `files` lists relative to the package. `memory_mb` and `minutes` are estimates of what the job
    needs. `is_remote` is for a job on another machine.
    """

    experiment: str
    shards: Mapping[str, Document]
    module: str
    files: Sequence[str]
    code: str
    memory_mb: int = 0
    minutes: int = 0
    is_remote: bool = False

    @property
    def outputs(self) -> list[str]:
        """Return the paths of the shards."""
        return list(self.shards)

    @property
    def rule(self) -> str:
        """Return the name of a rule that makes exactly these shards."""
        return f"shards_{self.experiment}_{address(self.shards)}"

    @property
    def rule_alone(self) -> str:
        """Return the name of the rule that makes one such shard."""
        return "exact_shard" if self.experiment == EXACT else "measure_shard"

    def log(self, suffix: str) -> str:
        """Return the path of a log of the job."""
        folder = Path(self.outputs[0]).parent
        return str(folder / f"{address(self.shards)}{suffix}")

    def mem_mb(self, wildcards: object, attempt: int) -> int:
        """Return the memory to ask for, in MB; double after each failure."""
        return self.memory_mb << (attempt - 1)

    def runtime(self, wildcards: object, attempt: int) -> int:
        """Return the time to ask for, in minutes; double after each failure."""
        return self.minutes << (attempt - 1)


def address(shards: Iterable[str]) -> str:
    """Return the digest of the paths of a job's shards, which the name of its job file is."""
    return hashlib.sha256("\n".join(shards).encode()).hexdigest()[:12]


def path_of(name: str) -> Path:
    """Return the job file with a name from `address`."""
    return JOBS / f"{name}.json"


def write(job: Job) -> None:
    """Write a job file."""
    path = path_of(address(job.shards))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}")
    # Not flushed to the disk: every run writes the files of its jobs again.
    temporary.write_text(json.dumps(asdict(job)), encoding="utf-8")
    os.replace(temporary, path)


def read(name: str) -> Job:
    """Return the job of a job file. Raises UserError."""
    path = path_of(name)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise errors.UserError(
            f"{path} is missing: the process that starts a run writes it; run `snakemake`, or "
            "measure one shard with `python -m sqrtdk.jobs.measure`"
        ) from None
    values = errors.read_json(text, "a job file")
    try:
        return Job(**values)
    except TypeError:
        raise errors.UserError(
            f"{path} is of another version; run the same command again"
        ) from None


def write_list(run: str, shards: Iterable[str]) -> None:
    """Write the list of a run's shards, for the job that records which machines measured them."""
    LISTS.mkdir(parents=True, exist_ok=True)
    (LISTS / f"{run}.txt").write_text("".join(f"{path}\n" for path in shards), encoding="utf-8")


def read_list(run: str) -> list[Path]:
    """Return the paths of a run's shards, none if no run has listed them."""
    try:
        return list(map(Path, (LISTS / f"{run}.txt").read_text(encoding="utf-8").splitlines()))
    except FileNotFoundError:
        return []


@cache
def files_of(module: str) -> tuple[str, ...]:
    """Return the source files that a module's numbers may depend on, relative to the package."""
    files = code_digest.closure(module)
    return tuple(path.relative_to(code_digest.PACKAGE).as_posix() for path in files)


@cache
def bytes_digest(files: Sequence[str]) -> str:
    """Return the digest of the bytes of some source files; a missing file has none."""
    found = hashlib.sha256()
    for name in files:
        path = code_digest.PACKAGE / name
        found.update(hashlib.sha256(path.read_bytes() if path.is_file() else b"").digest())
    return found.hexdigest()


def check_code(job: Job) -> None:
    """Raise UserError if the code that measures is not that of the process that planned the job.

    Compares bytes, which takes milliseconds. Only if they differ, the shards' own digests decide:
    a comment may have been edited.
    """
    if bytes_digest(tuple(job.files)) == job.code:
        return
    code = code_digest.measured_digest(job.module)
    if any(slab["code"] != code for slab in job.shards.values()):
        raise errors.UserError(
            f"the code of {job.module} has changed since this run was started; "
            "run the same command again"
        )
