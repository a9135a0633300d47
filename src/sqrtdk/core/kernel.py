"""Compute the quantities of `attention`, `gradients` and `metrics` for batches of cells, fast.

Several scale rules share one draw: its scores q kᵀ, g vᵀ, and the argmax and shift of each row.
Arrays of n_q × n_k exist for one block of queries at a time, in buffers that are reused, so the
memory is O(block n_k + n (d_k + d_v)). The readable formulas define every result. The bits of a
cell depend neither on its batch nor on the other rules, because every choice made here follows
from the cell's own shape and numbers.

Types, shapes, masks and undefined results are as in `attention` and `metrics`: a hidden key has no
influence on any result, whatever it holds, and nothing gives a warning. Rows that meet NaN or an
infinity, and cells without a pair of query and key, are measured by `definitions`.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sqrtdk.core import definitions, metrics
from sqrtdk.core.attention import Factor, Floats, Mask, ScaleRule, as_rule
from sqrtdk.core.checks import as_floats, check_mask, check_number, check_shapes
from sqrtdk.core.metrics import RowMetrics

BATCH_ENTRIES, BATCH_VALUES = 2**17, 2**20
"""Limits of a batch of small cells: its scores, and its numbers in q, k, v and g. A batch of this
size does enough work per call to outweigh the cost of the call."""

BLOCK_ENTRIES, BLOCK_ROWS = 2**17, 128
"""Limits of a block of one cell: scores that are kept at once, so that they stay in the
processor's cache, and at least this many queries, because sums over more blocks and narrower
matrix products would cost more than the cache saves."""

WHOLE_ENTRIES = 2**20
"""Largest number of scores of a cell that are kept at once if that allows Gram matrices, or if
the vectors are long."""

STRIP_ENTRIES = 2**15
"""Scores that all element-wise steps process before the next ones, so that their arrays stay in
a core's cache."""

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

    scale: Floats
    logit_std: Floats
    rows: RowMetrics
    norms: dict[str, Floats]
    dead_entries: Floats

    def replace(self, cell: int, defined: definitions.Cell, queries: Mask, keys: Mask) -> None:
        """Replace the sums over one cell, and the rows of these queries [n_q] and keys [n_k]."""
        self.scale[cell] = defined.scale
        self.logit_std[cell] = defined.logit_std
        self.dead_entries[cell] = defined.dead_entries
        for mine, others in zip(self.rows, defined.rows, strict=True):
            mine[cell, queries] = others[queries]
        for x, norms in self.norms.items():
            of = keys if x in ("k", "v") else queries
            norms[cell, of] = defined.norms[x][of]


def batch_size(n_q: int, n_k: int, d_k: int, d_v: int) -> int:
    """Return how many cells to compute together: several only if they are small.

    >>> batch_size(16, 16, 4, 4), batch_size(16, 16, 4096, 64), batch_size(1024, 1024, 64, 64)
    (512, 7, 1)
    """
    vectors = (n_q + n_k) * (d_k + d_v)
    return max(1, min(BATCH_ENTRIES // max(n_q * n_k, 1), BATCH_VALUES // max(vectors, 1)))


def block_rows(n_q: int, n_k: int, d: int, *, whole: bool) -> int:
    """Return the number of queries whose scores are kept at once; `whole` requests all of them.

    Larger vectors get larger blocks, because the gradients of k and v are summed over the blocks,
    and that costs as much for few queries as for many.

    >>> block_rows(1024, 1024, 16, whole=False), block_rows(1024, 1024, 16, whole=True)
    (128, 1024)
    >>> block_rows(1024, 1024, 512, whole=False), block_rows(65536, 65536, 512, whole=True)
    (512, 128)
    """
    if whole and n_q * n_k <= WHOLE_ENTRIES:
        return n_q
    n = max(n_k, 1)
    return min(n_q, max(BLOCK_ROWS, BLOCK_ENTRIES // n, min(d, WHOLE_ENTRIES // n)))


def prefer_gram(n_rows: int, n_summed: int, d: int) -> bool:
    """Return whether y yᵀ is the cheaper way to the row norms of x y, x [n_rows, n_summed].

    The multiplications are counted for two scale rules that share y yᵀ, whatever the number of
    rules is, so that the digits of a rule do not depend on the other ones.

    >>> prefer_gram(64, 64, 127), prefer_gram(64, 64, 128)
    (False, True)
    """
    return n_summed * d + 2 * n_rows * n_summed <= 2 * n_rows * d


def gram_norms(n_q: int, n_k: int, d_k: int, d_v: int) -> dict[str, bool]:
    """Return whether to use a Gram matrix for the gradient norms of q, k and v."""
    return {
        "q": prefer_gram(n_q, n_k, d_k),
        "k": prefer_gram(n_k, n_q, d_k),
        "v": prefer_gram(n_k, n_q, d_v),
    }


class Kernel:
    """Measure batches of cells, in buffers that are reused from call to call."""

    def __init__(self, *, gram: bool = True) -> None:
        """Set up empty buffers. Without `gram`, every gradient is formed, for comparison."""
        self._gram = gram
        self._buffers: dict[tuple[str, np.dtype], NDArray[Any]] = {}

    def measure(
        self,
        q: Floats,
        k: Floats,
        v: Floats,
        g: Floats,
        rules: Iterable[float | ScaleRule],
        *,
        mask: Mask | None = None,
        dead_below: float = 0.0,
    ) -> list[Measured]:
        """Return one result for each rule.

        Shapes: q [cells, n_q, d_k], k [cells, n_k, d_k], v [cells, n_k, d_v], g = dL/d output
        [cells, n_q, d_v]; the mask (True is visible) broadcasts to [cells, n_q, n_k]. Raises
        TypeError for arrays of other types, a mask that is not boolean, and a rule that is neither
        a number nor a `ScaleRule`; ValueError for shapes that do not fit and numbers that are not
        finite.
        """
        q, k, v, g = as_floats(q=q, k=k, v=v, g=g)
        check_shapes(
            q=(q, "cells n_q d_k"),
            k=(k, "cells n_k d_k"),
            v=(v, "cells n_k d_v"),
            g=(g, "cells n_q d_v"),
        )
        known = [as_rule(rule) for rule in rules]
        dead_below = check_number("dead_below", dead_below)
        pairs = (*q.shape[:2], k.shape[1])
        if mask is not None:
            mask = np.broadcast_to(check_mask(mask, pairs), pairs)
        # Non-finite values show in the result, and hidden pairs need no warning.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return self._measure(q, k, v, g, known, mask, dead_below)

    def _measure(
        self,
        q: Floats,
        k: Floats,
        v: Floats,
        g: Floats,
        rules: list[ScaleRule],
        mask: Mask | None,
        dead_below: float,
    ) -> list[Measured]:
        n_q, n_k, d_k, d_v = q.shape[1], k.shape[1], q.shape[2], v.shape[2]
        part = _Part.of(mask, q, k, v, g)
        grams = gram_norms(n_q, n_k, d_k, d_v) if self._gram else {}
        step = block_rows(n_q, n_k, max(d_k, d_v), whole=any(grams.values()))
        arms = [_RuleSums(rule, q, k, whole=step == n_q, grams=grams) for rule in rules]
        visible: Mask | None
        for start in range(0, n_q if n_k else 0, max(step, 1)):
            queries = slice(start, min(start + step, n_q))
            visible = None if mask is None else np.ascontiguousarray(mask[:, queries])
            alike = all(arm.factor is not None for arm in arms)
            block = _Block(
                self, part.q[:, queries], part.k, part.v, part.g[:, queries], visible, alike=alike
            )
            for arm in arms:
                arm.add(block, queries, dead_below)
        results = []
        for arm in arms:
            result = arm.result()
            of_q, of_k = arm.undone(part)
            for cell in np.flatnonzero(of_q.any(axis=-1) | of_k.any(axis=-1) | ~arm.sound).tolist():
                defined = definitions.measure_cell(
                    q[cell],
                    k[cell],
                    v[cell],
                    g[cell],
                    arm.rule,
                    None if mask is None else mask[cell],
                    dead_below=dead_below,
                    block=max(step, 1),
                )
                result.replace(cell, defined, of_q[cell], of_k[cell])
            results.append(result)
        return results

    def buffer(self, name: str, shape: tuple[int, ...], dtype: np.dtype) -> NDArray[Any]:
        """Return an array of undefined content; the next one of the same name reuses its memory."""
        size = math.prod(shape)
        kept = self._buffers.get((name, dtype))
        if kept is None or kept.size < size:
            kept = self._buffers[name, dtype] = np.empty(size, dtype)
        return kept[:size].reshape(shape)


class _Part(NamedTuple):
    """The arrays of a batch, with 0 in the rows that the fast path must leave out.

    These rows are keys that no query sees, queries that see no key, and rows whose squared length
    is not finite, which a product with 0 would pass on. `queries` [cells, n_q] and `keys`
    [cells, n_k] mark the rows whose results these zeros change. `blind` [cells, n_q] marks the
    queries that see no key.
    """

    q: Floats
    k: Floats
    v: Floats
    g: Floats
    queries: Mask
    keys: Mask
    blind: Mask
    mask: Mask | None

    def keys_of(self, queries: Mask) -> Mask:
        """Return the keys [cells, n_k] that any of these queries [cells, n_q] sees."""
        if self.mask is None:
            return np.broadcast_to(np.any(queries, axis=-1)[:, np.newaxis], self.keys.shape)
        return np.asarray(np.any(self.mask & queries[..., np.newaxis], axis=-2))

    @classmethod
    def of(cls, mask: Mask | None, q: Floats, k: Floats, v: Floats, g: Floats) -> "_Part":
        """Return the parts; without a mask all rows count, and NaN shows in the results."""
        queries: Mask = np.zeros(q.shape[:2], np.bool_)
        keys: Mask = np.zeros(k.shape[:2], np.bool_)
        if mask is None:
            return cls(q, k, v, g, queries, keys, blind=queries, mask=mask)
        sees: Mask = np.any(mask, axis=-1)
        seen: Mask = np.any(mask, axis=-2)
        finite_q, finite_k = (
            np.isfinite(np.vecdot(x, x)) & np.isfinite(np.vecdot(y, y)) for x, y in ((q, g), (k, v))
        )
        if not (finite_q | ~sees).all() or not (finite_k | ~seen).all():
            queries = np.logical_or(sees & ~finite_q, np.any(mask & ~finite_k[:, None], axis=-1))
            keys = np.logical_or(seen & ~finite_k, np.any(mask & queries[..., None], axis=-2))
        q, g = _zero_unless(finite_q & sees, q, g)
        k, v = _zero_unless(finite_k & seen, k, v)
        return cls(q, k, v, g, queries, keys, blind=~sees, mask=mask)


def _zero_unless(kept: Mask, x: Floats, y: Floats) -> tuple[Floats, Floats]:
    if kept.all():
        return x, y
    return np.where(kept[..., np.newaxis], x, 0.0), np.where(kept[..., np.newaxis], y, 0.0)


class _Shift(NamedTuple):
    """Logits up to a factor and dL/d weights, [cells, rows, n_k], shifted for the softmax.

    `logits` has the row's maximum subtracted and is 0 where hidden. `d_weights` has its value at
    that maximum subtracted. `top` [cells, rows] is the index of the maximum from the beginning of
    the strip, `peaks` are the maxima, and `largest` [cells] is the largest magnitude of a peak.
    """

    logits: Floats
    d_weights: Floats
    top: NDArray[np.intp]
    peaks: Floats
    largest: Floats
    variance: Floats


class _Block:
    """A block of queries of every cell: what all scale rules share."""

    def __init__(
        self,
        kernel: Kernel,
        q: Floats,
        k: Floats,
        v: Floats,
        g: Floats,
        visible: Mask | None,
        *,
        alike: bool,
    ) -> None:
        """Compute the products. If all rules are factors (`alike`), no bare scores are kept."""
        self.kernel, self.q, self.k, self.g = kernel, q, k, g
        self.visible = visible
        self.shape = (*q.shape[:2], k.shape[1])
        self.n_visible = None if visible is None else np.count_nonzero(visible, axis=-1)
        self.scores = _product(q, k, self.buffer("scores"))
        self._d_weights = _product(g, v, self.buffer("d_weights"))
        self._alike = alike
        self._plain: _Shift | None = None
        self._grams: dict[str, Floats] = {}

    def buffer(self, name: str) -> Floats:
        """Return an array of one value for each pair of query and key."""
        return self.kernel.buffer(name, self.shape, self.q.dtype)

    def gram(self, x: str, y: Floats) -> Floats:
        """Return the products of the rows of y [cells, n, d] with each other, [cells, n, n]."""
        if x not in self._grams:
            shape = (*y.shape[:2], y.shape[1])
            self._grams[x] = _product(y, y, self.kernel.buffer(f"gram {x}", shape, y.dtype))
        return self._grams[x]

    def strips(self) -> Iterator[tuple[slice, slice]]:
        """Yield slices of cells and rows to process together: whole cells, or rows of one cell."""
        cells, rows, n_k = self.shape
        deep = max(1, STRIP_ENTRIES // (rows * n_k))
        high = rows if rows * n_k <= STRIP_ENTRIES else max(1, STRIP_ENTRIES // n_k)
        for cell in range(0, cells, deep):
            for row in range(0, rows, high):
                yield slice(cell, cell + deep), slice(row, row + high)

    def plain(self) -> _Shift:
        """Return the shifted scores, which serve every rule that is a single factor above 0."""
        if self._plain is None:
            logits, d_weights = (
                (self.scores, self._d_weights)
                if self._alike
                else (self.buffer("plain logits"), self.buffer("plain d_weights"))
            )
            self._plain = self._shift(self.scores, logits, d_weights)
        return self._plain

    def of(self, logits: Floats) -> _Shift:
        """Return the shifted logits of a rule that uses q and k."""
        return self._shift(logits, self.buffer("own logits"), self.buffer("own d_weights"))

    def _shift(self, logits: Floats, shifted: Floats, d_weights: Floats) -> _Shift:
        """Subtract from logits and dL/d weights their values at the row's maximum."""
        cells, rows, n_k = self.shape
        dtype = self.q.dtype
        top = np.empty((cells, rows), np.intp)
        total, square = np.empty((2, cells, rows), dtype)
        peaks = np.empty((cells, rows), dtype)
        ones = np.ones(n_k, dtype)
        for strip in self.strips():
            t, d, raw, at = shifted[strip], d_weights[strip], logits[strip], top[strip]
            if self.visible is not None:
                raw = np.where(self.visible[strip], raw, -np.inf)
            np.argmax(raw, axis=-1, out=at)
            at += np.arange(0, raw.size, n_k).reshape(at.shape)
            peak = raw.reshape(-1)[at]
            if self.visible is not None:
                # A row without visible keys has no peak; its entries count as hidden below.
                peak = np.where(peak == -np.inf, 0.0, peak)
            np.subtract(raw, peak[..., np.newaxis], out=t)
            if self.visible is not None:
                np.copyto(t, 0.0, where=~self.visible[strip])
            peaks[strip] = peak
            raw = self._d_weights[strip]
            np.subtract(raw, raw.reshape(-1)[at][..., np.newaxis], out=d)
            np.vecdot(t, ones, out=total[strip])
            np.vecdot(t, t, out=square[strip])
        variance = self._variance(shifted, total, square)
        largest = np.maximum(np.max(peaks, axis=-1), -np.min(peaks, axis=-1))
        return _Shift(shifted, d_weights, top, peaks, largest, variance)

    def _variance(self, t: Floats, total: Floats, square: Floats) -> Floats:
        """Return the unbiased variance of each row over its visible keys; 0 for fewer than two."""
        # Stay in the dtype of the logits, even if the number is the same for all rows.
        n = np.maximum(self.shape[2] if self.n_visible is None else self.n_visible, 1)
        n = n.astype(t.dtype)
        mean = total / n
        spread = square - total * mean
        # A mean that is large compared to the spread costs digits: use the deviations there.
        for index in _chunks(spread <= square / 64, t.shape[-1]):
            deviation = t[index] - mean[index][..., np.newaxis]
            if self.visible is not None:
                deviation = np.where(self.visible[index], deviation, 0.0)
            spread[index] = np.vecdot(deviation, deviation)
        return np.where(n > 1.0, spread / np.maximum(n - 1.0, 1.0), 0.0)


class _RuleSums:
    """The accumulated measurements of one scale rule, block by block."""

    def __init__(
        self, rule: ScaleRule, q: Floats, k: Floats, *, whole: bool, grams: Mapping[str, bool]
    ) -> None:
        n_cells, n_q, n_k = *q.shape[:2], k.shape[1]
        dtype = q.dtype
        self.rule = rule
        self.factor = rule.value if isinstance(rule, Factor) and rule.value > 0 else None
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

    def add(self, block: _Block, queries: slice, dead_below: float) -> None:
        """Measure a block of queries."""
        rule, factor = self.rule, self.factor
        if factor is not None:
            shift = block.plain()
        else:
            logits = rule.logits(block.scores, block.q, block.k, block.visible)
            shift = block.of(logits)
        weights, d_logits = block.buffer("weights"), block.buffer("d_logits")
        norms = self._softmax(block, shift, factor or 1.0, weights, d_logits, queries, dead_below)
        if not np.isfinite(shift.largest * (factor or 1.0)).all():
            self.left[:, queries] = ~np.isfinite(shift.peaks * (factor or 1.0))
        self._pool(block, shift.variance * (factor or 1.0) ** 2)
        self.norms["logits"][:, queries] = norms
        q_extra = k_extra = None
        if factor is not None:
            d_scores = d_logits
            self.norms["scores"][:, queries] = norms * factor
        else:
            d_scores, q_extra, k_extra = rule.backward(
                d_logits, block.scores, block.q, block.k, block.visible
            )
            self.norms["scores"][:, queries] = metrics.row_norms(d_scores)
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
                part = block.kernel.buffer(
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
        for x, total in self.sums.items():
            self.norms[x][:] = metrics.row_norms(total)
        if self.factor is not None:
            self.norms["k"] *= self.factor
        dtype = self.norms["q"].dtype
        # The mean of no rows is NaN.
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

    def undone(self, part: _Part) -> tuple[Mask, Mask]:
        """Return which queries [cells, n_q] and keys [cells, n_k] are left to the definitions."""
        finite = np.isfinite(self.rows.entropy_nats)
        for x in ("logits", "scores", "q"):
            finite &= np.isfinite(self.norms[x])
        queries = part.queries | self.left | ~(finite | part.blind)
        keys = part.keys | ~(np.isfinite(self.norms["k"]) & np.isfinite(self.norms["v"]))
        if self.left.any():
            keys |= part.keys_of(self.left)
        return queries, keys | (self.left.shape[1] == 0)

    def _pool(self, block: _Block, variance: Floats) -> None:
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
        block: _Block,
        shift: _Shift,
        factor: float,
        weights: Floats,
        d_logits: Floats,
        queries: slice,
        dead_below: float,
    ) -> Floats:
        """Compute row metrics, weights, and the gradient of the logits with its row norms."""
        cells, rows, n_k = block.shape
        dtype = weights.dtype
        # Sums over the keys other than the largest, with e the exponentials of their logits t, and
        # d their dL/d weights: e, e t, e², e³ and e d.
        r, u, s2, s3, ed, norm = np.empty((6, cells, rows), dtype)
        ones = np.ones(n_k, dtype)
        for strip in block.strips():
            t, d, e = shift.logits[strip], shift.d_weights[strip], weights[strip]
            work, scaled = (block.kernel.buffer(x, t.shape, dtype) for x in ("work", "scaled"))
            if factor != 1.0:
                t = np.multiply(t, factor, out=scaled)
            np.exp(t, out=e)
            if block.visible is not None:
                np.copyto(e, 0.0, where=~block.visible[strip])
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
            flat[at] = 1.0 if block.n_visible is None else block.n_visible[strip] > 0
            p_max = 1.0 / (1.0 + r[strip])
            np.multiply(e, p_max[..., np.newaxis], out=e)
            slope = d_logits[strip]
            np.subtract(d, (ed[strip] * p_max)[..., np.newaxis], out=slope)
            np.multiply(slope, e, out=slope)
            np.vecdot(slope, slope, out=norm[strip])
            if dead_below > 0.0:
                np.abs(slope, out=work)
                dead = np.less(work, dead_below)
                if block.visible is not None:
                    dead &= block.visible[strip]
                self.dead[strip[0]] += _count(dead)
        self._finish(block, shift, factor, queries, (r, u, s2, s3))
        return _safe_norms(norm, lambda index: d_logits[index], n_k)

    def _finish(
        self,
        block: _Block,
        shift: _Shift,
        factor: float,
        queries: slice,
        sums: tuple[Floats, Floats, Floats, Floats],
    ) -> None:
        """Compute row metrics from sums over the keys other than the largest."""
        r, u, s2, s3 = sums
        z = 1.0 + r
        gap = r / z
        below_max = -u / z
        entropy = np.log1p(r) + below_max
        # ‖diag(p) - ppᵀ‖² = Σp² - 2Σp³ + (Σp²)² of p = (1, e)/z, written without cancellation.
        a = s2 / (z * z)
        jacobian_sq = (gap * gap + 2.0 * a) / (z * z) + a * a + (s2 - 2.0 * s3 / z) / (z * z)
        n_visible, n_k = block.n_visible, block.shape[2]
        if n_visible is None:
            log_one = np.log(r.dtype.type(n_k)) if r.dtype == np.longdouble else math.log(n_k)
            normalized = entropy / log_one if n_k > 1 else np.full_like(entropy, np.nan)
        else:
            count = np.maximum(n_visible, 2).astype(np.result_type(r.dtype, np.float64))
            log_n = np.log(count).astype(r.dtype)
            normalized = np.where(n_visible > 1, entropy / log_n, np.nan)
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
        for index in _chunks((s2 < limits.tiny / limits.eps) & (r > 0.0), block.shape[2]):
            visible = None if block.visible is None else block.visible[index]
            again = metrics.row_metrics(shift.logits[index] * factor, visible)
            for name, values in zip(again._fields, again, strict=True):
                getattr(self.rows, name)[:, queries][index] = values

    def _norms(
        self, x: str, block: _Block, left: Floats, right: Floats, extra: Floats | None
    ) -> Floats:
        """Return the norms [cells, rows] of the rows of left right + extra."""
        kernel = block.kernel
        shape, dtype = left.shape, right.dtype
        if extra is not None or not self.gram.get(x):
            product = kernel.buffer("gradient", (*shape[:2], right.shape[2]), dtype)
            np.matmul(left, right, out=product)
            if extra is not None:
                product += extra
            return metrics.row_norms(product)
        gram = block.gram(x, right)
        work = kernel.buffer("work gram", _row_major(left).shape, dtype)
        # Multiply the transpose of a row-major array as it is stored, from the other side.
        if left.flags.c_contiguous:
            np.matmul(left, gram, out=work)
            square = np.vecdot(work, left)
            own = np.vecdot(left, left)
        else:
            stored = _row_major(left)
            np.matmul(gram, stored, out=work)
            np.multiply(work, stored, out=work)
            square = np.sum(work, axis=-2)
            np.multiply(stored, stored, out=work)
            own = np.sum(work, axis=-2)
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

        return _safe_norms(
            np.where(square > CANCELLED[dtype] * bound, square, 0.0), directly, right.shape[2]
        )


def _product(x: Floats, y: Floats, out: Floats) -> Floats:
    """Return products of all rows of x [cells, n, d] with all of y [cells, m, d], [cells, n, m]."""
    if x.shape[-1] == 1:
        # matmul has no fast loop for one column.
        return np.multiply(x, np.swapaxes(y, -1, -2), out=out)
    return np.matmul(x, np.swapaxes(y, -1, -2), out=out)


def _count(mask: Mask) -> NDArray[np.intp]:
    """Count the true entries of each cell, [cells, rows, n_k] -> [cells]."""
    flat = mask.reshape(len(mask), -1)
    if len(flat) == 1 or flat.shape[1] % 8:
        return np.array([np.count_nonzero(one) for one in flat])
    # Eight at a time: one call for each small cell would cost more than its exponentials.
    found: NDArray[np.intp] = np.sum(np.bitwise_count(flat.view(np.uint64)), axis=-1, dtype=np.intp)
    return found


def _chunks(where: Mask, width: int) -> Iterator[tuple[NDArray[np.intp], ...]]:
    """Yield indices of the true entries, in chunks of rows of this width that fill a strip."""
    if where.any():
        index = np.nonzero(where)
        step = max(1, STRIP_ENTRIES // width)
        for start in range(0, len(index[0]), step):
            yield tuple(axis[start : start + step] for axis in index)


def _safe_norms(
    square: Floats, rows: Callable[[tuple[NDArray[np.intp], ...]], Floats], width: int
) -> Floats:
    """Return norms from their squares, or from the rows where the squares over- or underflow."""
    limits = np.finfo(square.dtype)
    norms = np.sqrt(square)
    for index in _chunks(~((square >= limits.tiny / limits.eps) & (square < np.inf)), width):
        norms[index] = metrics.row_norms(rows(index))
    return norms


def _row_major(x: Floats) -> Floats:
    """Return a matrix in row-major order: itself or its transpose, whichever memory holds."""
    return x if x.flags.c_contiguous else np.swapaxes(x, -1, -2)
