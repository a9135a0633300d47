"""Wrong values of every key: each gives one line with key, value and what is allowed."""

import math
import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

from campaigns import mistakes
from sqrtdk.config import resolve
from sqrtdk.config.errors import ConfigError
from sqrtdk.experiments.registry import EXAMPLES, EXPERIMENTS
from sqrtdk.schema import Key

KEYS = {
    key.name: key
    for name, module in EXPERIMENTS.items()
    if name not in EXAMPLES
    for key in module.config_keys
}

# Values from YAML, a shell or a typing mistake, wrong for every key.
STRANGE: list[Any] = [
    "", " ", None, math.nan, math.inf, -math.inf, [], [[]], {}, [None], [{}], b"64",
    "é", "٣", "'", '"', "a\nb", "\0", "../x", "/etc/passwd", "~", "$(id)", "`id`", "; id", "| id",
    "${seed}", "???", "!!python/object/apply:os.system [id]", "<script>", "0x10", "1_000", "1,000",
    "1e999", "nan", "inf", "0b1", "1+1", "None", "null",
]  # fmt: skip
NUMBERS: list[Any] = ["x", True, "on", "off", -1, "-1", 10**400, "9" * 400]
WRONG: dict[str, list[Any]] = {
    "whole": [*STRANGE, *NUMBERS, 2.5, "2.5", 0.1, "1e-3", [16, "x"], [16, 16]],
    "number": [*STRANGE, *NUMBERS, 0, 0.0, "0", [0.1, 0], [0.1, 0.1], -0.5],
    "choice": [*STRANGE, *NUMBERS, 0, 1, 1.5, "float 64"],
    "name": [*STRANGE, *NUMBERS[2:5], 0, 1, 1.5, "onn", ["on", "on"]],
    "text": ["", [], [[]], {}, [None], [{}], b"64", math.nan, True, 0, 1.5],
    "file": [*(x for x in STRANGE if x != "/etc/passwd"), *NUMBERS, {"qk.npz": "12"}, 1.5],
}

FILE = {"qk.npz": "0" * 64}
"""A file as a resolved configuration has it, so that all experiments are in the run."""


def wrong(key: Key) -> Iterator[Any]:
    for value in WRONG[key.kind]:
        # What is a word of the key's own is not a mistake.
        if key.kind == "name" and value in ("on", "off") and key.named_in == "scale_rules":
            continue
        # Of a word that is an experiment as well, a mapping is the experiment's.
        if value == {} and key.name in EXPERIMENTS:
            continue
        if value is None and key.optional:
            continue
        if key.kind == "choice" and value in (True, "on", "off") and "on" in key.choices:
            continue
        yield value
    if key.axis and key.minimum == 0 and key.kind == "whole":
        yield 2**32
    if not key.axis:
        yield [1]


CASES = [(key, value) for key in KEYS.values() for value in wrong(key)]


def test_the_cases_are_many_and_of_every_key() -> None:
    assert len(CASES) > 1000
    assert {key.name for key, _ in CASES} == set(KEYS)


def words(value: Any) -> set[str]:
    """Return all texts in nested values."""
    if isinstance(value, dict):
        return set().union(*map(words, value.values()))
    if isinstance(value, list):
        return set().union(*map(words, value))
    return {value} if isinstance(value, str) else set()


@pytest.fixture(scope="session")
def few(composed: dict[str, Any]) -> dict[str, Any]:
    """The smoke configuration with the rules and laws that it uses, whose checks take long."""
    used = words(composed["experiment"])
    return composed | {
        kind: {name: entry for name, entry in composed[kind].items() if name in used}
        for kind in ("scale_rules", "input_laws")
    }


@pytest.mark.parametrize("name", KEYS)
def test_a_wrong_value_is_refused_in_one_line(
    composed: dict[str, Any], few: dict[str, Any], name: str
) -> None:
    # The line about a wrong name may list them all.
    base = composed if KEYS[name].kind == "name" else few
    for value in wrong(KEYS[name]):
        with pytest.raises(ConfigError) as refused:
            resolve.resolve(base | {"path": FILE} | {name: value})
        line = str(refused.value)
        assert "\n" not in line, value
        assert "\0" not in line, value
        assert len(line) < 600, value
        assert line.startswith(f"{name}: "), (value, line)
        assert "allowed" in line or "listed twice" in line, (value, line)


@pytest.mark.parametrize("name", KEYS)
def test_a_wrong_value_is_refused_under_its_experiment_too(few: dict[str, Any], name: str) -> None:
    experiment = next(
        experiment
        for experiment, module in EXPERIMENTS.items()
        if name in {key.name for key in module.config_keys} and experiment not in EXAMPLES
    )
    for value in wrong(KEYS[name]):
        with pytest.raises(ConfigError) as refused:
            resolve.resolve(few | {"path": FILE} | {experiment: {name: value}})
        assert str(refused.value).startswith(f"{name}: "), value


FOLDERS = ("1e999", "nan", "inf", "0b1", "0x10", "1_000", "None", "null")
"""Strange names that are valid folders."""

NAMES = ["a/b", "x" * 65, ".hidden", "-x", "shards", "Shards", "benchmarks", "con fig", -1, True]


@pytest.mark.parametrize("value", [*(x for x in STRANGE if x not in FOLDERS), *NAMES])
def test_a_wrong_name_of_a_run_is_refused(composed: dict[str, Any], value: Any) -> None:
    with pytest.raises(ConfigError) as refused:
        resolve.resolve(composed | {"name": value})
    assert str(refused.value).startswith("name: ")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("value", FOLDERS)
def test_a_strange_name_that_is_a_folder_is_taken(composed: dict[str, Any], value: str) -> None:
    assert resolve.resolve(composed | {"name": value}).name == value


SOME = [x for x in STRANGE if x is not None]
"""None is every experiment."""


@pytest.mark.parametrize("value", [*SOME, "scalng", ["scaling", "scaling"], 3, True])
def test_a_wrong_choice_of_experiments_is_refused(composed: dict[str, Any], value: Any) -> None:
    with pytest.raises(ConfigError) as refused:
        resolve.resolve(composed | {"experiments": value})
    assert str(refused.value).startswith("experiments: ")
    assert "\n" not in str(refused.value)


@pytest.fixture
def wrong_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working folder of the commands, which holds only wrong files."""
    (tmp_path / "files").mkdir()
    for name, content in mistakes.FILES.items():
        (tmp_path / "files" / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("module", mistakes.mains())
def test_a_command_given_wrong_answers_in_one_line(
    wrong_files: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    module: str,
) -> None:
    # Those that need no finished run; `python -m campaigns.mistakes` gives all, as processes.
    given = [one for one in mistakes.of_modules() if one.module == module]
    given = [one for one in given if not re.search("mine/config|broken", " ".join(one.arguments))]
    assert len(given) > 1
    file = str(ROOT / "src" / module.replace(".", "/")) + ".py"
    file = file if Path(file).exists() else file.replace(".py", "/__main__.py")
    for one in given:
        monkeypatch.setattr(sys, "argv", [file, *one.arguments])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(file, run_name="__main__")
        assert ended.value.code in (1, 2) or str(ended.value.code).startswith("sqrtdk: "), one
        said = capsys.readouterr()
        line = said.err or f"{ended.value.code}\n"
        assert said.out == "", one
        assert line.startswith("sqrtdk: "), one
        assert line.count("\n") == 1, one
    assert {path.name for path in wrong_files.iterdir()} == {"files"}
