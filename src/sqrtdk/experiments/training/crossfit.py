"""Report every seed at the learning rate that the other half of the seeds chose.

On the seeds that chose it, the best rate looks better than it is. The seeds are therefore split
into two halves, every other seed, and each half is reported at the rate of the other.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from sqrtdk.schema import Column
from sqrtdk.storage import tables

CHOSEN_RATES = (
    Column("rate_first", "Learning rate of the first, third, ... seeds, chosen by the others."),
    Column("rate_second", "Learning rate of the other seeds."),
    Column(
        "edge",
        "lowest or highest where one of the two rates is at that end of the grid; only where the "
        "grid has no other. Empty elsewhere.",
        read=str,
        optional=True,
    ),
)
"""The rates at which an arm is reported, each half of the seeds at the rate of the other half."""


class Chosen(NamedTuple):
    """The rates of an arm: of the first half of the seeds, of the second, and of each seed.

    `places` [n_seeds] are indices of the arm's rates in rising order. `edge` is which end of the
    grid one of the two rates is at; empty if none is.
    """

    rates: tuple[float, float]
    places: np.ndarray
    edge: str

    @property
    def row(self) -> tables.Row:
        """Return the columns `CHOSEN_RATES` of a row."""
        return dict(zip((one.name for one in CHOSEN_RATES), (*self.rates, self.edge), strict=True))


def choose(seeds: int, rates: Sequence[float], best: Callable[[Sequence[int]], int]) -> Chosen:
    """Choose the rates of a number of seeds.

    `rates` are those of the arm in rising order, and `best` returns the index of the rate that is
    best for some seeds. A single seed chooses its own rate.
    """
    places = np.empty(seeds, dtype=int)
    halves = range(seeds)[::2], range(seeds)[1::2]
    for own, other in (halves, halves[::-1]):
        places[list(own)] = best(other or own)
    first, second = rates[places[0]], rates[places[min(1, seeds - 1)]]
    return Chosen((first, second), places, edge((first, second), rates))


def choose_least(losses: np.ndarray, rates: Sequence[float]) -> Chosen:
    """Choose the rates of the least mean of losses [n_seeds, n_rates]."""
    return choose(
        len(losses), rates, lambda some: int(np.argmin(np.mean(losses[list(some)], axis=0)))
    )


def at_least_loss(cells: pd.DataFrame, losses: pd.DataFrame) -> tuple[pd.DataFrame, Chosen]:
    """Return the rows of an arm at the rates of its least mean loss, and these rates.

    `losses` has a row for each run: its seed, learning_rate and loss. A run without a loss has
    diverged, and is worse than any other.
    """
    seeds, rates = (sorted(set(losses[name])) for name in ("seed", "learning_rate"))
    chosen = choose_least(matrix(losses, "loss", np.inf), rates)
    at = pd.DataFrame({"seed": seeds, "learning_rate": [rates[place] for place in chosen.places]})
    return at.merge(cells, on=["seed", "learning_rate"]), chosen


def matrix(cells: pd.DataFrame, name: str, empty: float = np.nan) -> np.ndarray:
    """Return a column of the runs of an arm as [n_seeds, n_rates], both in rising order."""
    table = cells.pivot_table(
        index="seed", columns="learning_rate", values=name, dropna=False, sort=True
    )
    return table.to_numpy(dtype=float, na_value=empty)


def edge(chosen: Sequence[float], grid: Sequence[float]) -> str:
    """Return which end of the grid one of the rates is at; empty if none is."""
    lowest, highest = (end in chosen for end in (min(grid), max(grid)))
    if len(set(grid)) == 1:
        return "only"
    return "lowest" if lowest else "highest" if highest else ""
