"""Hold a checked configuration and write it as YAML."""

from dataclasses import dataclass, field
from typing import Any

import yaml

from sqrtdk.config.entries import FORMULAS
from sqrtdk.config.errors import invalid_value
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.schema import Document, Settings

SEEDS_KEY = "seeds"


@dataclass(frozen=True)
class Run:
    """A checked configuration.

    `settings` holds, for each experiment, the value of every key: a list for an axis; for a key
    of names, the mapping from name to entry. `seed` is a sorted list. `notes` are lines about
    settings that have no effect somewhere.
    """

    name: str
    shard_seeds: int
    settings: dict[str, Settings]
    notes: tuple[str, ...] = field(default=(), compare=False)

    def of(self, experiment: str) -> Settings:
        """Return the settings of one experiment. Raises ConfigError if the run does not have it."""
        if experiment not in self.settings:
            raise invalid_value("experiment", experiment, ", ".join(self.settings), self.settings)
        return self.settings[experiment]

    def to_yaml(self) -> str:
        """Return the resolved configuration as YAML, which `--configfile` accepts."""
        document: dict[str, Any] = {
            "name": self.name,
            "experiments": list(self.settings),
            "shard_seeds": self.shard_seeds,
        }
        entries: dict[str, dict[str, Any]] = {}
        for experiment, settings in self.settings.items():
            block = document[experiment] = {}
            values: Document = settings
            for key in EXPERIMENTS[experiment].config_keys:
                value = values[key.name]
                if key.named_in:
                    entries.setdefault(key.named_in, {}).update(value)
                    value = list(value)
                if key.name == "seed" and value == list(range(len(value))):
                    block[SEEDS_KEY] = len(value)
                else:
                    block[key.name] = value
        for mapping in FORMULAS:
            # Even if no experiment of the run names an entry of it.
            entries.setdefault(mapping, {})
        return yaml.safe_dump(document | entries, sort_keys=False, default_flow_style=None)
