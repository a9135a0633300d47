"""Find out where Snakemake runs the jobs: on this machine or on a cluster, and in what software."""

import sys
from types import FrameType
from typing import Any

from sqrtdk.config import errors

HERE = ("local", "dryrun", "touch")
"""Snakemake's executors that start every job on this machine."""

HOLDER = "args_to_api"
"""The function of `snakemake.cli` that has the options in `args` while it runs a workflow."""


def options() -> Any:
    """Return Snakemake's options, those of profiles included; None if no command line started it.

    Snakemake has parsed them before it reads the Snakefile, but does not tell the Snakefile its
    executor. Parsing them again has side effects: a profile may be a template.
    """
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == HOLDER and "args" in frame.f_locals:
            return frame.f_locals["args"]
        frame = frame.f_back
    return None


def name_of(given: Any) -> str:
    """Return the executor that the options name."""
    return getattr(given, "executor", None) or "local"


def is_here(given: Any) -> bool:
    """Return whether all jobs run on this machine. Raises ConfigError for software but conda's.

    No rule names a container or a module, so that Snakemake would ignore the option, silently.
    """
    methods = [str(method) for method in getattr(given, "software_deployment_method", None) or ()]
    methods += ["apptainer"] if getattr(given, "use_apptainer", False) else []
    methods += ["env-modules"] if getattr(given, "use_envmodules", False) else []
    for method in methods:
        if method != "conda":
            allowed = "conda; for a container, run the whole command in the image of Dockerfile"
            raise errors.invalid_value("--sdm", method, f"{allowed} (docs/scaling.md)")
    return name_of(given) in HERE
