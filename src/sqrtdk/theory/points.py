"""Exact expectations as shards: one file for the points of one n_k, shared by all runs.

They exist if q and k are independent standard normal and the scale rule is a plain factor that
depends on d_k and n_k only.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from sqrtdk.core import scale_rules
from sqrtdk.core.input_laws import law_of
from sqrtdk.schema import Column, Document, Entry, Settings
from sqrtdk.storage import code_digest, shard_files, tables
from sqrtdk.theory import expectations

POINTS = 500
"""Maximum number of points of one shard: they are one job argument, limited to 128 KiB."""

POINTS_BETWEEN = 3
"""Points of a curve between two neighbouring d_k of the grid."""


class Point(NamedTuple):
    """The variables that an expectation depends on."""

    n_k: int
    d_k: float
    scale: float


COLUMNS = (
    Column("n_k", "Number of keys.", "keys", read=int, axis=True),
    Column("d_k", "Dimension; between the grid's values a real number.", axis=True),
    Column("scale", "Factor that the scores are multiplied by.", axis=True),
    *(Column(name, f"theory.Expectations.{name}.") for name in expectations.Expectations._fields),
)


def is_covered(law: Entry) -> bool:
    """Return whether `theory.expectations` holds for an entry of `input_laws`."""
    known = law_of(law)
    return known is not None and known.exact


def points(settings: Settings) -> Iterator[tuple[str, Point]]:
    """Yield every point of an experiment that theory covers, with the name of its scale rule."""
    if not any(is_covered(law) for law in settings["inputs"].values()):
        return
    rules = settings["scaling"].items()
    for n_k, d_k, (name, rule) in itertools.product(settings["n_k"], curve(settings["d_k"]), rules):
        factor = scale_rules.factor(rule, d_k=d_k, n_k=n_k)
        if factor is not None:
            yield name, Point(n_k, d_k, factor)


def curve(sizes: list[int]) -> list[float]:
    """Return the sizes and points between them, evenly spaced in their logarithm.

    >>> curve([1, 16])
    [1.0, 2.0, 4.0, 8.0, 16.0]
    """
    found = [float(sizes[0])]
    for low, high in itertools.pairwise(sizes):
        steps = (np.arange(1, POINTS_BETWEEN + 1) / (POINTS_BETWEEN + 1)).tolist()
        found += [low * (high / low) ** step for step in steps] + [float(high)]
    return found


def specs(found: Iterable[Point]) -> Mapping[str, Document]:
    """Return the shards that hold some points, by file name: one n_k each, at most `POINTS`."""
    result = {}
    code = code_digest.measured_digest("sqrtdk.theory.points")
    for n_k, group in itertools.groupby(sorted(set(found)), key=lambda point: point.n_k):
        some = list(group)
        for start in range(0, len(some), POINTS):
            block = some[start : start + POINTS]
            spec = {"n_k": n_k, "points": [list(point) for point in block], "code": code}
            name = f"nk{n_k}-dk{block[0].d_k:.0f}-{block[-1].d_k:.0f}"
            result[f"{name}-{shard_files.content_hash(spec, COLUMNS)}.csv"] = spec
    return result


def rows(points: Iterable[Point]) -> list[tables.Row]:
    """Compute the expectations at some points."""
    return [point._asdict() | expectations.expectations(*point)._asdict() for point in points]
