"""Read CITATION.cff, which says who made the software and how it is cited."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from sqrtdk.system import project_files


@dataclass(frozen=True)
class Citation:
    """The fields of CITATION.cff that the exports need. `authors` are names."""

    title: str
    version: str
    released: str
    licence: str
    abstract: str
    keywords: tuple[str, ...]
    authors: tuple[str, ...]


def read() -> Citation:
    """Return the project's citation."""
    text = project_files.find("CITATION.cff").read_text(encoding="utf-8")
    found = yaml.safe_load(text)
    return Citation(
        title=found["title"],
        version=str(found["version"]),
        released=str(found["date-released"]),
        licence=found["license"],
        abstract=" ".join(found["abstract"].split()),
        keywords=tuple(found["keywords"]),
        authors=tuple(map(_name, found["authors"])),
    )


def _name(author: Mapping[str, Any]) -> str:
    parts = (author.get("given-names"), author.get("family-names"), author.get("name"))
    return " ".join(str(part) for part in parts if part)
