"""Shorten matplotlib's SVG to what is seen, with text as text.

Groups that only carry a name, metadata and digits below 1/20 point go. Text stays text, which can
be searched and selected, in a font that every machine has; indices are set below the line.
"""

import re
from collections import Counter
from xml.etree import ElementTree

from markupsafe import Markup, escape

SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"

FONTS = "DejaVu Sans, Verdana, Segoe UI, Helvetica, Arial, sans-serif"

DROPPED = ("metadata", "title", "desc")

_NUMBER = re.compile(r"-?\d+\.\d+")


def rich(text: str) -> Markup:
    """Return text for an SVG, with indices below the line.

    >>> print(rich("n_k = 4"))
    n<tspan class="sub" dy="3">k</tspan><tspan dy="-3"> = 4</tspan>
    """
    parts = re.split(r"(?<![A-Za-z])([dmnqkW])_([kqvijn]|model|head)(?![A-Za-z])", text)
    found = escape(parts[0])
    for letter, index, rest in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        found += Markup('{}<tspan class="sub" dy="3">{}</tspan>').format(letter, index)
        # Without further text nothing has to be raised again.
        found += Markup('<tspan dy="-3">{}</tspan>').format(rest) if rest else ""
    return found


def lean(svg: bytes) -> bytes:
    """Return the same picture in fewer bytes and elements."""
    root = ElementTree.fromstring(svg)
    for prefix, uri in (("", SVG), ("xlink", XLINK)):
        ElementTree.register_namespace(prefix, uri)
    _prune(root, _references(root))
    _rename(root)
    _share_styles(root)
    root.set("font-family", FONTS)
    return str(ElementTree.tostring(root, encoding="unicode")).encode() + b"\n"


def _references(root: ElementTree.Element) -> set[str]:
    """Return the ids that something refers to."""
    text = " ".join(value for element in root.iter() for value in element.attrib.values())
    return set(re.findall(r"#([\w-]+)", text))


def _rename(root: ElementTree.Element) -> None:
    """Give short names to what is referred to, in the order in which it appears."""
    ids = [element.attrib["id"] for element in root.iter() if "id" in element.attrib]
    names = {old: f"{chr(97 + i % 26)}{i // 26 or ''}" for i, old in enumerate(ids)}
    for element in root.iter():
        for name, value in element.attrib.items():
            if name == "id":
                element.set(name, names[value])
            elif "#" in value:
                short = re.sub(r"#([\w-]+)", lambda m: "#" + names.get(m[1], m[1]), value)
                element.set(name, short)


def _share_styles(root: ElementTree.Element) -> None:
    """Move styles that several elements have into the style sheet, as classes."""
    styles = [element.get("style", "") for element in root.iter()]
    shared = [style for style, count in Counter(styles).items() if style and count > 1]
    sheet = next((element for element in root.iter() if _local(element) == "style"), None)
    if sheet is None:
        return
    names = {style: f"s{place}" for place, style in enumerate(shared)}
    sheet.text = (sheet.text or "") + "".join(f".{x}{{{style}}}" for style, x in names.items())
    for element in root.iter():
        if element.get("style") in names:
            element.set("class", names[element.attrib.pop("style")])


def _prune(element: ElementTree.Element, used: set[str]) -> None:
    """Shorten an element's attributes, and replace its children that are groups without effect."""
    kept = []
    for child in element:
        if _local(child) in DROPPED:
            continue
        _shorten(child, used)
        if _local(child) == "text":
            child = _indexed(child)
        else:
            child.text = child.text if _local(child) == "style" else None
            _prune(child, used)
        child.tail = None
        # A group without attributes only holds its children. A path may be there without a look.
        if _local(child) in ("g", "defs") and not child.attrib:
            if _local(child) == "g":
                kept += list(child)
            elif len(child):
                kept.append(child)
        elif not (_local(child) == "path" and child.get("style") == "fill:none"):
            kept.append(child)
    element[:] = kept


def _local(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _shorten(element: ElementTree.Element, used: set[str]) -> None:
    for name, value in list(element.attrib.items()):
        if name == "id" and value not in used:
            del element.attrib[name]
            continue
        if name == "style":
            value = re.sub(r"\s*([:;])\s*", r"\1", value)
            value = re.sub(r"font-family:[^;]*;?", "", value)
        elif name == "d":
            value = re.sub(r"\s+(?=[A-Za-z])|(?<=[A-Za-z])\s+", "", value.strip())
            value = re.sub(r"\s+", " ", value)
        elif name == "transform":
            value = re.sub(r"\s*rotate\(-?0(?:\.0)?[ )][^)]*\)?", "", value).strip()
        if name in ("d", "x", "y", "transform", "width", "height"):
            value = _NUMBER.sub(_rounded, value)
        if value:
            element.set(name, value)
        else:
            del element.attrib[name]


def _rounded(number: re.Match[str]) -> str:
    # Flips and scales of images are small factors; positions are tens of points.
    value = float(number[0])
    return f"{value:.1f}".removesuffix(".0") if abs(value) >= 2 else f"{value:.3g}"


def _indexed(element: ElementTree.Element) -> ElementTree.Element:
    """Return a text element with its indices below the line."""
    if len(element) or not re.search(r"[dmnqkW]_[kqvijn]", element.text or ""):
        return element
    size = re.search(r"font-size:([\d.]+)px", element.get("style", ""))
    drop = f"{0.25 * float(size[1]) if size else 2:.1f}"
    # The elements are those of the page's own charts, with steps that fit the size.
    inside = str(rich(element.text or "")).replace('dy="3"', f'dy="{drop}" font-size="75%"')
    inside = inside.replace('dy="-3"', f'dy="-{drop}"').replace('class="sub" ', "")
    found = ElementTree.fromstring(f'<text xmlns="{SVG}">{inside}</text>')
    found.attrib.update(element.attrib)
    return found
