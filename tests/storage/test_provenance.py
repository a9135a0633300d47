import getpass
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import command

from sqrtdk.storage import machine, provenance, shard_files

COMMAND = "snakemake --configfile /home/ada/grids/mine.yaml --config d_k='[16,64]' name=mine"


def record(folder: Path, *tables: Path) -> dict[str, object]:
    out = folder / "provenance.json"
    done = command(folder, "sqrtdk.jobs.trace", out, COMMAND, *tables)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(out.read_text(encoding="utf-8"))
    return found


def test_the_record_has_versions_machine_command_and_digests(tmp_path: Path) -> None:
    path = tmp_path / "scaling" / "runs.csv"
    path.parent.mkdir()
    path.write_bytes(b"d_k\n1\n")
    found = record(tmp_path, path)
    assert found["command"] == "snakemake --configfile mine.yaml --config d_k='[16,64]' name=mine"
    assert found["sha256"] == {"scaling/runs.csv": hashlib.sha256(b"d_k\n1\n").hexdigest()}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", str(found["time_utc"]))
    assert found["packages"] == provenance.versions()
    assert "unknown" not in provenance.versions().values()
    machine = found["machine"]
    assert isinstance(machine, dict)
    assert machine["cores"] >= 1
    assert machine["memory_gib"] > 0


def test_the_record_names_no_user_host_or_folder(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("d_k\n", encoding="utf-8")
    record(tmp_path, path)
    text = (tmp_path / "provenance.json").read_text(encoding="utf-8")
    names = {str(tmp_path), str(Path.home()), platform.node(), "ada", os.getcwd(), sys.prefix}
    names |= {getpass.getuser()} - {"root"}
    # A path below a root, not the slash inside a name or a unit.
    assert not re.search(r"(?<![\w.])/\w+/", text)
    for name in names - {"", "/"}:
        assert not re.search(rf"\b{re.escape(name)}\b", text), name


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("snakemake -d /tmp/z", "snakemake -d z"),
        ("snakemake --directory=/tmp/a/z", "snakemake --directory=z"),
        ("snakemake --configfile ~/grids/a.yaml", "snakemake --configfile a.yaml"),
        (
            "snakemake --configfile '/home/ada/my grid.yaml'",
            "snakemake --configfile 'my grid.yaml'",
        ),
        (r"python C:\Users\ada\run.py", "python run.py"),
        ("snakemake --configfile conf/mine.yaml", "snakemake --configfile conf/mine.yaml"),
        ("snakemake results/mine/claims.csv", "snakemake results/mine/claims.csv"),
        ("python3 run.py --config hydra='+x=1/2'", "python3 run.py --config hydra='+x=1/2'"),
    ],
)
def test_absolute_paths_of_a_command_lose_their_folders(command: str, shown: str) -> None:
    assert provenance.without_folders(command) == shown


def test_a_home_with_a_space_is_cut_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada lovelace")
    command = "snakemake --configfile '/home/ada lovelace/grids/mine.yaml'"
    assert provenance.without_folders(command) == "snakemake --configfile 'mine.yaml'"


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def test_the_revision_is_that_of_the_code_and_says_when_it_was_changed(tmp_path: Path) -> None:
    source = tmp_path / "__init__.py"
    source.write_text("one = 1\n", encoding="utf-8")
    git(tmp_path, "init", "-q")
    # A repository around code that it does not track says nothing about that code.
    assert provenance.revision(tmp_path)["revision"] == "unknown"
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "One")
    clean = provenance.revision(tmp_path)
    assert re.fullmatch(r"[0-9a-f]{40}", str(clean["commit"]))
    assert clean["changed"] is False
    source.write_text("one = 2\n", encoding="utf-8")
    changed = provenance.revision(tmp_path)
    assert changed["changed"] is True
    assert changed["revision"] == f"{clean['revision']}-dirty"


def test_the_revision_is_that_of_the_code_also_inside_a_hook_of_another_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("mine", "others"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"{name} = 1\n", encoding="utf-8")
        git(tmp_path / name, "init", "-q")
        git(tmp_path / name, "add", ".")
        git(tmp_path / name, "commit", "-q", "-m", name)
    expected = provenance.revision(tmp_path / "mine")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "others" / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "others" / ".git" / "index"))
    assert provenance.revision(tmp_path / "mine") == expected


def test_the_revision_is_known_to_a_user_who_does_not_own_the_folder(tmp_path: Path) -> None:
    if os.getuid() != 0 or not hasattr(os, "chown"):
        pytest.skip("only root can give a folder to somebody else")
    (tmp_path / "__init__.py").write_text("one = 1\n", encoding="utf-8")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "One")
    for path in (tmp_path, *tmp_path.rglob("*")):
        os.chown(path, 12345, 12345)
    assert provenance.revision(tmp_path)["changed"] is False


def test_a_user_without_a_home_has_a_record_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    command = "snakemake --configfile /grids/mine.yaml"
    assert provenance.without_folders(command) == "snakemake --configfile mine.yaml"


def test_without_git_the_revision_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    expected = {"revision": "unknown", "commit": "unknown", "changed": None}
    assert provenance.revision(tmp_path) == expected


def test_a_kernel_that_cannot_be_asked_for_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    for loaded in ([], [{"internal_api": "mkl"}], [{"internal_api": "openblas", "filepath": "x"}]):
        monkeypatch.setattr(machine, "threadpool_info", loaded.copy)
        assert machine.kernel() == "unknown"


def test_the_kernel_is_that_of_the_library_of_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    libraries = [
        {"internal_api": "openblas", "filepath": "scipy.libs/x.so", "architecture": "Zen"},
        {"internal_api": "openblas", "filepath": "numpy.libs/x.so", "architecture": "Haswell"},
    ]
    monkeypatch.setattr(machine, "threadpool_info", lambda: libraries)
    assert machine.kernel() == "Haswell"


def test_the_kernel_follows_the_coretype_that_openblas_was_told() -> None:
    if platform.machine() != "x86_64" or machine.kernel() == "unknown":
        pytest.skip("needs NumPy with OpenBLAS on x86-64")
    code = "import numpy; from sqrtdk.storage.machine import kernel; print(kernel())"
    environment = os.environ | {"OPENBLAS_CORETYPE": "Nehalem"}
    program = [sys.executable, "-c", code]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "Nehalem"


def test_the_record_counts_the_machines_that_measured_and_names_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zen = [machine.Machine(node, "EPYC", "Zen") for node in ("n1", "n1", "n2")]
    old = machine.Machine("n3", "Xeon", "Haswell")
    shards = [tmp_path / f"{n}.csv" for n in range(5)]
    for path, where in zip(shards, [old, *zen, None], strict=True):
        monkeypatch.setattr(machine, "here", lambda where=where: where or old)
        shard_files.write_shard(path, {}, [], ())
        assert shard_files.read_machine(path) == (where or old)
    # A shard from before this was recorded.
    body = "# {}\n\n"
    shards[4].write_text(f"{body}# rows=0 sha256={hashlib.sha256(body.encode()).hexdigest()}\n")
    assert shard_files.is_valid_shard(shards[4])
    assert provenance.measured_on([*shards, tmp_path / "absent.csv"]) == [
        {"cpu": "EPYC", "blas_kernel": "Zen", "nodes": 2, "shards": 3},
        {"cpu": "Xeon", "blas_kernel": "Haswell", "nodes": 1, "shards": 1},
        {"cpu": "unknown", "blas_kernel": "unknown", "nodes": 1, "shards": 1},
    ]
