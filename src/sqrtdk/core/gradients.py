"""Gradients of attention, derived by hand, for the loss L = <d_output, output>.

`d_x` is the gradient of L with respect to x and has the shape of x. All of them follow from the
chain rule along `attention.attention`; nothing here is approximated.

Types, shapes and masks are as in `attention`: a hidden pair of query and key adds exactly 0 to
every gradient, whatever q, k, v and d_output hold there. A query that sees no key has gradient 0
and passes no gradient on.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from sqrtdk.core.attention import (
    AttentionResult,
    Scale,
    ScaleRule,
    as_rule,
    sink_of,
    softmax,
    sum_over_visible,
    with_sink,
)
from sqrtdk.core.checks import as_floats, check_mask, check_shapes
from sqrtdk.core.shapes import ArrayLike, Float, Floats, Mask
from sqrtdk.messages import shorten


def softmax_backward(
    weights: ArrayLike, d_weights: ArrayLike, mask: ArrayLike | None = None
) -> Float[Floats, "*batch n_k"]:
    """Return the gradient with respect to the logits; both arguments are [..., n_q, n_k].

    (diag(p) - ppᵀ) d_p for each row p of the weights, that is p * (d_p - <p, d_p>). The gradient of
    a hidden key is 0, whatever `d_weights` holds there. Without a mask (True is visible) these are
    the keys of weight 0. Raises TypeError for arrays of other types, and ValueError for two shapes
    that differ.

    >>> softmax_backward(np.array([[0.25, 0.75]]), np.array([[4.0, 0.0]]))
    array([[ 0.75, -0.75]])
    """
    weights, d_weights = as_floats(weights=weights, d_weights=d_weights)
    check_shapes(weights=(weights, "... n_k"))
    if weights.shape != d_weights.shape:
        raise ValueError(f"weights {weights.shape} and d_weights {d_weights.shape} differ in shape")
    if weights.shape[-1] == 0:
        return np.zeros_like(weights)
    visible = None if mask is None else check_mask(mask, weights.shape)
    # Rows of p sum to 1, so a common shift of d_p changes nothing. Taking it from the largest
    # weight makes <p, d_p> a sum over the others: a row with p near 1 keeps all its digits.
    top = np.argmax(weights, axis=-1, keepdims=True)
    with np.errstate(over="ignore", invalid="ignore"):
        shifted = d_weights - np.take_along_axis(d_weights, top, axis=-1)
        mean: Floats = np.sum(weights * shifted, axis=-1, keepdims=True)
        if visible is None and np.isfinite(mean).all():
            return weights * (shifted - mean)
        visible = weights != 0.0 if visible is None else visible
        shifted = np.where(visible, shifted, 0.0)
        mean = np.sum(weights * shifted, axis=-1, keepdims=True)
        return np.where(visible, weights * (shifted - mean), 0.0)


class Gradients(NamedTuple):
    """Gradients of L with respect to each stage: logits after scaling, scores before it.

    The gradient of the scores holds the norms of q and k fixed, which some scale rules use.
    """

    logits: Float[Floats, "*batch n_q n_k"]
    scores: Float[Floats, "*batch n_q n_k"]
    q: Float[Floats, "*of_q n_q d_k"]
    k: Float[Floats, "*of_k n_k d_k"]
    v: Float[Floats, "*of_v n_k d_v"]


def gradients(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    d_output: ArrayLike,
    forward: AttentionResult,
    *,
    scale: Scale,
) -> Gradients:
    """Compute the gradients of L for q [..., n_q, d_k], k [..., n_k, d_k], v [..., n_k, d_v].

    `forward` is the result of `attention` on q, k, v with the same scale; a mask is already in it.
    Where q, k or v was broadcast over leading dimensions (keys shared by heads), its gradient is
    summed over them. Raises what `attention` raises, TypeError unless `forward` is such a result,
    and ValueError unless d_output has the shape of the output, and `forward` the shapes that follow
    from q, k and v and the logits that follow from its scores at this scale.
    """
    if not isinstance(forward, AttentionResult):
        raise TypeError(f"forward is {shorten(forward)}; allowed: the result of attention")
    q, k, v, d_output, *stages = as_floats(
        q=q, k=k, v=v, d_output=d_output, **{f"forward.{x}": y for x, y in _named(forward)}
    )
    check_shapes(q=(q, "... n_q d_k"), k=(k, "... n_k d_k"), v=(v, "... n_k d_v"))
    forward = AttentionResult(*stages)
    pairs = (*np.broadcast_shapes(q.shape[:-2], k.shape[:-2]), q.shape[-2], k.shape[-2])
    outputs = (*np.broadcast_shapes(pairs[:-2], v.shape[:-2]), q.shape[-2], v.shape[-1])
    for name, stage in _named(forward):
        expected = outputs if name == "output" else pairs
        if stage.shape != expected:
            raise ValueError(
                f"forward.{name} {stage.shape} is not of q {q.shape}, k {k.shape} and "
                f"v {v.shape}, which give {expected}"
            )
    weights = forward.weights
    if d_output.shape != forward.output.shape:
        raise ValueError(
            f"d_output {d_output.shape} must have the output's shape {forward.output.shape}"
        )
    rule, visible = as_rule(scale), forward.logits != -np.inf
    seen_by = np.swapaxes(visible, -1, -2)
    # Non-finite values show in the result, and hidden pairs need no warning.
    with np.errstate(over="ignore", invalid="ignore"):
        _check_scale(rule, forward, q, k, visible)
        d_weights = _sum_to_shape(d_output @ np.swapaxes(v, -1, -2), weights.shape)
        sink = sink_of(rule)
        if sink is None:
            d_logits = softmax_backward(weights, d_weights, visible)
        else:
            # One more key, with value 0 and visible to every query that sees any.
            seeing = np.any(visible, axis=-1, keepdims=True)
            d_logits = softmax_backward(
                softmax(with_sink(forward.logits, sink)),
                with_sink(d_weights, 0.0),
                np.concatenate([visible, seeing], axis=-1),
            )[..., :-1]
        scores = np.where(visible, forward.scores, 0.0)
        d_scores, norm_q, norm_k = rule.backward(d_logits, scores, q, k, visible)
        d_scores = np.where(visible, d_scores, 0.0)
        d_q = sum_over_visible(d_scores, k, visible)
        d_k = sum_over_visible(np.swapaxes(d_scores, -1, -2), q, seen_by)
        d_v = sum_over_visible(np.swapaxes(weights, -1, -2), d_output, seen_by)
        return Gradients(
            logits=d_logits,
            scores=d_scores,
            q=_sum_to_shape(d_q if norm_q is None else d_q + norm_q, q.shape),
            k=_sum_to_shape(d_k if norm_k is None else d_k + norm_k, k.shape),
            v=_sum_to_shape(d_v, v.shape),
        )


SAME = 1e-4
"""Relative difference of logits that rounding explains: float32 keeps 1e-7, and a rule that divides
by norms of long vectors loses up to three digits."""


def _check_scale(
    rule: ScaleRule, forward: AttentionResult, q: Floats, k: Floats, visible: Mask
) -> None:
    """Raise ValueError if the logits are not those of the rule; their gradients would be wrong.

    Not looked at if a score is not finite: it may be hidden, and whether it was is not known here.
    """
    if not np.isfinite(forward.scores).all():
        return
    expected = np.where(visible, rule.logits(forward.scores, q, k, visible), forward.logits)
    off = np.abs(expected - forward.logits) > SAME * np.abs(expected) + np.finfo(np.float32).tiny
    if off.any():
        place = np.unravel_index(np.argmax(off), off.shape)
        raise ValueError(
            f"forward.logits has {forward.logits[place]:.6g} where {shorten(rule)} gives "
            f"{expected[place]:.6g}; allowed: the scale that attention was called with"
        )


def _named(forward: AttentionResult) -> Iterator[tuple[str, Floats]]:
    return zip(AttentionResult._fields, forward, strict=True)


class ProjectionGradients(NamedTuple):
    """Gradients with respect to the input rows and the weight matrix of a projection."""

    x: Float[Floats, "*batch n d_model"]
    w: Float[Floats, "d_model d_k"]


def projection_gradients(x: ArrayLike, w: ArrayLike, d_projected: ArrayLike) -> ProjectionGradients:
    """Compute the gradients through `attention.project`.

    Shapes: x [..., n, d_model], w [d_model, d_k], d_projected [..., n, d_k]. The same w serves
    every row, so its gradient xᵀ d_projected is summed over the leading dimensions. Raises
    TypeError and ValueError for arrays of other types and shapes.

    >>> x, w = np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]])
    >>> projection_gradients(x, w, np.array([[10.0]])).w
    array([[10.],
           [20.]])
    """
    x, w, d_projected = as_floats(x=x, w=w, d_projected=d_projected)
    check_shapes(
        x=(x, "... n d_model"),
        w=(w, "... d_model d_k"),
        d_projected=(d_projected, "... n d_k"),
    )
    return ProjectionGradients(
        x=_sum_to_shape(d_projected @ np.swapaxes(w, -1, -2), x.shape),
        w=_sum_to_shape(np.swapaxes(x, -1, -2) @ d_projected, w.shape),
    )


def _sum_to_shape(array: Floats, shape: tuple[int, ...]) -> Floats:
    """Sum over the axes that broadcasting to `shape` added or stretched: its transpose."""
    if array.shape == shape:
        return array
    added = array.ndim - len(shape)
    stretched = [added + i for i, length in enumerate(shape) if length == 1]
    total: Floats = np.sum(array, axis=(*range(added), *stretched))
    return total.reshape(shape)
