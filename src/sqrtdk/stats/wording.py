"""Format numbers and intervals for sentences."""

import math

from sqrtdk.stats.intervals import Estimate

# In words


_PLAIN = (1e-3, 1e6)
"""Numbers between these are written out; others with a power of ten."""


def format_number(value: float, digits: int = 3) -> str:
    """Format a number with this many significant digits.

    >>> format_number(0.0123456), format_number(1234.5), format_number(0.0000123)
    ('0.0123', '1234', '1.23e-5')
    """
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "undefined"
    if _PLAIN[0] <= abs(value) < _PLAIN[1]:
        return f"{value:.{max(0, digits - 1 - _exponent(value))}f}"
    return _scientific(value, digits)


ROUNDING = 1e-12
"""Share of a mean below which the width of its interval is rounding: all seeds are equal."""


def format_estimate(value: Estimate, unit: str = "") -> str:
    """Format a number as precisely as its interval, with the interval and the exact value.

    The mean has at least two significant digits, and the interval the same decimals.

    >>> format_estimate(Estimate(0.5843, 0.571, 0.598)), format_estimate(Estimate(0.5843))
    ('0.58 (0.57 to 0.60)', '0.584')
    >>> format_estimate(Estimate(0.1 + 0.2, 0.3, 0.1 + 0.2))
    '0.300'
    >>> format_estimate(Estimate(82.39, 82.13, 82.65, exact=82.41), " %")
    '82.4 % (82.1 to 82.7, exact 82.4)'
    """
    mean, low, high, exact = value
    half = (high - low) / 2 if math.isfinite(high) else mean - low
    if not half > ROUNDING * abs(mean):
        tail = "" if math.isnan(exact) else f" (exact {format_number(exact)})"
        return f"{format_number(mean)}{unit}{tail}"
    reference = abs(mean) or half
    plain, size = _PLAIN[0] <= reference < _PLAIN[1], _exponent(reference)
    decimals = max(0, min(max(-_exponent(half), 1 - size), 5 - size))

    def one(x: float) -> str:
        if math.isinf(x):
            return "unbounded"
        return f"{x:.{decimals}f}" if plain else _scientific(x, 2)

    tail = "" if math.isnan(exact) else f", exact {one(exact)}"
    return f"{one(mean)}{unit} ({one(low)} to {one(high)}{tail})"


def _exponent(value: float) -> int:
    return math.floor(math.log10(abs(value)))


def _scientific(value: float, digits: int) -> str:
    if value == 0 or not math.isfinite(value):
        return format_number(value)
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def format_percent(value: Estimate) -> str:
    """Format a share as a percentage.

    >>> format_percent(Estimate(0.8239, 0.8213, 0.8265))
    '82.4 % (82.1 to 82.7)'
    """
    return format_estimate(Estimate(*(100 * x for x in value)), " %")


NBSP = "\u00a0"
