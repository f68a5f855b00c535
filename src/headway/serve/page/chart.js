"use strict";
// Curves: a few lines over a common axis, a mark, and a readout that follows the pointer.

/** Round numbers that divide an interval into about `count` parts. */
const niceTicks = (low, high, count = 5) => {
  const rough = (high - low || 1) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((each) => each >= rough) ?? rough;
  return range(Math.floor(high / step + 1e-9) - Math.ceil(low / step - 1e-9) + 1).map(
    (i) => (Math.ceil(low / step - 1e-9) + i) * step,
  );
};

const tickText = (value) => {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e4) return short(value);
  if (size >= 1e3) return whole(value);
  if (size < 1e-4) return value.toExponential(1).replaceAll("-", "\u2212");
  return String(Number(value.toPrecision(3))).replace("-", "\u2212");
};

const nearest = (points, x) =>
  points.reduce((best, point) => (Math.abs(point[0] - x) < Math.abs(best[0] - x) ? point : best));

/** `series`: [{name, points: [[x, y], ...], dotted}]. `mark` is an x with a line through it; `onmark(x)` hears clicks. */
const lineChart = ({
  title,
  about = "",
  series,
  width,
  height = 230,
  mark = null,
  xName = "",
  low = null,
  from = null,
  onmark = null,
}) => {
  const shown = series.filter((each) => each.points.length);
  const [left, right, above, below] = [52, 16, 12, 34];
  const xs = shown.flatMap((each) => each.points.map((point) => point[0]));
  const ys = shown.flatMap((each) => each.points.map((point) => point[1])).filter(Number.isFinite);
  const [x0, x1] = [from ?? Math.min(...xs), Math.max(...xs)];
  const [y0, top] = [low ?? Math.min(...ys), Math.max(...ys)];
  const y1 = top > y0 ? top + 0.05 * (top - y0) : y0 + 1;
  const X = (x) => left + ((x - x0) / (x1 - x0 || 1)) * (width - left - right);
  const Y = (y) => height - below - ((y - y0) / (y1 - y0)) * (height - above - below);
  const line = (each, index) => {
    const colourName = `series c${index}`;
    const d = each.points.map(([x, y], i) => `${i ? "L" : "M"}${X(x).toFixed(1)},${Y(y).toFixed(1)}`).join("");
    const dots =
      each.dotted && each.points.length <= 60
        ? each.points.map(([x, y]) => draw("circle", { class: `dot c${index}`, cx: X(x), cy: Y(y), r: 3 }))
        : [];
    return [draw("path", { class: colourName, d }), dots];
  };
  const marker = draw("line", { class: "mark", y1: above, y2: height - below, visibility: "hidden" });
  const setMark = (x) =>
    x === null
      ? marker.setAttribute("visibility", "hidden")
      : furnish(marker, { x1: X(x), x2: X(x), visibility: "visible" }, []);
  const readout = make("p", { class: "readout" }, "\u00a0");
  const told = (x) =>
    [
      `${xName} ${whole(x)}`.trim(),
      ...shown.map((each) => `${each.name} ${tickText(nearest(each.points, x)[1])}`),
    ].join(" \u00b7 ");
  const point = (x) => {
    setMark(x);
    readout.textContent = told(x);
  };
  const xAt = (event) => {
    const box = picture.getBoundingClientRect();
    const x = x0 + ((((event.clientX - box.left) / box.width) * width - left) / (width - left - right)) * (x1 - x0);
    return nearest(shown[0].points, clamp(x, x0, x1))[0];
  };
  const picture = draw(
    "svg",
    {
      viewBox: `0 0 ${width} ${height}`,
      class: "chart",
      role: "img",
      "aria-label": `${title}: ${shown.map((each) => `${each.name} from ${tickText(each.points[0][1])} to ${tickText(each.points[each.points.length - 1][1])}`).join(", ")}`,
      onpointermove: (event) => point(xAt(event)),
      onpointerleave: () => {
        setMark(mark);
        readout.textContent = mark === null ? "\u00a0" : told(mark);
      },
      onclick: (event) => onmark?.(xAt(event)),
    },
    niceTicks(y0, y1, 4).map((y) => [
      draw("line", { class: "rule", x1: left, x2: width - right, y1: Y(y), y2: Y(y) }),
      draw(
        "text",
        { class: "tick", x: left - 8, y: Y(y), "text-anchor": "end", "dominant-baseline": "central" },
        tickText(y),
      ),
    ]),
    niceTicks(x0, x1, Math.max(2, width / 110)).map((x) =>
      draw("text", { class: "tick", x: X(x), y: height - 14, "text-anchor": "middle" }, tickText(x)),
    ),
    marker,
    shown.map(line),
  );
  setMark(mark);
  if (mark !== null) readout.textContent = told(mark);
  return plate(
    title,
    about,
    shown.length > 1
      ? make(
          "ul",
          { class: "key" },
          shown.map((each, index) => make("li", { class: `line-key c${index}` }, each.name)),
        )
      : null,
    picture,
    readout,
  );
};
