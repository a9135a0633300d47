"""Run `python -m MODULE` in a fork of this process, which has already imported what MODULE needs.

Most jobs of a run are short, and take longer to start Python and to import NumPy, pandas or
matplotlib than to compute. The client is `workflow.forks`; its requests come as sockets through
standard input, one for each job:

    request, one line of JSON: {"words": [MODULE, ...], "environment": {...}, "log": PATH}
    first line of the answer:  number of the process
    second line:               exit code, peak memory in KiB, CPU seconds

The process waits until the client closes the socket, so that its number stays valid. Of the
project it imports next to nothing, because a job runs `MODULE` and nothing else.
"""

import contextlib
import ctypes
import gc
import importlib
import importlib.util
import json
import os
import resource
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import TypedDict

from sqrtdk.system import as_main, stdio

DIE_WITH_PARENT = 1
"""Linux's PR_SET_PDEATHSIG: the signal that a process gets when its parent ends."""


class Request(TypedDict):
    """What a client asks for: the arguments of `run`."""

    words: list[str]
    environment: dict[str, str]
    log: str


def serve() -> None:
    """Fork for each socket that comes through standard input, until it ends."""
    # Else the next socket would have the number of a closed stream, and lose it to a job's log.
    stdio.ensure()
    with socket.socket(fileno=os.dup(0)) as control:
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        # Ctrl-C stops the jobs; this process ends with its client.
        interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
        # Not SIG_IGN, which would keep the CPU time of the forks out of that of this process.
        signal.signal(signal.SIGCHLD, _reap)
        known: set[str] = set()
        while True:
            _, found, _, _ = socket.recv_fds(control, 1, 1)
            if not found:
                return
            with socket.socket(fileno=found[0]) as line:
                # Not through a buffer, which would take more than the line.
                request: Request = json.loads(_line(line))
                module = request["words"][0]
                if module not in known:
                    known.add(module)
                    _prepare(module, request["environment"])
                if os.fork() == 0:
                    # Nothing may come back into this loop, of which there would be two.
                    try:
                        control.close()
                        signal.signal(signal.SIGINT, interrupt)
                        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                        _answer(line, request)
                    finally:
                        os._exit(1)


def _reap(number: int, frame: object) -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _line(line: socket.socket) -> bytes:
    found = b""
    while not found.endswith(b"\n"):
        piece = line.recv(2**16)
        if not piece:
            raise EOFError("the client has closed the socket")
        found += piece
    return found


def _prepare(module: str, environment: Mapping[str, str]) -> None:
    """Import a module, and call its `prepare` if it has one; a fork reports what is wrong."""
    os.environ.update(environment)
    with contextlib.suppress(Exception):
        spec = importlib.util.find_spec(module)
        is_package = spec is not None and spec.submodule_search_locations is not None
        found = importlib.import_module(f"{module}.__main__" if is_package else module)
        if hasattr(found, "prepare"):
            found.prepare()
    # Otherwise each collection of a fork visits all these objects, and copies their memory.
    gc.collect()
    gc.freeze()


def _answer(line: socket.socket, request: Request) -> None:
    # Without this process, no other would end a fork with the run.
    server = os.getppid()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != server:
        return
    line.sendall(f"{os.getpid()}\n".encode())
    code = run(**request)
    used = resource.getrusage(resource.RUSAGE_SELF)
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = used.ru_utime + used.ru_stime + own.ru_utime + own.ru_stime
    line.sendall(f"{code} {max(used.ru_maxrss, own.ru_maxrss)} {seconds}\n".encode())
    line.recv(1)
    os._exit(code)


def run(words: Sequence[str], environment: Mapping[str, str], log: str) -> int:
    """Run a module as `python -m` would, with a file as standard error; return the exit code."""
    os.environ.clear()
    os.environ.update(environment)
    try:
        opened = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    except OSError as error:
        print(f"sqrtdk: {log}: {error.strerror}", file=sys.stderr, flush=True)
        return 1
    os.dup2(opened, 2)
    os.close(opened)
    return as_main.execute(words)


if __name__ == "__main__":
    try:
        serve()
    except OSError as error:
        sys.exit(f"sqrtdk: this process is started by a run: {error.strerror}")
