"""Run the jobs of this machine as forks of a process that has their imports.

Snakemake starts each job as a shell, which starts Python. In a run of the smoke grid, these starts
were half of the CPU time. So a command of this project's rules goes to a server instead
(`system.fork_server`), and any other to the shell. There are two servers, because what measures
needs neither pandas nor matplotlib.

A fork also reports its CPU time and its peak memory itself. Snakemake samples both twice a second,
and misses what a job does after the last sample.
"""

import atexit
import contextlib
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import snakemake.benchmark
from snakemake.shell import shell

MEASURES = "sqrtdk.jobs.shards"
"""The module of the jobs that measure."""

KILLED = 128 + 9
"""The exit code by which a shell reports a process that was killed."""

PATIENCE_S = 30
"""Seconds that a server has to end, after its last job has."""

COMMAND = re.compile(r"python -m (sqrtdk(?:\.\w+)+(?: (?:[\w@%+=:,./-]+|'[^']*'))*) 2> ([\w./'-]+)")
"""A command of a rule: a module, words that the shell leaves as they are, and a log."""


class Command(NamedTuple):
    """What a job runs: a module and its arguments, and the log for its standard error."""

    words: list[str]
    log: str


def command_of(text: str) -> Command | None:
    """Return the command of a job, or None if a shell has to read it.

    >>> command_of("set -e; python -m sqrtdk.jobs.draw reach 'a b' 2> logs/draw.log")
    Command(words=['sqrtdk.jobs.draw', 'reach', 'a b'], log='logs/draw.log')
    >>> command_of("python -m sqrtdk.jobs.verify smoke 2>&1 | tee logs/verify.log")
    """
    prefix, sign, rest = text.strip().rpartition("; ")
    found = COMMAND.fullmatch(rest.strip())
    if found is None or (sign and f"{prefix}{sign}" not in ("set -e; ", shell._process_prefix)):
        return None
    return Command(shlex.split(found[1]), shlex.split(found[2])[0])


class Fork:
    """A job in a fork, with what Snakemake uses of `subprocess.Popen`."""

    def __init__(self, line: socket.socket) -> None:
        """Wait for the fork at the other end of a socket. Raises OSError."""
        self._line, self._reader = line, line.makefile(encoding="utf-8")
        self.returncode: int | None = None
        self.peak_kib, self.cpu_seconds = 0, 0.0
        number = self._reader.readline()
        if not number:
            raise ConnectionError("the server has ended")
        self.pid = int(number)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code, when there is one."""
        if self.returncode is None:
            said = self._reader.readline().split()
            if said:
                self.peak_kib, self.cpu_seconds = int(said[1]), float(said[2])
            # One that was killed says nothing.
            self.returncode = int(said[0]) if said else KILLED
            self._reader.close()
            self._line.close()
        return self.returncode

    def kill(self) -> None:
        """Kill the job."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, 9)

    terminate = kill


class Server:
    """A process that forks for jobs, which begins with the first one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def fork(self, command: Command, environment: Mapping[str, str]) -> Fork:
        """Start a job. Raises OSError if the server is no longer there."""
        request = {"words": command.words, "environment": dict(environment), "log": command.log}
        ours, theirs = socket.socketpair()
        with theirs, self._lock:
            if self._control is None:
                self._control = self._start()
            socket.send_fds(self._control, [b"."], [theirs.fileno()])
        ours.sendall(json.dumps(request).encode() + b"\n")
        return Fork(ours)

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "sqrtdk.system.fork_server"]
            self._process = subprocess.Popen(command, stdin=theirs.fileno())
        atexit.register(self.end)
        return ours

    def end(self) -> None:
        """End the server, and wait for it: its CPU time becomes part of that of this process."""
        with self._lock:
            if self._control is not None and self._process is not None:
                self._control.close()
                try:
                    self._process.wait(timeout=PATIENCE_S)
                except subprocess.TimeoutExpired:
                    self._process.kill()


class Processes:
    """In place of the module `subprocess` in Snakemake's module that starts jobs."""

    def __init__(self) -> None:
        self._measure, self._others = Server(), Server()
        self.forks: dict[int, Fork] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(subprocess, name)

    def start(self, text: str, **options: Any) -> Any:
        """Start a job: in a fork if it is a command of a rule, otherwise as Snakemake would."""
        command = command_of(text) if options.get("stdout") is not subprocess.PIPE else None
        if command is not None and _is_own_python(options["env"]):
            server = self._measure if command.words[0] == MEASURES else self._others
            # A server that was killed forks no more; a shell still starts jobs.
            with contextlib.suppress(OSError):
                found = server.fork(command, options["env"])
                self.forks[found.pid] = found
                return found
        return subprocess.Popen(text, **options)

    Popen = start

    @contextlib.contextmanager
    def benchmarked(self, pid: Any = None, record: Any = None, *others: Any) -> Iterator[Any]:
        """Measure a fork by its own account, and anything else as Snakemake does."""
        fork = self.forks.pop(pid, None)
        if fork is None:
            with _benchmarked(pid, record, *others) as found:
                yield found
            return
        began = time.time()
        try:
            yield record
        finally:
            record.running_time = time.time() - began
            record.data_collected = True
            record.max_rss = fork.peak_kib / 2**10
            record.cpu_time = record.cpu_usage = fork.cpu_seconds
            record.cpu_usage *= 100


# `snakemake.shell` names the class of the module with this name.
STARTS: Any = sys.modules[shell.__module__]
"""Snakemake's module that starts jobs."""

_benchmarked = snakemake.benchmark.benchmarked


def _is_own_python(environment: Mapping[str, str]) -> bool:
    """Return whether `python` is that of this process, not that of a conda environment."""
    found = shutil.which("python", path=environment.get("PATH"))
    return found is not None and os.path.dirname(found) == os.path.dirname(sys.executable)


def use() -> None:
    """Start the jobs of this process in forks from now on, on systems that allow it."""
    # On macOS, the system's own libraries do not work in a fork.
    if sys.platform == "linux":
        processes = Processes()
        STARTS.sp = processes
        snakemake.benchmark.benchmarked = processes.benchmarked
