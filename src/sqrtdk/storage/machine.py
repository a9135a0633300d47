"""Where a process computes: node, processor and BLAS kernel.

Every shard job records it, so this module imports nothing heavy. A run on several machines has
several.
"""

import platform
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

from threadpoolctl import threadpool_info

UNKNOWN = "unknown"


class Machine(NamedTuple):
    """The machine that measured a shard. OpenBLAS's kernel decides the last bits of products."""

    node: str
    cpu: str
    kernel: str


@cache
def here() -> Machine:
    """Return the machine of this process. Its BLAS must be loaded."""
    return Machine(platform.node() or UNKNOWN, cpu(), kernel())


def kernel() -> str:
    """Return the name of OpenBLAS's kernel, which decides the last bits of every product."""
    loaded = [one for one in threadpool_info() if one.get("internal_api") == "openblas"]
    # NumPy's own first: SciPy may have loaded another one.
    loaded.sort(key=lambda one: "numpy" not in one["filepath"])
    return str(loaded[0].get("architecture") or UNKNOWN) if loaded else UNKNOWN


def cpu() -> str:
    """Return the name of the processor."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        found = re.search(r"^model name\s*:\s*(.+)$", info.read_text(), flags=re.MULTILINE)
        if found:
            return found[1].strip()
    if sys.platform == "darwin":
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.stdout.strip():
            return done.stdout.strip()
    return platform.processor() or UNKNOWN
