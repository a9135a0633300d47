"""Compute what all scale rules share of a block of queries: products, shifts and Gram matrices."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sqrtdk.core import kernel_steps as steps
from sqrtdk.core.kernel_steps import Buffers, chunks, product
from sqrtdk.core.shapes import Bool, Float, Floats, Int, Mask


class Shift(NamedTuple):
    """Logits up to a factor and dL/d weights, [cells, rows, n_k], shifted for the softmax.

    `logits` has the row's maximum subtracted and is 0 where hidden. `d_weights` has its value at
    that maximum subtracted. `top` [cells, rows] is the index of the maximum from the beginning of
    the strip, `peaks` are the maxima, and `largest` [cells] is the largest magnitude of a peak.
    `d_peaks` are dL/d weights at the maxima.
    """

    logits: Float[Floats, "cells rows n_k"]
    d_weights: Float[Floats, "cells rows n_k"]
    top: Int[NDArray[np.intp], "cells rows"]
    peaks: Float[Floats, "cells rows"]
    d_peaks: Float[Floats, "cells rows"]
    largest: Float[Floats, "cells"]
    variance: Float[Floats, "cells rows"]


class Block:
    """A block of queries of every cell: what all scale rules share."""

    def __init__(
        self,
        buffers: Buffers,
        q: Float[Floats, "cells rows d_k"],
        k: Float[Floats, "cells n_k d_k"],
        v: Float[Floats, "cells n_k d_v"],
        g: Float[Floats, "cells rows d_v"],
        visible: Bool[Mask, "cells rows n_k"] | None,
        *,
        alike: bool,
    ) -> None:
        """Compute the products. If all rules are factors (`alike`), no bare scores are kept."""
        self.buffers, self.q, self.k, self.g = buffers, q, k, g
        self.visible = visible
        self.shape = (*q.shape[:2], k.shape[1])
        self.n_visible = None if visible is None else np.count_nonzero(visible, axis=-1)
        self.scores = product(q, k, self.buffer("scores"))
        self._d_weights = product(g, v, self.buffer("d_weights"))
        self._alike = alike
        self._plain: Shift | None = None
        self._grams: dict[str, Floats] = {}

    def buffer(self, name: str) -> Float[Floats, "cells rows n_k"]:
        """Return an array of one value for each pair of query and key."""
        return self.buffers.get(name, self.shape, self.q.dtype)

    def gram(self, x: str, y: Float[Floats, "cells n d"]) -> Float[Floats, "cells n n"]:
        """Return the products of the rows of y [cells, n, d] with each other, [cells, n, n]."""
        if x not in self._grams:
            shape = (*y.shape[:2], y.shape[1])
            self._grams[x] = product(y, y, self.buffers.get(f"gram {x}", shape, y.dtype))
        return self._grams[x]

    def strips(self) -> Iterator[tuple[slice, slice]]:
        """Yield slices of cells and rows to process together: whole cells, or rows of one cell."""
        cells, rows, n_k = self.shape
        deep = max(1, steps.STRIP_ENTRIES // (rows * n_k))
        high = rows if rows * n_k <= steps.STRIP_ENTRIES else max(1, steps.STRIP_ENTRIES // n_k)
        for cell in range(0, cells, deep):
            for row in range(0, rows, high):
                yield slice(cell, cell + deep), slice(row, row + high)

    def plain(self) -> Shift:
        """Return the shifted scores, which serve every rule that is a single factor above 0."""
        if self._plain is None:
            logits, d_weights = (
                (self.scores, self._d_weights)
                if self._alike
                else (self.buffer("plain logits"), self.buffer("plain d_weights"))
            )
            self._plain = self._shift(self.scores, logits, d_weights)
        return self._plain

    def of(self, logits: Float[Floats, "cells rows n_k"]) -> Shift:
        """Return the shifted logits of a rule that uses q and k."""
        return self._shift(logits, self.buffer("own logits"), self.buffer("own d_weights"))

    def _shift(
        self,
        logits: Float[Floats, "cells rows n_k"],
        shifted: Float[Floats, "cells rows n_k"],
        d_weights: Float[Floats, "cells rows n_k"],
    ) -> Shift:
        """Subtract from logits and dL/d weights their values at the row's maximum."""
        cells, rows, n_k = self.shape
        dtype = self.q.dtype
        top = np.empty((cells, rows), np.intp)
        total, square = np.empty((2, cells, rows), dtype)
        peaks, d_peaks = np.empty((2, cells, rows), dtype)
        ones = np.ones(n_k, dtype)
        for strip in self.strips():
            t, d, raw, at = shifted[strip], d_weights[strip], logits[strip], top[strip]
            if self.visible is not None:
                raw = np.where(self.visible[strip], raw, -np.inf)
            # Where each row has its maximum, as an index into the whole strip.
            np.argmax(raw, axis=-1, out=at)
            at += np.arange(0, raw.size, n_k).reshape(at.shape)
            peak = raw.reshape(-1)[at]
            if self.visible is not None:
                # A row without visible keys has no peak; its entries count as hidden below.
                peak = np.where(peak == -np.inf, 0.0, peak)
            # The logits less their maximum, and 0 where hidden.
            np.subtract(raw, peak[..., np.newaxis], out=t)
            if self.visible is not None:
                np.copyto(t, 0.0, where=~self.visible[strip])
            peaks[strip] = peak
            # dL/d weights less their value there: a common shift does not change the gradient.
            raw = self._d_weights[strip]
            d_peaks[strip] = raw.reshape(-1)[at]
            np.subtract(raw, d_peaks[strip][..., np.newaxis], out=d)
            # Sums for the variance of the logits.
            np.vecdot(t, ones, out=total[strip])
            np.vecdot(t, t, out=square[strip])
        variance = self._variance(shifted, total, square)
        largest = np.maximum(np.max(peaks, axis=-1), -np.min(peaks, axis=-1))
        return Shift(shifted, d_weights, top, peaks, d_peaks, largest, variance)

    def _variance(
        self,
        t: Float[Floats, "cells rows n_k"],
        total: Float[Floats, "cells rows"],
        square: Float[Floats, "cells rows"],
    ) -> Float[Floats, "cells rows"]:
        """Return the unbiased variance of each row over its visible keys; 0 for fewer than two."""
        # Stay in the dtype of the logits, even if the number is the same for all rows.
        n = np.maximum(self.shape[2] if self.n_visible is None else self.n_visible, 1)
        n = n.astype(t.dtype)
        mean = total / n
        spread = square - total * mean
        # A mean that is large compared to the spread costs digits: use the deviations there.
        for index in chunks(spread <= square / 64, t.shape[-1]):
            deviation = t[index] - mean[index][..., np.newaxis]
            if self.visible is not None:
                deviation = np.where(self.visible[index], deviation, 0.0)
            spread[index] = np.vecdot(deviation, deviation)
        return np.where(n > 1.0, spread / np.maximum(n - 1.0, 1.0), 0.0)
