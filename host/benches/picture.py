"""Draws lines over sizes as an SVG: both axes logarithmic, each line's label at its end.

The picture brings its own white ground, so that it reads alike in a light and in a dark page. Standard library alone.
"""

import dataclasses
import math
from xml.sax.saxutils import escape

INK, FAINT, GRID = "#1f2328", "#656d76", "#e4e7eb"

WIDTH, HEIGHT = 960, 596
LEFT, RIGHT, TOP, BOTTOM = 76, 792, 130, 536
LABEL_GAP = 19


def size_label(size):
    """As `64 KB`, binary."""
    for unit, letters in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if size >= unit:
            return f"{size / unit:g} {letters}"
    return f"{size} B"


class Scale:
    """A logarithmic axis, from `low` at `start` to `high` at `stop`."""

    def __init__(self, low, high, start, stop):
        self.low, self.high, self.start = low, high, start
        self.unit = (stop - start) / math.log(high / low)

    def __call__(self, value):
        return self.start + self.unit * math.log(value / self.low)


def decades(low, high):
    """Ticks 1, 2, 5, 10, ... from the last that is not above `low` to the first that is not below `high`."""
    near = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
    steps = [step * 10.0**power for power in near for step in (1, 2, 5)]
    first = max(step for step in steps if step <= low * (1 + 1e-9))
    last = min(step for step in steps if step >= high * (1 - 1e-9))
    return [step for step in steps if first <= step <= last]


def size_ticks(low, high):
    """Powers of four from 1 KB that lie between, and of two where these are few."""
    powers = [1 << power for power in range(4, 41) if low <= 1 << power <= high]
    every_second = [size for size in powers if size.bit_length() % 2]
    return every_second if len(powers) > 8 else powers


def spread(wanted, gap, low, high):
    """Positions near those wanted, in their order, at least `gap` apart and, if there is room, between `low` and `high`."""
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    blocks = []  # [wanted start, count]: labels that touch, moved together to where they are least off in all
    for index in order:
        blocks.append([wanted[index], 1])
        while len(blocks) > 1 and blocks[-2][0] + gap * blocks[-2][1] > blocks[-1][0]:
            (start, count), (next_start, next_count) = blocks[-2:]
            total = count + next_count
            blocks[-2:] = [[(start * count + (next_start - gap * count) * next_count) / total, total]]
    places = [start + gap * step for start, count in blocks for step in range(count)]
    for step, place in enumerate(places):
        places[step] = max(place, low + gap * step)
    for step in reversed(range(len(places))):
        places[step] = min(places[step], high - gap * (len(places) - 1 - step))
    result = [0.0] * len(wanted)
    for index, place in zip(order, places):
        result[index] = place
    return result


def text(x, y, words, color=INK, size=13, anchor="start", weight="normal"):
    style = f'font-size="{size}" font-weight="{weight}" text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style} fill="{color}">{escape(words)}</text>'


def path(points, color, width, dash=""):
    steps = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<polyline points="{steps}" fill="none" stroke="{color}" stroke-width="{width}" stroke-linejoin="round"{dashes}/>'


@dataclasses.dataclass
class Line:
    """A line of a picture: values by bytes."""

    label: str
    color: str
    values: dict
    width: float = 1.8
    dash: str = ""


def picture(title, subtitle, unit, lines):
    """An SVG of lines over sizes, both axes logarithmic, each line's label at its end. It brings its own white ground."""
    sizes = [size for line in lines for size in line.values]
    values = [value for line in lines for value in line.values.values()]
    ticks = decades(min(values), max(values))
    across = Scale(min(sizes), max(sizes), LEFT, RIGHT)
    up = Scale(ticks[0], ticks[-1], BOTTOM, TOP)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img"'
        " font-family=\"-apple-system, 'Segoe UI', Helvetica, Arial, 'DejaVu Sans', sans-serif\">",
        f"<title>{escape(title)}</title>",
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="6" fill="#ffffff" stroke="#d0d7de"/>',
        text(24, 32, title, size=18, weight="600"),
        *(text(24, 54 + 18 * index, words, FAINT) for index, words in enumerate(subtitle)),
    ]
    # Every tick gets a grid line; where the axis has many, powers of ten alone get a number.
    for tick in ticks:
        y = up(tick)
        out.append(path([(LEFT, y), (RIGHT, y)], GRID, 1))
        if len(ticks) < 14 or math.log10(tick) % 1 in (0.0, 1.0):
            out.append(text(LEFT - 8, y + 4, f"{tick:g}", FAINT, 12, "end"))
    for tick in size_ticks(min(sizes), max(sizes)):
        x = across(tick)
        out.append(path([(x, TOP), (x, BOTTOM)], GRID, 1))
        out.append(text(x, BOTTOM + 20, size_label(tick), FAINT, 12, "middle"))
    out.append(path([(LEFT, BOTTOM), (RIGHT, BOTTOM)], FAINT, 1))
    out.append(text(LEFT, BOTTOM + 44, "bytes of a rank's input", FAINT, 12))
    out.append(text(LEFT - 8, TOP - 15, unit, FAINT, 12, "end"))
    ends = []
    for line in lines:
        points = [(across(size), up(line.values[size])) for size in sorted(line.values)]
        out.append(path(points, line.color, line.width, line.dash))
        ends.append(points[-1])
    places = spread([y for _, y in ends], LABEL_GAP, TOP, BOTTOM)
    for line, (x, y), place in zip(lines, ends, places):
        out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{line.width + 0.7:.1f}" fill="{line.color}"/>')
        # From a line that ends early to its label: no data, and it does not look so.
        if x < RIGHT - 1:
            out.append(path([(x, y), (RIGHT, y)], line.color, 1, "1 3"))
        out.append(path([(RIGHT + 4, y), (RIGHT + 18, place), (RIGHT + 22, place)], line.color, 1))
        weight = "700" if line.width > 2 else "normal"
        out.append(text(RIGHT + 27, place + 4.5, line.label, line.color, 13, weight=weight))
    return "\n".join(out) + "\n</svg>\n"
