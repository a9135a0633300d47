"""Check arguments where they enter the library: types of arrays and numbers, and shapes that fit.

Every public function of `attention`, `gradients`, `metrics` and `kernel` checks its arrays here,
so the same mistake gives the same error everywhere. The errors are one line each. docs/library.md
lists what is allowed.
"""

import math
import numbers
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

COMPUTED_IN: dict[str, type[np.floating[Any]]] = {
    "float16": np.float32,
    "bfloat16": np.float32,
    "float32": np.float32,
    "float64": np.float64,
    np.dtype(np.longdouble).name: np.longdouble,
}
"""Allowed array types by name, and the type that each is computed in.

Half precision has too few digits for a sum over keys. bfloat16 is a type of `ml_dtypes`, which is
not imported here, so it is recognized by its name.
"""

ALLOWED = "float32, float64 and longdouble, and float16 and bfloat16, which are computed in float32"


def as_floats(**arrays: ArrayLike) -> list[NDArray[np.floating[Any]]]:
    """Return the arrays in the one type that all of them are computed in, see `COMPUTED_IN`.

    Arrays of that type and of the machine's byte order are not copied. Raises TypeError for any
    other type, and for a masked array, whose mask would be lost.

    >>> as_floats(q=np.ones(2, np.float16), k=np.ones(2, np.float64))[0].dtype
    dtype('float64')
    """
    found = [_as_array(name, array) for name, array in arrays.items()]
    dtype = np.result_type(*{_computed_in(array.dtype) for array in found})
    return [array.astype(dtype, copy=False) for array in found]


def as_float(name: str, array: ArrayLike) -> NDArray[np.floating[Any]]:
    """Return one array as `as_floats` does."""
    return as_floats(**{name: array})[0]


def _as_array(name: str, array: ArrayLike) -> NDArray[Any]:
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(
            f"{name} is a masked array; allowed: its data, and a boolean mask as an argument"
        )
    found = np.asarray(array)
    if _computed_in(found.dtype) is None:
        raise TypeError(f"{name} has the type {found.dtype}; allowed: {ALLOWED}")
    return found


@cache
def _computed_in(dtype: np.dtype[Any]) -> type[np.floating[Any]] | None:
    # Cached, because NumPy builds the name on every access.
    return COMPUTED_IN.get(dtype.name)


def check_shapes(**arrays: tuple[NDArray[Any], str]) -> None:
    """Raise ValueError unless the arrays have the given axes, and axes of one name one length.

    Axes are given by name: "n_q d_k" lists all axes, "... n_q d_k" the last two after any others.
    These others have to broadcast. The error names both arrays with their shapes.

    >>> check_shapes(q=(np.ones((2, 3)), "n_q d_k"), k=(np.ones((4, 5)), "n_k d_k"))
    Traceback (most recent call last):
    ValueError: q (2, 3) and k (4, 5) differ in d_k: 3 and 5
    """
    known: dict[str, tuple[str, int]] = {}
    for name, (array, spec) in arrays.items():
        axes, more = _axes(spec)
        leading = array.ndim - len(axes)
        if leading < 0 or (leading > 0 and not more):
            raise ValueError(f"{name} {array.shape} must have the axes [{', '.join(spec.split())}]")
        for axis, length in zip(axes, array.shape[leading:], strict=True):
            other, expected = known.setdefault(axis, (name, length))
            if length != expected:
                raise ValueError(
                    f"{other} {arrays[other][0].shape} and {name} {array.shape} "
                    f"differ in {axis}: {expected} and {length}"
                )
    if len(arrays) == 1:
        return
    broadcast = {
        name: array.shape[: array.ndim - len(_axes(spec)[0])]
        for name, (array, spec) in arrays.items()
    }
    for name, shape in broadcast.items():
        for other, before in broadcast.items():
            if not _broadcast(shape, before):
                raise ValueError(
                    f"{name} {arrays[name][0].shape} and {other} {arrays[other][0].shape} differ "
                    f"in the axes before the last ones: {shape} and {before}, which do not "
                    "broadcast"
                )


@cache
def _axes(spec: str) -> tuple[tuple[str, ...], bool]:
    """Return the names in a specification of axes, and whether other axes may precede them."""
    return tuple(spec.removeprefix("... ").split()), spec.startswith("... ")


def _broadcast(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    pairs = zip(reversed(one), reversed(other), strict=False)
    return all(a == b or 1 in (a, b) for a, b in pairs)


def check_mask(mask: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return the mask as an array, or raise if it is not a mask for logits of this shape.

    Raises TypeError for a mask that is not boolean: in an additive mask (0 to show, -inf to hide)
    zero would count as hidden, the reverse of what is meant. Raises ValueError for a mask that
    does not broadcast to the shape.
    """
    found = np.asarray(mask)
    if found.dtype != np.bool_:
        raise TypeError(f"a mask must be boolean, True where a key is visible, not {found.dtype}")
    if found.ndim > len(shape) or any(
        length not in (1, expected)
        for length, expected in zip(reversed(found.shape), reversed(shape), strict=False)
    ):
        raise ValueError(f"mask {found.shape} does not broadcast to logits {shape}")
    return found


def check_number(name: str, value: object, allowed: str = "a finite number") -> float:
    """Return the number as a Python float.

    A NumPy scalar would turn float32 arrays into float64 (NEP 50). Raises TypeError for anything
    but one real number (None, True, a string, an array with axes), and ValueError for NaN and
    infinities.

    >>> check_number("scale", np.float32(0.5))
    0.5
    """
    found = np.asarray(float(value) if isinstance(value, numbers.Rational) else value)
    is_number = found.dtype.kind in "iuf" or found.dtype.name in COMPUTED_IN
    if found.ndim or isinstance(value, bool) or not is_number:
        raise TypeError(f"{name} is {_shortened(value)}; allowed: {allowed}")
    number = float(found)
    if not math.isfinite(number):
        raise ValueError(f"{name} is {number}; allowed: {allowed}")
    return number


def _shortened(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape} and type {value.dtype}"
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."
