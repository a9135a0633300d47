"""Write a run for other places: report.md, ro-crate-metadata.json and codemeta.json."""

import json
import sys
from pathlib import Path
from typing import Any

from sqrtdk.config import yaml_reader
from sqrtdk.export import citation, codemeta, crate, markdown
from sqrtdk.report import dictionary
from sqrtdk.storage import guards
from sqrtdk.storage.tables import read_record
from sqrtdk.system import command_line, project_files


def main() -> None:
    """Write the exports of a run into its folder."""
    folder = Path(sys.argv[1])
    config = yaml_reader.read_config(folder / "config.yaml")
    record, cited = read_record(folder / "provenance.json"), citation.read()
    guards.write_with_checksum(folder / "report.md", markdown.render(folder))
    _write(folder / "codemeta.json", codemeta.codemeta(cited, record))
    snakefile = project_files.find("Snakefile")
    rules = sorted(project_files.find("rules").glob("*.smk"))
    copies = {crate.WORKFLOW: snakefile} | {f"workflow/rules/{path.name}": path for path in rules}
    for name, path in copies.items():
        guards.write_with_checksum(folder / name, path.read_bytes())
    tables = [one.path for one in dictionary.downloads(folder, config.get("experiments", []))]
    figures = sorted(path.relative_to(folder).as_posix() for path in folder.glob("figures/*.svg"))
    # A run that was exported before lists the exports too; the metadata does not list itself.
    files = {*tables, *figures, "report.md", "codemeta.json"}
    files -= {crate.CONFIG, "ro-crate-metadata.json"}
    found = crate.crate(cited, record, str(config.get("name", folder.name)), files)
    _write(folder / "ro-crate-metadata.json", found)


def _write(path: Path, content: dict[str, Any]) -> None:
    guards.write_with_checksum(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    command_line.run(main, "FOLDER")
