"use strict";
// A matrix as coloured cells. The cells are one canvas, a pixel each, stretched: thousands cost no elements.

const paintCells = (canvas, weights, { scale = "weight", most = 1 } = {}) => {
  canvas.width = weights.columns;
  canvas.height = weights.rows;
  const context = canvas.getContext("2d");
  const image = context.createImageData(Math.max(1, weights.columns), Math.max(1, weights.rows));
  weights.values.forEach((value, index) => {
    const [r, g, b] = colourBytes(scale, scale === "signed" ? (value / most + 1) / 2 : value / most);
    image.data.set([r, g, b, 255], index * 4);
  });
  context.putImageData(image, 0, 0);
  return canvas;
};

const thumbnail = (weights, options) =>
  paintCells(make("canvas", { class: "cells", "aria-hidden": "true" }), weights, options);

const SLANT = Math.PI / 4; // of column labels

const labelRoom = (labels, size) => Math.min(150, Math.max(0, ...labels.map((label) => textWidth(label, size))));

const axisLabel = (text, x, y, slanted, ends, index) =>
  draw(
    "text",
    {
      x,
      y,
      class: "axis-label",
      data: { [slanted ? "column" : "row"]: index },
      direction: rightToLeft(text) ? "rtl" : null,
      "text-anchor": ends ? "end" : "start",
      transform: slanted ? `rotate(-45 ${x} ${y})` : null,
      "dominant-baseline": "central",
    },
    text.length > 22 ? `${text.slice(0, 21)}\u2026` : text,
  );

/**
 * Labelled cells with a readout; arrow keys walk the cells. `onpoint(row, column)` hears of every move, `onpick` of clicks.
 * Gives {node, point}: point(row, column) marks a cell from outside, null for "any".
 */
const heatmap = (
  weights,
  { rows, columns, width, caption, scale = "weight", most = 1, say, onpoint, onpick, big = 30 },
) => {
  const size = 12.5;
  const left = labelRoom(rows, size) + 12;
  const tall = labelRoom(columns, size) * Math.sin(SLANT) + 20;
  const spare = columns.length ? Math.min(70, textWidth(columns[columns.length - 1], size) * Math.cos(SLANT)) : 0;
  // Below 18 pixels slanted labels would touch: then the picture scrolls sideways, unless it is very large.
  const cell = clamp((width - left - spare) / Math.max(1, weights.columns), weights.columns > 64 ? 5 : 18, big);
  const high = clamp(cell, 5, Math.max(weights.rows > 64 ? 5 : 14, 900 / Math.max(1, weights.rows)));
  const [across, down] = [cell * weights.columns, high * weights.rows];
  const labelled = { rows: high >= 9, columns: cell >= 9 };

  const canvas = thumbnail(weights, { scale, most });
  Object.entries({ left: `${left}px`, top: `${tall}px`, width: `${across}px`, height: `${down}px` }).forEach(
    ([name, value]) => canvas.style.setProperty(name, value),
  );
  const mark = draw("rect", { class: "cell-mark", width: cell, height: high, visibility: "hidden" });
  const bands = [
    draw("rect", { class: "band", x: left, width: across, height: high, visibility: "hidden" }),
    draw("rect", { class: "band", y: tall, width: cell, height: down, visibility: "hidden" }),
  ];
  // Thin lines in the colour of the paper part the cells, where they are large enough for it.
  const lines =
    cell < 8 || high < 8
      ? []
      : [
          ...range(weights.columns - 1).map((c) =>
            draw("line", { x1: left + (c + 1) * cell, x2: left + (c + 1) * cell, y1: tall, y2: tall + down }),
          ),
          ...range(weights.rows - 1).map((r) =>
            draw("line", { x1: left, x2: left + across, y1: tall + (r + 1) * high, y2: tall + (r + 1) * high }),
          ),
        ];
  const drawing = draw(
    "svg",
    { width: left + across + spare + 4, height: tall + down + 4, "aria-hidden": "true" },
    draw("g", { class: "cell-lines" }, lines),
    bands,
    mark,
    labelled.rows ? rows.map((text, r) => axisLabel(text, left - 8, tall + (r + 0.5) * high, false, true, r)) : [],
    labelled.columns
      ? columns.map((text, c) => axisLabel(text, left + (c + 0.5) * cell, tall - 8, true, false, c))
      : [],
  );

  const readout = make("p", { class: "readout", "aria-live": "polite" }, "\u00a0");
  const tell = say ?? ((r, c) => `${rows[r] ?? r + 1} \u2190 ${columns[c] ?? c + 1}: ${decimal(weights.at(r, c), 3)}`);
  let at = [null, null];
  const point = (r, c) => {
    at = [r, c];
    const there = r !== null && c !== null;
    furnish(
      mark,
      { x: left + (c ?? 0) * cell, y: tall + (r ?? 0) * high, visibility: there ? "visible" : "hidden" },
      [],
    );
    furnish(bands[0], { y: tall + (r ?? 0) * high, visibility: r === null ? "hidden" : "visible" }, []);
    furnish(bands[1], { x: left + (c ?? 0) * cell, visibility: c === null ? "hidden" : "visible" }, []);
    for (const label of drawing.querySelectorAll(".axis-label"))
      label.classList.toggle("on", Number(label.dataset.row) === r || Number(label.dataset.column) === c);
    readout.textContent = there ? tell(r, c) : "\u00a0";
  };
  const move = (r, c) => {
    point(r, c);
    onpoint?.(r, c);
  };
  const under = (event) => {
    const box = frame.getBoundingClientRect();
    const [c, r] = [
      Math.floor((event.clientX - box.left - left) / cell),
      Math.floor((event.clientY - box.top - tall) / high),
    ];
    return r >= 0 && r < weights.rows && c >= 0 && c < weights.columns ? [r, c] : [null, null];
  };
  const frame = make(
    "div",
    {
      class: "heatmap",
      tabindex: "0",
      role: "img",
      "aria-label": `${caption}. Arrow keys read the cells; a table follows.`,
      data: { key: `heatmap-${caption}` },
      onpointermove: (event) => move(...under(event)),
      onpointerleave: () => move(null, null),
      onclick: (event) => {
        const [r, c] = under(event);
        if (r !== null) onpick?.(r, c);
      },
      onkeydown: (event) => {
        const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
        if (event.key === "Enter" && at[0] !== null && at[1] !== null) onpick?.(at[0], at[1]);
        if (!step) return;
        event.preventDefault();
        move(
          clamp((at[0] ?? 0) + (at[0] === null ? 0 : step[0]), 0, weights.rows - 1),
          clamp((at[1] ?? 0) + (at[1] === null ? 0 : step[1]), 0, weights.columns - 1),
        );
      },
    },
    canvas,
    drawing,
  );
  return { node: make("div", { class: "heatmap-whole" }, make("div", { class: "scroll" }, frame), readout), point };
};

/** The same numbers as a table, made only when it is opened: for screen readers, and for copying. */
const matrixTable = (weights, rows, columns, caption, digits = 2) => {
  const details = make("details", { class: "as-table" }, make("summary", null, "As a table"));
  details.addEventListener("toggle", () => {
    if (!details.open || details.querySelector("table")) return;
    const body = make(
      "table",
      null,
      make("caption", null, caption),
      make(
        "thead",
        null,
        make(
          "tr",
          null,
          make("td", null),
          columns.map((text) => make("th", { scope: "col", dir: "auto" }, text)),
        ),
      ),
    );
    fillLazily(
      body,
      weights.rows,
      (r) =>
        make(
          "tr",
          null,
          make("th", { scope: "row", dir: "auto" }, rows[r] ?? String(r + 1)),
          range(weights.columns).map((c) => make("td", null, decimal(weights.at(r, c), digits))),
        ),
      "tbody",
    );
    details.append(make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, body));
  });
  return details;
};
