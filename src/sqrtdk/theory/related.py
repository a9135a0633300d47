"""Exact expectations for the input laws that `theory.expectations` does not cover.

A query has a match if it and one key are jointly normal with the cross-covariance
E[k q'] = rho R, where R is orthogonal and q' R q = alignment |q|² for every q: the identity, or a
rotation by the same angle in every plane. Given q the match is N(rho R q, (1 - rho²) I), so that
its logit over sigma = scale |q| is N(rho alignment |q|, 1 - rho²), and the other keys are
unrelated. On the sphere |q|² = d_k, and the logits are those of `any_density`.
"""

import math
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from sqrtdk.theory import any_density
from sqrtdk.theory.any_density import GivenDensity
from sqrtdk.theory.expectations import Expectations, expectations, query_norms
from sqrtdk.theory.fixed_sigma import given_sigma
from sqrtdk.theory.matched import given_match, is_largest, match_and_entropy

Kind: TypeAlias = Literal["gaussian", "match", "sphere", "sphere_q"]


EQUAL_STEEPNESS = 4.0
"""Steepness of the means of |q| for a match equal to its query, as `query_norms` has it: the match
passes the largest of the others, which spreads by a few tenths."""


class Law(NamedTuple):
    """An input law as the theory sees it.

    kind         gaussian; match; sphere (q and k on it) or sphere_q (q alone, gaussian k)
    correlation  of the entries of the query with those of its rotated match, -1 to 1, exclusive
    alignment    cosine of a vector with itself rotated, -1 to 1
    """

    kind: Kind = "gaussian"
    correlation: float = 0.0
    alignment: float = 1.0


def expectations_of(law: Law, n_k: int, d_k: float, scale: float) -> Expectations:
    """Return the exact means of `Expectations` for one law, n_k keys and logits scale * q.k.

    The gradients follow as in `expectations.expectations`. Raises ValueError for sizes, scales and
    laws out of range; see there, `with_match` and `any_density.sphere`.
    """
    if law.kind == "gaussian":
        return expectations(n_k, d_k, scale)
    if law.kind == "match":
        return with_match(n_k, d_k, scale, law.correlation, law.alignment)
    return on_sphere(n_k, d_k, scale, keys=law.kind == "sphere")


@lru_cache(maxsize=4096)
def with_match(
    n_k: int, d_k: float, scale: float, correlation: float, alignment: float = 1.0
) -> Expectations:
    """Return exact means where each query has a match among n_k keys.

    Along q the match is x_0, and in the other d_k - 1 directions it has the variance 1 - rho² and,
    if R turns q, a mean of length rho √(1 - alignment²) |q|. So E|dQ_i|² / d_v is
    s² [(d_k - 1) (|J|² - rho² |J e_0|²) + rho² (1 - alignment²) |q|² |J e_0|² + |J x|²].

    Relative error below 1e-8 for a correlation of up to 0.99. Raises ValueError for a correlation
    that is not between -1 and 1, or an alignment outside, and what `expectations` raises.
    """
    if not abs(correlation) < 1 or not abs(alignment) <= 1:
        raise ValueError(
            f"correlation must be between -1 and 1 and alignment from -1 to 1, got {correlation} "
            f"and {alignment}"
        )
    if not 0 <= scale < math.inf:
        raise ValueError(f"scale must be finite and >= 0, got {scale}")
    sd = math.sqrt((1 - correlation) * (1 + correlation))
    along = correlation * alignment
    norm, probability = query_norms(d_k, scale, abs(along) / sd)
    found = [
        np.concatenate(given_match(scale * r, n_k, np.array([along * r]), np.array([sd])))
        for r in norm.tolist()
    ]
    _, match, entropy, sum_sq, gap, cube, jacobian, of_match, along_q, largest, largest_gap = (
        np.transpose(found)
    )
    turned = correlation**2 * (1 - alignment**2)
    grad_q = (
        (d_k - 1) * (jacobian - correlation**2 * of_match) + turned * norm**2 * of_match + along_q
    )
    fields = (
        entropy,
        sum_sq,
        gap,
        cube,
        largest,
        largest_gap,
        jacobian,
        jacobian,
        scale**2 * jacobian,
        scale**2 * grad_q,
        (scale * norm) ** 2 * jacobian,
        sum_sq,
        match,
    )
    spread = scale**2 * d_k * (n_k - correlation**2 + along**2 * (d_k + 2)) / n_k
    means = [float(field @ probability) for field in fields]
    return Expectations(*means, *([spread] if n_k > 1 else [0.0]))


@lru_cache(maxsize=4096)
def match_means(n_k: int, d_k: float, scale: float, correlation: float) -> tuple[float, float]:
    """Return the match's mean weight and the mean entropy of `with_match`, at a third of its cost.

    For n_k >= 2 and an alignment of 1, and also for a correlation of 1: a match equal to its query.
    """
    sd = math.sqrt((1 - correlation) * (1 + correlation))
    norm, probability = query_norms(d_k, scale, abs(correlation) / sd if sd else EQUAL_STEEPNESS)
    found = [match_and_entropy(scale * r, n_k, correlation * r, sd) for r in norm.tolist()]
    weight, entropy = probability @ np.array(found)
    return float(weight), float(entropy)


@lru_cache(maxsize=256)
def match_is_largest(n_k: int, d_k: float, correlation: float) -> float:
    """Return the probability that the match has the largest score, of `with_match` with any scale.

    It is the limit of the match's mean weight at an infinite scale. Raises ValueError as
    `with_match` does.
    """
    if not abs(correlation) < 1:
        raise ValueError(f"correlation must be between -1 and 1, got {correlation}")
    sd = math.sqrt((1 - correlation) * (1 + correlation))
    norm, probability = query_norms(d_k, 1.0, abs(correlation) / sd)
    return float(probability @ is_largest(n_k, correlation * norm, sd))


@lru_cache(maxsize=4096)
def on_sphere(n_k: int, d_k: float, scale: float, *, keys: bool = True) -> Expectations:
    """Return exact means for q, and if `keys` also k, uniform on the sphere of radius √d_k.

    All rows have sigma = scale √d_k. With k on the sphere, what is left of key j in the directions
    across q has the square d_k - x_j², so E|dQ_i|² / d_v is
    s² [d_k |J|² - sum x_j² |J e_j|² + |J x|²]. With q alone on it, the keys are normal.

    Raises ValueError for d_k below 2 if the keys are on the sphere, and what `expectations` raises.
    """
    if n_k == 1:
        return expectations(1, d_k, scale)
    sigma = scale * math.sqrt(d_k)
    if keys:
        one: GivenDensity = any_density.given_density(
            any_density.sphere(d_k, sigma, n_k), sigma, n_k
        )
        across = d_k * one.jacobian_sq - one.jacobian_radial_sq
        values = {name: float(getattr(one, name)) for name in GivenDensity._fields}
    else:
        normal = given_sigma(sigma, n_k)
        values = {name: float(getattr(normal, name)) for name in normal._fields}
        across = (d_k - 1) * values["jacobian_sq"]
    jacobian = values["jacobian_sq"]
    return Expectations(
        entropy_nats=values["entropy_nats"],
        sum_sq_weights=values["sum_sq_weights"],
        sum_sq_weights_gap=values["sum_sq_weights_gap"],
        sum_cube_weights=values["sum_cube_weights"],
        max_weight=values["max_weight"],
        max_weight_gap=values["max_weight_gap"],
        jacobian_sq=jacobian,
        grad_logits_sq=jacobian,
        grad_scores_sq=scale**2 * jacobian,
        grad_q_sq=scale**2 * (across + values["jacobian_x_sq"]),
        grad_k_sq=sigma**2 * jacobian,
        grad_v_sq=values["sum_sq_weights"],
        match_weight=1 / n_k,
        logit_sq=sigma**2,
    )
