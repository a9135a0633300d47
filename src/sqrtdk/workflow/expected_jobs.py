"""What a run is about to do, for the estimate of the time left: Snakemake's jobs and their work."""

import math
import os
import sys
from typing import Any

from sqrtdk.storage.job_files import EXACT
from sqrtdk.workflow import shard_jobs
from sqrtdk.workflow.shard_jobs import ShardJobs
from sqrtdk.workflow.time_left import Job, Place
from sqrtdk.workflow.times import ON_CLUSTER, size_of

CLUSTER_SECONDS = 10.0
"""About how long a job on a cluster takes before it measures and until its end is noticed."""


def of(workflow: Any, shards: ShardJobs) -> dict[int, Job]:
    """Return the jobs that a run will start, by Snakemake's numbers."""
    dag, is_here = workflow.dag, workflow.local_exec
    work = {path: shards.work(path) for path in shards}
    size = size_of(sum(seconds for _, seconds in work.values()))
    found = {}
    for job in dag.needrun_jobs():
        kind, units = _work(job, work, size)
        place = Place.HERE if job.is_local else Place.CLUSTER
        if place is Place.CLUSTER:
            units += CLUSTER_SECONDS
        found[dag.jobid(job)] = Job(
            kind if place is Place.HERE else ON_CLUSTER + kind,
            units,
            frozenset(map(dag.jobid, dag.job_dependencies(job))),
            job.priority,
            # On a cluster, a job takes one place, however many cores it has.
            job.threads if is_here else 1,
            place,
        )
    return found


def _work(job: Any, work: dict[str, tuple[str, float]], size: int) -> tuple[str, float]:
    """Return the kind of a job and its units of work, as `times.py` explains."""
    shards = [work[path] for path in map(str, job.output) if path in work]
    if shards:
        kind = shards[0][0]
        start = 0.0 if kind == EXACT else shard_jobs.START_SECONDS
        return kind, start + sum(seconds for _, seconds in shards)
    found = job.wildcards_dict
    about = [job.rule.name, *(found[name] for name in ("experiment", "table") if name in found)]
    # A rule without a command, such as a target, only has inputs.
    return f"{' '.join(about)}@{size}", 0.0 if job.is_norun else 1.0


def slots(workflow: Any) -> dict[Place, float]:
    """Return how many cores this machine has for jobs, and how many jobs a cluster takes."""
    if workflow.local_exec:
        return {Place.HERE: workflow.cores}
    here = workflow.resource_settings.local_cores or os.cpu_count() or 1
    # Snakemake's word for no limit is the largest number.
    is_limited = isinstance(workflow.nodes, int) and 0 < workflow.nodes < sys.maxsize
    return {Place.HERE: here, Place.CLUSTER: workflow.nodes if is_limited else math.inf}
