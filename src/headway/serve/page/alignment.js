"use strict";
// Panel C. Where each target word looked: a matrix, and the same weights as lines between the two texts.

const alignmentView = { reading: "layer", layer: null, head: 0, words: true, sink: true, view: "lines" };

const BEGIN = { text: "<s>", word: -1 };
const isEdge = (piece) => isEnd(piece) || piece.text === BEGIN.text;

/** Who looks at whom: a translation at its source, words of other texts at each other. */
const lookersOf = (trace) => {
  const name = ["cross", "encoder", "decoder"].find((each) => trace.attention[each]);
  const rows = name === "encoder" ? trace.source.pieces : trace.target.pieces;
  const columns = name === "decoder" ? [BEGIN, ...rows].slice(0, rows.length) : trace.source.pieces;
  return { packed: trace.attention[name], rows, columns };
};

/** The weights as the reader wants them: {weights, rows, columns}. */
const alignmentOf = (trace, view) => {
  const { packed, rows: target, columns: source } = lookersOf(trace);
  const layer = clamp(view.layer ?? packed.shape[0] - 1, 0, packed.shape[0] - 1);
  let weights = READINGS[view.reading](packed, layer, clamp(view.head, 0, packed.shape[1] - 1));
  let [rows, columns] = [pieceLabels(target), pieceLabels(source)];
  let end = source.map(isEdge);
  if (view.words && wordsOf(target).length > 2) {
    const [targetWords, sourceWords] = [wordsOf(target), wordsOf(source)];
    weights = byWords(weights, targetWords, sourceWords);
    [rows, columns] = [targetWords.map((word) => word.text), sourceWords.map((word) => word.text)];
    end = sourceWords.map((word) => isEdge(source[word.from]));
  }
  if (view.sink && end.some(Boolean) && !end.every(Boolean)) {
    weights = withoutColumns(weights, (c) => !end[c]);
    columns = columns.filter((_, c) => !end[c]);
  }
  return { weights, rows, columns };
};

// ---------------------------------------------------------------- lines

/** Middle of every word on its line, and how long the line is. */
const places = (labels, size, gap) => {
  let x = 0;
  const middles = labels.map((label) => {
    const width = Math.max(14, textWidth(label, size));
    const middle = x + width / 2;
    x += width + gap;
    return middle;
  });
  return { middles, length: Math.max(0, x - gap) };
};

const alignmentLines = ({ weights, rows, columns }, width, onpoint) => {
  const [size, height, margin] = [16, 250, 28];
  const lines = [places(columns, size, 20), places(rows, size, 20)];
  const room = Math.max(width, lines[0].length + 2 * margin, lines[1].length + 2 * margin);
  const spread = (labels, line) => {
    // Short lines are spread out and centred; right-to-left texts run the other way.
    const stretch = Math.min(1.35, (room - 2 * margin) / Math.max(1, line.length));
    const start = (room - line.length * stretch) / 2;
    const mirrored = rightToLeft(labels.join(" "));
    return line.middles.map((x) => (mirrored ? room - start - x * stretch : start + x * stretch));
  };
  const [top, bottom] = [spread(columns, lines[0]), spread(rows, lines[1])];
  const paths = [];
  for (const r of range(rows.length))
    for (const c of range(columns.length)) {
      const weight = weights.at(r, c);
      if (weight < 0.06) continue; // thinner lines say nothing and hide the others
      paths.push(
        draw("path", {
          class: "thread",
          data: { row: r, column: c },
          "stroke-width": 0.5 + 7 * weight,
          "stroke-opacity": 0.12 + 0.75 * weight,
          d: `M${top[c]},52 C${top[c]},${height * 0.52} ${bottom[r]},${height * 0.48} ${bottom[r]},${height - 52}`,
        }),
      );
    }
  const text = (label, x, y, side, index) =>
    draw(
      "text",
      {
        x,
        y,
        class: "thread-word",
        "text-anchor": "middle",
        "font-size": size,
        data: { [side]: index },
        onpointerenter: () => onpoint(side === "row" ? index : null, side === "column" ? index : null),
        onpointerleave: () => onpoint(null, null),
      },
      label,
    );
  const picture = draw(
    "svg",
    { width: room, height, viewBox: `0 0 ${room} ${height}`, class: "threads", "aria-hidden": "true" },
    draw("g", null, paths),
    columns.map((label, c) => text(label, top[c], 36, "column", c)),
    rows.map((label, r) => text(label, bottom[r], height - 24, "row", r)),
  );
  const point = (r, c) => {
    picture.classList.toggle("pointed", r !== null || c !== null);
    for (const thread of picture.querySelectorAll(".thread"))
      thread.classList.toggle(
        "on",
        (r === null || Number(thread.dataset.row) === r) && (c === null || Number(thread.dataset.column) === c),
      );
    const strong = (row, column) => weights.at(row, column) >= 0.15;
    for (const word of picture.querySelectorAll(".thread-word")) {
      const row = word.dataset.row === undefined ? null : Number(word.dataset.row);
      const column = word.dataset.column === undefined ? null : Number(word.dataset.column);
      const own = row === null ? column === c : row === r;
      const partner = row === null ? r !== null && strong(r, column) : c !== null && strong(row, c);
      word.classList.toggle("on", own || partner);
    }
  };
  return { node: make("div", { class: "scroll" }, picture), point };
};

// ---------------------------------------------------------------- the panel

const headChips = (count, chosen, onpick) =>
  choice(
    "Head",
    range(count).map((head) => [head, String(head + 1)]),
    chosen,
    onpick,
  );

const alignmentControls = (trace) => {
  const [layers, heads] = lookersOf(trace).packed.shape;
  const set = (key) => (value) => {
    alignmentView[key] = value;
    redraw();
  };
  const { reading } = alignmentView;
  return controls(
    choice(
      "Read",
      [
        ["layer", "Mean of layer"],
        ["head", "One head"],
        ["strongest", "Strongest head"],
        ["all", "Mean of all"],
      ],
      reading,
      set("reading"),
    ),
    reading === "all"
      ? null
      : slider("Layer", {
          low: 1,
          high: layers,
          value: (alignmentView.layer ?? layers - 1) + 1,
          say: (n) => `${n} of ${layers}`,
          oninput: (n) => set("layer")(n - 1),
        }),
    reading === "head" ? headChips(heads, clamp(alignmentView.head, 0, heads - 1), set("head")) : null,
    choice(
      "By",
      [
        [true, "Words"],
        [false, "Pieces"],
      ],
      alignmentView.words,
      set("words"),
    ),
    toggle(translating() ? "Leave out </s>" : "Leave out <s> and </s>", alignmentView.sink, set("sink"), {
      title: "Heads with nothing to say look at these signs; without them the rest is scaled up",
    }),
  );
};

/** The source words that a target word looked at, the most first. */
const lookedAt = ({ weights, columns }, r) =>
  make(
    "ol",
    { class: "options" },
    range(columns.length)
      .sort((a, b) => weights.at(r, b) - weights.at(r, a))
      .slice(0, 8)
      .map((c) =>
        make(
          "li",
          { class: "option cause" },
          make("span", { class: "option-text", dir: "auto" }, columns[c]),
          make(
            "span",
            { class: "option-track" },
            make("span", { class: "option-bar weight", style: { width: `${100 * weights.at(r, c)}%` } }),
          ),
          make("span", { class: "option-p" }, percent(weights.at(r, c))),
        ),
      ),
  );

const drawAlignment = (host, trace) => {
  const seen = alignmentOf(trace, alignmentView);
  const width = panelWidth(host);
  const caption = translating()
    ? "Weight of each source word (column) for each target word (row)"
    : "Weight of each word (column) for each word that looks (row)";
  const sides = translating() ? "rows are target words, columns what they looked at" : "rows look, columns are looked at";
  const card = make("div", { class: "card" });
  const tell = (r) =>
    refill(
      card,
      make("h3", { dir: "auto" }, seen.rows[r]),
      make("p", { class: "facts" }, "looked at"),
      lookedAt(seen, r),
    );
  const point = (r, c) => {
    lines.point(r, c);
    map.point(r, c);
    if (r !== null) tell(r);
  };
  const lines = alignmentLines(seen, width - 40, point);
  const map = heatmap(seen.weights, {
    rows: seen.rows,
    columns: seen.columns,
    width: width > 900 ? width - 440 : width - 40,
    caption,
    big: 46,
    onpoint: (r, c) => {
      lines.point(r, c);
      if (r !== null) tell(r);
    },
    say: (r, c) => `${seen.rows[r]} \u2190 ${seen.columns[c]}: ${percent(seen.weights.at(r, c))}`,
  });
  tell(0);
  refill(
    host,
    alignmentControls(trace),
    plate("Lines", "thicker is more attention; point at a word to follow it", lines.node),
    make(
      "div",
      { class: "beside" },
      plate(
        "Matrix",
        sides,
        map.node,
        scaleKey("weight", "0", "1"),
      ),
      card,
    ),
    matrixTable(seen.weights, seen.rows, seen.columns, caption),
    note(
      "Attention shows where the model looked, not why it said what it said",
      translating() ? ": the Attribution panel measures that." : ".",
    ),
  );
};

const ATTENTION_PANEL = { id: "attention", title: "Attention", parts: ["attention"], draw: drawAlignment };
