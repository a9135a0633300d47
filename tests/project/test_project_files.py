"""The project's own files agree with each other."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from conftest import ROOT, SMOKE, by_hand, snakemake
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from campaigns import readme
from sqrtdk import __version__
from sqrtdk.config import keys as config_keys

# Names that differ between PyPI and conda-forge or bioconda.
CONDA = {
    "matplotlib": "matplotlib-base",
    "ml-dtypes": "ml_dtypes",
    "snakemake": "snakemake-minimal",
}
# What conda has to be told and pip takes from elsewhere: the interpreter, pip itself, and what
# the extra snakemake[reports] brings.
CONDA_ALONE = {"python", "pip", "pygments"}


def pyproject() -> dict[str, SpecifierSet]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = [Requirement(line) for line in project["dependencies"]]
    return {CONDA.get(r.name, r.name): r.specifier for r in found} | {
        "python": SpecifierSet(project["requires-python"])
    }


def conda() -> dict[str, SpecifierSet]:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    lines = [line for line in environment["dependencies"] if isinstance(line, str)]
    pairs = [re.fullmatch(r"([a-z0-9_-]+) ?(.*)", line) for line in lines]
    return {match[1]: SpecifierSet(match[2]) for match in pairs if match}


def test_conda_and_pip_name_the_same_packages() -> None:
    assert conda().keys() - CONDA_ALONE == pyproject().keys() - CONDA_ALONE


@pytest.mark.parametrize("name", sorted(pyproject()))
def test_conda_and_pip_allow_the_same_versions(name: str) -> None:
    assert conda()[name] == pyproject()[name]


def test_conda_channels_are_in_the_order_that_finds_snakemake() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    assert environment["channels"] == ["conda-forge", "bioconda", "nodefaults"]


def test_the_version_is_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert __version__ == project["version"] == citation["version"]


def test_the_readme_is_short_and_every_file_that_it_names_exists() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) < 100
    linked = re.findall(r"\]\(([^)#:]+)\)", text)
    assert linked
    for name in linked:
        assert (ROOT / name).exists(), name


def test_git_tracks_one_page_of_the_results_and_sees_nothing_of_a_run(
    tmp_path: Path, smoke: Path
) -> None:
    def git(*words: str) -> str:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
        # In a hook, git's variables name the repository of the hook.
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        done = subprocess.run(command, cwd=tmp_path, env=kept, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    (tmp_path / "results").mkdir()
    for name in (".gitignore", "results/README.md"):
        shutil.copy(ROOT / name, tmp_path / name)
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "x")
    assert git("ls-files").split() == [".gitignore", "results/README.md"]
    shutil.copytree(smoke, tmp_path, dirs_exist_ok=True)
    (tmp_path / "results/.lock").touch()
    (tmp_path / "results/smoke/README.md").touch()
    assert git("status", "--porcelain") == ""
    # With the page beside them, the results are complete as they are.
    done = snakemake(tmp_path, *SMOKE)
    assert done.returncode == 0, done.stderr
    assert git("status", "--porcelain") == ""


@pytest.mark.parametrize("name", ["README.md", "readme.md", "shards", "Benchmarks", "compare"])
def test_no_run_has_the_name_of_something_else_in_results(tmp_path: Path, name: str) -> None:
    done = snakemake(tmp_path, "-n", "--config", f"name={name}")
    assert done.returncode != 0
    assert f"name: '{name}' is not allowed" in done.stderr
    assert f"Not {' or '.join(config_keys.RESERVED)}" in done.stderr


@pytest.mark.parametrize("command", readme.shown(), ids=" ".join)
def test_every_command_of_the_readme_works(tmp_path: Path, command: list[str]) -> None:
    readme.write_files(tmp_path)
    if "compare" in command:
        for name in ("default", "mine"):
            (tmp_path / "results" / name).mkdir(parents=True)
            (tmp_path / "results" / name / "config.yaml").touch()
    if command[0] == "uv":
        done = by_hand(tmp_path, *command[5:])
    else:
        done = snakemake(tmp_path, "-n", *command[2:])
    assert done.returncode == 0, done.stderr
