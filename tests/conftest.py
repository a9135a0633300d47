"""Shared fixtures and helpers: Snakemake as a user runs it, and a finished smoke run."""

import fcntl
import gc
import json
import os
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import composed_once
import container
import pytest
import warm
from hypothesis import HealthCheck, settings

import sqrtdk
from sqrtdk.system import threads

# Before a test module imports NumPy: results depend on the threads, like those of jobs.
threads.use_one()

composed_once.install()

# Collecting the tests makes a million objects that stay: see `pytest_collection_finish`.
gc.disable()

ROOT = Path(sqrtdk.__file__).resolve().parents[2]

# Processes that tests start also run this folder's code, whatever is installed.
os.environ["PYTHONPATH"] = str(ROOT / "src")

# An experiment that a test puts into a copy of the project; here it is not importable.
# Collecting shaped_calls.py for doctests would check the shapes of every later call here.
collect_ignore = ["temperature", "core/shaped_calls.py"]

Run = subprocess.CompletedProcess[str]

HANG = 1800
"""Seconds after which a process counts as hanging.

No test waits for a fixed time: each waits for an event, or for the end of the process. So a loaded
machine makes the tests slow but never wrong.
"""

# For the same reason no Hypothesis example has a time limit.
settings.register_profile("any_load", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any_load")

SMOKE = ("--config", "grid=smoke", "name=smoke")


def environment() -> dict[str, str]:
    """Return this process's environment, with bytecode, so that jobs need not compile imports."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def snakemake(folder: Path, *arguments: str, root: Path = ROOT) -> Run:
    """Run Snakemake on the project at `root`, with its results in `folder`."""
    words = ("-s", str(root / "Snakefile"), "-d", str(folder), *arguments)
    variables = environment() | {"PYTHONPATH": str(root / "src")}
    return warm.run(folder, "snakemake", *words, environment=variables, limit=HANG)


def command(folder: Path, module: str, *arguments: object) -> Run:
    """Run `python -m MODULE` in `folder`, in a fork: for tests that are not of the process."""
    words = map(str, arguments)
    return warm.run(folder, module, *words, environment=environment(), limit=HANG)


def by_hand(folder: Path, *arguments: str) -> Run:
    """Run `python -m sqrtdk.run` in `folder`."""
    return command(folder, "sqrtdk.run", *arguments)


def process(folder: Path, module: str, *arguments: str, **variables: str) -> Run:
    """Run `python -m MODULE` in `folder`, in its own process."""
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=folder,
        env=environment() | variables,
        capture_output=True,
        text=True,
        timeout=HANG,
    )


def pytest_collection_finish() -> None:
    """Leave what was loaded out of garbage collections, which take a sixth of the time else."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*warm.COLLECT)
    gc.enable()


@pytest.fixture
def in_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Run]:
    """Function: run a module's file with arguments as `python -m` would, in this process."""

    def run(module: ModuleType, *arguments: object) -> Run:
        assert module.__file__
        words = [module.__file__, *map(str, arguments)]
        monkeypatch.setattr(sys, "argv", words)
        code: object = None
        try:
            runpy.run_path(module.__file__, run_name="__main__")
        except SystemExit as ended:
            code = ended.code
        out, err = capsys.readouterr()
        # Like the interpreter, print a text and use exit code 1.
        if isinstance(code, str):
            return Run(words, 1, out, f"{err}{code}\n")
        return Run(words, code if isinstance(code, int) else 0, out, err)

    return run


@pytest.fixture(scope="session")
def smoke_runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """How each command of the session's smoke run ended, and the folders of what they made.

    It is made once for all of pytest's worker processes, as an unknown user (`container`). Where
    that cannot be, of which `unavailable` says why, or with another Python, which may have other
    versions of the packages, the usual user makes one too.
    """
    base = tmp_path_factory.getbasetemp()
    # The folders of all worker processes have the same parent.
    top = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "runs"
    top.mkdir(exist_ok=True)
    ended = top / "ended.json"
    with (top / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # The other workers would fail the same way, and take as long.
        if not ended.exists():
            found: dict[str, Any] = {}
            folder = top / "container"
            folder.mkdir()
            try:
                found |= container.build(folder, SMOKE)
            except container.UnavailableError as why:
                found["unavailable"] = str(why)
            if found.get("python") != list(sys.version_info[:2]):
                folder = top / "usual"
                folder.mkdir()
                for name in ("usual", "again"):
                    done = snakemake(folder, *SMOKE)
                    found[name] = (done.returncode, done.stdout, done.stderr)
            found["folder"] = str(folder)
            ended.write_text(json.dumps(found), encoding="utf-8")
    known = json.loads(ended.read_text(encoding="utf-8"))
    return {
        name: container.Done(*value) if name in container.RUNS else value
        for name, value in known.items()
    }


@pytest.fixture(scope="session")
def smoke(smoke_runs: dict[str, Any]) -> Path:
    """A folder with a finished run of everything on the smoke grid, `results/smoke`.

    Read it or copy it, never change it.
    """
    done = smoke_runs.get("usual", smoke_runs.get("smoke"))
    assert done.returncode == 0, done.stderr
    return Path(smoke_runs["folder"])


@pytest.fixture
def snapshot() -> Callable[[Path], dict[str, bytes]]:
    """Function: every file below a folder with its bytes, Snakemake's own records aside."""

    def take(folder: Path) -> dict[str, bytes]:
        return {
            str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and ".snakemake" not in path.parts
        }

    return take


@pytest.fixture(scope="session")
def composed() -> dict[str, Any]:
    """Return the smoke configuration as Hydra composes it."""
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    from sqrtdk.config import overrides

    with initialize_config_dir(str(overrides.CONF), version_base="1.3"):
        found = OmegaConf.to_container(compose("config", ["grid=smoke"]), resolve=True)
    assert isinstance(found, dict)
    return {str(name): value for name, value in found.items()}
