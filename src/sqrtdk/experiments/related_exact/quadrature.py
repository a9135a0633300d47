"""Compute quadrature.csv: exact means of two keys against an independent double integral.

With two keys p depends on the difference of their logits alone, so that every mean is an integral
over that difference and over the length of the query, or on the sphere over two angles. These
integrals share no formula with `theory`, which sums over the logits of any number of keys.
"""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy.special import expit, gammaln, log_expit
from scipy.stats import chi

from sqrtdk import schema
from sqrtdk.core.shapes import Floats
from sqrtdk.experiments.related_exact.measure import METRICS, VECTORS
from sqrtdk.schema import Column, Settings
from sqrtdk.storage import tables
from sqrtdk.theory import related
from sqrtdk.theory.related import Law

CELLS: dict[str, tuple[tuple[Law, int, float], ...]] = {
    "planted": ((Law("match", 0.5), 16, 0.25), (Law("match", 0.9), 4, 1.0)),
    "correlated": ((Law("match", 0.7, 0.3), 16, 0.25), (Law("match", -0.5, 0.8), 4, 1.0)),
    "sphere": ((Law("sphere"), 16, 0.25), (Law("sphere"), 4, 1.0)),
}
"""Law, d_k and scale of the cells, by the name of the law in runs.csv: with 1/√d_k, and without."""

NODES = 200
"""Nodes of each interval: more change no digit."""

COLUMNS = (
    schema.axis_column(VECTORS),
    Column("size_d_k", "Dimension of queries and keys.", "dimensions", read=int, axis=True),
    Column("scale", "Factor on the scores.", axis=True),
    Column("expectation", "A mean of theory.Expectations.", read=str, axis=True),
    Column("exact", "Its exact value for two keys."),
    Column("quadrature", "The same by a double integral."),
    Column("relative", "Difference of the two over the second, in magnitude."),
)


def rows(settings: Settings, runs: pd.DataFrame) -> Iterator[tables.Row]:
    """Yield a row for each mean of each cell of the laws in runs.csv."""
    for vectors in sorted(set(runs["vectors"])):
        for law, d_k, scale in CELLS[vectors]:
            exact = related.expectations_of(law, 2, d_k, scale)
            for name, value in zip(METRICS, of_two_keys(law, d_k, scale), strict=True):
                known = float(getattr(exact, name))
                yield {
                    "vectors": vectors,
                    "size_d_k": d_k,
                    "scale": scale,
                    "expectation": name,
                    "exact": known,
                    "quadrature": float(value),
                    "relative": abs(known / float(value) - 1),
                }


def of_two_keys(law: Law, d_k: int, scale: float) -> Floats:
    """Return the means of `METRICS` for two keys, the first a match where the law has one."""
    return _on_sphere(d_k, scale) if law.kind == "sphere" else _with_match(law, d_k, scale)


def _with_match(law: Law, d_k: int, scale: float) -> Floats:
    """Integrate over |q|, and given it over the difference of the logits, which is normal."""
    own = 1 - law.correlation**2
    # |q| is within 10 of its root mean square but for 1e-20 of the queries.
    r, of_r = _nodes(0.0, math.sqrt(d_k) + 10)
    r, of_r = r[:, np.newaxis], of_r[:, np.newaxis] * chi.pdf(r, d_k)[:, np.newaxis]
    mean, sd = law.correlation * law.alignment * r, math.sqrt(1 + own)
    low, high = mean - 12 * sd, mean + 12 * sd
    # The largest of two weights has a kink where the logits are equal.
    x, of_x = _joined(low, np.clip(0.0, low, high), high)
    of_x = of_x * np.exp(-(((x - mean) / sd) ** 2) / 2) / (sd * math.sqrt(2 * math.pi))
    aside = law.correlation**2 * (1 - law.alignment**2) * r**2
    return _averaged(of_r * of_x, scale * r * x, x**2 + (d_k - 1) * (1 + own) + aside, scale, r)


def _on_sphere(d_k: int, scale: float) -> Floats:
    """Integrate over the angles of both keys with the query."""
    r = np.array(math.sqrt(d_k))
    u, of_u = (one[:, np.newaxis] for one in _nodes(0.0, math.pi))
    t, of_t = _joined(0 * u, u, math.pi + 0 * u)
    area = math.exp(gammaln(d_k / 2) - gammaln((d_k - 1) / 2)) / math.sqrt(math.pi)
    share = of_u * of_t * (area * np.sin(u) ** (d_k - 2)) * (area * np.sin(t) ** (d_k - 2))
    x = r * (np.cos(t) - np.cos(u))
    apart = x**2 + d_k * (np.sin(t) ** 2 + np.sin(u) ** 2)
    return _averaged(share, scale * r * x, apart, scale, r)


def _averaged(share: Floats, difference: Floats, apart: Floats, scale: float, r: Floats) -> Floats:
    """Return `METRICS` for a difference of logits, |k_0 - k_1|² = `apart` and |q| = r.

    With two keys J = p q (1, -1)(1, -1)', so that |J|² = 4 (p q)² and |K' J|² = 2 (p q)² apart.
    """
    p, q = expit(difference), expit(-difference)
    entropy = -p * log_expit(difference) - q * log_expit(-difference)
    square = 4 * (p * q) ** 2
    means = (
        entropy, p**2 + q**2, np.maximum(p, q), p, square, square,
        scale**2 * square * apart / 2, scale**2 * r**2 * square,
    )  # fmt: skip
    return np.array([float(np.sum(share * one)) for one in means])


def _nodes(low: Floats | float, high: Floats | float) -> tuple[Floats, Floats]:
    """Return the nodes and weights of Gauss and Legendre between ends, along the last axis."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    half = (np.asarray(high) - np.asarray(low)) / 2
    return np.asarray(low) + half * (1 + nodes), half * weights


def _joined(low: Floats, middle: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return the nodes and weights of two parts of each interval."""
    first, second = _nodes(low, middle), _nodes(middle, high)
    return np.hstack([first[0], second[0]]), np.hstack([first[1], second[1]])
