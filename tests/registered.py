"""The figures and tables of every experiment by name, as tests loop over them."""

from sqrtdk.experiments.registry import EXPERIMENTS

FIGURES = {name: tuple(one.name for one in x.figures) for name, x in EXPERIMENTS.items()}
TABLES = {name: x.drawn_from for name, x in EXPERIMENTS.items()}
