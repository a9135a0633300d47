"""Change what other packages do and have no setting for.

The logger plugin or the Snakefile applies these patches, so they exist in Snakemake's own process
and nowhere else.
"""

import argparse
import concurrent.futures
import re
import sys
import threading
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from typing import Any, NoReturn

import yte
from snakemake.exceptions import WorkflowError

from sqrtdk.system import errors
from sqrtdk.workflow import arguments

SLURM = "snakemake_executor_plugin_slurm"

NO_SLURM = (
    f"Snakemake's executor for SLURM is not installed; install it: uv sync --extra slurm, or with "
    f"conda {SLURM.replace('_', '-')} of bioconda (docs/scaling.md)"
)


def answer_options_in_one_line() -> None:
    """Make every argparse parser of this process answer a wrong option in one line.

    Snakemake builds its parser after it has loaded its plugins. It answers a wrong option with its
    whole usage, which is longer than a screen, and ends with what is wrong. Upstream issue: none
    found.
    """
    # By name, because type checkers refuse the assignment to a method.
    name = "error"
    setattr(argparse.ArgumentParser, name, _refuse_option)


def read_config_files_as_data() -> None:
    """Make Snakemake read config files without executing Python in them.

    Snakemake passes every config file to yte since its pull request 2269. A file that asks for it
    is then a template, whose expressions are Python; and yte reads any file with a loader that also
    constructs Python objects (issue 57 of yte).
    """
    yte.process_yaml = partial(_read_config, yte.process_yaml)


def start_local_jobs_at_once(workflow: Any) -> None:
    """Lift Snakemake's limit on the jobs that start in a second, for jobs of this machine.

    Whenever its scheduler starts a job or looks for one, the limit arms a timer that makes the
    scheduler look again a second later, and each timer arms the next. In a run of 260 jobs the
    scheduler looked 13,805 times, which took 36 of the run's CPU seconds. There is no value for
    "no limit". Upstream issue: none found.
    """
    # Jobs of a cluster keep the limit, which protects the queue, and so does who typed one.
    typed = any(word.startswith("--max-jobs-per") for word in sys.argv)
    if workflow.local_exec and not typed:
        workflow.scheduler.job_rate_limiter = None


def share_resources(workflow: Any, rules: Mapping[str, str]) -> None:
    """Give rules the resources that `--set-resources` sets for others: `{rule: whose it takes}`.

    A job of several shards has a rule of its own, whose name nobody knows before the run.
    """
    given = workflow.resource_settings._parsed_overwrite_resources
    for name, other in rules.items():
        workflow.get_rule(name).resources.update(given.get(other, {}))


def arm_one_timer(workflow: Any) -> None:
    """Keep Snakemake's scheduler from arming more than one timer at a time for its limit.

    Beside a cluster the limit stays, and each job that ends would start another chain of timers:
    after 500 jobs the scheduler would look for more 500 times a second. Upstream issue: none found.
    """
    scheduler, armed = workflow.scheduler, threading.Event()

    def look_again() -> None:
        armed.clear()
        scheduler._open_jobs.release()

    def arm(delay: int) -> None:
        if not armed.is_set():
            armed.set()
            timer = threading.Timer(delay, look_again)
            timer.daemon = True
            timer.start()

    # The name is Snakemake's.
    scheduler._schedule_reevalutation = arm


def keep_local_cores(workflow: Any) -> None:
    """Make Snakemake keep to `--local-cores`: so many jobs on this machine beside a cluster.

    It reads the option and does not use it: as many tables and figures are made at a time as this
    machine has cores, and five more. Upstream issue: none found.
    """
    executor, cores = workflow.scheduler._local_executor, workflow.resource_settings.local_cores
    if executor is not None and cores:
        executor.pool.shutdown()
        executor.workers = cores
        executor.pool = concurrent.futures.ThreadPoolExecutor(max_workers=cores)


def report_every_job(workflow: Any) -> None:
    """Make Snakemake's scheduler report each finished job, also with `--quiet`.

    The log handler counts the jobs, for the log of the run and for the time that later runs take.
    It prints no progress if that is not wanted.
    """
    workflow.scheduler.print_progress = not workflow.dryrun


def _refuse_option(parser: argparse.ArgumentParser, message: str) -> NoReturn:
    """Exit with one line for an option that Snakemake cannot read."""
    # Snakemake says nothing else about a target that `--quiet` took as its value.
    if "--quiet" in message and (found := arguments.command_error(sys.argv[1:])):
        errors.exit_with(errors.UserError(found))
    # An executor brings its options with it.
    if re.search(r"--slurm-|'slurm'", message) and not find_spec(SLURM):
        errors.exit_with(errors.UserError(NO_SLURM))
    errors.refuse_option(parser, message)


def _read_config(template: Callable[..., Any], file: Any, **options: Any) -> Any:
    """Read a config file without executing Python; leave other uses of yte unchanged."""
    # Not at the top, because `snakemake --version` does not need it.
    from sqrtdk.config import errors as config_errors
    from sqrtdk.config import yaml_reader

    if not options.get("require_use_yte") or isinstance(file, str):
        return template(file, **options)
    try:
        return yaml_reader.read_text(file.read().removeprefix("\ufeff"))
    except (config_errors.ConfigError, UnicodeDecodeError) as error:
        raise WorkflowError(f"sqrtdk: {file.name}: {error}") from None
