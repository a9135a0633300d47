"""Turn formulas in TeX into MathML, which browsers typeset without a script."""

import html
import re
from functools import cache

from latex2mathml.converter import convert
from markupsafe import Markup

_BETWEEN = r", \quad "


@cache
def tex(formula: str, *, display: bool = False) -> Markup:
    r"""Return a formula as MathML; `display` is for one on a line of its own.

    Parts between `, \quad ` are elements of their own, so that a narrow page breaks between them.

    >>> print(tex("d_k"))
    <math><msub><mi>d</mi><mi>k</mi></msub></math>
    """
    if display and _BETWEEN in formula:
        parts = formula.split(_BETWEEN)
        commas = [*[",\\;"] * (len(parts) - 1), ""]
        both = zip(parts, commas, strict=True)
        return Markup(" ").join(tex(part + comma, display=True) for part, comma in both)
    found = convert(formula, display="block" if display else "inline")
    # In HTML the namespace is implied; entities of plain characters only cost bytes.
    found = re.sub(r"&#x([0-9A-Fa-f]+);", lambda m: html.escape(chr(int(m[1], 16))), found)
    found = found.replace(' xmlns="http://www.w3.org/1998/Math/MathML"', "")
    found = found.replace(' display="inline"', "")
    # A group of one element groups nothing.
    single = r"<mrow>(<(\w+)(?: [^>]*)?>[^<]*</\2>|<msub><mi>\w</mi><mi>\w</mi></msub>)</mrow>"
    return Markup(re.sub(single, r"\1", found))


def with_formulas(text: str) -> list[tuple[str, Markup]]:
    r"""Split text into words and the formula after them, given between dollars.

    >>> [(words, str(formula)[:6]) for words, formula in with_formulas(r"so $a$ is")]
    [('so ', '<math>'), (' is', '')]
    """
    parts = re.split(r"\$\$(.+?)\$\$|\$(.+?)\$", text)
    found = []
    for words, block, inline in zip(
        parts[::3], [*parts[1::3], None], [*parts[2::3], None], strict=True
    ):
        formula = tex(block, display=True) if block else tex(inline) if inline else Markup("")
        found.append((words, formula))
    return found
