"""Write the resolved configuration of a run."""

import sys
from pathlib import Path

from sqrtdk.storage.guards import write_with_checksum
from sqrtdk.system import command_line


def main() -> None:
    """Copy a file (first argument) to another (second), whole or not at all, with a digest."""
    write_with_checksum(Path(sys.argv[2]), Path(sys.argv[1]).read_bytes())


if __name__ == "__main__":
    command_line.run(main, "FILE", "COPY")
