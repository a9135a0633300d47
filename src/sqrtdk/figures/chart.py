"""Draw small charts as SVG for the report's own page: its fonts, its colours, real text.

A figure file has several panels and is drawn by matplotlib. What the page tells in passing is one
panel of a few elements: one path for each line, one for all of its points and one for all of its
intervals. Colours are CSS classes (`off`, `on`, …), so they follow the reader's colour scheme.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from sqrtdk.figures import style
from sqrtdk.figures.lean import rich

WIDTH, HEIGHT = 450.0, 285.0
LEFT, RIGHT, TOP, BOTTOM = 46.0, 104.0, 28.0, 42.0
"""Size of a chart and of the room around its panel, in pixels. A phone shows it at two thirds."""

LINE = 16.0
"""Height of a line of text."""

Point = tuple[float, float]


@dataclass(frozen=True)
class Axis:
    """One axis: its name, its ends, its ticks, and whether it is logarithmic."""

    label: str
    low: float
    high: float
    ticks: Sequence[float]
    log: bool = False
    percent: bool = False

    def share(self, value: float) -> float:
        """Return the place of a value between the ends, from 0 to 1; beyond them the nearer end."""
        if self.low == self.high:
            return 0.5
        if self.log:
            value = max(value, self.low * 1e-9)
            at = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            at = (value - self.low) / (self.high - self.low)
        return min(max(at, 0.0), 1.0)

    def text(self, value: float) -> str:
        """Return the label of a tick."""
        return f"{100 * value:.3g} %" if self.percent else style.format_label(value)


@dataclass(frozen=True)
class Line:
    """A line: its points in order, the CSS class of its colour, and its name at its end.

    `dots` are measured points and `bars` their intervals (x, low, high). Without a `curve` there
    are only dots.
    """

    kind: str
    name: str = ""
    curve: Sequence[Point] = ()
    dots: Sequence[Point] = ()
    bars: Sequence[tuple[float, float, float]] = ()
    dashed: bool = False


@dataclass(frozen=True)
class Note:
    """A mark in the chart: a vertical line at x, or a horizontal one at y, with its text."""

    text: str
    x: float | None = None
    y: float | None = None
    classes: str = "note"


def powers(low: float, high: float, base: int = 10, most: int = 7) -> list[float]:
    """Return the powers of a base from low to high, every one or every second one and so on."""
    ends = math.ceil(math.log(low, base) - 1e-9), math.floor(math.log(high, base) + 1e-9)
    found = [float(base) ** x for x in range(ends[0], ends[1] + 1)]
    return found[:: max(1, math.ceil(len(found) / most))]


def sizes(label: str, values: Iterable[float]) -> Axis:
    """Return a logarithmic axis of sizes, such as d_k, with powers of two as ticks."""
    known = sorted(values)
    low, high = known[0], known[-1]
    if low == high:
        low, high = low / 2, high * 2
    return Axis(label, low, high, powers(low, high, 2), log=True)


def draw(
    x: Axis,
    y: Axis,
    lines: Sequence[Line],
    *,
    title: str,
    notes: Sequence[Note] = (),
    extra: str = "",
    area: tuple[Sequence[Point], Sequence[Point]] | None = None,
) -> Markup:
    """Return a chart. `title` names it for screen readers; `area` is shaded between two curves.

    `extra` is markup of further elements in the chart's own coordinates, from `place`.
    """
    parts = [_grid(x, y)]
    if area:
        upper, lower = area
        around = [*upper, *reversed(lower)]
        parts.append(Markup('<path class="area" d="{}Z"/>').format(_path(x, y, around)))
    for line in lines:
        dashed = " dashed" if line.dashed else ""
        if line.bars:
            ends = "".join(_path(x, y, [(at, a), (at, b)]) for at, a, b in line.bars)
            parts.append(Markup('<path class="bar {}" d="{}"/>').format(line.kind, ends))
        if len(line.curve) > 1:
            drawn = _path(x, y, line.curve)
            parts.append(Markup('<path class="line {}" d="{}"/>').format(line.kind + dashed, drawn))
        if line.dots:
            drawn = "".join(f"M{a:.1f} {b:.1f}h0" for a, b in (place(x, y, p) for p in line.dots))
            parts.append(Markup('<path class="dot {}" d="{}"/>').format(line.kind + dashed, drawn))
    parts += [_note(x, y, note, row, lines) for row, note in enumerate(notes)]
    parts.append(_names(x, y, lines))
    return Markup(
        '<svg class="chart" role="img" aria-label="{}" viewBox="0 0 {:.0f} {:.0f}">{}{}</svg>'
    ).format(title, WIDTH, HEIGHT, Markup("").join(parts), Markup(extra))


def place(x: Axis, y: Axis, point: Point) -> Point:
    """Return the pixels of a point."""
    across, down = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    return LEFT + across * x.share(point[0]), TOP + down * (1 - y.share(point[1]))


def _path(x: Axis, y: Axis, points: Iterable[Point]) -> str:
    found = [place(x, y, point) for point in points if not any(map(math.isnan, point))]
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in found) if found else ""


def _text(at: Point, classes: str, text: str, anchor: str = "") -> Markup:
    ends = Markup(' text-anchor="{}"').format(anchor) if anchor else ""
    return Markup('<text x="{:.1f}" y="{:.1f}" class="{}"{}>{}</text>').format(
        *at, classes, ends, rich(text)
    )


ON_LEVEL = 3.0
"""Pixels within which a line lies on a level, and its room above does not count."""


def _rooms(x: Axis, y: Axis, line: Line, level: float) -> tuple[float, float]:
    """Return the pixels from a level up to the ends of a line."""
    points = [point for point in line.curve if not any(map(math.isnan, point))]
    if not points:
        return HEIGHT, HEIGHT
    first, last = (level - place(x, y, point)[1] for point in (points[0], points[-1]))
    return first, last


def _grid(x: Axis, y: Axis) -> Markup:
    """Return grid lines, tick labels and the names of both axes."""
    lines = "".join(_path(x, y, [(x.low, tick), (x.high, tick)]) for tick in y.ticks)
    lines += "".join(_path(x, y, [(tick, y.low), (tick, y.high)]) for tick in x.ticks)
    found = Markup('<path class="grid" d="{}"/>').format(lines)
    bottom = HEIGHT - BOTTOM
    for tick in x.ticks:
        at = place(x, y, (tick, y.low))[0]
        found += _text((at, bottom + 15), "tick", x.text(tick), "middle")
    for tick in y.ticks:
        at = place(x, y, (x.low, tick))[1]
        found += _text((LEFT - 5, at + 4), "tick", y.text(tick), "end")
    found += _text(((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6), "name", x.label, "middle")
    return found + _text((0, 13), "name", y.label)


def _note(x: Axis, y: Axis, note: Note, row: int, lines: Sequence[Line]) -> Markup:
    """Return a mark with its text; those of vertical lines are in rows of their own.

    The text of a horizontal line is at the end where the lines above leave more room.
    """
    if note.x is not None:
        drawn = _path(x, y, [(note.x, y.low), (note.x, y.high)])
        at = place(x, y, (note.x, y.high))
        text = _text((at[0] + 4, at[1] + 11 + LINE * row), "tick", note.text)
    else:
        level = note.y if note.y is not None else y.low
        drawn = _path(x, y, [(x.low, level), (x.high, level)])
        left, right = (place(x, y, (end, level)) for end in (x.low, x.high))
        above = [
            [room for room in rooms if room > ON_LEVEL]
            for rooms in zip(*(_rooms(x, y, line, left[1]) for line in lines), strict=True)
        ]
        room_left, room_right = (min(rooms, default=HEIGHT) for rooms in above or ([], []))
        if room_left < LINE and room_right > room_left:
            text = _text((right[0] - 7, right[1] - 6), "tick", note.text, "end")
        else:
            text = _text((left[0] + 5, left[1] - 4), "tick", note.text)
    mark = Markup('<path class="level" d="{}"/>').format(drawn)
    return Markup('<g class="{}">{}{}</g>').format(note.classes, mark, text)


def _names(x: Axis, y: Axis, lines: Sequence[Line]) -> Markup:
    """Return the names of the lines at their right ends, moved apart where they would meet."""
    ends = []
    for line in lines:
        points = [point for point in (line.curve or line.dots) if not math.isnan(point[1])]
        if line.name and points:
            rows = line.name.split("\n")
            ends.append((place(x, y, points[-1])[1], rows, line.kind))
    ends.sort(key=lambda end: end[0])
    tops: list[float] = []
    free = 2.0
    for height, rows, _ in ends:
        tops.append(max(height - LINE * len(rows) / 2, free))
        free = tops[-1] + LINE * len(rows)
    # What was pushed below the chart moves up again.
    room = HEIGHT - BOTTOM + 8
    for i in range(len(ends) - 1, -1, -1):
        tops[i] = min(tops[i], room - LINE * len(ends[i][1]))
        room = tops[i]
    found = Markup("")
    for top, (_, rows, kind) in zip(tops, ends, strict=True):
        for i, row in enumerate(rows):
            found += _text((WIDTH - RIGHT + 6, top + LINE * i + 12), f"end {kind}", row)
    return found


def matrix(rows: Sequence[Sequence[float]], kind: str, title: str) -> Markup:
    """Return a matrix of weights from 0 to 1 as squares, darker the larger the weight is."""
    levels: dict[int, str] = {}
    for i, row in enumerate(rows):
        for j, weight in enumerate(row):
            # The root separates equal shares from zero, as the eye does not.
            level = round(10 * weight**0.5)
            if level:
                levels[level] = levels.get(level, "") + f"M{j} {i}h1v1h-1z"
    paths = Markup("").join(
        Markup('<path opacity="{}" d="{}"/>').format(level / 10, drawn)
        for level, drawn in sorted(levels.items())
    )
    return Markup(
        '<svg class="weights {}" role="img" aria-label="{}" viewBox="0 0 {} {}">{}</svg>'
    ).format(kind, title, len(rows[0]), len(rows), paths)


def bars(values: Sequence[float], kind: str, title: str, *, top: float, width: int) -> Markup:
    """Return values as bars side by side, as one path; `width` is that of the picture in bars."""
    drawn = "".join(
        f"M{8 * i} 100v-{max(100 * value / top, 0.6):.1f}h6V100z" for i, value in enumerate(values)
    )
    return Markup(
        '<svg class="bars {}" role="img" aria-label="{}" viewBox="0 0 {} 100" '
        'preserveAspectRatio="none"><path d="{}"/></svg>'
    ).format(kind, title, 8 * width, drawn)
