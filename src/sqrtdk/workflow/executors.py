"""Find out where Snakemake runs the jobs: on this machine or on a cluster, and in what software."""

import contextlib
import io
from collections.abc import Sequence
from typing import Any

from sqrtdk.config import errors
from sqrtdk.workflow import patches

HERE = (None, "local", "dryrun", "touch")
"""Snakemake's executors that start every job on this machine."""


def _parsed(arguments: Sequence[str]) -> Any:
    """Return Snakemake's options from a command line and its profiles.

    Snakemake knows them before it reads the Snakefile, and does not tell it.
    """
    # Not at the top, because it is a part of Snakemake's command line, not of its library.
    from snakemake import cli

    # It prints which profiles it uses, as it did before.
    with contextlib.redirect_stderr(io.StringIO()), patches.unpatched_templates():
        return cli.parse_args(list(arguments))[1]


def name_of(arguments: Sequence[str]) -> str | None:
    """Return the executor that a command line and its profiles name, or None."""
    found: str | None = _parsed(arguments).executor
    return found


def is_here(arguments: Sequence[str]) -> bool:
    """Return whether all jobs run on this machine. Raises ConfigError for software but conda's.

    No rule names a container or a module, so that Snakemake would ignore the option, silently.
    """
    options = _parsed(arguments)
    methods = [str(method) for method in options.software_deployment_method or ()]
    methods += ["apptainer"] if options.use_apptainer else []
    methods += ["env-modules"] if options.use_envmodules else []
    for method in methods:
        if method != "conda":
            allowed = "conda; for a container, run the whole command in the image of Dockerfile"
            raise errors.invalid_value("--sdm", method, f"{allowed} (docs/scaling.md)")
    return options.executor in HERE
