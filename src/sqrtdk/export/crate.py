"""ro-crate-metadata.json: a run as a Workflow Run Crate 0.5.

The profile is that of https://w3id.org/ro/wfrun/workflow/0.5: one workflow (a copy of the
Snakefile and its rules is in the folder), one action that ran it, what it read and what it wrote.
"""

import mimetypes
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sqrtdk.export.citation import Citation
from sqrtdk.export.codemeta import LICENCE

CONTEXT = [
    "https://w3id.org/ro/crate/1.1/context",
    "https://w3id.org/ro/terms/workflow-run/context",
]
CRATE = "https://w3id.org/ro/crate/1.1"
PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": "Process Run Crate",
    "https://w3id.org/ro/wfrun/workflow/0.5": "Workflow Run Crate",
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": "Workflow RO-Crate",
}
SNAKEMAKE = "https://w3id.org/workflowhub/workflow-ro-crate#snakemake"
WORKFLOW = "workflow/Snakefile"
CONFIG = "config.yaml"
ACTION = "#run"
TYPES = {".csv": "text/csv", ".yaml": "application/yaml", ".svg": "image/svg+xml"}

Entity = dict[str, Any]


def crate(citation: Citation, record: Mapping[str, Any], name: str, files: Iterable[str]) -> Entity:
    """Return the metadata of a run with this name; `files` are its results, below its folder."""
    results = sorted(files)
    authors = [{"@id": f"#author-{i}"} for i, _ in enumerate(citation.authors, 1)]
    # One value is not a list, as the specification recommends.
    author: Entity | list[Entity] = authors[0] if len(authors) == 1 else authors
    licence = f"{LICENCE}{citation.licence}"
    ended = record["time_utc"].replace("Z", "+00:00")
    rules = f"{Path(WORKFLOW).parent}/rules/"
    graph: list[Entity] = [
        {
            "@id": "ro-crate-metadata.json",
            "@type": "CreativeWork",
            "about": {"@id": "./"},
            "conformsTo": _ids(CRATE, "https://w3id.org/workflowhub/workflow-ro-crate/1.0"),
        },
        {
            "@id": "./",
            "@type": "Dataset",
            "name": f"sqrtdk: run {name}",
            "description": citation.abstract,
            "datePublished": ended,
            "license": {"@id": licence},
            "author": author,
            "conformsTo": _ids(*PROFILES),
            "mainEntity": {"@id": WORKFLOW},
            "hasPart": _ids(WORKFLOW, rules, CONFIG, *results),
            "mentions": {"@id": ACTION},
        },
        *(
            {
                "@id": profile,
                "@type": ["CreativeWork", "Profile"],
                "name": title,
                "version": profile.rpartition("/")[2],
            }
            for profile, title in PROFILES.items()
        ),
        {
            "@id": WORKFLOW,
            "@type": ["File", "SoftwareSourceCode", "ComputationalWorkflow"],
            "name": citation.title,
            "encodingFormat": "text/x-python",
            "programmingLanguage": {"@id": SNAKEMAKE},
            "license": {"@id": licence},
            "author": author,
            "version": record["code"]["revision"],
            "softwareRequirements": _ids(*(f"#{one}" for one in record["packages"])),
        },
        {"@id": rules, "@type": "Dataset", "name": "Rules of the workflow"},
        {
            "@id": SNAKEMAKE,
            "@type": "ComputerLanguage",
            "name": "Snakemake",
            "identifier": {"@id": "https://snakemake.github.io"},
            "url": {"@id": "https://snakemake.github.io"},
            "version": record["packages"].get("snakemake", "unknown"),
        },
        *(
            {
                "@id": f"#{package}",
                "@type": "SoftwareApplication",
                "name": package,
                "version": version,
            }
            for package, version in record["packages"].items()
        ),
        {
            "@id": ACTION,
            "@type": "CreateAction",
            "name": record["command"],
            "description": f"{record['python']} on {record['machine']['cpu']}",
            "endTime": ended,
            "actionStatus": "http://schema.org/CompletedActionStatus",
            "instrument": {"@id": WORKFLOW},
            "agent": authors[0],
            "object": {"@id": CONFIG},
            "result": _ids(*results),
        },
        _file(CONFIG, {}),
        *(_file(path, record["sha256"]) for path in results),
        *(
            {"@id": at["@id"], "@type": "Organization", "name": name}
            for at, name in zip(authors, citation.authors, strict=True)
        ),
        {
            "@id": licence,
            "@type": "CreativeWork",
            "name": citation.licence,
            "description": f"The {citation.licence} licence.",
        },
    ]
    return {"@context": CONTEXT, "@graph": graph}


def _ids(*ids: str) -> list[Entity]:
    return [{"@id": one} for one in ids]


def _file(path: str, digests: Mapping[str, str]) -> Entity:
    ending = Path(path).suffix
    kind = TYPES.get(ending) or mimetypes.types_map.get(ending, "application/octet-stream")
    found = {"@id": path, "@type": "File", "name": path, "encodingFormat": kind}
    return found | ({"sha256": digests[path]} if path in digests else {})
