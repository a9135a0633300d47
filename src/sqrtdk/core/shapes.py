"""The words for shapes in annotations, such as `Float[Floats, "cells n_q d_k"]`.

Type checkers take them from jaxtyping, and so do the tests, which compare all annotated arrays of a
call with each other. In a run they mean nothing, because importing jaxtyping takes a tenth of the
time of a small job. Axes are named as in `attention`; `*batch` is any number of further axes.
"""

import re
import sys
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.floating]
Mask: TypeAlias = NDArray[np.bool_]
Ints: TypeAlias = NDArray[np.integer]

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int
    from numpy.typing import ArrayLike

    Reduced: TypeAlias = Floats
else:
    # Without any axis left, NumPy returns a number in place of an array.
    Reduced = NDArray[np.floating] | np.floating
    # Public functions answer wrong types with errors of their own.
    ArrayLike = object
    if "jaxtyping" in sys.modules:
        from jaxtyping import AbstractDtype, Bool, Int

        class Float(AbstractDtype):
            """Floating-point numbers of any size; jaxtyping's own do not include longdouble."""

            dtypes = (re.compile(r"b?float\d+|longdouble"),)

    else:

        class Float:
            """A word that means nothing in a run."""

            def __class_getitem__(cls, shape: object) -> type:
                return cls

        Bool = Int = Float

__all__ = ["ArrayLike", "Bool", "Float", "Floats", "Int", "Ints", "Mask", "Reduced"]
