"use strict";
// Classification: the classes of a text, and its pieces: how much each counts, and what it is worth for a class.

const classesView = { measure: "occlusion", label: null, piece: null };

/** Numbers for the pieces: {values, scale, most, say}. */
const PIECE_MEASURES = {
  occlusion: {
    title: "Leave it out",
    about: "How much less likely the class gets when a piece is left out, in nats: blue speaks for it, orange against",
    of: ({ occlusion: { labels, shape, data } }) => {
      const row = Math.max(0, labels.indexOf(classesView.label));
      const values = data.slice(row * shape[1], (row + 1) * shape[1]);
      return { values, scale: "signed", most: Math.max(1e-6, ...values.map(Math.abs)), say: (value) => signed(value) };
    },
  },
  pooling: {
    title: "Pooling",
    about: "What each piece counts in the vector that the classes are read from; together they are 100 %",
    of: ({ pooling }) => ({ values: pooling, scale: "weight", most: Math.max(...pooling, 1e-6), say: percent }),
  },
};

const isBegin = (piece) => piece?.text === "<s>";

const weighedPiece = (measured, onshow) => (piece, index) => {
  const share = measured.values[index] / measured.most;
  return make(
    "button",
    {
      type: "button",
      class: `piece ${isBegin(piece) ? "end" : ""}`,
      style: { background: colour(measured.scale, share), color: inkOn(measured.scale, share) },
      disabled: isBegin(piece) || !session.live,
      title: session.live ? null : "Editing needs the server: this is a saved page",
      data: { key: `source-${index}` },
      onclick: () => onshow(index),
    },
    make("span", { class: "piece-text", dir: "auto" }, pieceText(piece)),
    make("span", { class: "piece-number" }, measured.say(measured.values[index])),
  );
};

const pieceControls = (trace, measured) => {
  const set = (key) => (value) => {
    classesView[key] = value;
    redraw();
  };
  const { labels } = trace.occlusion;
  return controls(
    choice(
      "Colour by",
      Object.entries(PIECE_MEASURES).map(([key, { title }]) => [key, title]),
      classesView.measure,
      set("measure"),
    ),
    classesView.measure === "occlusion" && labels.length > 1
      ? choice(
          "For",
          labels.map((label) => [label, label]),
          labels.includes(classesView.label) ? classesView.label : labels[0],
          set("label"),
        )
      : null,
    measured.scale === "signed"
      ? scaleKey("signed", `\u2212${decimal(measured.most, 1)}`, `+${decimal(measured.most, 1)}`)
      : scaleKey("weight", "0", measured.say(measured.most)),
  );
};

const drawClasses = (host, trace) => {
  const measure = PIECE_MEASURES[classesView.measure];
  const measured = measure.of(trace);
  const card = make("div", { class: "card" });
  const editor = make("div", { class: "tokens-card" });
  const show = (index) => {
    classesView.piece = index;
    refill(editor, sourceCard(index));
  };
  refill(
    card,
    make("h3", null, "Classes"),
    make("p", { class: "facts" }, plural(trace.classes.length, "class", "classes")),
    chanceBars(trace.classes, "Classes"),
  );
  // An edited text has other places than the original, by which edits are counted: then only undoing is offered.
  const same = session.original?.length === trace.source.pieces.length;
  const row = pieceRow(trace.source.pieces, trace.source.text, weighedPiece(measured, same ? show : () => {}));
  refill(
    host,
    make(
      "div",
      { class: "beside" },
      make(
        "div",
        null,
        make("h3", { class: "row-title" }, "Pieces ", make("small", null, plural(trace.source.pieces.length, "piece"))),
        pieceControls(trace, measured),
        row,
        note(measure.about, session.live ? ". Click a piece to replace or drop it." : "."),
      ),
      make("div", { class: "stacked" }, card, editor),
    ),
  );
  walkable([...row.querySelectorAll(".piece:not(:disabled)")], 1e9);
  if (same && session.live && classesView.piece !== null && classesView.piece < session.original.length)
    show(classesView.piece);
};

// ---------------------------------------------------------------- the task

TASKS.set("classification", {
  title: "Classification",
  source: "Text",
  result: "Class",
  noun: "answer",
  cut: WHOLE,
  told: ({ labels, probabilities }) =>
    labels.map((label) => `${label} ${percent(probabilities[label])}`).join(", ") || "none",
  summary: (trace) =>
    trace.classes
      .filter((each) => each.chosen)
      .map((each) => `${each.label} ${percent(each.p)}`)
      .join(", ") || "none",
  panels: [
    { id: "classes", title: "Classes", parts: ["occlusion"], draw: drawClasses },
    ATTENTION_PANEL,
    HEADS_PANEL,
  ],
});
