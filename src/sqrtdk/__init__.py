"""Why attention divides by the square root of d_k, measured."""

import os

__version__ = "0.1.0"

# Before NumPy loads. More BLAS threads would change bits, and workers are processes: two of one
# thread are faster than one of two.
for _name in (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
):
    os.environ[_name] = "1"
