"""Compute sinks.csv: losses and weights of every kind of attention at its best learning rate.

The best rate has the least loss over all held-out queries. Half of the seeds choose it, and the
other half are reported at it, and vice versa, as in `training.rates`. Ratios of losses are computed
seed by seed.
"""

from collections.abc import Iterator
from typing import NamedTuple, cast

import numpy as np
import pandas as pd

from sqrtdk import schema
from sqrtdk.experiments.sinks.measure import ATTENTION, FIRST_KEY, Settings
from sqrtdk.experiments.training import measure as training
from sqrtdk.experiments.training import rates
from sqrtdk.schema import Column
from sqrtdk.stats.intervals import interval, typical_ratio
from sqrtdk.storage import tables

SIZES = (schema.D_K, schema.N_K, training.BATCH_SIZE)

METRICS = {
    "loss_matched": "Loss of queries with a match",
    "loss_unmatched": "Loss of queries without a match",
    "item_weight_matched": "Sum of the weights on items, with a match",
    "item_weight_unmatched": "Sum of the weights on items, without a match",
    "max_weight_unmatched": "Largest weight on an item, without a match",
    "first_weight_matched": "Weight on the first key, with a match",
    "first_weight_unmatched": "Weight on the first key, without a match",
    "sink_weight_matched": "Weight on the sink logit, with a match",
    "sink_weight_unmatched": "Weight on the sink logit, without a match",
    "first_value_rms": "Root mean square of the entries of the first key's value",
    "best_matched": "Loss of the best possible output, with a match",
    "best_unmatched": "Loss of the best possible output, without a match",
    "accuracy": "Share of matched queries whose largest weight on an item is on theirs",
}

_OTHER = (
    "Typical ratio (Hodges-Lehmann) of the loss of unmatched queries to that of the same attention "
    "with the other kind of first key: "
)
_SINK = (
    "Typical ratio of the loss of unmatched queries to that of sink_logit with the same kind of "
    "first key: "
)


def _triple(name: str, meaning: str) -> tuple[Column, ...]:
    return (
        Column(name, f"{meaning}, mean over seeds. Empty where it is undefined.", optional=True),
        Column(f"{name}_low", "Lower end of its 95 % interval.", optional=True),
        Column(f"{name}_high", "Upper end of its 95 % interval.", optional=True),
    )


COLUMNS = (
    *(schema.axis_column(key) for key in (*SIZES, ATTENTION, FIRST_KEY)),
    Column("n_seeds", "Number of seeds.", "seeds", read=int),
    *rates.CHOSEN_RATES,
    *(column for name, meaning in METRICS.items() for column in _triple(name, meaning)),
    *(
        Column(f"{name}{end}", f"{meaning}{words}", optional=True)
        for name, meaning in (("other_ratio", _OTHER), ("sink_ratio", _SINK))
        for end, words in (
            ("", "the estimate."),
            ("_low", "lower end of its 95 % interval."),
            ("_high", "upper end."),
        )
    ),
)


class Arm(NamedTuple):
    """One kind of attention and first key: its rows at the chosen rates, by seed, and the rates."""

    rows: pd.DataFrame
    rates: tuple[float, float]
    edge: str


def arm_of(cells: pd.DataFrame) -> Arm:
    """Return the rows of one arm, each seed at the rate that the other half of the seeds chose."""
    total = cells.assign(loss=(cells["loss_matched"] + cells["loss_unmatched"]) / 2)
    losses = total.pivot_table(
        index="seed", columns="learning_rate", values="loss", dropna=False, sort=True
    )
    # A run that diverged is worse than any other.
    found = losses.to_numpy(dtype=float, na_value=np.inf)
    seeds, grid = list(losses.index), [float(rate) for rate in losses.columns]
    places = np.empty(len(seeds), dtype=int)
    for own, other in ((0, 1), (1, 0)):
        chosen = found[other::2] if len(seeds) > 1 else found
        places[own::2] = int(np.argmin(np.mean(chosen, axis=0)))
    at = pd.DataFrame({"seed": seeds, "learning_rate": [grid[place] for place in places]})
    best = grid[places[0]], grid[places[min(1, len(places) - 1)]]
    rows = at.merge(cells, on=["seed", "learning_rate"]).set_index("seed")
    return Arm(rows, best, rates.edge(best, grid))


def rows(settings: Settings, runs: pd.DataFrame) -> Iterator[tables.Row]:
    """Yield the rows of sinks.csv for a run's runs.csv."""
    sizes = [key.name for key in SIZES]
    for at, frame in runs.groupby(sizes, sort=True):
        common = cast(tables.Row, dict(zip(sizes, at, strict=True)))
        arms = {
            (str(attention), str(first)): arm_of(cells)
            for (attention, first), cells in frame.groupby(["attention", "first_key"], sort=True)
        }
        for (attention, first), arm in arms.items():
            row: tables.Row = {
                "attention": attention,
                "first_key": first,
                "n_seeds": len(arm.rows),
                "rate_first": arm.rates[0],
                "rate_second": arm.rates[1],
                "edge": arm.edge,
            }
            for name in METRICS:
                values = arm.rows[name].dropna().to_numpy(dtype=float)
                if len(values):
                    low, high = interval(values)
                    row |= {name: float(np.mean(values)), f"{name}_low": low, f"{name}_high": high}
            other = arms.get((attention, "none" if first == "learned" else "learned"))
            row |= _ratio("other_ratio", arm, other)
            row |= _ratio("sink_ratio", arm, arms.get(("sink_logit", first)))
            yield {column.name: (common | row).get(column.name, np.nan) for column in COLUMNS}


def _ratio(name: str, arm: Arm, other: Arm | None) -> tables.Row:
    if other is None:
        return {}
    found = (arm.rows["loss_unmatched"] / other.rows["loss_unmatched"]).dropna()
    if found.empty:
        return {}
    ratio = typical_ratio(found.to_numpy(dtype=float))
    return {name: ratio.mean, f"{name}_low": ratio.low, f"{name}_high": ratio.high}
