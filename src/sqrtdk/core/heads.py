"""Statistics of one attention head, from its queries and keys, a block of queries at a time.

Real heads have masks, biases, soft-caps and attention sinks, and rows that see different numbers
of keys. `statistics` handles all of them and never holds more than one block of scores. The
formulas of a row are those of `metrics`; this module adds what belongs to a whole head: extreme
logits and where they are, the counts of rows, and the split of the spread of the logits into the
length of the vectors and their alignment.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sqrtdk.core.attention import softmax
from sqrtdk.core.metrics import row_metrics
from sqrtdk.core.shapes import Floats, Mask

BLOCK_ENTRIES = 2**22
"""Scores kept at once, 32 MiB in float64: large enough that the products dominate."""

SATURATED_ABOVE = 0.99
"""A row counts as saturated if its largest weight is above this."""

HUGE = 1e100
"""Keys with larger entries have no covariance in float64."""

DEAD_BELOW = 0.01
"""A row counts as dead if the Frobenius norm of its softmax Jacobian is below this."""


@dataclass(frozen=True)
class Visibility:
    """Which keys each query sees, and what is added to its logits.

    Queries and keys are counted from their beginnings, as in PyTorch's
    `scaled_dot_product_attention`: query i of a causal head sees the keys up to i. `window` is how
    many keys before (and, without `is_causal`, after) a query it still sees, itself not counted.
    `mask` (boolean, True is visible) and `bias` (added to the logits after the scale and the
    soft-cap) broadcast to [n_q, n_k].
    """

    n_q: int
    n_k: int
    is_causal: bool = False
    window: tuple[int, int] | None = None
    mask: Mask | None = None
    bias: Floats | None = None

    def rows(self, queries: slice) -> Mask | None:
        """Return the mask of some queries, [rows, n_k], or None where they see every key."""
        place = np.arange(queries.start, queries.stop)[:, np.newaxis]
        key = np.arange(self.n_k)
        found: Mask | None = None
        if self.is_causal:
            found = key <= place
        if self.window is not None:
            before, after = self.window
            near = (key >= place - before) & (key <= place + after)
            found = near if found is None else found & near
        if self.mask is not None:
            given = _rows_of(self.mask, queries)
            found = given if found is None else found & given
        if found is None:
            return None
        return np.broadcast_to(found, (queries.stop - queries.start, self.n_k))

    def bias_rows(self, queries: slice) -> Floats | None:
        """Return what is added to the logits of some queries."""
        return None if self.bias is None else _rows_of(self.bias, queries)


def _rows_of(array: np.ndarray, queries: slice) -> np.ndarray:
    return array if array.shape[0] == 1 else array[queries]


class HeadStatistics(NamedTuple):
    """Statistics of one head, averaged over the rows (queries) that count.

    scale               factor on the scores q·k
    rows                rows that count: those that see at least `min_keys` keys
    hidden_rows         rows that see no key at all
    visible_keys        mean number of keys that a row sees, without the sink
    logit_std           σ: root mean square over rows of the standard deviation across the visible
                        keys of a row, divisor n - 1; NaN where no row sees two keys
    norms_std           the σ that vectors of these lengths would have without alignment:
                        |scale| √(mean over rows of |q|² tr(C) / d), C the covariance of the keys
                        that the row sees
    alignment           σ before the soft-cap and the bias, over `norms_std`
    cap_factor          σ over σ before the soft-cap and the bias, so that
                        logit_std = norms_std * alignment * cap_factor
    max_logit, min_logit  extremes of the logits over all visible pairs
    max_query, max_key  place of the largest logit, counted from 0
    entropy_nats … jacobian_norm  as in `metrics.RowMetrics`, mean over rows; jacobian_norm is a
                        root mean square. A sink counts as a key.
    sink_weight         mean weight on the sink; NaN without one
    saturated_rows      share of rows with a largest weight above 0.99
    dead_rows           share of rows whose softmax Jacobian has a norm below 0.01
    output_rms          root mean square of the entries of the output; NaN without values
    """

    scale: float
    rows: int
    hidden_rows: int
    visible_keys: float
    logit_std: float
    norms_std: float
    alignment: float
    cap_factor: float
    max_logit: float
    min_logit: float
    max_query: int
    max_key: int
    entropy_nats: float
    entropy_normalized: float
    effective_keys: float
    sum_sq_weights: float
    max_weight: float
    max_weight_gap: float
    jacobian_norm: float
    sink_weight: float
    saturated_rows: float
    dead_rows: float
    output_rms: float


class Head(NamedTuple):
    """The statistics of a head, and the number of keys that each of its counted rows sees."""

    statistics: HeadStatistics
    visible_keys: np.ndarray


def statistics(
    q: Floats,
    k: Floats,
    v: Floats | None = None,
    *,
    scale: float,
    visibility: Visibility,
    softcap: float | None = None,
    sink: float | None = None,
    min_keys: int = 2,
) -> Head:
    """Measure one head: q [n_q, d], k [n_k, d], v [n_k, d_v], in the dtype of q.

    A key that a row does not see has no influence on it, whatever it holds. A row that sees a key
    with NaN or an infinity in it makes the statistics NaN. `sink` is the logit of an additional
    key with value zero, which the scale, the cap and the masks leave alone (Xiao et al. 2023;
    the learned sink of gpt-oss). The cap is `softcap` tanh(logit / softcap) (Gemma 2, 2024).

    The split is an identity, not a model: with M = q qᵀ of a row and C the covariance of the keys
    that it sees, the variance of its logits is scale² qᵀ C q, and d qᵀ C q / (|q|² tr C) is 1 on
    average for directions that have nothing to do with each other.
    """
    # What is hidden may overflow; what is seen then shows it as an infinity or NaN.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        head = _Head(q, k, v, scale, visibility, softcap, sink, min_keys)
        for queries in _blocks(len(q), len(k)):
            head.add(queries)
        return head.result()


def _blocks(n_q: int, n_k: int) -> Iterator[slice]:
    step = max(1, BLOCK_ENTRIES // max(1, n_k))
    for start in range(0, n_q, step):
        yield slice(start, min(start + step, n_q))


class _Head:
    """The sums over the blocks of one head."""

    def __init__(
        self,
        q: Floats,
        k: Floats,
        v: Floats | None,
        scale: float,
        visibility: Visibility,
        softcap: float | None,
        sink: float | None,
        min_keys: int,
    ) -> None:
        self.q, self.v, self.scale = q, v, scale
        self.visibility, self.softcap, self.sink, self.min_keys = (
            visibility,
            softcap,
            sink,
            min_keys,
        )
        # A key that is not finite is taken out of all products, which would spread it to rows
        # that do not see it, and put back into the rows that do.
        self.broken = ~np.all(np.isfinite(k), axis=-1)
        if v is not None:
            self.broken |= ~np.all(np.isfinite(v), axis=-1)
            self.v = np.where(self.broken[:, np.newaxis], 0, v)
        self.k = np.where(self.broken[:, np.newaxis], 0, k)
        # The covariance does not see a common shift of all keys; without it fewer digits cancel.
        # The median, because a huge key that few rows see must not cost the others theirs.
        usable = ~self.broken & np.all(np.abs(self.k.astype(np.float64)) < HUGE, axis=-1)
        centre = np.median(self.k[usable], axis=0) if np.any(usable) else 0.0
        centred = self.k.astype(np.float64) - centre
        self.centred = np.where(usable[:, np.newaxis], centred, 0.0)
        self.key_square = np.sum(self.centred**2, axis=-1)
        self.huge = ~usable & ~self.broken
        self.counts: list[np.ndarray] = []
        self.hidden = 0
        self.sums = dict.fromkeys(_AVERAGED, 0.0)
        # The power of two by which outputs are divided before they are squared: squares of numbers
        # beyond 1e154 would overflow, and those below 1e-162 vanish.
        self.unit = -1100
        self.top, self.bottom, self.place = -math.inf, math.inf, (-1, -1)

    def add(self, queries: slice) -> None:
        """Add a block of queries."""
        q = self.q[queries]
        visible = self.visibility.rows(queries)
        # Hidden pairs may overflow; visible pairs then show an infinity.
        with np.errstate(over="ignore"):
            raw = (q @ self.k.T) * self.scale
        logits = raw if self.softcap is None else self.softcap * np.tanh(raw / self.softcap)
        bias = self.visibility.bias_rows(queries)
        if bias is not None:
            logits = logits + bias.astype(logits.dtype)
        seen = np.ones(raw.shape, np.bool_) if visible is None else visible
        if np.any(self.broken):
            logits = np.where(self.broken & seen, np.nan, logits)
            raw = np.where(self.broken & seen, np.nan, raw)
        count = np.count_nonzero(seen, axis=-1)
        self.hidden += int(np.count_nonzero(count == 0))
        self._extremes(logits, seen, queries.start)
        counted = count >= self.min_keys
        if np.any(counted):
            self._average(q[counted], raw[counted], logits[counted], seen[counted], count[counted])

    def _extremes(self, logits: Floats, seen: Mask, first: int) -> None:
        if not np.any(seen):
            return
        high, low = np.where(seen, logits, -np.inf), np.where(seen, logits, np.inf)
        # argmax takes a NaN for the largest, which is what a broken pair should be.
        at = int(np.argmax(high))
        if not (math.isnan(self.top) or high.flat[at] <= self.top):
            self.top = float(high.flat[at])
            row, key = divmod(at, logits.shape[1])
            self.place = (first + row, key)
        self.bottom = float(np.minimum(self.bottom, np.min(low)))

    def _average(
        self, q: Floats, raw: Floats, logits: Floats, seen: Mask, count: np.ndarray
    ) -> None:
        self.counts.append(count)
        masked = np.where(seen, logits, -np.inf)
        if self.sink is not None:
            column = np.full((len(q), 1), self.sink, logits.dtype)
            masked = np.concatenate([masked, column], axis=-1)
        with np.errstate(invalid="ignore"):
            found = row_metrics(masked)
        rows = {name: getattr(found, name).astype(np.float64) for name in found._fields}
        rows["jacobian_norm"] **= 2
        rows["saturated_rows"] = rows["max_weight"] > SATURATED_ABOVE
        rows["dead_rows"] = found.jacobian_norm < DEAD_BELOW
        rows["variance"] = _variance(logits, seen, count)
        rows["raw_variance"] = _variance(raw, seen, count)
        rows["norms_variance"] = self._norms_variance(q, seen, count)
        if self.sink is not None or self.v is not None:
            weights = softmax(masked)
            if self.sink is not None:
                rows["sink_weight"] = weights[:, -1]
            if self.v is not None:
                output = weights[:, : len(self.k)] @ self.v
                rows["output_square"] = self._output_square(output.astype(np.float64))
        for name, values in rows.items():
            self.sums[name] += float(np.sum(values, dtype=np.float64))

    def _output_square(self, output: Floats) -> Floats:
        """Return the mean square of each row in the current unit, which only grows."""
        unit = int(np.frexp(np.max(np.abs(output)))[1])
        if unit > self.unit:
            self.sums["output_square"] = math.ldexp(
                self.sums["output_square"], 2 * (self.unit - unit)
            )
            self.unit = unit
        square: Floats = np.mean(np.ldexp(output, -self.unit) ** 2, axis=-1)
        return square

    def _norms_variance(self, q: Floats, seen: Mask, count: np.ndarray) -> np.ndarray:
        """Return scale² |q|² tr(C) / d for each row, with C the covariance of its visible keys."""
        if np.all(seen):
            mean = np.mean(self.centred, axis=0)
            total = np.full(len(q), np.sum((self.centred - mean) ** 2))
        else:
            of_keys = seen.astype(np.float64)
            mean = of_keys @ self.centred / count[:, np.newaxis]
            total = of_keys @ self.key_square - count * np.sum(mean**2, axis=-1)
        if np.any(self.huge):
            total = np.where(np.any(seen & self.huge, axis=-1), np.nan, total)
        trace = np.maximum(total, 0.0) / np.maximum(count - 1, 1)
        square = np.sum(q.astype(np.float64) ** 2, axis=-1)
        result: np.ndarray = self.scale * self.scale * square * trace / q.shape[1]
        return result

    def result(self) -> Head:
        """Return the averages after the last block."""
        counts = np.concatenate(self.counts) if self.counts else np.zeros(0, np.intp)
        n = len(counts)
        of_two = int(np.count_nonzero(counts > 1))
        mean = {name: total / n if n else math.nan for name, total in self.sums.items()}
        spread = {
            name: math.sqrt(self.sums[name] / of_two) if of_two else math.nan
            for name in ("variance", "raw_variance", "norms_variance")
        }
        seen = self.top > -math.inf or math.isnan(self.top)
        return Head(
            HeadStatistics(
                scale=self.scale,
                rows=n,
                hidden_rows=self.hidden,
                visible_keys=float(np.mean(counts)) if n else math.nan,
                logit_std=spread["variance"],
                norms_std=spread["norms_variance"],
                alignment=_ratio(spread["raw_variance"], spread["norms_variance"]),
                cap_factor=_ratio(spread["variance"], spread["raw_variance"]),
                max_logit=self.top if seen else math.nan,
                min_logit=self.bottom if seen else math.nan,
                max_query=self.place[0],
                max_key=self.place[1],
                **{name: mean[name] for name in _OF_ROWS},
                jacobian_norm=math.sqrt(mean["jacobian_norm"]),
                sink_weight=math.nan if self.sink is None else mean["sink_weight"],
                saturated_rows=mean["saturated_rows"],
                dead_rows=mean["dead_rows"],
                output_rms=math.nan
                if self.v is None
                else float(np.ldexp(math.sqrt(mean["output_square"]), self.unit)),
            ),
            counts,
        )


_OF_ROWS = (
    "entropy_nats",
    "entropy_normalized",
    "effective_keys",
    "sum_sq_weights",
    "max_weight",
    "max_weight_gap",
)

_AVERAGED = (
    *_OF_ROWS,
    "jacobian_norm",
    "saturated_rows",
    "dead_rows",
    "variance",
    "raw_variance",
    "norms_variance",
    "sink_weight",
    "output_square",
)


def _variance(logits: Floats, seen: Mask, count: np.ndarray) -> np.ndarray:
    """Return the unbiased variance of each row across its visible keys; 0 for a single key."""
    values = np.where(seen, logits, 0).astype(np.float64)
    mean = np.sum(values, axis=-1) / count
    off = np.where(seen, values - mean[:, np.newaxis], 0.0)
    found: np.ndarray = np.sum(off**2, axis=-1) / np.maximum(count - 1, 1)
    return found


def _ratio(a: float, b: float) -> float:
    return a / b if b > 0 else math.nan
