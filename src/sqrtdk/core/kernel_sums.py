"""Measure one scale rule block by block: row metrics, gradients and their norms."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sqrtdk.core import definitions, metrics
from sqrtdk.core.attention import Factor, ScaleRule, sink_of, without_sink
from sqrtdk.core.kernel_block import Block, Shift
from sqrtdk.core.kernel_hidden import Part
from sqrtdk.core.kernel_steps import chunks, count_true, row_major, safe_norms
from sqrtdk.core.metrics import RowMetrics
from sqrtdk.core.shapes import Bool, Float, Floats, Mask

PAIRWISE = 256
"""Number of keys from which NumPy's pairwise sum is as fast as a dot product with ones. It also
rounds less."""

CANCELLED = {np.dtype(t): share for t, share in ((float, 1e-3), (np.float32, 0.1), ("g", 1e-3))}
"""Recompute a squared norm directly if its Gram form is below this share of its upper bound:
cancellation would cost more than about 1e-12 relative accuracy (1e-5 in single precision). The
rounding error is about eps √d of the bound. For unrelated vectors most squares are about half of
their bound."""


@dataclass(frozen=True)
class Measured:
    """The measurements of one scale rule on a batch of cells.

    scale         mean factor on the scores of visible pairs, [cells]
    logit_std     as `metrics.logit_std`, [cells]
    rows          as `metrics.row_metrics`, each [cells, n_q]
    norms         row norms of the gradients: `logits`, `scores`, `q` [cells, n_q]; `k`, `v`
                  [cells, n_k]
    dead_entries  share of the visible entries of the gradient with respect to the logits that are
                  below `dead_below` in magnitude, [cells]
    """

    scale: Float[Floats, "cells"]
    logit_std: Float[Floats, "cells"]
    rows: RowMetrics
    norms: dict[str, Float[Floats, "cells _"]]
    dead_entries: Float[Floats, "cells"]

    def replace(
        self,
        cell: int,
        defined: definitions.Cell,
        queries: Bool[Mask, "n_q"],
        keys: Bool[Mask, "n_k"],
    ) -> None:
        """Replace the sums over one cell, and the rows of these queries [n_q] and keys [n_k]."""
        self.scale[cell] = defined.scale
        self.logit_std[cell] = defined.logit_std
        self.dead_entries[cell] = defined.dead_entries
        for mine, others in zip(self.rows, defined.rows, strict=True):
            mine[cell, queries] = others[queries]
        for x, norms in self.norms.items():
            of = keys if x in ("k", "v") else queries
            norms[cell, of] = defined.norms[x][of]


class RuleSums:
    """The accumulated measurements of one scale rule, block by block."""

    def __init__(
        self, rule: ScaleRule, q: Floats, k: Floats, *, whole: bool, grams: Mapping[str, bool]
    ) -> None:
        n_cells, n_q, n_k = *q.shape[:2], k.shape[1]
        dtype = q.dtype
        self.rule = rule
        plain = without_sink(rule)
        self.factor = plain.value if isinstance(plain, Factor) and plain.value > 0 else None
        self.sink = sink_of(rule)
        # The Gram matrix for the norms of the keys' gradients needs all queries at once.
        self.whole = whole
        self.gram = {x: whole and serves for x, serves in grams.items()}
        self.rows = RowMetrics(*np.empty((len(RowMetrics._fields), n_cells, n_q), dtype))
        self.norms = {
            x: np.empty((n_cells, n_k if x in ("k", "v") else n_q), dtype)
            for x in ("logits", "scores", "q", "k", "v")
        }
        self.sums: dict[str, Floats] = {}
        self.variance = np.zeros(n_cells, np.result_type(dtype, np.float64))
        self.scale = np.zeros(n_cells)
        self.counted, self.seen, self.dead = np.zeros((3, n_cells), np.intp)
        # `left` marks queries for the definitions, including those of a cell without keys. `sound`
        # marks cells whose sums are right: without a pair there is nothing to add up.
        self.left = np.full((n_cells, n_q), n_k == 0)
        self.sound = np.full(n_cells, n_q * n_k > 0)

    def add(self, block: Block, queries: slice, dead_below: float) -> None:
        """Measure a block of queries."""
        # From the scores to the logits, less the maximum of each row.
        rule, factor = self.rule, self.factor
        if factor is not None:
            shift = block.plain()
        else:
            logits = rule.logits(block.scores, block.q, block.k, block.visible)
            shift = block.of(logits)
        # Softmax and its gradient, and with them all statistics of rows.
        weights, d_logits = block.buffer("weights"), block.buffer("d_logits")
        norms = self._softmax(block, shift, factor or 1.0, weights, d_logits, queries, dead_below)
        if not np.isfinite(shift.largest * (factor or 1.0)).all():
            self.left[:, queries] = ~np.isfinite(shift.peaks * (factor or 1.0))
        self._pool(block, shift.variance * ((factor or 1.0) * (factor or 1.0)))
        self.norms["logits"][:, queries] = norms
        # From the logits back to the scores. The gradient of a plain factor is that factor, which
        # multiplies the norms at the end and not the arrays.
        q_extra = k_extra = None
        if factor is not None:
            d_scores = d_logits
            self.norms["scores"][:, queries] = norms * factor
        else:
            d_scores, q_extra, k_extra = rule.backward(
                d_logits, block.scores, block.q, block.k, block.visible
            )
            self.norms["scores"][:, queries] = metrics.row_norms(d_scores)
        # The gradient of a query is a row of one block. Those of keys and values are sums over all
        # queries, so their norms wait for the last block.
        of_q = self._norms("q", block, d_scores, block.k, q_extra)
        self.norms["q"][:, queries] = of_q * (factor or 1.0)
        for x, left, right, extra in (
            ("k", d_scores, block.q, k_extra),
            ("v", weights, block.g, None),
        ):
            transposed = np.swapaxes(left, -1, -2)
            if self.whole:
                self.norms[x][:] = self._norms(x, block, transposed, right, extra)
            else:
                part = block.buffers.get(
                    "gradient", (*transposed.shape[:2], right.shape[2]), right.dtype
                )
                np.matmul(transposed, right, out=part)
                if extra is not None:
                    part += extra
                if x in self.sums:
                    self.sums[x] += part
                else:
                    self.sums[x] = part.copy()

    def result(self) -> Measured:
        """Return the result after the last block."""
        # The norms that had to wait for all queries.
        for x, total in self.sums.items():
            self.norms[x][:] = metrics.row_norms(total)
        if self.factor is not None:
            self.norms["k"] *= self.factor
        dtype = self.norms["q"].dtype
        # The pooled standard deviation of the logits. The mean of no rows is NaN.
        std = np.sqrt(np.where(self.counted > 0, self.variance, np.nan) / self.counted)
        scale = self.scale / self.seen
        # Squares that over- or underflow are left to the definition, which does not need them.
        limits = np.finfo(dtype)
        safe = (self.variance >= limits.tiny / limits.eps * self.counted) & (self.variance < np.inf)
        self.sound &= (safe | (self.counted == 0)) & (self.seen > 0)
        return Measured(
            scale=np.full_like(scale, self.factor) if self.factor is not None else scale,
            logit_std=std.astype(dtype),
            rows=self.rows,
            norms=self.norms,
            dead_entries=(self.dead / self.seen).astype(dtype),
        )

    def undone(self, part: Part) -> tuple[Bool[Mask, "cells n_q"], Bool[Mask, "cells n_k"]]:
        """Return which queries [cells, n_q] and keys [cells, n_k] are left to the definitions."""
        finite = np.isfinite(self.rows.entropy_nats)
        for x in ("logits", "scores", "q"):
            finite &= np.isfinite(self.norms[x])
        queries = part.queries | self.left | ~(finite | part.blind)
        keys = part.keys | ~(np.isfinite(self.norms["k"]) & np.isfinite(self.norms["v"]))
        if self.left.any():
            keys |= part.keys_of(self.left)
        return queries, keys | (self.left.shape[1] == 0)

    def _pool(self, block: Block, variance: Float[Floats, "cells rows"]) -> None:
        self.variance += np.sum(variance, axis=-1, dtype=self.variance.dtype)
        n_cells, n_rows, n_k = block.shape
        n_visible = block.n_visible
        self.counted += (
            n_rows * (n_k > 1) if n_visible is None else np.count_nonzero(n_visible > 1, axis=-1)
        )
        pairs = np.full(n_cells, n_rows * n_k) if n_visible is None else np.sum(n_visible, axis=-1)
        self.seen += pairs
        if self.factor is None:
            for cell in np.flatnonzero(pairs):
                visible = None if block.visible is None else block.visible[cell]
                mean = self.rule.mean_factor(block.q[cell], block.k[cell], visible)
                self.scale[cell] += mean * int(pairs[cell])

    def _softmax(
        self,
        block: Block,
        shift: Shift,
        factor: float,
        weights: Float[Floats, "cells rows n_k"],
        d_logits: Float[Floats, "cells rows n_k"],
        queries: slice,
        dead_below: float,
    ) -> Float[Floats, "cells rows"]:
        """Compute row metrics, weights, and the gradient of the logits with its row norms."""
        cells, rows, n_k = block.shape
        dtype = weights.dtype
        # Sums over the keys other than the largest, with e the exponentials of their logits t, and
        # d their dL/d weights: e, e t, e², e³ and e d.
        r, u, s2, s3, ed, norm = np.empty((6, cells, rows), dtype)
        sink = np.zeros((cells, rows), dtype)
        ones = np.ones(n_k, dtype)
        for strip in block.strips():
            t, d, e = shift.logits[strip], shift.d_weights[strip], weights[strip]
            work, scaled = (block.buffers.get(x, t.shape, dtype) for x in ("work", "scaled"))
            # The exponentials, 0 where hidden.
            if factor != 1.0:
                t = np.multiply(t, factor, out=scaled)
            np.exp(t, out=e)
            if block.visible is not None:
                np.copyto(e, 0.0, where=~block.visible[strip])
            # Sums without the largest key, whose term is exactly 1: what is small keeps its digits.
            flat = e.reshape(-1)
            at = shift.top[strip]
            flat[at] = 0.0
            if n_k >= PAIRWISE:
                np.add.reduce(e, axis=-1, out=r[strip])
            else:
                np.vecdot(e, ones, out=r[strip])
            np.vecdot(e, t, out=u[strip])
            np.vecdot(e, e, out=s2[strip])
            np.multiply(e, e, out=work)
            np.vecdot(work, e, out=s3[strip])
            np.vecdot(e, d, out=ed[strip])
            if self.sink is not None:
                # One more key, with value 0.
                below = (self.sink - factor * shift.peaks[strip]).astype(dtype, copy=False)
                one = sink[strip] = np.exp(below)
                for total, part in ((r, one), (u, one * below), (s2, one**2), (s3, one**3)):
                    total[strip] += part
                ed[strip] -= one * shift.d_peaks[strip]
            flat[at] = 1.0 if block.n_visible is None else block.n_visible[strip] > 0
            # With all sums known: the weights, in place of the exponentials.
            p_max = 1.0 / (1.0 + r[strip])
            np.multiply(e, p_max[..., np.newaxis], out=e)
            # p (d - <p, d>), the gradient of the logits.
            slope = d_logits[strip]
            np.subtract(d, (ed[strip] * p_max)[..., np.newaxis], out=slope)
            np.multiply(slope, e, out=slope)
            np.vecdot(slope, slope, out=norm[strip])
            if dead_below > 0.0:
                np.abs(slope, out=work)
                dead = np.less(work, dead_below)
                if block.visible is not None:
                    dead &= block.visible[strip]
                self.dead[strip[0]] += count_true(dead)
        self._finish(block, shift, factor, queries, (r, u, s2, s3), sink)
        return safe_norms(norm, lambda index: d_logits[index], n_k)

    def _finish(
        self,
        block: Block,
        shift: Shift,
        factor: float,
        queries: slice,
        sums: tuple[
            Float[Floats, "cells rows"],
            Float[Floats, "cells rows"],
            Float[Floats, "cells rows"],
            Float[Floats, "cells rows"],
        ],
        sink: Float[Floats, "cells rows"],
    ) -> None:
        """Compute row metrics from sums over the keys other than the largest.

        `sink` is the part of the first sum that a sink adds, which counts as one more key.
        """
        r, u, s2, s3 = sums
        z = 1.0 + r
        gap = r / z
        below_max = -u / z
        entropy = np.log1p(r) + below_max
        # ‖diag(p) - ppᵀ‖² = Σp² - 2Σp³ + (Σp²)² of p = (1, e)/z, written without cancellation.
        a = s2 / (z * z)
        jacobian_sq = (gap * gap + 2.0 * a) / (z * z) + a * a + (s2 - 2.0 * s3 / z) / (z * z)
        # ln n_k, the largest entropy; without a mask it is the same number for all rows.
        extra = int(self.sink is not None)
        n_visible, n_k = block.n_visible, block.shape[2] + extra
        if n_visible is None:
            log_one = np.log(r.dtype.type(n_k)) if r.dtype == np.longdouble else math.log(n_k)
            normalized = entropy / log_one if n_k > 1 else np.full_like(entropy, np.nan)
        else:
            count = np.maximum(n_visible + extra, 2).astype(np.result_type(r.dtype, np.float64))
            log_n = np.log(count).astype(r.dtype)
            normalized = np.where(n_visible + extra > 1, entropy / log_n, np.nan)
        found = RowMetrics(
            entropy_nats=entropy,
            entropy_normalized=normalized,
            effective_keys=z * np.exp(below_max),
            sum_sq_weights=1.0 / (z * z) + a,
            max_weight=1.0 / z,
            max_weight_gap=gap,
            jacobian_norm=np.sqrt(jacobian_sq),
        )
        limits = np.finfo(r.dtype)
        for name, values in zip(found._fields, found, strict=True):
            if n_visible is not None:
                values[n_visible == 0] = np.nan
            getattr(self.rows, name)[:, queries] = values
        # The squares of these rows underflow. The definition avoids the squares.
        # Those of rows whose sink outweighs the largest key would cancel.
        wrong = ((s2 < limits.tiny / limits.eps) & (r > 0.0)) | (sink > 1.0)
        for index in chunks(wrong, block.shape[2]):
            again = self._defined(block, shift, factor, index)
            for name, values in zip(again._fields, again, strict=True):
                getattr(self.rows, name)[:, queries][index] = values

    def _defined(
        self, block: Block, shift: Shift, factor: float, index: tuple[NDArray[np.intp], ...]
    ) -> RowMetrics:
        """Return the metrics of some rows from their definition."""
        logits = shift.logits[index] * factor
        if block.visible is not None:
            logits = np.where(block.visible[index], logits, -np.inf)
        if self.sink is None:
            return metrics.row_metrics(logits)
        # The logits are without their maximum, so the sink has to be, too.
        below = self.sink - factor * shift.peaks[index]
        return definitions.metrics_of_rows(logits, below[..., np.newaxis])

    def _norms(
        self,
        x: str,
        block: Block,
        left: Float[Floats, "cells rows n"],
        right: Float[Floats, "cells n d"],
        extra: Float[Floats, "cells rows d"] | None,
    ) -> Float[Floats, "cells rows"]:
        """Return the norms [cells, rows] of the rows of left right + extra."""
        buffers = block.buffers
        # Form the product, where that is cheaper or a rule adds to it.
        shape, dtype = left.shape, right.dtype
        if extra is not None or not self.gram.get(x):
            product = buffers.get("gradient", (*shape[:2], right.shape[2]), dtype)
            np.matmul(left, right, out=product)
            if extra is not None:
                product += extra
            return metrics.row_norms(product)
        # Else |left right|² of a row is left (right rightᵀ) leftᵀ.
        gram = block.gram(x, right)
        work = buffers.get("work gram", row_major(left).shape, dtype)
        # Multiply the transpose of a row-major array as it is stored, from the other side.
        if left.flags.c_contiguous:
            np.matmul(left, gram, out=work)
            square = np.vecdot(work, left)
            own = np.vecdot(left, left)
        else:
            stored = row_major(left)
            np.matmul(gram, stored, out=work)
            np.multiply(work, stored, out=work)
            square = np.sum(work, axis=-2)
            np.multiply(stored, stored, out=work)
            own = np.sum(work, axis=-2)
        # Where the terms have cancelled, form these rows after all.
        squares = np.diagonal(gram, axis1=-2, axis2=-1)[:, np.newaxis]
        if block.visible is not None:
            # Whether digits were lost must not depend on a vector that the row does not see.
            visible = block.visible if x == "q" else np.swapaxes(block.visible, -1, -2)
            squares = np.where(visible, squares, 0.0)
        bound = own * np.max(squares, axis=-1)

        def directly(index: tuple[NDArray[np.intp], ...]) -> Floats:
            found = np.empty((len(index[0]), right.shape[2]), dtype)
            for cell in np.unique(index[0]):
                here = index[0] == cell
                found[here] = left[cell, index[1][here]] @ right[cell]
            return found

        return safe_norms(
            np.where(square > CANCELLED[dtype] * bound, square, 0.0), directly, right.shape[2]
        )
