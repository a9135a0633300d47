"""Let linear algebra use one thread.

More threads would change the last bits of results. They would not be faster either: a run starts
one process per core.
"""

import os

VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
"""Environment variables that the BLAS libraries read when NumPy loads them."""


def use_one() -> None:
    """Set the variables to 1 for this process and those that it starts, whatever they were.

    Has an effect on this process only before NumPy is loaded.
    """
    os.environ.update(dict.fromkeys(VARIABLES, "1"))
