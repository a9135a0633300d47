"""Associative retrieval with three projections: why queries, keys and values each need their own.

A library has n_k items x, points on the sphere of radius √d_model. A query y is a noisy copy of
one of them, and the answer is a value of that item. In the relation `same` a query looks like its
item, and the answer is the item itself. In the relation `turned` every pair of entries is rotated
by a right angle in the query, and by the opposite angle in the answer. A rotated item is orthogonal
to the item: x · turn(x) = 0.

One attention head has q = y W_q, k = x W_k, v = x W_v and the output softmax(q kᵀ / √d_k) v. With
W_q = W_k the scores are y W Wᵀ xᵀ, and W Wᵀ is symmetric: an item and its turned query get
x (turn W Wᵀ) xᵀ, whose mean over items is the trace of an antisymmetric times a symmetric matrix,
which is 0. No shared projection can find turned items. With W_v = I the output is an average of
items, and no item is its own answer.

Runs are the leading axis of all arrays. Gradients are derived by hand. Nothing here knows a path.
"""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from sqrtdk.core import row_softmax
from sqrtdk.core.attention import softmax
from sqrtdk.core.shapes import Float, Floats, Int, Reduced

Relation = Literal["same", "turned"]
"""The relations of a query and its answer to their item."""

Projections = Literal["separate", "shared_qk", "identity_v"]
"""All three projections trained; one matrix as W_q and W_k; the identity as W_v."""

RELATIONS: tuple[Relation, ...] = get_args(Relation)
PROJECTIONS: tuple[Projections, ...] = get_args(Projections)


class Task(NamedTuple):
    """Libraries, queries and answers, with any leading axes.

    `items` [n_k, d_model], `queries` [n_q, d_model], `answers` [n_k, d_model] one for each item,
    `targets` [n_q] the item of each query.
    """

    items: Float[Floats, "*batch n_k d_model"]
    queries: Float[Floats, "*batch n_q d_model"]
    answers: Float[Floats, "*batch n_k d_model"]
    targets: Int[NDArray[np.intp], "*batch n_q"]


def turn(x: Float[Floats, "*shape"], *, back: bool = False) -> Float[Floats, "*shape"]:
    """Rotate each pair of entries (a, b) of x to (-b, a), or back to (b, -a).

    The last entry of an odd number of entries is kept.

    >>> turn(np.array([1.0, 2.0, 5.0])).tolist()
    [-2.0, 1.0, 5.0]
    """
    found, sign = x.copy(), -1.0 if back else 1.0
    even = x.shape[-1] // 2 * 2
    found[..., 0:even:2], found[..., 1:even:2] = -sign * x[..., 1:even:2], sign * x[..., 0:even:2]
    return found


def make_task(
    items: Float[Floats, "*batch n_k d_model"],
    noise: Float[Floats, "*batch n_q d_model"],
    targets: Int[NDArray[np.intp], "*batch n_q"],
    *,
    noise_sd: float,
    relation: Relation,
) -> Task:
    """Return a task of items [n_k, d_model], which are rescaled to length √d_model."""
    lengths = np.linalg.norm(items, axis=-1, keepdims=True)
    sphere = items / lengths * math.sqrt(items.shape[-1])
    asked = np.take_along_axis(sphere, targets[..., np.newaxis], axis=-2)
    if relation == "same":
        return Task(sphere, asked + noise_sd * noise, sphere, targets)
    return Task(sphere, turn(asked) + noise_sd * noise, turn(sphere, back=True), targets)


def stack(tasks: Sequence[Task]) -> Task:
    """Stack tasks of one shape along a new first axis."""
    items, queries, answers, targets = zip(*tasks, strict=True)
    return Task(np.stack(items), np.stack(queries), np.stack(answers), np.stack(targets))


def at(tasks: Task, place: int) -> Task:
    """Return the tasks at one index of the second axis."""
    items, queries, answers, targets = tasks
    return Task(items[:, place], queries[:, place], answers[:, place], targets[:, place])


class Weights(NamedTuple):
    """Projections of queries and keys [..., d_model, d_k] and of values [..., d_model, d_model]."""

    w_q: Float[Floats, "*batch d_model d_k"]
    w_k: Float[Floats, "*batch d_model d_k"]
    w_v: Float[Floats, "*batch d_model d_model"]


def output(
    weights: Weights, task: Task
) -> tuple[Float[Floats, "*batch n_q n_k"], Float[Floats, "*batch n_q d_model"]]:
    """Return the attention weights [..., n_q, n_k] and the output [..., n_q, d_model]."""
    q, k = task.queries @ weights.w_q, task.items @ weights.w_k
    p = softmax(q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1]))
    return p, (p @ task.items) @ weights.w_v


def wanted(task: Task) -> Float[Floats, "*batch n_q d_model"]:
    """Return the answer of each query [..., n_q, d_model]."""
    return np.take_along_axis(task.answers, task.targets[..., np.newaxis], axis=-2)


def loss(weights: Weights, task: Task) -> Reduced:
    """Return half the squared distance of the output to the answer per entry, mean over queries."""
    _, found = output(weights, task)
    error = found - wanted(task)
    return np.asarray(np.mean(np.mean(error * error, axis=-1), axis=-1) / 2)


def gradient(weights: Weights, task: Task, projections: Projections) -> Weights:
    """Return the gradient of the loss with respect to the trained weights; 0 for fixed ones.

    For one matrix as W_q and W_k, both entries are the sum of the two gradients.
    """
    root, n_k = math.sqrt(weights.w_q.shape[-1]), task.items.shape[-2]
    queries_t, items_t = (np.swapaxes(x, -1, -2) for x in (task.queries, task.items))
    # The scores depend on W_q and W_k only through their product.
    product = weights.w_q @ np.swapaxes(weights.w_k, -1, -2)
    product /= root
    p = (task.queries @ product) @ items_t
    top = row_softmax.softmax(p.reshape(-1, n_k))
    mixed = p @ task.items
    d_output = mixed @ weights.w_v
    d_output -= wanted(task)
    d_output /= math.prod(d_output.shape[-2:])
    d_scores = (d_output @ np.swapaxes(weights.w_v, -1, -2)) @ items_t
    row_softmax.softmax_backward(p.reshape(-1, n_k), d_scores.reshape(-1, n_k), top)
    d_product = queries_t @ (d_scores @ task.items)
    d_product /= root
    d_w_q = d_product @ weights.w_k
    d_w_k = np.swapaxes(d_product, -1, -2) @ weights.w_q
    d_w_v = np.swapaxes(mixed, -1, -2) @ d_output
    if projections == "shared_qk":
        d_w_q = d_w_k = d_w_q + d_w_k
    if projections == "identity_v":
        d_w_v = np.zeros_like(d_w_v)
    return Weights(d_w_q, d_w_k, d_w_v)


def accuracy(weights: Weights, task: Task) -> Reduced:
    """Return the share of queries whose output is nearest to their own item's answer."""
    _, found = output(weights, task)
    # All answers have the same length, so that the nearest has the largest product.
    best = np.argmax(found @ np.swapaxes(task.answers, -1, -2), axis=-1)
    return np.asarray(np.mean(best == task.targets, axis=-1))
