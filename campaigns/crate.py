"""Check a run's ro-crate-metadata.json with an independent validator, without the network.

    uv run --isolated --only-group crate python -m campaigns.crate results/default

Contexts of JSON-LD that the validator would fetch come from the package `rocrate`; the terms of
workflow runs that the crate uses are listed here. Exit code 1 if a requirement is not met.
"""

import json
import sys
from pathlib import Path

import rocrate
from rocrate_validator import models, services
from rocrate_validator.utils import document_loader

PROFILE = "workflow-run-crate-0.5"

TERMS = {"sha256": "https://w3id.org/ro/terms/workflow-run#sha256"}

FETCHING = ("ro-crate-1.1_3.1", "ro-crate-1.1_3.2")
"""Checks that the contexts can be fetched, and nothing of the crate itself."""


def contexts() -> dict[str, object]:
    """Return the contexts of the crate by their addresses."""
    text = (Path(rocrate.__file__).parent / "data/ro-crate.jsonld").read_text(encoding="utf-8")
    found = json.loads(text)
    # The package has a later version, where this type has another address.
    found["@context"]["ComputationalWorkflow"] = "https://bioschemas.org/ComputationalWorkflow"
    return {
        "https://w3id.org/ro/crate/1.1/context": found,
        "https://w3id.org/ro/terms/workflow-run/context": {"@context": TERMS},
    }


def main() -> None:
    """Validate the crate of a run's folder."""
    (folder,) = sys.argv[1:]
    known = contexts()

    read = document_loader._original_source_to_json

    def load(source: object, *options: object) -> object:
        return (known[str(source)], None) if str(source) in known else read(source, *options)

    # The validator asks the network first, and this where that fails.
    document_loader._original_source_to_json = load
    settings = services.ValidationSettings(
        rocrate_uri=Path(folder),
        profile_identifier=PROFILE,
        requirement_severity=models.Severity.REQUIRED,
    )
    found = [
        issue
        for issue in services.validate(settings).get_issues()
        if issue.check.identifier not in FETCHING
    ]
    for issue in found:
        print(f"{issue.check.identifier}: {issue.message}")
    print(f"{folder}: {'not a' if found else 'a'} valid {PROFILE}")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
