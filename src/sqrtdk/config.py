"""The configuration: composed by Hydra, checked against the keys, resolved into one `Run`.

Every error a person can make in a configuration is found here and answered with one line.
A flat key (`d_k`) applies to every experiment of the run that has it; under an experiment's name
(`scaling: {d_k: 16}`) it applies to that one alone.
"""

import contextlib
import difflib
import inspect
import itertools
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import UnionType
from typing import Any, get_args

import yaml

from sqrtdk import commands, inputs, resources, scales, shards
from sqrtdk.experiments.registry import EXAMPLES, EXPERIMENTS
from sqrtdk.keys import Key

CONF = Path(__file__).resolve().parents[2] / "conf"

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
ENTRY_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,31}")
NO_NAMES = ("true", "false", "yes", "no", "y", "n", "null", "none", "nan", "inf", "infinity")
"""Words that YAML, Hydra or Snakemake read as something else than a word."""
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


FACTORS = (1e-15, 1e15)
"""The smallest and the largest number that a scale rule may come to at any size of the grid, and
that a key of numbers takes. Their squares, times a variance of up to 1e8, are floats of either
type; beyond them every weight is 1/n_k, or 0 and 1."""

MOST_NAMES = 100
"""Scale rules or input laws of one experiment: each is a line or a panel of the figures."""

MOST_BYTES = 100_000
"""Length of a job's grid point as JSON: it is an argument, and Linux takes 128 KiB in one."""

LISTED = 60
"""Names that a message lists at most."""


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
    if isinstance(key, str) and "." in key and not where:
        # As a config file may have it.
        top, *rest = key.split(".")
        if top in known and all(rest):
            way = nested([top, *rest], "VALUE")
            return ConfigError(f"{key}: a key with dots is not allowed; allowed: {way}")
    return ConfigError(
        f"unknown key {commands.shorten(str(key))}{where}; known: {_listed(known)}"
        f"{_hint(key, known)}"
    )


def _listed(names: Iterable[str]) -> str:
    """Return names as a message lists them: all, or the first of many.

    >>> _listed(map(str, range(1000))).split(", ")[-2:]
    ['59', '… (1000 in all)']
    """
    names = list(names)
    more = [f"… ({len(names)} in all)"] if len(names) > LISTED else []
    return ", ".join([*names[:LISTED], *more])


def _joined(names: Sequence[str]) -> str:
    """Return names as a sentence lists them.

    >>> _joined(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


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
    of names, the mapping from name to entry. `seed` is a sorted list. `notes` are lines that say
    what was asked for and has no effect somewhere.
    """

    name: str
    shard_seeds: int
    settings: dict[str, dict[str, Any]]
    notes: tuple[str, ...] = field(default=(), compare=False)

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
        loader = Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            _check_node(node)
            return loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise ConfigError(f"{line}{commands.one_line(Exception(error.problem))}") from None
    except yaml.YAMLError as error:
        raise ConfigError(commands.one_line(error)) from None
    except ValueError as error:
        # A date without a day that exists, for one.
        raise ConfigError(commands.one_line(error)) from None


class Loader(yaml.SafeLoader):
    """YAML's values without dates: 2030-01-02 is a word, as it is to Hydra."""


Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in known if not tag.endswith(":timestamp")]
    for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_typed(key: str, text: str) -> Any:
    """Return the value of KEY=VALUE on a command line, read as a config file is.

    Snakemake would read 010 as 10, and the numbers of a list as words. Raises ConfigError.
    """
    check_numbers(key, text)
    if key == "name" and NAME.fullmatch(text):
        # A word, also where YAML would read a number.
        return text
    try:
        return read_text(text)
    except ConfigError:
        # Such as an open bracket: it is answered as the word that it is.
        return text


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


DECIMAL = re.compile(
    r"[+-]?((0|[1-9]\d{0,3999})(\.\d{0,4000})?|\.\d{1,4000})(e[+-]?\d{1,9})?",
    flags=re.ASCII | re.IGNORECASE,
)
"""A number as a person writes it: in decimal digits, without leading zeros. Python makes no number
of more than 4300."""

NUMERAL = re.compile(
    r"[+-]?((\d[\d_]*(\.[\d_]*)?|\.\d[\d_]*)(e[+-]?[\d_]+)?|0[xob][\da-f_]+"
    r"|\d[\d_]*(:[0-5]?\d)+(\.[\d_]*)?)",
    flags=re.ASCII | re.IGNORECASE,
)
"""A number as YAML, Python, Hydra or Snakemake may read one."""


def _check_node(node: yaml.Node, key: str = "value") -> None:
    if isinstance(node, yaml.MappingNode):
        keys = []
        for name, value in node.value:
            if not isinstance(name, yaml.ScalarNode):
                raise ConfigError(f"line {name.start_mark.line + 1}: a key is one word")
            if name.tag.endswith(":bool") and name.value.lower() not in ("on", "off"):
                # It would become one of these in silence.
                raise ConfigError(
                    f"{key}: {name.value} is not allowed as a key: YAML reads it as a value"
                )
            keys.append(name.value)
            _check_node(value, name.value)
        check_repeat(keys)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _check_node(value, key)
    elif isinstance(node, yaml.ScalarNode) and node.style is None:
        check_number(key, node.value)


def check_number(key: str, text: str) -> None:
    """Refuse a bare number that a person reads as another one, or as none.

    `010`, `0x10`, `1_000` and `1:30` are 8, 16, 1000 and 90 to YAML or to Snakemake.
    """
    if NUMERAL.fullmatch(text) and not DECIMAL.fullmatch(text):
        allowed = "numbers in decimal digits without leading zeros"
        if key == "name":
            allowed += f'; as a word "{text}" in a file, {key}=\'"{text}"\' on a command line'
        raise refuse(key, text, allowed)


def check_numbers(key: str, text: str) -> None:
    """Refuse what `check_number` refuses among the bare words of a value on a command line."""
    bare = re.sub(r"'[^']*'|\"[^\"]*\"", " ", text)
    for word in re.split(r"[\s,=(){}\[\]]+", bare):
        for part in (word, *word.split(":")):
            check_number(key, part)


def check_repeat(keys: Iterable[str]) -> None:
    """Refuse a key that is given twice, of which the last would win in silence."""
    for key, count in Counter(keys).items():
        if count > 1:
            raise given_twice(key)


def compose(
    overrides: list[str],
    values: Mapping[str, Any],
    config_name: str = "config",
    typed: Iterable[str] = (),
) -> Run:
    """Compose the files of conf/ with Hydra overrides, then plain values on top, and resolve.

    `typed` are the keys among the values that were given on the command line. Raises ConfigError.
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
    run = resolve(overlay(composed, values), blocks_of(overrides) | set(typed))
    check(run)
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
            # Some of them name Python to call, or other folders to write to and to read from.
            raise ConfigError(
                f"{key}: how Hydra itself works cannot be changed; give keys of a run"
            )
        if top not in known:
            raise unknown(top, known)
        if key in seen or top in taken:
            raise given_twice(key if key in seen else top)
        seen[key] = line
        text = line.partition("=")[2]
        if override.is_sweep_override():
            _check_sweep(override, line, allowed=sweep)
        if key == "grid" and not override.is_sweep_override() and override.value() not in grids():
            raise refuse("grid", override.value(), " or ".join(grids()), grids())
        if top not in extra:
            check_numbers(key, text)
        if key == "experiment":
            raise ConfigError("experiment: what to build is chosen with experiments=NAME")
        if "." in key and line.startswith(key):
            check_dotted(key, override.value(), "VALUE" if override.is_sweep_override() else text)
        if key == "name" and NAME.fullmatch(text):
            # A word, also where Hydra would read a number or nothing.
            line = f"name='{text}'"
        if key in flat and line.startswith(key):
            line = f"+{line}"
        elif top in FORMULAS and line.startswith(top):
            # A new entry needs no more ceremony than a changed one.
            line = f"++{line}"
        result.append(line)
    return result


def _parsed(line: str) -> Any:
    """Return Hydra's reading of an override. Raises ConfigError."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        return OverridesParser.create().parse_override(line)
    except HydraException as error:
        allowed = "allowed: KEY=VALUE, with quotes around a value that has signs"
        raise ConfigError(
            f"{line!r} is not an override: {commands.one_line(error)}; {allowed}"
        ) from None


def _check_sweep(override: Any, line: str, *, allowed: bool) -> None:
    """Refuse a sweep where there is none, and one of no values. Raises ConfigError."""
    from hydra.core.override_parser.types import Glob, IntervalSweep

    key, _, text = line.partition("=")
    as_list = f"a list is {key}='[...]'"
    if not allowed:
        needs = "a sweep needs --multirun of python -m sqrtdk.run"
        raise ConfigError(f"{line}: {needs}; {as_list}")
    values = override.value()
    if isinstance(values, (Glob, IntervalSweep)):
        raise refuse(key, text, f"values one by one, choice(...) or range(...); {as_list}")
    if next(override.sweep_iterator(), None) is None:
        raise refuse(key, text, f"a sweep of at least one value; {as_list}")


def check_dotted(key: str, value: object, text: str) -> None:
    """Refuse a key with dots that no command takes; the message has the way that works.

    Parts of `scale_rules` and `input_laws` may be given so in Hydra's grammar.
    """
    top, *rest = key.split(".")
    if top == "experiment":
        top, *rest = rest
    if top in FORMULAS:
        return
    if top not in EXPERIMENTS:
        raise ConfigError(f"{key}: {top} has no keys of its own; allowed: {top}=VALUE")
    if rest and not _has(top, rest[0]):
        raise unknown(rest[0], _keys_of(top), f" in {top}")
    raise refuse(key, value, nested([top, *rest], text))


def refuse_key(key: str, text: str) -> None:
    """Refuse a key that `--config` does not take. Raises ConfigError."""
    top, *rest = key.split(".")
    if rest and all(rest) and top in {*flat_keys(), *EXPERIMENTS, *RUN_KEYS}:
        value = read_typed(key, text)
        check_dotted(key, value, text)
        raise refuse(key, value, nested([top, *rest], text))
    error = unknown(key, {*flat_keys(), *EXPERIMENTS, *RUN_KEYS})
    raise ConfigError(f"{error}; a key must start with a valid identifier and has no dots")


def nested(path: Sequence[str], text: str) -> str:
    """Return a key with dots, and its value, in the form that every command takes.

    >>> nested(["training", "steps"], "10")
    "training='{steps: 10}'"
    """
    # A space after the colon, which YAML needs, and quotes that the shell leaves alone.
    text = re.sub(r":(?=\S)", ": ", text.replace("'", '"'))
    top, *rest = path
    for key in reversed(rest):
        text = f"{{{key}: {text}}}"
    return f"{top}='{text if text.startswith('{') else '{KEY: VALUE}'}'"


def _keys_of(experiment: str) -> set[str]:
    return {key.name for key in EXPERIMENTS[experiment].KEYS} | {SEEDS}


def blocks_of(overrides: Iterable[str]) -> set[str]:
    """Return the experiments of which overrides give keys of their own."""
    parsed = [_parsed(line) for line in overrides]
    return {
        one.key_or_group.partition(".")[0]
        for one in parsed
        if "." in one.key_or_group or isinstance(one.value(), dict)
    }


def overlay(base: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """`values` on top of `base`, mappings merged."""
    result = dict(base)
    for key, value in values.items():
        under = result.get(key)
        if isinstance(under, dict) and isinstance(value, Mapping):
            value = overlay(under, value)
        result[key] = value
    return result


def resolve(composed: Mapping[str, Any], typed: Iterable[str] = ()) -> Run:
    """Check a composed configuration and resolve it. Raises ConfigError.

    `typed` are the experiments of which the command line gives keys of their own.
    """
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
    own = {name: _block(name, composed.get(name), axis=name in flat) for name in EXPERIMENTS}
    wanted = names if composed.get("experiments") is not None else [n for n in names if own[n]]
    arms, notes = _share_arms(everywhere, own, names, wanted, entries["scale_rules"])
    names = [name for name in names if arms.get(name) != []]
    for key, value in everywhere.items():
        if not any(_follows(name, key) for name in names):
            example = next((name for name in names if _has(name, key)), None)
            if example is not None:
                raise ConfigError(
                    f"{key}: {example} is an example, which keeps its numbers; "
                    f"{example}='{{{key}: {value}}}' changes them"
                )
            raise ConfigError(f"{key}: none of the run's experiments has it: {', '.join(names)}")
        for name in names:
            # A count of seeds says nothing about an example; a seed does.
            if name in EXAMPLES and _has(name, key) and key not in own[name] and key != SEEDS:
                change = f"{name}='{{{key}: {value}}}' changes it"
                notes.append(f"{key}: {name} is an example and keeps its own; {change}")

    blocks_of = composed.get("experiment") or {}
    settings = {}
    for name in names:
        followed = {key: value for key, value in everywhere.items() if _follows(name, key)}
        layers: dict[str, Mapping[str, Any]] = {
            f"experiment.{name}": _block(f"experiment.{name}", blocks_of.get(name), axis=False),
            "": followed | ({"scaling": arms[name]} if name in arms else {}),
            name: own[name],
        }
        settings[name] = _experiment(name, layers, entries)
    unused = [name for name in EXPERIMENTS if own[name] and name not in names]
    for name in unused:
        # What is said of the others is not needed here, and may be wrong all the same.
        for key in own[name]:
            if not _has(name, key):
                raise unknown(key, _keys_of(name), f" in {name}")
        if name in typed:
            built = f"the run builds {_joined(names)}"
            raise refuse(name, own[name], f"keys of what is built; {built}; experiments={name}")
    if unused:
        notes.append(f"{_joined(unused)}: not built, so what is set there has no effect")
    run = Run(
        _run_name(composed.get("name", "default")), _shard_seeds(composed), settings, tuple(notes)
    )
    _check_formulas(run)
    return run


def _share_arms(
    everywhere: Mapping[str, Any],
    own: Mapping[str, Mapping[str, Any]],
    names: Sequence[str],
    wanted: Sequence[str],
    rules: Mapping[str, Any],
) -> tuple[dict[str, list[Any]], list[str]]:
    """Return the flat key's scale rules for each experiment that cannot take all of them.

    An experiment that takes only factors leaves the other rules out, and is itself left out where
    no rule remains; a line says so. A rule that no experiment of the run can take is refused, and
    so is leaving out an experiment that was asked for (`wanted`). Raises ConfigError.
    """
    if "scaling" not in everywhere:
        return {}, []
    given = [str(_word(name)) for name in _as_list("scaling", everywhere["scaling"])]
    takers = [name for name in names if _follows(name, "scaling") and "scaling" not in own[name]]
    narrow = [name for name in takers if EXPERIMENTS[name].FACTORS_ONLY]
    left_out = [name for name in given if name in rules and not scales.is_factor(rules[name])]
    if not left_out or not narrow:
        return {}, []
    kept = [name for name in given if name not in left_out]
    refusing = [name for name in narrow if name in wanted and not kept]
    if len(narrow) == len(takers) or refusing:
        allowed = f"for {_joined(refusing or narrow)}, {FACTOR_RULES}"
        raise refuse("scaling", left_out[0], allowed)
    verb = "takes" if len(narrow) == 1 else "take"
    if kept:
        note = f"{_joined(left_out)} left out of {_joined(narrow)}, which {verb} {FACTOR_RULES}"
    else:
        note = f"{_joined(narrow)} not built: {verb} {FACTOR_RULES}"
    return dict.fromkeys(narrow, kept), [f"scaling: {note}"]


FACTOR_RULES = "rules that are one factor of d_k and n_k"


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
        words = f"{RUN_KEYS['name'].split(': ')[1]} Not {' or '.join(RESERVED)}"
        if isinstance(value, (bool, float)):
            words += "; a word that reads as a value needs quotes of its own: name='\"1.5\"'"
        raise refuse("name", value, words)
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
        if not (isinstance(name, str) and ENTRY_NAME.fullmatch(name)) or name.lower() in NO_NAMES:
            allowed = "names of letters, digits and '_', at most 32, the first a letter"
            raise refuse(mapping, name, f"{allowed}; not {_joined(NO_NAMES)}, which are values")
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
        # Defaults are written out, because the address of a shard has to say all that its
        # numbers depend on.
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
        except (ValueError, ArithmeticError) as error:
            raise ConfigError(f"{where}: {error}{_given(filled, word)}") from None
        result[name] = filled
    return result


def _given(entry: Mapping[str, Any], word: str) -> str:
    """Return the parameters of an entry, as a message says them after what is wrong."""
    values = " ".join(f"{name}={value}" for name, value in entry.items() if name != word)
    return f" ({values})" if values else ""


def _try(mapping: str, entry: dict[str, Any]) -> None:
    """Use an entry at the smallest sizes, so that it answers for its parameters."""
    if mapping == "scale_rules":
        scales.factor(entry, d_k=1, n_k=2)
    else:
        inputs.draw(entry, d_k=1, n_k=2, n_q=1, d_v=1, seed=0, dtype="float64")


def _parameter(where: str, value: object, annotation: Any) -> Any:
    """Return a value that a formula's annotation allows: float, Literal of words, or None."""
    allowed: list[str] = []
    for kind in get_args(annotation) if isinstance(annotation, UnionType) else (annotation,):
        if kind is type(None):
            allowed.append("null")
            if value is None:
                return None
        elif kind is float:
            allowed.append("finite numbers")
            number = _number(value)
            if number is not None:
                return number
        else:
            allowed += get_args(kind)
            if isinstance(value, str) and value in get_args(kind):
                return value
    raise refuse(where, value, " or ".join(allowed))


def _number(value: object) -> float | None:
    """Return a finite number, also of its text, or None for anything else.

    YAML takes 1e-3, without a point, for text, and Snakemake the numbers of a list.
    """
    if isinstance(value, str) and DECIMAL.fullmatch(value):
        value = int(value) if re.fullmatch(r"[+-]?\d+", value) else float(value)
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
                raise refuse(key.name, name, _listed(known), known)
        _refuse_repeat(key.name, names)
        if len(names) > MOST_NAMES:
            raise ConfigError(f"{key.name}: {len(names)} names; allowed: at most {MOST_NAMES}")
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
    """Return a whole number in range. 1e9 is one; true, 2.5 and '1_000' are none."""
    number = _number(value)
    top = math.inf if key.maximum is None else key.maximum
    if number is None or number != int(number) or not key.minimum <= number <= top:
        raise refuse(key.name, value, key.allowed)
    return int(number)


def _above_0(key: Key, value: object) -> float:
    """Return a finite number above 0."""
    number = _number(value)
    if number is None or not number > 0:
        raise refuse(key.name, value, key.allowed)
    if not FACTORS[0] <= number <= FACTORS[1]:
        raise refuse(key.name, value, f"numbers from {FACTORS[0]:g} to {FACTORS[1]:g}")
    return float(number)


def _check_formulas(run: Run) -> None:
    """Try every scale rule of the run at every size, before any job. Raises ConfigError."""
    for experiment, name, entry, sizes in _rules(run):
        try:
            scales.rule(entry, **sizes)
        except (ValueError, ArithmeticError) as error:
            raise ConfigError(
                f"scale_rules.{name}: {error}{_given(entry, 'rule')} {_at(sizes)}"
            ) from None
        if EXPERIMENTS[experiment].FACTORS_ONLY and not scales.is_factor(entry):
            raise refuse("scaling", name, f"for {experiment}, {FACTOR_RULES}")


def _check_factors(run: Run) -> None:
    """Refuse scale rules whose numbers overflow, or vanish, at a size. Raises ConfigError."""
    for _, name, entry, sizes in _rules(run):
        # A rule is the numbers that it was made with: a factor, a scale, a cap.
        for word, number in vars(scales.rule(entry, **sizes)).items():
            if not FACTORS[0] <= number <= FACTORS[1]:
                what = "factor" if word == "value" else word
                raise ConfigError(
                    f"scale_rules.{name}: the {what} {_at(sizes)} is {number}"
                    f"{_given(entry, 'rule')}; allowed: from {FACTORS[0]:g} to {FACTORS[1]:g}"
                )


def _rules(run: Run) -> Iterator[tuple[str, str, dict[str, Any], dict[str, int]]]:
    """Yield each experiment with the name and the entry of each scale rule, at each size."""
    for experiment, settings in run.settings.items():
        sizes = itertools.product(settings.get("d_k", ()), settings.get("n_k", ()))
        for (d_k, n_k), (name, entry) in itertools.product(
            sizes, settings.get("scaling", {}).items()
        ):
            yield experiment, name, entry, {"d_k": d_k, "n_k": n_k}


def _at(sizes: Mapping[str, int]) -> str:
    return "at " + ", ".join(f"{name}={size}" for name, size in sizes.items())


def _check_shards(run: Run) -> None:
    """Refuse a grid that Snakemake cannot plan or a job cannot be told. Raises ConfigError."""
    for name, settings in run.settings.items():
        lengths = {
            key: len(value) for key, value in settings.items() if isinstance(value, (list, dict))
        }
        together = ("seed", "scaling", *EXPERIMENTS[name].WITHIN)
        slabs = math.prod(count for key, count in lengths.items() if key not in together)
        # Seeds with gaps between them take a shard for each row of neighbours.
        n_shards = slabs * sum(1 for _ in shards.blocks(settings["seed"], run.shard_seeds))
        if n_shards > MOST_SHARDS:
            sizes = ", ".join(f"{count} of {key}" for key, count in lengths.items() if count > 1)
            raise ConfigError(
                f"{name}: the grid has {n_shards:,} shards ({sizes}; {run.shard_seeds} seeds a "
                f"shard); allowed: at most {MOST_SHARDS:,}, by fewer values or more shard_seeds, "
                f"up to {MOST_SHARD_SEEDS:,}"
            )
        slab = next(shards.slabs(settings, EXPERIMENTS[name].WITHIN))
        if len(json.dumps(slab)) > MOST_BYTES:
            longest = max(slab, key=lambda key: len(json.dumps(slab[key])))
            count = f"{len(slab[longest]):,} values"
            raise ConfigError(
                f"{longest}: {count} are more than one job of {name} can be told; allowed: at most "
                f"{MOST_BYTES:,} characters, so in several runs"
            )


def check(run: Run) -> None:
    """Refuse what can be written down and not be computed. Raises ConfigError.

    Not part of `resolve`: a finished run may be read on a smaller machine.
    """
    _check_shards(run)
    check_memory(run)
    _check_factors(run)


def check_memory(run: Run) -> None:
    """Refuse a cell that this machine's free memory cannot hold. Raises ConfigError."""
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
