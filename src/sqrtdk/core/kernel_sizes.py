"""Choose how many cells and queries the kernel works on at once, and how it gets its norms.

Every choice follows from the shape of a cell alone, so its digits depend neither on its batch nor
on the other rules.
"""

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
