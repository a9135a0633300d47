"""Adam (Kingma and Ba 2015, algorithm 1, with its recommended constants), on one array."""

import math
from collections.abc import Mapping

import numpy as np

from sqrtdk.core.shapes import Float, Floats

MEAN, SQUARE, EPSILON = 0.9, 0.999, 1e-8


def views(
    flat: Float[Floats, "runs count"], shapes: Mapping[str, tuple[int, int]]
) -> dict[str, Floats]:
    """Return parts of an array that is stepped as a whole: [runs, *shape], by name."""
    found, start = {}, 0
    for name, shape in shapes.items():
        stop = start + math.prod(shape)
        found[name] = flat[:, start:stop].reshape(len(flat), *shape)
        start = stop
    return found


class AdamState:
    """The moments of one array's gradients, and the update step computed from them.

    The moments are sums without the factors 1 - beta, which are part of the step size instead.
    """

    def __init__(self, like: Floats, *, epsilon: float | Floats = EPSILON) -> None:
        """Set the moments to 0 for an array of this shape, to which epsilon is broadcast."""
        self.epsilon, self.steps = epsilon, 0
        self.mean, self.square = np.zeros_like(like), np.zeros_like(like)

    def step(
        self,
        w: Float[Floats, "*shape"],
        gradient: Float[Floats, "*shape"],
        scratch: Float[Floats, "*shape"],
        *,
        rate: float | Floats,
    ) -> None:
        """Update w in place; `rate` is broadcast. Overwrites the gradient and `scratch`."""
        self.steps += 1
        # The bias-corrected means of the paper are the sums over (1 - beta^t)/(1 - beta).
        of_mean, of_square = ((1 - x**self.steps) / (1 - x) for x in (MEAN, SQUARE))
        self.mean *= MEAN
        self.mean += gradient
        np.square(gradient, out=gradient)
        self.square *= SQUARE
        self.square += gradient
        np.sqrt(self.square, out=scratch)
        scratch += self.epsilon * math.sqrt(of_square)
        np.divide(self.mean, scratch, out=scratch)
        # Cast first, so that a rate of each run gives the digits of a single rate.
        scratch *= np.asarray(rate * (math.sqrt(of_square) / of_mean), scratch.dtype)
        w -= scratch
