"""An installed copy works anywhere, without the repository."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
from conftest import HANG, ROOT, by_hand

WITHOUT = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "SQRTDK_SOURCE")


def kept() -> dict[str, str]:
    """Return the environment without a way to the code of the repository."""
    return {name: value for name, value in os.environ.items() if name not in WITHOUT}


def run(folder: Path, *command: str | Path) -> str:
    """Run a command in a folder, without a way to the code of the repository."""
    done = subprocess.run(
        command, cwd=folder, env=kept(), capture_output=True, text=True, timeout=HANG
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts of an environment into which a wheel of the project is installed."""
    folder = tmp_path_factory.mktemp("installed")
    run(ROOT, sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder / "wheel")
    (wheel,) = (folder / "wheel").iterdir()
    # uv installs in a fraction of the time in which pip installs itself.
    uv = shutil.which("uv", path=os.pathsep.join([os.environ["PATH"], str(ROOT / ".uv/bin")]))
    venv.create(folder / "venv", with_pip=uv is None)
    # What the project depends on is not installed again, which would need the network. A .pth file
    # adds the folder, and leaves out the .pth files in it, one of which leads to the repository.
    (site,) = (folder / "venv/lib").glob("python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    python = folder / "venv/bin/python"
    pip = (uv, "pip", "install", "--python", python) if uv else (python, "-m", "pip", "install")
    run(folder, *pip, "--quiet", "--no-deps", "--no-index", wheel)
    shutil.rmtree(folder / "wheel")
    return folder / "venv/bin"


@pytest.mark.slow
def test_an_installed_copy_measures_and_runs_the_pipeline_in_an_empty_folder(
    installed: Path, tmp_path: Path
) -> None:
    python = installed / "python"
    where = run(tmp_path, python, "-c", "import sqrtdk; print(sqrtdk.__file__)").strip()
    assert Path(where).is_relative_to(installed.parent)
    cell = ("d_k=4", "n_k=4", "n_q=2")
    expected = by_hand(tmp_path, *cell).stdout
    assert len(expected.splitlines()) == 2
    for command in (
        (python, "-m", "sqrtdk.run"),
        (python, "-m", "sqrtdk"),
        (installed / "sqrtdk",),
    ):
        assert run(tmp_path, *command, *cell) == expected
    assert not list(tmp_path.iterdir())

    words = ("--config", "grid=smoke", "experiments=worked_example", "name=mine")
    run(tmp_path, python, "-m", "sqrtdk.workflow", *words)
    report = tmp_path / "results/mine/report.html"
    assert "worked_example-attention" in report.read_text(encoding="utf-8")
    listed = run(tmp_path, python, "-m", "sqrtdk.run", "--help")
    assert listed == by_hand(tmp_path, "--help").stdout
    load = (
        "import sqrtdk as sq; print(len(sq.load_run('results/mine').tables['worked_example/runs']))"
    )
    assert int(run(tmp_path, python, "-c", load)) > 0
    inside = {path.name for path in tmp_path.iterdir()}
    assert inside == {"results", ".snakemake"}
