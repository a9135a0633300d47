"""Read the requested run: Snakemake's config mapping, its config files and its command line."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sqrtdk.config import compose as config_compose
from sqrtdk.config import errors, yaml_reader
from sqrtdk.config import overrides as config_overrides
from sqrtdk.config import run as config_run
from sqrtdk.schema import Document
from sqrtdk.system import stdio
from sqrtdk.workflow.arguments import entries

JOB_MINUTES = "job_minutes"
"""Key of the duration that a job on a cluster should have. It changes no result, so that it is not
part of a run's configuration."""

USUAL_MINUTES = 10.0
"""Long against the start of such a job (7 s), short against what a lost job costs."""

MOST_MINUTES = 10_000.0
"""A week: no batch system runs a job for longer."""


def compose(
    values: Document,
    files: Sequence[Path] = (),
    arguments: Sequence[str] = (),
    *,
    here: bool = True,
) -> config_run.Run:
    """Return the run of Snakemake's config mapping, its config files and its command line.

    The memory of this machine counts only if cells are measured `here`. Raises ConfigError, also
    for a repeated key: otherwise the last value would win silently.
    """
    given, typed = dict(read_given(values, files, arguments)), entries(arguments)
    given.pop(JOB_MINUTES, None)
    grammar = given.pop("hydra", "")
    if isinstance(grammar, str):
        # Snakemake strips quotes from the ends of a value, even if there is only one.
        grammar = dict(typed).get("hydra", grammar)
    if not isinstance(grammar, str):
        raise errors.invalid_value(
            "hydra", grammar, "Hydra overrides in one string: hydra='d_k=16'"
        )
    try:
        overrides = shlex.split(grammar)
    except ValueError as error:
        raise errors.invalid_value("hydra", grammar, f"balanced quotes ({error})") from None
    blocks = {key for key, _ in typed if isinstance(given.get(key), Mapping)}
    return config_compose.compose(overrides, given, typed=blocks, here=here)


def job_minutes(
    values: Document,
    files: Sequence[Path] = (),
    arguments: Sequence[str] = (),
    *,
    here: bool = True,
) -> float | None:
    """Return how many minutes a job on a cluster should measure; 0 is for one shard a job.

    None if cells are measured `here`, on this machine. Raises ConfigError.
    """
    given = read_given(values, files, arguments)
    value = given.get(JOB_MINUTES, USUAL_MINUTES)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not (is_number and 0 <= value <= MOST_MINUTES):
        allowed = f"minutes from 0, for one shard a job, to {MOST_MINUTES:,.0f}"
        raise errors.invalid_value(JOB_MINUTES, value, allowed)
    if here and JOB_MINUTES in given:
        stdio.warn(f"{JOB_MINUTES}: has an effect with --executor only")
    return None if here else float(value)


def read_given(
    values: Document, files: Sequence[Path] = (), arguments: Sequence[str] = ()
) -> Document:
    """Return Snakemake's config mapping with typed entries read like those of a file.

    Raises ConfigError.
    """
    for file in files:
        yaml_reader.read_config(file)
    typed = entries(arguments)
    for key, _ in typed:
        several = [other for name, other in typed if name == key]
        if len(several) > 1:
            raise errors.given_twice(key, several)
    given = dict(values)
    for key, text in typed:
        if key != "hydra":
            given[key] = _read(key, text, given.get(key))
    return given


def _read(key: str, text: str, default: Any) -> Any:
    """Return the value of a `--config` entry, read like a config file.

    `default` is Snakemake's value of the entry and of config files. A mapping keeps the parts that
    only a file has.
    """
    found = yaml_reader.read_typed(key, text)
    if isinstance(found, Mapping) and isinstance(default, Mapping):
        return config_overrides.overlay(default, found)
    return found
