"""Read YAML files and numbers of a configuration, more strictly than YAML does."""

import contextlib
import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from sqrtdk.config.errors import ConfigError, given_twice, invalid_value
from sqrtdk.messages import shorten
from sqrtdk.schema import Document
from sqrtdk.system import errors

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def read_config(path: Path) -> Document:
    """Return the content of a configuration file. Raises ConfigError, which names the file."""
    try:
        found = read_text(path.read_text(encoding="utf-8-sig"))
        if not isinstance(found, dict):
            raise ConfigError(f"{shorten(found)} is not a mapping from key to value")
    except (ConfigError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None
    return found


def read_text(text: str) -> Any:
    """Return the value of a YAML or JSON text, with YAML's own types only. Raises ConfigError.

    Also raises for text that YAML silently accepts but users do not mean: a repeated key, of
    which the last would win, and numbers in other than decimal digits.
    """
    with contextlib.suppress(ValueError):
        try:
            return json.loads(text, object_pairs_hook=_once)
        except RecursionError:
            raise ConfigError(f"nested more than {MAX_DEPTH} deep") from None
    try:
        if FastLoader is not None and PLAIN.fullmatch(text):
            with contextlib.suppress(yaml.YAMLError):
                return _load(text, FastLoader)
            # What the one in C refuses, the other one takes or has the words for.
        return _load(text, Loader)
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise ConfigError(f"{line}{errors.one_line(Exception(error.problem))}") from None
    except yaml.YAMLError as error:
        raise ConfigError(errors.one_line(error)) from None
    except ValueError as error:
        # For example, a date that does not exist.
        raise ConfigError(errors.one_line(error)) from None


def _load(text: str, kind: Any) -> Any:
    _check_events(text, kind)
    loader = kind(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _check_node(node)
        return loader.construct_document(node)
    finally:
        loader.dispose()


class Loader(yaml.SafeLoader):
    """Load YAML without dates: 2030-01-02 is text, as in Hydra."""


Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in known if not tag.endswith(":timestamp")]
    for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}

FastLoader: Any = None
"""The same in C, where PyYAML has it: each job reads the configuration of its run."""

if yaml.__with_libyaml__:
    FastLoader = type("FastLoader", (yaml.CSafeLoader,), {})
    FastLoader.yaml_implicit_resolvers = Loader.yaml_implicit_resolvers

PLAIN = re.compile(r"[\n A-Za-z0-9_.,:'\[\]{}#+/-]*")
"""Text that both loaders read alike, unless the one in C refuses it."""


def read_typed(key: str, text: str) -> Any:
    """Return the value of KEY=VALUE on a command line, read like a config file.

    Snakemake would read 010 as 10, and the numbers of a list as text. Raises ConfigError.
    """
    check_numbers(key, text)
    if key == "name" and NAME.fullmatch(text):
        # Text, even if YAML would read a number.
        return text
    try:
        return read_text(text)
    except ConfigError:
        # Text such as an open bracket is reported later, as an invalid value.
        return text


def _once(pairs: list[tuple[str, Any]]) -> Document:
    check_repeat(key for key, _ in pairs)
    return dict(pairs)


MAX_DEPTH, MAX_ALIASED_VALUES = 50, 10_000
"""Maximum nesting of a configuration, and the maximum number of values after expanding aliases:
nested aliases grow exponentially and would soon fill the memory."""


def _check_events(text: str, kind: Any) -> None:
    sizes: dict[str, int] = {}
    inside: list[tuple[str | None, int]] = []
    count = aliased = 0
    for event in yaml.parse(text, kind):
        # PyYAML itself fails for a tag that does not fit its value.
        tag = getattr(event, "tag", None)
        if tag is not None:
            allowed = "words, numbers, lists and mappings without tags"
            raise invalid_value("tag", tag, allowed)
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                raise ConfigError(f"alias *{event.anchor} is undefined or refers to itself")
            count += sizes[event.anchor]
            aliased += sizes[event.anchor]
        elif isinstance(event, yaml.ScalarEvent):
            count += 1
            sizes[event.anchor or ""] = 1
        elif isinstance(event, yaml.CollectionStartEvent):
            # An open collection must not be referred to.
            sizes.pop(event.anchor or "", None)
            inside.append((event.anchor, count))
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = inside.pop()
            sizes[anchor or ""] = count - before
        if len(inside) > MAX_DEPTH:
            raise ConfigError(f"nested more than {MAX_DEPTH} deep")
        if aliased > MAX_ALIASED_VALUES:
            raise ConfigError(f"its aliases expand to more than {MAX_ALIASED_VALUES} values")


DECIMAL = re.compile(
    r"[+-]?((0|[1-9]\d{0,3999})(\.\d{0,4000})?|\.\d{1,4000})(e[+-]?\d{1,9})?",
    flags=re.ASCII | re.IGNORECASE,
)
"""A number in decimal digits, without leading zeros. Python reads no more than 4300 digits."""

NUMERAL = re.compile(
    r"[+-]?((\d[\d_]*(\.[\d_]*)?|\.\d[\d_]*)(e[+-]?[\d_]+)?|0[xob][\da-f_]+"
    r"|\d[\d_]*(:[0-5]?\d)+(\.[\d_]*)?)",
    flags=re.ASCII | re.IGNORECASE,
)
"""Text that YAML, Python, Hydra or Snakemake may read as a number."""


def _check_node(node: yaml.Node, key: str = "value") -> None:
    if isinstance(node, yaml.MappingNode):
        keys = []
        for name, value in node.value:
            if not isinstance(name, yaml.ScalarNode):
                raise ConfigError(f"line {name.start_mark.line + 1}: a key is one word")
            if name.tag.endswith(":bool") and name.value.lower() not in ("on", "off"):
                # It would silently become a boolean or null.
                raise ConfigError(
                    f"{key}: {name.value} is not allowed as a key: YAML reads it as a value"
                )
            keys.append(name.value)
            _check_node(value, name.value)
        check_repeat(keys)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _check_node(value, key)
    elif isinstance(node, yaml.ScalarNode) and not node.style:
        check_number(key, node.value)


def check_number(key: str, text: str) -> None:
    """Raise ConfigError for a bare number that tools read as another number than users do.

    `010`, `0x10`, `1_000` and `1:30` are 8, 16, 1000 and 90 to YAML or to Snakemake.
    """
    if NUMERAL.fullmatch(text) and not DECIMAL.fullmatch(text):
        allowed = "numbers in decimal digits without leading zeros"
        if key == "name":
            allowed += f'; as a word "{text}" in a file, {key}=\'"{text}"\' on a command line'
        raise invalid_value(key, text, allowed)


def check_numbers(key: str, text: str) -> None:
    """Raise ConfigError for any such number among the bare words of a command line's value."""
    bare = re.sub(r"'[^']*'|\"[^\"]*\"", " ", text)
    for word in re.split(r"[\s,=(){}\[\]]+", bare):
        for part in (word, *word.split(":")):
            check_number(key, part)


def check_repeat(keys: Iterable[str]) -> None:
    """Raise ConfigError for a repeated key: otherwise the last value would win silently."""
    for key, count in Counter(keys).items():
        if count > 1:
            raise given_twice(key)
