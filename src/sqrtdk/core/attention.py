"""Scaled dot-product attention, as defined by Vaswani et al. 2017 §3.2.1, on NumPy arrays.

These are the readable definitions that faster code is compared with. Every function takes any
leading batch or head dimensions; axes are named as in the paper (n_q queries, n_k keys, dimensions
d_k and d_v). Gradients are in `gradients`, statistics in `metrics`.

Arrays are float32, float64 or longdouble and keep their type; float16 and bfloat16 are computed in
float32. Any other type raises TypeError. Shapes that do not fit raise ValueError.

A key is hidden from a query where the mask is False or its logit is -inf. A hidden key has no
influence on that query, whatever its key and value vectors hold, NaN and infinities included. A
query that sees no key, or all of whose keys are missing (n_k = 0), has weights and output 0. A
query that sees a logit of NaN or +inf has NaN for the weights of all keys that it sees. None of
this gives a warning. docs/library.md lists every case.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np

from sqrtdk.core.checks import (
    as_float,
    as_floats,
    check_mask,
    check_number,
    check_shapes,
    check_whole,
)
from sqrtdk.core.shapes import ArrayLike, Bool, Float, Floats, Mask


def project(x: ArrayLike, w: ArrayLike) -> Float[Floats, "*batch n d_k"]:
    """Return the queries, keys or values of the rows of x: x [..., n, d_model], w [d_model, d_k].

    Raises TypeError and ValueError for arrays of other types and shapes.
    """
    x, w = as_floats(x=x, w=w)
    check_shapes(x=(x, "... n d_model"), w=(w, "... d_model d_k"))
    return x @ w


def scores(q: ArrayLike, k: ArrayLike) -> Float[Floats, "*batch n_q n_k"]:
    """Return the dot product of each query with each key, unscaled.

    Shapes: q [..., n_q, d_k], k [..., n_k, d_k], result [..., n_q, n_k]. With d_k = 0 all scores
    are 0. Raises TypeError and ValueError for arrays of other types and shapes.

    >>> scores(np.array([[1.0, 2.0]]), np.array([[3.0, 0.0], [0.0, 4.0], [1.0, 1.0]]))
    array([[3., 8., 3.]])
    """
    q, k = as_floats(q=q, k=k)
    check_shapes(q=(q, "... n_q d_k"), k=(k, "... n_k d_k"))
    with np.errstate(over="ignore", invalid="ignore"):
        return q @ np.swapaxes(k, -1, -2)


def causal_mask(n_q: int, n_k: int) -> Bool[Mask, "{n_q} {n_k}"]:
    """Return which keys a query may see so that none lies in its future, [n_q, n_k].

    True is visible. Both sequences end together: the last query sees all keys. With more queries
    than keys, the first n_q - n_k queries therefore see none (PyTorch's `is_causal` aligns the
    beginnings). Raises TypeError for a length that is not a whole number, and ValueError for a
    negative one.

    >>> causal_mask(2, 3).astype(int)
    array([[1, 1, 0],
           [1, 1, 1]])
    """
    n_q, n_k = check_whole("n_q", n_q), check_whole("n_k", n_k)
    return np.tri(n_q, n_k, n_k - n_q, dtype=np.bool_)


def count_fully_masked_rows(mask: ArrayLike) -> int:
    """Return how many rows of the mask [..., n_q, n_k] hide every key. Their weights are 0.

    Raises TypeError for a mask that is not boolean.

    >>> count_fully_masked_rows(causal_mask(5, 3))
    2
    """
    visible = check_mask(mask, np.shape(mask))
    return int(np.count_nonzero(~np.any(visible, axis=-1)))


def mask_logits(logits: ArrayLike, mask: ArrayLike | None) -> Float[Floats, "*batch n_k"]:
    """Return the logits [..., n_q, n_k] with -inf for every key that the mask hides.

    Raises TypeError for logits of another type and for a mask that is not boolean, and ValueError
    for a mask that does not broadcast to the logits.
    """
    logits = as_float("logits", logits)
    check_shapes(logits=(logits, "... n_k"))
    return logits if mask is None else np.where(check_mask(mask, logits.shape), logits, -np.inf)


def shift_by_row_max(logits: ArrayLike) -> Float[Floats, "*batch n_k"]:
    """Return the logits minus their row's maximum, which leaves the softmax as it is.

    The exponentials of the result cannot overflow. A row of nothing but -inf stays as it is. A row
    with NaN or +inf becomes NaN.
    """
    logits = as_float("logits", logits)
    top = np.max(logits, axis=-1, keepdims=True, initial=-np.inf)
    shift = np.where(top == -np.inf, 0.0, np.where(top == np.inf, np.nan, top))
    # A difference of two finite logits may be below the lowest number; -inf is right for it.
    with np.errstate(over="ignore"):
        return logits - shift


def softmax(
    logits: ArrayLike, mask: ArrayLike | None = None, *, sink: float | None = None
) -> Float[Floats, "*batch n_k"]:
    """Return the attention weights: softmax over the visible keys, last axis of [..., n_q, n_k].

    The mask is boolean (True = visible) and broadcasts to the logits; a logit of -inf hides its
    key as well. A hidden key has weight exactly 0, and so has every key of a query that sees
    none. A visible logit of NaN or +inf makes the weights of all visible keys of its row NaN.
    A `sink` is the logit of one more key, which is in the denominator only; see `WithSink`.
    Raises what `mask_logits` raises, and TypeError or ValueError for a sink that is not a finite
    number.

    >>> softmax(np.array([[0.0, np.log(3.0)]]))
    array([[0.25, 0.75]])
    >>> softmax(np.array([[0.0, np.log(3.0)]]), sink=0.0)
    array([[0.2, 0.6]])
    """
    logits = mask_logits(logits, mask)
    if sink is not None:
        return softmax(with_sink(logits, check_number("sink", sink)))[..., :-1]
    e = np.exp(shift_by_row_max(logits))
    # The largest visible term is e⁰ = 1, so the sum is below 1 only where nothing is visible.
    total: Floats = np.maximum(np.sum(e, axis=-1, keepdims=True), 1.0)
    weights = e / total
    if np.isnan(total).any():
        weights = np.where(logits == -np.inf, 0.0, weights)
    return weights


def with_sink(
    logits: Float[Floats, "*batch n_k"], sink: float | Float[Floats, "*batch 1"]
) -> Float[Floats, "*batch _"]:
    """Return logits [..., n_q, n_k] with a last column that holds the logit of a sink."""
    column = np.full((*logits.shape[:-1], 1), sink, logits.dtype)
    return np.concatenate([logits, column], axis=-1)


def sum_over_visible(
    x: Float[Floats, "*#batch n m"],
    y: Float[Floats, "*#batch m d"],
    visible: Bool[Mask, "*#batch n m"],
) -> Float[Floats, "*batch n d"]:
    """Return x y, x [..., n, m], y [..., m, d], where row i of x is summed over the j it sees only.

    `visible` [..., n, m] marks the visible pairs; x is 0 at the other ones. The result differs from
    the plain product only if y contains NaN or infinities, which a factor of 0 does not remove.
    """
    endless = ~np.isfinite(y)
    if not endless.any():
        return x @ y

    def meet(pairs: Mask, entries: Mask) -> Mask:
        """Return whether any j has both, [..., n, d]."""
        return pairs.astype(x.dtype) @ entries.astype(x.dtype) > 0.0

    up, down = y == np.inf, y == -np.inf
    rises = meet(x > 0.0, up) | meet(x < 0.0, down)
    falls = meet(x > 0.0, down) | meet(x < 0.0, up)
    undefined = meet(visible, np.isnan(y)) | meet(visible & (x == 0.0), up | down)
    total = x @ np.where(endless, 0.0, y)
    for where, value in ((rises, np.inf), (falls, -np.inf), (undefined, np.nan)):
        total = np.where(where, total + value, total)
    return total


class ScaleGradients(NamedTuple):
    """Gradients that a scale rule computes from the gradient with respect to the logits.

    `scores` [..., n_q, n_k] holds the norms of q and k fixed. `q` [..., n_q, d_k] and `k`
    [..., n_k, d_k] are the additional gradients through the norms, on top of those through the
    scores. They are None for a rule that does not use the norms.
    """

    scores: Floats
    q: Floats | None = None
    k: Floats | None = None


@runtime_checkable
class ScaleRule(Protocol):
    """A rule that turns scores [..., n_q, n_k] into logits.

    It may use q [..., n_q, d_k] and k [..., n_k, d_k]. It is constructed from sizes and parameters
    only, so one rule serves every draw of a cell, and several rules can share the scores. See
    `scale_rules` for rules other than `Factor`.

    Hidden pairs of q and k may hold anything, including NaN. A rule that sums over pairs must leave
    them out. A rule that works pair by pair may ignore the mask, because the caller hides its
    logits and the gradients of the scores.
    """

    def logits(self, scores: Floats, q: Floats, k: Floats, mask: Mask | None = None) -> Floats:
        """Return the logits before the mask, in the shape and dtype of the scores."""

    def backward(
        self, d_logits: Floats, scores: Floats, q: Floats, k: Floats, mask: Mask | None = None
    ) -> ScaleGradients:
        """Return the gradients for a gradient of the logits, which is 0 at hidden keys."""

    def mean_factor(self, q: Floats, k: Floats, mask: Mask | None = None) -> float:
        """Return the mean over visible pairs of the factor on the scores, before a cap.

        NaN where no pair is visible.
        """


@dataclass(frozen=True)
class Factor:
    """The rule that multiplies every score by the same number.

    Raises TypeError for a value that is not a number, and ValueError for NaN and infinities.
    """

    value: float

    def __post_init__(self) -> None:
        allowed = "a finite number, such as 0.125 for 1/√d_k at d_k = 64, or a ScaleRule"
        object.__setattr__(self, "value", check_number("scale", self.value, allowed))

    def logits(self, scores: Floats, q: Floats, k: Floats, mask: Mask | None = None) -> Floats:
        """Return the scores times the factor."""
        return scores * self.value

    def backward(
        self, d_logits: Floats, scores: Floats, q: Floats, k: Floats, mask: Mask | None = None
    ) -> ScaleGradients:
        """Multiply by the factor: the transpose of the forward step."""
        return ScaleGradients(d_logits * self.value)

    def mean_factor(self, q: Floats, k: Floats, mask: Mask | None = None) -> float:
        """Return the factor itself."""
        return self.value


@dataclass(frozen=True)
class WithSink:
    """Another rule's logits, and a sink: one more key of fixed logit whose value is 0.

    The sink takes weight without adding to the output, so that the weights of the keys sum to less
    than 1. A logit of 0 is the "softmax one" 1 in the denominator (Miller 2023); models learn the
    logit of each head. Row metrics count the sink as a key; everything else is about the other
    keys. Raises TypeError and ValueError for a logit that is not a finite number.
    """

    rule: ScaleRule
    sink: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "sink", check_number("sink", self.sink))

    def logits(self, scores: Floats, q: Floats, k: Floats, mask: Mask | None = None) -> Floats:
        """Return the logits of the keys without the sink."""
        return self.rule.logits(scores, q, k, mask)

    def backward(
        self, d_logits: Floats, scores: Floats, q: Floats, k: Floats, mask: Mask | None = None
    ) -> ScaleGradients:
        """Pass on to the other rule: the logit of the sink depends on no score."""
        return self.rule.backward(d_logits, scores, q, k, mask)

    def mean_factor(self, q: Floats, k: Floats, mask: Mask | None = None) -> float:
        """Return the factor of the other rule."""
        return self.rule.mean_factor(q, k, mask)


def sink_of(rule: ScaleRule) -> float | None:
    """Return the logit of a rule's sink; None for a rule without one."""
    return rule.sink if isinstance(rule, WithSink) else None


def without_sink(rule: ScaleRule) -> ScaleRule:
    """Return a rule without its sink."""
    return rule.rule if isinstance(rule, WithSink) else rule


def needs_all_queries(rule: ScaleRule) -> bool:
    """Return whether a rule's logits of one query depend on the other queries of its head."""
    return bool(getattr(without_sink(rule), "needs_all_queries", False))


if TYPE_CHECKING:
    Scale: TypeAlias = float | ScaleRule
else:
    # `as_rule` answers everything else with an error of its own.
    Scale = object


def as_rule(scale: Scale) -> ScaleRule:
    """Return a scale rule as it is, and a number as the rule that multiplies by it.

    Raises TypeError for anything else, such as None, and ValueError for NaN and infinities.
    """
    # A class also passes isinstance for the protocol, because it has the methods.
    is_rule = isinstance(scale, ScaleRule) and not isinstance(scale, type)
    return cast(ScaleRule, scale) if is_rule else Factor(cast(float, scale))


class AttentionResult(NamedTuple):
    """Every stage of attention, in the order of computation.

    The mask comes after the scores, so these hold the plain product at hidden pairs as well. No
    other stage depends on it.
    """

    scores: Float[Floats, "*batch n_q n_k"]
    logits: Float[Floats, "*batch n_q n_k"]
    weights: Float[Floats, "*batch n_q n_k"]
    output: Float[Floats, "*batch n_q d_v"]


def attention(
    q: ArrayLike, k: ArrayLike, v: ArrayLike, *, scale: Scale, mask: ArrayLike | None = None
) -> AttentionResult:
    """Compute softmax(scale q kᵀ) v of q [..., n_q, d_k], k [..., n_k, d_k], v [..., n_k, d_v].

    Vaswani et al. 2017, equation 1, is scale = 1/√d_k; a `ScaleRule` may do more than multiply.
    The mask, boolean and True where a key is visible, broadcasts to [..., n_q, n_k] and is applied
    after scaling: hidden keys have logit -inf in the result, so `weights` is softmax(logits).

    Raises TypeError for arrays of other types, a mask that is not boolean and a scale that is
    neither a number nor a rule; ValueError for shapes that do not fit and a scale of NaN or ±inf.

    >>> unit_vectors = np.eye(2)
    >>> query = np.array([[0.0, 2.0**0.5]])
    >>> attention(query, unit_vectors, unit_vectors, scale=2.0**-0.5).weights.round(4)
    array([[0.2689, 0.7311]])
    """
    q, k, v = as_floats(q=q, k=k, v=v)
    check_shapes(q=(q, "... n_q d_k"), k=(k, "... n_k d_k"), v=(v, "... n_k d_v"))
    rule, qk = as_rule(scale), scores(q, k)
    mask = None if mask is None else check_mask(mask, qk.shape)
    # Non-finite values show in the result, and hidden pairs need no warning.
    with np.errstate(over="ignore", invalid="ignore"):
        logits = mask_logits(rule.logits(qk, q, k, mask), mask)
        weights = softmax(logits, sink=sink_of(rule))
        output = sum_over_visible(weights, v, logits != -np.inf)
    return AttentionResult(qk, logits, weights, output)
