"""Train runs of the lookup together, and measure them on held-out libraries."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sqrtdk.core.metrics import row_metrics
from sqrtdk.core.shapes import Floats
from sqrtdk.experiments.training import lookup
from sqrtdk.experiments.training.lookup import Batch, Loss, Optimizer

FIRST_ASKED = 0.2
"""Share of the held-out libraries that decide for most runs that have not learnt."""


class LogPoint(NamedTuple):
    """Measurements of several runs [n_runs] after `step` steps.

    Loss, accuracy, entropy and largest weight are means over the held-out queries. Gradient norms
    are those of the batch of the next step. All are NaN for a run that has diverged: some held-out
    score, before the scale, is not finite. All but accuracy are also NaN if they need a number
    beyond the largest float. `steps_to_level` is the first step, up to this one, at which accuracy
    reached the level; NaN before that.
    """

    step: int
    loss: Floats
    accuracy: Floats
    entropy_nats: Floats
    max_weight: Floats
    grad_w_q_norm: Floats
    grad_w_k_norm: Floats
    steps_to_level: Floats
    diverged: Floats


def train(
    optimizer: Optimizer,
    batches: Batch,
    held_out: Batch,
    *,
    scale: Floats,
    loss: Loss,
    logged: Sequence[int],
    level: float,
) -> list[LogPoint]:
    """Train runs together, one step for each batch along the first axis but the last one.

    The runs are the leading axis of the optimizer's arrays and of `scale` [n_runs, 1, 1]. They
    share their data, or `held_out` and the second axis of the batches have one entry for each.
    Until a run has reached the level, its held-out accuracy is measured at every step, and
    everything else at the logged ones.
    """
    wanted, reached = frozenset(logged), np.full(len(scale), np.nan)
    n_asked = math.prod(held_out.targets.shape[-2:])
    points = []
    for step in range(len(batches.targets)):
        batch, product = batches.at(step), optimizer.product
        d_product = lookup.loss_d_product(batch, product, scale=scale, loss=loss)
        if step not in wanted:
            reached[_reach(held_out, product, np.isnan(reached), level)] = step
        else:
            found = lookup.scores(held_out, product[:, np.newaxis])
            finite: NDArray[np.bool_] = np.all(np.isfinite(found), axis=(-3, -2, -1))
            # A scale is above 0, so it does not change which score is largest.
            hits = np.equal(np.argmax(found, axis=-1), held_out.targets)
            accuracy = np.where(finite, np.mean(hits, axis=(-2, -1)), np.nan)
            reached = np.where(np.isnan(reached) & (accuracy >= level), step, reached)
            logits = scale[:, np.newaxis] * found
            # A scale above 1 may make finite scores infinite.
            scaled = np.all(np.isfinite(logits), axis=(-3, -2, -1))
            rows = row_metrics(np.where(np.isfinite(logits), logits, 0.0))
            norm_q, norm_k = optimizer.norms(d_product)

            def known(measured: Floats, scaled: NDArray[np.bool_] = scaled) -> Floats:
                return np.where(scaled & np.isfinite(measured), measured, np.nan)

            points.append(
                LogPoint(
                    step,
                    known(np.mean(lookup.loss_of(logits, held_out, loss), axis=-1)),
                    accuracy,
                    known(lookup.total(rows.entropy_nats) / n_asked),
                    known(lookup.total(rows.max_weight) / n_asked),
                    known(norm_q),
                    known(norm_k),
                    reached.copy(),
                    np.where(finite, 0.0, 1.0),
                )
            )
        optimizer.step(d_product)
    return points


def _reach(
    held_out: Batch, product: Floats, runs: NDArray[np.bool_], level: float
) -> NDArray[np.intp]:
    """Return which of some runs [n_runs] have a held-out accuracy of at least the level.

    A run that answers too many queries of the first libraries wrongly is not asked the others.
    A product that is not finite gives scores that are not, which is no accuracy.
    """
    at = np.flatnonzero(runs & np.all(np.isfinite(product), axis=(-2, -1)))
    right = np.zeros(len(at), dtype=int)
    libraries, n_q = held_out.targets.shape[-2:]
    few = math.ceil(FIRST_ASKED * libraries)
    for part in (slice(few), slice(few, libraries)):
        if not len(at) or part.start == libraries:
            break
        asked = held_out.part(part if held_out.targets.ndim == 2 else (at, part))
        right += _right_answers(asked, product[at])
        missing = n_q * (libraries - min(part.stop, libraries))
        kept = (right + missing) / (n_q * libraries) >= level
        at, right = at[kept], right[kept]
    return at


def _right_answers(asked: Batch, product: Floats) -> NDArray[np.intp]:
    """Return how many queries of libraries the products [n_runs, ...] answer rightly.

    If a score is not finite, no answer counts.
    """
    *runs, libraries, n_q, d_model = asked.queries.shape
    found = asked.queries.reshape(*runs, -1, d_model) @ product
    found = found.reshape(-1, libraries, n_q, d_model) @ np.swapaxes(asked.items, -1, -2)
    hits = np.argmax(found, axis=-1) == asked.targets
    # Large scores that are finite may have a sum that is not.
    if not np.isfinite(np.sum(found)):
        hits &= np.all(np.isfinite(found), axis=(1, 2, 3), keepdims=True)[..., 0]
    right: NDArray[np.intp] = np.count_nonzero(hits, axis=(1, 2))
    return right
