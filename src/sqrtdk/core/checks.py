"""Check arguments where they enter the library: arrays, shapes, numbers, names and formulas.

Every public function checks its arguments here, so the same mistake gives the same error
everywhere. A value of the wrong kind is a TypeError, and a value out of range or an unknown name a
ValueError. The errors are one line each. docs/library.md lists what is allowed.
"""

import inspect
import math
import numbers
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import UnionType
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sqrtdk.messages import nearest, shorten

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

MOST = 2**31
"""Largest size of an axis. No sequence is longer, and the size of a matrix fits 64 bits."""

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
    found = to_array(name, array)
    if _computed_in(found.dtype) is None:
        raise TypeError(f"{name} has the type {found.dtype}; allowed: {ALLOWED}")
    return found


def to_array(name: str, array: object) -> NDArray[Any]:
    """Return anything as an array of its own type. Raises ValueError for rows of several lengths.

    >>> to_array("q", [[1.0], [1.0, 2.0]])
    Traceback (most recent call last):
    ValueError: q is [[1.0], [1.0, 2.0]]; allowed: rows of one length
    """
    try:
        return np.asarray(array)
    except ValueError:
        raise ValueError(f"{name} is {shorten(array)}; allowed: rows of one length") from None


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
    found = to_array("mask", mask)
    if found.dtype != np.bool_:
        raise TypeError(f"a mask must be boolean, True where a key is visible, not {found.dtype}")
    if found.ndim > len(shape) or any(
        length not in (1, expected)
        for length, expected in zip(reversed(found.shape), reversed(shape), strict=False)
    ):
        raise ValueError(f"mask {found.shape} does not broadcast to logits {shape}")
    return found


def check_number(
    name: str,
    value: object,
    allowed: str = "",
    *,
    least: float = -math.inf,
    most: float = math.inf,
) -> float:
    """Return the number as a Python float.

    A NumPy scalar would turn float32 arrays into float64 (NEP 50). Raises TypeError for anything
    but one real number (None, True, a string, an array with axes), and ValueError for NaN,
    infinities and a number outside of `least` to `most`. `allowed` replaces the words for these.

    >>> check_number("scale", np.float32(0.5))
    0.5
    >>> check_number("dead_below", -1, least=0.0)
    Traceback (most recent call last):
    ValueError: dead_below is -1; allowed: finite numbers from 0
    """
    allowed = allowed or f"finite numbers{_span(least, most)}"
    try:
        found = np.asarray(float(value) if isinstance(value, numbers.Rational) else value)
    except (OverflowError, TypeError, ValueError) as error:
        kind = ValueError if isinstance(error, OverflowError) else TypeError
        raise kind(f"{name} is {shorten(value)}; allowed: {allowed}") from None
    is_number = found.dtype.kind in "iuf" or found.dtype.name in COMPUTED_IN
    if found.ndim or isinstance(value, bool) or not is_number:
        raise TypeError(f"{name} is {shorten(value)}; allowed: {allowed}")
    number = float(found)
    if not (math.isfinite(number) and least <= number <= most):
        given = int(value) if isinstance(value, int) else number
        raise ValueError(f"{name} is {given}; allowed: {allowed}")
    return number


def check_whole(name: str, value: object, *, least: int = 0, most: int = MOST) -> int:
    """Return the whole number as a Python int.

    Raises TypeError for anything but an integer of Python or NumPy (True, 4.0, a string), and
    ValueError for one outside of `least` to `most`.

    >>> check_whole("n_k", np.int64(4))
    4
    >>> check_whole("n_k", 4.5, least=1)
    Traceback (most recent call last):
    TypeError: n_k is 4.5; allowed: whole numbers from 1 to 2147483648
    """
    allowed = f"whole numbers from {least} to {most}"
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} is {shorten(value)}; allowed: {allowed}")
    if not least <= value <= most:
        raise ValueError(f"{name} is {shorten(int(value))}; allowed: {allowed}")
    return int(value)


def check_flag(name: str, value: object) -> bool:
    """Return a truth value as a Python bool. Raises TypeError for anything else, such as "no"."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} is {shorten(value)}; allowed: True or False")
    return bool(value)


def check_name(name: str, value: object, known: Iterable[str]) -> str:
    """Return one of the known names. Raises TypeError for no text, ValueError for another name.

    >>> check_name("gradient", "score", ["logits", "scores"])
    Traceback (most recent call last):
    ValueError: gradient is 'score'; allowed: logits, scores; did you mean scores?
    """
    known = list(known)
    if isinstance(value, str) and value in known:
        return value
    # A name that is missing is a name that is not known.
    is_name = value is None or isinstance(value, str)
    hint = nearest(value, known) if is_name else ""
    kind = ValueError if is_name else TypeError
    raise kind(f"{name} is {shorten(value)}; allowed: {', '.join(known)}{hint}")


SIZES = ("d_k", "n_k", "n_q")
"""Arguments of formulas that are not parameters of an entry."""


@cache
def parameters_of(formula: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a formula: its keyword-only arguments other than the sizes."""
    found = inspect.signature(formula).parameters.values()
    return {p.name: p for p in found if p.kind is p.KEYWORD_ONLY and p.name not in SIZES}


def check_entry(
    entry: object, word: str, formulas: Mapping[str, Callable[..., Any]]
) -> tuple[str, dict[str, Any]]:
    """Return the formula that an entry names under `word`, and its parameters, which are checked.

    The annotations of a formula define what its parameters may be. The values are returned as they
    are. Raises TypeError for anything but a mapping and for a value of the wrong kind; ValueError
    for an unknown name of a formula or a parameter, and for a missing parameter.

    >>> def power(d_k: float, *, exponent: float) -> float: ...
    >>> check_entry({"rule": "power", "exponent": 0.5}, "rule", {"power": power})
    ('power', {'exponent': 0.5})
    >>> check_entry({"rule": "power", "exponnt": 0.5}, "rule", {"power": power})
    Traceback (most recent call last):
    ValueError: the parameter of power is 'exponnt'; allowed: exponent; did you mean exponent?
    """
    if not isinstance(entry, Mapping):
        example = f"a mapping such as {{{word!r}: {next(iter(formulas))!r}}}"
        raise TypeError(f"the entry is {shorten(entry)}; allowed: {example}")
    name = check_name(word, entry.get(word), formulas)
    known = parameters_of(formulas[name])
    given = {parameter: value for parameter, value in entry.items() if parameter != word}
    for parameter, value in given.items():
        if not known:
            raise ValueError(f"the parameter of {name} is {shorten(parameter)}; allowed: none")
        check_name(f"the parameter of {name}", parameter, known)
        _check_parameter(parameter, value, known[parameter].annotation)
    for parameter, one in known.items():
        if parameter not in given and one.default is one.empty:
            raise ValueError(f"{name} needs {parameter}")
    return name, given


def _check_parameter(name: str, value: object, annotation: Any) -> None:
    """Raise unless a value fits an annotation: float, Literal of words, or float or None."""
    kinds = get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)
    if value is None and type(None) in kinds:
        return
    if float in kinds:
        check_number(name, value)
    else:
        check_name(name, value, get_args(annotation))


def _span(least: float, most: float) -> str:
    """Return the words for a range; infinite ends are left out."""
    ends = (("from", least), ("to" if math.isfinite(least) else "up to", most))
    return "".join(f" {word} {end:g}" for word, end in ends if math.isfinite(end))
