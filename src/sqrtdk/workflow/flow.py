"""Choose what the Snakefile builds: a run, or a comparison of runs."""

import sys
from collections.abc import Sequence
from pathlib import Path

from sqrtdk.config import errors
from sqrtdk.schema import Document
from sqrtdk.system import disk
from sqrtdk.workflow import comparison, executors, request, session
from sqrtdk.workflow.targets import Workflow


def flow_of(values: Document, files: Sequence[Path] = ()) -> Workflow | comparison.Comparison:
    """Return the run of Snakemake's `config`, or the comparison of the runs that `runs` names."""
    arguments = sys.argv[1:]
    try:
        given = request.read_given(values, files, arguments)
        if comparison.KEY not in given:
            return Workflow(values, files, here=executors.is_here(executors.options()))
        session.prepare(arguments)
        others = sorted(given.keys() - {comparison.KEY})
        if others:
            allowed = f"{comparison.KEY} alone, because a comparison builds no run"
            raise errors.invalid_value(others[0], given[others[0]], allowed)
        return comparison.chosen(given[comparison.KEY], session.RESULTS)
    except errors.ConfigError as error:
        # Not WorkflowError, because Snakemake would add lines about its own files.
        sys.exit(f"sqrtdk: {error}")
    except OSError as error:
        sys.exit(disk.explain_os_error(str(error)) or f"sqrtdk: {error}")
