"""Adam (Kingma and Ba 2015, algorithm 1, with its recommended constants), on one array."""

import math

import numpy as np

from sqrtdk.core.attention import Floats

MEAN, SQUARE, EPSILON = 0.9, 0.999, 1e-8


class Adam:
    """The moments of the gradients of one array, and the step that they make.

    The moments are kept as sums without their factors 1 - beta, which the step size takes in.
    """

    def __init__(self, like: Floats, *, epsilon: float = EPSILON) -> None:
        """Moments of 0 for an array of this shape."""
        self.epsilon, self.steps = epsilon, 0
        self.mean, self.square = np.zeros_like(like), np.zeros_like(like)

    def step(self, w: Floats, gradient: Floats, scratch: Floats, *, rate: float | Floats) -> None:
        """Move w in place; the gradient and `scratch`, of w's shape, are overwritten."""
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
        scratch *= rate * (math.sqrt(of_square) / of_mean)
        w -= scratch
