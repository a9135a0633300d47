"""The memory that a new process may use."""

from pathlib import Path

import psutil
import pytest

from sqrtdk.system import memory

GIB = 2**30


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Simulate a system without control groups and with far more memory than they allow."""
    monkeypatch.setattr(memory, "GROUPS", tmp_path)
    monkeypatch.setattr(memory, "OWN", tmp_path / "own")
    free = psutil.virtual_memory()._replace(available=1000 * GIB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: free)
    return tmp_path


def group(
    folder: Path, names: tuple[str, str, str], limit: object, usage: int, cached: int
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / names[0]).write_text(f"{limit}\n")
    (folder / names[1]).write_text(f"{usage}\n")
    (folder / "memory.stat").write_text(f"anon 1\n{names[2]} {cached}\n")


def test_without_groups_it_is_what_the_machine_has_free(groups: Path) -> None:
    assert memory.free_memory() == 1000 * GIB


def test_the_tightest_limit_above_holds(groups: Path) -> None:
    (groups / "own").write_text("0::/user/job/step\n")
    group(groups / "user", memory.V2, 8 * GIB, 3 * GIB, 0)
    group(groups / "user/job", memory.V2, 4 * GIB, 3 * GIB, GIB)
    group(groups / "user/job/step", memory.V2, "max", 3 * GIB, 0)
    assert memory.free_memory() == 2 * GIB
    group(groups / "user/job/step", memory.V2, GIB, 3 * GIB, 0)
    assert memory.free_memory() == 0


def test_the_older_layout_has_a_tree_for_memory(groups: Path) -> None:
    (groups / "own").write_text("4:cpu,cpuacct:/other\n3:memory:/job\n0::/\n")
    group(groups / "memory/job", memory.V1, 5 * GIB, 2 * GIB, 0)
    group(groups / "other", memory.V2, GIB, 0, 0)
    assert memory.free_memory() == 3 * GIB


def test_what_a_machine_does_not_show_limits_nothing(groups: Path) -> None:
    (groups / "own").write_text("0::/job\n")
    (groups / "job").mkdir()
    (groups / "job/memory.max").write_text(f"{GIB}\n")
    assert memory.free_memory() == 1000 * GIB


def test_in_a_container_the_names_may_begin_outside_of_it(groups: Path) -> None:
    (groups / "own").write_text("0::/docker/1234\n")
    group(groups, memory.V2, 2 * GIB, GIB, 0)
    assert memory.free_memory() == GIB
