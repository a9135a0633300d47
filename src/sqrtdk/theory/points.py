"""Exact expectations as shards: one file for the points of one n_k, shared by all runs.

They exist for the input laws of `law_at` and scale rules that are a plain factor of d_k and n_k.
QK-norm takes cosines, which for unrelated vectors are those on the sphere: see `cosines`.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast, get_args

import numpy as np

from sqrtdk.core import scale_rules
from sqrtdk.core.input_laws import law_of
from sqrtdk.schema import Column, Document, Entry, Settings
from sqrtdk.storage import code_digest, shard_files, tables
from sqrtdk.theory import expectations, related
from sqrtdk.theory.related import Kind, Law

POINTS = 500
"""Maximum number of points of one shard: they are one job argument, limited to 128 KiB."""

POINTS_BETWEEN = {"gaussian": 3, "sphere": 3, "sphere_q": 3, "match": 2}
"""Points of a curve between two neighbouring d_k of the grid, by kind; a match costs more."""

MOST_CORRELATED = 0.99
"""Largest correlation of a query and its match for which exact values are as accurate as stated."""


class Point(NamedTuple):
    """The variables that an expectation depends on."""

    n_k: int
    d_k: float
    scale: float
    kind: Kind = "gaussian"
    correlation: float = 0.0
    alignment: float = 1.0

    @property
    def law(self) -> Law:
        """Return the input law."""
        return Law(self.kind, self.correlation, self.alignment)


class Place(NamedTuple):
    """A point, and the names that it has in a run.

    With `of_logits` the point has the law of the logits, and not that of the vectors behind them.
    """

    inputs: str
    scaling: str
    point: Point
    of_logits: bool = False


COLUMNS = (
    Column("n_k", "Number of keys.", "keys", read=int, axis=True),
    Column("d_k", "Dimension; between the grid's values a real number.", axis=True),
    Column("scale", "Factor that the scores are multiplied by.", axis=True),
    Column("kind", "Kind of the input law, as theory.related.Law has it.", read=str, axis=True),
    Column("correlation", "Of a query and its match.", axis=True),
    Column("alignment", "Of a query and its match.", axis=True),
    *(Column(name, f"theory.Expectations.{name}.") for name in expectations.Expectations._fields),
)


def point_of(values: Sequence[Any]) -> Point:
    """Return a point from the values of a shard's row or specification.

    Raises ValueError and TypeError for values that are none.
    """
    n_k, d_k, scale, kind, correlation, alignment = values
    if kind not in get_args(Kind):
        raise ValueError(f"kind is {kind!r}; allowed: {', '.join(get_args(Kind))}")
    return Point(
        int(n_k), float(d_k), float(scale), cast(Kind, kind), float(correlation), float(alignment)
    )


def is_covered(law: Entry) -> bool:
    """Return whether `theory.expectations` holds for an entry of `input_laws`."""
    known = law_of(law)
    return known is not None and known.exact


def law_at(entry: Entry, d_k: float) -> Law | None:
    """Return an entry of `input_laws` as the theory sees it; None without exact values.

    With a correlation of nearly ±1, and where the law's rotation leaves out a coordinate or the
    sphere is two points, there are none.
    """
    # Parameters of these laws are numbers in a checked configuration.
    numbers = cast(Mapping[str, float], entry)
    match entry.get("law"):
        case "gaussian":
            return Law()
        case "planted" if abs(numbers["cosine"]) <= MOST_CORRELATED:
            return Law("match", float(numbers["cosine"]))
        case "correlated" if abs(numbers["correlation"]) <= MOST_CORRELATED and d_k % 2 != 1:
            return Law("match", float(numbers["correlation"]), float(numbers["alignment"]))
        case "sphere" if entry["arrays"] == "q":
            return Law("sphere_q")
        case "sphere" if entry["arrays"] == "both" and d_k >= 2:
            return Law("sphere")
    return None


def points(settings: Settings) -> Iterator[Place]:
    """Yield every point of an experiment that theory covers, with the names that it has there."""
    for inputs, entry in settings.get("inputs", {}).items():
        known = next((law for d_k in settings["d_k"] if (law := law_at(entry, d_k))), None)
        if known is None:
            continue
        sizes = curve(settings["d_k"], POINTS_BETWEEN[known.kind])
        rules = settings["scaling"].items()
        for n_k, d_k, (name, rule) in itertools.product(settings["n_k"], sizes, rules):
            factor, law = scale_rules.factor(rule, d_k=d_k, n_k=n_k), law_at(entry, d_k)
            if law is None:
                continue
            if factor is not None:
                yield Place(inputs, name, Point(n_k, d_k, factor, *law))
            elif (point := cosines(rule, law, n_k=n_k, d_k=d_k)) is not None:
                yield Place(inputs, name, point, of_logits=True)


def cosines(rule: Entry, law: Law, *, n_k: int, d_k: float) -> Point | None:
    """Return the point on the sphere that has the logits of a rule; None if no point has them.

    Unrelated vectors of any of these laws have uniform directions, so that the cosines of QK-norm
    are those of vectors on the sphere, where a scale s is the factor s / d_k of the scores.
    """
    made = scale_rules.rule(rule, d_k=d_k, n_k=n_k)
    if not isinstance(made, scale_rules.QKNorm) or law.kind == "match" or d_k < 2:
        return None
    return Point(n_k, d_k, made.scale / d_k, "sphere")


def curve(sizes: list[int], between: int = POINTS_BETWEEN["gaussian"]) -> list[float]:
    """Return the sizes and points between them, evenly spaced in their logarithm.

    >>> curve([1, 16])
    [1.0, 2.0, 4.0, 8.0, 16.0]
    """
    found = [float(sizes[0])]
    for low, high in itertools.pairwise(sizes):
        steps = (np.arange(1, between + 1) / (between + 1)).tolist()
        found += [low * (high / low) ** step for step in steps] + [float(high)]
    return found


def specs(found: Iterable[Point]) -> Mapping[str, Document]:
    """Return the shards that hold some points, by file name: one n_k each, at most `POINTS`."""
    result = {}
    for n_k, group in itertools.groupby(sorted(set(found)), key=lambda point: point.n_k):
        some = list(group)
        # Not before: without points, nobody needs it.
        code = code_digest.measured_digest("sqrtdk.theory.points")
        for start in range(0, len(some), POINTS):
            block = some[start : start + POINTS]
            spec = {"n_k": n_k, "points": [list(point) for point in block], "code": code}
            name = f"nk{n_k}-dk{block[0].d_k:.0f}-{block[-1].d_k:.0f}"
            result[f"{name}-{shard_files.content_hash(spec, COLUMNS)}.csv"] = spec
    return result


def of(spec: Document) -> list[Point]:
    """Return the points of one of `specs`."""
    return [point_of(values) for values in spec["points"]]


def rows(points: Iterable[Point]) -> list[tables.Row]:
    """Compute the expectations at some points."""
    return [point._asdict() | _expectations_at(point)._asdict() for point in points]


def _expectations_at(point: Point) -> expectations.Expectations:
    if point.kind == "gaussian":
        return expectations.tabulated_expectations(point.n_k, point.d_k, point.scale)
    return related.expectations_of(point.law, point.n_k, point.d_k, point.scale)
