"""Compute lengths.csv: every scale rule at every number of keys asked, at its best learning rate.

The best rate has the least loss at the number of keys of training; longer libraries have no say.
Half of the seeds choose it, and the other half are reported at it, and vice versa, as in
`training.rates`.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple, cast

import numpy as np
import pandas as pd

from sqrtdk import schema
from sqrtdk.experiments.extrapolation.measure import MULTIPLIER, N_ASKED, Settings
from sqrtdk.experiments.training import measure as training
from sqrtdk.experiments.training import rates
from sqrtdk.schema import Column
from sqrtdk.stats.intervals import interval, typical_ratio
from sqrtdk.stats.series import scaled_rule
from sqrtdk.storage import tables

SIZES = (schema.D_K, schema.N_K, training.BATCH_SIZE)

METRICS = {
    "match_weight": "Weight on the wanted item",
    "held_out_loss": "Held-out loss",
    "entropy_nats": "Entropy of the weights in nats",
    "accuracy": "Share of queries whose largest weight is on the wanted item",
    "scale": "Factor that multiplies the scores",
    "best_match_weight": "Weight on the wanted item by the best possible weights",
    "best_loss": "Loss of the best possible output",
    "best_accuracy": "Accuracy of the best possible weights",
}

_KEPT = "Typical ratio (Hodges-Lehmann) of the weight on the wanted item to that at n_k keys: "
_RATIO = "Typical ratio (Hodges-Lehmann) of the loss to that of 1/√d_k with a fixed multiplier: "


def _three(name: str, first: str, ends: str = "of its 95 % interval") -> tuple[Column, ...]:
    return (
        Column(name, first, optional=True),
        Column(f"{name}_low", f"Lower end {ends}.", optional=True),
        Column(f"{name}_high", f"Upper end {ends}.", optional=True),
    )


COLUMNS = (
    *(schema.axis_column(key) for key in (*SIZES, schema.SCALING, MULTIPLIER, N_ASKED)),
    Column("n_seeds", "Number of seeds.", "seeds", read=int),
    *rates.CHOSEN_RATES,
    *(
        column
        for name, meaning in METRICS.items()
        for column in _three(name, f"{meaning}, mean over seeds. Empty if all diverged.")
    ),
    *_three("kept", f"{_KEPT}the estimate. Empty if the run does not ask at n_k keys."),
    *_three("loss_ratio", f"{_RATIO}the estimate. Empty if the run has no such rule."),
)


class Arm(NamedTuple):
    """One rule and multiplier: its rows at the chosen rates, and the rates."""

    rows: pd.DataFrame
    rates: tuple[float, float]
    edge: str

    def at(self, n_asked: int) -> pd.DataFrame:
        """Return the rows at a number of keys, by seed."""
        return self.rows[self.rows["n_asked"] == n_asked].set_index("seed")


def arm_of(cells: pd.DataFrame, n_k: int) -> Arm:
    """Return the rows of one arm, each seed at the rate that the other half of the seeds chose."""
    # The smallest number of keys asked, where it is not that of training.
    shortest = n_k if (cells["n_asked"] == n_k).any() else cells["n_asked"].min()
    losses = cells[cells["n_asked"] == shortest].pivot_table(
        index="seed", columns="learning_rate", values="held_out_loss", dropna=False, sort=True
    )
    found = losses.to_numpy(dtype=float, na_value=np.inf)
    seeds, grid = list(losses.index), [float(rate) for rate in losses.columns]
    places = np.empty(len(seeds), dtype=int)
    for own, other in ((0, 1), (1, 0)):
        chosen = found[other::2] if len(seeds) > 1 else found
        places[own::2] = int(np.argmin(np.mean(chosen, axis=0)))
    at = pd.DataFrame({"seed": seeds, "learning_rate": [grid[place] for place in places]})
    best = grid[places[0]], grid[places[min(1, len(places) - 1)]]
    return Arm(at.merge(cells, on=["seed", "learning_rate"]), best, rates.edge(best, grid))


def rows(settings: Settings, runs: pd.DataFrame) -> Iterator[tables.Row]:
    """Yield the rows of lengths.csv for a run's runs.csv."""
    sizes, scaled = [key.name for key in SIZES], scaled_rule(settings["scaling"])
    for at, frame in runs.groupby(sizes, sort=True):
        common = cast(tables.Row, dict(zip(sizes, at, strict=True)))
        n_k = int(common["n_k"])
        arms = {
            (str(scaling), str(multiplier)): arm_of(cells, n_k)
            for (scaling, multiplier), cells in frame.groupby(["scaling", "multiplier"], sort=True)
        }
        measure = arms.get((scaled or "", "fixed"))
        for (scaling, multiplier), arm in arms.items():
            named: tables.Row = {"scaling": scaling, "multiplier": multiplier}
            for n_asked in sorted(set(frame["n_asked"])):
                row = common | named | _row(arm, measure, n_k, int(n_asked))
                yield {column.name: row.get(column.name, np.nan) for column in COLUMNS}


def _row(arm: Arm, measure: Arm | None, n_k: int, n_asked: int) -> tables.Row:
    there = arm.at(n_asked)
    row: tables.Row = {
        "n_asked": n_asked,
        "n_seeds": len(there),
        "rate_first": arm.rates[0],
        "rate_second": arm.rates[1],
        "edge": arm.edge,
    }
    for name in METRICS:
        values = there[name].dropna().to_numpy(dtype=float)
        if len(values):
            row |= _ends(name, float(np.mean(values)), interval(values))
    row |= _ratio("kept", there["match_weight"], arm.at(n_k)["match_weight"])
    if measure is not None:
        row |= _ratio("loss_ratio", there["held_out_loss"], measure.at(n_asked)["held_out_loss"])
    return row


def _ratio(name: str, over: pd.Series, under: pd.Series) -> Mapping[str, float]:
    found = (over / under).dropna()
    if found.empty:
        return {}
    ratio = typical_ratio(found.to_numpy(dtype=float))
    return _ends(name, ratio.mean, (ratio.low, ratio.high))


def _ends(name: str, value: float, ends: tuple[float, float]) -> dict[str, float]:
    return {name: value, f"{name}_low": ends[0], f"{name}_high": ends[1]}
