"""Turn the figures of a run into parts of the page, with their captions."""

import itertools
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from sqrtdk.experiments.base import FOLDER
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.report import svg
from sqrtdk.report.dictionary import read_rows

LARGEST = 1_500_000
"""Maximum bytes of an SVG in the page. Larger ones, with dozens of panels, are shown as PNG."""


class Caption(NamedTuple):
    """The text of a figure: a title and paragraphs."""

    title: str
    paragraphs: list[str]


class Figure(NamedTuple):
    """A figure of the page. `files` are the links to it by format."""

    stem: str
    caption: Caption
    note: str
    picture: Markup
    files: dict[str, str]


def figures(folder: Path, experiments: Iterable[str]) -> list[Figure]:
    """Return the figures of the run that exist, in the report's order."""
    result = []
    for experiment in experiments:
        for one in EXPERIMENTS[experiment].figures:
            stem = f"{experiment}-{one.name}"
            path = folder / "figures" / f"{stem}.svg"
            if not path.is_file():
                continue
            caption = read_caption(FOLDER / experiment / "captions" / f"{stem}.rst", stem)
            note = seeds(read_rows(folder / experiment / f"{one.seeds_from}.csv"))
            description = " ".join([*caption.paragraphs, note])
            words = {"title": caption.title, "description": description}
            image = path.with_suffix(".png")
            if path.stat().st_size > LARGEST and image.is_file():
                picture = svg.raster(image.read_bytes(), **words)
            else:
                picture = svg.embed(path.read_text(encoding="utf-8"), **words)
            beside = {
                ending: f"figures/{stem}.{ending}"
                for ending in ("svg", "png")
                if path.with_suffix(f".{ending}").is_file()
            }
            result.append(Figure(stem, caption, note, picture, beside))
    return result


def read_caption(path: Path, stem: str) -> Caption:
    """Read a caption file: title, a line of =, paragraphs. Without one, use the figure's name."""
    if not path.is_file():
        return Caption(stem.replace("-", ": ", 1).replace("_", " "), [])
    title, _, *body = [*path.read_text(encoding="utf-8").splitlines(), ""]
    blocks = re.split(r"\n\s*\n", "\n".join(body).strip())
    paragraphs = [" ".join(block.split()).replace("``", "") for block in blocks]
    return Caption(title.strip().replace("``", ""), [text for text in paragraphs if text])


MEASURED = ("metric", "criterion")
"""Columns that say what a row is the summary of."""


def seeds(rows: list[dict[str, str]]) -> str:
    """Say how many seeds a figure of a table has. The figure itself explains its bands."""
    if not rows or not {"seed", "n_seeds"} & rows[0].keys():
        return ""
    if "seed" in rows[0]:
        return f"One draw, seed {rows[0]['seed']}."
    # If some seeds lack a metric, its figure says so; count the most seeds of any metric.
    most: dict[tuple[tuple[str, str], ...], int] = {}
    for row in rows:
        at = tuple(itertools.takewhile(lambda item: item[0] not in MEASURED, row.items()))
        most[at] = max(most.get(at, 0), int(row["n_seeds"]))
    counts = sorted(set(most.values()))
    if counts[-1] == 1:
        return "One seed, no interval."
    return f"{counts[0]} seeds." if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds."
