"use strict";
// A search as a tree from left to right: a column a step, the best row on top.

const FATES = { kept: "kept in the beam", finished: "finished", pruned: "left behind" };

/** Nodes with their path: each candidate knows its parent node, so that a hypothesis can be read backwards. */
const beamNodes = (beam) => {
  let rows = [null]; // row of the beam -> node
  return beam.steps.map((candidates, step) => {
    const nodes = candidates.map((each, place) => ({ ...each, step, place, from: rows[each.parent] ?? null }));
    rows = [];
    nodes.forEach((node) => {
      if (node.row !== null && node.row !== undefined && node.row >= 0) rows[node.row] = node;
    });
    return nodes;
  });
};
const pathOf = (node) => (node ? [...pathOf(node.from), node] : []);
const pathText = (node) =>
  pathOf(node)
    .filter((each) => each.text !== END)
    .map((each) => each.text)
    .join("")
    .replaceAll("\u2581", " ")
    .trim();

/** The finished hypothesis with the best normalised score, or the best row at the end. */
const winnerOf = (steps) => {
  const finished = steps.flat().filter((node) => node.fate === "finished");
  const field = finished.length ? finished : (steps[steps.length - 1] ?? []);
  return field.reduce((best, node) => (!best || node.normalised > best.normalised ? node : best), null);
};

// ---------------------------------------------------------------- layout

const LANE = 46;
const NODE = 30;

/** Lanes: the beam by rank, then what was pruned, in smaller steps below it. */
const layTree = (beam, steps, pruned) => {
  const widths = steps.map((nodes) =>
    Math.max(
      40,
      ...nodes.filter((node) => pruned || node.fate !== "pruned").map((node) => textWidth(pieceText(node), 13.5) + 22),
    ),
  );
  let x = 56;
  const columns = widths.map((width) => {
    const left = x;
    x += width + 44;
    return left;
  });
  let low = 0;
  steps.forEach((nodes, step) => {
    let [lane, below] = [0, beam.size * LANE + 16];
    nodes.forEach((node) => {
      const shown = node.fate !== "pruned" || pruned;
      node.box = { x: columns[step], width: widths[step], shown, small: node.fate === "pruned" };
      if (node.fate === "kept") node.box.y = lane++ * LANE;
    });
    // An end has no row in the next beam: it goes under the rows that go on.
    nodes
      .filter((node) => node.fate !== "kept")
      .sort((a, b) => a.fate.localeCompare(b.fate))
      .forEach((node) => {
        if (!node.box.shown) return;
        node.box.y = node.fate === "finished" ? lane++ * LANE : Math.max(below, lane * LANE + 16);
        if (node.fate === "pruned") below = node.box.y + 27;
      });
    low = Math.max(
      low,
      ...nodes.filter((node) => node.box.shown).map((node) => node.box.y + (node.box.small ? 24 : NODE + 12)),
    );
  });
  return { width: x, height: low + 40 };
};

const TOP = 26;
const middle = (node) => node.box.y + TOP + (node.box.small ? 10 : NODE / 2);

const beamEdge = (node, best) => {
  const from = node.from ? [node.from.box.x + node.from.box.width, middle(node.from)] : [22, TOP + NODE / 2];
  const to = [node.box.x, middle(node)];
  const bend = (to[0] - from[0]) / 2;
  return draw("path", {
    class: `edge ${node.fate} ${best.has(node) ? "best" : ""}`,
    "stroke-width": 0.8 + 6 * Math.exp(node.score),
    data: { step: node.step },
    d: `M${from} C${from[0] + bend},${from[1]} ${to[0] - bend},${to[1]} ${to}`,
  });
};

const beamNode = (node, best, onpick, name) => {
  const { x, y, width, small } = node.box;
  const height = small ? 20 : NODE;
  return draw(
    "g",
    {
      class: `node ${node.fate} ${best.has(node) ? "best" : ""}`,
      transform: `translate(${x} ${y + TOP})`,
      role: "button",
      tabindex: "-1",
      data: { step: node.step, key: `${name}-${node.step}-${node.place}` },
      "aria-label": `step ${node.step + 1}: ${pieceText(node)}, ${FATES[node.fate]}, ${percent(Math.exp(node.score))}, score ${decimal(node.normalised)}`,
      onclick: () => onpick(node),
      onkeydown: (event) => {
        if (event.key === "Enter" || event.key === " ") {
          event.preventDefault();
          onpick(node);
        }
      },
    },
    draw("rect", { width, height, rx: small ? 5 : 7 }),
    draw(
      "text",
      { x: width / 2, y: height / 2, "text-anchor": "middle", "dominant-baseline": "central" },
      pieceText(node),
    ),
    small
      ? null
      : draw(
          "text",
          { class: "node-score", x: width / 2, y: height + 11, "text-anchor": "middle" },
          decimal(node.normalised),
        ),
  );
};

const beamTree = (beam, pruned, onpick, name = "node") => {
  const steps = beamNodes(beam);
  const best = new Set(pathOf(winnerOf(steps)));
  const { width, height } = layTree(beam, steps, pruned);
  const shown = steps.flat().filter((node) => node.box.shown);
  const nodes = shown.map((node) => beamNode(node, best, onpick, name));
  walkable(nodes, Math.max(1, Math.round(shown.length / Math.max(1, steps.length))));
  const picture = draw(
    "svg",
    { width, height, viewBox: `0 0 ${width} ${height}`, class: "tree", role: "group", "aria-label": "Search tree" },
    draw(
      "g",
      { "aria-hidden": "true" },
      steps.map((row, step) =>
        draw(
          "text",
          {
            class: "step-number",
            x: (row[0]?.box.x ?? 0) + (row[0]?.box.width ?? 0) / 2,
            y: 12,
            "text-anchor": "middle",
            data: { step },
          },
          String(step + 1),
        ),
      ),
      shown.map((node) => beamEdge(node, best)),
      draw("circle", { class: "root", cx: 16, cy: TOP + NODE / 2, r: 6 }),
    ),
    nodes,
  );
  const until = (step) =>
    picture
      .querySelectorAll("[data-step]")
      .forEach((each) => each.classList.toggle("later", Number(each.dataset.step) > step));
  return {
    node: make(
      "div",
      { class: "scroll tree-scroll", tabindex: "0", role: "region", "aria-label": "Search tree, scrolls sideways" },
      picture,
    ),
    until,
    steps,
  };
};
