"""Scale rules: what the scores q·k are multiplied by before the softmax.

An entry of `scale_rules` in the configuration names one of these formulas and its parameters
(`inverse: {rule: power, exponent: 1}`), so a new arm is one line of YAML.
"""

import math
from collections.abc import Callable
from typing import Any


def constant(d_k: int, n_k: int, *, value: float) -> float:
    """The same factor at every size; 1 is attention without scaling.

    >>> constant(64, 256, value=1)
    1.0
    """
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"value is {value}; allowed: finite numbers above 0")
    return float(value)


def power(d_k: int, n_k: int, *, exponent: float) -> float:
    """d_k^-exponent; 1/2 is Vaswani et al. 2017, equation (1), and 1 is Yang et al. 2022.

    >>> power(64, 256, exponent=0.5)
    0.125
    """
    if not math.isfinite(exponent):
        raise ValueError(f"exponent is {exponent}; allowed: finite numbers")
    return math.pow(d_k, -exponent)


RULES: dict[str, Callable[..., float]] = {"constant": constant, "power": power}
"""The formulas that an entry of `scale_rules` can name. Each takes d_k, n_k and the entry's
parameters by keyword, and raises ValueError for a parameter out of range."""


def scale(entry: dict[str, Any], *, d_k: int, n_k: int) -> float:
    """The factor of one entry of `scale_rules`, such as `{"rule": "power", "exponent": 0.5}`."""
    parameters = {name: value for name, value in entry.items() if name != "rule"}
    return RULES[entry["rule"]](d_k, n_k, **parameters)
