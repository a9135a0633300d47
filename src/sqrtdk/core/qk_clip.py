"""QK-clip: logits whose largest one is brought down to a limit, head by head."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sqrtdk.core.attention import ScaleGradients
from sqrtdk.core.checks import check_number
from sqrtdk.core.shapes import Floats, Mask


@dataclass(frozen=True)
class QKClip:
    """Scores times a factor, and times limit / (largest logit of the head) where that is below 1.

    Kimi K2 (2025, arXiv 2507.20534, limit 100) does so with the weights of q and k after a step of
    the optimizer. Here the same factor acts on the logits of all queries and keys that share it.
    No gradient flows through the maximum, because none does between two steps.

    Raises TypeError for a factor or limit that is not a number, and ValueError for NaN, infinities
    and a limit that is not above 0.
    """

    needs_all_queries: ClassVar[bool] = True

    factor: float
    limit: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "factor", check_number("factor", self.factor))
        object.__setattr__(self, "limit", check_number("limit", self.limit))
        if self.limit <= 0:
            raise ValueError(f"limit is {self.limit}; allowed: finite numbers above 0")

    def logits(self, scores: Floats, q: Floats, k: Floats, mask: Mask | None = None) -> Floats:
        """Return the clipped logits; the largest of the visible ones is at most the limit."""
        return scores * self._clipped(scores, mask)

    def backward(
        self, d_logits: Floats, scores: Floats, q: Floats, k: Floats, mask: Mask | None = None
    ) -> ScaleGradients:
        """Multiply by the clipped factor, which is held fixed."""
        return ScaleGradients(d_logits * self._clipped(scores, mask))

    def mean_factor(self, q: Floats, k: Floats, mask: Mask | None = None) -> float:
        """Return the clipped factor; its mean over heads where there are several."""
        with np.errstate(over="ignore", invalid="ignore"):
            scores = q @ np.swapaxes(k, -1, -2)
        return float(np.mean(self._clipped(scores, mask), dtype=np.float64))

    def _clipped(self, scores: Floats, mask: Mask | None) -> Floats:
        """Return the factor of each head, [..., 1, 1]."""
        visible = True if mask is None else mask
        largest = np.max(scores, axis=(-2, -1), keepdims=True, initial=-np.inf, where=visible)
        # A head whose largest score is infinite or NaN is not clipped, and shows it.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            share = np.where(
                self.factor * largest > self.limit, self.limit / (self.factor * largest), 1.0
            )
        share = np.where(np.isfinite(largest), share, 1.0)
        return (self.factor * share).astype(scores.dtype)
