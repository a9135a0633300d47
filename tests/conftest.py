"""What several test modules share: the project's root and Snakemake as a person runs it."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# First, because it sets the BLAS threads that must be set before NumPy loads.
import sqrtdk
from sqrtdk import config

ROOT = Path(sqrtdk.__file__).resolve().parents[2]

# Processes that tests start run this folder's code too, whatever is installed.
os.environ["PYTHONPATH"] = str(ROOT / "src")

Run = subprocess.CompletedProcess[str]


def environment() -> dict[str, str]:
    """This process's environment, with bytecode: without it every job compiles its imports."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def snakemake(folder: Path, *arguments: str, root: Path = ROOT) -> Run:
    """Run Snakemake on the project at `root`, with its results in `folder`."""
    return subprocess.run(
        [
            sys.executable,
            *("-m", "snakemake", "-s", str(root / "Snakefile"), "-d", str(folder)),
            *arguments,
        ],
        cwd=folder,
        env=environment() | {"PYTHONPATH": str(root / "src")},
        capture_output=True,
        text=True,
        timeout=300,
    )


def by_hand(folder: Path, *arguments: str) -> Run:
    """Run `python -m sqrtdk.run` in `folder`."""
    return subprocess.run(
        [sys.executable, "-m", "sqrtdk.run", *arguments],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )


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
    """The smoke configuration as Hydra composes it."""
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    with initialize_config_dir(str(config.CONF), version_base="1.3"):
        found = OmegaConf.to_container(compose("config", ["grid=smoke"]), resolve=True)
    assert isinstance(found, dict)
    return {str(name): value for name, value in found.items()}
