"""Run `python -m MODULE` without its imports: in a fork of a process that has them.

Half of the time of a short Snakemake run is the import of Snakemake, and most of that of a job is
the import of pandas and matplotlib. All of pytest's processes have one server, which the first that
needs it starts. Each run, and in each run the process that forks for its jobs
(`sqrtdk.workflow.forks`), is a fork of it with its own arguments, folder, environment and streams.
Runs of the code that the server's PYTHONPATH leads to are forks of a fork that has loaded it, too;
those of any other code, such as a copy that a test edits, load their own.
Tests of the process itself (signals, kills, closed streams) use processes of their own, with jobs
of their own.
"""

import atexit
import binascii
import fcntl
import gc
import importlib
import importlib.util
import json
import os
import pkgutil
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

import composed_once
import job

# From its file, because the server has none of the project's modules.
_FILE = Path(__file__).parents[1] / "src/sqrtdk/system/as_main.py"
_SPEC = importlib.util.spec_from_file_location("as_main", _FILE)
assert _SPEC is not None
assert _SPEC.loader is not None
as_main = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(as_main)

Run = subprocess.CompletedProcess[str]

LOADED = (
    *("numpy", "hydra", "omegaconf", "snakemake.cli", "pandas", "jinja2", "psutil", "yte"),
    *("scipy.optimize", "scipy.special", "scipy.stats", "ml_dtypes", "safetensors"),
    *("matplotlib.figure", "matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg"),
    *("matplotlib.style", "latex2mathml.converter", "threadpoolctl", "docutils.core"),
    # What these load later, when they are used.
    *("snakemake.profiles", "snakemake.report.html_reporter", "smart_open", "encodings.idna"),
    *("hydra._internal.core_plugins.basic_sweeper", "hydra._internal.core_plugins.basic_launcher"),
    *("antlr4.LL1Analyzer", "pandas.core.methods.to_dict", "pandas.core.reshape.reshape"),
)

COLLECT = (50_000, 10, 10)
"""Thresholds of the garbage collector: processes are short, and their memory is large enough."""

JOB = """#!/bin/sh
case "$1 $2" in "-m sqrtdk."*) exec '{python}' -IS '{code}' '{socket}' "$@" ;; esac
exec '{python}' "$@"
"""
"""What a run finds as `python`."""


def run(
    folder: Path, module: str, *arguments: str, environment: dict[str, str], limit: float
) -> Run:
    """Run a module in a folder; raises subprocess.TimeoutExpired after `limit` seconds."""
    place = _server()
    words = [module, *arguments]
    path = os.pathsep.join([str(place), environment.get("PATH", os.defpath)])
    with tempfile.TemporaryDirectory() as scratch:
        out, err = (Path(scratch, name) for name in ("out", "err"))
        with open(os.devnull) as nothing, out.open("w") as said, err.open("w") as warned:
            streams = [stream.fileno() for stream in (nothing, said, warned)]
            variables = environment | {"PATH": path}
            try:
                code = job.ask(f"{place}/socket", words, str(folder), variables, streams, limit)
            except TimeoutError:
                raise subprocess.TimeoutExpired(words, limit) from None
        return Run(words, code, out.read_text("utf-8"), err.read_text("utf-8"))


@cache
def _server() -> Path:
    """Start the server, or find that of another process of this session of pytest.

    Return the folder with its socket and with the `python` of its runs. The server ends with its
    input, a pipe that each of these processes holds open until it ends.
    """
    session = os.environ.get("PYTEST_XDIST_TESTRUNUID", f"{os.getpid()}")
    # A pytest that a test starts on a copy of the project has the variables of this session.
    code = binascii.crc32(f"{sys.executable} {os.environ.get('PYTHONPATH')}".encode())
    place = Path(tempfile.gettempdir(), f"sqrtdk-{session}-{code:08x}")
    place.mkdir(mode=0o700, exist_ok=True)
    pipe = place / "input"
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if pipe.exists():
            # An error, and no wait, if the server could not be started.
            os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            return place
        os.mkfifo(pipe)
        write_python(place / "python", sys.executable, place / "socket")
        reads = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        held = os.open(pipe, os.O_WRONLY)
        # A process with threads, as BLAS starts them, cannot be forked.
        variables = os.environ | {"OMP_NUM_THREADS": "1"}
        server = start([sys.executable, __file__, str(place / "socket")], variables, reads)
        os.close(reads)

    def end() -> None:
        os.close(held)
        # So that its CPU time is part of that of the session.
        server.wait()
        shutil.rmtree(place)

    atexit.register(end)
    return place


def write_python(path: Path, python: str, socket: Path) -> None:
    """Write what is `python` for the jobs of a run: it asks the server at a socket for forks."""
    text = JOB.format(python=python, code=job.__file__, socket=socket)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def start(command: list[str], environment: dict[str, str], reads: int) -> subprocess.Popen[bytes]:
    """Start a server that `serve` is the code of; return it once it answers."""
    server = subprocess.Popen(command, stdin=reads, stdout=subprocess.PIPE, env=environment)
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    return server


def serve(place: str) -> None:
    """Fork for each request on a socket, until standard input ends."""
    for module in LOADED:
        importlib.import_module(module)
    assert not [name for name in sys.modules if name.split(".")[0] == "sqrtdk"]
    composed_once.install()
    composed_once.read_ahead(Path(__file__).parents[1] / "conf")
    # Those of the code under test come with each request.
    paths = os.environ.get("PYTHONPATH", "")
    own = paths.split(os.pathsep) if paths else []
    sys.path[1:] = [entry for entry in sys.path[1:] if entry not in own]
    children = []
    if own:
        listens, tell = os.pipe()
        children.append(os.fork())
        if not children[0]:
            try:
                _load_project(own)
                _listen(job.loaded(place, paths), partial(os.close, tell))
            finally:
                os._exit(0)
        os.close(tell)
        # Until it is closed: by a fork that listens, or by one whose code cannot be loaded.
        os.read(listens, 1)
    _listen(place, partial(print, "ready", flush=True))
    # The other fork ends for the same reason; a process that nobody waits for is not counted.
    with suppress(ChildProcessError):
        for child in children:
            os.waitpid(child, 0)


def _load_project(paths: list[str]) -> None:
    """Import the project's modules, and read its files: for their digests, and its grids."""
    sys.path[1:1] = paths
    for found in pkgutil.walk_packages([f"{paths[0]}/sqrtdk"], "sqrtdk."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
    digests = importlib.import_module("sqrtdk.storage.code_digest")
    for path in digests.PACKAGE.rglob("*.py"):
        digests._file(path)
    compose = importlib.import_module("sqrtdk.config.compose")
    for name, overrides in composed_once.USUAL:
        compose._files_with(name, overrides)
    del sys.path[1 : 1 + len(paths)]


def _listen(place: str, ready: Callable[[], object]) -> None:
    assert len(os.listdir("/proc/self/task")) == 1
    signal.signal(signal.SIGCHLD, _reap)
    # Else each collection of a fork goes through all these modules, and copies their memory.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(place)
        listening.listen(64)
        ready()
        while listening in select.select([listening, sys.stdin], [], [])[0]:
            line, _ = listening.accept()
            if os.fork() == 0:
                # Nothing may come back into this loop, of which there would be two.
                try:
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    listening.close()
                    _answer(line, place)
                finally:
                    os._exit(1)
            line.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def _reap(number: int, frame: object) -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _answer(line: socket.socket, place: str) -> None:
    _, streams, _, _ = socket.recv_fds(line, 1, 3)
    with line.makefile(encoding="utf-8") as reader:
        request = json.loads(reader.readline())
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    # A run puts the folder of its Python first on the path of its jobs.
    sys.executable = str(Path(place).with_name("python"))
    try:
        code = _run(**request)
    except BaseException:
        traceback.print_exc()
        code = 1
    line.sendall(str(code).encode())
    os._exit(code)


def _run(words: list[str], folder: str, environment: dict[str, str]) -> int:
    """Run a module as the interpreter would; return its exit code."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    paths = environment.get("PYTHONPATH", "")
    sys.path[:1] = [folder, *(paths.split(os.pathsep) if paths else [])]
    found: int = as_main.execute(words)
    return found


if __name__ == "__main__":
    serve(sys.argv[1])
