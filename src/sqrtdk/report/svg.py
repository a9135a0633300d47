"""Embed figures in one HTML page: safe, with unique ids, in the page's colours."""

import base64
import re
import struct
from xml.etree import ElementTree

from markupsafe import Markup, escape

ELEMENTS = frozenset({
    "svg", "g", "defs", "symbol", "use", "clipPath", "mask", "pattern", "path", "rect", "circle",
    "ellipse", "line", "polyline", "polygon", "text", "tspan", "image", "linearGradient",
    "radialGradient", "stop",
})  # fmt: skip
"""Elements that a figure needs. Others (scripts, foreign content, metadata) are dropped."""

COLORS = {
    "#222222": "var(--ink)",
    "#cccccc": "var(--rule)",
    "#d55e00": "var(--arm-off)",
    "#0072b2": "var(--arm-on)",
}
"""Colours of the figures that change in dark mode: ink, grid, and those of off and on, whose
small labels need more contrast than lines do."""

_URL = re.compile(r"url\(\s*['\"]?(#?)([^)'\"]*)['\"]?\s*\)")
_IMAGE = re.compile(r"data:image/(png|jpeg);base64,[A-Za-z0-9+/=\s]*")


def inline(text: str, *, prefix: str, title: str, description: str) -> Markup:
    """Return an SVG file's text as an element of an HTML page.

    Every id begins with `prefix`, because several figures share one page and their glyphs have
    the same names. The figure never loads anything. Raises ValueError for text that is not SVG.
    """
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise ValueError(f"{prefix} is not an SVG: {error}") from None
    if _local(root.tag) != "svg":
        raise ValueError(f"{prefix} is not an SVG: its root is {_local(root.tag)}")
    width, height = _size(root)
    names = Markup('<title id="{0}-title">{1}</title><desc id="{0}-description">{2}</desc>').format(
        prefix, title, description
    )
    opening = Markup(
        '<svg class="plot" role="img" aria-labelledby="{0}-title {0}-description" '
        'viewBox="{1}" style="--natural: {2:.0f}px; aspect-ratio: {2:.0f} / {3:.0f}">'
    ).format(prefix, root.get("viewBox", f"0 0 {width:g} {height:g}"), width, height)
    return opening + names + Markup("").join(_element(x, prefix) for x in root) + Markup("</svg>")


def raster(data: bytes, *, title: str, description: str) -> Markup:
    """Return a PNG file as an element of the page, for a figure whose SVG is too large.

    Raises ValueError for data that is not PNG.
    """
    if data[:8] != b"\x89PNG\r\n\x1a\n" or len(data) < 24:
        raise ValueError(f"{title} is not a PNG")
    # The figures have 150 dots per inch, the page 96.
    width, height = (96 / 150 * x for x in struct.unpack(">II", data[16:24]))
    return Markup(
        '<img class="plot raster" alt="{}. {}" src="data:image/png;base64,{}" '
        'style="--natural: {:.0f}px; aspect-ratio: {:.0f} / {:.0f}">'
    ).format(title, description, base64.b64encode(data).decode(), width, width, height)


def _size(root: ElementTree.Element) -> tuple[float, float]:
    """Return width and height in CSS pixels."""
    units = {"pt": 4 / 3, "in": 96.0, "px": 1.0, "": 1.0}
    found = [re.fullmatch(r"([\d.]+)(\w*)", root.get(x, "")) for x in ("width", "height")]
    sizes = [float(m[1]) * units[m[2]] for m in found if m and m[2] in units]
    if len(sizes) == 2:
        return sizes[0], sizes[1]
    box = [float(x) for x in re.split(r"[\s,]+", root.get("viewBox", "0 0 640 400").strip())]
    return box[2], box[3]


def _local(name: object) -> str:
    # Comments and processing instructions have a function as their tag.
    return name.rpartition("}")[2] if isinstance(name, str) else ""


def _element(element: ElementTree.Element, prefix: str) -> Markup:
    """Return one element and everything inside it, except what is not allowed."""
    name = _local(element.tag)
    if name not in ELEMENTS:
        return Markup("")
    inside = Markup("").join(_element(x, prefix) + escape(_between(x)) for x in element)
    inside = escape(element.text or "") + inside if name in ("text", "tspan") else inside
    attributes = Markup("").join(
        Markup(' {}="{}"').format(key, value) for key, value in _attributes(element, prefix).items()
    )
    if not inside:
        return Markup("<{}{}/>").format(Markup(name), attributes)
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(name), attributes, inside)


def _between(element: ElementTree.Element) -> str:
    """Return the text after an element, which is only white space outside of text."""
    return element.tail.strip() if element.tail else ""


def _attributes(element: ElementTree.Element, prefix: str) -> dict[str, str]:
    result = {}
    for full, value in element.attrib.items():
        name = _local(full)
        if name.lower().startswith("on") or not re.fullmatch(r"[A-Za-z][\w-]*", name):
            continue
        if name == "id":
            value = f"{prefix}-{value}"
        elif name == "href":
            if value.startswith("#"):
                value = f"#{prefix}-{value[1:]}"
            elif not _IMAGE.fullmatch(value):
                continue
        else:
            value = _URL.sub(lambda m: f"url(#{prefix}-{m[2]})" if m[1] else "none", value)
            for color, variable in COLORS.items():
                value = value.replace(color, variable) if name == "style" else value
        result[name] = value
    return result
