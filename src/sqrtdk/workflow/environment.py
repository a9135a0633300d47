"""Set the environment variables that make jobs run this Python and this package's code."""

import os
import sys
from pathlib import Path

from sqrtdk import home
from sqrtdk.storage import code_digest
from sqrtdk.system import threads

MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(2**28), "MALLOC_MMAP_THRESHOLD_": str(2**25)}
"""The C library's settings for freed memory: keep it. Training allocates the same arrays at each
step, and to get their pages anew took a fifth of its time. 2^25 is the largest that is allowed."""


def prepare_jobs() -> None:
    """Set them for this process and all that it starts."""
    # Works even if the environment is not activated.
    _put_first("PATH", str(Path(sys.executable).parent))
    source = os.environ["SQRTDK_SOURCE"] = str(code_digest.PACKAGE.parent)
    if {"{", "}"} & set(source):
        # Snakemake uses the path of the Snakefile as a pattern.
        sys.exit(f"sqrtdk: {source}: Snakemake allows no braces in the name of a folder")
    _put_first("PYTHONPATH", source)
    threads.use_one()
    for name, value in MEMORY.items():
        os.environ.setdefault(name, value)
    # The backend of a notebook or desktop may not exist here.
    os.environ["MPLBACKEND"] = "agg"
    # Again, because Snakemake may run without the plugin that has done it.
    os.environ.update(home.variables(str(Path(".snakemake/cache").resolve())))


def _put_first(name: str, folder: str) -> None:
    rest = os.environ.get(name)
    os.environ[name] = os.pathsep.join([folder, rest]) if rest else folder
