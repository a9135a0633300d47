"""Associative retrieval: noisy queries find their item in a library that is new at every step.

The model is one attention head with trained projections: q = y W_q and k = x W_k for queries
y and items x, both of d_model entries; its weights average the items' values. The scores
y W_q W_kᵀ xᵀ depend on the projections only through the product W_q W_kᵀ, so the forward
pass and the gradient with respect to it cost the same at every d_k.

Gradients are derived by hand. Arrays of several runs are stacked along leading axes, and the bits
of a run do not depend on the other ones. Nothing here knows a path or a configuration.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Protocol, get_args, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sqrtdk.core import adam, row_softmax
from sqrtdk.core.attention import shift_by_row_max, softmax
from sqrtdk.core.gradients import softmax_backward
from sqrtdk.core.shapes import Float, Floats, Int, Reduced

Loss = Literal["values", "weights"]
"""The input of the loss: the attention's output, or the attention weights."""

LOSSES: tuple[Loss, ...] = get_args(Loss)


class Batch(NamedTuple):
    """Libraries and their queries, with any leading axes.

    `items` [n_k, d_model] are the inputs of the keys, `values` [n_k, d_v] the vectors that the
    attention averages, `queries` [n_q, d_model] noisy copies of items, `targets` [n_q] the indices
    of these items.
    """

    items: Float[Floats, "*batch n_k d_model"]
    values: Float[Floats, "*batch n_k d_v"]
    queries: Float[Floats, "*batch n_q d_model"]
    targets: Int[NDArray[np.intp], "*batch n_q"]

    def at(self, place: int) -> "Batch":
        """Return the batch at one index of the first axis."""
        return Batch(*(array[place] for array in self))

    def part(self, part: slice | tuple[Any, ...]) -> "Batch":
        """Return a part along the leading axes."""
        items, values, queries = (x[part] for x in self[:3])
        return Batch(items, values, queries, self.targets[part])

    def astype(self, dtype: np.dtype[Any]) -> "Batch":
        """Return the batch with all vectors in one floating-point type."""
        items, values, queries = (x.astype(dtype, copy=False) for x in self[:3])
        return Batch(items, values, queries, self.targets)


def make_batch(
    items: Float[Floats, "*batch n_k d_model"],
    values: Float[Floats, "*batch n_k d_v"],
    noise: Float[Floats, "*batch n_q d_model"],
    targets: Int[NDArray[np.intp], "*batch n_q"],
    *,
    noise_sd: float,
) -> Batch:
    """Return a batch of items [n_k, d_model], rescaled to length √d_model, and its noisy queries.

    The query for item x is x + `noise_sd` times noise [n_q, d_model]. As all items have the same
    length, scores are enough to find them: with the identity as product, the best score is
    that of the nearest item.
    """
    lengths = np.linalg.norm(items, axis=-1, keepdims=True)
    sphere = items / lengths * math.sqrt(items.shape[-1])
    asked = np.take_along_axis(sphere, targets[..., np.newaxis], axis=-2)
    return Batch(sphere, values, asked + noise_sd * noise, targets)


def stack(batches: Sequence[Batch], *, axis: int) -> Batch:
    """Stack batches of one shape along a new axis."""
    items, values, queries, targets = (np.stack(x, axis) for x in zip(*batches, strict=True))
    return Batch(items, values, queries, targets)


# The loss and its gradient


def scores(
    batch: Batch, product: Float[Floats, "*batch d_model d_model"]
) -> Float[Floats, "*runs n_q n_k"]:
    """Return unscaled scores [..., n_q, n_k] for products W_q W_kᵀ."""
    return batch.queries @ product @ np.swapaxes(batch.items, -1, -2)


def loss_of(logits: Float[Floats, "*runs n_q n_k"], batch: Batch, loss: Loss) -> Reduced:
    """Return the mean loss over the queries of logits [..., n_q, n_k].

    `values`: half the squared distance of the attention's output to the value of the wanted item.
    `weights`: cross-entropy, -ln of the weight of that item.
    """
    if loss == "weights":
        shifted = shift_by_row_max(logits)
        target = _at_targets(shifted, batch)[..., 0]
        each: Floats = np.log(np.sum(np.exp(shifted), axis=-1)) - target
    else:
        error = softmax(logits) @ batch.values - _wanted(batch)
        each = np.sum(error * error, axis=-1) / 2
    mean: Floats = np.mean(each, axis=-1)
    return mean


def loss_d_logits(
    weights: Float[Floats, "*runs n_q n_k"], batch: Batch, loss: Loss
) -> Float[Floats, "*runs n_q n_k"]:
    """Return the gradient of `loss_of` with respect to the logits, from their softmax."""
    n_q = weights.shape[-2]
    if loss == "weights":
        found: Floats = weights / n_q
        at = np.broadcast_to(batch.targets[..., np.newaxis], (*weights.shape[:-1], 1))
        np.put_along_axis(found, at, (_at_targets(weights, batch) - 1.0) / n_q, axis=-1)
        return found
    error = (weights @ batch.values - _wanted(batch)) / n_q
    return softmax_backward(weights, error @ np.swapaxes(batch.values, -1, -2))


def loss_d_product(batch: Batch, product: Floats, *, scale: Floats, loss: Loss) -> Floats:
    """Return the gradient of the batch's loss with respect to the product, in its shape.

    `scale` [..., 1, 1] multiplies the scores.
    """
    if product.ndim == 3 and batch.queries.ndim <= 3:
        return _loss_d_products(batch, product, scale=scale, loss=loss)
    weights = softmax(scale * scores(batch, product))
    d_scores = scale * loss_d_logits(weights, batch, loss)
    return np.swapaxes(batch.queries, -1, -2) @ (d_scores @ batch.items)


def _loss_d_products(
    batch: Batch, product: Float[Floats, "runs d_model d_model"], *, scale: Floats, loss: Loss
) -> Float[Floats, "runs d_model d_model"]:
    """Return the same for several runs, without the checks of general functions.

    The batch is the same for all runs, or has a first axis of runs.
    """
    # A matrix product for each run: in float32, the digits of one product for all runs would
    # depend on their number.
    n_runs, n_q, n_k = len(product), batch.queries.shape[-2], batch.items.shape[-2]
    weights = (batch.queries @ product) @ np.swapaxes(batch.items, -1, -2)
    weights *= scale
    rows = weights.reshape(-1, n_k)
    top = row_softmax.softmax(rows)
    if loss == "weights":
        at = np.arange(0, rows.size, n_k).reshape(n_runs, n_q) + batch.targets
        weights.reshape(-1)[at] -= 1.0
        d_scores = weights
    else:
        # The error is weights @ values minus the wanted value; its product with valuesᵀ:
        gram = batch.values @ np.swapaxes(batch.values, -1, -2)
        d_scores = weights @ gram
        first = () if gram.ndim == 2 else (np.arange(n_runs)[:, np.newaxis],)
        d_scores -= gram[(*first, batch.targets)]
        row_softmax.softmax_backward(rows, d_scores.reshape(-1, n_k), top)
    d_scores *= scale / n_q
    found: Floats = np.swapaxes(batch.queries, -1, -2) @ (d_scores @ batch.items)
    return found


def _wanted(batch: Batch) -> Float[Floats, "*batch n_q d_v"]:
    return np.take_along_axis(batch.values, batch.targets[..., np.newaxis], axis=-2)


def _at_targets(rows: Float[Floats, "*runs n_q n_k"], batch: Batch) -> Float[Floats, "*runs n_q 1"]:
    at = np.broadcast_to(batch.targets[..., np.newaxis], (*rows.shape[:-1], 1))
    return np.take_along_axis(rows, at, axis=-1)


# Optimizers


@runtime_checkable
class Optimizer(Protocol):
    """Projections W_q and W_k [..., d_model, d_k] and their update from a gradient."""

    @property
    def product(self) -> Floats:
        """Return the product W_q W_kᵀ [..., d_model, d_model]."""

    def norms(self, d_product: Floats) -> tuple[Floats, Floats]:
        """Return norms [...] of the gradients with respect to W_q and W_k."""

    def step(self, d_product: Floats) -> None:
        """Take one step for a gradient with respect to the product."""


class SgdOptimizer:
    """Gradient descent W ← W - rate dL/dW, computed from products of the projections only.

    With G the gradient with respect to the product M = W_q W_kᵀ, dL/dW_q = G W_k and
    dL/dW_k = Gᵀ W_q. So M, W_q W_qᵀ and W_k W_kᵀ determine their own updates, and a step costs the
    same at every d_k. `rate` is [..., 1, 1].
    """

    def __init__(self, w_q: Floats, w_k: Floats, *, rate: Floats) -> None:
        self.rate = rate
        runs = np.broadcast_shapes(rate.shape[:-2], w_q.shape[:-2])
        self.product, self.of_q, self.of_k = (
            np.broadcast_to(a @ np.swapaxes(b, -1, -2), (*runs, a.shape[-2], b.shape[-2]))
            for a, b in ((w_q, w_k), (w_q, w_q), (w_k, w_k))
        )

    def norms(self, d_product: Floats) -> tuple[Floats, Floats]:
        """Return the norms, from |G W_k|² = ⟨G, G W_k W_kᵀ⟩ and the same for W_q."""
        return gradient_norms(d_product, self.of_q, self.of_k)

    def step(self, d_product: Floats) -> None:
        """Update the products to those of W_q - rate G W_k and W_k - rate Gᵀ W_q."""
        g, g_t = d_product, np.swapaxes(d_product, -1, -2)
        m, m_t, rate = self.product, np.swapaxes(self.product, -1, -2), self.rate
        left, right = self.of_q @ g, g @ self.of_k
        q, k = g @ m_t, g_t @ m
        self.product = m - rate * (left + right) + rate**2 * (q @ g)
        self.of_q = self.of_q - rate * (q + np.swapaxes(q, -1, -2)) + rate**2 * (right @ g_t)
        self.of_k = self.of_k - rate * (k + np.swapaxes(k, -1, -2)) + rate**2 * (g_t @ left)


class AdamOptimizer:
    """Adam on every entry of both projections.

    Its update is not a function of products of the projections, so the projections are stored.
    `rate` is [..., 1, 1].
    """

    def __init__(
        self, w_q: Floats, w_k: Floats, *, rate: Floats, epsilon: float | Floats = adam.EPSILON
    ) -> None:
        runs = np.broadcast_shapes(rate.shape[:-2], w_q.shape[:-2])
        self.rate = rate
        # In C order; keeping the order of a broadcast array would put the runs last.
        self.w_q, self.w_k = (
            np.array(np.broadcast_to(w, (*runs, *w.shape[-2:])), order="C") for w in (w_q, w_k)
        )
        self._moments = [adam.AdamState(w, epsilon=epsilon) for w in (self.w_q, self.w_k)]
        self._gradients = np.empty_like(self.w_q), np.empty_like(self.w_k)
        self._scratch = np.empty_like(self.w_q)

    @property
    def product(self) -> Floats:
        """Return W_q W_kᵀ."""
        found: Floats = self.w_q @ np.swapaxes(self.w_k, -1, -2)
        return found

    def norms(self, d_product: Floats) -> tuple[Floats, Floats]:
        """Return the norms of the gradients of both projections."""
        norm_q, norm_k = (np.sqrt(total(np.square(g))) for g in self._d_w(d_product))
        return norm_q, norm_k

    def step(self, d_product: Floats) -> None:
        """Update both moments and both projections."""
        gradients = self._d_w(d_product)
        # One projection at a time, because the arrays of one fit into a cache.
        for moments, w, g in zip(self._moments, (self.w_q, self.w_k), gradients, strict=True):
            moments.step(w, g, self._scratch, rate=self.rate)

    def _d_w(self, d_product: Floats) -> tuple[Floats, Floats]:
        d_w_q, d_w_k = self._gradients
        np.matmul(d_product, self.w_k, out=d_w_q)
        np.matmul(np.swapaxes(d_product, -1, -2), self.w_q, out=d_w_k)
        return d_w_q, d_w_k


def optimizer(
    name: str, w_q: Floats, w_k: Floats, rate: Floats, epsilon: float | Floats = adam.EPSILON
) -> Optimizer:
    """Return `adam` or `sgd` for some projections; rates are [n_runs, 1, 1], epsilon is Adam's."""
    if name == "adam":
        return AdamOptimizer(w_q, w_k, rate=rate, epsilon=epsilon)
    return SgdOptimizer(w_q, w_k, rate=rate)


def gradient_norms(d_product: Floats, of_q: Floats, of_k: Floats) -> tuple[Floats, Floats]:
    """Return the norms of the gradients with respect to W_q and W_k, from W_q W_qᵀ and W_k W_kᵀ."""
    # Rounding may put a squared norm slightly below 0.
    of_w_q, of_w_k = d_product * (d_product @ of_k), d_product * (of_q @ d_product)
    squares = total(of_w_q), total(of_w_k)
    return np.sqrt(np.maximum(squares[0], 0.0)), np.sqrt(np.maximum(squares[1], 0.0))


def total(matrices: Float[Floats, "*runs n m"]) -> Reduced:
    """Sum over the last two axes."""
    # As one axis: NumPy's order of a sum over two axes depends on the axes before them.
    total: Floats = np.sum(matrices.reshape(*matrices.shape[:-2], -1), axis=-1)
    return total


def signal_to_noise(d_product: Floats, w_q: Floats, w_k: Floats) -> float:
    """Return the signal-to-noise ratio of a batch's gradient with respect to both projections.

    This is the norm of the expected gradient over the root mean square of a batch's deviation from
    it. `d_product` [n, d_model, d_model] are gradients of many batches with respect to the product.
    The square of the expected gradient is estimated without bias from products of different
    batches. If the estimate is negative, the signal is lost in the noise and the ratio is 0.
    """
    of_q, of_k = w_q @ w_q.T, w_k @ w_k.T
    n = len(d_product)
    norm_q, norm_k = gradient_norms(d_product, of_q, of_k)
    squares = float(np.sum(norm_q**2 + norm_k**2))
    total_q, total_k = gradient_norms(np.sum(d_product, axis=0), of_q, of_k)
    signal = (float(total_q**2 + total_k**2) - squares) / (n * (n - 1))
    noise = squares / n - signal
    return math.sqrt(max(signal, 0.0) / noise) if noise > 0 else math.nan
