"""Read the worked example's table as matrices with named rows and columns, and format entries.

The figures and the page both use this, so that they show the same digits in the same tints.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

DECIMALS = 4

ABOVE, BELOW = "#009e73", "#b5489a"
"""Tints of entries above and below 0: a green and a purple that colour-blind readers can also tell
apart, as well as the signs. Zero has no tint, so the same map works on white and on black."""

OPAQUE = 0.6
"""Opacity of the strongest tint. The text of the page has a contrast of at least 4.5 : 1 on
it, in the light and in the dark."""


class Matrix(NamedTuple):
    """A labelled matrix. `entries[i][j]` is in row `rows[i]` and column `columns[j]`."""

    rows: list[str]
    columns: list[str]
    entries: list[list[float]]

    @property
    def largest(self) -> float:
        """Return the largest magnitude of an entry."""
        return max(abs(value) for row in self.entries for value in row)


class Entry(NamedTuple):
    """A displayed entry: its digits, the tint of its sign and the tint's opacity."""

    text: str
    color: str
    opacity: float

    @property
    def background(self) -> str:
        """Return the tint in CSS form: #rrggbb and two digits of opacity."""
        return f"{self.color}{round(255 * self.opacity):02x}"


Matrices = dict[tuple[str, str], Matrix]
"""Matrices by array and scale rule."""


def matrices_of(rows: Iterable[Mapping[Any, Any]]) -> Matrices:
    """Return the matrices of the lowest seed in a table of entries."""
    rows = list(rows)
    seed = min(int(row["seed"]) for row in rows)
    entries: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    for row in rows:
        if int(row["seed"]) == seed:
            matrix = entries.setdefault((row["array"], row["scaling"]), {})
            matrix.setdefault(row["row"], {})[row["column"]] = float(row["value"])
    return {
        name: Matrix(
            list(matrix),
            list(next(iter(matrix.values()))),
            [list(entries_of.values()) for entries_of in matrix.values()],
        )
        for name, matrix in entries.items()
    }


def format_entry(value: float) -> str:
    """Format an entry; a value that rounds to 0 has no sign.

    >>> format_entry(-0.13826), format_entry(1.5), format_entry(-0.00001)
    ('−0.1383', '1.5000', '0.0000')
    """
    # Adding 0 turns -0.0 into 0.0.
    return f"{round(value, DECIMALS) + 0.0:.{DECIMALS}f}".replace("-", "−")


def entry(value: float, largest: float) -> Entry:
    """Return an entry with its tint, which is strongest at magnitude `largest`.

    >>> entry(-0.5, 1.0)
    Entry(text='−0.5000', color='#b5489a', opacity=0.3)
    """
    share = abs(value) / largest if largest > 0 else 0.0
    return Entry(format_entry(value), BELOW if value < 0 else ABOVE, round(OPAQUE * share, 3))
