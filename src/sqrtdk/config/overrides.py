"""Check Hydra overrides and nested keys of a command line."""

import difflib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqrtdk.config.entries import FORMULAS
from sqrtdk.config.errors import ConfigError, FormError, given_twice, invalid_value, nested, unknown
from sqrtdk.config.keys import RUN_KEYS, flat_keys, has_key, names_of_keys
from sqrtdk.config.values import as_word
from sqrtdk.config.yaml_reader import NAME, check_numbers, read_typed
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.schema import Document
from sqrtdk.system import errors, project_files

CONF = project_files.find("conf")

REPORTED = ("default", "research")
"""Grids of the reports; each experiment is in one of them."""

MOST_SWEPT = 10_000
"""Values of one range of a sweep; Hydra runs each combination on its own."""


def grids(experiment: str = "") -> list[str]:
    """Return the named grids that a run can choose, or those that an experiment has values for."""
    folder = CONF / "experiment" / experiment if experiment else CONF / "grid"
    return sorted(path.stem for path in folder.glob("*.yaml"))


def grids_of(experiment: str) -> list[str]:
    """Return the grids that an experiment has values for; those of the reports come first."""
    return sorted(grids(experiment), key=lambda grid: (grid not in REPORTED, grid))


def check_overrides(
    overrides: list[str],
    *,
    taken: Iterable[str] = (),
    extra: Iterable[str] = (),
    sweep: bool = False,
) -> list[str]:
    """Reject overrides that Hydra would silently misread, and return the others for Hydra.

    Flat keys are not in the composed files, so they are added with Hydra's `+`. `taken` are keys
    given elsewhere, `extra` further keys that this command has. `sweep` allows sweeps.
    """
    flat = flat_keys() | set(EXPERIMENTS)
    known = flat | set(RUN_KEYS) | set(extra)
    seen = dict.fromkeys(taken, "")
    result = []
    dotted: dict[str, tuple[str, str, Any]] = {}
    for line in overrides:
        override = _parsed(line)
        key = override.key_or_group
        top = re.split(r"[.@/]", key, maxsplit=1)[0]
        if top == "hydra":
            # Some of them execute Python, or write to and read from other folders.
            raise ConfigError(
                f"{key}: Hydra's own settings cannot be overridden here; give keys of a run"
            )
        if top not in known:
            raise _unknown_top(key, line.partition("=")[2], known)
        if override.is_delete():
            raise ConfigError(f"{line}: nothing can be deleted; allowed: {top}=VALUE")
        text = line.partition("=")[2]
        if key in seen or top in taken:
            raise given_twice(key, [seen[key], text]) if key in seen else given_twice(top)
        seen[key] = text
        if override.is_sweep_override():
            if key in extra:
                raise invalid_value(
                    key, text, f"one file; with quotes, {key}='\"{text}\"', this name"
                )
            _check_sweep(override, line, allowed=sweep)
        if key == "grid" and not override.is_sweep_override():
            _check_grid(key, override.value(), grids())
        if top not in extra:
            check_numbers(key, text)
        group, _, name = key.partition("/")
        if group == "experiment" and name in EXPERIMENTS and not override.is_sweep_override():
            _check_grid(key, override.value(), grids(name))
        if key == "experiment":
            raise ConfigError("experiment: what to build is chosen with experiments=NAME")
        if "." in key and line.startswith(key):
            place = check_dotted(key, override.value(), text)
            if place is not None:
                dotted[line] = (*place, override.value())
        if key == "name" and NAME.fullmatch(text):
            # Text, even if Hydra would read a number or null.
            line = f"name='{text}'"
        if key in flat and line.startswith(key):
            line = f"+{line}"
        elif top in FORMULAS and line.startswith(top):
            # `++` adds a new entry and changes an existing one.
            line = f"++{line}"
        result.append(line)
    if dotted:
        raise _dotted_error(overrides, dotted)
    return result


def _check_grid(key: str, grid: object, known: list[str]) -> None:
    """Raise ConfigError for an unknown grid; Hydra would leave out experiments without its file."""
    if grid not in known:
        raise invalid_value(key, grid, " or ".join(known), known)


def _dotted_error(overrides: list[str], dotted: Mapping[str, tuple[str, str, Any]]) -> FormError:
    """Return the error for keys with dots: the first one, and the form of all of its experiment.

    `dotted` holds the experiment, its key and the value of each of these overrides.
    """
    parsed = {line: _parsed(line) for line in overrides}
    line, (top, _, value) = next(iter(dotted.items()))
    mappings = [one for one in overrides if isinstance(parsed[one].value(), dict)]
    whole = [one for one in mappings if parsed[one].key_or_group == top]
    parts = [one.partition("=")[2].strip()[1:-1] for one in whole]
    for one, (experiment, part, _) in dotted.items():
        if experiment == top:
            text = "VALUE" if parsed[one].is_sweep_override() else one.partition("=")[2]
            parts.append(f"{part}: {text}")
    form = nested([top], "{" + ", ".join(parts) + "}")
    tried = not any(one.is_sweep_override() for one in parsed.values())
    rest = [one for one in overrides if one not in whole and dotted.get(one, ("",))[0] != top]
    instead = [*rest, form.replace("'", "")] if tried else None
    message = str(invalid_value(parsed[line].key_or_group, value, form))
    return FormError(message, top, instead)


def _parsed(line: str) -> Any:
    """Return Hydra's parse of an override. Raises ConfigError."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        return OverridesParser.create().parse_override(line)
    except HydraException as error:
        allowed = "allowed: KEY=VALUE, with quotes around a value that has signs"
        raise ConfigError(
            f"{line!r} is not an override: {errors.one_line(error)}; {allowed}"
        ) from None


def _check_sweep(override: Any, line: str, *, allowed: bool) -> None:
    """Raise ConfigError for a sweep where none is allowed, and for one without values."""
    from hydra.core.override_parser.types import Glob, IntervalSweep, RangeSweep

    key, _, text = line.partition("=")
    as_list = f"a list is {key}='[...]'"
    if not allowed:
        needs = "a sweep needs --multirun of python -m sqrtdk.run"
        raise ConfigError(f"{line}: {needs}; {as_list}")
    values = override.value()
    if isinstance(values, (Glob, IntervalSweep)):
        raise invalid_value(key, text, f"values one by one, choice(...) or range(...); {as_list}")
    if isinstance(values, RangeSweep) and not _is_countable(values):
        few = f"a range of finite numbers with at most {MOST_SWEPT:,} values"
        raise invalid_value(key, text, f"{few}; {as_list}")
    if next(override.sweep_iterator(), None) is None:
        raise invalid_value(key, text, f"a sweep of at least one value; {as_list}")


def _is_countable(values: Any) -> bool:
    """Return whether a range has finite ends, a step, and at most `MOST_SWEPT` values."""
    start, stop, step = (float(x) for x in (values.start or 0, values.stop or 0, values.step))
    finite = all(map(math.isfinite, (start, stop, step)))
    return finite and step != 0 and (stop - start) / step <= MOST_SWEPT


def check_dotted(key: str, value: object, text: str) -> tuple[str, str] | None:
    """Return the experiment and its key that a key with dots names. Raises ConfigError.

    None is a part of `scale_rules` or `input_laws`, which Hydra's grammar allows.
    """
    top, *rest = key.split(".")
    if top == "experiment":
        top, *rest = rest
    if top in FORMULAS:
        if len(rest) > 2 or (len(rest) == 2 and isinstance(value, Mapping)):
            allowed = f"{top}.{'_'.join(rest)}='{text}'" if isinstance(value, Mapping) else ""
            allowed = allowed or f"{top}.NAME.PARAMETER=VALUE"
            raise ConfigError(f"{key}: a name has no dots; allowed: {allowed}")
        return None
    if top not in {*EXPERIMENTS, *flat_keys(), *RUN_KEYS}:
        raise _unknown_top(".".join([top, *rest]), text, EXPERIMENTS)
    if top not in EXPERIMENTS:
        raise ConfigError(f"{key}: {top} has no keys of its own; allowed: {top}=VALUE")
    if not rest:
        raise invalid_value(key, value, nested([top], text))
    if not has_key(top, rest[0]):
        raise unknown(
            rest[0], names_of_keys(top), f" in {top}", lambda near: nested([top, near], text)
        )
    if len(rest) > 1:
        form = nested([top, rest[0]], "VALUE")
        raise ConfigError(f"{key}: {top}.{rest[0]} has no keys of its own; allowed: {form}")
    return top, rest[0]


def refuse_key(key: str, text: str, given: Sequence[tuple[str, str]] = ()) -> None:
    """Raise ConfigError for a key that `--config` does not take; `given` are all keys and texts."""
    top, *rest = key.split(".")
    if rest and all(rest) and top in {*flat_keys(), *EXPERIMENTS, *RUN_KEYS}:
        value = read_typed(key, text)
        place = check_dotted(key, value, text) or (top, *rest)
        if place[0] in EXPERIMENTS:
            lines = [f"{name}={word}" for name, word in given]
            check_overrides([line for line in lines if re.match(rf"{top}[.=]", line)])
        form = nested(place, text)
        raise FormError(str(invalid_value(key, value, form)), place[0], [form.replace("'", "")])
    error = _unknown_top(key, text, {*flat_keys(), *EXPERIMENTS, *RUN_KEYS})
    raise ConfigError(f"{error}; a key must start with a valid identifier and has no dots")


def _unknown_top(key: str, text: str, known: Iterable[str]) -> ConfigError:
    """Return the error for a key that no command has; the hint is a form that all accept."""
    top, *rest = re.split(r"[.@/]", key)
    blocks = sorted({*EXPERIMENTS, *FORMULAS})
    near = difflib.get_close_matches(top, blocks, n=1) if all(rest) and rest else []
    if near:
        return unknown(top, known, form=lambda _: nested([near[0], *rest], text))
    return unknown(key, known)


def blocks_of(overrides: Iterable[str]) -> set[str]:
    """Return the experiments that have keys of their own in the overrides."""
    parsed = [_parsed(line) for line in overrides]
    return {
        one.key_or_group.partition(".")[0]
        for one in parsed
        if "." in one.key_or_group or isinstance(one.value(), dict)
    }


def overlay(base: Document, values: Mapping[Any, Any]) -> Document:
    """Merge `values` over `base`, recursively for mappings; YAML's keys on and off are words."""
    result = dict(base)
    for key, value in values.items():
        word: Any = as_word(key)
        under = result.get(word)
        if isinstance(under, dict) and isinstance(value, Mapping):
            value = overlay(under, value)
        result[word] = value
    return result
