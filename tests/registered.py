"""The figures and tables of every experiment by name, as tests loop over them."""

from sqrtdk.experiments.registry import EXPERIMENTS

FIGURES = {
    name: tuple(one.name for one in x.figures) for name, x in EXPERIMENTS.items() if x.figures
}
BUILT = tuple(name for name, x in EXPERIMENTS.items() if not x.needs_key)
"""The experiments that a run builds without being asked for them."""

TABLES = {name: x.drawn_from for name, x in EXPERIMENTS.items()}
