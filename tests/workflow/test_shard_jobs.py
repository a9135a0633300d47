"""The jobs that make shards: planned once, by the process that starts the run."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sqrtdk.config import errors
from sqrtdk.experiments import cells
from sqrtdk.experiments.base import Experiment
from sqrtdk.experiments.scaling import measure
from sqrtdk.jobs import shards as shards_job
from sqrtdk.schema import Slab
from sqrtdk.storage import code_digest, job_files, planning, shard_files
from sqrtdk.system import memory
from sqrtdk.system.errors import UserError
from sqrtdk.workflow import request, shard_jobs

MIB = 2**20


def slab(d_k: int, *seeds: int, **rules: dict[str, Any]) -> Slab:
    return {
        "d_k": d_k, "n_k": 3, "n_q": 2, "d_v": 2, "dtype": "float64",
        "inputs": {"gaussian": {"law": "gaussian"}},
        "scaling": rules or {"off": {"rule": "constant", "value": 1}},
        "seeds": list(seeds), "code": "",
    }  # fmt: skip


@pytest.fixture
def mine(monkeypatch: pytest.MonkeyPatch) -> None:
    """An experiment whose slabs say themselves what they need."""
    known = SimpleNamespace(
        memory=lambda slab: slab["bytes"],
        seconds=lambda slab: slab["each"],
        measured_by=measure.__name__,
    )
    monkeypatch.setitem(shard_jobs.EXPERIMENTS, "mine", cast(Experiment, known))


def jobs_of(needs: list[tuple[int, float]], minutes: float | None, missing: Any = None) -> Any:
    """Return the jobs of slabs that need these bytes and these seconds."""
    found = {
        f"results/shards/mine/{n}.csv": shard_jobs.Shard(
            "mine", {"bytes": size, "each": each / 2, "seeds": [0, 2]}
        )
        for n, (size, each) in enumerate(needs)
    }
    return shard_jobs.ShardJobs(
        found, found if missing is None else missing, free=1000, minutes=minutes
    )


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize(("need", "cores", "occupied"), [(10, 8, 1), (300, 8, 3), (300, None, 1)])
def test_a_job_occupies_the_cores_of_its_share_of_the_memory(
    need: int, cores: int | None, occupied: int
) -> None:
    # Of 1000 bytes: 300 on 8 cores are 2.4 cores, so that at most 2 more jobs of 3 cores fit.
    (path,) = (jobs := jobs_of([(need, 1.0)], None))._shards
    assert jobs.threads(path, cores) == occupied
    # On a cluster the memory is asked for, whatever the login node has.
    assert jobs_of([(need, 1.0)], 10).threads(path, cores) == 1


@pytest.mark.usefixtures("mine")
def test_jobs_of_a_cluster_have_all_missing_shards_once_and_last_about_as_long_as_asked() -> None:
    needs = [(0, 25.0)] * 9 + [(0, 200.0)]
    paths = list(jobs_of(needs, None)._shards)
    batches = [job.outputs for job in jobs_of(needs, 1, paths[1:]).batches]
    # A minute has room for two of 25 s; one of 200 s is a job of its own.
    assert [len(batch) for batch in batches] == [2, 2, 2, 2, 1]
    assert [path for batch in batches for path in batch] == paths[1:]
    assert [job.outputs for job in jobs_of(needs[:2], 0).batches] == [[paths[0]], [paths[1]]]
    assert jobs_of(needs, None).batches == []
    assert max(len(job.outputs) for job in jobs_of([(0, 0.0)] * 1100, 10).batches) == 500


@pytest.mark.usefixtures("mine")
def test_a_large_slab_does_not_reserve_its_memory_for_the_time_of_small_ones() -> None:
    small, large = (100 * MIB, 1.0), (10_000 * MIB, 1.0)
    batches = jobs_of([small, large, small, large], 10).batches
    assert [len(job.outputs) for job in batches] == [2, 2]
    first, second = (job.mem_mb(None, 1) for job in batches)
    assert (first, second) == (500 + 125, 500 + 12_500)


@pytest.mark.usefixtures("mine")
def test_memory_and_time_double_at_each_attempt() -> None:
    (job,) = jobs_of([(100 * MIB, 119.5)], 10).batches
    assert [job.mem_mb(None, attempt) for attempt in (1, 2, 3)] == [625, 1250, 2500]
    # 2 minutes of a node four times slower, and 2 to start.
    assert [job.runtime(None, attempt) for attempt in (1, 2, 3)] == [10, 20, 40]


def write_job(tmp_path: Path, slabs: list[Slab], *, is_remote: bool = False) -> list[str]:
    """Write the job file of some slabs of `scaling`, and return the paths of their shards."""
    files = job_files.files_of(measure.__name__)
    shards = {
        str(tmp_path / planning.file_name(one, measure.COLUMNS)): cast(dict[str, Any], one)
        for one in slabs
    }
    job = job_files.Job(
        "scaling", shards, measure.__name__, files, job_files.bytes_digest(files),
        is_remote=is_remote,
    )  # fmt: skip
    job_files.write(job)
    return list(shards)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(monkeypatch: pytest.MonkeyPatch, paths: list[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["shards", *paths])
    shards_job.main()


def test_a_job_measures_what_was_planned_whatever_is_on_the_disk(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, both = slab(4, 0, 2), slab(5, 2, 3)
    paths = write_job(here, [one, both])
    # Since it was planned, another job has written cells that are part of it.
    known = slab(4, 0, 1)
    other = here / planning.file_name(known, measure.COLUMNS)
    shard_files.write_shard(other, cast(dict[str, Any], known), [], measure.COLUMNS)
    run(monkeypatch, paths)
    assert [shard_files.read_slab(Path(path)) for path in paths] == [one, both]
    assert [len(shard_files.read_shard(Path(path), measure.COLUMNS)) for path in paths] == [2, 1]
    assert not list(here.glob(".*.done"))


def test_the_next_attempt_of_a_job_measures_only_what_failed(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = write_job(here, [slab(4, 0, 2), slab(5, 0, 1), slab(6, 0, 3)])
    measured: list[int] = []
    true = cells.measure_cells

    def failing(found: Any, columns: Any, one: Any) -> Any:
        measured.append(one["d_k"])
        rows = true(found, columns, one)
        if len(measured) == 2:
            raise cells.FailedCells(["d_k=5: an error"], 1)
        return rows

    monkeypatch.setattr(cells, "measure_cells", failing)
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, paths)
    # Of all 6 cells of the job, one.
    assert str(ended.value) == "sqrtdk: 1 of 6 cells failed:\nd_k=5: an error"
    # Snakemake deletes the outputs of a failed job, so there is none.
    assert not any(Path(path).exists() for path in paths)
    run(monkeypatch, paths)
    assert measured == [4, 5, 6, 5]
    assert all(shard_files.is_valid_shard(Path(path)) for path in paths)


def test_a_job_refuses_code_that_is_not_that_of_its_run(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = write_job(here, [slab(4, 0, 1)])
    monkeypatch.setattr(job_files, "bytes_digest", lambda files: "other bytes")
    monkeypatch.setattr(code_digest, "measured_digest", lambda module: "other code")
    with pytest.raises(UserError, match=r"scaling.measure has changed since .* run the same"):
        run(monkeypatch, paths)
    # A comment was edited.
    monkeypatch.setattr(code_digest, "measured_digest", lambda module: "")
    run(monkeypatch, paths)
    assert shard_files.is_valid_shard(Path(paths[0]))


def test_a_job_on_a_node_names_the_slabs_that_its_memory_is_too_small_for(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need = measure.memory(slab(4, 0, 1))
    monkeypatch.setattr(memory, "free_memory", lambda: need)
    slabs = [slab(4, 0, 1), slab(10**6, 0, 1)]
    paths = write_job(here, slabs, is_remote=True)
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, paths)
    first, *others = str(ended.value).splitlines()
    assert first == "sqrtdk: 1 of 2 cells failed:"
    (line,) = others
    assert line.startswith("d_k=1000000 ")
    assert line.endswith(" GiB are free for this job")


def test_a_job_without_its_file_says_what_writes_it(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match="the process that starts a run writes it"):
        run(monkeypatch, ["results/shards/scaling/x.csv"])


def test_the_snakefile_of_a_node_loads_neither_configuration_nor_experiments() -> None:
    program = (
        "import sys, sqrtdk.workflow.node\n"
        "print(*(name for name in sys.modules if name.startswith(('hydra', 'sqrtdk.'))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = done.stdout.split()
    assert "sqrtdk.workflow.node" in loaded
    others = ("hydra", "sqrtdk.config", "sqrtdk.experiments", "sqrtdk.storage.planning")
    assert not [name for name in loaded if name.startswith(others)]


@pytest.mark.parametrize("value", [-1, "ten", True, 10_001, None])
def test_the_duration_of_jobs_is_a_number_of_minutes(value: object) -> None:
    with pytest.raises(errors.ConfigError, match=r"job_minutes: .* allowed: minutes from 0"):
        request.job_minutes({"job_minutes": value}, here=False)
    assert request.job_minutes({}, here=False) == 10
    assert request.job_minutes({"job_minutes": 0.5}, here=False) == 0.5
