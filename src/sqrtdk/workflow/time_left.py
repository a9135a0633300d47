"""Estimate the time that a run still takes: play the jobs that are left, on the cores there are.

What a job takes is known from earlier runs (`times.py`). While the run goes on, the jobs that have
ended correct that: all kinds together (the machine may be busy or faster), then each kind.
"""

import heapq
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from sqrtdk.workflow.times import Record, Taken, Times

TRUST = 4.0
"""Seconds of a kind's finished work that weigh as much as what was expected before."""

SHARE = 0.01
"""Share of the run's work that has to be done for its speed to weigh as much as that of earlier
runs."""

PLAYED = 0.02
"""Share of the time that may be spent on playing the jobs that are left."""


class Place(Enum):
    """Where a job runs: on this machine or on a cluster."""

    HERE = "here"
    CLUSTER = "cluster"


@dataclass(frozen=True)
class Job:
    """A job of the run: its kind and units of work (`times.py`), and the jobs that it waits for."""

    kind: str
    units: float
    needs: frozenset[int] = frozenset()
    priority: float = 0.0
    cores: int = 1
    place: Place = Place.HERE


@dataclass
class Done:
    """Expected and measured seconds of jobs that have ended, and their units."""

    expected: float = 0.0
    measured: float = 0.0
    units: float = 0.0


@dataclass
class TimeLeft:
    """The work of a run, its state, and the times of earlier runs."""

    times: Times = field(default_factory=Times)
    slots: Mapping[Place, float] = field(default_factory=dict)
    jobs: dict[int, Job] = field(default_factory=dict)
    running: dict[int, float] = field(default_factory=dict)
    done: dict[str, Done] = field(default_factory=dict)
    _waiting: dict[int, int] = field(default_factory=dict)
    _each: dict[str, float] = field(default_factory=dict)
    _after: dict[int, list[int]] = field(default_factory=dict)
    _total: float = 1.0
    _last: tuple[float, float, float] | None = None

    def expect(self, jobs: Mapping[int, Job], slots: Mapping[Place, float]) -> None:
        """Set the jobs of a run, and how many may run at a time in each place."""
        self.jobs, self.slots = dict(jobs), slots
        self._waiting = {
            number: sum(one in jobs for one in job.needs) for number, job in jobs.items()
        }
        self._after = {}
        for number, job in jobs.items():
            for one in job.needs:
                self._after.setdefault(one, []).append(number)
        self._each = {kind: self.times.each(kind) for kind in {job.kind for job in jobs.values()}}
        self._total = max(1.0, sum(map(self._expected, jobs.values())))
        self._last = None

    def start(self, number: int, now: float) -> None:
        """Note that a job starts, which may have failed before."""
        if number in self.jobs:
            self._waiting.pop(number, None)
            self.running[number] = now

    def fail(self, number: int) -> None:
        """Note that a job has failed. Those that wait for it do not start until it is repeated."""
        self.running.pop(number, None)

    def end(self, number: int, now: float) -> None:
        """Note that a job has ended."""
        if number in self.running:
            job, took = self.jobs[number], now - self.running.pop(number)
            one = self.done.setdefault(job.kind, Done())
            one.expected += self._expected(job)
            one.measured += took
            one.units += job.units
            for after in self._after.get(number, ()):
                if after in self._waiting:
                    self._waiting[after] -= 1

    def left(self, now: float) -> float | None:
        """Return the seconds that are left, or None if the jobs are not known."""
        if not self.jobs:
            return None
        # With thousands of jobs this takes a while; in between, time passes.
        if self._last is not None:
            at, seconds, pause = self._last
            if at <= now < at + pause:
                return max(0.0, seconds - (now - at))
        before = time.perf_counter()
        seconds = self._play(now)
        self._last = now, seconds, (time.perf_counter() - before) / PLAYED
        return seconds

    def measured(self) -> Record:
        """Return what this run has found."""
        return {kind: Taken(one.measured, one.units) for kind, one in self.done.items()}

    def _expected(self, job: Job) -> float:
        return job.units * self._each[job.kind]

    def _cores(self, job: Job) -> float:
        return min(job.cores, self.slots.get(job.place, 1))

    def _corrections(self, now: float) -> dict[str, float]:
        """Return by which factor each kind takes longer than expected."""
        found = {kind: (one.measured, one.expected) for kind, one in self.done.items()}
        factors = self._factors(found)
        for number, began in self.running.items():
            job = self.jobs[number]
            expected, passed = self._expected(job), now - began
            # It will take longer still, but so much is known now.
            if passed > expected * factors[job.kind]:
                measured, before = found.get(job.kind, (0.0, 0.0))
                found[job.kind] = measured + passed, before + expected
        return self._factors(found)

    def _factors(self, found: Mapping[str, tuple[float, float]]) -> dict[str, float]:
        """Return the factor of each kind from measured and expected seconds."""
        measured, expected = map(sum, zip((0.0, 0.0), *found.values(), strict=True))
        overall = _ratio(measured, expected, 1.0, SHARE * self._total)
        return {
            kind: _ratio(*found.get(kind, (0.0, 0.0)), overall, TRUST * overall)
            for kind in self._each
        }

    def _play(self, now: float) -> float:
        """Start each job as soon as there is a core for it; return when the last one ends."""
        corrected = self._corrections(now)
        free = {place: self.slots.get(place, 1) for place in Place}
        ready: dict[Place, list[tuple[float, float, int]]] = {place: [] for place in Place}
        ends: list[tuple[float, int]] = []

        def offer(number: int) -> None:
            job = self.jobs[number]
            heapq.heappush(ready[job.place], (-job.priority, -self._expected(job), number))

        for number, began in self.running.items():
            job, passed = self.jobs[number], now - began
            free[job.place] -= self._cores(job)
            # A job that takes longer than expected is not about to end either.
            rest = max(self._expected(job) * corrected[job.kind] - passed, 0.1 * passed)
            heapq.heappush(ends, (rest, number))
        waiting = dict(self._waiting)
        for number, needed in waiting.items():
            if not needed:
                offer(number)
        at = 0.0
        while True:
            for place, queue in ready.items():
                while queue and self._cores(self.jobs[queue[0][2]]) <= free[place]:
                    number = heapq.heappop(queue)[2]
                    job = self.jobs[number]
                    free[place] -= self._cores(job)
                    heapq.heappush(ends, (at + self._expected(job) * corrected[job.kind], number))
            if not ends:
                return at
            at, number = heapq.heappop(ends)
            free[self.jobs[number].place] += self._cores(self.jobs[number])
            for after in self._after.get(number, ()):
                if after in waiting:
                    waiting[after] -= 1
                    if not waiting[after]:
                        offer(after)


def _ratio(measured: float, expected: float, before: float, trust: float) -> float:
    """Return measured over expected seconds, drawn to what was believed before."""
    return (measured + trust * before) / (expected + trust)
