"""Check a composed configuration against the keys and resolve it into one `Run`.

Every user error in a configuration is found here or in the modules called here, and reported in one
line. A flat key (`d_k`) applies to every experiment of the run that has it. Under an experiment's
name (`scaling: {d_k: 16}`) it applies to that experiment only.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from sqrtdk.config.entries import FORMULAS, check_entries
from sqrtdk.config.errors import ConfigError, invalid_value, join, unknown
from sqrtdk.config.keys import RESERVED, RUN_KEYS, flat_keys, follows_flat, has_key, names_of_keys
from sqrtdk.config.limits import FACTOR_RULES, MOST_SEEDS, MOST_SHARD_SEEDS, check_formulas
from sqrtdk.config.overrides import grids_of
from sqrtdk.config.run import SEEDS_KEY, Run
from sqrtdk.config.values import as_word, check_value, refuse_repeat, to_list
from sqrtdk.config.yaml_reader import NAME, read_config
from sqrtdk.core import scale_rules
from sqrtdk.experiments.registry import EXAMPLES, EXPERIMENTS, LEFT_OUT
from sqrtdk.schema import Document, Key, Settings


def load(path: Path) -> Run:
    """Load the run of a resolved configuration file, as written by `Run.to_yaml`.

    Raises ConfigError.
    """
    values = read_config(path)
    try:
        return resolve(values)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def resolve(composed: Document, typed: Iterable[str] = ()) -> Run:
    """Check a composed configuration and resolve it. Raises ConfigError.

    `typed` are the experiments that have keys of their own on the command line.
    """
    flat, blocks = flat_keys(), set(EXPERIMENTS)
    for key in composed:
        if key not in flat | blocks | set(RUN_KEYS):
            raise unknown(key, flat | blocks | set(RUN_KEYS))
    names = _chosen(composed)
    # A resolved configuration has only the entries that its experiments use, possibly none.
    entries = {mapping: check_entries(mapping, composed.get(mapping, {})) for mapping in FORMULAS}

    # `scaling` is both an axis and an experiment: a mapping is for the experiment.
    everywhere = {
        key: value
        for key, value in composed.items()
        if key in flat and not (key in blocks and isinstance(value, Mapping))
    }
    own = {name: _block(name, composed.get(name), axis=name in flat) for name in EXPERIMENTS}
    wanted = names if composed.get("experiments") is not None else [n for n in names if own[n]]
    rules, notes = _share_scale_rules(everywhere, own, names, wanted, entries["scale_rules"])
    names = [name for name in names if rules.get(name) != []]
    for key, value in everywhere.items():
        if not any(follows_flat(name, key) for name in names):
            example = next((name for name in names if has_key(name, key)), None)
            if example is not None:
                raise ConfigError(
                    f"{key}: {example} is an example, which keeps its numbers; "
                    f"{example}='{{{key}: {value}}}' changes them"
                )
            raise ConfigError(f"{key}: none of the run's experiments has it: {', '.join(names)}")
        for name in names:
            # A number of seeds does not apply to an example; a seed does.
            if (
                name in EXAMPLES
                and has_key(name, key)
                and key not in own[name]
                and key != SEEDS_KEY
            ):
                change = f"{name}='{{{key}: {value}}}' changes it"
                notes.append(f"{key}: {name} is an example and keeps its own; {change}")

    blocks_of = composed.get("experiment") or {}
    settings = {}
    for name in names:
        followed = {key: value for key, value in everywhere.items() if follows_flat(name, key)}
        layers: dict[str, Document] = {
            f"experiment.{name}": _block(f"experiment.{name}", blocks_of.get(name), axis=False),
            "": followed | ({"scaling": rules[name]} if name in rules else {}),
            name: own[name],
        }
        settings[name] = _experiment(name, layers, entries)
    unused = [name for name in EXPERIMENTS if own[name] and name not in names]
    for name in unused:
        # Settings of the other experiments are not used, but check their keys.
        for key in own[name]:
            if not has_key(name, key):
                raise unknown(key, names_of_keys(name), f" in {name}")
        if name in typed:
            built = f"the run builds {join(names)}"
            raise invalid_value(
                name, own[name], f"keys of what is built; {built}; experiments={name}"
            )
    if unused:
        notes.append(f"{join(unused)}: not built, so its settings have no effect")
    # Checked by now: each key has values of its kind.
    checked = cast(dict[str, Settings], settings)
    name, shard_seeds = _run_name(composed.get("name", "default")), _shard_seeds(composed)
    run = Run(name, shard_seeds, checked, tuple(notes))
    check_formulas(run)
    return run


def _share_scale_rules(
    everywhere: Document,
    own: Mapping[str, Document],
    names: Sequence[str],
    wanted: Sequence[str],
    rules: Document,
) -> tuple[dict[str, list[Any]], list[str]]:
    """Return the flat key's scale rules for each experiment that cannot take all of them.

    An experiment that takes only factors leaves the other rules out. It is itself left out if no
    rule remains. A note reports both. Raises ConfigError for a rule that no experiment of the run
    can take, and if a requested experiment (`wanted`) would be left out.
    """
    if "scaling" not in everywhere:
        return {}, []
    given = [str(as_word(name)) for name in to_list("scaling", everywhere["scaling"])]
    takers = [
        name for name in names if follows_flat(name, "scaling") and "scaling" not in own[name]
    ]
    narrow = [name for name in takers if EXPERIMENTS[name].scalar_scale_only]
    left_out = [name for name in given if name in rules and not scale_rules.is_factor(rules[name])]
    if not left_out or not narrow:
        return {}, []
    kept = [name for name in given if name not in left_out]
    refusing = [name for name in narrow if name in wanted and not kept]
    if len(narrow) == len(takers) or refusing:
        allowed = f"for {join(refusing or narrow)}, {FACTOR_RULES}"
        raise invalid_value("scaling", left_out[0], allowed)
    verb = "takes" if len(narrow) == 1 else "take"
    if kept:
        note = f"{join(left_out)} left out of {join(narrow)}, which {verb} {FACTOR_RULES}"
    else:
        note = f"{join(narrow)} not built: {verb} {FACTOR_RULES}"
    return dict.fromkeys(narrow, kept), [f"scaling: {note}"]


def _block(experiment: str, value: object, *, axis: bool) -> Document:
    """Return the settings given under an experiment's name.

    If that name is also an axis (`axis`), a plain value is for the axis.
    """
    if isinstance(value, Mapping):
        return value
    if value is None or axis:
        return {}
    name = experiment.removeprefix("experiment.")
    key = next(key for key in EXPERIMENTS[name].config_keys if key.kind == "whole")
    example = f"{name}='{{{key.name}: {max(key.minimum, 4)}}}'"
    raise invalid_value(experiment, value, f"a mapping of its keys such as {example}")


def _run_name(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    taken = map(str.lower, RESERVED)
    if not (isinstance(value, str) and NAME.fullmatch(value)) or value.lower() in taken:
        words = f"{RUN_KEYS['name'].split(': ')[1]} Not {' or '.join(RESERVED)}"
        if isinstance(value, (bool, float)):
            words += "; a word that reads as a value needs quotes of its own: name='\"1.5\"'"
        raise invalid_value("name", value, words)
    return value


def _shard_seeds(composed: Document) -> int:
    meaning = RUN_KEYS["shard_seeds"]
    key = Key("shard_seeds", "whole", meaning, maximum=MOST_SHARD_SEEDS, axis=False)
    return int(check_value(key, composed.get("shard_seeds", 50), {}))


def _chosen(composed: Document) -> list[str]:
    """Return the run's experiments, in the order of the configuration."""
    given = composed.get("experiment") or {}
    if not isinstance(given, Mapping):
        raise invalid_value("experiment", given, "a mapping from experiment to its keys")
    blocks = [name for name in given if name not in LEFT_OUT] or list(EXPERIMENTS)
    wanted = composed.get("experiments")
    listed = (
        [name for name in blocks if _is_asked_for(name, composed)]
        if wanted is None
        else to_list("experiments", wanted)
    )
    for name in listed:
        if not isinstance(name, str) or name not in EXPERIMENTS:
            raise invalid_value("experiments", name, ", ".join(EXPERIMENTS), EXPERIMENTS)
    refuse_repeat("experiments", listed)
    return listed


def _is_asked_for(name: str, composed: Document) -> bool:
    """Return whether a run has the key, if any, without which it leaves an experiment out."""
    key = EXPERIMENTS[name].needs_key if name in EXPERIMENTS else ""
    own = composed.get(name)
    return not key or key in composed or (isinstance(own, Mapping) and key in own)


def _experiment(
    name: str, layers: Mapping[str, Document], entries: Mapping[str, Document]
) -> Document:
    """Return one experiment's settings: later layers override earlier ones, all keys checked."""
    keys = {key.name: key for key in EXPERIMENTS[name].config_keys}
    merged: dict[str, Any] = {}
    for where, layer in layers.items():
        for key in layer:
            if not has_key(name, key):
                raise unknown(key, {*keys, SEEDS_KEY}, f" in {where}")
        if {"seed", SEEDS_KEY} <= layer.keys():
            raise ConfigError("seed and seeds are both given; seeds=20 means seed 0 to 19")
        if {"seed", SEEDS_KEY} & layer.keys():
            merged.pop("seed", None)
            merged.pop(SEEDS_KEY, None)
        merged |= layer
    if SEEDS_KEY in merged:
        count = Key(SEEDS_KEY, "whole", keys["seed"].meaning, axis=False, maximum=MOST_SEEDS)
        merged["seed"] = list(range(check_value(count, merged.pop(SEEDS_KEY), entries)))
    settings = {}
    narrow = EXPERIMENTS[name].scalar_scale_only

    def usable(mapping: str) -> Document:
        """Return the entries whose names a message may suggest."""
        found = entries[mapping]
        if mapping != "scale_rules" or not narrow:
            return found
        return {one: rule for one, rule in found.items() if scale_rules.is_factor(rule)}

    for word, known in keys.items():
        if word not in merged and not layers[f"experiment.{name}"]:
            raise _no_values(name)
        if word not in merged:
            raise ConfigError(f"{name}: {word} is missing; allowed: {known.allowed}")
        settings[word] = check_value(known, merged[word], entries, usable)
    # What is not drawn has one seed, so that its shards are planned as all others.
    settings.setdefault("seed", [0])
    return settings


def _no_values(name: str) -> ConfigError:
    """Return the error for an experiment that the run's grid has no file for."""
    files = f"a file of conf/experiment/{name}/ with the grid's name"
    allowed = " or ".join(f"grid={grid}" for grid in grids_of(name)) or files
    return ConfigError(f"experiments: {name} has no values in this grid; allowed: {allowed}")
