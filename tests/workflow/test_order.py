"""Which jobs start first, and how Snakemake's scheduler waits."""

import sys
from types import SimpleNamespace

import pytest

from sqrtdk.workflow import order, patches


def test_the_experiment_with_the_least_work_comes_first_and_its_longest_shard() -> None:
    found = order.priorities(
        {
            "long": {"a": 50.0, "b": 20.0},
            "short": {"c": 1.0, "d": 3.0},
            "middle": {"e": 4.0, "f": 4.5},
        }
    )
    assert sorted(found, key=found.__getitem__, reverse=True) == ["d", "c", "f", "e", "a", "b"]


def test_a_shard_of_two_experiments_comes_with_the_first_of_them() -> None:
    found = order.priorities({"long": {"a": 50.0, "s": 3.0}, "short": {"b": 1.0, "s": 3.0}})
    assert found["s"] > found["b"] > found["a"]


def test_tables_and_figures_come_before_shards_however_long() -> None:
    found = order.priorities({str(n): {str(n): 1e9 * n} for n in range(100)})
    assert all(0 < priority < order.TABLES for priority in found.values())


@pytest.mark.parametrize(
    ("local", "words", "limited"),
    [(True, [], False), (False, [], True), (True, ["--max-jobs-per-timespan", "9/1s"], True)],
)
def test_only_local_jobs_without_a_limit_of_the_user_start_at_once(
    local: bool, words: list[str], limited: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["snakemake", *words])
    limiter = object()
    workflow = SimpleNamespace(
        local_exec=local, scheduler=SimpleNamespace(job_rate_limiter=limiter)
    )
    patches.start_local_jobs_at_once(workflow)
    assert workflow.scheduler.job_rate_limiter is (limiter if limited else None)


@pytest.mark.parametrize("dryrun", [True, False])
def test_the_scheduler_reports_each_job_that_it_runs_also_with_quiet(dryrun: bool) -> None:
    workflow = SimpleNamespace(dryrun=dryrun, scheduler=SimpleNamespace(print_progress=False))
    patches.report_every_job(workflow)
    assert workflow.scheduler.print_progress is not dryrun
