"""Small charts as inline SVG, whose numbers are also in a table or in the tooltip of each mark.

Ours because plotting libraries embed megabytes of JavaScript in a page, and these bars need a few lines of SVG.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from headway.reports.html import PALETTE, Html, join, tag

WIDTH, HEIGHT = 560, 240  # units of the SVG view box
LEFT, RIGHT, TOP, BOTTOM = 54, 24, 14, 34  # margins around the plot area


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Return axis ticks that cover a range, in steps of 1, 2 or 5 times a power of ten."""
    span = high - low
    if span <= 1e-6 * max(abs(low), abs(high)):  # a flat curve: leave space around it
        span = abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span / about))
    step = next(power * factor for factor in (1, 2, 5, 10) if span / (power * factor) <= about)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{i * step:.12g}") for i in range(first, max(last, first + 1) + 1)]


def short(value: float) -> str:
    """Format a number for an axis or a tooltip."""
    if value and (abs(value) >= 1e6 or abs(value) < 1e-3):
        return f"{value:.3g}"
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def colour(index: int) -> str:
    """Return the CSS of a series' colour: a variable, so that it differs between light and dark mode."""
    return f"var(--c{index % len(PALETTE)})"


def key(names: Sequence[str]) -> Html:
    """Return the legend of a chart; empty if there is only one series."""
    entries = [
        tag(
            "li",
            tag(
                "svg",
                tag("rect", width=28, height=11, rx=2, style=f"fill:{colour(i)}"),
                viewBox="0 0 28 11",
                aria_hidden="true",
            ),
            name,
        )
        for i, name in enumerate(names)
    ]
    return tag("ul", *entries, class_="key") if len(names) > 1 else Html("")


def bar_chart(title: str, labels: Sequence[str], series: Mapping[str, Sequence[float]], axis: str = "") -> Html:
    """Return a bar chart with a group of bars for each label and a bar for each series in it."""
    values = [value for one in series.values() for value in one]
    marks = ticks(min(0.0, *values), max(*values, 0.0) or 1.0)
    bottom, top = marks[0], marks[-1]

    def height(value: float) -> float:
        return HEIGHT - BOTTOM - (value - bottom) / (top - bottom) * (HEIGHT - TOP - BOTTOM)

    group = (WIDTH - LEFT - RIGHT) / len(labels)
    bar = min(48.0, 0.8 * group / len(series))
    parts = [level(height(mark), short(mark)) for mark in marks]
    for g, label in enumerate(labels):
        middle = LEFT + group * (g + 0.5)
        parts.append(tag("text", label, x=f"{middle:.1f}", y=HEIGHT - 16, text_anchor="middle"))
        for s, (name, one) in enumerate(series.items()):
            left = middle + (s - len(series) / 2) * bar
            parts.append(_bar(left, bar, height(0.0), height(one[g]), s, f"{name}, {label}: {short(one[g])}"))
            if len(values) <= 16:
                above = min(height(one[g]), height(0.0)) - 4
                at = {"x": f"{left + bar / 2:.1f}", "y": f"{above:.1f}"}
                parts.append(tag("text", f"{one[g]:.3g}", text_anchor="middle", class_="strong", **at))
    picture = tag(
        "svg", *parts, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=f"{title}; {describe(labels, series)}"
    )
    note = tag("p", axis, class_="about") if axis else None
    return tag("figure", tag("figcaption", title), key(list(series)), picture, note)


def describe(labels: Sequence[str], series: Mapping[str, Sequence[float]]) -> str:
    """Return the numbers of a chart as text, for screen readers."""
    return "; ".join(
        f"{name}: " + ", ".join(f"{label} {short(v)}" for label, v in zip(labels, values, strict=True))
        for name, values in series.items()
    )


def level(y: float, label: str) -> Html:
    """Return a horizontal grid line with its label at the left."""
    line = tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=f"{y:.1f}", y2=f"{y:.1f}", class_="grid")
    return join(line, tag("text", label, x=LEFT - 6, y=f"{y + 4:.1f}", text_anchor="end"))


def _bar(left: float, width: float, base: float, end: float, index: int, title: str) -> Html:
    return tag(
        "rect",
        tag("title", title),
        x=f"{left + 1:.1f}",
        y=f"{min(base, end):.1f}",
        width=f"{max(width - 2, 1):.1f}",
        height=f"{abs(base - end):.1f}",
        style=f"fill:{colour(index)}",
    )


def histogram(values: Sequence[float], bins: int = 10, high: float = 100.0) -> tuple[list[str], list[float]]:
    """Return the labels of `bins` equal ranges from 0 to `high`, and how many values are in each."""
    counts = [0.0] * bins
    for value in values:
        counts[min(bins - 1, max(0, int(value / high * bins)))] += 1
    return [f"{high * i / bins:.0f}–{high * (i + 1) / bins:.0f}" for i in range(bins)], counts
