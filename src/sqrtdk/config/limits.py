"""Reject a configuration that needs more shards or memory than available."""

import itertools
import json
import math
from collections.abc import Iterator, Mapping

from sqrtdk.config.entries import given_parameters
from sqrtdk.config.errors import ConfigError, invalid_value
from sqrtdk.config.run import Run
from sqrtdk.config.values import FACTORS
from sqrtdk.core import input_laws, scale_rules
from sqrtdk.core.attention import without_sink
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.schema import Document, Entry, Settings
from sqrtdk.storage import planning
from sqrtdk.system import memory

MOST_SHARD_SEEDS = 1000
"""Maximum seeds of a shard. A job keeps its rows in memory, about 6 kB each, until it ends."""

MOST_SEEDS = 10**7
"""Maximum seeds of a run. All are kept as numbers; the limit of shards usually comes first."""

MOST_SHARDS = 20_000
"""Maximum shards of a run. Snakemake plans a few hundred a second and keeps all in memory."""

MOST_BYTES = 100_000
"""Maximum length of a job's grid point as JSON. It is one argument: Linux allows 128 KiB."""


FACTOR_RULES = "rules that are one factor of d_k and n_k"


def check_formulas(run: Run) -> None:
    """Evaluate every scale rule of the run at every size, before any job. Raises ConfigError."""
    for experiment, name, entry, sizes in _rules(run):
        try:
            scale_rules.rule(entry, **sizes)
        except ValueError as error:
            raise ConfigError(
                f"scale_rules.{name}: {error}{given_parameters(entry, 'rule')} {_at(sizes)}"
            ) from None
        if EXPERIMENTS[experiment].scalar_scale_only and not scale_rules.is_factor(entry):
            raise invalid_value("scaling", name, f"for {experiment}, {FACTOR_RULES}")


def _check_factors(run: Run) -> None:
    """Raise ConfigError for scale rules whose numbers overflow or vanish at a size."""
    for _, name, entry, sizes in _rules(run):
        # A rule is defined by its numbers: a factor, a scale, a cap.
        rule = without_sink(scale_rules.rule(entry, **sizes))
        for word, number in vars(rule).items():
            if not FACTORS[0] <= number <= FACTORS[1]:
                what = "factor" if word == "value" else word
                raise ConfigError(
                    f"scale_rules.{name}: the {what} {_at(sizes)} is {number}"
                    f"{given_parameters(entry, 'rule')}; allowed: from {FACTORS[0]:g} to "
                    f"{FACTORS[1]:g}"
                )


def _check_laws(run: Run) -> None:
    """Raise ConfigError for an input law whose parameters a type of the run is too narrow for."""
    for settings in run.settings.values():
        laws = settings.get("inputs", {})
        for (name, entry), dtype in itertools.product(laws.items(), settings.get("dtype", ())):
            try:
                input_laws.draw(entry, d_k=1, n_k=2, n_q=1, d_v=1, seed=0, dtype=dtype)
            except ValueError as error:
                given = given_parameters(entry, "law")
                raise ConfigError(f"input_laws.{name}: {error}{given}") from None


def _rules(run: Run) -> Iterator[tuple[str, str, Entry, dict[str, int]]]:
    """Yield each experiment with the name and the entry of each scale rule, at each size."""
    for experiment, settings in run.settings.items():
        sizes = itertools.product(settings.get("d_k", ()), settings.get("n_k", ()))
        for (d_k, n_k), (name, entry) in itertools.product(
            sizes, settings.get("scaling", {}).items()
        ):
            yield experiment, name, entry, {"d_k": d_k, "n_k": n_k}


def _at(sizes: Mapping[str, int]) -> str:
    return "at " + ", ".join(f"{name}={size}" for name, size in sizes.items())


def _lengths(settings: Settings) -> dict[str, int]:
    """Return how many values each key of an experiment has, if it can have several."""
    return {key: len(value) for key, value in settings.items() if isinstance(value, (list, dict))}


def _n_shards(run: Run, name: str) -> int:
    """Return how many shards an experiment of a run has at most."""
    settings = run.settings[name]
    together = ("seed", "scaling", *EXPERIMENTS[name].batched_axes)
    lengths = _lengths(settings)
    slabs = math.prod(count for key, count in lengths.items() if key not in together)
    # Each run of consecutive seeds has its own shards.
    return slabs * sum(1 for _ in planning.blocks(settings["seed"], run.shard_seeds))


def _check_shards(run: Run) -> None:
    """Raise ConfigError for too many shards, or for a grid point that is too long for a job."""
    counts = {name: _n_shards(run, name) for name in run.settings}
    total = sum(counts.values())
    if total > MOST_SHARDS:
        name = max(counts, key=counts.__getitem__)
        lengths = _lengths(run.settings[name])
        sizes = ", ".join(f"{count} of {key}" for key, count in lengths.items() if count > 1)
        others = f", the run {total:,}" if total > counts[name] else ""
        raise ConfigError(
            f"{name}: the grid has {counts[name]:,} shards ({sizes}; {run.shard_seeds} seeds a "
            f"shard){others}; allowed: at most {MOST_SHARDS:,} in a run, with fewer values or more "
            f"shard_seeds, up to {MOST_SHARD_SEEDS:,}"
        )
    for name, settings in run.settings.items():
        slab = next(planning.slabs(settings, EXPERIMENTS[name].batched_axes))
        if len(json.dumps(slab)) > MOST_BYTES:
            lists = {key: value for key, value in slab.items() if isinstance(value, (list, dict))}
            longest = max(lists, key=lambda key: len(json.dumps(lists[key])))
            count = f"{len(lists[longest]):,} values"
            raise ConfigError(
                f"{longest}: {count} are too many for the argument of one job of {name}; allowed: "
                f"at most {MOST_BYTES:,} characters; split them into several runs"
            )


def check_limits(run: Run, *, here: bool = True) -> None:
    """Raise ConfigError for a valid configuration that cannot be computed.

    Unless the cells are measured `here`, each job checks the memory of its own machine. This is not
    part of `resolve`, because a finished run may be read on a smaller machine.
    """
    _check_shards(run)
    if here:
        check_memory(run)
    _check_factors(run)
    _check_laws(run)
    for name, settings in run.settings.items():
        refuse = EXPERIMENTS[name].refuse
        if refuse is not None:
            refuse(settings)


def check_memory(run: Run) -> None:
    """Raise ConfigError for a cell that does not fit into this machine's free memory."""
    free = memory.free_memory()
    for name, settings in run.settings.items():
        module = EXPERIMENTS[name]
        memory_of = module.memory
        if memory_of is None:
            continue
        values: Document = settings
        sizes = {
            key.name: max(values[key.name]) if key.axis else values[key.name]
            for key in module.config_keys
            if key.kind == "whole" and key.name != "seed"
        }
        # Some experiments measure the cells of a slab together, so pass those axes as well.
        lists = {key: values[key] for key in (*module.batched_axes, "scaling") if key in values}
        need = memory_of(sizes | lists)
        if need > free:
            # Name the size that would save the most memory if it were 1.
            key = min(sizes, key=lambda size: memory_of(sizes | lists | {size: 1}))
            at_most = ", ".join(f"{n}={v}" for n, v in sizes.items() if n != key)
            raise invalid_value(
                key,
                sizes[key],
                f"what fits into memory: one cell with {at_most} needs {_gib(need)}, "
                f"{_gib(free)} are free",
            )


def _gib(count: int) -> str:
    return f"{count / 2**30:,.1f} GiB"
