"""Say in words what names of the configuration mean, for legends and titles of figures."""

import re
from collections.abc import Mapping

RULES: Mapping[str, str] = {
    "off": "no scale",
    "on": "1/√d_k",
    "inverse": "1/d_k",
    "inverse_64": "8/d_k",
    "qk_norm": "QK-norm",
    "sqrt_log_n": "√(log n)",
    "log_n": "log n",
    "square_log_n": "(log n)²",
    "ssmax": "SSMax, 0.43 log n",
    "yarn": "YaRN",
    "gap": "gap counting",
    "qk_clip": "QK-clip",
    "softmax1": "softmax with a sink of 0",
    "ngpt": "nGPT",
}
"""Scale rules; those of a user keep their names."""


def rule(name: str) -> str:
    """Return the words for a scale rule; its name if it has none.

    >>> rule("on"), rule("mine")
    ('1/√d_k', 'mine')
    """
    return RULES.get(name, name)


def axis(name: str) -> str:
    """Return the name of an axis as a figure shows it: symbols stay.

    >>> axis("learning_rate"), axis("d_k")
    ('learning rate', 'd_k')
    """
    return name if re.match("[a-z]_", name) else name.replace("_", " ")
