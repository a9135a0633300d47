"""Check the named scale rules and input laws of a configuration."""

import re
from collections.abc import Callable, Mapping
from types import UnionType
from typing import Any, get_args

from sqrtdk.config.errors import ConfigError, invalid_value, join, unknown
from sqrtdk.config.values import as_word, read_number
from sqrtdk.core import input_laws, scale_rules
from sqrtdk.core.checks import parameters_of
from sqrtdk.schema import Document

ENTRY_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,31}")
NO_NAMES = ("true", "false", "yes", "no", "y", "n", "null", "none", "nan", "inf", "infinity")
"""Words that YAML, Hydra or Snakemake do not read as text."""

FORMULAS: dict[str, tuple[str, Mapping[str, Callable[..., Any]]]] = {
    "scale_rules": ("rule", scale_rules.RULES),
    "input_laws": ("law", input_laws.FORMULAS),
}
"""For each mapping of named entries: the entry's key that names the formula, and the formulas."""


def check_entries(mapping: str, value: object) -> Mapping[str, Document]:
    """Check the named entries of `scale_rules` or `input_laws` and fill in their defaults.

    A formula's parameters are its keyword-only ones. Their annotations define what is allowed.
    """
    word, formulas = FORMULAS[mapping]
    if not isinstance(value, Mapping):
        raise invalid_value(mapping, value, "a mapping from name to entry")
    result = {}
    for given, entry in value.items():
        name = as_word(given)
        where = f"{mapping}.{name}"
        if not (isinstance(name, str) and ENTRY_NAME.fullmatch(name)) or name.lower() in NO_NAMES:
            allowed = "names of letters, digits and '_', at most 32, the first a letter"
            raise invalid_value(mapping, name, f"{allowed}; not {join(NO_NAMES)}, which are values")
        if not isinstance(entry, Mapping):
            raise invalid_value(
                where, entry, f"a mapping such as {{{word}: {next(iter(formulas))}}}"
            )
        if word not in entry:
            raise ConfigError(f"{where}: {word} is missing; allowed: {' or '.join(formulas)}")
        formula = str(entry[word])
        if formula not in formulas:
            raise invalid_value(f"{where}.{word}", formula, " or ".join(formulas), formulas)
        has = parameters_of(formulas[formula])
        # Defaults are written out, because the address of a shard must contain everything that
        # its numbers depend on.
        filled = dict(entry)
        for parameter, item in entry.items():
            if parameter == word:
                continue
            if parameter not in has:
                raise unknown(parameter, [word, *has], f" in {where}")
            at = f"{where}.{parameter}"
            filled[parameter] = _parameter(at, item, has[parameter].annotation)
        for parameter, known in has.items():
            if parameter not in entry:
                if known.default is known.empty:
                    raise ConfigError(f"{where}: {formula} needs {parameter}")
                filled[parameter] = known.default
        try:
            _try(mapping, filled)
        except ValueError as error:
            raise ConfigError(f"{where}: {error}{given_parameters(filled, word)}") from None
        result[name] = filled
    return result


def given_parameters(entry: Document, word: str) -> str:
    """Return the parameters of an entry in parentheses, for the end of a message."""
    values = " ".join(f"{name}={value}" for name, value in entry.items() if name != word)
    return f" ({values})" if values else ""


def _try(mapping: str, entry: Document) -> None:
    """Evaluate an entry at the smallest sizes, so that bad parameters raise an error."""
    if mapping == "scale_rules":
        scale_rules.factor(entry, d_k=1, n_k=2)
    else:
        input_laws.draw(entry, d_k=1, n_k=2, n_q=1, d_v=1, seed=0, dtype="float64")


def _parameter(where: str, value: object, annotation: Any) -> Any:
    """Return a value if a formula's annotation allows it: float, Literal of words, or None."""
    allowed: list[str] = []
    for kind in get_args(annotation) if isinstance(annotation, UnionType) else (annotation,):
        if kind is type(None):
            allowed.append("null")
            if value is None:
                return None
        elif kind is float:
            allowed.append("finite numbers")
            number = read_number(value)
            if number is not None:
                return number
        else:
            allowed += get_args(kind)
            if isinstance(value, str) and value in get_args(kind):
                return value
    raise invalid_value(where, value, " or ".join(allowed))
