"""Find out where Snakemake runs the jobs: on this machine, or on a cluster."""

import contextlib
import io
from collections.abc import Sequence

from sqrtdk.workflow import patches

HERE = (None, "local", "dryrun", "touch")
"""Snakemake's executors that start every job on this machine."""


def name_of(arguments: Sequence[str]) -> str | None:
    """Return the executor that a command line and its profiles name, or None.

    Snakemake knows it before it reads the Snakefile, and does not tell it.
    """
    # Not at the top, because it is a part of Snakemake's command line, not of its library.
    from snakemake import cli

    # It prints which profiles it uses, as it did before.
    with contextlib.redirect_stderr(io.StringIO()), patches.unpatched_templates():
        _, parsed = cli.parse_args(list(arguments))
    found: str | None = parsed.executor
    return found


def is_here(arguments: Sequence[str]) -> bool:
    """Return whether all jobs run on this machine."""
    return name_of(arguments) in HERE
