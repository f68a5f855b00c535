"use strict";
// Panel D. Every head as a small picture; one click enlarges it, another silences it and translates again.

const headsView = { stack: "cross", layer: 0, head: 0 };

const LABELS = {
  previous: "looks at the piece before",
  next: "looks at the piece after",
  diagonal: "walks along the other side",
  sink: "rests on one piece",
  position: "looks at a fixed distance",
  broad: "looks everywhere",
  rare: "looks at rare pieces",
  mixed: "no plain pattern",
};

const headFacts = (trace, name, layer, head) =>
  trace.heads?.find((each) => sameHead(each, { ...ATTENTION[name], layer, head })) ?? null;
const headName = (name, layer, head) => `${ATTENTION[name].title.toLowerCase()} layer ${layer + 1}, head ${head + 1}`;

const headTile = (trace, name, layer, head, onopen) => {
  const facts = headFacts(trace, name, layer, head);
  const silent = isSilent({ ...ATTENTION[name], layer, head });
  return make(
    "button",
    {
      type: "button",
      class: `tile ${silent ? "silent" : ""}`,
      data: { key: `tile-${name}-${layer}-${head}` },
      "aria-label": `${headName(name, layer, head)}${facts ? `, ${facts.label}, entropy ${decimal(facts.entropy)}` : ""}${silent ? ", silenced" : ""}`,
      "aria-current": headsView.stack === name && headsView.layer === layer && headsView.head === head ? "true" : null,
      onclick: () => onopen(layer, head),
    },
    thumbnail(headMatrix(trace.attention[name], layer, head)),
    make(
      "span",
      { class: "tile-line" },
      make("b", null, facts?.label ?? `head ${head + 1}`),
      facts ? make("span", null, decimal(facts.entropy, 1)) : null,
    ),
  );
};

const headGrid = (trace, name, onopen) => {
  const [layers, heads] = trace.attention[name].shape;
  const tiles = range(layers).map((layer) => range(heads).map((head) => headTile(trace, name, layer, head, onopen)));
  walkable(tiles.flat(), heads);
  return make(
    "div",
    { class: "tiles", role: "group", "aria-label": `${ATTENTION[name].title} heads`, style: { "--heads": heads } },
    make("span", { class: "tiles-corner" }),
    range(heads).map((head) => make("span", { class: "tiles-head" }, `head ${head + 1}`)),
    tiles.map((row, layer) => [make("span", { class: "tiles-layer" }, `layer ${layer + 1}`), row]),
  );
};

const headDetail = (trace, width) => {
  const { stack: name, layer, head } = headsView;
  const facts = headFacts(trace, name, layer, head);
  const which = { ...ATTENTION[name], layer, head };
  const weights = headMatrix(trace.attention[name], layer, head);
  const { rows, columns } = attentionLabels(trace, name);
  const caption = `Attention of ${headName(name, layer, head)}`;
  return make(
    "div",
    { class: "card head-detail" },
    make("h3", null, `${ATTENTION[name].title} \u00b7 layer ${layer + 1} \u00b7 head ${head + 1}`),
    facts
      ? make(
          "p",
          { class: "facts" },
          `${facts.label}: ${LABELS[facts.label] ?? ""} \u00b7 entropy ${decimal(facts.entropy)} nats \u00b7 mean distance ${decimal(facts.distance, 1)}`,
        )
      : null,
    toggle("Silence this head", isSilent(which), () => toggleHead(which), {
      disabled: !session.live,
      title: session.live ? null : "Needs the server: this is a saved page",
    }),
    heatmap(weights, {
      rows,
      columns,
      width,
      caption,
      big: 26,
      say: (r, c) => `${rows[r]} \u2190 ${columns[c]}: ${percent(weights.at(r, c))}`,
    }).node,
    matrixTable(weights, rows, columns, caption),
  );
};

const silenceLayer = (trace, name, layer) => {
  const heads = range(trace.attention[name].shape[1]).map((head) => ({
    stack: ATTENTION[name].stack,
    kind: ATTENTION[name].kind,
    layer,
    head,
  }));
  const others = session.request.ablate.filter((each) => !heads.some((head) => sameHead(each, head)));
  return change({ ablate: heads.every(isSilent) ? others : [...others, ...heads] });
};

const drawHeads = (host, trace) => {
  const there = Object.keys(ATTENTION).filter((name) => trace.attention[name]?.shape[0]);
  if (!there.includes(headsView.stack)) headsView.stack = there[0];
  const [layers, heads] = trace.attention[headsView.stack].shape;
  headsView.layer = clamp(headsView.layer, 0, layers - 1);
  headsView.head = clamp(headsView.head, 0, heads - 1);
  const wide = panelWidth(host) > 900;
  const open = (layer, head) => {
    Object.assign(headsView, { layer, head });
    redraw();
  };
  refill(
    host,
    controls(
      choice(
        "Stack",
        there.map((name) => [name, ATTENTION[name].title]),
        headsView.stack,
        (name) => {
          headsView.stack = name;
          redraw();
        },
      ),
      make("span", { class: "aside" }, translating() ? ATTENTION[headsView.stack].about : "pieces look at pieces"),
      session.live
        ? button(`Silence layer ${headsView.layer + 1}`, () => silenceLayer(trace, headsView.stack, headsView.layer), {
            key: "silence-layer",
          })
        : null,
    ),
    make(
      "div",
      { class: "beside even" },
      make(
        "div",
        null,
        make("div", { class: "scroll" }, headGrid(trace, headsView.stack, open)),
        note(
          "Rows of a picture look, columns are looked at. Under it: what the head seems to do, and its entropy in nats (0 looks at one piece).",
        ),
      ),
      headDetail(trace, wide ? panelWidth(host) * 0.46 : panelWidth(host) - 40),
    ),
  );
};

const HEADS_PANEL = { id: "heads", title: "Heads", parts: ["attention", "heads"], draw: drawHeads };
