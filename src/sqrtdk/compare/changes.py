"""compare.csv: the change of every metric from one run to another, and what else differs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from sqrtdk.claims.claim import NOT_MEASURED
from sqrtdk.compare.sides import Side
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.schema import Column, Document
from sqrtdk.stats import changes as stats_changes
from sqrtdk.storage import tables


def _axes() -> tuple[Column, ...]:
    found = {
        column.name: column
        for experiment in EXPERIMENTS.values()
        for column in experiment.columns
        if column.axis and column.name != "seed"
    }
    return tuple(found.values())


COLUMNS = (
    Column("experiment", "Experiment that has the metric.", read=str, axis=True),
    # Empty where the experiment does not have the axis.
    *(Column(c.name, c.meaning, c.unit, str, axis=True, optional=True) for c in _axes()),
    Column("metric", "Column of runs.csv that is compared.", read=str, axis=True),
    Column("n_first", "Number of seeds of the first run that are compared.", "seeds", read=int),
    Column("n_second", "The same of the second run.", "seeds", read=int),
    Column(
        "pairing",
        "paired: the seeds that both runs have, each with itself; independent: no seed in common.",
        read=str,
    ),
    Column(
        "first",
        "Mean of the first run over the compared seeds, pooled as in summary.csv.",
    ),
    Column("second", "The same of the second run."),
    Column(
        "kind",
        "What `change` is: difference (second - first); or ratio (second / first) for columns "
        "pooled as rms or median, where it is defined.",
        read=str,
    ),
    Column("change", "The change from the first run to the second."),
    Column("ci_low", "Lower end of its 95 % interval. Empty for one seed.", optional=True),
    Column("ci_high", "Upper end. Empty for one seed, and where there is no bound.", optional=True),
    Column(
        "outcome",
        "; ".join(f"{name}: {what}" for name, what in stats_changes.OUTCOMES.items()) + ".",
        read=str,
    ),
)


class Compared(NamedTuple):
    """One experiment in two runs: its rows of compare.csv, and the cells that only one run has."""

    rows: list[tables.Row]
    only_first: int
    only_second: int


def compare(experiment: str, first: pd.DataFrame, second: pd.DataFrame) -> Compared:
    """Compare runs.csv of an experiment in two runs, metric by metric and cell by cell."""
    columns = EXPERIMENTS[experiment].columns
    axes = [c.name for c in columns if c.axis and c.name != "seed"]
    metrics = [c for c in columns if not c.axis]
    sides: list[dict[Any, pd.DataFrame]] = [
        dict(iter(frame.groupby(axes, sort=True))) for frame in (first, second)
    ]
    both = [at for at in sides[0] if at in sides[1]]
    empty: tables.Row = {c.name: "" for c in _axes()}
    empty["experiment"] = experiment
    rows = [
        empty | dict(zip(axes, at, strict=True)) | {"metric": metric.name} | found
        for at in both
        for metric, found in _metrics(sides[0][at], sides[1][at], metrics)
    ]
    return Compared(rows, len(sides[0]) - len(both), len(sides[1]) - len(both))


def _metrics(
    first: pd.DataFrame, second: pd.DataFrame, metrics: Sequence[Column]
) -> Iterator[tuple[Column, tables.Row]]:
    """Yield the change of every metric that both runs have in one cell."""
    indexed = first.set_index("seed"), second.set_index("seed")
    shared = indexed[0].index.intersection(indexed[1].index)
    paired = len(shared) > 0
    if paired:
        indexed = indexed[0].loc[shared], indexed[1].loc[shared]
    for metric in metrics:
        values = [frame[metric.name].to_numpy(dtype=float) for frame in indexed]
        known = [x == x for x in values]
        if paired:
            known = [known[0] & known[1]] * 2
        kept = [x[there] for x, there in zip(values, known, strict=True)]
        if not all(map(len, kept)):
            continue
        found = stats_changes.change(*kept, pool=metric.pool, paired=paired)
        yield (
            metric,
            {
                "n_first": len(kept[0]),
                "n_second": len(kept[1]),
                "pairing": "paired" if paired else "independent",
                "first": found.first,
                "second": found.second,
                "kind": found.kind,
                "change": found.change.mean,
                "ci_low": found.change.low,
                "ci_high": found.change.high,
                "outcome": found.outcome,
            },
        )


class Entry(NamedTuple):
    """Something that differs between the runs, in words."""

    name: str
    first: str
    second: str


LACKING = "—"

VOLATILE = ("command", "time_utc", "sha256")
"""Parts of provenance.json that differ between any two runs."""


def settings(first: Side, second: Side, experiments: Sequence[str]) -> list[Entry]:
    """Return the configuration keys of these experiments with different values."""
    return _differing(*(_flat(_numbers(side, experiments)) for side in (first, second)))


def _numbers(side: Side, experiments: Sequence[str]) -> Document:
    """Return the part of a configuration that decides the numbers of some experiments."""
    found: dict[str, Any] = {"experiments": side.config["experiments"]}
    named: dict[str, set[str]] = {}
    for name in experiments:
        found[name] = side.config.get(name) or {}
        for key in EXPERIMENTS[name].config_keys:
            if key.named_in:
                named.setdefault(key.named_in, set()).update(found[name].get(key.name) or ())
    for mapping, names in named.items():
        entries = side.config.get(mapping) or {}
        found[mapping] = {name: entries[name] for name in entries if name in names}
    return found


def code(first: Side, second: Side) -> list[Entry]:
    """Return what differs in code, packages and machine; nothing if a run has no record of it."""
    if not (first.record and second.record):
        return []
    sides = [
        _flat({key: value for key, value in side.record.items() if key not in VOLATILE})
        for side in (first, second)
    ]
    return _differing(*sides)


def _differing(first: Mapping[str, str], second: Mapping[str, str]) -> list[Entry]:
    keys = dict.fromkeys([*first, *second])
    found = [Entry(key, first.get(key, LACKING), second.get(key, LACKING)) for key in keys]
    return [one for one in found if one.first != one.second]


def _flat(values: Document, prefix: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = _words(value)
    return found


def _words(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(_words, value))
    # 1 and 1.0 are the same number of a formula.
    return f"{value:g}" if isinstance(value, float) else str(value)


class Flip(NamedTuple):
    """A claim with different verdicts."""

    claim: str
    sentence: str
    first: Mapping[str, str]
    second: Mapping[str, str]

    @property
    def decided(self) -> bool:
        """Return whether both runs decide the claim, so that it flipped."""
        return NOT_MEASURED not in (self.first["verdict"], self.second["verdict"])


def flips(first: Side, second: Side) -> list[Flip]:
    """Return the claims of both runs whose verdicts differ, in the order of claims.csv."""
    return [
        Flip(name, row["sentence"], row, other)
        for name, row in first.verdicts.items()
        if (other := second.verdicts.get(name)) and other["verdict"] != row["verdict"]
    ]
