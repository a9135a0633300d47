"""Compute the loss that a task allows without attention, from the current position alone."""

import math
from functools import cache

import numpy as np

from sqrtdk.core.shapes import Floats
from sqrtdk.experiments.transformer import data
from sqrtdk.experiments.transformer.data import Task


@cache
def loss(task: Task, n_tokens: int) -> float:
    """Return the held-out cross-entropy per position in nats.

    text: that of a table of pairs of characters, counted in the part for training. recall: a
    position knows the value only if it is asked about its own key, which happens at random among
    the keys so far; else all values are as likely.

    >>> round(loss("recall", 2), 6) == round(math.log(8) / 4, 6)
    True
    """
    if task == "recall":
        own = sum(1 / n for n in range(1, n_tokens + 1)) / n_tokens
        return (1 - own) * math.log(data.N_VALUES)
    known, count = data.text()
    border = data.border(len(known))
    table = np.log(pairs(known[:border], count))
    held = known[border:]
    return float(-np.mean(table[held[:-1], held[1:]]))


def pairs(known: np.ndarray, count: int) -> Floats:
    """Return the probability of each next symbol [count, count] given the current one.

    Counts are mixed with those of single symbols, and these with equal shares, by the method of
    Witten and Bell 1991: what has been followed by many different symbols expects new ones.
    """
    single = np.bincount(known, minlength=count).astype(float)
    equal = np.full(count, 1 / count)
    follows = np.zeros((count, count))
    np.add.at(follows, (known[:-1], known[1:]), 1.0)
    return _mixed(follows, _mixed(single[np.newaxis], equal))


def _mixed(counts: Floats, others: Floats) -> Floats:
    """Return the shares of counts [rows, count], mixed with others by the number of kinds."""
    kinds = np.count_nonzero(counts, axis=1, keepdims=True)
    # A symbol that was never followed by another has the shares of the others.
    kinds = np.maximum(kinds, 1)
    return np.asarray((counts + kinds * others) / (counts.sum(axis=1, keepdims=True) + kinds))
