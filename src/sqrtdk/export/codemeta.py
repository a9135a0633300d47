"""codemeta.json: the software that made a run, in the vocabulary of software catalogues."""

from collections.abc import Mapping
from typing import Any

from sqrtdk.export.citation import Citation

CONTEXT = "https://w3id.org/codemeta/3.0"
LICENCE = "https://spdx.org/licenses/"


def codemeta(citation: Citation, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the description, from CITATION.cff and a run's provenance."""
    packages = record.get("packages", {})
    found: dict[str, Any] = {
        "@context": CONTEXT,
        "@type": "SoftwareSourceCode",
        "name": "sqrtdk",
        "headline": citation.title,
        "description": citation.abstract,
        "version": record.get("sqrtdk", citation.version),
        "datePublished": citation.released,
        "license": f"{LICENCE}{citation.licence}",
        "keywords": list(citation.keywords),
        "author": [{"@type": "Organization", "name": name} for name in citation.authors],
        "programmingLanguage": {"@type": "ComputerLanguage", "name": "Python"},
        "runtimePlatform": record.get("python", ""),
        "operatingSystem": record.get("machine", {}).get("system", ""),
        "softwareRequirements": [
            {"@type": "SoftwareApplication", "name": name, "version": version}
            for name, version in packages.items()
        ],
    }
    commit = record.get("code", {}).get("commit", "unknown")
    if commit != "unknown":
        found["identifier"] = commit
    return found
