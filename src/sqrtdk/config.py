"""The configuration: composed by Hydra, checked against the keys, resolved into one `Run`.

Every error a person can make in a configuration is found here and answered with one line.
A flat key (`d_k`) applies to every experiment of the run that has it; under an experiment's name
(`scaling: {d_k: 16}`) it applies to that one alone.
"""

import contextlib
import difflib
import inspect
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, get_args

import yaml

from sqrtdk import commands, inputs, resources, scales
from sqrtdk.experiments.registry import EXAMPLES, EXPERIMENTS
from sqrtdk.keys import Key

CONF = Path(__file__).resolve().parents[2] / "conf"

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
ENTRY_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,31}")
RESERVED = ("shards", "benchmarks")

RUN_KEYS = {
    "name": "Folder of the run, results/<name>/: letters, digits, '_', '-' and '.', at most 64, "
    "the first a letter or digit.",
    "experiments": "What to build: one experiment or a list. Default: all of the report.",
    "grid": "Named grid, a file of conf/grid/.",
    "shard_seeds": "Seeds that one job computes (1 to 1000). Changes cost, never numbers.",
    "scale_rules": "Named scale rules, each a formula of scales.py and its parameters.",
    "input_laws": "Named input laws, each a formula of inputs.py and its parameters.",
    "experiment": "Each experiment's own block, as the files of conf/ fill it.",
}
SEEDS = "seeds"

MOST_SHARD_SEEDS = 1000
"""A job keeps its rows in memory, some 6 kB each, until the shard is whole."""

MOST_SHARDS = 20_000
"""Snakemake plans some hundred jobs a second and keeps them all in memory."""

FORMULAS: dict[str, tuple[str, Mapping[str, Callable[..., Any]]]] = {
    "scale_rules": ("rule", scales.RULES),
    "input_laws": ("law", {name: law.formula for name, law in inputs.LAWS.items()}),
}
"""For each mapping of named entries: the entry's key that names the formula, and the formulas."""


class ConfigError(commands.MistakeError):
    """A mistake in the configuration; the message is one line for the person who made it."""


def refuse(key: str, value: object, allowed: str, known: Iterable[str] = ()) -> ConfigError:
    """The error for a bad value: the key, the value, what is allowed and the nearest name."""
    return ConfigError(
        f"{key}: {commands.shorten(value)} is not allowed; allowed: {allowed}{_hint(value, known)}"
    )


def unknown(key: object, known: Iterable[str], where: str = "") -> ConfigError:
    """The error for a key that nothing has, with the nearest that something has."""
    known = sorted(known)
    listed = f"known: {', '.join(known)}{_hint(key, known)}"
    return ConfigError(f"unknown key {str(key)!r}{where}; {listed}")


def _hint(given: object, known: Iterable[str]) -> str:
    # A key in other letters is nearer than any other key.
    folded = {name.lower(): name for name in known}
    near = difflib.get_close_matches(str(given).lower(), list(folded), n=1, cutoff=0.5)
    return f"; did you mean {folded[near[0]]}?" if near else ""


def grids() -> list[str]:
    """The named grids that a run can choose."""
    return sorted(path.stem for path in (CONF / "grid").glob("*.yaml"))


def flat_keys() -> set[str]:
    """Every key that some experiment has, as the command line spells it."""
    return {key.name for module in EXPERIMENTS.values() for key in module.KEYS} | {SEEDS}


def given_twice(key: str) -> ConfigError:
    """The error for a repeated key, of which the last would win in silence."""
    return ConfigError(f"{key} is given twice; give it once, a list for several values")


@dataclass(frozen=True)
class Run:
    """A checked configuration.

    `settings` holds, for each experiment, the value of every key: a list for an axis; for a key
    of names, the mapping from name to entry. `seed` is a sorted list.
    """

    name: str
    shard_seeds: int
    settings: dict[str, dict[str, Any]]

    def of(self, experiment: str) -> dict[str, Any]:
        """The settings of one experiment. Raises ConfigError where the run has not got it."""
        if experiment not in self.settings:
            raise refuse("experiment", experiment, ", ".join(self.settings), self.settings)
        return self.settings[experiment]

    def to_yaml(self) -> str:
        """The resolved configuration as YAML that `--configfile` takes back."""
        document: dict[str, Any] = {
            "name": self.name,
            "experiments": list(self.settings),
            "shard_seeds": self.shard_seeds,
        }
        entries: dict[str, dict[str, Any]] = {}
        for experiment, settings in self.settings.items():
            block = document[experiment] = {}
            for key in EXPERIMENTS[experiment].KEYS:
                value = settings[key.name]
                if key.named_in:
                    entries.setdefault(key.named_in, {}).update(value)
                    value = list(value)
                if key.name == "seed" and value == list(range(len(value))):
                    block[SEEDS] = len(value)
                else:
                    block[key.name] = value
        for mapping in FORMULAS:
            # Also where no experiment of the run names an entry of it.
            entries.setdefault(mapping, {})
        return yaml.safe_dump(document | entries, sort_keys=False, default_flow_style=None)


def load(path: Path) -> Run:
    """The run of a resolved configuration file, as `Run.to_yaml` writes it. Raises ConfigError."""
    values = read(path)
    try:
        return resolve(values)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def read(path: Path) -> dict[str, Any]:
    """What a configuration file says. Raises ConfigError, which names the file."""
    try:
        found = read_text(path.read_text(encoding="utf-8-sig"))
        if not isinstance(found, dict):
            raise ConfigError(f"{commands.shorten(found)} is not a mapping from key to value")
    except (ConfigError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None
    return found


def read_text(text: str) -> Any:
    """The value of a YAML or JSON text; only of kinds that YAML itself has. Raises ConfigError.

    Also for what YAML would take in silence and a person did not mean: a key that stands twice,
    of which the last would win, and numbers in other than decimal digits.
    """
    with contextlib.suppress(ValueError):
        try:
            return json.loads(text, object_pairs_hook=_once)
        except RecursionError:
            raise ConfigError(f"nested more than {DEEPEST} deep") from None
    try:
        _check_events(text)
        node = yaml.compose(text, yaml.SafeLoader)
        if node is not None:
            _check_node(node)
        return yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise ConfigError(f"{line}{commands.one_line(Exception(error.problem))}") from None
    except yaml.YAMLError as error:
        raise ConfigError(commands.one_line(error)) from None
    except ValueError as error:
        # A date without a day that exists, for one.
        raise ConfigError(commands.one_line(error)) from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    check_repeat(key for key, _ in pairs)
    return dict(pairs)


DEEPEST, MOST = 50, 10_000
"""How deep a configuration may be nested, and how many values its aliases may stand for: one that
stands for ten of another, which stands for ten, soon fills the memory."""


def _check_events(text: str) -> None:
    sizes: dict[str, int] = {}
    inside: list[tuple[str | None, int]] = []
    count = aliased = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        # PyYAML itself fails where a tag says what a value is not.
        tag = getattr(event, "tag", None)
        if tag is not None:
            allowed = "words, numbers, lists and mappings without tags"
            raise refuse("tag", tag, allowed)
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                raise ConfigError(f"*{event.anchor} stands for nothing, or for what it is part of")
            count += sizes[event.anchor]
            aliased += sizes[event.anchor]
        elif isinstance(event, yaml.ScalarEvent):
            count += 1
            sizes[event.anchor or ""] = 1
        elif isinstance(event, yaml.CollectionStartEvent):
            # While it is open nothing may refer to it.
            sizes.pop(event.anchor or "", None)
            inside.append((event.anchor, count))
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = inside.pop()
            sizes[anchor or ""] = count - before
        if len(inside) > DEEPEST:
            raise ConfigError(f"nested more than {DEEPEST} deep")
        if aliased > MOST:
            raise ConfigError(f"its aliases stand for more than {MOST} values")


PLAIN = re.compile(
    r"[+-]?((0|[1-9]\d{0,399})(\.\d*)?|\.\d+)([eE][+-]?\d+)?|[+-]?\.?(inf|nan)",
    flags=re.ASCII | re.IGNORECASE,
)


def _check_node(node: yaml.Node, key: str = "value") -> None:
    if isinstance(node, yaml.MappingNode):
        keys = []
        for name, value in node.value:
            if not isinstance(name, yaml.ScalarNode):
                raise ConfigError(f"line {name.start_mark.line + 1}: a key is one word")
            keys.append(name.value)
            _check_node(value, name.value)
        check_repeat(keys)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _check_node(value, key)
    elif node.tag.endswith((":int", ":float")):
        check_number(key, node.value)


def check_number(key: str, text: str) -> None:
    """Refuse a number that a person reads as another one, or as none.

    `010`, `0x10`, `1_000` and `1:30` are 8, 16, 1000 and 90 to YAML or to Snakemake.
    """
    if not PLAIN.fullmatch(text):
        raise refuse(key, text, "numbers in decimal digits; with quotes it is a word")


def check_repeat(keys: Iterable[str]) -> None:
    """Refuse a key that is given twice, of which the last would win in silence."""
    for key, count in Counter(keys).items():
        if count > 1:
            raise given_twice(key)


def compose(overrides: list[str], values: Mapping[str, Any], config_name: str = "config") -> Run:
    """Compose the files of conf/ with Hydra overrides, then plain values on top, and resolve.

    Raises ConfigError.
    """
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    values = dict(values)
    if "grid" in values:
        grid = values.pop("grid")
        if grid not in grids():
            raise refuse("grid", grid, " or ".join(grids()), grids())
        overrides = [*overrides, f"grid={grid}"]
    arguments = check_overrides(overrides, taken=values)
    try:
        with initialize_config_dir(str(CONF), version_base="1.3"):
            composed: Any = OmegaConf.to_container(
                hydra_compose(config_name, arguments), resolve=True
            )
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(commands.one_line(error)) from None
    run = resolve(_overlay(composed, values))
    _check_shards(run)
    check_memory(run)
    return run


def check_overrides(
    overrides: list[str],
    *,
    taken: Iterable[str] = (),
    extra: Iterable[str] = (),
    sweep: bool = False,
) -> list[str]:
    """Refuse what Hydra would take in silence, and return the overrides as Hydra needs them.

    Flat keys are not in the composed files, so they are added with Hydra's `+`. `taken` are keys
    given elsewhere, `extra` further keys that this command has.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    flat = flat_keys() | set(EXPERIMENTS)
    known = flat | set(RUN_KEYS) | set(extra)
    seen = dict.fromkeys(taken, "")
    parser = OverridesParser.create()
    result = []
    for line in overrides:
        try:
            override = parser.parse_override(line)
        except HydraException as error:
            allowed = "allowed: KEY=VALUE, with quotes around a value that has signs"
            raise ConfigError(
                f"{line!r} is not an override: {commands.one_line(error)}; {allowed}"
            ) from None
        key = override.key_or_group
        top = re.split(r"[.@/]", key, maxsplit=1)[0]
        if top == "hydra":
            # Some of them name Python to call, or other folders to write to and to read from.
            raise ConfigError(
                f"{key}: how Hydra itself works cannot be changed; give keys of a run"
            )
        if top not in known:
            raise unknown(top, known)
        if key in seen:
            raise given_twice(key)
        seen[key] = line
        if override.is_sweep_override() and not sweep:
            raise ConfigError(f"{line}: a sweep needs --multirun; a list is {key}='[...]'")
        if key == "grid" and not override.is_sweep_override() and override.value() not in grids():
            raise refuse("grid", override.value(), " or ".join(grids()), grids())
        text = line.partition("=")[2]
        if not isinstance(override.value(), str) and (
            odd := re.search(r"(?<![\w.])\d[\d.]*_[\w.]*", text)
        ):
            # Hydra leaves out the sign, also in a name.
            raise refuse(key, text, f"numbers in decimal digits, not {odd[0]}")
        if key == "experiment":
            raise ConfigError("experiment: what to build is chosen with experiments=NAME")
        if key in flat and line.startswith(key):
            line = f"+{line}"
        elif top in FORMULAS and line.startswith(top):
            # A new entry needs no more ceremony than a changed one.
            line = f"++{line}"
        result.append(line)
    return result


def _overlay(base: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """`values` on top of `base`, mappings merged."""
    result = dict(base)
    for key, value in values.items():
        under = result.get(key)
        if isinstance(under, dict) and isinstance(value, Mapping):
            value = _overlay(under, value)
        result[key] = value
    return result


def resolve(composed: Mapping[str, Any]) -> Run:
    """Check a composed configuration and resolve it. Raises ConfigError."""
    flat, blocks = flat_keys(), set(EXPERIMENTS)
    for key in composed:
        if key not in flat | blocks | set(RUN_KEYS):
            raise unknown(key, flat | blocks | set(RUN_KEYS))
    names = _chosen(composed)
    # A resolved configuration has only the entries that its experiments use: maybe none.
    entries = {mapping: _entries(mapping, composed.get(mapping, {})) for mapping in FORMULAS}

    # A word that is both an axis and an experiment (scaling): a mapping is the experiment's.
    everywhere = {
        key: value
        for key, value in composed.items()
        if key in flat and not (key in blocks and isinstance(value, Mapping))
    }
    for key, value in everywhere.items():
        if not any(_follows(name, key) for name in names):
            example = next((name for name in names if _has(name, key)), None)
            if example is not None:
                raise ConfigError(
                    f"{key}: {example} is an example, which keeps its numbers; "
                    f"{example}='{{{key}: {value}}}' changes them"
                )
            raise ConfigError(f"{key}: none of the run's experiments has it: {', '.join(names)}")

    blocks_of = composed.get("experiment") or {}
    settings = {}
    for name in names:
        layers: dict[str, Mapping[str, Any]] = {
            f"experiment.{name}": _block(f"experiment.{name}", blocks_of.get(name), axis=False),
            "": _flat(name, everywhere, entries["scale_rules"]),
            name: _block(name, composed.get(name), axis=name in flat),
        }
        settings[name] = _experiment(name, layers, entries)
    for name in blocks - set(names):
        # What is said of the others is not needed here, and may be wrong all the same.
        for key in _block(name, composed.get(name), axis=name in flat):
            if not _has(name, key):
                raise unknown(
                    key, {*(k.name for k in EXPERIMENTS[name].KEYS), SEEDS}, f" in {name}"
                )
    run = Run(_run_name(composed.get("name", "default")), _shard_seeds(composed), settings)
    _check_formulas(run)
    return run


def _flat(
    experiment: str, everywhere: Mapping[str, Any], rules: Mapping[str, Any]
) -> dict[str, Any]:
    """The flat keys that an experiment has. One of factors alone takes only such scale rules."""
    found = {key: value for key, value in everywhere.items() if _follows(experiment, key)}
    if EXPERIMENTS[experiment].FACTORS_ONLY and "scaling" in found:
        given = [_word(name) for name in _as_list("scaling", found.pop("scaling"))]
        kept = [name for name in given if name not in rules or scales.is_factor(rules[str(name)])]
        if kept:
            found["scaling"] = kept
    return found


def _block(experiment: str, value: object, *, axis: bool) -> Mapping[str, Any]:
    """What stands under an experiment's name; `axis` says that a plain value is not for it."""
    if isinstance(value, Mapping):
        return value
    if value is None or axis:
        return {}
    raise refuse(experiment, value, f"a mapping of its keys such as {experiment}='{{d_k: [16]}}'")


def _has(experiment: str, key: str) -> bool:
    return ("seed" if key == SEEDS else key) in {k.name for k in EXPERIMENTS[experiment].KEYS}


def _follows(experiment: str, key: str) -> bool:
    """Whether a flat key is for an experiment: it has the key and is no example."""
    return experiment not in EXAMPLES and _has(experiment, key)


def _run_name(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not (isinstance(value, str) and NAME.fullmatch(value)) or value.lower() in RESERVED:
        raise refuse(
            "name", value, f"{RUN_KEYS['name'].split(': ')[1]} Not {' or '.join(RESERVED)}"
        )
    return value


def _shard_seeds(composed: Mapping[str, Any]) -> int:
    meaning = RUN_KEYS["shard_seeds"]
    key = Key("shard_seeds", "whole", meaning, maximum=MOST_SHARD_SEEDS, axis=False)
    return int(_value(key, composed.get("shard_seeds", 50), {}))


def _chosen(composed: Mapping[str, Any]) -> list[str]:
    """The run's experiments, in the order of the configuration."""
    given = composed.get("experiment") or {}
    if not isinstance(given, Mapping):
        raise refuse("experiment", given, "a mapping from experiment to its keys")
    blocks = list(given) or list(EXPERIMENTS)
    wanted = composed.get("experiments")
    listed = blocks if wanted is None else _as_list("experiments", wanted)
    for name in listed:
        if not isinstance(name, str) or name not in EXPERIMENTS:
            raise refuse("experiments", name, ", ".join(EXPERIMENTS), EXPERIMENTS)
    _refuse_repeat("experiments", listed)
    return listed


def _entries(mapping: str, value: object) -> dict[str, dict[str, Any]]:
    """The named entries of `scale_rules` or `input_laws`, checked, defaults filled in.

    A formula's parameters are its keyword-only ones; their annotations say what is allowed.
    """
    word, formulas = FORMULAS[mapping]
    if not isinstance(value, Mapping):
        raise refuse(mapping, value, "a mapping from name to entry")
    result = {}
    for given, entry in value.items():
        name = _word(given)
        where = f"{mapping}.{name}"
        if not (isinstance(name, str) and ENTRY_NAME.fullmatch(name)):
            raise refuse(mapping, name, "names of letters, digits and '_', at most 32")
        if not isinstance(entry, Mapping):
            raise refuse(where, entry, f"a mapping such as {{{word}: {next(iter(formulas))}}}")
        formula = str(entry.get(word))
        if formula not in formulas:
            raise refuse(f"{where}.{word}", formula, " or ".join(formulas), formulas)
        has = {
            p.name: p
            for p in inspect.signature(formulas[formula]).parameters.values()
            if p.kind is p.KEYWORD_ONLY and p.name not in ("d_k", "n_k", "n_q")
        }
        for parameter, item in entry.items():
            if parameter == word:
                continue
            if parameter not in has:
                raise unknown(parameter, [word, *has], f" in {where}")
            _check_parameter(f"{where}.{parameter}", item, has[parameter].annotation)
        # Defaults are written out, because the address of a shard has to say all that its
        # numbers depend on.
        filled = dict(entry)
        for parameter, known in has.items():
            if parameter not in entry:
                if known.default is known.empty:
                    raise ConfigError(f"{where}: {formula} needs {parameter}")
                filled[parameter] = known.default
        try:
            _try(mapping, filled)
        except (ValueError, ArithmeticError) as error:
            raise ConfigError(f"{where}: {error}") from None
        result[name] = filled
    return result


def _try(mapping: str, entry: dict[str, Any]) -> None:
    """Use an entry at the smallest sizes, so that it answers for its parameters."""
    if mapping == "scale_rules":
        scales.factor(entry, d_k=1, n_k=2)
    else:
        inputs.draw(entry, d_k=1, n_k=2, n_q=1, d_v=1, seed=0, dtype="float64")


def _check_parameter(where: str, value: object, annotation: Any) -> None:
    """Refuse a value that a formula's annotation (float, Literal of words, or None) excludes."""
    allowed, fits = [], False
    for kind in get_args(annotation) if isinstance(annotation, UnionType) else (annotation,):
        if kind is type(None):
            allowed.append("null")
            fits |= value is None
        elif kind is float:
            allowed.append("finite numbers")
            fits |= _number(value) is not None
        else:
            allowed += get_args(kind)
            fits |= isinstance(value, str) and value in get_args(kind)
    if not fits:
        raise refuse(where, value, " or ".join(allowed))


def _number(value: object) -> float | None:
    """A finite number as it is, or None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    # Not math.isfinite, which raises for a whole number that no float holds.
    return value if abs(value) <= sys.float_info.max else None


def _word(value: object) -> object:
    """YAML reads a bare on or off as a boolean; the arms are words."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


def _experiment(
    name: str, layers: Mapping[str, Mapping[str, Any]], entries: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """One experiment's settings: later layers over earlier ones, every key checked."""
    keys = {key.name: key for key in EXPERIMENTS[name].KEYS}
    merged: dict[str, Any] = {}
    for where, layer in layers.items():
        for key in layer:
            if not _has(name, key):
                raise unknown(key, {*keys, SEEDS}, f" in {where}")
        if {"seed", SEEDS} <= layer.keys():
            raise ConfigError("seed and seeds are both given; seeds=20 means seed 0 to 19")
        if {"seed", SEEDS} & layer.keys():
            merged.pop("seed", None)
            merged.pop(SEEDS, None)
        merged |= layer
    if SEEDS in merged:
        count = Key(SEEDS, "whole", keys["seed"].meaning, axis=False, maximum=10**7)
        merged["seed"] = list(range(_value(count, merged.pop(SEEDS), entries)))
    settings = {}
    for word, known in keys.items():
        if word not in merged:
            raise ConfigError(f"{name}: {word} is missing; allowed: {known.allowed}")
        settings[word] = _value(known, merged[word], entries)
    return settings


def _as_list(key: str, value: object) -> list[Any]:
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    if not values:
        raise refuse(key, value, "one value or a list that is not empty")
    return values


def _refuse_repeat(key: str, values: list[Any]) -> None:
    repeated = next((value for value, count in Counter(values).items() if count > 1), None)
    if repeated is not None:
        raise ConfigError(f"{key}: {repeated} is listed twice")


def _value(key: Key, value: object, entries: Mapping[str, Mapping[str, Any]]) -> Any:
    """A key's checked value: sorted for an axis of numbers, with the entries for one of names."""
    if not key.axis and isinstance(value, (list, tuple)):
        raise refuse(key.name, value, key.allowed)
    given = _as_list(key.name, value) if key.axis else [value]
    if key.named_in:
        known = entries[key.named_in]
        names = [str(_word(item)) for item in given]
        for name in names:
            if name not in known:
                raise refuse(key.name, name, ", ".join(known), known)
        _refuse_repeat(key.name, names)
        return {name: known[name] for name in names}
    if key.kind == "choice":
        for item in given:
            if item not in key.choices:
                raise refuse(key.name, item, key.allowed, key.choices)
        checked = given
    else:
        read = _whole if key.kind == "whole" else _above_0
        checked = sorted(read(key, item) for item in given)
    _refuse_repeat(key.name, checked)
    return checked if key.axis else checked[0]


def _whole(key: Key, value: object) -> int:
    """A whole number in range. 1e9 is one; true, 2.5 and '1_000' are none."""
    number: float | None = None
    if isinstance(value, str) and re.fullmatch(r"[+-]?\d{1,30}", value, flags=re.ASCII):
        number = int(value)
    elif isinstance(value, str) and re.fullmatch(r"[+-]?\d{1,30}(\.\d+)?[eE]\+?\d{1,2}", value):
        number = float(value)
    else:
        number = _number(value)
    top = math.inf if key.maximum is None else key.maximum
    if number is None or number != int(number) or not key.minimum <= number <= top:
        raise refuse(key.name, value, key.allowed)
    return int(number)


def _above_0(key: Key, value: object) -> float:
    """A finite number above 0. YAML takes 1e-3, without a point, for text."""
    digits = r"(\d{1,400}\.?\d{0,400}|\.\d{1,400})([eE][+-]?\d{1,9})?"
    written = isinstance(value, str) and re.fullmatch(digits, value, flags=re.ASCII)
    number = _number(float(str(value)) if written else value)
    if number is None or not number > 0:
        raise refuse(key.name, value, key.allowed)
    return float(number)


def _check_formulas(run: Run) -> None:
    """Try every scale rule of the run at every size, before any job."""
    for experiment, settings in run.settings.items():
        for d_k in settings.get("d_k", ()):
            for n_k in settings.get("n_k", ()):
                for name, entry in settings.get("scaling", {}).items():
                    try:
                        factor = scales.factor(entry, d_k=d_k, n_k=n_k)
                    except (ValueError, ArithmeticError) as error:
                        raise ConfigError(f"scale_rules.{name}: {error}") from None
                    if factor is None and EXPERIMENTS[experiment].FACTORS_ONLY:
                        allowed = f"for {experiment}, rules that are one factor of d_k and n_k"
                        raise refuse("scaling", name, allowed)
                    if factor is not None and not (math.isfinite(factor) and factor > 0):
                        at = f"at d_k={d_k}, n_k={n_k}"
                        raise ConfigError(f"scale_rules.{name}: the factor {at} is {factor}")


def _check_shards(run: Run) -> None:
    """Refuse a grid of more shards than Snakemake can plan. Raises ConfigError."""
    for name, settings in run.settings.items():
        lengths = {
            key: len(value) for key, value in settings.items() if isinstance(value, (list, dict))
        }
        together = ("seed", "scaling", *EXPERIMENTS[name].WITHIN)
        slabs = math.prod(count for key, count in lengths.items() if key not in together)
        n_seeds = lengths.get("seed", 1)
        n_shards = slabs * math.ceil(n_seeds / run.shard_seeds)
        if n_shards > MOST_SHARDS:
            sizes = ", ".join(f"{count} of {key}" for key, count in lengths.items() if count > 1)
            raise ConfigError(
                f"{name}: the grid has {n_shards:,} shards ({sizes}; {run.shard_seeds} seeds a "
                f"shard); allowed: at most {MOST_SHARDS:,}, by fewer values or more shard_seeds, "
                f"up to {MOST_SHARD_SEEDS:,}"
            )


def check_memory(run: Run) -> None:
    """Refuse a cell that this machine's free memory cannot hold.

    Not part of `resolve`: a finished run may be read on a smaller machine. Raises ConfigError.
    """
    free = resources.free_memory()
    for name, settings in run.settings.items():
        module = EXPERIMENTS[name]
        sizes = {
            key.name: max(settings[key.name]) if key.axis else settings[key.name]
            for key in module.KEYS
            if key.kind == "whole" and key.name != "seed"
        }
        # What the cells of a slab go through, because some experiments measure them side by side.
        lists = {key: settings[key] for key in (*module.WITHIN, "scaling") if key in settings}
        need = module.memory(sizes | lists)
        if need > free:
            # The size to blame is the one that saves most when it is 1.
            key = min(sizes, key=lambda size: module.memory(sizes | lists | {size: 1}))
            at_most = ", ".join(f"{n}={v}" for n, v in sizes.items() if n != key)
            raise refuse(
                key,
                sizes[key],
                f"what fits into memory: one cell with {at_most} needs {_gib(need)}, "
                f"{_gib(free)} are free",
            )


def _gib(count: int) -> str:
    return f"{count / 2**30:,.1f} GiB"
