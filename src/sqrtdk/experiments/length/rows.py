"""Draw rows of scores.

A row holds the logits of one query under 1/√d_k at d_k = 64. `independent` rows have unrelated
keys, `planted` ones also a match of cosine 0.5, and `exponential` rows have independent scores of
variance 1 with tails like exp(-√2 |x|), heavier than normal ones. Each row has keys of its own, so
that its law is the exact one of theory at any length.

Most of the noise of a match's weight is that of the match's own score. So each planted row gets
several matches in turn, among the same other keys.
"""

import math
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from sqrtdk.core import random_streams
from sqrtdk.core.random_streams import Purpose
from sqrtdk.core.shapes import Floats

RowLaw: TypeAlias = Literal["independent", "planted", "exponential"]

ROW_LAWS: tuple[str, ...] = get_args(RowLaw)

HEAD = 64
"""The d_k of the queries and keys behind a row."""

COSINE = 0.5
"""Cosine of a query with its match."""

ACROSS = math.sqrt(1 - COSINE**2)
"""Standard deviation of a match's component along its query, given the query."""

MATCHES = 16
"""Matches that each planted row gets in turn."""


class Rows(NamedTuple):
    """Logits of keys [n_rows, n], and of the matches [n_rows, MATCHES] that join them in turn."""

    keys: Floats
    matches: Floats | None = None


def stream(law: str, n_k: int, seed: int, *, calibration: bool = False) -> np.random.Generator:
    """Return the random stream of the rows of one cell, or of the calibration of a length."""
    key = (ROW_LAWS.index(law), n_k, seed, int(calibration))
    return random_streams.stream(Purpose.LENGTH, *key)


def draw(generator: np.random.Generator, law: str, n_rows: int, n_k: int) -> Rows:
    """Draw rows of n_k logits; with a match, `keys` are the other n_k - 1."""
    if law == "exponential":
        return Rows(generator.laplace(scale=1 / math.sqrt(2), size=(n_rows, n_k)))
    norm = np.sqrt(generator.chisquare(HEAD, size=(n_rows, 1)))
    scale = norm / math.sqrt(HEAD)
    x = generator.standard_normal((n_rows, n_k - (law == "planted")))
    x *= scale
    if law == "independent":
        return Rows(x)
    along = COSINE * norm + ACROSS * generator.standard_normal((n_rows, MATCHES))
    return Rows(x, scale * along)
