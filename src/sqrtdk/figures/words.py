"""Say in words what names of the configuration mean, for legends and titles of figures."""

import re
from collections.abc import Iterable, Mapping

RULES: Mapping[str, str] = {
    "off": "no scale",
    "on": "1/√d_k",
    "inverse": "1/d_k",
    "inverse_64": "8/d_k",
    "qk_norm": "QK-norm",
    "soft_cap": "soft cap",
    "d_model": "1/√d_model",
    "sqrt_log_n": "√(log n)",
    "log_n": "log n",
    "square_log_n": "(log n)²",
    "ssmax": "SSMax, 0.43 log n",
    "yarn": "YaRN",
    "gap": "gap counting",
    "qk_clip": "QK-clip",
    "softmax1": "sink of 0",
    "ngpt": "nGPT",
}
"""Scale rules; those of a user keep their names."""

INPUTS: Mapping[str, str] = {
    "gaussian": "unrelated vectors",
    "rademacher": "unrelated vectors with entries ±1",
    "uniform": "unrelated vectors with uniform entries",
    "student_t": "unrelated vectors with heavy tails",
    "sphere": "unrelated vectors of one length",
    "non_centred": "a shared mean",
    "planted": "one match",
    "correlated": "one turned match",
    "same": "a match equal to the query",
    "graded": "a match and less related keys",
}
"""Input distributions."""

REMEDIES: Mapping[str, str] = {
    "off": "no scale",
    "on": "1/√d_k",
    "inverse_64": "8/d_k",
    "warmup": "warm-up",
    "adamw": "AdamW",
    "clipping": "gradient clipping",
    "temperature": "learned temperature",
    "soft_cap": "soft cap",
    "qk_clip": "QK-clip",
    "qk_norm_1": "QK-norm from 1",
    "qk_norm_8": "QK-norm from 8",
    "qk_norm_32": "QK-norm from 32",
}
"""What `remedies` compares."""

ROWS: Mapping[str, str] = {
    "independent": "unrelated",
    "planted": "one match",
    "exponential": "exponential tails",
}
"""Laws of rows of scores."""

LENGTHS: Mapping[str, str] = {
    "0": "no factor",
    "0.5": RULES["sqrt_log_n"],
    "1": RULES["log_n"],
    "2": RULES["square_log_n"],
    "gap": RULES["gap"],
    "ssmax": RULES["ssmax"],
    "yarn": RULES["yarn"],
}
"""Rules of `length`: powers of log n by their number, and rules with a name."""

ATTENTION: Mapping[str, str] = {
    "softmax": "softmax",
    "softmax1": "softmax, sink of logit 0",
    "sink_logit": "softmax, learned sink logit",
    "sigmoid": "sigmoid",
    "sigmoid_bias": "sigmoid, learned constant",
}
"""Kinds of attention."""

FIRST_KEYS: Mapping[str, str] = {"none": "no first key", "learned": "learned first key"}
"""Kinds of a first key that all queries share."""

INITS: Mapping[str, str] = {
    "xavier_head": "Xavier, per head",
    "xavier": "Xavier",
    "xavier_fused": "Xavier, fused",
    "linear": "linear layers",
    "normal_02": "N(0, 0.02²)",
    "t5": "T5",
}
"""Laws of freshly initialised weights."""

VALUES: Mapping[str, Mapping[str, str]] = {
    "scaling": RULES,
    "remedy": REMEDIES,
    "inputs": INPUTS,
    "rows": ROWS,
    "rule": LENGTHS,
    "attention": ATTENTION,
    "first_key": FIRST_KEYS,
    "init": INITS,
}
"""The words for the values of an axis, by its name."""


def with_name(name: str, known: Mapping[str, str] = RULES) -> str:
    """Return the words for a name of the configuration, and the name.

    >>> with_name("inverse_64"), with_name("mine")
    ('8/d_k (inverse_64)', 'mine')
    """
    found = known.get(name, name)
    return name if found == name else f"{found} ({name})"


def says_names(
    names: Iterable[str],
    known: Mapping[str, str] = RULES,
    what: str = "Names in the configuration",
) -> str:
    """Say what names of the configuration mean; empty if none of them has words.

    >>> says_names(["on", "mine"])
    'Names in the configuration: on (1/√d_k).'
    """
    found = [
        f"{name} ({known[name]})" for name in dict.fromkeys(names) if known.get(name, name) != name
    ]
    return f"{what}: {', '.join(found)}." if found else ""


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
