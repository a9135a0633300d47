"""Check Hydra overrides and nested keys of a command line."""

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from sqrtdk.config.entries import FORMULAS
from sqrtdk.config.errors import ConfigError, given_twice, invalid_value, nested, unknown
from sqrtdk.config.keys import RUN_KEYS, flat_keys, has_key, names_of_keys
from sqrtdk.config.yaml_reader import NAME, check_numbers, read_typed
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.system import errors, project_files

CONF = project_files.find("conf")

MOST_SWEPT = 10_000
"""Values of one range of a sweep; Hydra runs each combination on its own."""


def grids(experiment: str = "") -> list[str]:
    """Return the named grids that a run can choose, or those that an experiment has values for."""
    folder = CONF / "experiment" / experiment if experiment else CONF / "grid"
    return sorted(path.stem for path in folder.glob("*.yaml"))


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
            raise unknown(top, known)
        if key in seen or top in taken:
            raise given_twice(key if key in seen else top)
        seen[key] = line
        text = line.partition("=")[2]
        if override.is_sweep_override():
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
            check_dotted(key, override.value(), "VALUE" if override.is_sweep_override() else text)
        if key == "name" and NAME.fullmatch(text):
            # Text, even if Hydra would read a number or null.
            line = f"name='{text}'"
        if key in flat and line.startswith(key):
            line = f"+{line}"
        elif top in FORMULAS and line.startswith(top):
            # `++` adds a new entry and changes an existing one.
            line = f"++{line}"
        result.append(line)
    return result


def _check_grid(key: str, grid: object, known: list[str]) -> None:
    """Raise ConfigError for an unknown grid; Hydra would leave out experiments without its file."""
    if grid not in known:
        raise invalid_value(key, grid, " or ".join(known), known)


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


def check_dotted(key: str, value: object, text: str) -> None:
    """Reject a key with dots that no command takes; the message shows the form that works.

    Hydra's grammar allows this form for parts of `scale_rules` and `input_laws`.
    """
    top, *rest = key.split(".")
    if top == "experiment":
        top, *rest = rest
    if top in FORMULAS:
        return
    if top not in EXPERIMENTS:
        raise ConfigError(f"{key}: {top} has no keys of its own; allowed: {top}=VALUE")
    if rest and not has_key(top, rest[0]):
        raise unknown(rest[0], names_of_keys(top), f" in {top}")
    raise invalid_value(key, value, nested([top, *rest], text))


def refuse_key(key: str, text: str) -> None:
    """Raise ConfigError for a key that `--config` does not take."""
    top, *rest = key.split(".")
    if rest and all(rest) and top in {*flat_keys(), *EXPERIMENTS, *RUN_KEYS}:
        value = read_typed(key, text)
        check_dotted(key, value, text)
        raise invalid_value(key, value, nested([top, *rest], text))
    error = unknown(key, {*flat_keys(), *EXPERIMENTS, *RUN_KEYS})
    raise ConfigError(f"{error}; a key must start with a valid identifier and has no dots")


def blocks_of(overrides: Iterable[str]) -> set[str]:
    """Return the experiments that have keys of their own in the overrides."""
    parsed = [_parsed(line) for line in overrides]
    return {
        one.key_or_group.partition(".")[0]
        for one in parsed
        if "." in one.key_or_group or isinstance(one.value(), dict)
    }


def overlay(base: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Merge `values` over `base`, recursively for mappings."""
    result = dict(base)
    for key, value in values.items():
        under = result.get(key)
        if isinstance(under, dict) and isinstance(value, Mapping):
            value = overlay(under, value)
        result[key] = value
    return result
