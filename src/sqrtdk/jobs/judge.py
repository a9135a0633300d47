"""Write claims.csv: the verdict on each claim."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from sqrtdk.claims.claim import COLUMNS, Claim
from sqrtdk.claims.findings import Evidence
from sqrtdk.claims.verdicts import judge
from sqrtdk.config import errors, resolve
from sqrtdk.config import run as config_run
from sqrtdk.experiments import schemas, statements
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.schema import Settings
from sqrtdk.stats.series import series_of
from sqrtdk.storage import frames, guards, tables
from sqrtdk.system import command_line


def claims_table(
    run: config_run.Run, found: Mapping[tuple[str, str], pd.DataFrame]
) -> list[tables.Row]:
    """Return one row per claim; a claim without its experiment is not measured.

    `found` are the tables that decide, by experiment and name.
    """
    result = []
    for claim in statements.claims_of(run.settings):
        own, *also = (
            _evidence(claim, run.settings[name], found, name)
            if (name, claim.table) in found
            else []
            for name in (claim.experiment, *claim.also)
        )
        if (claim.experiment, claim.table) not in found:
            claim = replace(claim, lacking="")
        result.append(judge(claim, own, dict(zip(claim.also, also, strict=True))))
    return result


def _evidence(
    claim: Claim,
    settings: Settings,
    found: Mapping[tuple[str, str], pd.DataFrame],
    experiment: str,
) -> Sequence[Evidence]:
    """Return the evidence for a claim from one experiment's tables."""
    table = found[experiment, claim.table]
    if claim.evidence is not None:
        return claim.evidence(settings, table)
    return series_of(settings, table, found.get((experiment, "contrasts")))


def main() -> None:
    """Judge the run of the config named first from the tables after it, into the last path.

    A table's experiment is the folder that it is in.
    """
    configuration, *paths, out = map(Path, sys.argv[1:])
    found = {}
    for path in paths:
        experiment = EXPERIMENTS.get(path.parent.name)
        kinds = experiment.judged_by if experiment else ("summary",)
        if experiment is None or path.stem not in kinds:
            allowed = f"EXPERIMENT/TABLE.csv, of the tables {' or '.join(kinds)}"
            raise errors.invalid_value("table", str(path), allowed)
        schema = schemas.columns(experiment, path.stem)
        found[path.parent.name, path.stem] = frames.read(path, schema)
    rows = claims_table(resolve.load(configuration), found)
    guards.write_with_checksum(out, tables.text(rows, COLUMNS))


if __name__ == "__main__":
    command_line.run(main, "CONFIG", "TABLE...", "CLAIMS.csv")
