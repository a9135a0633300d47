"""Statistics of attention: the concentration of the weights, the sizes of logits and gradients.

Entropies are in nats. Types are as in `attention`: results keep float32, float64 and longdouble,
half precision is computed in float32, and any other type raises TypeError. What is undefined is
NaN, without a warning: the metrics of a query that sees no key, or a logit of NaN or +inf; means
and shares of nothing. A hidden key or a logit of -inf does not count in any metric. Nothing here
averages over queries unless its name or docstring says so.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sqrtdk.core.attention import mask_logits, shift_by_row_max
from sqrtdk.core.checks import as_float, check_mask, check_number, check_shapes
from sqrtdk.core.shapes import ArrayLike, Float, Floats, Reduced


class RowMetrics(NamedTuple):
    """Concentration of each query's weights p, arrays [..., n_q].

    entropy_nats        H = -Σ p ln p
    entropy_normalized  H / ln(number of visible keys); NaN for a single visible key
    effective_keys      exp H: the number of equal weights with the same entropy
    sum_sq_weights      Σ p²
    max_weight          max p
    max_weight_gap      1 - max p, with full precision where max p rounds to 1
    jacobian_norm       ‖diag(p) - ppᵀ‖_F, the norm of the derivative of softmax
    """

    entropy_nats: Float[Floats, "*rows"]
    entropy_normalized: Float[Floats, "*rows"]
    effective_keys: Float[Floats, "*rows"]
    sum_sq_weights: Float[Floats, "*rows"]
    max_weight: Float[Floats, "*rows"]
    max_weight_gap: Float[Floats, "*rows"]
    jacobian_norm: Float[Floats, "*rows"]


def row_metrics(logits: ArrayLike, mask: ArrayLike | None = None) -> RowMetrics:
    """Compute the metrics of softmax(logits, mask) for logits [..., n_q, n_k]; see `RowMetrics`.

    Use the logits, because the rounded weights of a saturated row have lost the digits:
    1 - max p is 0 from a logit gap of 37 on. With the largest logit at 0, and e the exponentials
    of the *other* logits t, R = Σe, z = 1 + R (so max p = 1/z), everything is a sum of terms of
    one sign. Where even e underflows (gap 745 in float64, 103 in float32) the row is one-hot.
    A query that sees no key has no weights, and one that sees a logit of NaN or +inf has undefined
    ones: all its metrics are NaN. Raises what `attention.mask_logits` raises.

    >>> row_metrics(np.array([[0.0, 0.0, 0.0, 0.0]])).effective_keys
    array([4.])
    >>> row_metrics(np.array([[0.0, 80.0]])).max_weight_gap
    array([1.80485139e-35])
    """
    logits = mask_logits(logits, mask)
    if logits.shape[-1] == 0:
        # No keys are the same as one hidden key, which has a maximum to look for.
        logits = np.full((*logits.shape[:-1], 1), -np.inf, logits.dtype)
    n_visible = np.count_nonzero(logits != -np.inf, axis=-1)
    top = np.max(logits, axis=-1)
    known = (top > -np.inf) & (top < np.inf)

    t = shift_by_row_max(logits)
    e = np.exp(t)
    np.put_along_axis(e, np.argmax(t, axis=-1, keepdims=True), 0.0, axis=-1)
    r = np.sum(e, axis=-1)
    z = 1.0 + r
    gap = r / z
    below_max = -np.sum(e * np.where(t > -np.inf, t, 0.0), axis=-1) / z
    entropy = np.log1p(r) + below_max

    # Shares f = e/R of the rest, because e² would underflow from a logit gap of 355 on (44 in
    # float32). ‖J‖² = Σp² - 2Σp³ + (Σp²)² with p = (1, R f)/z and 1 - 1/z = R/z becomes
    # (R/z)² [(1 + 2 Σf² + R² (Σf²)²)/z² + Σf² - 2 (R/z) Σf³], without cancellation.
    f = e / np.where(r == 0.0, 1.0, r)[..., np.newaxis]
    f2 = np.sum(f * f, axis=-1)
    f3 = np.sum(f * f * f, axis=-1)
    spread = (1.0 + 2.0 * f2 + (r * f2) ** 2) / z**2 + (f2 - 2.0 * gap * f3)

    # At least float64, in which counts are exact.
    count = np.maximum(n_visible, 2).astype(np.result_type(entropy.dtype, np.float64))
    log_n = np.log(count).astype(entropy.dtype)
    metrics = RowMetrics(
        entropy_nats=entropy,
        entropy_normalized=np.where(n_visible > 1, entropy / log_n, np.nan),
        # exp H would magnify the rounding of H by H.
        effective_keys=z * np.exp(below_max),
        sum_sq_weights=(1.0 + r * r * f2) / z**2,
        max_weight=1.0 / z,
        max_weight_gap=gap,
        jacobian_norm=gap * np.sqrt(spread),
    )
    return RowMetrics(*(np.where(known, metric, np.nan) for metric in metrics))


def logit_std(logits: ArrayLike, mask: ArrayLike | None = None) -> Reduced:
    """Compute the effective sigma of logits [..., n_q, n_k], one number per [...].

    It is the root of the mean, over queries, of the unbiased variance across the visible keys.
    A common shift of a row, which softmax ignores, does not count. For q, k ~ N(0, I) its mean
    square is exactly scale² d_k. Queries that see fewer than two keys are left out; NaN if all
    do, or if one of the others sees a logit of NaN or +inf. Right at any magnitude. Raises what
    `attention.mask_logits` raises.

    >>> logit_std(np.array([[7.0, 8.0, 9.0], [-4.0, -3.0, -2.0]]))
    np.float64(1.0)
    """
    logits = mask_logits(logits, mask)
    check_shapes(logits=(logits, "... n_q n_k"))
    visible = logits != -np.inf
    n_visible = np.count_nonzero(visible, axis=-1).astype(logits.dtype)
    counted = n_visible > 1.0
    # In units of powers of two, which are exact, no difference overflows, and no square over- or
    # underflows. Shifting first keeps the digits of small differences between large logits.
    room = np.maximum(_exponent(logits) + 2 - np.finfo(logits.dtype).maxexp, 0)
    t = shift_by_row_max(np.ldexp(logits, -room))
    t = np.where(visible & counted[..., np.newaxis], t, 0.0)
    unit = _exponent(t)
    t = np.ldexp(t, -unit)
    mean = np.sum(t, axis=-1) / np.maximum(n_visible, 1.0)
    deviation = np.where(visible, t - mean[..., np.newaxis], 0.0)
    variance = np.sum(deviation * deviation, axis=-1) / np.maximum(n_visible - 1.0, 1.0)
    n_counted = np.count_nonzero(counted, axis=-1).astype(logits.dtype)
    total = np.where(n_counted > 0.0, np.sum(variance, axis=-1, where=counted), np.nan)
    with np.errstate(over="ignore"):
        in_units = np.sqrt(total / np.maximum(n_counted, 1.0))
        std: Floats = np.ldexp(in_units, (room + unit)[..., 0, 0])
    return std


def _exponent(x: Floats) -> NDArray[np.int32]:
    """Return an exponent [..., 1, 1] of 2 that no finite entry of x [..., n, m] reaches."""
    finite = np.abs(np.where(np.isfinite(x), x, 0.0))
    found: NDArray[np.int32]
    found = np.frexp(np.max(finite, axis=(-2, -1), keepdims=True, initial=0.0))[1]
    return found


def row_norms(x: ArrayLike) -> Float[Floats, "*rows"]:
    """Compute Euclidean norms over the last axis, [..., n, d] -> [..., n], right at any magnitude.

    A row of no entries (d = 0) has norm 0. Raises TypeError and ValueError for arrays of other
    types and without axes.

    >>> row_norms(np.array([[3.0, 4.0], [3e200, 4e200], [3e-200, 4e-200]]))
    array([5.e+000, 5.e+200, 5.e-200])
    """
    x = as_float("x", x)
    check_shapes(x=(x, "... d"))
    limits = np.finfo(x.dtype)
    # Overflow is either handled below or the correct result.
    with np.errstate(over="ignore", invalid="ignore"):
        squared = np.asarray(np.vecdot(x, x))
        norms: Floats = np.asarray(np.sqrt(squared))
        extreme = ~((squared >= limits.tiny / limits.eps) & (squared < np.inf))
        if extreme.any():
            rows = x[extreme]
            peak = np.max(np.abs(rows), axis=-1, initial=0.0)
            unit = np.where((peak > 0.0) & (peak < np.inf), peak, 1.0)
            rows = rows / unit[..., np.newaxis]
            norms[extreme] = unit * np.sqrt(np.vecdot(rows, rows))
    return norms


def rms(x: ArrayLike) -> Float[Floats, "*rows"]:
    """Compute the root mean square over the last axis, [..., n, d] -> [..., n].

    Right at any magnitude, such as that of a saturated row, whose squares would be 0.

    >>> rms(np.array([3e-200, 4e-200, 0.0, 0.0]))
    array(2.5e-200)
    """
    x = as_float("x", x)
    return np.asarray(row_norms(x) / math.sqrt(x.shape[-1]))


class NormSummary(NamedTuple):
    """Distribution of the norms of rows, arrays [...]; see `summarize_norms`."""

    rms: Floats
    median: Floats
    q05: Floats
    q95: Floats
    dead_rows: Floats
    top1_share: Floats


def summarize_norms(norms: ArrayLike, *, dead_below: float = 1e-3) -> NormSummary:
    """Summarize norms [..., n_rows] over the last axis.

    Root mean square, median, 5 % and 95 % quantile (linear between order statistics),
    `dead_rows`, the share of rows with a norm below `dead_below`, and `top1_share`, the share of
    the sum of squares that the 1 % of rows with the largest norms hold (rounded up to whole
    rows; NaN if all norms are zero or one is infinite). A mean square that a few rows carry says
    little about the typical row, so all of these are given. Everything is NaN where a norm is
    NaN or there are no rows. Raises TypeError and ValueError for arrays of other types, without
    axes and with negative numbers.

    >>> summary = summarize_norms(np.array([0.0, 0.0, 6.0, 8.0]))
    >>> float(summary.median), float(summary.dead_rows), round(float(summary.top1_share), 4)
    (3.0, 0.5, 0.64)
    """
    norms = as_float("norms", norms)
    check_shapes(norms=(norms, "... n_rows"))
    dead_below = check_number("dead_below", dead_below, least=0.0)
    if (negative := norms[norms < 0]).size:
        raise ValueError(f"norms has {negative[0]}; allowed: numbers from 0, and NaN")
    n_rows = norms.shape[-1]
    if n_rows == 0:
        return NormSummary(
            *np.full((len(NormSummary._fields), *norms.shape[:-1]), np.nan, norms.dtype)
        )
    n_top = -(-n_rows // 100)
    # Sort once: np.quantile and np.partition would cost small cells more than their gradients.
    rising = np.sort(norms, axis=-1)
    total = row_norms(norms)
    top = row_norms(rising[..., n_rows - n_top :])
    q05, median, q95 = (_quantile(rising, share) for share in (0.05, 0.5, 0.95))
    dead_rows = np.mean(norms < dead_below, axis=-1, dtype=norms.dtype)
    shared = (total > 0.0) & (total < np.inf)
    return NormSummary(
        rms=total / math.sqrt(n_rows),
        median=median,
        q05=q05,
        q95=q95,
        dead_rows=np.where(np.isnan(total), np.nan, dead_rows),
        top1_share=(np.where(shared, top, np.nan) / np.where(shared, total, 1.0)) ** 2,
    )


def _quantile(rising: Float[Floats, "*batch n"], share: float) -> Reduced:
    """Return the quantile over the last, sorted axis, linear between order statistics.

    NaN if one of them is.
    """
    place = share * (rising.shape[-1] - 1)
    low = math.floor(place)
    # If the quantile is an order statistic, do not use the next value, which may be inf.
    high = low if place == low else low + 1
    below, above = rising[..., low], rising[..., high]
    step = np.where(above > below, above, 0.0) - np.where(above > below, below, 0.0)
    # NaN sorts to the end.
    return np.where(np.isnan(rising[..., -1]), np.nan, below + (place - low) * step)


def dead_entries(d_logits: ArrayLike, mask: ArrayLike | None = None, *, below: float) -> Reduced:
    """Return the share of entries of [..., n_q, n_k] with |gradient| < below, one per [...].

    Hidden entries (the mask is True where a key is visible) do not count. NaN where nothing is
    visible or a visible entry is NaN. Raises what `attention.mask_logits` raises.

    >>> dead_entries(np.array([[1e-9, -2.0], [0.0, 5.0]]), below=1e-5)
    np.float64(0.5)
    """
    d_logits = as_float("d_logits", d_logits)
    check_shapes(d_logits=(d_logits, "... n_q n_k"))
    below = check_number("below", below, least=0.0)
    visible = True if mask is None else check_mask(mask, d_logits.shape)
    visible = np.broadcast_to(visible, d_logits.shape)
    known = np.any(visible, axis=(-2, -1)) & ~np.any(visible & np.isnan(d_logits), axis=(-2, -1))
    dead = np.count_nonzero(visible & (np.abs(d_logits) < below), axis=(-2, -1))
    total = np.count_nonzero(visible, axis=(-2, -1))
    share: Floats = np.where(known, dead / np.maximum(total, 1), np.nan).astype(d_logits.dtype)
    return share[()]
