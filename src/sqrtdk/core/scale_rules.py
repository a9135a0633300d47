"""Scale rules: they turn the scores q·k into the logits that the softmax sees.

An entry of `scale_rules` in the configuration names one of these formulas and its parameters
(`inverse: {rule: power, exponent: 1}`), so a new scale rule is one line of YAML. If the scale is a
factor that depends on the sizes only, the formula is a function that returns a number. If it
depends on q and k, the formula returns a `ScaleRule` with a gradient derived by hand, including
the path through the norms. d_k may be a real number, which the exact curves need.

With a mask, a hidden pair of query and key does not affect a visible logit, a mean or a gradient,
whatever q and k hold there.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from sqrtdk.core.attention import Factor, ScaleGradients, ScaleRule, WithSink, as_rule
from sqrtdk.core.checks import check_entry, check_number, check_whole
from sqrtdk.core.metrics import row_norms
from sqrtdk.core.qk_clip import QKClip
from sqrtdk.core.shapes import Floats, Mask

Entry: TypeAlias = Mapping[str, str | int | float | None]
"""A formula's name under `rule`, and its parameters."""


def constant(d_k: float, n_k: int, *, value: float) -> float:
    """Multiply by the same factor at every size; 1 is attention without scaling.

    >>> constant(64, 256, value=1)
    1.0
    """
    return _positive("value", value)


def power(d_k: float, n_k: int, *, exponent: float, multiplier: float = 1.0) -> float:
    """Multiply by multiplier * d_k^-exponent; in Vaswani et al. 2017, eq. (1), the exponent is 1/2.

    It is 1 in Yang et al. 2022. With a multiplier of 8, exponent 1 agrees with 1/2 at d_k = 64.

    >>> power(64, 256, exponent=0.5), power(64, 256, exponent=1, multiplier=8)
    (0.125, 0.125)
    """
    if not math.isfinite(exponent):
        raise ValueError(f"exponent is {exponent}; allowed: finite numbers")
    return _positive("multiplier", multiplier) * math.pow(d_k, -exponent)


def log_length(
    d_k: float, n_k: int, *, log_exponent: float, exponent: float = 0.5, multiplier: float = 1.0
) -> float:
    """Multiply by multiplier * ln(n_k)^log_exponent / d_k^exponent, which grows with n_k.

    `exponent` is the power of d_k, as in `power`. With 1/2, a log_exponent of 1 is Nakanishi 2025
    (arXiv 2501.19399), where the multiplier s is learned. At a log_exponent of 1/2, unrelated
    vectors stay equally far from saturation at every n_k: their logits have standard deviation
    √(ln n_k), and the critical one is √(2 ln n_k) (Derrida 1981). n_k is the number of keys of the
    cell, including hidden ones.

    >>> log_length(64, 1024, log_exponent=0.5) == math.sqrt(math.log(1024)) / 8
    True
    """
    for name, number in (("log_exponent", log_exponent), ("exponent", exponent)):
        if not math.isfinite(number):
            raise ValueError(f"{name} is {number}; allowed: finite numbers")
    if n_k < 2:
        raise ValueError(f"n_k is {n_k}; allowed: from 2, because ln 1 is 0")
    length = math.pow(math.log(n_k), log_exponent)
    return _positive("multiplier", multiplier) * length * math.pow(d_k, -exponent)


def yarn(d_k: float, n_k: int, *, trained: float, slope: float = 0.1) -> float:
    """Multiply by (slope ln(n_k / trained) + 1)² / √d_k beyond the length of training.

    Peng et al. 2023 (arXiv 2309.00071) multiply q and k each by 0.1 ln s + 1, for a context that
    is s times as long as in training. Up to that length it is 1/√d_k.

    >>> yarn(64, 16, trained=16), round(yarn(64, 4096, trained=16), 4)
    (0.125, 0.3021)
    """
    extension = max(1.0, n_k / _positive("trained", trained))
    return (_positive("slope", slope) * math.log(extension) + 1.0) ** 2 * math.pow(d_k, -0.5)


def d_model(d_k: float, n_k: int, *, heads: float) -> float:
    """Divide by √d_model = √(heads d_k): the width of the model in place of that of one head.

    >>> d_model(64, 256, heads=4)
    0.0625
    """
    if not (heads >= 1 and heads == math.floor(heads)):
        raise ValueError(f"heads is {heads}; allowed: whole numbers from 1")
    return math.pow(heads * d_k, -0.5)


def integer_sqrt(d_k: float, n_k: int) -> float:
    """Divide by ⌊√d_k⌋, the square root in integer arithmetic, which is right at square numbers.

    >>> integer_sqrt(8, 256)
    0.5
    """
    return 1.0 / math.isqrt(math.floor(d_k))


def stated(d_k: float, n_k: int) -> float:
    """Multiply by the scale that a trained model has, where its file states one.

    Only the experiment `tensors` reads files. Everywhere else, and for a file that states no
    scale, it is 1/√d_k, the default of PyTorch's attention.

    >>> stated(64, 256)
    0.125
    """
    return power(d_k, n_k, exponent=0.5)


def gap_counting(d_k: float, n_k: int) -> float:
    """Multiply by 1/√d_k, and beyond the length of training by what `core.gaps` counts.

    Only the experiment `extrapolation` has a length of training and counts gaps. Everywhere else
    it is 1/√d_k.

    >>> gap_counting(64, 256)
    0.125
    """
    return power(d_k, n_k, exponent=0.5)


quiet = np.errstate(over="ignore", invalid="ignore", divide="ignore")
"""Suppress warnings: non-finite values show in the result, and hidden pairs need none."""


@dataclass(frozen=True)
class QKNorm:
    """Cosine similarity of q and k times `scale` (Henry et al. 2020, whose scale is learned).

    The direction of a zero vector is undefined. Here it is zero, as in PyTorch's `normalize`:
    its scores give logits 0, and no gradient flows through them into q or k.

    Raises TypeError for a scale that is not a number, and ValueError for NaN and infinities.
    """

    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", check_number("scale", self.scale))

    @quiet
    def logits(self, scores: Floats, q: Floats, k: Floats, mask: Mask | None = None) -> Floats:
        """Return `scale` * q·k / (|q| |k|)."""
        of_q, of_k = self._norms(q, k)
        return self.scale * (scores / of_q / of_k)

    @quiet
    def backward(
        self, d_logits: Floats, scores: Floats, q: Floats, k: Floats, mask: Mask | None = None
    ) -> ScaleGradients:
        """Include the norms: d logits / d|q| = -logits/|q|, d|q| / dq = q/|q|; the same for k."""
        of_q, of_k = self._norms(q, k)
        flow = _visible(d_logits * self.logits(scores, q, k), mask)
        along_q = np.sum(flow, axis=-1)[..., :, np.newaxis]
        along_k = np.sum(flow, axis=-2)[..., :, np.newaxis]
        by_k = np.swapaxes(of_k, -1, -2)
        of_query, of_key = -along_q * (q / of_q / of_q), -along_k * (k / by_k / by_k)
        if mask is not None:
            visible = np.broadcast_to(mask, flow.shape)
            of_query = np.where(np.any(visible, axis=-1)[..., np.newaxis], of_query, 0.0)
            of_key = np.where(np.any(visible, axis=-2)[..., np.newaxis], of_key, 0.0)
        return ScaleGradients(
            scores=_visible(self.scale * (d_logits / of_q / of_k), mask), q=of_query, k=of_key
        )

    @quiet
    def mean_factor(self, q: Floats, k: Floats, mask: Mask | None = None) -> float:
        """Return the mean over pairs of `scale` / (|q| |k|)."""
        of_q, of_k = self._norms(q, k)
        return _mean(self.scale / of_q / of_k, mask)

    @staticmethod
    def _norms(q: Floats, k: Floats) -> tuple[Floats, Floats]:
        """Return the divisors |q| [..., n_q, 1] and |k| [..., 1, n_k]."""
        return _divisor(row_norms(q))[..., :, np.newaxis], _divisor(row_norms(k))[
            ..., np.newaxis, :
        ]


@dataclass(frozen=True)
class SoftCap:
    """Logits cap * tanh(factor * scores / cap), which stay within ±cap (Gemma 2, 2024).

    Raises TypeError for a factor or cap that is not a number, and ValueError for NaN, infinities
    and a cap of 0.
    """

    factor: float
    cap: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "factor", check_number("factor", self.factor))
        object.__setattr__(self, "cap", check_number("cap", self.cap))
        if self.cap == 0:
            raise ValueError("cap is 0.0; allowed: finite numbers other than 0")

    @quiet
    def logits(self, scores: Floats, q: Floats, k: Floats, mask: Mask | None = None) -> Floats:
        """Return capped logits; the mask is applied later, or a hidden key would have -cap."""
        capped: Floats = self.cap * np.tanh(scores * self.factor / self.cap)
        return capped

    @quiet
    def backward(
        self, d_logits: Floats, scores: Floats, q: Floats, k: Floats, mask: Mask | None = None
    ) -> ScaleGradients:
        """Multiply by the slope of tanh x, 1 - tanh² x = 4e / (1 + e)² with e = exp(-2|x|)."""
        # The second form keeps its digits where tanh rounds to 1.
        e = np.exp(-2.0 * np.abs(scores * self.factor / self.cap))
        return ScaleGradients(_visible(d_logits * (self.factor * 4.0 * e / (1.0 + e) ** 2), mask))

    @quiet
    def mean_factor(self, q: Floats, k: Floats, mask: Mask | None = None) -> float:
        """Return the factor before the cap, which is the slope at score 0."""
        return self.factor


@dataclass(frozen=True)
class KeyNormSum:
    """Scores divided by the sum of the norms of the keys that the query sees (Bernhard 2023).

    If that sum is 0, all scores, logits and gradients are 0. A single zero key has
    no gradient through its norm, which has a kink there.
    """

    @quiet
    def logits(self, scores: Floats, q: Floats, k: Floats, mask: Mask | None = None) -> Floats:
        """Return q·k_j / Σ|k|."""
        return scores / self._sum(k, mask)

    @quiet
    def backward(
        self, d_logits: Floats, scores: Floats, q: Floats, k: Floats, mask: Mask | None = None
    ) -> ScaleGradients:
        """Include the sum: d logits / d sum = -logits / sum, and d|k| / dk = k/|k|."""
        total = self._sum(k, mask)
        flow = _visible(d_logits * (scores / total), mask)
        d_total = -np.sum(flow, axis=-1, keepdims=True) / total
        d_norm = np.sum(d_total if mask is None else np.where(mask, d_total, 0.0), axis=-2)
        of_key = d_norm[..., np.newaxis] * (k / _divisor(row_norms(k))[..., np.newaxis])
        if mask is not None:
            seen = np.any(np.broadcast_to(mask, d_logits.shape), axis=-2)
            of_key = np.where(seen[..., np.newaxis], of_key, 0.0)
        return ScaleGradients(_visible(d_logits / total, mask), k=of_key)

    @quiet
    def mean_factor(self, q: Floats, k: Floats, mask: Mask | None = None) -> float:
        """Return the mean over pairs of 1 / Σ|k|; without a mask it is the same for all queries."""
        return _mean(1.0 / self._sum(k, mask), mask)

    @staticmethod
    def _sum(k: Floats, mask: Mask | None) -> Floats:
        """Return the divisor [..., 1 or n_q, 1]."""
        norms = row_norms(k)[..., np.newaxis, :]
        seen = norms if mask is None else np.where(mask, norms, 0.0)
        return _divisor(np.sum(seen, axis=-1, keepdims=True))


def qk_norm(d_k: float, n_k: int, *, scale: float) -> ScaleRule:
    """Apply `QKNorm` with a given scale, the largest possible logit."""
    return QKNorm(_positive("scale", scale))


def ngpt(d_k: float, n_k: int, *, s_qk: float = 1.0) -> ScaleRule:
    """Apply `QKNorm` with the scale s_qk² √d_k (Loshchilov et al. 2024, arXiv 2410.01131).

    There s_qk is a learned vector that starts at 1 and multiplies both q and k.
    """
    return QKNorm(_positive("s_qk", s_qk) ** 2 * math.sqrt(d_k))


def qk_clip(d_k: float, n_k: int, *, limit: float, exponent: float = 0.5) -> ScaleRule:
    """Apply `QKClip` to the factor d_k^-exponent."""
    factor = power(d_k, n_k, exponent=exponent)
    return QKClip(_positive("factor", factor), _positive("limit", limit))


def sink(d_k: float, n_k: int, *, logit: float, exponent: float = 0.5) -> ScaleRule:
    """Multiply by d_k^-exponent, with one more key of this logit and value 0 (`WithSink`)."""
    return WithSink(Factor(power(d_k, n_k, exponent=exponent)), logit)


def soft_cap(
    d_k: float, n_k: int, *, cap: float | None, exponent: float = 0.5
) -> float | ScaleRule:
    """Apply `SoftCap` to the factor d_k^-exponent; without a cap (None) use the factor only."""
    factor = power(d_k, n_k, exponent=exponent)
    return factor if cap is None else SoftCap(_positive("factor", factor), _positive("cap", cap))


def key_norm_sum(d_k: float, n_k: int) -> ScaleRule:
    """Apply `KeyNormSum`; logits of unrelated vectors have standard deviation about 1/n_k."""
    return KeyNormSum()


RULES: dict[str, Callable[..., float | ScaleRule]] = {
    "constant": constant,
    "power": power,
    "log_length": log_length,
    "yarn": yarn,
    "d_model": d_model,
    "integer_sqrt": integer_sqrt,
    "stated": stated,
    "gap_counting": gap_counting,
    "qk_norm": qk_norm,
    "ngpt": ngpt,
    "soft_cap": soft_cap,
    "qk_clip": qk_clip,
    "sink": sink,
    "key_norm_sum": key_norm_sum,
}
"""The formulas that an entry of `scale_rules` can name. Each takes d_k, n_k and the entry's
parameters by keyword, and raises ValueError for a parameter out of range."""


def rule(entry: Entry, *, d_k: float, n_k: int) -> ScaleRule:
    """Return the rule of one entry of `scale_rules`, such as `{"rule": "power", "exponent": 0.5}`.

    d_k may be any real number from 1. Raises TypeError for an entry, a size or a parameter of the
    wrong kind, and ValueError for an unknown rule or parameter and for one out of range.
    """
    name, parameters = check_entry(entry, "rule", RULES)
    check_number("d_k", d_k, least=1.0)
    check_whole("n_k", n_k, least=1)
    try:
        return as_rule(RULES[name](d_k, n_k, **parameters))
    except ArithmeticError:
        raise ValueError(f"{name} is beyond all numbers; allowed: a finite scale") from None


def factor(entry: Entry, *, d_k: float, n_k: int) -> float | None:
    """Return the number that an entry multiplies every score by, or None if it needs the arrays.

    The exact expectations of `theory` cover the entries with a number. Raises what `rule`
    raises.

    >>> factor({"rule": "power", "exponent": 0.5}, d_k=64, n_k=256)
    0.125
    >>> factor({"rule": "qk_norm", "scale": 8}, d_k=64, n_k=256) is None
    True
    """
    made = rule(entry, d_k=d_k, n_k=n_k)
    return made.value if isinstance(made, Factor) else None


def is_factor(entry: Entry) -> bool:
    """Return whether an entry multiplies every score by one number, at every size.

    >>> is_factor({"rule": "qk_norm", "scale": 8})
    False
    """
    try:
        return factor(entry, d_k=1, n_k=2) is not None
    except ValueError:
        # Out of range, which is reported where every rule is tried at every size. Rules that
        # use the arrays raise no error for a size.
        return True


def _positive(name: str, value: float) -> float:
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} is {value}; allowed: finite numbers above 0")
    return float(value)


def _divisor(norms: Floats) -> Floats:
    """Return norms to divide by: infinite where they are 0, so that the quotient is 0, not NaN."""
    return np.where(norms == 0.0, np.inf, norms)


def _visible(pairs: Floats, mask: Mask | None) -> Floats:
    """Return the pairs [..., n_q, n_k] with 0 where they are hidden."""
    return pairs if mask is None else np.where(mask, pairs, 0.0)


def _mean(factors: Floats, mask: Mask | None) -> float:
    """Return the mean of the factors [..., 1 or n_q, 1 or n_k] over the visible pairs."""
    if mask is None:
        return float(np.mean(factors, dtype=np.float64)) if factors.size else math.nan
    each, visible = np.broadcast_arrays(factors, mask)
    return float(np.mean(each, dtype=np.float64, where=visible)) if visible.any() else math.nan
