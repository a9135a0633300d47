"""Write provenance.json of a run."""

import json
import sys
from pathlib import Path
from typing import cast

from sqrtdk.config import resolve
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.storage import guards, job_files
from sqrtdk.storage.provenance import provenance
from sqrtdk.system import command_line


def inputs(config: Path) -> dict[str, str]:
    """Return the SHA-256 of each file that a resolved configuration names, without its folder."""
    if not config.is_file():
        return {}
    run = resolve.load(config)
    return {
        Path(path).name: digest
        for name, settings in run.settings.items()
        for key in EXPERIMENTS[name].config_keys
        if key.kind == "file"
        for path, digest in cast(dict[str, str], dict(settings)[key.name] or {}).items()
    }


def main() -> None:
    """Write the record of a command (second argument) and its tables to the first path."""
    out, command, *paths = sys.argv[1:]
    folder = Path(out).parent
    shards = job_files.read_list(folder.name)
    record = provenance(command, map(Path, paths), folder, inputs(folder / "config.yaml"), shards)
    guards.write_with_checksum(Path(out), json.dumps(record, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    command_line.run(main, "PROVENANCE.json", "COMMAND", "TABLE...")
