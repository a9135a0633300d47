"""Take out of a batch the rows that the fast path must not meet: hidden ones and infinities."""

from typing import NamedTuple

import numpy as np

from sqrtdk.core.shapes import Bool, Float, Floats, Mask


class Part(NamedTuple):
    """The arrays of a batch, with 0 in the rows that the fast path must leave out.

    These rows are keys that no query sees, queries that see no key, and rows whose squared length
    is not finite, which a product with 0 would pass on. `queries` [cells, n_q] and `keys`
    [cells, n_k] mark the rows whose results these zeros change. `blind` [cells, n_q] marks the
    queries that see no key.
    """

    q: Float[Floats, "cells n_q d_k"]
    k: Float[Floats, "cells n_k d_k"]
    v: Float[Floats, "cells n_k d_v"]
    g: Float[Floats, "cells n_q d_v"]
    queries: Bool[Mask, "cells n_q"]
    keys: Bool[Mask, "cells n_k"]
    blind: Bool[Mask, "cells n_q"]
    mask: Bool[Mask, "cells n_q n_k"] | None

    def keys_of(self, queries: Bool[Mask, "cells n_q"]) -> Bool[Mask, "cells n_k"]:
        """Return the keys [cells, n_k] that any of these queries [cells, n_q] sees."""
        if self.mask is None:
            return np.broadcast_to(np.any(queries, axis=-1)[:, np.newaxis], self.keys.shape)
        return np.asarray(np.any(self.mask & queries[..., np.newaxis], axis=-2))

    @classmethod
    def of(
        cls,
        mask: Bool[Mask, "cells n_q n_k"] | None,
        q: Float[Floats, "cells n_q d_k"],
        k: Float[Floats, "cells n_k d_k"],
        v: Float[Floats, "cells n_k d_v"],
        g: Float[Floats, "cells n_q d_v"],
    ) -> "Part":
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


def _zero_unless(
    kept: Bool[Mask, "cells n"], x: Float[Floats, "cells n d_x"], y: Float[Floats, "cells n d_y"]
) -> tuple[Float[Floats, "cells n d_x"], Float[Floats, "cells n d_y"]]:
    if kept.all():
        return x, y
    return np.where(kept[..., np.newaxis], x, 0.0), np.where(kept[..., np.newaxis], y, 0.0)
