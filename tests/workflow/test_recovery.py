"""Cleaning up after a killed run: markers of finished shards, and temporary files."""

import base64
from pathlib import Path

import pytest

from sqrtdk.schema import Column
from sqrtdk.storage import atomic, shard_files
from sqrtdk.workflow import recovery

COLUMNS = (Column("seed", "seed", axis=True),)
SHARDS = Path("results/shards")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def marked(path: Path, longest: int = 255) -> Path:
    """Return Snakemake's marker of a file, split like names that are too long."""
    name = base64.urlsafe_b64encode(str(path).encode()).decode()
    parts = [name[at : at + longest] for at in range(0, len(name), longest)]
    marker = recovery.INCOMPLETE.joinpath(*(f"@{part}" for part in parts[:-1]), parts[-1])
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.write_text('{"external_jobid": null}', encoding="utf-8")
    return marker


@pytest.mark.parametrize("longest", [255, 20])
def test_a_whole_shard_is_finished_whatever_snakemake_saw(here: Path, longest: int) -> None:
    path = SHARDS / "scaling/dk4~é.csv"
    shard_files.write_shard(path, {"seeds": [0, 1]}, [{"seed": 0}], COLUMNS)
    marker = marked(path, longest)
    recovery.unmark_finished(SHARDS)
    assert not marker.exists()


def test_what_is_not_a_whole_shard_is_made_again(here: Path) -> None:
    half, absent = SHARDS / "scaling/half.csv", SHARDS / "scaling/absent.csv"
    shard_files.write_shard(half, {"seeds": [0, 1]}, [{"seed": 0}], COLUMNS)
    half.write_bytes(half.read_bytes()[:-9])
    table = Path("results/default/scaling/runs.csv")
    shard_files.write_shard(table, {"seeds": [0, 1]}, [{"seed": 0}], COLUMNS)
    markers = [marked(path) for path in (half, absent, table)]
    other = recovery.INCOMPLETE / "migration_underway"
    other.touch()
    recovery.unmark_finished(SHARDS)
    assert all(marker.exists() for marker in (*markers, other))


def test_without_snakemakes_records_there_is_nothing_to_do(here: Path) -> None:
    recovery.unmark_finished(SHARDS)
    assert not list(here.iterdir())


def test_what_was_being_written_is_swept_and_nothing_else(here: Path) -> None:
    folder = here / "results/default/scaling"
    folder.mkdir(parents=True)
    left = folder / f".runs.csv.x1y2{atomic.PARTIAL}"
    kept = [folder / name for name in (".runs.csv.sha256", "runs.csv", f"mine{atomic.PARTIAL}")]
    for path in (left, *kept):
        path.touch()
    recovery.sweep([here / "results/default", here / "absent"])
    assert not left.exists()
    assert all(path.exists() for path in kept)
