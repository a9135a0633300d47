"""Estimate the time that a run still takes, from the times of earlier runs on this machine.

A job has a kind: the experiment of a shard, or the rule and what it is about. Before a run is
measured, a shard takes the seconds that its experiment estimates, times the ratio that earlier runs
found for this experiment, and any other job takes what earlier jobs of its kind took. While the run
goes on, the jobs that have ended correct both: all kinds together first (the machine may be busy or
faster), then each kind.
"""

import contextlib
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sqrtdk.storage import atomic

OTHER_SECONDS = 1.5
"""Time of a job that measures no shard and has no record: most of it is imports."""

TRUST = 4.0
"""Seconds of a kind's finished work that weigh as much as what was expected before."""

SHARE = 0.5
"""Share of the run's work that has to be done to weigh as much, for kinds that have no job yet."""

KEPT = 0.5
"""Weight of a new run in the record against all earlier ones."""

SHARD_RULES = ("measure_shard", "exact_shard")

LAST = ("claims", "questions", "provenance", "export", "report")
"""Rules that follow on all others, one after the other."""


@dataclass
class Kind:
    """Expected and measured seconds of the finished jobs of a kind.

    `units` are what the record's weight multiplies: estimated seconds of shards, or other jobs.
    """

    expected: float = 0.0
    measured: float = 0.0
    units: float = 0.0


@dataclass
class TimeLeft:
    """The work of a run. `weights` are ratios and seconds of earlier runs; `slots` run at once."""

    weights: Mapping[str, float] = field(default_factory=dict)
    slots: int = 1
    shards: dict[str, tuple[str, float]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    running: dict[int, tuple[str, float, float, float]] = field(default_factory=dict)
    done: dict[str, Kind] = field(default_factory=dict)
    total: float = 0.0
    shard_rules: set[str] = field(default_factory=set)

    def expect(self, shards: Mapping[str, tuple[str, float]], counts: Mapping[str, int]) -> None:
        """Set the work of a run: its shards by name, and the number of jobs of each rule."""
        self.shards, self.counts = dict(shards), dict(counts)
        self.shard_rules = {*SHARD_RULES, *shards}
        self.total = self.left(0.0) * self.slots

    def start(self, job: int, rule: str, about: str, now: float) -> None:
        """Note that a job starts: a shard, by its name, or a rule about something."""
        experiment, seconds = self.shards.pop(about, (None, 0.0))
        if experiment is not None:
            kind, expected = experiment, seconds * self.weights.get(experiment, 1.0)
            units = seconds
        else:
            kind = f"{rule} {about}".strip()
            expected, units = self.weights.get(kind, self._usual(rule)), 1.0
        self.counts[rule] = max(0, self.counts.get(rule, 0) - 1)
        self.running[job] = kind, expected, units, now

    def end(self, job: int, now: float) -> None:
        """Note that a job has ended."""
        if job in self.running:
            kind, expected, units, began = self.running.pop(job)
            one = self.done.setdefault(kind, Kind())
            one.expected += expected
            one.measured += now - began
            one.units += units

    def left(self, now: float) -> float:
        """Return the seconds that are left."""
        queue = sum(
            seconds * self.weights.get(kind, 1.0) * self._correction(kind)
            for kind, seconds in self.shards.values()
        )
        # Fewer jobs than shards: some are there, and only the others are measured.
        jobs = sum(count for rule, count in self.counts.items() if rule in self.shard_rules)
        queue *= min(1.0, jobs / max(1, len(self.shards)))
        others = {
            rule: count * self._usual(rule) * self._correction(rule)
            for rule, count in self.counts.items()
            if rule not in self.shard_rules
        }
        at_work = [
            # A job that takes longer than expected is not about to end either.
            max(expected * self._correction(kind) - (now - began), 0.1 * (now - began))
            for kind, expected, _, began in self.running.values()
        ]
        chain = sum(others.get(rule, 0.0) for rule in LAST)
        side_by_side = queue + sum(others.values()) - chain + sum(at_work)
        return max(side_by_side / self.slots, max(at_work, default=0.0)) + chain

    def measured(self) -> dict[str, float]:
        """Return the weights that this run has found, together with those of earlier runs."""
        found = dict(self.weights)
        for kind, one in self.done.items():
            if one.units > 0 and one.measured > 0:
                new = one.measured / one.units
                found[kind] = KEPT * new + (1 - KEPT) * found[kind] if kind in found else new
        return found

    def _usual(self, rule: str) -> float:
        """Return the seconds of a job of a rule, whatever it is about."""
        known = [value for kind, value in self.weights.items() if kind.split(" ")[0] == rule]
        return sum(known) / len(known) if known else OTHER_SECONDS

    def _correction(self, kind: str) -> float:
        every = [*self.done.values()]
        measured, expected = (
            sum(getattr(x, name) for x in every) for name in ("measured", "expected")
        )
        overall = _ratio(measured, expected, 1.0, SHARE * max(self.total, 1.0))
        own = self.done.get(kind, Kind())
        return _ratio(own.measured, own.expected, overall, TRUST)


def _ratio(measured: float, expected: float, before: float, trust: float) -> float:
    """Return measured over expected seconds, drawn to what was believed before."""
    return (measured + trust * before) / (expected + trust)


def record_path(folder: Path) -> Path:
    """Return the file of this machine's times in a folder."""
    return folder / f"times-{platform.node() or 'here'}.json"


def read_record(path: Path) -> dict[str, float]:
    """Return the weights of earlier runs; nothing if there are none or they cannot be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {str(kind): float(value) for kind, value in found.items() if 0 < value < 1e6}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def write_record(path: Path, weights: Mapping[str, float]) -> None:
    """Keep the weights for later runs; without a place for them, they are not kept."""
    with contextlib.suppress(OSError):
        atomic.write_atomically(path, json.dumps(dict(weights), indent=1, sort_keys=True) + "\n")
