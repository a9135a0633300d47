"""The vocabulary: every configuration key, with its type, range, unit and meaning.

A key is an override on the command line, a column of the tables, an axis label and a term of the
report. All four read it from here. An experiment lists the keys that it has; `config` checks
values against them. This module imports nothing heavy, because every shard job imports it.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypedDict

DTYPES = ("float64", "float32")

Document: TypeAlias = Mapping[str, Any]
"""Unchecked content of a YAML or JSON file, a template or an event."""

Value: TypeAlias = str | int | float
"""One value of a key or of a table's cell."""

Entry: TypeAlias = Mapping[str, Value | None]
"""An entry of `scale_rules` or `input_laws`: the name of a formula and its parameters."""

Entries: TypeAlias = Mapping[str, Entry]
"""Some entries by their names."""


class Slab(TypedDict, total=False):
    """The work of one shard job: one value of each axis, and the entries of names.

    It has the keys of its experiment, which adds its own ones to these. `seeds` are the first seed
    and the one after the last.
    """

    d_k: int
    n_k: int
    n_q: int
    d_v: int
    inputs: Entries
    dtype: str
    scaling: Entries
    seeds: list[int]
    code: str


class Settings(TypedDict, total=False):
    """The values of an experiment's keys in a run: a list for an axis, the entries of names."""

    d_k: list[int]
    n_k: list[int]
    n_q: list[int]
    d_v: int
    inputs: Entries
    dtype: list[str]
    scaling: Entries
    seed: list[int]


@dataclass(frozen=True)
class Key:
    """One configuration key.

    `kind` is the type of one value: a whole number, a number above 0, a member of `choices`, the
    name of an entry of the configuration's mapping `named_in`, a text, or a file. An axis takes one
    value or a list of values. `minimum` and `maximum` apply to whole numbers. An `optional` key may
    be null. The value of a file is a mapping from its path to the SHA-256 of its content.
    """

    name: str
    kind: Literal["whole", "number", "choice", "name", "text", "file"]
    meaning: str
    unit: str = ""
    minimum: int = 1
    maximum: int | None = None
    choices: tuple[str, ...] = ()
    named_in: str = ""
    axis: bool = True
    optional: bool = False

    @property
    def allowed(self) -> str:
        """Describe the allowed values, as error messages and `--help` print them."""
        if self.kind == "whole":
            top = "" if self.maximum is None else f" to {self.maximum}"
            one = f"whole numbers from {self.minimum}{top}"
        elif self.kind == "number":
            one = "finite numbers above 0"
        elif self.kind == "choice":
            one = " or ".join(self.choices)
        elif self.kind == "name":
            one = f"names of {self.named_in}"
        else:
            one = {"text": "a text", "file": "the path of a file"}[self.kind]
        several = f"{one}, one or a list" if self.axis else one
        return f"{several}, or null" if self.optional else several


ANY, NOT_NEGATIVE = (-math.inf, math.inf), (0.0, math.inf)
SHARE, DIFFERENCE = (0.0, 1.0), (-1.0, 1.0)
"""The values that a number can have: a loss is not negative, shares differ by at most 1."""

_BY_UNIT = {
    "share": SHARE,
    "difference of shares": DIFFERENCE,
    "nats": NOT_NEGATIVE,
    "steps": NOT_NEGATIVE,
    "keys": NOT_NEGATIVE,
}


@dataclass(frozen=True)
class Column:
    """One column of a table.

    `pool` is how seeds are averaged: `mean` is the arithmetic mean; `rms` is the quadratic mean,
    for columns whose mean *square* is the quantity that theory gives; `median` is the median over
    seeds, for quantiles of row norms, which span decades, so that the few largest seeds would
    decide an arithmetic mean.

    `counted` is for a share that is a count over a number of things. It gives that number as
    factors, each the name of an axis or a number. The first factor is the number of things that
    may be treated as independent inside one cell. Other shares, such as a normalized entropy, have
    no factors. `skewed` is for a share whose seeds scatter more upwards, the more the larger it is.
    `within` are the values that it can have, if its unit does not say so.

    An `optional` column may be empty where its meaning says so; anywhere else an undefined value
    is an error.
    """

    name: str
    meaning: str
    unit: str = ""
    read: Callable[[str], Value] = float
    axis: bool = False
    optional: bool = False
    pool: Literal["mean", "rms", "median"] = "mean"
    counted: tuple[str | int, ...] = ()
    skewed: bool = False
    within: tuple[float, float] | None = None

    @property
    def possible(self) -> tuple[float, float]:
        """Return the lowest and the highest value that a number of the column can have."""
        return self.within or _BY_UNIT.get(self.unit, ANY)


def axis_column(key: Key) -> Column:
    """Return the column that holds a key's value."""
    read = {"whole": int, "number": float}.get(key.kind, str)
    return Column(key.name, key.meaning, key.unit, read=read, axis=True)


D_K = Key("d_k", "whole", "Dimension of each query and key vector.", "dimensions")
N_K = Key("n_k", "whole", "Number of keys that a query attends to.", "keys")
N_Q = Key("n_q", "whole", "Number of queries; they share the keys of their cell.", "queries")
D_V = Key("d_v", "whole", "Dimension of each value vector.", "dimensions", axis=False)
INPUTS = Key(
    "inputs",
    "name",
    "Input law: the distribution that q and k are drawn from.",
    named_in="input_laws",
)
DTYPE = Key(
    "dtype",
    "choice",
    "Floating-point type of the computation. Inputs are drawn in float64 and then cast.",
    choices=DTYPES,
)
LOG_EVERY = Key(
    "log_every",
    "whole",
    "Steps between two rows of a cell; the last step has one too.",
    "steps",
    axis=False,
)
TRAINING_DTYPE = Key(
    "training_dtype",
    "choice",
    "Floating-point type in which the models are trained and measured. Initial parameters and "
    "inputs are drawn in float64 and then cast.",
    choices=DTYPES,
    axis=False,
)
SCALING = Key(
    "scaling",
    "name",
    "Scale rule: what the scores are multiplied by before the softmax "
    "(on: 1/√d_k, off: 1; further rules by name). An experiment that takes only plain factors "
    "leaves the others out.",
    named_in="scale_rules",
)
SEED = Key(
    "seed",
    "whole",
    "Seed of the random draw, the unit of every interval. All scale rules see the same draw.",
    minimum=0,
    maximum=2**32 - 1,
)
