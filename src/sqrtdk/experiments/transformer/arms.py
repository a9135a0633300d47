"""Compute arms.csv: loss at each learning rate, and how wide the window of rates is.

A run has learnt if it closes at least `LEARNT` of the gap between its loss at initialisation and
the lowest mean loss that a transformer of the same task and d_head reaches under any scale rule,
and is not lost: it has not diverged and does not end above the loss that needs no attention. The
window of a seed is the number of decades of rates at which it has learnt, as in
`training.rates`. A run that diverged counts with its loss at initialisation.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd

from sqrtdk import schema
from sqrtdk.experiments.training.crossfit import matrix
from sqrtdk.experiments.training.rates import decades
from sqrtdk.experiments.transformer import unattended
from sqrtdk.experiments.transformer.data import Task
from sqrtdk.experiments.transformer.measure import D_HEAD, LEARNING_RATE, NETWORK, TASK, Settings
from sqrtdk.schema import DIFFERENCE, NOT_NEGATIVE, Column
from sqrtdk.stats.seed_columns import estimate_columns, mean_row
from sqrtdk.stats.series import scaled_rule
from sqrtdk.storage import tables

LEARNT = 0.9
"""Share of the gap from the first loss to the best one that a run must close to have learnt."""

_BEST = "Only in the row of the arm's best rate, else empty"

COLUMNS = (
    *(schema.axis_column(key) for key in (TASK, NETWORK, D_HEAD, schema.SCALING, LEARNING_RATE)),
    Column("n_seeds", "Number of seeds.", "seeds", read=int),
    *estimate_columns(
        "loss", "Held-out loss after the last step, mean over seeds.", "nats", optional=False
    ),
    Column("accuracy", "Accuracy after the last step, mean over seeds.", "share"),
    Column(
        "learnt",
        f"Number of seeds that close {100 * LEARNT:.0f} % of the gap between the first loss and "
        "the lowest mean loss of a transformer of this task and d_head, and are not lost.",
        "seeds",
        read=int,
    ),
    Column("diverged", "Number of seeds that diverged.", "seeds", read=int),
    Column(
        "lost",
        "Number of seeds that diverged, or whose loss after training is above unattended.",
        "seeds",
        read=int,
    ),
    Column("begun", "Held-out loss at initialisation, mean over seeds.", "nats"),
    Column(
        "unattended",
        "Loss that the task allows without attention. text: that of a table of pairs of characters "
        "(Witten and Bell 1991). recall: the value is known only where a position is asked about "
        "its own key.",
        "nats",
    ),
    Column("best", "1 for the rate with the lowest mean loss of the arm, else 0.", read=int),
    *estimate_columns("window", f"Decades of rates at which a seed has learnt, mean. {_BEST}."),
    Column(
        "window_edge",
        f"1 if some seed has learnt at the highest rate of the grid, so that the window may be "
        f"wider. {_BEST}.",
        optional=True,
    ),
    *estimate_columns(
        "gap",
        f"Decades by which the window is wider with 1/√d_head, seed by seed, mean. {_BEST}, and "
        "empty without that rule.",
    ),
    *estimate_columns(
        "lost_more",
        "Share of the rates at which a seed is lost, minus that with 1/√d_head, seed by seed, "
        f"mean. {_BEST}, and empty without that rule.",
    ),
    *estimate_columns(
        "sensitivity",
        "Learning-rate sensitivity (Wortsman et al. 2023): mean over rates of the loss above the "
        f"arm's best one, mean over seeds. {_BEST}, and empty if no seed has learnt at any rate.",
        "nats",
    ),
)


class Arm(NamedTuple):
    """The runs of one arm after the last step, a row for each seed and a column for each rate.

    `begun` [n_seeds, n_rates] is the loss at initialisation, and `halfway` that at the last logged
    step of the first half of the training; NaN if only the initialisation was logged in it.
    `unattended` is the loss that the task allows without attention.
    """

    rates: list[float]
    begun: np.ndarray
    halfway: np.ndarray
    loss: np.ndarray
    accuracy: np.ndarray
    diverged: np.ndarray
    unattended: float

    def learnt(self, best: float) -> np.ndarray:
        """Return which runs close enough of the gap to a best loss and are not lost.

        The shape is [n_seeds, n_rates].
        """
        closed = self.begun - self.loss >= LEARNT * (self.begun - best)
        learnt: np.ndarray = closed & ~self.lost()
        return learnt

    def lost(self) -> np.ndarray:
        """Return which runs diverged or end above `unattended`, [n_seeds, n_rates]."""
        lost: np.ndarray = (self.diverged > 0) | (self.loss > self.unattended)
        return lost


def arms_of(settings: Settings, runs: pd.DataFrame) -> dict[tuple[str, str, int, str], Arm]:
    """Return every arm by task, network, d_head and scale rule."""
    axes = ["task", "network", "d_head", "scaling"]
    steps, found = int(settings["steps"]), {}
    half = int(runs["step"][2 * runs["step"] <= steps].max())
    for at, frame in runs.groupby(axes, sort=True):
        ends = frame[frame["step"] == steps]
        begun = matrix(frame[frame["step"] == 0], "held_out_loss")
        found[cast(tuple[str, str, int, str], at)] = Arm(
            sorted(set(frame["learning_rate"])),
            begun,
            _losses(frame[frame["step"] == half], begun) if half else np.full_like(begun, np.nan),
            _losses(ends, begun),
            matrix(ends, "accuracy"),
            matrix(ends, "diverged"),
            unattended.loss(cast(Task, at[0]), int(settings["n_tokens"])),
        )
    return found


def _losses(frame: pd.DataFrame, begun: np.ndarray) -> np.ndarray:
    """Return the losses at one step; that at initialisation for a run that has diverged."""
    return np.where(matrix(frame, "diverged") > 0, begun, matrix(frame, "held_out_loss"))


def best_losses(arms: Mapping[tuple[str, str, int, str], Arm]) -> dict[tuple[str, int], float]:
    """Return the lowest mean loss of a transformer by task and d_head, over rules and rates."""
    found: dict[tuple[str, int], float] = {}
    for (task, network, d_head, _), arm in arms.items():
        if network == "transformer":
            low = float(np.min(np.mean(arm.loss, axis=0)))
            found[task, d_head] = min(low, found.get((task, d_head), np.inf))
    return found


def windows(arm: Arm, best: float) -> np.ndarray:
    """Return the window of each seed in decades."""
    width = np.array(decades(arm.rates))
    found: np.ndarray = arm.learnt(best) @ width
    return found


def rows(settings: Settings, runs: pd.DataFrame) -> Iterator[tables.Row]:
    """Yield the rows of arms.csv for a run's runs.csv."""
    arms = arms_of(settings, runs)
    best = best_losses(arms)
    scaled = scaled_rule(settings["scaling"])
    for (task, network, d_head, scaling), arm in arms.items():
        # A recurrent network alone is compared with itself.
        level = best.get((task, d_head), float(np.min(np.mean(arm.loss, axis=0))))
        other = arms.get((task, network, d_head, scaled or ""))
        chosen = int(np.argmin(np.mean(arm.loss, axis=0)))
        learnt, lost = arm.learnt(level), arm.lost()
        for place, rate in enumerate(arm.rates):
            row: dict[str, Any] = {
                "task": task, "network": network, "d_head": d_head, "scaling": scaling,
                "learning_rate": rate, "n_seeds": len(arm.loss),
                **mean_row("loss", arm.loss[:, place], within=NOT_NEGATIVE),
                "accuracy": float(np.mean(arm.accuracy[:, place])),
                "learnt": int(np.sum(learnt[:, place])),
                "diverged": int(np.sum(arm.diverged[:, place])),
                "lost": int(np.sum(lost[:, place])),
                "begun": float(np.mean(arm.begun)),
                "unattended": arm.unattended,
                "best": int(place == chosen),
            }  # fmt: skip
            if place == chosen:
                row |= mean_row("window", windows(arm, level), within=NOT_NEGATIVE)
                row["window_edge"] = float(np.any(learnt[:, -1]))
                if other is not None:
                    row |= mean_row("gap", windows(other, level) - windows(arm, level))
                    more = np.mean(lost, axis=1) - np.mean(other.lost(), axis=1)
                    row |= mean_row("lost_more", more, within=DIFFERENCE)
                # An arm that learns nothing has about the same loss at all rates.
                if np.any(learnt):
                    above = arm.loss - arm.loss[:, [chosen]]
                    row |= mean_row("sensitivity", np.mean(above, axis=1))
            yield {column.name: row.get(column.name, np.nan) for column in COLUMNS}
