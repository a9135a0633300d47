"""Embed figures in one HTML page as images: nothing in them can act, load or clash.

A browser runs no script of an image, loads nothing for it and keeps its names apart from those of
the page. A style sheet inside the image follows the reader's colour scheme.
"""

import base64
import re
import struct
from xml.etree import ElementTree

from markupsafe import Markup

SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"

ELEMENTS = frozenset({
    "svg", "g", "defs", "symbol", "use", "clipPath", "mask", "pattern", "path", "rect", "circle",
    "ellipse", "line", "polyline", "polygon", "text", "tspan", "image", "linearGradient",
    "radialGradient", "stop", "style",
})  # fmt: skip
"""Elements that a figure needs. Others (scripts, foreign content, metadata) are dropped."""

_URL = re.compile(r"url\(\s*['\"]?(#?)([^)'\"]*)['\"]?\s*\)")
_IMAGE = re.compile(r"data:image/(png|jpeg);base64,[A-Za-z0-9+/=\s]*")

COLORS = {
    "#222222": ("ink", "#e6e4df"),
    "#cccccc": ("rule", "#44474b"),
    "#d55e00": ("off", "#f08a3c"),
    "#0072b2": ("on", "#4aa3e0"),
}
"""Colours of the figures that change in the dark: ink, grid, and those of off and on, whose small
labels need more contrast than lines do. The names are those of variables."""


def embed(text: str, *, title: str, description: str) -> Markup:
    """Return an SVG file's text as an image of the page. Raises ValueError for other text."""
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise ValueError(f"{title} is not an SVG: {error}") from None
    if root.tag.rpartition("}")[2] != "svg":
        raise ValueError(f"{title} is not an SVG: its root is {root.tag.rpartition('}')[2]}")
    width, height = _size(root)
    _clean(root)
    for prefix, uri in (("", SVG), ("xlink", XLINK)):
        ElementTree.register_namespace(prefix, uri)
    text = ElementTree.tostring(root, encoding="unicode")
    # The colours are variables, which a style sheet of the image sets for either scheme.
    for color, (name, _) in COLORS.items():
        text = text.replace(color, f"var(--{name})")
    light, dark = (
        ";".join(f"--{name}:{(color, other)[place]}" for color, (name, other) in COLORS.items())
        for place in (0, 1)
    )
    sheet = f"<style>svg{{{light}}}@media (prefers-color-scheme:dark){{svg{{{dark}}}}}</style>"
    opening = re.search(r"<svg\b[^>]*>", text)
    if opening is None:
        raise ValueError(f"{title} is not an SVG: it has no root")
    body = f"{opening[0]}{sheet}{text[opening.end() :]}"
    return _image("svg+xml," + _quoted(body), title, description, width, height)


def _clean(element: ElementTree.Element) -> None:
    """Remove what a figure does not need; in an image it could not act anyway."""
    for full, value in list(element.attrib.items()):
        name = full.rpartition("}")[2]
        inside = _URL.sub(lambda m: m[0] if m[1] else "none", value)
        allowed = re.fullmatch(r"(?!on)[A-Za-z][\w-]*", name, re.IGNORECASE)
        if name == "href":
            allowed = re.match("#", value) or _IMAGE.fullmatch(value)
        if not allowed:
            del element.attrib[full]
        elif inside != value:
            element.set(full, inside)
    for child in list(element):
        tag = child.tag.rpartition("}")[2] if isinstance(child.tag, str) else ""
        outside = tag == "style" and re.search(r"@import|url\(", child.text or "")
        if tag not in ELEMENTS or outside:
            element.remove(child)
        else:
            _clean(child)


def _quoted(text: str) -> str:
    """Return text for a data URL in double quotes, with few bytes more than it has."""
    text = re.sub(r">\s+<", "><", text)
    # Single quotes around attributes, so that none of the many double ones is escaped.
    text = re.sub(r">[^<]*<", lambda m: m[0].replace('"', "&quot;"), text)
    text = text.replace("'", "&#39;").replace('"', "'")
    for character in "%#&\n":
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def raster(data: bytes, *, title: str, description: str) -> Markup:
    """Return a PNG file as an element of the page, for a figure whose SVG is too large.

    Raises ValueError for data that is not PNG.
    """
    if data[:8] != b"\x89PNG\r\n\x1a\n" or len(data) < 24:
        raise ValueError(f"{title} is not a PNG")
    # The figures have 150 dots per inch, the page 96.
    width, height = (96 / 150 * x for x in struct.unpack(">II", data[16:24]))
    return _image(
        "png;base64," + base64.b64encode(data).decode(), title, description, width, height
    )


def _image(data: str, title: str, description: str, width: float, height: float) -> Markup:
    kind = "plot raster" if data.startswith("png") else "plot"
    return Markup(
        '<img class="{}" alt="{}. {}" width="{:.0f}" height="{:.0f}" loading="lazy" '
        'decoding="async" src="data:image/{}">'
    ).format(kind, title, description, width, height, Markup(data))


def _size(root: ElementTree.Element) -> tuple[float, float]:
    """Return width and height in CSS pixels."""
    units = {"pt": 4 / 3, "in": 96.0, "px": 1.0, "": 1.0}
    found = [re.fullmatch(r"([\d.]+)(\w*)", root.get(x, "")) for x in ("width", "height")]
    sizes = [float(m[1]) * units[m[2]] for m in found if m and m[2] in units]
    if len(sizes) == 2:
        return sizes[0], sizes[1]
    box = [float(x) for x in re.split(r"[\s,]+", root.get("viewBox", "0 0 640 400").strip())]
    return box[2], box[3]
