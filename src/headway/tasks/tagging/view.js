"use strict";
// Tagging: the words of a sentence with their labels, spans in colours, and how sure the model was of each.

const labelsView = { measure: "label", word: null, held: false };
const HUES = 6; // colours there are

/** B-PER and I-PER are both PER; a label without a dash is its own kind. */
const labelKind = (label) => label.slice(label.indexOf("-") + 1);

/** A colour for each kind of label; outside has none. */
const labelHues = (trace) => {
  const kinds = [...new Set(trace.words.map((word) => word.label).filter((label) => label !== "O"))].map(labelKind);
  return new Map([...new Set(kinds)].sort().map((kind, index) => [kind, `c${index % HUES}`]));
};

const taggedWord = (word, index, hues, onshow) => {
  const hue = hues.get(labelKind(word.label));
  const doubt = clamp(1 - word.p, 0, 1);
  const byDoubt = labelsView.measure === "p";
  return make(
    "button",
    {
      type: "button",
      class: `piece tagged ${byDoubt ? "" : (hue ?? "outside")}`,
      style: byDoubt ? { background: colour("doubt", doubt), color: inkOn("doubt", doubt) } : {},
      "aria-label": `${word.text}, ${word.label}, ${percent(word.p)}`,
      "aria-pressed": String(labelsView.held && labelsView.word === index),
      data: { key: `word-${index}` },
      onpointerenter: () => labelsView.held || onshow(index, false),
      onfocus: () => labelsView.held || onshow(index, false),
      onclick: () => onshow(index, !(labelsView.held && labelsView.word === index)),
    },
    make("span", { class: "piece-text", dir: "auto" }, word.text),
    make("span", { class: "piece-number" }, byDoubt || word.label === "O" ? percent(word.p) : word.label),
  );
};

/** Words of one span stand in one frame. */
const taggedRow = (trace, hues, onshow) => {
  const ends = new Map((trace.spans ?? []).map((span) => [span.start, span.end]));
  const groups = [];
  for (let at = 0; at < trace.words.length; at = groups[groups.length - 1].end)
    groups.push({ start: at, end: ends.get(at) ?? at + 1, span: ends.has(at) });
  const row = make("div", { class: "pieces", dir: rightToLeft(trace.source.text) ? "rtl" : "ltr" });
  fillLazily(
    row,
    groups.length,
    (g) =>
      make(
        "span",
        { class: groups[g].span ? `span ${hues.get(labelKind(trace.words[groups[g].start].label)) ?? ""}` : "word" },
        range(groups[g].end - groups[g].start).map((i) =>
          taggedWord(trace.words[groups[g].start + i], groups[g].start + i, hues, onshow),
        ),
      ),
    "span",
  );
  return row;
};

const wordCard = (word, index) => [
  make("h3", { dir: "auto" }, word.text),
  make("p", { class: "facts" }, `word ${index + 1} \u00b7 ${word.label} \u00b7 ${percent(word.p)}`),
  chanceBars(
    word.top.map((each) => ({ ...each, chosen: each.label === word.label })),
    "Labels of this word",
  ),
];

const drawLabels = (host, trace) => {
  const card = make("div", { class: "card tokens-card", role: "region", "aria-label": "One word" });
  const hues = labelHues(trace);
  const leastSureWord = trace.words.reduce((worst, word, at) => (word.p < trace.words[worst].p ? at : worst), 0);
  const show = (index, hold) => {
    Object.assign(labelsView, { word: index, held: hold });
    refill(card, wordCard(trace.words[index], index));
    host.querySelectorAll(".piece").forEach((each) => {
      each.classList.toggle("shown", each.dataset.key === `word-${index}`);
      each.setAttribute("aria-pressed", String(hold && each.dataset.key === `word-${index}`));
    });
  };
  const row = taggedRow(trace, hues, show);
  refill(
    host,
    controls(
      choice(
        "Colour by",
        [
          ["label", "Label"],
          ["p", "Probability"],
        ],
        labelsView.measure,
        (picked) => {
          labelsView.measure = picked;
          redraw();
        },
      ),
      labelsView.measure === "p"
        ? scaleKey("doubt", "sure", "unlikely")
        : make(
            "span",
            { class: "key" },
            [...hues].map(([kind, hue]) => make("span", { class: `line-key ${hue}` }, kind || "span")),
          ),
    ),
    make(
      "div",
      { class: "beside" },
      make(
        "div",
        null,
        make("h3", { class: "row-title" }, "Words ", make("small", null, plural(trace.words.length, "word"))),
        row,
        note("Point at a word to see what other labels it could have had; click to hold it."),
      ),
      card,
    ),
  );
  walkable([...row.querySelectorAll(".piece")], 1e9);
  show(
    labelsView.held ? clamp(labelsView.word ?? 0, 0, trace.words.length - 1) : leastSureWord,
    labelsView.held,
  );
};

// ---------------------------------------------------------------- the task

const spansTold = ({ words, labels, spans }) =>
  spans
    ? spans.map((span) => `${span.text} (${span.kind || "span"})`).join(", ") || "no spans"
    : words.map((word, index) => `${word}/${labels[index]}`).join(" ");

TASKS.set("tagging", {
  title: "Tagging",
  source: "Text",
  result: "Labels",
  noun: "labelling",
  cut: ONE_A_LINE,
  told: spansTold,
  summary: (trace) => trace.target.text || "no spans",
  panels: [{ id: "labels", title: "Labels", parts: [], draw: drawLabels }, ATTENTION_PANEL, HEADS_PANEL],
});
