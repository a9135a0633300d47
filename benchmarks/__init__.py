"""How fast the project is, and how much memory it takes: `snakemake benchmark`."""

from pathlib import Path

# First of all, because it sets one BLAS thread before NumPy loads.
import sqrtdk

ROOT = Path(sqrtdk.__file__).resolve().parents[2]
