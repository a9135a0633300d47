"""The project's own files agree with each other."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from conftest import ROOT, by_hand, snakemake
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from campaigns import readme
from sqrtdk import __version__

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


@pytest.mark.parametrize("command", readme.shown(), ids=" ".join)
def test_every_command_of_the_readme_works(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "my.yaml").write_text(readme.MY_YAML, encoding="utf-8")
    if command[0] == "uv":
        done = by_hand(tmp_path, *command[5:])
    else:
        done = snakemake(tmp_path, "-n", *command[2:])
    assert done.returncode == 0, done.stderr
