"""Describe the run for the Snakefile: its shards, and what each rule depends on."""

import atexit
import hashlib
import os
import sys
from collections.abc import Sequence
from os.path import exists
from pathlib import Path
from typing import Any, TextIO

from snakemake.exceptions import WorkflowError

from sqrtdk.config import errors
from sqrtdk.experiments.base import Table
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.jobs import exact_curves, merge
from sqrtdk.schema import Document, Settings
from sqrtdk.storage import atomic, checked, code_digest, guards, job_files, shard_files
from sqrtdk.storage.job_files import EXACT
from sqrtdk.system import disk, memory, stdio
from sqrtdk.system.errors import UserError
from sqrtdk.theory import points as theory_points
from sqrtdk.workflow import (
    comparison,
    executors,
    expected_jobs,
    forks,
    order,
    progress,
    recovery,
    session,
    shard_jobs,
    submissions,
)
from sqrtdk.workflow.arguments import wrong_value
from sqrtdk.workflow.code_files import PARTS, STATE, benchmarks, code, modules_of
from sqrtdk.workflow.request import compose, job_minutes
from sqrtdk.workflow.session import RESULTS

SHARDS = RESULTS / "shards"


class Workflow:
    """One run, as described by Snakemake's `config`. Bad input raises WorkflowError.

    Its cells are measured on this machine, or not `here` but by jobs on a cluster.
    """

    def __init__(self, values: Document, files: Sequence[Path] = (), *, here: bool = True) -> None:
        arguments = sys.argv[1:]
        session.prepare(arguments)
        try:
            if "" in arguments:
                raise errors.ConfigError("'' is an empty word; allowed: targets and options")
            if found := wrong_value(arguments):
                raise errors.ConfigError(found)
            with checked.remembered(STATE / "checked.json"):
                recovery.unmark_finished(SHARDS)
                minutes = job_minutes(values, files, arguments, here=here)
                self.run = compose(values, files, arguments, here=here)
                for note in self.run.notes:
                    stdio.warn(note)
                self.plans = {
                    name: merge.plan_of(self.run, name, SHARDS / name) for name in self.run.settings
                }
                self.exact = {
                    name: exact_shards(name, settings)
                    for name, settings in self.run.settings.items()
                }
                self.name = self.run.name
                self.folder = RESULTS / self.name
                self._changed = self._check_what_is_there(files)
        except UserError as error:
            # Not WorkflowError, because Snakemake would add lines about its own files.
            sys.exit(f"sqrtdk: {error}")
        except OSError as error:
            # A shard that cannot be read.
            sys.exit(disk.explain_os_error(str(error)) or f"sqrtdk: {error}")
        self.experiments = list(self.run.settings)
        self._lock: TextIO | None = None
        self._here = here
        shards = shard_jobs.shards_of(self.plans, self.exact)
        missing = {str(path) for plan in self.plans.values() for path in plan.missing}
        missing |= {path for specs in self.exact.values() for path in specs if not exists(path)}
        # Memory is measured once, so that the memory of the run's own jobs does not count again.
        self.shards = shard_jobs.ShardJobs(
            shards, missing, free=memory.free_memory(), minutes=minutes
        )
        self._write_code_files()
        # At the end, when the rules have asked for all code files.
        atexit.register(code_digest.keep_parsed)
        self._pass_state()
        self._priorities = order.priorities(
            {
                name: {
                    path: shard_jobs.seconds(*shards[path])
                    for path in (*self.measured(name), *self.expected(name))
                }
                for name in self.experiments
            }
        )

    def _check_what_is_there(self, files: Sequence[Path]) -> list[Path]:
        """Name damaged shards whose cells will be computed again, and return changed files."""
        damaged = {path for plan in self.plans.values() if plan.missing for path in plan.damaged}
        expected = {Path(path) for specs in self.exact.values() for path in specs}
        first = {path: path.with_name(shard_files.first_name(path)) for path in expected}
        damaged |= {first[at] for at in expected if first[at] != at and not at.exists()}
        for path in sorted(damaged):
            note = "is damaged; its cells are computed again, into another file"
            print(f"sqrtdk: {path} {note}", file=sys.stderr)
        # A configuration that was edited and is passed with --configfile is not damage.
        given = {file.resolve() for file in files}
        changed = [path for path in guards.changed(self.folder) if path.resolve() not in given]
        for path in changed:
            print(f"sqrtdk: {path} {guards.CHANGED}", file=sys.stderr)
        return changed

    @property
    def request(self) -> str:
        """Return the requested configuration as a file.

        It is newer than config.yaml exactly if they differ. So Snakemake notices a changed grid
        from its time stamp alone, even if Snakemake's records are lost, and nothing under results/
        changes before a job runs.
        """
        text = self.run.to_yaml()
        path = STATE / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.yaml"
        resolved = self.folder / "config.yaml"
        same = resolved.is_file() and resolved.read_bytes() == text.encode()
        if not path.is_file() or not same:
            atomic.write_atomically(path, text)
        if same:
            os.utime(path, (0, 0))
        return str(path)

    def measured(self, experiment: str) -> list[str]:
        """Return the shards that hold an experiment's cells."""
        return [str(path) for path in self.plans[experiment].shards]

    def expected(self, experiment: str) -> list[str]:
        """Return the shards that hold an experiment's exact expectations."""
        return list(self.exact[experiment])

    def _pass_state(self) -> None:
        refusal = self._refusal() if self._changed else None
        others = ("verify", "compare", "figures_paper", "showcase", "benchmark")
        targets = ("all", *self.experiments, *others)
        progress.pass_state(targets, refusal)

    def _refusal(self) -> str:
        return f"sqrtdk: {guards.refusal(self._changed[0])}"

    @property
    def comparison(self) -> comparison.Absent:
        """Return the comparison, which this command has not asked for."""
        return comparison.Absent(RESULTS)

    @property
    def everything(self) -> list[str]:
        """Return the files of the whole run: tables, figures, claims and the report."""
        own = ("report.html", "config.yaml", "claims.csv", "questions.csv", "provenance.json")
        return [
            *(f"{self.folder}/{file}" for file in own),
            *self.exports,
            *(file for experiment in self.experiments for file in self.files(experiment)),
        ]

    @property
    def exports(self) -> list[str]:
        """Return the files that describe the run elsewhere."""
        names = ("report.md", "ro-crate-metadata.json", "codemeta.json")
        return [f"{self.folder}/{name}" for name in names]

    def table(self, experiment: str, name: str) -> str:
        """Return the path of a table."""
        return f"{self.folder}/{experiment}/{name}.csv"

    def tables(self, experiment: str) -> list[str]:
        """Return the tables that an experiment's figures are drawn from."""
        return [self.table(experiment, name) for name in EXPERIMENTS[experiment].drawn_from]

    def summaries(self) -> list[str]:
        """Return the summary tables of the run."""
        sampled = [name for name in self.experiments if EXPERIMENTS[name].summarised]
        return [self.table(name, "summary") for name in sampled]

    @property
    def derived(self) -> str:
        """Return a pattern of the names of the run's derived tables."""
        names = {one.name for x in self.experiments for one in EXPERIMENTS[x].tables}
        return "|".join(sorted(names)) or "-"

    def _derived(self, wildcards: Any) -> Table:
        try:
            return EXPERIMENTS[wildcards.experiment].table(wildcards.table)
        except KeyError:
            path = self.table(wildcards.experiment, wildcards.table)
            raise WorkflowError(f"sqrtdk: {path} is not a table of this project") from None

    def needed(self, wildcards: Any) -> list[str]:
        """Return the tables that a derived table is made from."""
        return [self.table(wildcards.experiment, one) for one in self._derived(wildcards).needs]

    def wanted(self, experiment: str) -> list[str]:
        """Return the files of the target with an experiment's name, and its companions' files."""
        belong = [x for x in self.experiments if EXPERIMENTS[x].companion_of == experiment]
        return [file for name in (experiment, *belong) for file in self.files(name)]

    def files(self, experiment: str) -> list[str]:
        """Return every file of an experiment, so that deleted files are made again."""
        known, figures = EXPERIMENTS[experiment], self.figures(experiment)
        names = dict.fromkeys(
            (
                "runs",
                *known.drawn_from,
                *known.judged_by,
                *(one.name for one in known.tables),
            )
        )
        return [
            *(self.table(experiment, name) for name in names),
            *figures,
            *(str(Path(figure).with_suffix(".png")) for figure in figures),
            *self.measured(experiment),
            *self.expected(experiment),
        ]

    def priority(self, *paths: str) -> float:
        """Return the priority of the job that makes some shards.

        Raises WorkflowError for a file that is none; Snakemake asks before any job starts.
        """
        for path in paths:
            self.shards.slab(path)
        return max(self._priorities[path] for path in paths)

    def judging(self) -> list[str]:
        """Return the run's tables that the claims need."""
        others = [
            self.table(name, table)
            for name in self.experiments
            for table in EXPERIMENTS[name].judged_by
            if table != "summary"
        ]
        return [*self.summaries(), *others]

    def answering(self) -> list[str]:
        """Return the run's tables that answers to questions need."""
        # The questions are not loaded, because they need pandas, which would slow every start.
        names = {
            name: (
                *(EXPERIMENTS[name].judged_by if modules_of(name, "questions") else ()),
                *(self._asked_tables(name) if modules_of(name, "asked") else ()),
            )
            for name in self.experiments
        }
        return [self.table(name, x) for name, some in names.items() for x in dict.fromkeys(some)]

    def _asked_tables(self, name: str) -> list[str]:
        """Return the tables that answers beyond the chapter may be read from."""
        one = EXPERIMENTS[name]
        summary = ["summary"] if one.summarised else []
        return [*summary, *(table.name for table in one.tables)] if one.research else []

    def verified(self) -> list[str]:
        """Return the run's tables that have a reference, and the references."""
        known = [name for name in self.experiments if EXPERIMENTS[name].reference]
        files = [os.path.relpath(EXPERIMENTS[name].reference_file) for name in known]
        return [*(self.table(name, "runs") for name in known), *files]

    def figures(self, experiment: str) -> list[str]:
        """Return the SVG files of an experiment's figures."""
        names = [one.name for one in EXPERIMENTS[experiment].figures]
        return [f"{self.folder}/figures/{experiment}-{what}.svg" for what in names]

    @property
    def drawn(self) -> list[str]:
        """Return the experiments of the run that have figures."""
        return [name for name in self.experiments if EXPERIMENTS[name].figures]

    def code(self, job: str, experiment: str) -> str:
        """Return the code file of a job of one experiment."""
        return code(f"sqrtdk.jobs.{job}", *modules_of(experiment, "experiment"))

    def derived_code(self, wildcards: Any) -> str:
        """Return the code file of the job of a derived table."""
        return self._derived_code(wildcards.experiment, self._derived(wildcards))

    def _derived_code(self, experiment: str, table: Table) -> str:
        return code("sqrtdk.jobs.derive", *modules_of(experiment, "experiment", table.module))

    def _write_code_files(self) -> None:
        """Write the code files that rules ask for job by job.

        Snakemake lists a folder once, when it first looks into it, and takes a file that is
        written there later for missing.
        """
        for experiment in self.experiments:
            for job in ("merge", "contrasts", "exact_curves", "summarize"):
                self.code(job, experiment)
            for table in EXPERIMENTS[experiment].tables:
                self._derived_code(experiment, table)
        for part in PARTS:
            benchmarks(part)

    def paper(self, experiment: str) -> list[str]:
        """Return an experiment's figures for a paper and for slides."""
        stems = [Path(figure).stem for figure in self.figures(experiment)]
        return [f"{self.folder}/paper/{stem}.{end}" for stem in stems for end in ("pdf", "png")]

    def drawing_code(self, experiment: str, job: str = "draw") -> str:
        """Return the code file of a job that draws an experiment's figures."""
        tables = [one.module for one in EXPERIMENTS[experiment].tables]
        return code(f"sqrtdk.jobs.{job}", *modules_of(experiment, "experiment", "figures", *tables))

    def common_code(self, job: str, *roles: str) -> str:
        """Return the code file of a job that uses the modules `roles` of every experiment."""
        return code(f"sqrtdk.jobs.{job}", *self._all_modules(*roles))

    def prose(self) -> list[str]:
        """Return the source files of the report, which prints their docstrings."""
        modules = (
            "sqrtdk.report.__main__",
            *self._all_modules("claims", "questions", "pivot", "section", "story", "asked"),
        )
        files = {path for module in modules for path in code_digest.closure(module)}
        return sorted(os.path.relpath(path) for path in files)

    def _all_modules(self, *roles: str) -> list[str]:
        return [
            module
            for name in self.experiments
            for module in modules_of(
                name, "experiment", *roles, *(one.module for one in EXPERIMENTS[name].tables)
            )
        ]

    def begin(self, workflow: Any) -> None:
        """Take the lock of results/, or refuse a second run; write what the jobs need to know."""
        # Do not draw from a changed file, and do not overwrite it: it may be deliberate.
        refusal = self._refusal() if self._changed else None
        self._lock = session.begin(self.folder, (SHARDS, RESULTS / "benchmarks"), refusal)
        self.shards.write(workflow.dag.needrun_jobs())
        job_files.write_list(self.name, self.shards)
        progress.pass_jobs(expected_jobs.of(workflow, self.shards), expected_jobs.slots(workflow))
        forks.use()
        if not self._here:
            submissions.begin(workflow, executors.name_of(executors.options()))


def exact_shards(experiment: str, settings: Settings) -> dict[str, Document]:
    """Return the shards of expectations that an experiment needs: their points, by path."""
    specs = theory_points.specs(place.point for place in exact_curves.points(experiment, settings))
    return {str(shard_files.usable_path(SHARDS / EXACT / name)): specs[name] for name in specs}
