"""The lock of a results folder: one run at a time, and no lock of a dead run."""

from __future__ import annotations

import atexit
import errno
import fcntl
import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import psutil
import pytest

from sqrtdk.storage import guards
from sqrtdk.system import lock


def held_elsewhere(folder: Path) -> subprocess.Popen[str]:
    """Start another process that holds the folder's lock until its input ends."""
    program = "import sys; from pathlib import Path; from sqrtdk.system import lock; "
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


def refusing(number: int) -> Callable[..., None]:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    return refuse


@pytest.fixture
def no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the file system behave as one without flock."""
    monkeypatch.setattr(fcntl, "flock", refusing(errno.ENOLCK))


def held(folder: Path) -> dict[str, str]:
    """Return the lock files of a folder without flock, with their contents."""
    return {path.name: path.read_text(encoding="utf-8") for path in folder.glob(".lock.held.*")}


ME = f"{socket.gethostname()} {os.getpid()}\n"


@pytest.mark.usefixtures("no_locks")
@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL])
def test_without_locks_a_file_that_names_the_process_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(fcntl, "flock", refusing(number))
    assert lock.take(tmp_path) is None
    assert held(tmp_path) == {".lock.held.1": ME}
    with pytest.raises(lock.LockedError, match=rf"{ME.strip()}, by .*\.lock\.held\.1"):
        lock.take(tmp_path)


def test_an_error_that_is_not_about_locks_is_not_taken_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "flock", refusing(errno.EIO))
    with pytest.raises(OSError, match="Input/output error"):
        lock.take(tmp_path)
    assert not held(tmp_path)


@pytest.mark.usefixtures("no_locks")
def test_without_locks_a_dead_process_of_this_machine_holds_nothing(tmp_path: Path) -> None:
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"],
                          capture_output=True, text=True, check=True).stdout  # fmt: skip
    (tmp_path / ".lock.held.3").write_text(f"{socket.gethostname()} {dead}", encoding="utf-8")
    lock.take(tmp_path)
    # The next number; and what killed runs have left is cleared away.
    assert held(tmp_path) == {".lock.held.4": ME}


@pytest.mark.usefixtures("no_locks")
@pytest.mark.parametrize("holder", ["another-machine 1", "nonsense", ""])
def test_without_locks_what_may_be_alive_is_left_alone(tmp_path: Path, holder: str) -> None:
    (tmp_path / ".lock.held.1").write_text(holder, encoding="utf-8")
    with pytest.raises(lock.LockedError, match=r"\.lock\.held\.1"):
        lock.take(tmp_path)
    assert held(tmp_path) == {".lock.held.1": holder}


@pytest.mark.usefixtures("no_locks")
@pytest.mark.parametrize("holder", ["another-machine 1", "", f"{socket.gethostname()} 1"])
def test_without_locks_what_gives_no_sign_of_life_holds_nothing(
    tmp_path: Path, holder: str
) -> None:
    path = tmp_path / ".lock.held.1"
    path.write_text(holder, encoding="utf-8")
    before = time.time() - lock.STALE_S - 5
    os.utime(path, (before, before))
    lock.take(tmp_path)
    assert held(tmp_path) == {".lock.held.2": ME}


@pytest.mark.usefixtures("no_locks")
def test_without_locks_only_names_with_a_plain_number_count(tmp_path: Path) -> None:
    names = [".lock.held.x", ".lock.held.", ".lock.held.01", ".lock.held.-1", ".lock.held.\u0663"]
    for name in names:
        (tmp_path / name).touch()
    lock.take(tmp_path)
    assert held(tmp_path) == dict.fromkeys(names, "") | {".lock.held.1": ME}


@pytest.mark.usefixtures("no_locks")
def test_without_locks_a_full_disk_leaves_no_lock_of_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(lock._Hold, "_write", full)
    with pytest.raises(OSError, match="No space left"):
        lock.take(tmp_path)
    assert not held(tmp_path)


@pytest.mark.usefixtures("no_locks")
@pytest.mark.parametrize("exists", [True, False])
def test_without_locks_a_link_is_refused_and_what_it_leads_to_is_kept(
    tmp_path: Path, exists: bool
) -> None:
    precious = tmp_path / "precious.csv"
    if exists:
        precious.write_text("1\n", encoding="utf-8")
        os.utime(precious, (0, 0))
    (tmp_path / ".lock.held.1").symlink_to(precious)
    with pytest.raises(OSError, match="symbolic links"):
        lock.take(tmp_path)
    assert [path.name for path in tmp_path.glob(".lock.held.*")] == [".lock.held.1"]
    assert precious.exists() == exists
    if exists:
        assert precious.read_text(encoding="utf-8") == "1\n"


@pytest.mark.parametrize("newer", ["", "another-machine 1\n"])
def test_without_locks_an_ending_run_releases_its_own_lock_only(tmp_path: Path, newer: str) -> None:
    program = "import fcntl, sys; from pathlib import Path; from sqrtdk.system import lock; "
    program += "fcntl.flock = lambda *_: (_ for _ in ()).throw(OSError(37, '')); "
    program += "path = Path(sys.argv[1]); lock.take(path); "
    # As after a sleep that others took for its death.
    program += "sys.argv[2] and (path / '.lock.held.2').write_text(sys.argv[2])"
    subprocess.run([sys.executable, "-c", program, str(tmp_path), newer], check=True)
    others = {".lock.held.2": newer} if newer else {}
    assert held(tmp_path) == {".lock.held.1": "released\n"} | others


@pytest.mark.usefixtures("no_locks")
def test_without_locks_a_run_gives_signs_of_life_until_it_releases_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "HEARTBEAT_S", 0.01)
    monkeypatch.setattr(atexit, "register", (registered := []).append)
    others = set(threading.enumerate())
    lock.take(tmp_path)
    path = tmp_path / ".lock.held.1"
    (beat,) = set(threading.enumerate()) - others
    failing = iter([OSError(errno.ESTALE, "for once")])
    touch = os.utime

    def for_once(*arguments: Any) -> None:
        for error in failing:
            raise error
        touch(*arguments)

    monkeypatch.setattr(os, "utime", for_once)
    touch(path, (0, 0))
    # As long as it takes: only a beat that has ended would never touch it.
    while path.stat().st_mtime == 0:
        assert beat.is_alive()
        time.sleep(0.01)
    (release,) = registered
    release()
    beat.join()
    assert held(tmp_path) == {".lock.held.1": "released\n"}
    release.__self__._file.close()


class Players:
    """Runs that take a folder's lock, each paused at chosen lines of lock.py while others run.

    Each has a process number of its own, and only one moves at a time, so that all is repeatable.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.alive: set[int] = set()
        self.holds: dict[int, lock._Hold] = {}
        self.at_work = 0
        monkeypatch.setattr(os, "getpid", lambda: self.at_work)
        monkeypatch.setattr(psutil, "pid_exists", lambda pid: pid in self.alive)

    def take(self, pid: int) -> None:
        """Let a run take the lock, or be refused and end."""
        self.alive.add(pid)
        before, self.at_work = self.at_work, pid
        try:
            self.holds[pid] = lock._take_next(self.folder)
        except lock.LockedError:
            self.alive.remove(pid)
        finally:
            self.at_work = before

    def take_slowly(self, pid: int, pauses: dict[int, Callable[[], object]]) -> int:
        """Do the same with a pause after some lines; return how many lines were executed."""
        n_lines = 0

        def trace(frame: FrameType, event: str, _: object) -> Any:
            nonlocal n_lines
            if frame.f_code not in (lock._take_next.__code__, lock._Hold.__init__.__code__):
                return None
            if event == "line":
                n_lines += 1
                pauses.get(n_lines, lambda: None)()
            return trace

        others = sys.gettrace()
        sys.settrace(trace)
        try:
            self.take(pid)
        finally:
            sys.settrace(others)
        return n_lines

    def kill(self, pid: int) -> None:
        self.alive.discard(pid)
        if hold := self.holds.pop(pid, None):
            hold._file.close()

    def release(self, pid: int) -> None:
        if hold := self.holds.get(pid):
            hold.release()
        self.kill(pid)


D, A, B, C = 11, 12, 13, 14
ENDS: dict[str, Callable[[Players, int], None]] = {
    "goes on": lambda *_: None,
    "is killed": Players.kill,
    "ends": Players.release,
}


@pytest.fixture
def players(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Players]]:
    """Function: runs beside the lock of a dead owner D, always in the same emptied folder."""
    (tmp_path / ".lock").touch()
    made = Players(tmp_path, monkeypatch)

    def anew() -> Players:
        for pid in list(made.holds):
            made.kill(pid)
        for path in tmp_path.glob(".lock.held.*"):
            path.unlink()
        made.alive.clear()
        made.take(D)
        made.kill(D)
        return made

    yield anew
    anew()


@pytest.mark.parametrize("end", ENDS)
def test_without_locks_one_run_takes_over_wherever_it_is_interrupted(
    players: Callable[[], Players], end: str
) -> None:
    # A finds D dead. Wherever A is then, B takes the lock over and goes on, is killed or ends;
    # wherever A is later, C comes. If A moved B's file away and back, B and C would both hold it.
    first, n_lines = 0, 1
    while (first := first + 1) <= n_lines:
        second = first - 1
        while (second := second + 1) <= n_lines:
            run = players()

            def pause(
                line: int, run: Players = run, first: int = first, last: int = second
            ) -> None:
                if line == first:
                    run.take(B)
                    ENDS[end](run, B)
                if line == last:
                    run.take(C)

            n_lines = run.take_slowly(A, {line: partial(pause, line) for line in (first, second)})
            assert len(run.holds) == 1, (first, second, run.holds)
    assert first > 10


@pytest.mark.parametrize("end", ENDS)
def test_without_locks_one_run_takes_over_where_three_interrupt_each_other(
    players: Callable[[], Players], end: str
) -> None:
    # A is interrupted by B, which is interrupted by C; C goes on, is killed or ends.
    first, n_lines = 0, 1
    while (first := first + 1) <= n_lines:
        second, n_lines_of_b = 0, 1
        while (second := second + 1) <= n_lines_of_b:
            run = players()

            def c_comes(run: Players = run) -> None:
                run.take(C)
                ENDS[end](run, C)

            def b_comes(run: Players = run, second: int = second, then: Any = c_comes) -> None:
                nonlocal n_lines_of_b
                # A function that traces is not traced itself, except in another thread.
                with ThreadPoolExecutor(1) as other:
                    n_lines_of_b = other.submit(run.take_slowly, B, {second: then}).result()

            n_lines = run.take_slowly(A, {first: b_comes})
            assert len(run.holds) <= 1, (first, second, run.holds)
    assert first > 10


RACE = """
import errno, fcntl, os, random, signal, sys, time
from pathlib import Path
from sqrtdk.system import lock

def refuse(*_):
    raise OSError(errno.ENOLCK, "")

fcntl.flock = refuse
folder, seed = Path(sys.argv[1]), int(sys.argv[2])
inside = os.open(folder / "inside", os.O_RDWR | os.O_CREAT)

def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True

def run(rng):
    try:
        hold = lock._take_next(folder)
    except lock.LockedError:
        return
    other = int(os.pread(inside, 20, 0) or 0)
    if other and alive(other):
        print(f"{other} and {os.getpid()} hold the lock", flush=True)
    os.pwrite(inside, b"%20d" % os.getpid(), 0)
    print("held", flush=True)
    time.sleep(rng.uniform(0, 0.002))
    end = rng.randrange(3)
    if end == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    os.pwrite(inside, b"%20d" % 0, 0)
    if end == 1:
        hold.release()

(folder / ".lock").touch()
for worker in range(6):
    if os.fork() == 0:
        rng = random.Random(seed + worker)
        for trial in range(60):
            pid = os.fork()
            if pid == 0:
                run(random.Random(rng.random()))
                os._exit(0)
            os.waitpid(pid, 0)
        os._exit(0)
for worker in range(6):
    os.wait()
"""


def test_without_locks_of_many_runs_that_are_killed_and_end_one_holds_the_lock(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-c", RACE, str(tmp_path), str(random.randrange(10**6))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    said = done.stdout.splitlines()
    # 6 workers try 60 times each; how many of the 360 meet a holder is up to the machine.
    assert set(said) == {"held"}, (command[-1], said)
    assert not done.stderr


def test_a_folder_that_cannot_be_written_to_is_an_error_of_its_own(tmp_path: Path) -> None:
    (tmp_path / ".lock").mkdir()
    with pytest.raises(OSError, match="Is a directory"):
        lock.take(tmp_path)


def test_links_that_lead_out_are_found_and_others_are_not(tmp_path: Path) -> None:
    results, outside = tmp_path / "results", tmp_path / "outside"
    (results / "mine/scaling").mkdir(parents=True)
    outside.mkdir()
    assert guards.escaping_symlink(results, [results / "mine", results / "absent"]) is None
    (results / "mine/figures").symlink_to(results / "mine/scaling")
    assert guards.escaping_symlink(results, [results / "mine"]) is None
    (results / "mine/related").symlink_to(outside)
    assert guards.escaping_symlink(results, [results / "mine"]) == results / "mine/related"
    (results / "mine/related").unlink()
    (results / "mine/scaling/runs.csv").symlink_to(outside / "precious.csv")
    assert guards.escaping_symlink(results, [results / "mine"]) == results / "mine/scaling/runs.csv"
    (results / "mine/scaling/runs.csv").unlink()
    (results / "other").symlink_to(outside)
    assert guards.escaping_symlink(results, [results / "other"]) == results / "other"
    # The whole folder may be somewhere else: on a larger disk, for example.
    (tmp_path / "link").symlink_to(results)
    assert guards.escaping_symlink(tmp_path / "link", [tmp_path / "link/mine"]) is None


def test_a_lock_that_is_a_link_is_refused_and_what_it_leads_to_is_kept(tmp_path: Path) -> None:
    (tmp_path / "precious.csv").write_text("1\n", encoding="utf-8")
    (tmp_path / ".lock").symlink_to(tmp_path / "precious.csv")
    with pytest.raises(OSError, match="symbolic links"):
        lock.take(tmp_path)
    assert (tmp_path / "precious.csv").read_text(encoding="utf-8") == "1\n"
