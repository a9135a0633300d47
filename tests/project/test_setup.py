"""The project starts in copied, moved, unwritable and half-finished places, for every user."""

import ast
import importlib.util
import os
import re
import shutil
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from conftest import HANG, ROOT, Run
from container import UNKNOWN, checkout

import sqrtdk
from sqrtdk import home
from sqrtdk.workflow import __main__ as workflow_command

SITE = Path(importlib.util.find_spec("snakemake").origin).parents[1]

FAKE_UV = """#!/bin/sh
echo "$@" >> '{log}'
case "$1" in
    --version) echo "uv 0.0" ;;
    venv) for last; do :; done; rm -rf "$last"; cp -a '{environment}' "$last" ;;
    sync)
        case "$*" in
            *--check*) test -e '{log}.complete' ;;
            *) test ! -e '{log}.offline' ;;
        esac ;;
esac
"""


def bare_environment(folder: Path) -> Path:
    """Make an environment with the packages of this one, but without the project."""
    command = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for path in SITE.iterdir():
        if "sqrtdk" not in path.name and path.name != "_virtualenv.pth":
            (site / path.name).symlink_to(path)
    return folder


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bare_environment(tmp_path_factory.mktemp("bare") / "environment")


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory, environment: Path) -> Path:
    """An environment whose Snakemake only tells its version, which takes no time."""
    folder = tmp_path_factory.mktemp("light") / "environment"
    shutil.copytree(environment, folder, symlinks=True)
    snakemake = snakemake_in(folder)
    snakemake.unlink()
    snakemake.mkdir()
    (snakemake / "__init__.py").touch()
    text = "import sys\nassert sys.argv[1:] == ['--version']\nprint('0.0')\n"
    (snakemake / "__main__.py").write_text(text, encoding="utf-8")
    return folder


def snakemake_in(environment: Path) -> Path:
    (site,) = environment.glob("lib/python*/site-packages")
    return site / "snakemake"


class Machine:
    """A checkout that was never set up, and a machine whose uv needs no network."""

    def __init__(self, folder: Path, environment: Path) -> None:
        self.folder = folder
        self.root = checkout(folder / "project")
        self.log = folder / "uv.log"
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.uv = FAKE_UV.format(log=self.log, environment=environment)
        (self.bin / "uv").write_text(self.uv, encoding="utf-8")
        (self.bin / "uv").chmod(0o755)

    def run(self, *arguments: str, cwd: str | Path = "", **variables: str) -> Run:
        """Run the checkout's run.py from a folder, its own if none is given."""
        usual = {name: os.environ[name] for name in ("HOME", "USER") if name in os.environ}
        path = os.pathsep.join([str(self.bin), "/usr/bin", "/bin"])
        return subprocess.run(
            [sys.executable, str(self.root / "run.py"), *arguments],
            cwd=cwd or self.root, env=usual | {"PATH": path} | variables,
            capture_output=True, text=True, timeout=HANG, check=False,
        )  # fmt: skip

    def calls(self) -> list[str]:
        """Return the commands with which uv was called, and forget them."""
        found = self.log.read_text(encoding="utf-8").split("\n")[:-1] if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        called = [line.split() for line in found if line != "--version"]
        return ["check" if "--check" in words else words[0] for words in called]

    def turn_off_network(self) -> None:
        Path(f"{self.log}.offline").touch()

    def turn_on_network(self) -> None:
        Path(f"{self.log}.offline").unlink()

    def say_complete(self) -> None:
        """Let uv find all packages in .venv/."""
        Path(f"{self.log}.complete").touch()


@pytest.fixture
def machine(tmp_path: Path, light: Path) -> Machine:
    return Machine(tmp_path, light)


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory, environment: Path) -> Machine:
    """A machine whose checkout is set up, for tests that leave it as it is."""
    machine = Machine(tmp_path_factory.mktemp("ready"), environment)
    machine.run("--version")
    return machine


@pytest.fixture
def finished(machine: Machine, ready: Machine, light: Path) -> Machine:
    """A machine whose checkout is set up, as a run of its own would leave it."""
    venv = machine.root / ".venv"
    shutil.copytree(ready.root / ".venv", venv, symlinks=True)
    snakemake_in(venv).unlink()
    shutil.copytree(snakemake_in(light), snakemake_in(venv))
    mark = (venv / "sqrtdk.json").read_text(encoding="utf-8")
    assert str(ready.root) in mark
    text = mark.replace(str(ready.root), str(machine.root))
    (venv / "sqrtdk.json").write_text(text, encoding="utf-8")
    return machine


def loaded(path: Path) -> ModuleType:
    """Return run.py as a module."""
    spec = importlib.util.spec_from_file_location("run_of_a_test", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    spec.loader.exec_module(module)
    sys.path[:] = before
    return module


# Setting up


def test_the_first_command_sets_up_and_the_next_one_asks_nobody(machine: Machine) -> None:
    first = machine.run("--version")
    assert first.returncode == 0, first.stderr
    assert machine.calls() == ["venv", "sync"]
    second = machine.run("--version")
    assert (second.stdout, second.stderr) == (first.stdout, "")
    assert second.stdout.startswith(f"sqrtdk {sqrtdk.__version__}")
    assert machine.calls() == []


def test_help_is_printed_without_setting_anything_up(machine: Machine) -> None:
    assert "python3 run.py test" in machine.run("--help").stdout
    assert machine.calls() == []


def test_a_finished_environment_is_used_without_network_after_files_were_touched(
    finished: Machine,
) -> None:
    finished.turn_off_network()
    for name in ("pyproject.toml", "uv.lock", "src/sqrtdk/__init__.py"):
        (finished.root / name).touch()
    assert finished.run("--version").returncode == 0


def test_another_lock_is_installed(finished: Machine) -> None:
    with (finished.root / "uv.lock").open("a", encoding="utf-8") as file:
        file.write("# newer\n")
    finished.run("--version")
    assert finished.calls() == ["check", "sync"]


def lose_python(venv: Path) -> None:
    for path in venv.glob("bin/python*"):
        path.unlink()


def lose_base_python(venv: Path) -> None:
    (venv / "bin" / "python").unlink()
    (venv / "bin" / "python").symlink_to("/nowhere/python3")


def hold_another_systems_python(venv: Path) -> None:
    (venv / "bin" / "python").unlink()
    (venv / "bin" / "python").write_bytes(b"\xcf\xfa\xed\xfe")
    (venv / "bin" / "python").chmod(0o755)


def lose_a_package(venv: Path) -> None:
    next(venv.glob("lib/python*/site-packages/numpy-*.dist-info")).unlink()


def lose_the_mark(venv: Path) -> None:
    (venv / "sqrtdk.json").unlink()


def cut_the_mark(venv: Path) -> None:
    (venv / "sqrtdk.json").write_text('{"folder": ', encoding="utf-8")


def lose_everything(venv: Path) -> None:
    shutil.rmtree(venv)
    venv.mkdir()


@pytest.mark.parametrize(
    "damage",
    [
        lose_python, lose_base_python, hold_another_systems_python, lose_a_package, lose_the_mark,
        cut_the_mark, lose_everything,
    ],
)  # fmt: skip
def test_a_half_finished_or_damaged_environment_is_set_up_again(
    finished: Machine, damage: Callable[[Path], None]
) -> None:
    damage(finished.root / ".venv")
    again = finished.run("--version")
    assert again.returncode == 0, again.stderr
    assert finished.calls()[-1] == "sync"


def test_a_set_up_that_fails_ends_with_one_line_and_the_next_one_starts_over(
    machine: Machine,
) -> None:
    machine.turn_off_network()
    failed = machine.run("--version")
    assert failed.returncode == 1
    assert failed.stderr.splitlines()[-1].startswith("run.py: cannot install the packages")
    machine.turn_on_network()
    assert machine.run("--version").returncode == 0


def hold_another_lock(venv: Path) -> None:
    with venv.with_name("uv.lock").open("a", encoding="utf-8") as file:
        file.write("# newer\n")


def tree(folder: Path) -> dict[str, tuple[Any, ...]]:
    """Return every entry below a folder, with what changes when somebody writes to it."""
    found = ((path, path.lstat()) for path in sorted(folder.rglob("*")))
    return {str(path): (at.st_ino, at.st_size, at.st_mtime_ns, at.st_mode) for path, at in found}


@pytest.mark.parametrize("damage", [lose_base_python, lose_a_package, hold_another_lock])
def test_a_set_up_that_fails_leaves_the_environment_as_it_was(
    finished: Machine, damage: Callable[[Path], None]
) -> None:
    lock = (finished.root / "uv.lock").read_bytes()
    # Another user's Python does not run here, or the packages are those of another lock.
    damage(finished.root / ".venv")
    before, names = tree(finished.root / ".venv"), set(os.listdir(finished.root))
    finished.turn_off_network()
    failed = finished.run("--version")
    assert failed.returncode == 1
    last = failed.stderr.splitlines()[-1]
    assert last.startswith("run.py: cannot install the packages")
    assert last.endswith(".venv/ is as it was")
    assert tree(finished.root / ".venv") == before
    assert set(os.listdir(finished.root)) == names
    if damage is hold_another_lock:
        (finished.root / "uv.lock").write_bytes(lock)
    else:
        finished.turn_on_network()
    assert finished.run("--version").returncode == 0
    assert set(os.listdir(finished.root)) == names


def test_a_set_up_that_was_killed_is_done_again_and_a_complete_one_is_used(
    finished: Machine,
) -> None:
    venv, new = finished.root / ".venv", finished.root / ".venv.new"
    lose_the_mark(venv)
    new.mkdir()
    (new / "half").touch()
    assert finished.run("--version").returncode == 0
    assert not new.exists()
    # Killed after the old environment was put away.
    venv.rename(new)
    finished.turn_off_network()
    assert finished.run("--version").returncode == 0
    assert not new.exists()


def test_an_environment_that_uv_made_by_hand_is_marked_and_not_built_again(
    finished: Machine,
) -> None:
    lose_the_mark(finished.root / ".venv")
    finished.say_complete()
    finished.turn_off_network()
    assert finished.run("--version").returncode == 0
    assert finished.calls() == ["check"]


@pytest.fixture
def without_uv(machine: Machine) -> Machine:
    """Return a machine without uv, and with a package index that has it."""
    (machine.bin / "uv").unlink()
    if importlib.util.find_spec("ensurepip") is None:
        pytest.skip("this Python cannot make an environment with pip")
    with zipfile.ZipFile(machine.folder / "uv-0.0-py3-none-any.whl", "w") as wheel:
        script = zipfile.ZipInfo("uv-0.0.data/scripts/uv")
        script.external_attr = (stat.S_IFREG | 0o755) << 16
        wheel.writestr(script, machine.uv)
        about = "uv-0.0.dist-info"
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: uv\nVersion: 0.0\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        names = (*wheel.namelist(), f"{about}/RECORD")
        wheel.writestr(f"{about}/RECORD", "".join(f"{name},,\n" for name in names))
    return machine


def fetching(machine: Machine) -> dict[str, str]:
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(machine.folder)}


def leave_it_empty(uv: Path) -> None:
    uv.touch()


def leave_it_half(uv: Path) -> None:
    uv.write_bytes(b"\x7fELF")
    uv.chmod(0o755)


def leave_a_folder(uv: Path) -> None:
    uv.mkdir()


@pytest.mark.parametrize("leave", [leave_it_empty, leave_it_half, leave_a_folder])
def test_what_an_interrupted_set_up_leaves_is_not_taken_for_uv(
    tmp_path: Path, leave: Callable[[Path], None]
) -> None:
    leave(tmp_path / "uv")
    assert not loaded(ROOT / "run.py").works({}, str(tmp_path / "uv"), "--version")


def test_uv_is_installed_again_after_an_interrupted_set_up_and_no_setting_moves_it(
    without_uv: Machine,
) -> None:
    own = without_uv.root / ".uv" / "bin"
    own.mkdir(parents=True)
    leave_it_empty(own / "uv")
    nowhere = str(without_uv.folder / "nowhere")
    switches = ("PIP_USER", "PIP_REQUIRE_VIRTUALENV", "PIP_DRY_RUN", "UV_LOCKED", "UV_NO_SYNC")
    places = (
        *("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_PYTHON", "PIP_CONSTRAINT"),
        *("UV_PROJECT", "UV_PROJECT_ENVIRONMENT", "UV_PYTHON", "UV_WORKING_DIRECTORY"),
        *("PYTHONUSERBASE", "PYTHONSTARTUP", "PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX"),
    )
    done = without_uv.run(
        "--version",
        **fetching(without_uv),
        **dict.fromkeys(switches, "1"),
        **dict.fromkeys(places, nowhere),
        PYTHONWARNINGS="error",
    )
    assert done.returncode == 0, done.stderr
    assert without_uv.calls() == ["venv", "sync"]
    assert not Path(nowhere).exists()
    assert (own / "uv").stat().st_size > 0


def test_a_machine_that_cannot_install_uv_says_what_to_do_in_its_last_line(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    (machine.bin / "uv").unlink()
    own = machine.root / ".uv" / "bin"
    own.mkdir(parents=True)
    # Of another kind of machine, which has the same folder.
    leave_it_half(own / "uv")
    before = tree(machine.root / ".uv")
    run = loaded(machine.root / "run.py")
    monkeypatch.setenv("PATH", str(machine.bin))
    # In place of a Python that cannot make an environment with pip.
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(SystemExit, match=r"^run\.py: cannot install uv; "):
        run.find_uv({})
    assert tree(machine.root / ".uv") == before
    assert not (machine.root / ".uv.new").exists()


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("PIP_INDEX_URL", True), ("PIP_CERT", True), ("PIP_TRUSTED_HOST", True),
        ("UV_DEFAULT_INDEX", True), ("UV_OFFLINE", True), ("UV_INDEX_MINE_PASSWORD", True),
        ("HTTPS_PROXY", True), ("PYTHONUNBUFFERED", True), ("SLURM_JOB_ID", True),
        ("PIP_USER", False), ("PIP_NO_BINARY", False), ("PIP_NO_DEPS", False),
        ("UV_FROZEN", False), ("UV_NO_SYNC", False), ("UV_NO_DEV", False), ("UV_PYTHON", False),
        ("PYTHONHOME", False), ("PYTHONOPTIMIZE", False), ("PYTHONDONTWRITEBYTECODE", False),
        ("PYTHONIOENCODING", False), ("VIRTUAL_ENV", False),
    ],
)  # fmt: skip
def test_variables_are_kept_if_they_only_say_where_to_fetch_from(
    monkeypatch: pytest.MonkeyPatch, name: str, kept: bool
) -> None:
    monkeypatch.setenv(name, "x")
    assert (loaded(ROOT / "run.py").environment().get(name) == "x") is kept


# Copied and moved


def test_a_copy_runs_its_own_code_and_works_without_the_original(finished: Machine) -> None:
    original, finished.root = finished.root, finished.folder / "a cöpy"
    shutil.copytree(original, finished.root, symlinks=True)
    shutil.rmtree(original)
    shutil.rmtree(snakemake_in(finished.root / ".venv"))
    snakemake_in(finished.root / ".venv").symlink_to(SITE / "snakemake")
    finished.turn_off_network()
    say = 'print("code of the copy", file=sys.stderr)\n'
    with (finished.root / "src/sqrtdk/storage/tables.py").open("a", encoding="utf-8") as file:
        file.write("\nimport sys\n" + say)
    # What a job imports is loaded before it, by the process that forks for jobs.
    job, begin = finished.root / "src/sqrtdk/jobs/configure.py", 'if __name__ == "__main__":\n'
    text = job.read_text(encoding="utf-8")
    assert begin in text
    job.write_text(text.replace(begin, begin + "    " + say), encoding="utf-8")
    done = finished.run("results/default/config.yaml")
    assert done.returncode == 0, done.stderr
    assert "code of the copy" in done.stderr
    log = finished.root / "results/default/logs/configure.log"
    assert "code of the copy" in log.read_text(encoding="utf-8")
    by_path = [f"{finished.root}/.venv/bin/python", "-c", "import sqrtdk; print(sqrtdk.__file__)"]
    found = subprocess.run(by_path, env={}, capture_output=True, text=True, check=True)
    assert Path(found.stdout.strip()) == finished.root / "src/sqrtdk/__init__.py"


def test_a_moved_folder_works_without_network(finished: Machine) -> None:
    finished.root = finished.root.rename(finished.folder / "moved")
    finished.turn_off_network()
    done = finished.run("--version")
    assert (done.returncode, done.stderr) == (0, "")


def test_scripts_of_another_folder_are_replaced(finished: Machine) -> None:
    for name in ("snakemake", "pytest"):
        script = finished.root / ".venv" / "bin" / name
        script.write_text("#!/elsewhere/.venv/bin/python\n", encoding="utf-8")
    lose_the_mark(finished.root / ".venv")
    finished.say_complete()
    finished.turn_off_network()
    # Without network they stay, because jobs do not need them.
    assert finished.run("--version").returncode == 0
    assert script.read_text(encoding="utf-8").startswith("#!/elsewhere")
    finished.turn_on_network()
    lose_the_mark(finished.root / ".venv")
    finished.calls()
    finished.run("--version")
    assert finished.calls() == ["check", "venv", "sync"]
    assert not script.exists() or "elsewhere" not in script.read_text(encoding="utf-8")


def snakemake_of(root: Path, environment: Path, *arguments: str, **variables: str) -> Run:
    """Run bare Snakemake in a checkout, with an environment that may have other code."""
    return subprocess.run(
        [str(environment / "bin" / "python"), "-P", "-m", "snakemake", *arguments],
        cwd=root,
        env={"PATH": "/usr/bin:/bin", "HOME": str(root), "USER": "ada"} | variables,
        capture_output=True,
        text=True,
        timeout=HANG,
        check=False,
    )


def test_snakemake_with_the_code_of_another_folder_is_refused_in_one_line(
    tmp_path: Path, environment: Path
) -> None:
    original, copy = checkout(tmp_path / "original"), checkout(tmp_path / "copy")
    done = snakemake_of(copy, environment, "-n", PYTHONPATH=str(original / "src"))
    assert done.returncode != 0
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("sqrtdk: ")]
    assert str(original) in line
    assert str(copy) in line
    assert "Traceback" not in done.stderr
    assert not (copy / "results").exists()


@pytest.mark.parametrize(
    "module",
    [["sqrtdk.run", "d_k=4"], ["sqrtdk.jobs.verify", "results/default"]],
    ids=lambda m: m[0],
)
def test_a_command_by_hand_refuses_the_code_of_another_folder(
    tmp_path: Path, module: list[str]
) -> None:
    copy = checkout(tmp_path / "copy")
    # The tests' own code is that of ROOT.
    command = [sys.executable, "-m", *module]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"sqrtdk: this environment has the code of {ROOT / 'src'}, ")


# Other Pythons


def test_old_pythons_can_read_run_py_up_to_the_check_of_their_version() -> None:
    tree = ast.parse((ROOT / "run.py").read_text(encoding="utf-8"), feature_version=(3, 7))
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    _docstring, imported, check = tree.body[:3]
    assert ast.unparse(imported) == "import sys"
    assert ast.unparse(check).startswith("if sys.version_info < (3, 11):\n    sys.exit(")


def old_pythons() -> Iterator[Path]:
    """Yield the Pythons before 3.11 of this machine."""
    others = map(str, Path(sys.base_prefix).parent.glob("3.*/bin"))
    for place in [*os.environ["PATH"].split(os.pathsep), *others]:
        for path in sorted(Path(place).glob("python3.*")):
            if not re.fullmatch(r"python3\.\d+", path.name):
                continue
            command = [str(path), "-c", "import sys; print(sys.version_info < (3, 11))"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.stdout == "True\n":
                yield path


def test_an_old_python_is_told_which_one_is_needed() -> None:
    olds = list(old_pythons())
    if not olds:
        pytest.skip("this machine has no Python before 3.11")
    for old in olds:
        command = [str(old), str(ROOT / "run.py"), "--version"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert done.stderr.startswith("run.py: needs Python 3.11 or newer; this is Python 3."), old
        assert done.stderr.count("\n") == 1


def test_run_py_can_be_executed() -> None:
    assert os.access(ROOT / "run.py", os.X_OK)


# Other folders


def test_files_on_the_command_line_are_relative_to_where_the_user_is(
    ready: Machine, tmp_path: Path
) -> None:
    # Names that would mislead Snakemake or Python in this folder.
    (tmp_path / "default").mkdir()
    (tmp_path / "profiles" / "default").mkdir(parents=True)
    (tmp_path / "random.py").write_text("raise SystemExit('wrong module')", encoding="utf-8")
    (tmp_path / "my.yaml").write_text("{d_k: [3], name: mine, experiments: scaling}", "utf-8")
    done = ready.run("-n", "--configfile", "my.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "draw_scaling" in done.stdout + done.stderr
    assert not (tmp_path / ".snakemake").exists()
    assert (ready.root / ".snakemake").exists()
    missing = ready.run("-n", "--configfile", "your.yaml", cwd=tmp_path)
    assert missing.returncode != 0
    assert "your.yaml" in missing.stderr.splitlines()[-1]


def test_a_directory_is_relative_to_where_the_user_is(ready: Machine, tmp_path: Path) -> None:
    done = ready.run("-d", "here", "results/default/config.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "here/results/default/config.yaml").exists()


def test_another_snakefile_and_profile_are_relative_to_where_the_user_is(
    ready: Machine, tmp_path: Path
) -> None:
    (tmp_path / "mine").write_text("rule:\n    output: 'made'\n    shell: 'touch made'\n", "utf-8")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "config.yaml").write_text("cores: 1\n", encoding="utf-8")
    options = ("-s", "mine", "--workflow-profile", "own", "-d", ".")
    done = ready.run(*options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        (["--report", "a.zip"], ["--report", "{here}/a.zip"]),
        (["--report=a.zip"], ["--report={here}/a.zip"]),
        (["--report", "--nolock"], ["--report", "--nolock"]),
        (["--report", "/abs/a.zip"], ["--report", "/abs/a.zip"]),
        (["results/mine/report.html"], ["results/mine/report.html"]),
        (["--config", "name=a"], ["--config", "name=a"]),
    ],
)
def test_files_that_snakemake_writes_are_relative_to_where_the_user_is(
    tmp_path: Path, given: list[str], passed: list[str]
) -> None:
    run = loaded(ROOT / "run.py")
    found = run.for_snakemake(given, tmp_path)
    assert found[-len(passed) :] == [word.format(here=tmp_path) for word in passed]
    assert run.for_snakemake(given, ROOT) == given


def test_tests_are_named_from_where_the_user_is_or_from_the_project(tmp_path: Path) -> None:
    run = loaded(ROOT / "run.py")
    (tmp_path / "test_mine.py").touch()
    assert run.as_typed("test_mine.py::test_a", tmp_path) == f"{tmp_path}/test_mine.py::test_a"
    assert run.as_typed("tests/core/test_adam.py", tmp_path) == "tests/core/test_adam.py"
    assert run.as_typed("-q", tmp_path) == "-q"


def test_a_folder_that_was_deleted_is_no_place_but_the_project_runs(ready: Machine) -> None:
    gone = ready.folder / "gone"
    command = f"mkdir '{gone}'; cd '{gone}'; rmdir '{gone}'; "
    command += f"exec '{sys.executable}' '{ready.root / 'run.py'}' --version"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_folder_that_python_cannot_search_is_named(tmp_path: Path) -> None:
    root = checkout(tmp_path / f"a{os.pathsep}b")
    command = [sys.executable, str(root / "run.py"), "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert str(root) in done.stderr


def test_a_folder_that_snakemake_takes_for_a_pattern_is_named(
    tmp_path: Path, environment: Path
) -> None:
    root = checkout(tmp_path / "{seed}")
    done = snakemake_of(root, environment, "-n")
    assert done.returncode != 0
    assert done.stderr.splitlines()[-1].startswith(f"sqrtdk: {root / 'src'}: ")


def test_a_folder_may_have_any_other_name(tmp_path: Path, environment: Path) -> None:
    root = checkout(tmp_path / 'it\'s ä 中 $HOME "b" (c) & d;e')
    done = snakemake_of(root, environment, "results/default/config.yaml")
    assert done.returncode == 0, done.stderr


# Users without a home or a name


def test_a_usual_user_keeps_all_caches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in home.CACHES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USER", "ada")
    assert home.variables(str(tmp_path / "own")) == {}
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("variable", ["HOME", *home.CACHES])
def test_caches_that_cannot_be_written_are_in_the_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str
) -> None:
    for name in home.CACHES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    # Nothing can be created below a file, for root neither.
    monkeypatch.setenv(variable, "/dev/null")
    monkeypatch.setenv("USER", "ada")
    found = home.variables(str(tmp_path / "own"))
    everything = variable in ("HOME", "XDG_CACHE_HOME")
    assert found.keys() >= ({*home.CACHES} - {"MPLCONFIGDIR"} if everything else {variable})
    assert all(Path(path).is_relative_to(tmp_path / "own") for path in found.values())


def test_caches_are_temporary_if_the_folder_cannot_be_written_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in home.CACHES:
        monkeypatch.setenv(name, "/dev/null/cache")
    found = home.variables("/dev/null/own")
    places = {Path(path).parent for path in found.values()}
    assert len(places) == 1
    assert places.pop().is_dir()


@pytest.mark.parametrize("error", [KeyError, OSError])
def test_a_user_id_without_a_name_gets_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: type[Exception]
) -> None:
    def nobody() -> str:
        raise error("uid not found")

    for name in home.NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("getpass.getuser", nobody)
    assert home.variables(str(tmp_path))["USER"] == f"uid{os.getuid()}"


def test_a_user_without_any_home_gets_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert home.variables(str(tmp_path))["HOME"] == str(tmp_path)


def test_the_pipeline_of_a_wheel_gives_a_user_without_a_home_one_before_snakemake_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started: dict[str, str] = {}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", {})
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    monkeypatch.setattr(os, "execv", lambda *_: started.update(os.environ))
    monkeypatch.setattr(sys, "argv", ["sqrtdk.workflow", "-n"])
    workflow_command.main()
    assert Path(started["HOME"]) == tmp_path.resolve() / ".snakemake/cache"


# Containers


@pytest.fixture
def container_runs(smoke_runs: dict[str, Any]) -> dict[str, Any]:
    """How commands of a user ended who has no name, no home to write to and no network."""
    if "unavailable" in smoke_runs:
        pytest.skip(smoke_runs["unavailable"])
    return smoke_runs


def test_a_checkout_that_cannot_be_written_to_computes_into_another_folder(
    container_runs: dict[str, Any],
) -> None:
    refused = container_runs["unwritable"]
    assert refused.returncode != 0
    assert "sqrtdk: " in refused.stderr.splitlines()[-1]
    assert "Traceback" not in refused.stderr
    done = container_runs["elsewhere"]
    assert done.returncode == 0, done.stderr
    out = Path(container_runs["folder"]).with_name("other")
    assert (out / "results/default/report.html").stat().st_size > 0


def test_the_smoke_run_works_for_an_unknown_user_without_home_and_network(
    container_runs: dict[str, Any],
) -> None:
    done = container_runs["smoke"]
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    results = Path(container_runs["folder"]).with_name("container") / "results"
    assert (results / "smoke/report.html").stat().st_size > 0
    record = (results / "smoke/provenance.json").read_text(encoding="utf-8")
    assert f"uid{UNKNOWN}" not in record
    # Where matplotlib finds no place, each process makes its fonts' cache again and says so: a job
    # in its log, and what forks for jobs on the run's own standard error.
    assert "temporary cache directory" not in done.stderr + container_runs["elsewhere"].stderr
    others = Path(container_runs["folder"]).with_name("other") / "results"
    for folder in (results, others):
        logs = [path.read_text(encoding="utf-8") for path in folder.rglob("*.log")]
        assert logs
        assert not [text for text in logs if "temporary cache directory" in text]


# Conda, and Snakemake without the project


@pytest.mark.parametrize("arguments", [["--lint"], ["-n", "--config", "grid=smoke"]], ids=" ".join)
def test_snakemake_starts_where_the_project_is_not_installed(
    tmp_path: Path, environment: Path, arguments: list[str]
) -> None:
    done = snakemake_of(checkout(tmp_path / "project"), environment, *arguments)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_a_package_that_snakemake_does_not_find_is_named_with_the_remedy(
    tmp_path: Path, environment: Path
) -> None:
    other = tmp_path / "environment"
    shutil.copytree(environment, other, symlinks=True)
    next(other.glob("lib/python*/site-packages/hydra")).unlink()
    done = snakemake_of(checkout(tmp_path / "project"), other, "-n")
    assert done.returncode != 0
    said = (done.stdout + done.stderr).splitlines()
    (line,) = [line for line in said if line.startswith("sqrtdk: ")]
    assert "does not have the package hydra; run `python3 run.py`" in line
    assert "Traceback" not in said


def test_jobs_in_environments_of_conda_find_the_project_by_its_path(
    tmp_path: Path, environment: Path
) -> None:
    root = checkout(tmp_path / "project")
    base = tmp_path / "conda"
    (base / "bin").mkdir(parents=True)
    # What Snakemake asks of conda, and how it activates an environment.
    (base / "bin" / "conda").write_text(
        f"""#!/bin/sh
case "$*" in
    "info --json") echo '{{"conda_prefix": "{base}", "platform": "linux-64"}}' ;;
    "--version") echo "conda 25.1.0" ;;
    "config --get"*) echo '{{"get": {{"channel_priority": "strict"}}}}' ;;
    *create*) for word; do test "$last" = --file && cp "$word" '{tmp_path}/asked.yml'
                  test "$last" = --prefix && cp -a '{environment}' "$word"; last=$word; done ;;
esac
""",
        encoding="utf-8",
    )
    (base / "bin" / "conda").chmod(0o755)
    (base / "bin" / "activate").write_text('export PATH="$1/bin:$PATH" CONDA_USED=1\n', "utf-8")
    with (root / "src/sqrtdk/storage/tables.py").open("a", encoding="utf-8") as file:
        file.write("\nimport sys\nprint(sys.executable, file=sys.stderr)\n")
    done = snakemake_of(
        root, environment, "--sdm", "conda", "--", "results/default/config.yaml",
        PATH=f"{base}/bin:/usr/bin:/bin",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    log = (root / "results/default/logs/configure.log").read_text(encoding="utf-8")
    assert f"{root}/.snakemake/conda/" in log


def lists(name: str) -> list[object]:
    found: list[object] = yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))["dependencies"]
    return found


def test_environments_of_jobs_are_that_of_the_project_without_what_pip_installs() -> None:
    whole, jobs = lists("environment.yml"), lists("envs/jobs.yml")
    assert jobs == [line for line in whole if isinstance(line, str) and line != "pip"]
    assert whole[-1] == {"pip": ["-e ."]}
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "rules").glob("*.smk"))
    assert text.count('"../envs/jobs.yml"') == text.count("    conda:\n") > 15


def test_pip_accepts_what_conda_passes_on_and_installs_the_project_alone(
    tmp_path: Path, environment: Path
) -> None:
    root = checkout(tmp_path / "project")
    # Most Pythons have pip; installing it takes longer than all else here.
    pip = [str(Path(sys.base_prefix, "bin", "python3")), "-m", "pip"]
    if subprocess.run([*pip, "--version"], capture_output=True, check=False).returncode:
        if importlib.util.find_spec("ensurepip") is None:
            pytest.skip("this Python cannot make an environment with pip")
        subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "maker")], check=True)
        pip = [str(tmp_path / "maker" / "bin" / "pip")]
    pip.append("--disable-pip-version-check")
    # conda writes these lines next to environment.yml and runs pip there.
    lines = lists("environment.yml")[-1]
    assert isinstance(lines, dict)
    (root / "condaenv.requirements.txt").write_text("\n".join(lines["pip"]), encoding="utf-8")
    python = ["--python", str(environment / "bin" / "python")]
    command = [*pip, *python, "install", "--dry-run", "-r", "condaenv.requirements.txt"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    reach = [*pip, "download", "--quiet", "--no-deps", "hatchling", "--dest", str(tmp_path)]
    if done.returncode and subprocess.run(reach, capture_output=True, check=False).returncode:
        pytest.skip("no registry of packages can be reached")
    assert done.returncode == 0, done.stderr
    would = [line for line in done.stdout.splitlines() if line.startswith("Would install")]
    assert would == ["Would install sqrtdk-0.1.0"]
