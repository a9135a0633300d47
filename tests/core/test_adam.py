"""Adam, compared with the paper's algorithm."""

import numpy as np
from numpy.testing import assert_allclose
from oracles import EPS, normal

from sqrtdk.core.adam import AdamState


def test_adam_is_the_algorithm_of_the_paper_written_out() -> None:
    mine = normal(1, 13)
    theirs, m, v = mine.copy(), 0.0, 0.0
    moments, scratch = AdamState(mine), np.empty_like(mine)
    for t in range(1, 21):
        # From large to tiny, so that ε matters as well.
        g = normal(1, 13, seed=t) * 10.0**-t
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        theirs = theirs - 0.01 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        moments.step(mine, g, scratch, rate=0.01)
        # A few roundings a step, of numbers of size 1.
        assert_allclose(mine, theirs, atol=10 * t * EPS[np.float64])
