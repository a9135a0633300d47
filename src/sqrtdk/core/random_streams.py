"""Keyed random streams: what an array is drawn from depends on its purpose, never on an order."""

from enum import IntEnum

import numpy as np


class Purpose(IntEnum):
    """The purpose of a stream. Streams of different purposes never have a key in common.

    The numbers are part of every draw: append, never reorder.
    """

    CELLS = 0
    TRAINING = 1
    PROJECTIONS = 2
    INITIALISATION = 10
    TRANSFORMER = 11
    LENGTH = 12
    RELATED_EXACT = 13


def stream(purpose: Purpose, *key: int) -> np.random.Generator:
    """Return the random stream of a key, such as the seed, the place of the array and its sizes.

    Philox is counter-based (Salmon et al. 2011): streams of different keys do not overlap.

    >>> bool(stream(Purpose.CELLS, 3).random() == stream(Purpose.CELLS, 3).random())
    True
    """
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(purpose, spawn_key=key)))
