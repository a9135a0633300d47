"""Register every experiment under its name, which is also its folder in conf/experiment/."""

from sqrtdk.experiments.base import FOLDER, Experiment, load
from sqrtdk.system import errors, stdio

ORDER = (
    "scaling",
    "related",
    "precision",
    "worked_example",
    "training",
    "projections",
    "encoder_decoder",
    "capacity",
    "score_width",
    "reach",
    "related_exact",
    "exponent",
    "length",
    "remedies",
    "sinks",
    "extrapolation",
    "tensors",
)
"""The order of the report; experiments that are not listed follow by name."""

LEFT_OUT: set[str] = set()
"""Names of experiments that cannot be imported."""


def rank(names: tuple[str, ...], name: str) -> tuple[int, str]:
    """Return the sort key of a name: its place in `names`, or after all of them."""
    return names.index(name) if name in names else len(names), name


def find() -> dict[str, Experiment]:
    """Return every experiment that can be imported, in the order of the report."""
    names = [path.parent.name for path in FOLDER.glob("*/experiment.py")]
    found = {}
    for name in sorted(names, key=lambda name: rank(ORDER, name)):
        try:
            one = load(name, "experiment").EXPERIMENT
            if one.name != name:
                raise ValueError(f"its name is {one.name!r}, its folder's {name!r}")
        except Exception as error:
            reason = f"{type(error).__name__}: {errors.one_line(error)}"
            stdio.warn(f"experiment {name} is left out: {reason}")
            LEFT_OUT.add(name)
        else:
            found[name] = one
    return found


EXPERIMENTS = find()

EXAMPLES = frozenset(name for name, one in EXPERIMENTS.items() if one.example)
"""Experiments that are one example: keys for all experiments do not change their numbers."""
