"""Compute curves.csv: exact entropy and weight of the match over d_k, under some exponents."""

import math
from collections.abc import Iterable, Iterator

from sqrtdk import schema
from sqrtdk.experiments.exponent.exact import means
from sqrtdk.experiments.exponent.measure import Settings, exponents, scale
from sqrtdk.schema import Column
from sqrtdk.storage import tables
from sqrtdk.theory.points import curve

SHOWN = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25)
"""Exponents with a line of their own, or the closest that the run has."""

KEYS = 256
"""The n_k of the curves, or the closest that the run has: at it a match has some of the weight."""

COLUMNS = (
    Column("d_k", "Dimension; between the grid's values a real number.", axis=True),
    schema.axis_column(schema.N_K),
    schema.axis_column(schema.INPUTS),
    Column("exponent", "Exponent p of d_k^-p, as in runs.csv.", axis=True),
    Column("entropy_nats", "Exact mean entropy of the weights.", "nats"),
    Column("match_weight", "Exact mean weight of the match, or of an ordinary key without one."),
)


def shown(known: Iterable[float]) -> list[float]:
    """Return the exponents with a line of their own.

    >>> shown([0.0, 0.5, 1.0, 1.5])
    [0.0, 0.5, 1.0]
    """
    grid = sorted(set(known))
    return sorted({min(grid, key=lambda p: abs(p - wanted)) for wanted in SHOWN})


def keys(sizes: Iterable[int]) -> int:
    """Return the n_k of the curves.

    >>> keys([16, 128, 4096])
    128
    """
    return min(sizes, key=lambda n_k: abs(math.log(n_k / KEYS)))


def rows(settings: Settings) -> Iterator[tables.Row]:
    """Yield a row for each d_k, law and exponent that theory has."""
    n_k = keys(settings["n_k"])
    if n_k < 2:
        return
    wanted = shown(exponents(settings["exponent_steps"]))
    for d_k in curve(sorted(settings["d_k"]), between=1):
        for inputs, entry in sorted(settings["inputs"].items()):
            for exponent in wanted:
                found = means(entry, n_k, d_k, scale(d_k, exponent))
                if found is not None:
                    yield {
                        "d_k": d_k,
                        "n_k": n_k,
                        "inputs": inputs,
                        "exponent": exponent,
                        **found._asdict(),
                    }
