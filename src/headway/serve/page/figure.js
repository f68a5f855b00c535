"use strict";
// The paper's figure 1, drawn with the numbers of this model. Boxes are given from the bottom up.

const BOX = { width: 168, height: 34, gap: 12 };

const NORMS = { layer: "LayerNorm", rms: "RMSNorm", batch: "BatchNorm" };

/** A sublayer and what stands around it, as the model places its norms. */
const sublayer = (model, box) => {
  const norm = NORMS[model.norm] ?? "Norm";
  const side = (title, names) => ({ ...box, id: `${box.id}-${title}`, title, names, kind: "norm", about: "" });
  const add = side("Add", ["residual"]);
  const placements = {
    pre: [side(norm, ["norm"]), box, add],
    sandwich: [side(norm, ["norm"]), box, { ...add, title: `${norm} & Add` }],
    rezero: [box, add],
  };
  return placements[model.placement] ?? [box, side(`Add & ${norm}`, ["residual", "norm"])];
};

const ATTENTION_STAGES = ["queries", "keys", "values", "scores", "weights", "head outputs", "attention"];

const figureStacks = (model) => {
  const box = (stack, part, title, names, kind) => ({
    id: `${stack}-${part}`,
    stack,
    part,
    title,
    names,
    kind,
    layered: true,
  });
  const [source, target] = model.vocabulary ?? [0, 0];
  const entrance = (stack, title, count) => [
    {
      id: `${stack}-embedding`,
      stack,
      part: "embedding",
      title,
      names: ["embedding"],
      kind: "embed",
      about: `${short(count)} \u00d7 ${model.width}`,
    },
    {
      id: `${stack}-positions`,
      stack,
      part: "embedding",
      title: "Positions",
      names: ["positions"],
      kind: "plus",
      about: model.position,
    },
  ];
  const heads = `${model.heads} heads of ${model.width / model.heads}`;
  const feed = (stack) => ({
    ...box(stack, "feed-forward", "Feed forward", ["inner", "feed-forward"], "feed"),
    about: `${model.width} \u2192 ${model.inner} \u2192 ${model.width}`,
  });
  return {
    encoder: {
      entrance: entrance("encoder", "Input embedding", source),
      block: [
        ...sublayer(model, {
          ...box("encoder", "self-attention", "Self-attention", ATTENTION_STAGES, "attention"),
          about: heads,
        }),
        ...sublayer(model, feed("encoder")),
      ],
      exit: [],
      count: model.encoder_layers,
    },
    decoder: {
      entrance: entrance("decoder", "Output embedding", target),
      block: [
        ...sublayer(model, {
          ...box("decoder", "self-attention", "Masked self-attention", ATTENTION_STAGES, "attention"),
          about: heads,
        }),
        ...sublayer(model, {
          ...box("decoder", "cross-attention", "Cross-attention", ATTENTION_STAGES, "attention"),
          about: heads,
        }),
        ...sublayer(model, feed("decoder")),
      ],
      exit: [
        {
          id: "decoder-logits",
          stack: "decoder",
          part: "output",
          title: "Linear",
          names: ["logits"],
          kind: "embed",
          about: `${model.width} \u2192 ${short(target)}`,
        },
        {
          id: "decoder-probabilities",
          stack: "decoder",
          part: "output",
          title: "Softmax",
          names: ["probabilities"],
          kind: "plus",
          about: "",
        },
      ],
      count: model.decoder_layers,
    },
  };
};

const allBoxes = (stacks) =>
  ["encoder", "decoder"].flatMap((name) => [...stacks[name].entrance, ...stacks[name].block, ...stacks[name].exit]);

const figureBox = (box, x, y, chosen, onpick) =>
  draw(
    "g",
    {
      class: `box ${box.kind} ${chosen ? "on" : ""}`,
      transform: `translate(${x} ${y})`,
      role: "button",
      tabindex: "0",
      "aria-pressed": String(chosen),
      "aria-label": `${box.stack}: ${box.title}`,
      data: { key: `box-${box.id}` },
      onclick: () => onpick(box),
      onkeydown: (event) => {
        if (event.key === "Enter" || event.key === " ") {
          event.preventDefault();
          onpick(box);
        }
      },
    },
    draw("rect", { width: BOX.width, height: BOX.height, rx: 8 }),
    draw(
      "text",
      { x: BOX.width / 2, y: box.about ? 13 : BOX.height / 2, "text-anchor": "middle", "dominant-baseline": "central" },
      box.title,
    ),
    box.about
      ? draw(
          "text",
          { class: "box-about", x: BOX.width / 2, y: 25.5, "text-anchor": "middle", "dominant-baseline": "central" },
          box.about,
        )
      : null,
  );

/** One tower of boxes; gives its drawing and where each box came to stand. */
const tower = (stack, x, floor, chosen, onpick) => {
  const places = new Map();
  let y = floor;
  const stand = (boxes) =>
    boxes.map((box) => {
      y -= BOX.height + BOX.gap;
      places.set(box.id, { x, y });
      return figureBox(box, x, y, chosen === box.id, onpick);
    });
  const entrance = stand(stack.entrance);
  const bottom = y - BOX.gap;
  y -= 16;
  const block = stand(stack.block);
  const frameTop = y - 12;
  y -= 16;
  const exit = stand(stack.exit);
  const trunk = draw("line", { class: "wire", x1: x + BOX.width / 2, x2: x + BOX.width / 2, y1: floor, y2: y });
  const frame = draw("rect", {
    class: "frame",
    x: x - 16,
    y: frameTop,
    width: BOX.width + 32,
    height: bottom - frameTop,
    rx: 14,
  });
  const times = draw(
    "text",
    { class: "times", x: x - 26, y: (frameTop + bottom) / 2, "text-anchor": "end", "dominant-baseline": "central" },
    `${stack.count}\u00d7`,
  );
  return { nodes: [trunk, frame, times, entrance, block, exit], places, top: y, frameTop };
};

/** The whole figure; `chosen` is the id of a box. */
const paperFigure = (model, chosen, onpick) => {
  const stacks = figureStacks(model);
  const count = stacks.decoder.entrance.length + stacks.decoder.block.length + stacks.decoder.exit.length;
  const floor = count * (BOX.height + BOX.gap) + 70;
  const encoder = tower(stacks.encoder, 52, floor, chosen, onpick);
  const decoder = tower(stacks.decoder, 330, floor, chosen, onpick);
  const cross = decoder.places.get("decoder-cross-attention");
  const middle = 52 + BOX.width / 2;
  const bridge = draw("path", {
    class: "wire bridge",
    d: `M${middle},${encoder.frameTop + 12} V${encoder.frameTop - 14} H275 V${cross.y + BOX.height / 2} H330`,
    "marker-end": "url(#arrow)",
  });
  const arrow = draw(
    "defs",
    null,
    draw(
      "marker",
      { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
      draw("path", { d: "M0,0L8,4L0,8z" }),
    ),
  );
  const label = (text, x) => draw("text", { class: "tower-name", x, y: floor + 22, "text-anchor": "middle" }, text);
  return {
    boxes: allBoxes(stacks),
    node: draw(
      "svg",
      { viewBox: `0 0 530 ${floor + 36}`, class: "paper-figure", role: "group", "aria-label": "The model" },
      arrow,
      bridge,
      encoder.nodes,
      decoder.nodes,
      draw(
        "text",
        {
          class: "bridge-name",
          x: 269,
          y: (encoder.frameTop + cross.y) / 2,
          "text-anchor": "middle",
          transform: `rotate(-90 269 ${(encoder.frameTop + cross.y) / 2})`,
        },
        "keys, values",
      ),
      label("source", middle),
      label("target so far", 330 + BOX.width / 2),
    ),
  };
};
