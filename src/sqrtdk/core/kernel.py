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

from collections.abc import Iterable

import numpy as np

from sqrtdk.core import definitions
from sqrtdk.core.attention import Scale, ScaleRule, as_rule, needs_all_queries
from sqrtdk.core.checks import (
    as_floats,
    check_flag,
    check_mask,
    check_number,
    check_shapes,
)
from sqrtdk.core.kernel_block import Block
from sqrtdk.core.kernel_hidden import Part
from sqrtdk.core.kernel_sizes import block_rows, gram_norms
from sqrtdk.core.kernel_steps import Buffers
from sqrtdk.core.kernel_sums import Measured, RuleSums
from sqrtdk.core.shapes import ArrayLike, Bool, Float, Floats, Mask
from sqrtdk.messages import shorten


class Kernel:
    """Measure batches of cells, in buffers that are reused from call to call."""

    def __init__(self, *, gram: bool = True) -> None:
        """Set up empty buffers. Without `gram`, every gradient is formed, for comparison."""
        self._gram = check_flag("gram", gram)
        self.buffers = Buffers()

    def measure(
        self,
        q: ArrayLike,
        k: ArrayLike,
        v: ArrayLike,
        g: ArrayLike,
        rules: Iterable[Scale],
        *,
        mask: ArrayLike | None = None,
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
        if isinstance(rules, (str, bytes)) or not isinstance(rules, Iterable):
            raise TypeError(f"rules is {shorten(rules)}; allowed: a list of numbers and rules")
        known = [as_rule(rule) for rule in rules]
        dead_below = check_number("dead_below", dead_below, least=0.0)
        pairs = (*q.shape[:2], k.shape[1])
        if mask is not None:
            mask = np.broadcast_to(check_mask(mask, pairs), pairs)
        # Non-finite values show in the result, and hidden pairs need no warning.
        found: dict[int, Measured] = {}
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            # Rules that need all queries at once are apart, so that they do not change the blocks,
            # and with them the last digits, of the others.
            for whole in (False, True):
                places = [i for i, rule in enumerate(known) if needs_all_queries(rule) is whole]
                if places:
                    some = [known[i] for i in places]
                    measured = self._measure(q, k, v, g, some, mask, dead_below, whole=whole)
                    found |= dict(zip(places, measured, strict=True))
        return [found[i] for i in range(len(known))]

    def _measure(
        self,
        q: Float[Floats, "cells n_q d_k"],
        k: Float[Floats, "cells n_k d_k"],
        v: Float[Floats, "cells n_k d_v"],
        g: Float[Floats, "cells n_q d_v"],
        rules: list[ScaleRule],
        mask: Bool[Mask, "cells n_q n_k"] | None,
        dead_below: float,
        *,
        whole: bool,
    ) -> list[Measured]:
        n_q, n_k, d_k, d_v = q.shape[1], k.shape[1], q.shape[2], v.shape[2]
        # Zeros in place of hidden rows and infinities, which products would pass on.
        part = Part.of(mask, q, k, v, g)
        # The way to the norms decides how many queries have to be kept at once.
        grams = gram_norms(n_q, n_k, d_k, d_v) if self._gram else {}
        step = block_rows(n_q, n_k, max(d_k, d_v), whole=any(grams.values()))
        if whole:
            step = n_q
        # Block by block: the products that all rules share, then each rule on them.
        sums = [RuleSums(rule, q, k, whole=step == n_q, grams=grams) for rule in rules]
        visible: Mask | None
        for start in range(0, n_q if n_k else 0, max(step, 1)):
            queries = slice(start, min(start + step, n_q))
            visible = None if mask is None else np.ascontiguousarray(mask[:, queries])
            alike = all(one.factor is not None for one in sums)
            shown = part.q[:, queries], part.k, part.v, part.g[:, queries]
            block = Block(self.buffers, *shown, visible, alike=alike)
            for one in sums:
                one.add(block, queries, dead_below)
        # What the fast path could not do is measured by the readable formulas.
        results = []
        for one in sums:
            result = one.result()
            of_q, of_k = one.undone(part)
            for cell in np.flatnonzero(of_q.any(axis=-1) | of_k.any(axis=-1) | ~one.sound).tolist():
                defined = definitions.measure_cell(
                    q[cell],
                    k[cell],
                    v[cell],
                    g[cell],
                    one.rule,
                    None if mask is None else mask[cell],
                    dead_below=dead_below,
                    block=max(step, 1),
                )
                result.replace(cell, defined, of_q[cell], of_k[cell])
            results.append(result)
        return results
