"""Write provenance.json of a run."""

import json
import sys
from pathlib import Path

from sqrtdk.storage import guards
from sqrtdk.storage.provenance import provenance
from sqrtdk.system import command_line


def main() -> None:
    """Write the record of a command (second argument) and its tables to the first path."""
    out, command, *paths = sys.argv[1:]
    record = provenance(command, map(Path, paths), Path(out).parent)
    guards.write_with_checksum(Path(out), json.dumps(record, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    command_line.run(main, "PROVENANCE.json", "COMMAND", "TABLE...")
