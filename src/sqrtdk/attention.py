"""Scaled dot-product attention, as defined by Vaswani et al. 2017 §3.2.1, on NumPy arrays.

These are the readable definitions that faster code is held against. Everything takes any leading
batch or head dimensions and keeps the dtype of its input; axes are named as in the paper (n_q
queries, n_k keys, dimensions d_k and d_v). Gradients are in `gradients`, statistics in `metrics`.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.floating]
Mask: TypeAlias = NDArray[np.bool_]


def project(x: Floats, w: Floats) -> Floats:
    """Queries, keys or values of the rows of x: x [..., n, d_model], w [d_model, d_k]."""
    return x @ w


def scores(q: Floats, k: Floats) -> Floats:
    """Dot product of each query with each key, unscaled: [..., n_q, d_k] -> [..., n_q, n_k].

    >>> scores(np.array([[1.0, 2.0]]), np.array([[3.0, 0.0], [0.0, 4.0], [1.0, 1.0]]))
    array([[3., 8., 3.]])
    """
    return q @ np.swapaxes(k, -1, -2)


def causal_mask(n_q: int, n_k: int) -> Mask:
    """Which keys [n_q, n_k] a query may see so that none lies in its future; True is visible.

    Both sequences end together: the last query sees all keys. With more queries than keys, the
    first n_q - n_k queries therefore see none (PyTorch's `is_causal` aligns the beginnings).

    >>> causal_mask(2, 3).astype(int)
    array([[1, 1, 0],
           [1, 1, 1]])
    """
    return np.tri(n_q, n_k, n_k - n_q, dtype=np.bool_)


def count_fully_masked_rows(mask: Mask) -> int:
    """How many rows of the mask [..., n_q, n_k] hide every key. Their weights are 0, not NaN.

    >>> count_fully_masked_rows(causal_mask(5, 3))
    2
    """
    return int(np.count_nonzero(~np.any(mask, axis=-1)))


def check_mask(mask: Mask, shape: tuple[int, ...]) -> None:
    """Refuse what is no mask of logits of this shape.

    Raises TypeError for one that is not boolean: in an additive mask (0 to show, -inf to hide)
    zero would count as hidden, the reverse of what is meant. Raises ValueError for one that does
    not broadcast to the shape.
    """
    if mask.dtype != np.bool_:
        raise TypeError(f"a mask must be boolean, True where a key is visible, not {mask.dtype}")
    if np.broadcast_shapes(mask.shape, shape) != shape:
        raise ValueError(f"mask {mask.shape} does not broadcast to logits {shape}")


def mask_logits(logits: Floats, mask: Mask | None) -> Floats:
    """Logits [..., n_q, n_k] with -inf for every key that the mask hides.

    Raises what `check_mask` raises.
    """
    if mask is None:
        return logits
    check_mask(mask, logits.shape)
    return np.where(mask, logits, -np.inf)


def shift_by_row_max(logits: Floats) -> Floats:
    """Logits minus their row's maximum, which softmax does not see; exp of it cannot overflow.

    A row of nothing but -inf stays as it is.
    """
    top = np.max(logits, axis=-1, keepdims=True)
    return logits - np.where(top == -np.inf, 0.0, top)


def softmax(logits: Floats, mask: Mask | None = None) -> Floats:
    """Attention weights: softmax over the visible keys, last axis of [..., n_q, n_k].

    The mask is boolean (True = visible) and broadcasts to the logits; a logit of -inf hides its
    key as well. A hidden key has weight exactly 0, and so has every key of a query that sees
    none. Raises what `mask_logits` raises.

    >>> softmax(np.array([[0.0, np.log(3.0)]]))
    array([[0.25, 0.75]])
    """
    e = np.exp(shift_by_row_max(mask_logits(logits, mask)))
    # The largest visible term is e⁰ = 1, so the sum is below 1 only where nothing is visible.
    total: Floats = np.maximum(np.sum(e, axis=-1, keepdims=True), 1.0)
    return e / total


class ScaleGradients(NamedTuple):
    """What a scale rule passes on of the gradient with respect to the logits.

    `scores` [..., n_q, n_k] is with the norms of q and k held fixed. `q` [..., n_q, d_k] and `k`
    [..., n_k, d_k] come on top of what reaches q and k through the scores: the path through their
    norms, None where the rule has no such path.
    """

    scores: Floats
    q: Floats | None = None
    k: Floats | None = None


@runtime_checkable
class ScaleRule(Protocol):
    """What turns scores [..., n_q, n_k] of q [..., n_q, d_k] and k [..., n_k, d_k] into logits.

    Made from sizes and parameters alone, so one rule serves every draw of a cell, and several
    rules can share the scores. The mask is for rules to which the hidden keys matter; hiding them
    is left to the caller. Rules beside `Factor` are in `scales`.
    """

    def logits(self, scores: Floats, q: Floats, k: Floats, mask: Mask | None = None) -> Floats:
        """The logits before the mask, in the shape and dtype of the scores."""

    def backward(
        self, d_logits: Floats, scores: Floats, q: Floats, k: Floats, mask: Mask | None = None
    ) -> ScaleGradients:
        """The gradient with respect to the logits (0 for hidden keys) pulled back."""

    def mean_factor(self, q: Floats, k: Floats, mask: Mask | None = None) -> float:
        """What the scores are multiplied by before a cap: the mean over visible pairs."""


@dataclass(frozen=True)
class Factor:
    """The rule that multiplies every score by the same number."""

    value: float

    def logits(self, scores: Floats, q: Floats, k: Floats, mask: Mask | None = None) -> Floats:
        """Scores times the factor."""
        return scores * self.value

    def backward(
        self, d_logits: Floats, scores: Floats, q: Floats, k: Floats, mask: Mask | None = None
    ) -> ScaleGradients:
        """The transpose of multiplying by a number is multiplying by it."""
        return ScaleGradients(d_logits * self.value)

    def mean_factor(self, q: Floats, k: Floats, mask: Mask | None = None) -> float:
        """The factor itself."""
        return self.value


def as_rule(scale: float | ScaleRule) -> ScaleRule:
    """A scale rule as it is, and a number as the rule that multiplies by it."""
    # float(): a NumPy scalar, such as 1 / np.sqrt(64), would turn float32 into float64 (NEP 50).
    return scale if isinstance(scale, ScaleRule) else Factor(float(scale))


class AttentionResult(NamedTuple):
    """Every stage of attention, in the order of computation."""

    scores: Floats
    logits: Floats
    weights: Floats
    output: Floats


def attention(
    q: Floats, k: Floats, v: Floats, *, scale: float | ScaleRule, mask: Mask | None = None
) -> AttentionResult:
    """Softmax(scale q kᵀ) v of q [..., n_q, d_k], k [..., n_k, d_k], v [..., n_k, d_v].

    Vaswani et al. 2017, equation 1, is scale = 1/√d_k; a `ScaleRule` may do more than multiply.
    The mask is applied after scaling: hidden keys have logit -inf in the result, so `weights` is
    softmax(logits). Raises what `mask_logits` raises.

    >>> unit_vectors = np.eye(2)
    >>> query = np.array([[0.0, 2.0**0.5]])
    >>> attention(query, unit_vectors, unit_vectors, scale=2.0**-0.5).weights.round(4)
    array([[0.2689, 0.7311]])
    """
    qk = scores(q, k)
    logits = mask_logits(as_rule(scale).logits(qk, q, k, mask), mask)
    weights = softmax(logits)
    return AttentionResult(qk, logits, weights, weights @ v)
