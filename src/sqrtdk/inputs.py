"""Where q, k, v and the output gradient g come from: named laws and keyed random streams.

A stream is keyed by what the array is for (sizes, seed, array), never by order, worker or arm.
So every arm of scaling sees the same arrays, a cell can be computed alone, and the numbers do
not depend on how a grid is cut into shards.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]

# The position of an array's name is part of its key: append, never reorder.
_ARRAYS = ("q", "k", "v", "g")


class Inputs(NamedTuple):
    """One draw: `q` [n_q, d_k], `k` [n_k, d_k], `v` [n_k, d_v] and `g` = dL/dO [n_q, d_v]."""

    q: Array
    k: Array
    v: Array
    g: Array


def stream(array: str, *, d_k: int, n_k: int, n_q: int, d_v: int, seed: int) -> np.random.Generator:
    """The random stream of one array of one cell.

    Philox is counter-based (Salmon et al. 2011): streams of different keys do not overlap.
    """
    key = (d_k, n_k, n_q, d_v, seed, _ARRAYS.index(array))
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(0, spawn_key=key)))


def gaussian(
    q_stream: np.random.Generator, k_stream: np.random.Generator, *, d_k: int, n_k: int, n_q: int
) -> tuple[Array, Array]:
    """Independent standard normal entries: the "unrelated vectors" of the √d_k argument."""
    return q_stream.standard_normal((n_q, d_k)), k_stream.standard_normal((n_k, d_k))


LAWS: dict[str, Callable[..., tuple[Array, Array]]] = {"gaussian": gaussian}
"""The formulas that an entry of `input_laws` can name. Each takes the streams of q and k, the
sizes, and the entry's parameters by keyword; it raises ValueError for a parameter out of range."""


def draw(
    entry: dict[str, Any], *, d_k: int, n_k: int, n_q: int, d_v: int, seed: int, dtype: str
) -> Inputs:
    """Draw one cell's arrays by an entry of `input_laws`, such as `{"law": "gaussian"}`.

    v and g are standard normal under every law, so that mean-square gradients over d_v have
    the exact values of `theory`.
    """
    sizes = {"d_k": d_k, "n_k": n_k, "n_q": n_q}
    streams = {name: stream(name, **sizes, d_v=d_v, seed=seed) for name in _ARRAYS}
    parameters = {name: value for name, value in entry.items() if name != "law"}
    q, k = LAWS[entry["law"]](streams["q"], streams["k"], **sizes, **parameters)
    v = streams["v"].standard_normal((n_k, d_v))
    g = streams["g"].standard_normal((n_q, d_v))
    return Inputs(*(array.astype(dtype, copy=False) for array in (q, k, v, g)))
