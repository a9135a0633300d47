"""The worked example on the page: its tables, and the numbers in its sentences.

Everything is read from the example's table of entries.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from sqrtdk.claims.findings import ONE_HOT
from sqrtdk.core import metrics
from sqrtdk.experiments.worked_example import matrices
from sqrtdk.experiments.worked_example.matrices import Entry, Matrices, Matrix
from sqrtdk.schema import Document
from sqrtdk.stats.wording import NBSP


class Table(NamedTuple):
    """A matrix of the page: the names of its columns, and its rows of entries with their names."""

    columns: list[str]
    rows: list[tuple[str, list[Entry]]]


class Change(NamedTuple):
    """A number of each row without scaling and with it: the means, and the ends of the change."""

    off: str
    on: str
    least: str
    most: str


class Example:
    """The example of one table (its rows as text); the template takes its numbers from here."""

    def __init__(self, rows: list[dict[str, str]]) -> None:
        self.found: Matrices = matrices.matrices_of(rows)
        seeds = sorted({int(row["seed"]) for row in rows})
        self.seed = seeds[0]
        self.further = len(seeds) - 1
        keys = self.found["weights", "on"].columns
        self.n_k, self.d_k = len(keys), len(self.found["k", "on"].columns)
        self.root = f"{self.found['sqrt_d_k', 'on'].largest:g}"
        self.highest_entropy = matrices.format_entry(math.log(self.n_k))

    def table(self, array: str, rule: str = "on") -> Table:
        """Return one matrix. Tints are the same with and without scaling."""
        shown = self.found[array, rule]
        largest = max(self.found[array, one].largest for one in ("off", "on"))
        if array == "weight_rows":
            # Sums, weights and nats do not share a scale.
            largest = math.inf
        return Table(
            shown.columns,
            [
                (name, [matrices.entry(value, largest) for value in values])
                for name, values in zip(shown.rows, shown.entries, strict=True)
            ],
        )

    def at(self, array: str, row: int, column: int, rule: str = "on") -> str:
        """Return an entry, given by its row and column from 1, as the table counts them."""
        return matrices.format_entry(self.found[array, rule].entries[row - 1][column - 1])

    def row(self, array: str, row: int, rule: str = "on") -> list[str]:
        """Return the entries of a row."""
        return [matrices.format_entry(value) for value in self.found[array, rule].entries[row - 1]]

    def dot(self, left: Iterable[str], right: Iterable[str]) -> str:
        """Write out a sum of products, such as 0.5 × (−0.1) + 2.0 × 3.0."""

        def factor(text: str, *, first: bool = False) -> str:
            return f"({text})" if text.startswith("−") and not first else text

        products = [
            f"{factor(a, first=i == 0)}{NBSP}×{NBSP}{factor(b)}"
            for i, (a, b) in enumerate(zip(left, right, strict=True))
        ]
        return " + ".join(products)

    def column(self, array: str, column: int, rule: str = "on") -> list[str]:
        """Return the entries of a column."""
        return [
            matrices.format_entry(values[column - 1]) for values in self.found[array, rule].entries
        ]

    @property
    def best(self) -> int:
        """Return the key with the first token's largest weight, from 1; the same for both rules."""
        weights = self.found["weights", "on"].entries[0]
        return weights.index(max(weights)) + 1

    def change(self, name: str) -> Change:
        """Return how scaling changes a statistic of the rows of weights."""
        off, on = (self._of_rows(name, rule) for rule in ("off", "on"))
        steps = sorted(abs(b - a) for a, b in zip(off, on, strict=True))
        numbers = (sum(off) / len(off), sum(on) / len(on), steps[0], steps[-1])
        return Change(*map(matrices.format_entry, numbers))

    @property
    def share(self) -> str:
        """Return the rise of the mean entropy by scaling, in percent of the largest entropy."""
        off, on = (self._of_rows("entropy_nats", rule) for rule in ("off", "on"))
        return f"{100 * (sum(on) - sum(off)) / len(on) / math.log(self.n_k):.0f}"

    @property
    def saturated(self) -> list[tuple[str, str]]:
        """Return the rows that are nearly one-hot without scaling, with their largest weight."""
        names = self.found["weights", "off"].rows
        pairs = zip(names, self._of_rows("max_weight", "off"), strict=True)
        return [(name, matrices.format_entry(weight)) for name, weight in pairs if weight > ONE_HOT]

    @property
    def top(self) -> str:
        """Return the largest weight without scaling."""
        return matrices.format_entry(max(self._of_rows("max_weight", "off")))

    def rms(self, array: str, rule: str) -> str:
        """Return the root mean square of the entries of an array."""
        return matrices.format_entry(_rms(self.found[array, rule]))

    def shrinks(self, array: str) -> bool:
        """Return whether an array's root mean square is smaller with scaling than without."""
        return _rms(self.found[array, "on"]) < _rms(self.found[array, "off"])

    def _of_rows(self, name: str, rule: str) -> list[float]:
        rows = self.found["weight_rows", rule]
        place = rows.columns.index(name)
        return [row[place] for row in rows.entries]


def _rms(matrix: Matrix) -> float:
    return float(metrics.rms(np.ravel(matrix.entries)))


def context(rows: list[dict[str, str]], stems: set[str]) -> Document | None:
    """Return what section.html.j2 names: the example, and whether the page has its pictures."""
    if not rows:
        return None
    return {
        "id": "example",
        "title": "Worked example",
        "lead": "New to attention?",
        "example": Example(rows),
        "pictured": "worked_example-projections" in stems,
    }
