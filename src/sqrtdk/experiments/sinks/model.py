"""One attention head of which some queries have no match, with and without a sink.

The task is that of `training.lookup`; a query without a match is a noisy point that is no item of
its library, and its wanted output is 0. Weights that sum to 1 cannot give 0, unless some of them
are on a sink: a logit of its own, or a key whose value is 0. Queries have one more entry, always 1,
and items have 0 there: W_q has a bias, without which queries have mean 0 and no key could be a sink
for all of them.

Gradients are derived by hand. Several runs are stacked along leading axes, and the bits of a run
do not depend on the others. Nothing here knows a path or a configuration.
"""

import math
from typing import Literal, NamedTuple, get_args

import numpy as np
import scipy  # its modules load at first use, because the start of a run needs none of them
from numpy.typing import NDArray

from sqrtdk.core.adam import AdamState
from sqrtdk.core.shapes import Bool, Float, Floats
from sqrtdk.experiments.training import lookup
from sqrtdk.experiments.training.lookup import AdamOptimizer, Batch

Attention = Literal["softmax", "softmax1", "sink_logit", "sigmoid", "sigmoid_bias"]
"""How logits become weights.

`softmax1` adds 1 to the denominator of softmax (Miller 2023), which is a sink with logit 0;
`sink_logit` learns that logit. `sigmoid` weighs each key alone, with the constant -ln n_k
(Ramapuram et al. 2024); `sigmoid_bias` learns that constant.
"""

ATTENTIONS: tuple[Attention, ...] = get_args(Attention)

BIAS_RATE = 0.1
"""Learning rate of a learned logit or constant, at every rate of the projections."""


class Task(NamedTuple):
    """Queries of which only the `matched` [..., n_q] have an item."""

    batch: Batch
    matched: Bool[NDArray[np.bool_], "*batch n_q"]

    def at(self, place: int) -> "Task":
        """Return the task at one index of the first axis."""
        return Task(self.batch.at(place), self.matched[place])

    @property
    def wanted(self) -> Float[Floats, "*batch n_q d_v"]:
        """Return the wanted outputs: the value of the item, or 0."""
        values = np.take_along_axis(self.batch.values, self.batch.targets[..., np.newaxis], axis=-2)
        return np.where(self.matched[..., np.newaxis], values, 0.0)


def make_task(
    batch: Batch,
    strangers: Float[Floats, "*batch n_q d_model"],
    noise: Float[Floats, "*batch n_q d_model"],
    matched: Bool[NDArray[np.bool_], "*batch n_q"],
    *,
    noise_sd: float,
) -> Task:
    """Return the task of a batch; a query without a match is about one of the `strangers`.

    Strangers have the length of items, √d_model, so that only their direction tells them apart.
    """
    lengths = np.linalg.norm(strangers, axis=-1, keepdims=True)
    others = strangers / lengths * math.sqrt(strangers.shape[-1]) + noise_sd * noise
    queries = np.where(matched[..., np.newaxis], batch.queries, others)
    return Task(
        batch._replace(items=_with_entry(batch.items, 0.0), queries=_with_entry(queries, 1.0)),
        matched,
    )


def _with_entry(rows: Floats, value: float) -> Floats:
    """Return rows with one more entry."""
    return np.concatenate([rows, np.full((*rows.shape[:-1], 1), value)], axis=-1)


class Weights(NamedTuple):
    """Weights [..., n_q, n_k], and the weight [..., n_q, 1] on a sink logit (0 without one)."""

    keys: Floats
    sink: Floats


def weigh(logits: Floats, bias: Floats, attention: Attention) -> Weights:
    """Return the weights of logits [..., n_q, n_k], given the sink's logit or the constant."""
    if attention.startswith("sigmoid"):
        found: Floats = scipy.special.expit(logits + bias)
        return Weights(found, np.zeros_like(found[..., :1]))
    top = np.max(logits, axis=-1, keepdims=True)
    if attention == "softmax":
        e = np.exp(logits - top)
        return Weights(e / np.sum(e, axis=-1, keepdims=True), np.zeros_like(top))
    top = np.maximum(top, bias)
    e, sink = np.exp(logits - top), np.exp(bias - top)
    total = np.sum(e, axis=-1, keepdims=True) + sink
    return Weights(e / total, sink / total)


def weigh_backward(
    d_weights: Floats, weights: Weights, attention: Attention
) -> tuple[Floats, Floats]:
    """Return the gradients with respect to the logits and, [..., n_q, 1], to the bias."""
    p = weights.keys
    if attention.startswith("sigmoid"):
        d_logits = d_weights * p * (1.0 - p)
        return d_logits, np.sum(d_logits, axis=-1, keepdims=True)
    # The loss does not depend on the sink's weight but through the others.
    inner = np.sum(d_weights * p, axis=-1, keepdims=True)
    return p * (d_weights - inner), -weights.sink * inner


def has_sink(attention: Attention) -> bool:
    """Return whether there is a sink logit, learned or fixed."""
    return attention in ("softmax1", "sink_logit")


def is_learned(attention: Attention) -> bool:
    """Return whether the bias is learned."""
    return attention in ("sink_logit", "sigmoid_bias")


class Head:
    """Projections [n_runs, d_model, d_k], a bias and perhaps a first key, of several runs.

    All runs have one kind of attention. `first` is the item and the value that the first key begins
    with; both are learned. `rate` [n_runs, 1, 1] is that of everything but the bias.
    """

    def __init__(
        self,
        w_q: Floats,
        w_k: Floats,
        attention: Attention,
        first: tuple[Floats, Floats] | None,
        *,
        rate: Floats,
        n_k: int,
    ) -> None:
        runs = len(rate)
        self.attention, self.scale = attention, 1.0 / math.sqrt(w_q.shape[-1])
        self.projections = AdamOptimizer(w_q, w_k, rate=rate)
        start = -math.log(n_k) if attention.startswith("sigmoid") else 0.0
        self.bias = np.full((runs, 1, 1), start)
        self._rate = rate
        self._bias_moments = AdamState(self.bias)
        self.first: tuple[Floats, Floats] | None = None
        if first is not None:
            item, value = (np.tile(x[np.newaxis, np.newaxis], (runs, 1, 1)) for x in first)
            self.first = item, value
            self._first_moments = AdamState(item), AdamState(value)

    def logits(self, batch: Batch, product: Floats) -> Floats:
        """Return scaled logits [..., n_q, n_k]; those of the first key, if any, come first.

        `product` has as many leading axes as the queries and the runs together.
        """
        found = self.scale * lookup.scores(batch, product)
        if self.first is None:
            return found
        item = self.first[0].reshape(*product.shape[:-2], 1, -1)
        of_first: Floats = self.scale * (batch.queries @ product) @ np.swapaxes(item, -1, -2)
        together: Floats = np.concatenate([of_first, found], axis=-1)
        return together

    def values(self, batch: Batch, product: Floats) -> Floats:
        """Return the values [..., n_k, d_v] to average, that of the first key first."""
        if self.first is None:
            return batch.values
        value = self.first[1].reshape(*product.shape[:-2], 1, -1)
        shape = np.broadcast_shapes(value.shape[:-2], batch.values.shape[:-2])
        return np.concatenate(
            [
                np.broadcast_to(value, (*shape, *value.shape[-2:])),
                np.broadcast_to(batch.values, (*shape, *batch.values.shape[-2:])),
            ],
            axis=-2,
        )

    def gradient(self, task: Task) -> "Gradient":
        """Return the gradient of the mean loss, half the squared distance to the wanted output."""
        batch, product = task.batch, self.projections.product
        weights = weigh(self.logits(batch, product), self.bias, self.attention)
        values = self.values(batch, product)
        error = (weights.keys @ values - task.wanted) / len(task.matched)
        d_logits, d_bias = weigh_backward(
            error @ np.swapaxes(values, -1, -2), weights, self.attention
        )
        d_scores, queries_t = self.scale * d_logits, np.swapaxes(batch.queries, -1, -2)
        bias = np.sum(d_bias[..., 0], axis=-1)[..., np.newaxis, np.newaxis]
        if self.first is None:
            return Gradient(queries_t @ (d_scores @ batch.items), bias)
        of_first, of_items = d_scores[..., :1], d_scores[..., 1:]
        item, _ = self.first
        d_product = queries_t @ (of_items @ batch.items + of_first * item)
        d_item = np.swapaxes(of_first, -1, -2) @ (batch.queries @ product)
        d_value = np.swapaxes(weights.keys[..., :1], -1, -2) @ error
        return Gradient(d_product, bias, d_item, d_value)

    def step(self, found: "Gradient") -> None:
        """Take one step of Adam."""
        self.projections.step(found.product)
        if is_learned(self.attention):
            scratch = np.empty_like(self.bias)
            self._bias_moments.step(self.bias, found.bias.copy(), scratch, rate=BIAS_RATE)
        if self.first is None or found.item is None or found.value is None:
            return
        for moments, array, gradient in zip(
            self._first_moments, self.first, (found.item, found.value), strict=True
        ):
            moments.step(array, gradient, np.empty_like(array), rate=self._rate)


class Gradient(NamedTuple):
    """Gradients with respect to W_q W_kᵀ, the bias, and the first key's item and value."""

    product: Floats
    bias: Floats
    item: Floats | None = None
    value: Floats | None = None


class Measured(NamedTuple):
    """Measurements of runs [n_runs] on held-out queries; NaN for a run that diverged.

    Each pair is for queries with a match and without one. `item_weight` is the sum over the items,
    `first_weight` the weight on the first key and `sink_weight` that on the sink logit.
    """

    loss: tuple[Floats, Floats]
    item_weight: tuple[Floats, Floats]
    max_weight: tuple[Floats, Floats]
    first_weight: tuple[Floats, Floats]
    sink_weight: tuple[Floats, Floats]
    accuracy: Floats
    first_value_rms: Floats
    bias: Floats


def train(head: Head, tasks: Task) -> None:
    """Train the runs of a head, one step for each task along the first axis."""
    for step in range(len(tasks.matched)):
        head.step(head.gradient(tasks.at(step)))


def measure(head: Head, held_out: Task) -> Measured:
    """Measure the runs of a head on the held-out queries of several libraries."""
    batch, matched = held_out.batch, held_out.matched
    product = head.projections.product[:, np.newaxis]
    bias = head.bias[:, np.newaxis]
    logits = head.logits(batch, product)
    finite: NDArray[np.bool_] = np.all(np.isfinite(logits), axis=(-3, -2, -1))
    weights = weigh(np.where(np.isfinite(logits), logits, 0.0), bias, head.attention)
    error = weights.keys @ head.values(batch, product) - held_out.wanted
    has_first = head.first is not None
    items = weights.keys[..., 1:] if has_first else weights.keys
    missing = np.full(logits.shape[:-1], np.nan)

    def known(values: Floats) -> Floats:
        return np.where(finite & np.isfinite(values), values, np.nan)

    def both(values: Floats) -> tuple[Floats, Floats]:
        # Compressed, in C order: the order of a sum depends on that of the array.
        flat = values.reshape(len(values), -1)
        with_match, without = (
            known(np.mean(np.compress(kind.ravel(), flat, axis=-1), axis=-1))
            for kind in (matched, ~matched)
        )
        return with_match, without

    hits = np.equal(np.argmax(items, axis=-1), batch.targets)
    return Measured(
        both(np.sum(error * error, axis=-1) / 2),
        both(np.sum(items, axis=-1)),
        both(np.max(items, axis=-1)),
        both(weights.keys[..., 0] if has_first else missing),
        both(weights.sink[..., 0] if has_sink(head.attention) else missing),
        both(hits.astype(np.float64))[0],
        known(np.sqrt(np.mean(head.first[1][:, 0] ** 2, axis=-1)))
        if head.first is not None
        else np.full(len(finite), np.nan),
        known(head.bias[:, 0, 0]),
    )


def posterior_losses(task: Task, *, noise_sd: float, share: float) -> tuple[float, float]:
    """Return the losses of the best possible output, for queries with a match and without one.

    Given the library and a query y, the expected value is the best output. Item x_j has the
    likelihood exp(x_j·y / noise²) up to a factor that all share, and a stranger the mean of that
    over the sphere. So the best weights are those of a softmax with a sink logit, which is
    ln n_k + ln((1 - share)/share) + ln 0F1(d_model/2, d_model |y|² / (4 noise⁴)): the mean of
    exp(x·y / noise²) over the sphere of radius √d_model is that function. `share` is that of
    queries with a match.
    """
    batch, matched = task.batch, task.matched
    queries, items = (x[..., :-1] for x in (batch.queries, batch.items))
    n_k, d_model = items.shape[-2:]
    logits = queries @ np.swapaxes(items, -1, -2) / noise_sd**2
    kappa = math.sqrt(d_model) * np.linalg.norm(queries, axis=-1, keepdims=True) / noise_sd**2
    order = d_model / 2 - 1
    # ln 0F1(order + 1, kappa²/4) by the Bessel function I, scaled so that nothing overflows.
    mean = (
        scipy.special.gammaln(order + 1)
        - order * np.log(kappa / 2)
        + np.log(scipy.special.ive(order, kappa))
        + kappa
    )
    sink = math.log(n_k) + math.log((1 - share) / share) + mean
    weights = weigh(logits, sink, "sink_logit")
    error = weights.keys @ batch.values - task.wanted
    each = np.sum(error * error, axis=-1) / 2
    return float(np.mean(each[matched])), float(np.mean(each[~matched]))
