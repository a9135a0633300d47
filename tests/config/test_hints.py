"""Every name that a message suggests is accepted; nothing is measured.

`corrected` also serves the test of whole commands in test_commands.py.
"""

import re
from collections.abc import Sequence
from typing import Any

import pytest
from config.test_mistakes import FILE, KEYS

from sqrtdk.config import resolve
from sqrtdk.config.errors import ConfigError
from sqrtdk.experiments.registry import EXPERIMENTS

FORM = re.compile(r"""(\w+)='((?:"[^"]*"|[^'"])*)'""")
"""A key, and its value in the quotes of a shell."""


def corrected(words: Sequence[str], said: str) -> list[str] | None:
    """Return words as a message suggests them, or None if it has no form without a gap."""
    chosen = re.findall(r"\bexperiments=\w+$", said)
    forms = [(key, text) for key, text in FORM.findall(said) if "VALUE" not in text]
    given = re.match(r"(?:sqrtdk: )?(?:unknown key ')?(\w+)", said)
    old = {key for key, _ in forms} | {given[1] if given and forms else ""}
    old |= {"experiments"} if chosen else set()
    rest = [
        word for word in words if re.split("[.=]", word.removeprefix("experiment."))[0] not in old
    ]
    return [*rest, *(f"{key}={text}" for key, text in forms), *chosen] if forms or chosen else None


def suggested(values: dict[str, Any]) -> str | None:
    """Return the name that the error of a configuration suggests, or None."""
    with pytest.raises(ConfigError) as refused:
        resolve.resolve(values)
    found = re.search(r"did you mean (\w+)\?$", str(refused.value))
    return found and found[1]


VALUES = {"whole": 4, "number": 0.5}
NAMES = [key for key in KEYS.values() if key.kind in (*VALUES, "choice", "name")]


def right(composed: dict[str, Any], key: Any) -> Any:
    """Return a value that a key takes."""
    names = list(composed[key.named_in]) if key.named_in else key.choices
    if key.kind == "whole":
        return max(VALUES["whole"], key.minimum)
    return VALUES.get(key.kind) or names[-1]


@pytest.mark.parametrize("key", NAMES, ids=lambda key: key.name)
def test_a_key_that_is_suggested_is_taken(composed: dict[str, Any], key: Any) -> None:
    base = composed | {"path": FILE}
    for wrong in (key.name.upper(), key.name + key.name[-1]):
        near = suggested(base | {wrong: 1})
        assert near is not None
        resolve.resolve(base | {near: right(composed, KEYS[near])})


@pytest.mark.parametrize(
    "key", [key for key in NAMES if key.kind not in VALUES], ids=lambda key: key.name
)
def test_a_value_that_is_suggested_is_taken(composed: dict[str, Any], key: Any) -> None:
    base = composed | {"path": FILE}
    value = right(composed, key)
    near = suggested(base | {key.name: value + value[-1]})
    assert near == value
    resolve.resolve(base | {key.name: near})


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_example_of_a_mapping_is_taken(composed: dict[str, Any], name: str) -> None:
    base = composed | {"experiments": name} | ({"path": FILE} if name == "tensors" else {})
    with pytest.raises(ConfigError) as refused:
        resolve.resolve(base | {name: ["x"]})
    for key, text in FORM.findall(str(refused.value)):
        inner, number = text.strip("{}").split(": ")
        resolve.resolve(base | {key: {inner: int(number)}})


def test_no_value_is_near_no_name(composed: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as refused:
        resolve.resolve(composed | {"inputs": None})
    assert "did you mean" not in str(refused.value)
