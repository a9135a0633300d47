"""One attention head trained with a remedy for large scores.

The task, its loss and its projections are those of `training.lookup`. A remedy changes how scores
become logits, the gradient, or the step of Adam. QK-norm needs the norms of q = y W_q and
k = x W_k, which are |q|² = y W_q W_qᵀ yᵀ and the same for k, so that only the optimizer costs more
at larger d_k.

Gradients are derived by hand. Several runs are stacked along leading axes, and the bits of a run
do not depend on the others. Nothing here knows a path or a configuration.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sqrtdk.core.adam import AdamState
from sqrtdk.core.attention import softmax, with_sink
from sqrtdk.core.metrics import row_metrics
from sqrtdk.core.shapes import Float, Floats
from sqrtdk.experiments.training import lookup
from sqrtdk.experiments.training.lookup import Batch

SCALE_RATE = 0.1
"""Learning rate of the logarithm of a learned scale, at every rate of the projections."""


@dataclass(frozen=True)
class Remedy:
    """How a run differs from plain Adam on the scores q·k.

    The logits are `multiplier` * d_k^-`exponent` times the scores; with `normalized`, times the
    cosines of q and k (Henry et al. 2020). With `learned`, the logarithm of that factor is trained.
    `cap` is the bound of cap * tanh(logit / cap) (Gemma 2). `warmup` is the number of steps over
    which the rate rises linearly, `decay` AdamW's weight decay (Loshchilov and Hutter 2019) and
    `clip` the largest norm of the gradient (Pascanu et al. 2013). After a step whose batch had a
    logit above `qk_clip`, W_q and W_k are scaled so that it would have had that one (Kimi K2).
    `sink` is the logit of one more key, whose value is 0; None for none.
    """

    exponent: float = 0.0
    multiplier: float = 1.0
    normalized: bool = False
    learned: bool = False
    cap: float = math.inf
    warmup: int = 1
    decay: float = 0.0
    clip: float = math.inf
    qk_clip: float = math.inf
    sink: float | None = None

    def factor(self, d_k: int) -> float:
        """Return the factor at initialisation."""
        return self.multiplier * math.pow(d_k, -self.exponent)

    @property
    def family(self) -> tuple[bool, bool, float]:
        """Return what runs that are trained together have in common: the formula of the weights."""
        # The weight of a sink of logit -inf is 0; unlike None, it can be sorted.
        return (
            self.normalized,
            math.isfinite(self.cap),
            -math.inf if self.sink is None else self.sink,
        )


REMEDIES = {
    "off": Remedy(),
    "warmup": Remedy(warmup=50),
    "adamw": Remedy(decay=0.1),
    "clipping": Remedy(clip=0.1),
    "temperature": Remedy(learned=True),
    "soft_cap": Remedy(cap=50.0),
    "qk_clip": Remedy(qk_clip=100.0),
    "qk_norm_1": Remedy(normalized=True, learned=True),
    "qk_norm_8": Remedy(normalized=True, learned=True, multiplier=8.0),
    "qk_norm_32": Remedy(normalized=True, learned=True, multiplier=32.0),
    "on": Remedy(exponent=0.5),
    "inverse_64": Remedy(exponent=1.0, multiplier=8.0),
}


class Forward(NamedTuple):
    """Logits [..., n_q, n_k], and what their gradient needs.

    `linear` are the logits before the cap and `slope` is its derivative. `factor`
    [..., 1 or n_q, 1 or n_k] is what multiplied the scores; `square_q` [..., n_q, 1] and `square_k`
    [..., 1, n_k] are squared norms for QK-norm.
    """

    logits: Floats
    linear: Floats
    factor: Floats
    slope: Floats | float = 1.0
    square_q: Floats | None = None
    square_k: Floats | None = None


class Gradient(NamedTuple):
    """The gradient with respect to W_q W_kᵀ and, for QK-norm, W_q W_qᵀ / 2 and W_k W_kᵀ / 2.

    dL/dW_q = `product` W_k + `of_q` W_q, dL/dW_k = `product`ᵀ W_q + `of_k` W_k. `log_scale`
    [..., 1, 1] is with respect to the logarithm of the scale.
    """

    product: Floats
    log_scale: Floats
    of_q: Floats | None = None
    of_k: Floats | None = None


class Head:
    """Projections W_q and W_k [n_runs, d_model, d_k] and scales [n_runs, 1, 1] of several runs.

    All remedies are of one family. `rate` [n_runs, 1, 1] is that of the projections.
    """

    def __init__(self, w_q: Floats, w_k: Floats, remedies: list[Remedy], *, rate: Floats) -> None:
        families = {remedy.family for remedy in remedies}
        if len(families) != 1:
            raise ValueError("runs of several families cannot be trained together")
        ((self.normalized, capped, _),) = families
        self.sink = remedies[0].sink
        shape = (len(remedies), *w_q.shape[-2:])
        self.w_q, self.w_k = (np.array(np.broadcast_to(w, shape), order="C") for w in (w_q, w_k))
        self.rate = rate

        def each(values: list[float]) -> Floats:
            return np.array(values, dtype=np.float64)[:, np.newaxis, np.newaxis]

        self.first_scale = each([remedy.factor(w_q.shape[-1]) for remedy in remedies])
        # Relative to the first scale, so that a scale that is not learned keeps its bits.
        self.log_scale = np.zeros_like(self.first_scale)
        self.cap = each([remedy.cap for remedy in remedies]) if capped else None
        self._warmup = each([remedy.warmup for remedy in remedies])
        self._decay = each([remedy.decay for remedy in remedies])
        self._clip = each([remedy.clip for remedy in remedies])
        self._qk_clip = each([remedy.qk_clip for remedy in remedies])
        self._scale_rate = each([SCALE_RATE * remedy.learned for remedy in remedies])
        self._moments = AdamState(self.w_q), AdamState(self.w_k)
        self._scale_moments = AdamState(self.log_scale)
        self._scratch = np.empty_like(self.w_q)
        self._steps = 0

    @property
    def scale(self) -> Floats:
        """Return the scale [n_runs, 1, 1] that multiplies the scores, or the cosines."""
        found: Floats = self.first_scale * np.exp(self.log_scale)
        return found

    def products(self) -> "Products":
        """Return the products of the projections that logits and their gradient need."""
        q_t, k_t = np.swapaxes(self.w_q, -1, -2), np.swapaxes(self.w_k, -1, -2)
        product = self.w_q @ k_t
        if not self.normalized:
            return Products(product)
        return Products(product, self.w_q @ q_t, self.w_k @ k_t)

    def d_projections(self, found: Gradient) -> tuple[Floats, Floats]:
        """Return the gradients with respect to W_q and W_k."""
        d_q = found.product @ self.w_k
        d_k = np.swapaxes(found.product, -1, -2) @ self.w_q
        if found.of_q is not None and found.of_k is not None:
            d_q += found.of_q @ self.w_q
            d_k += found.of_k @ self.w_k
        return d_q, d_k

    def step(self, found: Gradient, largest: Floats) -> None:
        """Take one step; `largest` [n_runs, 1, 1] is the largest logit of the batch."""
        self._steps += 1
        d_q, d_k = self.d_projections(found)
        if np.isfinite(self._clip).any():
            norm = np.sqrt(total(np.square(d_q)) + total(np.square(d_k)))
            shrink = np.where(norm > self._clip, self._clip / norm, 1.0)
            d_q *= shrink
            d_k *= shrink
        rate = self.rate * np.minimum(1.0, self._steps / self._warmup)
        decays = np.any(self._decay > 0)
        bound = np.where(largest > self._qk_clip, np.sqrt(self._qk_clip / largest), 1.0)
        for moments, w, gradient in zip(
            self._moments, (self.w_q, self.w_k), (d_q, d_k), strict=True
        ):
            if decays:
                w *= 1.0 - rate * self._decay
            moments.step(w, gradient, self._scratch, rate=rate)
            if np.any(bound < 1.0):
                w *= bound
        d_scale, scratch = found.log_scale.copy(), np.empty_like(self.log_scale)
        self._scale_moments.step(self.log_scale, d_scale, scratch, rate=self._scale_rate)


class Products(NamedTuple):
    """W_q W_kᵀ and, for QK-norm, W_q W_qᵀ and W_k W_kᵀ, each [..., d_model, d_model]."""

    product: Floats
    of_q: Floats | None = None
    of_k: Floats | None = None

    def beside(self, at: NDArray[np.intp] | slice = slice(None)) -> "Products":
        """Return those of some runs with one more axis, for batches of several libraries."""
        product = self.product[at][:, np.newaxis]
        if self.of_q is None or self.of_k is None:
            return Products(product)
        return Products(product, self.of_q[at][:, np.newaxis], self.of_k[at][:, np.newaxis])


def forward(batch: Batch, products: Products, scale: Floats, cap: Floats | None = None) -> Forward:
    """Return the logits of a batch, with QK-norm if there are products for its norms."""
    scores = lookup.scores(batch, products.product)
    factor, square_q, square_k = scale, None, None
    if products.of_q is not None and products.of_k is not None:
        square_q = squares(batch.queries, products.of_q)[..., :, np.newaxis]
        square_k = squares(batch.items, products.of_k)[..., np.newaxis, :]
        factor = factor / np.sqrt(square_q) / np.sqrt(square_k)
    linear = factor * scores
    if cap is None:
        return Forward(linear, linear, factor, 1.0, square_q, square_k)
    bent = np.tanh(linear / cap)
    return Forward(cap * bent, linear, factor, 1.0 - bent * bent, square_q, square_k)


def _d_logits(logits: Floats, batch: Batch, sink: float | None) -> Floats:
    """Return the gradient of the loss with respect to the logits of the items."""
    if sink is None:
        return lookup.loss_d_logits(softmax(logits), batch, "values")
    # A sink is one more item, whose value is 0.
    nothing = np.zeros_like(batch.values[..., :1, :])
    more = batch._replace(values=np.concatenate([batch.values, nothing], axis=-2))
    found = lookup.loss_d_logits(softmax(with_sink(logits, sink)), more, "values")
    return np.asarray(found[..., :-1])


def squares(
    rows: Float[Floats, "*batch n d_model"], gram: Float[Floats, "*runs d_model d_model"]
) -> Floats:
    """Return the squared norms of rows times W, from W Wᵀ."""
    found: Floats = np.sum((rows @ gram) * rows, axis=-1)
    return found


def weights_of(logits: Floats, sink: float | None = None) -> Floats:
    """Return the weights on the items, which with a sink sum to less than 1."""
    if sink is None:
        return softmax(logits)
    found: Floats = softmax(with_sink(logits, sink))[..., :-1]
    return found


def backward(batch: Batch, made: Forward, sink: float | None = None) -> Gradient:
    """Return the gradient of the batch's mean loss, half the squared distance to the value."""
    d_linear = made.slope * _d_logits(made.logits, batch, sink)
    flow = d_linear * made.linear
    queries_t, items_t = (np.swapaxes(x, -1, -2) for x in (batch.queries, batch.items))
    product = queries_t @ ((d_linear * made.factor) @ batch.items)
    d_scale = total(flow)
    if made.square_q is None or made.square_k is None:
        return Gradient(product, d_scale)
    # d logit / d|q|² = -logit / (2 |q|²), and |q|² = y W_q W_qᵀ yᵀ.
    along_q = -np.sum(flow, axis=-1, keepdims=True) / made.square_q
    along_k = -np.sum(flow, axis=-2, keepdims=True) / made.square_k
    of_q = queries_t @ (along_q * batch.queries)
    of_k = items_t @ (np.swapaxes(along_k, -1, -2) * batch.items)
    return Gradient(product, d_scale, of_q, of_k)


def total(matrices: Float[Floats, "*runs n m"]) -> Float[Floats, "*runs 1 1"]:
    """Return the sum over the last two axes, which stay."""
    # As one axis: NumPy's order of a sum over two axes depends on the axes before them.
    flat = matrices.reshape(*matrices.shape[:-2], -1)
    found: Floats = np.sum(flat, axis=-1)[..., np.newaxis, np.newaxis]
    return found


class Measured(NamedTuple):
    """Measurements of several runs [n_runs] on the held-out queries; NaN for one that diverged.

    `max_logit` is the largest logit, `alignment` the mean cosine of a query and its key.
    """

    loss: Floats
    accuracy: Floats
    entropy_nats: Floats
    max_logit: Floats
    alignment: Floats


class Outcome(NamedTuple):
    """Measurements at the start and at the end, and over the whole training, of runs [n_runs].

    `steps_to_level` is the first step after which accuracy had the level, NaN if none.
    `peak_logit` is the largest logit of any batch, `scale` the factor at the end.
    """

    start: Measured
    end: Measured
    steps_to_level: Floats
    peak_logit: Floats
    scale: Floats
    diverged: NDArray[np.bool_]


def learn(head: Head, products: Products, batch: Batch) -> Floats:
    """Take one step of training, and return the largest logit [n_runs] of the batch."""
    made = forward(batch, products, head.scale, head.cap)
    largest: Floats = np.max(made.logits, axis=(-2, -1))
    head.step(backward(batch, made, head.sink), largest[:, np.newaxis, np.newaxis])
    return largest


def train(head: Head, batches: Batch, held_out: Batch, *, level: float) -> Outcome:
    """Train the runs of a head, one step for each batch along the first axis."""
    reached = np.full(len(head.w_q), np.nan)
    peak = np.full(len(head.w_q), -np.inf)
    products, steps = head.products(), len(batches.targets)
    start = measure(head, products, held_out)
    for step in range(steps + 1):
        reached[_learnt(head, products, held_out, np.isnan(reached), level)] = step
        if step == steps:
            break
        peak = np.fmax(peak, learn(head, products, batches.at(step)))
        products = head.products()
    end = measure(head, products, held_out)
    scale = head.scale[:, 0, 0]
    return Outcome(start, end, reached, peak, scale, np.isnan(end.accuracy))


def _learnt(
    head: Head, products: Products, held_out: Batch, runs: NDArray[np.bool_], level: float
) -> NDArray[np.intp]:
    """Return which of some runs [n_runs] have a held-out accuracy of at least the level."""
    at = np.flatnonzero(runs)
    found = _held_out(head, products, held_out, at)
    finite = np.all(np.isfinite(found), axis=(-3, -2, -1))
    hits = np.equal(np.argmax(found, axis=-1), held_out.targets)
    learnt: NDArray[np.intp] = at[finite & (np.mean(hits, axis=(-2, -1)) >= level)]
    return learnt


def _held_out(
    head: Head, products: Products, held_out: Batch, at: NDArray[np.intp] | slice = slice(None)
) -> Floats:
    """Return the held-out logits of all runs, or of those at some places."""
    cap = None if head.cap is None else head.cap[at][:, np.newaxis]
    return forward(held_out, products.beside(at), head.scale[at][:, np.newaxis], cap).logits


def measure(head: Head, products: Products, held_out: Batch) -> Measured:
    """Measure runs on the held-out queries."""
    logits = _held_out(head, products, held_out)
    finite = np.all(np.isfinite(logits), axis=(-3, -2, -1))
    kept = np.where(np.isfinite(logits), logits, 0.0)
    grams = head.w_q @ np.swapaxes(head.w_q, -1, -2), head.w_k @ np.swapaxes(head.w_k, -1, -2)
    product, of_q, of_k = (x[:, np.newaxis] for x in (products.product, *grams))
    at = held_out.targets[..., np.newaxis]
    asked = np.take_along_axis(held_out.items, at, axis=-2)
    q_k = np.sum((held_out.queries @ product) * asked, axis=-1)
    norms = np.sqrt(squares(held_out.queries, of_q)) * np.sqrt(squares(asked, of_k))
    hits = np.equal(np.argmax(kept, axis=-1), held_out.targets)
    queries = held_out.targets.size

    def known(values: Floats) -> Floats:
        return np.where(finite & np.isfinite(values), values, np.nan)

    return Measured(
        known(np.mean(lookup.loss_of(kept, held_out, "values"), axis=-1)),
        known(np.mean(hits, axis=(-2, -1))),
        known(total(row_metrics(kept).entropy_nats)[..., 0, 0] / queries),
        known(np.max(kept, axis=(-3, -2, -1))),
        known(total(q_k / norms)[..., 0, 0] / queries),
    )
