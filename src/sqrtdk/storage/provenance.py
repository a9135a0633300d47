"""Record what produced a run's numbers: code, versions, BLAS, machine, command, table digests.

Users publish this file. So it names no user, no host, and no folder outside the run's own.
"""

import hashlib
import os
import platform
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import numpy as np
import psutil

from sqrtdk import __version__
from sqrtdk.schema import Document
from sqrtdk.storage import machine, shard_files
from sqrtdk.storage.machine import UNKNOWN

PACKAGES = ("numpy", "ml-dtypes", "scipy", "pandas", "matplotlib", "hydra-core", "snakemake")
# A path that starts at a root, a home or a drive, as far as its last component.
_FOLDER = re.compile(r"(?<![\w.:/\\])(?:[A-Za-z]:[\\/]|~[\w.-]*/|/)(?:[^\s'\"=,:\\/]+[\\/])*")


def without_folders(command: str) -> str:
    """Return a command line with absolute paths cut to their last component.

    >>> without_folders("snakemake --configfile /home/ada/grid.yaml --config d_k='[1,2]'")
    "snakemake --configfile grid.yaml --config d_k='[1,2]'"
    """
    # For a user without a name or a home this is "~".
    home = f"{os.path.expanduser('~')}/"
    # Replace the home first, because it may contain a space, where the pattern would stop.
    return _FOLDER.sub("", command.replace(home, "/") if len(home) > 2 else command)


def revision(folder: Path) -> Document:
    """Return the git commit of the code in a folder, and whether it was changed since.

    The values are "unknown" without git, without a repository, and if the repository does not track
    this code (an environment inside another repository).
    """
    if not _git(folder, "ls-files", "--error-unmatch", "__init__.py"):
        return {"revision": UNKNOWN, "commit": UNKNOWN, "changed": None}
    described = _git(folder, "describe", "--always", "--tags", "--dirty") or UNKNOWN
    return {
        "revision": described,
        "commit": _git(folder, "rev-parse", "HEAD") or UNKNOWN,
        "changed": described.endswith("-dirty"),
    }


def _git(folder: Path, *arguments: str) -> str:
    """Return the output of a git command, or an empty text if it fails."""
    # In a container the user may not own the folder, and git would refuse to read it.
    command = ["git", "-c", "safe.directory=*", *arguments]
    # In a hook, git's variables name the repository of the hook.
    others = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            command, cwd=folder, env=others, capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def versions() -> dict[str, str]:
    """Return the installed versions of the packages that numbers and figures depend on."""
    result = {}
    for name in PACKAGES:
        try:
            result[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            result[name] = UNKNOWN
    return result


def blas() -> dict[str, str]:
    """Return NumPy's BLAS: its build, and the kernel that it chose for this CPU."""
    build = np.show_config(mode="dicts") or {}
    found = build.get("Build Dependencies", {}).get("blas", {})
    return {
        "name": str(found.get("name", UNKNOWN)),
        "version": str(found.get("version", UNKNOWN)),
        "build": without_folders(str(found.get("openblas configuration", UNKNOWN))),
        "kernel": machine.kernel(),
    }


def this_machine() -> Document:
    """Return CPU, memory and operating system, without the machine's name."""
    return {
        "cpu": machine.cpu(),
        "architecture": platform.machine(),
        "cores": psutil.cpu_count(logical=False) or psutil.cpu_count(),
        "logical_cores": psutil.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": _system(),
    }


def measured_on(shards: Iterable[Path]) -> list[Document]:
    """Return the machines that measured some shards, those with the most shards first.

    Nodes are counted and not named, like the machine of the whole record.
    """
    found = Counter(shard_files.read_machine(path) for path in shards if path.is_file())
    nodes: dict[tuple[str, str], set[str]] = {}
    shards_of: Counter[tuple[str, str]] = Counter()
    for where, count in found.items():
        node, cpu, kernel = where or (UNKNOWN, UNKNOWN, UNKNOWN)
        nodes.setdefault((cpu, kernel), set()).add(node)
        shards_of[cpu, kernel] += count
    return [
        {"cpu": cpu, "blas_kernel": kernel, "nodes": len(nodes[cpu, kernel]), "shards": count}
        for (cpu, kernel), count in sorted(shards_of.items(), key=lambda one: (-one[1], one[0]))
    ]


def _system() -> str:
    try:
        name = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        name = ""
    kernel_name = f"{platform.system()} {platform.release()}"
    return f"{name} ({kernel_name})" if name else kernel_name


def digests(paths: Iterable[Path], folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each table, by its path inside the run's folder."""
    result = {}
    for path in paths:
        inside = path.resolve().is_relative_to(folder.resolve())
        name = path.resolve().relative_to(folder.resolve()).as_posix() if inside else path.name
        with path.open("rb") as file:
            result[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return result


def provenance(
    command: str,
    paths: Iterable[Path],
    folder: Path,
    inputs: Mapping[str, str],
    shards: Iterable[Path] = (),
) -> Document:
    """Return the whole record; `inputs` has the SHA-256 of each file of the user that was read.

    `shards` are those that the tables are made of.
    """
    measured = measured_on(shards)
    return {
        "command": without_folders(command),
        "time_utc": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        # Not the installed package's version, which may belong to other code.
        "sqrtdk": __version__,
        "code": revision(Path(__file__).resolve().parents[1]),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "packages": versions(),
        "blas": blas(),
        "blas_threads": os.environ.get("OPENBLAS_NUM_THREADS", "not set"),
        "machine": this_machine(),
        **({"measured_on": measured} if measured else {}),
        **({"inputs_sha256": dict(inputs)} if inputs else {}),
        "sha256": digests(paths, folder),
    }
