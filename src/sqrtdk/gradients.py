"""Gradients of attention, written out by hand, for the loss L = <d_output, output>.

`d_x` is the gradient of L with respect to x and has the shape of x. All of it follows from the
chain rule along `attention.attention`; nothing here is approximated.
"""

from typing import NamedTuple

import numpy as np

from sqrtdk.attention import AttentionResult, Floats, ScaleRule, as_rule


def softmax_backward(weights: Floats, d_weights: Floats) -> Floats:
    """Gradient with respect to the logits, both arguments [..., n_q, n_k].

    (diag(p) - ppᵀ) d_p for each row p of the weights, that is p * (d_p - <p, d_p>). Hidden keys
    have weight 0, so their gradient is 0. Raises ValueError for two shapes, which would broadcast.

    >>> softmax_backward(np.array([[0.25, 0.75]]), np.array([[4.0, 0.0]]))
    array([[ 0.75, -0.75]])
    """
    if weights.shape != d_weights.shape:
        raise ValueError(f"weights {weights.shape} and d_weights {d_weights.shape} differ in shape")
    # Rows of p sum to 1, so a common shift of d_p changes nothing. Taking it from the largest
    # weight makes <p, d_p> a sum over the others: a row with p near 1 keeps all its digits.
    top = np.argmax(weights, axis=-1, keepdims=True)
    shifted = d_weights - np.take_along_axis(d_weights, top, axis=-1)
    mean: Floats = np.sum(weights * shifted, axis=-1, keepdims=True)
    return weights * (shifted - mean)


class Gradients(NamedTuple):
    """Gradients of L with respect to each stage: logits after scaling, scores before it.

    That of the scores is with the norms of q and k held fixed, which some scale rules look at.
    """

    logits: Floats
    scores: Floats
    q: Floats
    k: Floats
    v: Floats


def gradients(
    q: Floats,
    k: Floats,
    v: Floats,
    d_output: Floats,
    forward: AttentionResult,
    *,
    scale: float | ScaleRule,
) -> Gradients:
    """Gradients of L for q [..., n_q, d_k], k [..., n_k, d_k], v [..., n_k, d_v].

    `forward` is what `attention` made of q, k, v with the same scale; a mask is already in it.
    Where q, k or v was broadcast over leading dimensions (keys shared by heads), its gradient is
    summed over them. Raises ValueError unless d_output has the shape of the output.
    """
    weights = forward.weights
    if d_output.shape != forward.output.shape:
        raise ValueError(
            f"d_output {d_output.shape} must have the output's shape {forward.output.shape}"
        )
    d_weights = _sum_to_shape(d_output @ np.swapaxes(v, -1, -2), weights.shape)
    d_logits = softmax_backward(weights, d_weights)
    visible = forward.logits != -np.inf
    d_scores, norm_q, norm_k = as_rule(scale).backward(d_logits, forward.scores, q, k, visible)
    d_q = d_scores @ k
    d_k = np.swapaxes(d_scores, -1, -2) @ q
    return Gradients(
        logits=d_logits,
        scores=d_scores,
        q=_sum_to_shape(d_q if norm_q is None else d_q + norm_q, q.shape),
        k=_sum_to_shape(d_k if norm_k is None else d_k + norm_k, k.shape),
        v=_sum_to_shape(np.swapaxes(weights, -1, -2) @ d_output, v.shape),
    )


class ProjectionGradients(NamedTuple):
    """Gradients with respect to the input rows and the weight matrix of a projection."""

    x: Floats
    w: Floats


def projection_gradients(x: Floats, w: Floats, d_projected: Floats) -> ProjectionGradients:
    """Gradients through `attention.project`: x [..., n, d_model], d_projected [..., n, d_k].

    The same w [d_model, d_k] serves every row, so its gradient xᵀ d_projected is summed over the
    leading dimensions.

    >>> x, w = np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]])
    >>> projection_gradients(x, w, np.array([[10.0]])).w
    array([[10.],
           [20.]])
    """
    return ProjectionGradients(
        x=_sum_to_shape(d_projected @ np.swapaxes(w, -1, -2), x.shape),
        w=_sum_to_shape(np.swapaxes(x, -1, -2) @ d_projected, w.shape),
    )


def _sum_to_shape(array: Floats, shape: tuple[int, ...]) -> Floats:
    """Transpose of broadcasting: sum over the axes that it added to `shape` or stretched."""
    if array.shape == shape:
        return array
    added = array.ndim - len(shape)
    stretched = [added + i for i, length in enumerate(shape) if length == 1]
    total: Floats = np.sum(array, axis=(*range(added), *stretched))
    return total.reshape(shape)
