"""The lock of a results folder: one run at a time, and no dead one."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from sqrtdk import lock


def held_elsewhere(folder: Path) -> subprocess.Popen[str]:
    """Another process that holds the folder's lock until its input ends."""
    program = "import sys; from pathlib import Path; from sqrtdk import lock; "
    program += "kept = lock.take(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(folder)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_run_is_refused_until_the_first_is_dead(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as other:
        with pytest.raises(lock.LockedError, match=f"process {other.pid}"):
            lock.take(tmp_path)
        other.kill()
        other.wait()
    kept = lock.take(tmp_path)
    assert kept is not None
    kept.close()


@pytest.fixture
def no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that has no locks."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)


@pytest.mark.usefixtures("no_locks")
def test_without_locks_a_file_that_names_the_process_serves(tmp_path: Path) -> None:
    assert lock.take(tmp_path) is None
    holder = (tmp_path / ".lock.held").read_text(encoding="utf-8")
    assert holder == f"{socket.gethostname()} {os.getpid()}\n"
    with pytest.raises(lock.LockedError, match=holder.strip()):
        lock.take(tmp_path)


@pytest.mark.usefixtures("no_locks")
def test_without_locks_a_dead_process_of_this_machine_holds_nothing(tmp_path: Path) -> None:
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"],
                          capture_output=True, text=True, check=True).stdout  # fmt: skip
    path = tmp_path / ".lock.held"
    path.write_text(f"{socket.gethostname()} {dead}", encoding="utf-8")
    lock.take(tmp_path)
    assert path.read_text(encoding="utf-8").split()[1] == str(os.getpid())
    assert [file.name for file in tmp_path.iterdir() if file.name != ".lock"] == [".lock.held"]


@pytest.mark.usefixtures("no_locks")
@pytest.mark.parametrize("holder", ["another-machine 1", "nonsense", ""])
def test_without_locks_what_may_be_alive_is_left_alone(tmp_path: Path, holder: str) -> None:
    path = tmp_path / ".lock.held"
    path.write_text(holder, encoding="utf-8")
    with pytest.raises(lock.LockedError, match=r"\.lock\.held"):
        lock.take(tmp_path)
    assert path.read_text(encoding="utf-8") == holder


@pytest.mark.usefixtures("no_locks")
@pytest.mark.parametrize("holder", ["another-machine 1", "", f"{socket.gethostname()} 1"])
def test_without_locks_what_gives_no_sign_of_life_holds_nothing(
    tmp_path: Path, holder: str
) -> None:
    path = tmp_path / ".lock.held"
    path.write_text(holder, encoding="utf-8")
    before = time.time() - lock.SILENCE - 5
    os.utime(path, (before, before))
    lock.take(tmp_path)
    assert path.read_text(encoding="utf-8") == f"{socket.gethostname()} {os.getpid()}\n"


class FullDisk:
    """In place of an open file, one that cannot be written to."""

    def __enter__(self) -> FullDisk:
        return self

    def __exit__(self, *_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def write(self, _: str) -> None:
        """Into the buffer."""


@pytest.mark.usefixtures("no_locks")
def test_without_locks_a_full_disk_leaves_no_lock_of_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / ".lock.held"

    def full(path: Path, mode: str, **_: str) -> FullDisk:
        path.touch()
        return FullDisk()

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(OSError, match="No space left"):
        lock._take_by_name(path)
    assert not path.exists()


@pytest.mark.usefixtures("no_locks")
@pytest.mark.parametrize("holder", ["", "another-machine 1"])
def test_without_locks_an_ending_run_releases_its_own_lock_only(
    tmp_path: Path, holder: str
) -> None:
    program = "import fcntl, sys; from pathlib import Path; from sqrtdk import lock; "
    program += "fcntl.flock = lambda *_: (_ for _ in ()).throw(OSError(37, '')); "
    program += "path = Path(sys.argv[1]); lock.take(path); "
    program += "sys.argv[2] and (path / '.lock.held').write_text(sys.argv[2])"
    subprocess.run([sys.executable, "-c", program, str(tmp_path), holder], check=True)
    path = tmp_path / ".lock.held"
    assert (path.read_text(encoding="utf-8") if path.exists() else "") == holder


@pytest.mark.usefixtures("no_locks")
def test_without_locks_a_run_gives_signs_of_life_for_as_long_as_the_lock_is_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "BEAT", 0.01)
    others = set(threading.enumerate())
    lock.take(tmp_path)
    path = tmp_path / ".lock.held"
    (beat,) = set(threading.enumerate()) - others
    failing = iter([OSError(errno.ESTALE, "for once")])
    alive = lock._is_mine

    def for_once(*arguments: Any) -> bool:
        for error in failing:
            raise error
        return alive(*arguments)

    monkeypatch.setattr(lock, "_is_mine", for_once)
    os.utime(path, (0, 0))
    while path.stat().st_mtime == 0:
        time.sleep(0.01)
    path.write_text("another-machine 1", encoding="utf-8")
    beat.join(timeout=10)
    assert not beat.is_alive()


def test_a_folder_that_cannot_be_written_to_is_an_error_of_its_own(tmp_path: Path) -> None:
    (tmp_path / ".lock").mkdir()
    with pytest.raises(OSError, match="Is a directory"):
        lock.take(tmp_path)


def test_links_that_lead_out_are_found_and_others_are_not(tmp_path: Path) -> None:
    results, outside = tmp_path / "results", tmp_path / "outside"
    (results / "mine/scaling").mkdir(parents=True)
    outside.mkdir()
    assert lock.links_out(results, [results / "mine", results / "absent"]) is None
    (results / "mine/figures").symlink_to(results / "mine/scaling")
    assert lock.links_out(results, [results / "mine"]) is None
    (results / "mine/related").symlink_to(outside)
    assert lock.links_out(results, [results / "mine"]) == results / "mine/related"
    (results / "mine/related").unlink()
    (results / "mine/scaling/runs.csv").symlink_to(outside / "precious.csv")
    assert lock.links_out(results, [results / "mine"]) == results / "mine/scaling/runs.csv"
    (results / "mine/scaling/runs.csv").unlink()
    (results / "other").symlink_to(outside)
    assert lock.links_out(results, [results / "other"]) == results / "other"
    # The whole folder may be somewhere else: on a larger disk, for example.
    (tmp_path / "link").symlink_to(results)
    assert lock.links_out(tmp_path / "link", [tmp_path / "link/mine"]) is None


def test_a_lock_that_is_a_link_is_refused_and_what_it_leads_to_is_kept(tmp_path: Path) -> None:
    (tmp_path / "precious.csv").write_text("1\n", encoding="utf-8")
    (tmp_path / ".lock").symlink_to(tmp_path / "precious.csv")
    with pytest.raises(OSError, match="symbolic links"):
        lock.take(tmp_path)
    assert (tmp_path / "precious.csv").read_text(encoding="utf-8") == "1\n"
