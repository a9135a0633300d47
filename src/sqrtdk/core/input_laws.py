"""Draw q, k, v and the output gradient g: named laws and keyed random streams.

A stream's key is what the array is for (sizes, seed, array), never an order, a worker or a scale
rule. So every scale rule sees the same arrays, a cell can be computed alone, and the numbers do
not depend on how a grid is cut into shards.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sqrtdk.core import random_streams
from sqrtdk.core.checks import check_entry, check_name, check_whole
from sqrtdk.core.random_streams import Purpose

Array = NDArray[np.floating[Any]]

Entry: TypeAlias = Mapping[str, str | int | float | None]
"""A law's name under `law`, and its parameters."""

# The position of an array's name is part of its key: append, never reorder.
_ARRAYS = ("q", "k", "v", "g")


class Inputs(NamedTuple):
    """One draw: `q` [n_q, d_k], `k` [n_k, d_k], `v` [n_k, d_v] and `g` = dL/dO [n_q, d_v]."""

    q: Array
    k: Array
    v: Array
    g: Array


def stream(array: str, *, d_k: int, n_k: int, n_q: int, d_v: int, seed: int) -> np.random.Generator:
    """Return the random stream of one array of one cell."""
    place = _ARRAYS.index(array)
    return random_streams.stream(Purpose.CELLS, d_k, n_k, n_q, d_v, seed, place)


def gaussian(
    q_stream: np.random.Generator, k_stream: np.random.Generator, *, d_k: int, n_k: int, n_q: int
) -> tuple[Array, Array]:
    """Draw independent standard normal entries: the "unrelated vectors" of the √d_k argument."""
    return q_stream.standard_normal((n_q, d_k)), k_stream.standard_normal((n_k, d_k))


def rademacher(
    q_stream: np.random.Generator, k_stream: np.random.Generator, *, d_k: int, n_k: int, n_q: int
) -> tuple[Array, Array]:
    """Draw independent entries +1 or -1, so that |q|² = |k|² = d_k."""
    q, k = q_stream.integers(0, 2, (n_q, d_k)), k_stream.integers(0, 2, (n_k, d_k))
    return 2.0 * q - 1.0, 2.0 * k - 1.0


def uniform(
    q_stream: np.random.Generator, k_stream: np.random.Generator, *, d_k: int, n_k: int, n_q: int
) -> tuple[Array, Array]:
    """Draw independent entries, uniform on ±√3: mean 0 and variance 1."""
    end = math.sqrt(3.0)
    return q_stream.uniform(-end, end, (n_q, d_k)), k_stream.uniform(-end, end, (n_k, d_k))


def student_t(
    q_stream: np.random.Generator,
    k_stream: np.random.Generator,
    *,
    d_k: int,
    n_k: int,
    n_q: int,
    df: float,
) -> tuple[Array, Array]:
    """Draw independent entries of variance 1: Student's t with `df` degrees of freedom.

    Raises ValueError unless df > 2, where the variance is finite.
    """
    if not 2 < df < math.inf:
        raise ValueError(f"df is {df}; allowed: finite numbers above 2")
    unit = math.sqrt((df - 2.0) / df)
    q, k = q_stream.standard_t(df, (n_q, d_k)), k_stream.standard_t(df, (n_k, d_k))
    return unit * q, unit * k


MOST_MEAN = {"float64": 1e6, "float32": 100.0}
"""Largest mean of the law `non_centred`. Rounding of the common shift disturbs the weights: at
d_k = 4096 and both means at this limit, by 4e-8 in float64 and by 0.2 % in float32 (compared with
long double; at 1e6, float32 would be wrong by a factor)."""


def check_means(dtype: str, **means: object) -> None:
    """Raise ValueError for a mean at which rounding would hide the gaussian part of the scores."""
    most = MOST_MEAN.get(dtype, MOST_MEAN["float32"])
    for name, mean in means.items():
        if not (isinstance(mean, (int, float)) and abs(mean) <= most):
            where = "" if dtype == "float64" else f" in {dtype}"
            raise ValueError(
                f"{name} is {mean}; allowed{where}: numbers from -{most:g} to {most:g}"
            )


def non_centred(
    q_stream: np.random.Generator,
    k_stream: np.random.Generator,
    *,
    d_k: int,
    n_k: int,
    n_q: int,
    q_mean: float,
    k_mean: float,
) -> tuple[Array, Array]:
    """Draw from the gaussian law and add a mean to every entry of q and of k.

    The logits of a query get the common shift scale * q_mean * k_mean * d_k, which softmax ignores.
    A q_mean also changes their variance across keys to scale² d_k (1 + q_mean²).
    Raises ValueError for a mean beyond ±1e6; `draw` allows less in float32 (`MOST_MEAN`).
    """
    check_means("float64", q_mean=q_mean, k_mean=k_mean)
    q, k = gaussian(q_stream, k_stream, d_k=d_k, n_k=n_k, n_q=n_q)
    return q + q_mean, k + k_mean


def sphere(
    q_stream: np.random.Generator,
    k_stream: np.random.Generator,
    *,
    d_k: int,
    n_k: int,
    n_q: int,
    arrays: Literal["q", "k", "both"] = "both",
) -> tuple[Array, Array]:
    """Draw uniformly on the sphere of radius √d_k, so |q|² = d_k: the gaussian law's directions.

    `arrays` selects the arrays on the sphere; the others stay gaussian. With q alone on it,
    the logits of every query are exactly normal with standard deviation scale * √d_k.
    """
    q, k = gaussian(q_stream, k_stream, d_k=d_k, n_k=n_k, n_q=n_q)
    return (
        _onto_sphere(q) if arrays in ("q", "both") else q,
        _onto_sphere(k) if arrays in ("k", "both") else k,
    )


def _onto_sphere(x: Array) -> Array:
    # The direction first: at d_k = 1 it is ±1 to the bit.
    direction: Array = x / np.linalg.norm(x, axis=-1, keepdims=True)
    return direction * math.sqrt(x.shape[-1])


def planted(
    q_stream: np.random.Generator,
    k_stream: np.random.Generator,
    *,
    d_k: int,
    n_k: int,
    n_q: int,
    cosine: float,
) -> tuple[Array, Array]:
    """Give each query a match: q_i = cosine * k_j + √(1 - cosine²) * gaussian, j = i mod n_k.

    Taken alone, q and k each follow the gaussian law; cosine = 0 is that law. The entries of q_i
    and its match have correlation `cosine`, so the score of the match has mean cosine * d_k, while
    the other scores have standard deviation √d_k. The cosine of one pair varies around `cosine`
    with standard deviation (1 - cosine²)/√d_k. Raises ValueError for a cosine outside [-1, 1].
    """
    if not -1 <= cosine <= 1:
        raise ValueError(f"cosine is {cosine}; allowed: numbers from -1 to 1")
    fresh, k = gaussian(q_stream, k_stream, d_k=d_k, n_k=n_k, n_q=n_q)
    # (1 - c)(1 + c), because c² rounds to 1 before c does.
    rest = math.sqrt((1.0 - cosine) * (1.0 + cosine))
    return cosine * k[np.arange(n_q) % n_k] + rest * fresh, k


def correlated(
    q_stream: np.random.Generator,
    k_stream: np.random.Generator,
    *,
    d_k: int,
    n_k: int,
    n_q: int,
    correlation: float,
    alignment: float,
) -> tuple[Array, Array]:
    """Give each query a jointly normal match with the cross-covariance E[q kᵀ] = correlation R.

    R turns each pair of coordinates by the angle of cosine `alignment`; so q_i is
    correlation * R k_j plus gaussian noise that brings its entries to variance 1, j = i mod n_k,
    and the score of the match has mean correlation * alignment * d_k. An alignment of 1 is the
    planted law. At 0, query and match are related, but the score has mean 0. The last coordinate
    of an odd d_k has no partner, and R multiplies it by `alignment`.
    Raises ValueError for a correlation or an alignment outside [-1, 1].
    """
    for name, number in (("correlation", correlation), ("alignment", alignment)):
        if not -1 <= number <= 1:
            raise ValueError(f"{name} is {number}; allowed: numbers from -1 to 1")
    fresh, k = gaussian(q_stream, k_stream, d_k=d_k, n_k=n_k, n_q=n_q)
    key = k[np.arange(n_q) % n_k]
    turned = alignment * key
    pairs = d_k // 2 * 2
    across = math.sqrt((1.0 - alignment) * (1.0 + alignment))
    turned[:, 0:pairs:2] -= across * key[:, 1:pairs:2]
    turned[:, 1:pairs:2] += across * key[:, 0:pairs:2]
    rest = np.full(d_k, math.sqrt((1.0 - correlation) * (1.0 + correlation)))
    one = correlation * alignment
    rest[pairs:] = math.sqrt((1.0 - one) * (1.0 + one))
    return correlation * turned + rest * fresh, k


def graded(
    q_stream: np.random.Generator,
    k_stream: np.random.Generator,
    *,
    d_k: int,
    n_k: int,
    n_q: int,
    cosine: float,
    steps: float,
) -> tuple[Array, Array]:
    """Give each query related keys of falling cosine: key i + m mod n_k has cosine (1 - m/steps).

    The cosines are in units of `cosine`, which is that of the match, key i mod n_k. With c_m the
    cosine of key m, q_i is the sum of c_m k_(i+m) and of gaussian noise that brings its entries to
    variance 1; so `steps` of 1 is the planted law. With fewer keys than steps, the smallest cosines
    are left out. Raises ValueError for a cosine outside [-1, 1], for steps that are not a whole
    number from 1, and if the squares of the cosines add up to more than 1.
    """
    cosines = graded_cosines(n_k, cosine=cosine, steps=steps)
    # Over all steps, so that the result does not depend on the number of keys.
    total = cosine**2 * (steps + 1) * (2 * steps + 1) / (6 * steps)
    if total > 1:
        raise ValueError(
            f"cosine is {cosine} and steps {steps}, whose squared cosines add up to {total:.3g}; "
            "allowed: a sum up to 1"
        )
    fresh, k = gaussian(q_stream, k_stream, d_k=d_k, n_k=n_k, n_q=n_q)
    q = math.sqrt(1.0 - sum(c * c for c in cosines)) * fresh
    for place, c in enumerate(cosines):
        q += c * k[(np.arange(n_q) + place) % n_k]
    return q, k


def graded_cosines(n_k: int, *, cosine: float, steps: float) -> list[float]:
    """Return the cosine of each related key of the graded law, the match first.

    >>> graded_cosines(256, cosine=0.5, steps=4)
    [0.5, 0.375, 0.25, 0.125]
    """
    if not -1 <= cosine <= 1:
        raise ValueError(f"cosine is {cosine}; allowed: numbers from -1 to 1")
    if not (steps >= 1 and steps == math.floor(steps)):
        raise ValueError(f"steps is {steps}; allowed: whole numbers from 1")
    return [cosine * (1 - place / steps) for place in range(int(min(steps, n_k)))]


@dataclass(frozen=True, kw_only=True)
class Law:
    """A formula for q and k, and the properties that claims and exact values depend on.

    formula      takes the streams of q and k, the sizes, and the entry's parameters by keyword,
                 and raises ValueError for a parameter out of range
    independent  whether q and k are drawn independently of each other
    centred      whether every entry of q and k has mean 0 (and variance 1)
    exact        whether `theory.expectations` holds: independent standard normal entries. Some
                 other laws have exact values of their own, see `theory.points.law_at`

    No field has a default, because a new law must state all of them.
    """

    formula: Callable[..., tuple[Array, Array]]
    independent: bool
    centred: bool
    exact: bool

    def __post_init__(self) -> None:
        if self.exact and not self.unrelated:
            raise ValueError("exact expectations exist for unrelated vectors only")

    @property
    def unrelated(self) -> bool:
        """Return whether q and k are the unrelated vectors of the √d_k argument."""
        return self.independent and self.centred


LAWS: dict[str, Law] = {
    "gaussian": Law(formula=gaussian, independent=True, centred=True, exact=True),
    "rademacher": Law(formula=rademacher, independent=True, centred=True, exact=False),
    "uniform": Law(formula=uniform, independent=True, centred=True, exact=False),
    "student_t": Law(formula=student_t, independent=True, centred=True, exact=False),
    "non_centred": Law(formula=non_centred, independent=True, centred=False, exact=False),
    "sphere": Law(formula=sphere, independent=True, centred=True, exact=False),
    "planted": Law(formula=planted, independent=False, centred=True, exact=False),
    "correlated": Law(formula=correlated, independent=False, centred=True, exact=False),
    "graded": Law(formula=graded, independent=False, centred=True, exact=False),
}
"""The laws that an entry of `input_laws` can name. They share the streams: laws built on the
gaussian one see its numbers."""

FORMULAS = {name: law.formula for name, law in LAWS.items()}


def law_of(entry: Entry) -> Law | None:
    """Return the law that an entry of `input_laws` names; None for an unknown one.

    >>> law_of({"law": "planted", "cosine": 0.8}).unrelated
    False
    """
    return LAWS.get(str(entry.get("law")))


def draw(entry: Entry, *, d_k: int, n_k: int, n_q: int, d_v: int, seed: int, dtype: str) -> Inputs:
    """Draw one cell's arrays from an entry of `input_laws`, such as `{"law": "gaussian"}`.

    v and g are standard normal under every law, so that mean-square gradients over d_v have
    the exact values of `theory`. Raises TypeError for an entry, a size or a parameter of the wrong
    kind, and ValueError for an unknown law, parameter or type and for a number out of range.
    """
    name, parameters = check_entry(entry, "law", FORMULAS)
    law = LAWS[name]
    check_name("dtype", dtype, MOST_MEAN)
    given = {"d_k": d_k, "n_k": n_k, "n_q": n_q, "d_v": d_v}
    sizes = {word: check_whole(word, size, least=1) for word, size in given.items()}
    d_v = sizes.pop("d_v")
    # A larger seed would be two words of the stream's key, and might be that of another cell.
    seed = check_whole("seed", seed, most=2**32 - 1)
    streams = {array: stream(array, **sizes, d_v=d_v, seed=seed) for array in _ARRAYS}
    if law.formula is non_centred:
        check_means(dtype, **parameters)
    q, k = law.formula(streams["q"], streams["k"], **sizes, **parameters)
    v = streams["v"].standard_normal((sizes["n_k"], d_v))
    g = streams["g"].standard_normal((sizes["n_q"], d_v))
    return Inputs(*(array.astype(dtype, copy=False) for array in (q, k, v, g)))
