"""Measure the fixed vector as `encoder_decoder` does, with all learning rates of a slab together.

Its models are small: a step of all of them takes little longer than a step of one.
"""

from sqrtdk.experiments.encoder_decoder.measure import (
    COLUMNS,
    CONFIG_KEYS,
    cells,
    memory,
    seconds,
)

__all__ = ["BATCHED_AXES", "COLUMNS", "CONFIG_KEYS", "cells", "memory", "seconds"]

BATCHED_AXES: tuple[str, ...] = ("reader", "learning_rate")
