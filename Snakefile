"""From a grid of cells to the report: shards -> runs -> summary -> figures, claims -> report.

`snakemake` builds results/default/; `--config KEY=VALUE` changes the grid (README.md).
The rules are in rules/, by topic; how each file is built is in src/sqrtdk/.
"""

import os
import sys
from pathlib import Path

# The code next to this file, whatever is installed. A wheel carries this file in the package.
SOURCE = Path(workflow.basedir, "src")
if not SOURCE.is_dir():
    SOURCE = Path(workflow.basedir).parent
EXPERIMENTS = os.path.relpath(
    SOURCE / "sqrtdk" / "experiments", Path(workflow.basedir, "rules")
)
sys.path.insert(0, str(SOURCE))

import sqrtdk

if not Path(sqrtdk.__file__).samefile(SOURCE / "sqrtdk" / "__init__.py"):
    # Snakemake has already loaded the log handler, and with it the code of another folder.
    sys.exit(
        f"sqrtdk: this environment has the code of {Path(sqrtdk.__file__).parents[2]}, not of "
        f"{workflow.basedir}; run `python3 run.py`, which uses the code of its own folder"
    )

if workflow.remote_exec:
    # A job of a run on another machine, which needs only the rules for shards.
    from sqrtdk.workflow.node import Node

    flow = Node(sys.argv)
else:
    try:
        from sqrtdk.workflow.code_files import (
            PARTS,
            benchmarks,
            citation,
            code,
            pages,
            workflow_files,
        )
        from sqrtdk.workflow import arguments, comparison, order, patches
        from sqrtdk.workflow.flow import flow_of

        flow = flow_of(config, workflow.configfiles)
    except ModuleNotFoundError as error:
        sys.exit(
            f"sqrtdk: Snakemake's environment does not have the package {error.name}; run "
            "`python3 run.py`, which installs all packages, or create that of environment.yml"
        )

# Workflow sets both variables; in a conda environment, Snakemake removes PYTHONPATH.
shell.prefix("set -euo pipefail; export PYTHONPATH=${{PYTHONPATH:-$SQRTDK_SOURCE}}; ")


wildcard_constraints:
    experiment="|".join(flow.experiments),
    shard="[^/]+",
    points="[^/]+",


if workflow.remote_exec:

    include: "rules/shards.smk"

else:

    onstart:
        flow.begin(workflow)
        patches.start_local_jobs_at_once(workflow)
        patches.arm_one_timer(workflow)
        patches.keep_local_cores(workflow)
        patches.report_every_job(workflow)

    localrules:
        all,

    rule all:
        "The whole run: tables, figures, claims and the report."
        input:
            flow.everything,

    include: "rules/compare.smk"

    # A comparison of runs builds none of them.
    if flow.experiments:

        include: "rules/measure.smk"
        include: "rules/shards.smk"
        include: "rules/tables.smk"
        include: "rules/report.smk"
        include: "rules/export.smk"
        include: "rules/benchmark.smk"

    for experiment in flow.experiments:

        rule:
            name:
                experiment
            input:
                flow.wanted(experiment),
            localrule: True

    # Snakemake ignores the names of rules and profiles that do not exist.
    ignored = arguments.ignored_value(
        sys.argv[1:],
        [rule.name for rule in workflow.rules],
        [workflow.workdir_init, workflow.basedir],
    )
    if ignored:
        sys.exit(f"sqrtdk: {ignored}")
