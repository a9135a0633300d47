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
from sqrtdk.workflow.arguments import entries


def compose(
    values: Document, files: Sequence[Path] = (), arguments: Sequence[str] = ()
) -> config_run.Run:
    """Return the run of Snakemake's config mapping, its config files and its command line.

    Raises ConfigError, also for a repeated key: otherwise the last value would win silently.
    """
    given, typed = dict(read_given(values, files, arguments)), entries(arguments)
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
    return config_compose.compose(overrides, given, typed=blocks)


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
