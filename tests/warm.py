"""Run `python -m MODULE` without its imports: in a fork of a process that has them.

Half of the time of a short Snakemake run is the import of Snakemake. Each of pytest's processes
starts one server, and each run is a fork of it with its own arguments, folder, environment and
output. The modules of this project are not loaded beforehand, so a run loads those of the test.
Tests of the process itself (signals, kills, closed streams) use a process of their own.
"""

import atexit
import importlib
import json
import os
import runpy
import select
import subprocess
import sys
import tempfile
import traceback
from functools import cache
from pathlib import Path

Run = subprocess.CompletedProcess[str]


def run(
    folder: Path, module: str, *arguments: str, environment: dict[str, str], limit: float
) -> Run:
    """Run a module in a folder; raises subprocess.TimeoutExpired after `limit` seconds."""
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    with tempfile.TemporaryDirectory() as scratch:
        streams = [Path(scratch, name) for name in ("out", "err")]
        request = {
            "module": module, "arguments": arguments, "folder": str(folder),
            "environment": environment, "streams": [str(stream) for stream in streams],
        }  # fmt: skip
        print(json.dumps(request), file=server.stdin, flush=True)
        if not select.select([server.stdout], [], [], limit)[0]:
            server.kill()
            _server.cache_clear()
            raise subprocess.TimeoutExpired([module, *arguments], limit)
        code = int(server.stdout.readline())
        out, err = (stream.read_text(encoding="utf-8") for stream in streams)
    return subprocess.CompletedProcess([module, *arguments], code, out, err)


@cache
def _server() -> subprocess.Popen[str]:
    server = subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        # A process with threads, as BLAS starts them, cannot be forked.
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    # It ends with its input.
    atexit.register(server.communicate)
    return server


def serve() -> None:
    """Answer each request on standard input with the exit code of its run."""
    for module in ("numpy", "hydra", "omegaconf", "snakemake.cli"):
        importlib.import_module(module)
    assert not [name for name in sys.modules if name.split(".")[0] == "sqrtdk"]
    assert len(os.listdir("/proc/self/task")) == 1
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            # Nothing may come back into this loop, of which there would be two.
            try:
                code = _run(**request)
            except BaseException:
                traceback.print_exc()
                code = 1
            os._exit(code)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def _run(
    module: str, arguments: list[str], folder: str, environment: dict[str, str], streams: list[str]
) -> int:
    """Run a module as the interpreter would; return its exit code."""
    for number, path in enumerate([os.devnull, *streams]):
        opened = os.open(path, os.O_RDWR | os.O_CREAT)
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.path[0] = folder
    sys.argv = [module, *arguments]
    code = 0
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    serve()
