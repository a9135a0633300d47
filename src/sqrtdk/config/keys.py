"""List the keys of a configuration and the experiments that have them."""

from sqrtdk.config.run import SEEDS_KEY
from sqrtdk.experiments.registry import EXAMPLES, EXPERIMENTS

RESERVED = ("shards", "benchmarks", "compare", "reference", "README.md")
"""Names that a run may not have, whatever the case: other entries of results/, and the name of the
reference numbers in a comparison."""

RUN_KEYS = {
    "name": "Folder of the run, results/<name>/: letters, digits, '_', '-' and '.', at most 64, "
    "the first a letter or digit.",
    "experiments": "What to build: one experiment or a list. Default: all of the report.",
    "grid": "Named grid: which file of each folder in conf/experiment/ is read.",
    "shard_seeds": "Seeds that one job computes (1 to 1000). Changes cost, never numbers.",
    "scale_rules": "Named scale rules, each a formula of core/scale_rules.py and its parameters.",
    "input_laws": "Named input laws, each a formula of core/input_laws.py and its parameters.",
    "experiment": "Each experiment's own block, as the files of conf/ fill it.",
}


def flat_keys() -> set[str]:
    """Return every key that some experiment has, as it is typed on the command line."""
    return {key.name for module in EXPERIMENTS.values() for key in module.config_keys} | {SEEDS_KEY}


def names_of_keys(experiment: str) -> set[str]:
    """Return the names of an experiment's keys."""
    return {key.name for key in EXPERIMENTS[experiment].config_keys} | {SEEDS_KEY}


def has_key(experiment: str, key: str) -> bool:
    """Return whether an experiment has a key."""
    return ("seed" if key == SEEDS_KEY else key) in {
        k.name for k in EXPERIMENTS[experiment].config_keys
    }


def follows_flat(experiment: str, key: str) -> bool:
    """Return whether a flat key applies to an experiment: it has the key and is not an example."""
    return experiment not in EXAMPLES and has_key(experiment, key)
