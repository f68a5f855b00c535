"""Training curves as an HTML page without network access: inline SVG, with values at the pointer or arrow keys.

Ours because plotting libraries embed megabytes of JavaScript in a page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headway.reports.charts import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, colour, level, short, ticks
from headway.reports.history import Curve, History
from headway.reports.html import Html, data, join, page, table, tag
from headway.reports.panels import Line, Panel, panels

DASHES = ("", "7 4", "2 3", "9 3 2 3")
BOX = {"left": LEFT, "right": RIGHT, "top": TOP, "bottom": BOTTOM, "width": WIDTH, "height": HEIGHT}
AXES = {"steps": "step", "minutes": "minutes of training"}


def curves_page(histories: Sequence[History]) -> str:
    """Return a page with the curves of all runs, over steps and over minutes."""
    drawn = panels(histories)
    ends = {axis: _end(drawn, axis) for axis in AXES}
    names = ", ".join(history.name for history in histories)
    return page(
        f"Training of {names}",
        tag("p", "Point at a chart, or focus it and use the arrow keys, to read values.", class_="soft"),
        _switch(),
        *(
            tag("div", *(line_chart(panel, axis, ends[axis]) for panel in drawn), class_=f"charts by-{axis}")
            for axis in AXES
        ),
        tag("h2", "Last and best values"),
        summary(histories),
        tag("div", id="tip", hidden=True, role="status"),
        data("numbers", {"box": BOX, "charts": [_numbers(p, axis, ends[axis]) for axis in AXES for p in drawn]}),
        tag("style", Html(STYLE)),
        script=SCRIPT,
    )


def _switch() -> Html:
    """Return radio buttons for steps or minutes, which work by CSS alone."""
    buttons = [
        tag("label", tag("input", type="radio", name="axis", value=axis, checked=axis == "steps"), f" by {axis} ")
        for axis in AXES
    ]
    return tag("fieldset", tag("legend", "Draw", class_="soft"), *buttons, class_="switch")


def line_chart(panel: Panel, axis: str, end: float) -> Html:
    """Return the chart of a panel, with an x axis from 0 to `end`."""
    marks = ticks(panel.low, panel.high)
    bottom, top = marks[0], marks[-1]

    def x(value: float) -> float:
        return LEFT + value / end * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (value - bottom) / (top - bottom) * (HEIGHT - TOP - BOTTOM)

    parts = [level(y(mark), short(mark)) for mark in marks]
    parts += [_mark(x(mark), short(mark)) for mark in ticks(0.0, end) if mark <= end]
    parts.append(tag("text", AXES[axis], x=WIDTH - RIGHT, y=HEIGHT - 4, text_anchor="end"))
    parts += [_path(line, [(x(a), y(b)) for a, b in zip(*_points(line, axis), strict=True)]) for line in panel.lines]
    parts.append(tag("g", class_="cursor"))
    label = f"{panel.title} against {AXES[axis]}; " + "; ".join(_say(line) for line in panel.lines)
    picture = tag(
        "svg", *parts, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", tabindex="0", class_="plot", aria_label=label
    )
    return tag("figure", tag("figcaption", panel.title), _key(panel), picture)


def _points(line: Line, axis: str) -> tuple[list[float], list[float]]:
    return (line.curve.steps if axis == "steps" else line.curve.minutes), line.curve.values


def _end(drawn: Sequence[Panel], axis: str) -> float:
    """Return the end of the longest run, so that all charts have the same x axis."""
    return max(value for panel in drawn for line in panel.lines for value in _points(line, axis)[0]) or 1.0


def _mark(x: float, label: str) -> Html:
    return tag("text", label, x=f"{x:.1f}", y=HEIGHT - BOTTOM + 15, text_anchor="middle")


def _path(line: Line, points: list[tuple[float, float]]) -> Html:
    route = "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in points)
    dash = DASHES[line.dash % len(DASHES)] or None
    stroke = f"stroke:{colour(line.colour)}"
    path = tag("path", d=route, class_="line", style=stroke, stroke_dasharray=dash)
    dots = [
        tag("circle", cx=f"{a:.1f}", cy=f"{b:.1f}", r=2.4, style=f"fill:{colour(line.colour)}")
        for a, b in (points if line.dotted and len(points) <= 60 else [])
    ]
    return join(path, *dots)


def _key(panel: Panel) -> Html:
    entries = []
    for line in panel.lines:
        dash = DASHES[line.dash % len(DASHES)] or None
        stroke = tag("line", x1=0, x2=28, y1=5, y2=5, class_="line", style=f"stroke:{colour(line.colour)}",
                     stroke_dasharray=dash)  # fmt: skip
        entries.append(tag("li", tag("svg", stroke, viewBox="0 0 28 10", aria_hidden="true"), line.name))
    return tag("ul", *entries, class_="key")


def _say(line: Line) -> str:
    return f"{line.name} from {short(line.curve.values[0])} to {short(line.curve.values[-1])}"


def _numbers(panel: Panel, axis: str, end: float) -> dict[str, Any]:
    """Return the data with which the script shows the values at the pointer."""
    marks = ticks(panel.low, panel.high)
    lines = [
        {"name": line.name, "colour": colour(line.colour), "x": _rounded(xs), "y": _rounded(ys)}
        for line in panel.lines
        for xs, ys in [_points(line, axis)]
    ]
    return {"x": [0.0, end], "y": [marks[0], marks[-1]], "axis": AXES[axis], "lines": lines}


def _rounded(values: list[float]) -> list[float]:
    return [float(f"{value:.6g}") for value in values]


def summary(histories: Sequence[History]) -> Html:
    """Return a table with a row for each run and quantity."""
    rows = []
    for history in histories:
        for side, curves in (("train", history.train), ("dev", history.dev)):
            rows += [(history.name, f"{side} {key}", *_last_and_best(key, curve)) for key, curve in curves.items()]
    head = ["run", "quantity", "last", "best", "at step", "steps", "minutes"]
    return table(head, rows, "All logged quantities", ["run", "quantity"])


LOWER_IS_BETTER = ("loss", "nll", "ter", "wer", "cer", "per", "perplexity")
NEITHER = ("lr", "grad_norm", "tokens_per_second")


def _last_and_best(key: str, curve: Curve) -> list[str]:
    pick = min if key in LOWER_IS_BETTER else max
    at = curve.values.index(pick(curve.values))
    best = ["–", "–"] if key in NEITHER else [short(curve.values[at]), f"{curve.steps[at]:,.0f}"]
    return [short(curve.values[-1]), *best, f"{curve.steps[-1]:,.0f}", f"{curve.minutes[-1]:,.1f}"]


STYLE = """
.switch { border: 0; padding: 0; margin: .5rem 0 1rem; }
.switch legend { float: left; margin-right: .75rem; padding: 0; }
.switch label { margin-right: 1rem; } .by-minutes { display: none; }
main:has(input[value="minutes"]:checked) .by-minutes { display: grid; }
main:has(input[value="minutes"]:checked) .by-steps { display: none; }
.line { fill: none; stroke-width: 1.8; stroke-linejoin: round; } .plot { touch-action: pan-y; cursor: crosshair; }
.cursor line { stroke: var(--soft); stroke-dasharray: 3 3; } .cursor circle { stroke: var(--card); stroke-width: 1.5; }
#tip { position: fixed; pointer-events: none; z-index: 1; padding: .4rem .6rem; font-size: .85rem; line-height: 1.4;
  background: var(--card); border: 1px solid var(--line); border-radius: 6px; box-shadow: 0 2px 10px #0004;
  font-variant-numeric: tabular-nums; max-width: 22rem; }
#tip[hidden] { display: none; }
#tip b { display: inline-block; width: .7em; height: .7em; border-radius: 2px; margin-right: .4em; }
"""

SCRIPT = """
const { box, charts } = JSON.parse(document.getElementById("numbers").textContent);
const tip = document.getElementById("tip");
const show = (n) => n && (Math.abs(n) >= 1e6 || Math.abs(n) < 1e-3)
  ? n.toPrecision(3) : n.toLocaleString("en", { maximumSignificantDigits: 5 });
const part = (name, attributes) => {
  const made = document.createElementNS(document.querySelector(".plot").namespaceURI, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
};
const nearest = (xs, at) => xs.reduce((best, x, i) => Math.abs(x - at) < Math.abs(xs[best] - at) ? i : best, 0);
document.querySelectorAll(".plot").forEach((plot, index) => {
  const chart = charts[index], cursor = plot.querySelector(".cursor");
  const longest = chart.lines.reduce((a, b) => b.x.length > a.x.length ? b : a);
  const px = (x) => box.left + (x - chart.x[0]) / (chart.x[1] - chart.x[0]) * (box.width - box.left - box.right);
  const rise = (box.height - box.top - box.bottom) / (chart.y[1] - chart.y[0]);
  const py = (y) => box.height - box.bottom - (y - chart.y[0]) * rise;
  let here = -1;
  const hide = () => { tip.hidden = true; cursor.replaceChildren(); };
  const point = (at) => {
    here = nearest(longest.x, at);
    const x = longest.x[here], rect = plot.getBoundingClientRect(), scale = rect.width / box.width;
    cursor.replaceChildren(part("line", { x1: px(x), x2: px(x), y1: box.top, y2: box.height - box.bottom }));
    const head = document.createElement("div");
    head.textContent = `${chart.axis} ${show(x)}`;
    const rows = chart.lines.map((line) => {
      const i = nearest(line.x, x), row = document.createElement("div"), patch = document.createElement("b");
      const dot = part("circle", { cx: px(line.x[i]), cy: py(line.y[i]), r: 4 });
      dot.style.fill = patch.style.background = line.colour;
      cursor.append(dot);
      row.append(patch, `${line.name}: ${show(line.y[i])}`);
      return row;
    });
    tip.replaceChildren(head, ...rows);
    tip.hidden = false;
    const left = rect.left + px(x) * scale + 14;
    tip.style.left = `${left + tip.offsetWidth > innerWidth ? left - tip.offsetWidth - 28 : left}px`;
    tip.style.top = `${Math.min(Math.max(8, rect.top + 12), innerHeight - tip.offsetHeight - 8)}px`;
  };
  plot.addEventListener("pointermove", (event) => {
    const rect = plot.getBoundingClientRect();
    const x = (event.clientX - rect.left) * box.width / rect.width;
    point(chart.x[0] + (x - box.left) / (box.width - box.left - box.right) * (chart.x[1] - chart.x[0]));
  });
  plot.addEventListener("pointerleave", hide);
  plot.addEventListener("blur", hide);
  plot.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    point(longest.x[Math.min(longest.x.length - 1, Math.max(0, here + step))]);
  });
});
"""
