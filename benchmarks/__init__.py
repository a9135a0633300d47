"""Measure the speed and the memory of the project: `snakemake benchmark`."""

from pathlib import Path

import sqrtdk
from sqrtdk.system import threads

# Before any module of this package imports NumPy.
threads.use_one()

ROOT = Path(sqrtdk.__file__).resolve().parents[2]
