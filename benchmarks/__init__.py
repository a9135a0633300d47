"""Measure the speed and the memory of the project: `snakemake benchmark`."""

from pathlib import Path

# First of all, because it limits BLAS to one thread before NumPy loads.
import sqrtdk

ROOT = Path(sqrtdk.__file__).resolve().parents[2]
