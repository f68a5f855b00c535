"use strict";
// Reading a trace: pieces, words, attention weights as matrices. Nothing here draws.

const END = "</s>";

/** What a reader sees of a piece: SentencePiece's mark of a word's beginning is told by spacing instead. */
const pieceText = (piece) => piece.text.replaceAll("\u2581", piece.text.length > 1 ? "" : "\u2423") || "\u2423";
const isEnd = (piece) => piece?.text === END;

/** For axes: letters inside a word carry a hyphen, so that they cannot be taken for a word. */
const pieceLabels = (pieces) =>
  pieces.map((piece, index) => {
    const text = pieceText(piece);
    return index && piece.word === pieces[index - 1].word && /^[\p{L}\p{N}]/u.test(text) ? `-${text}` : text;
  });

/** Where the model hesitated most: the place worth looking at first. */
const leastSure = (pieces) =>
  pieces.reduce((worst, piece, index) => (piece.logp < pieces[worst].logp ? index : worst), 0);

/** Words as spans of pieces: {text, from, to}. */
const wordsOf = (pieces) => {
  const words = [];
  pieces.forEach((piece, index) => {
    const last = words[words.length - 1];
    if (last && last.word === piece.word) Object.assign(last, { text: last.text + pieceText(piece), to: index + 1 });
    else words.push({ text: pieceText(piece), word: piece.word, from: index, to: index + 1 });
  });
  return words;
};

// ---------------------------------------------------------------- matrices

const matrix = (rows, columns, at) => {
  const values = new Float32Array(rows * columns);
  for (let r = 0; r < rows; r++) for (let c = 0; c < columns; c++) values[r * columns + c] = at(r, c);
  return { rows, columns, values, at: (r, c) => values[r * columns + c] };
};

const fromBase64 = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

/** Bytes of a packed tensor, unpacked once. */
const unpacked = (() => {
  const made = new WeakMap();
  return (packed) => {
    if (!made.has(packed)) made.set(packed, fromBase64(packed.data));
    return made.get(packed);
  };
})();

const headMatrix = (packed, layer, head) => {
  const [, heads, rows, columns] = packed.shape;
  const bytes = unpacked(packed);
  const start = (layer * heads + head) * rows * columns;
  return matrix(rows, columns, (r, c) => bytes[start + r * columns + c] / 255);
};

const joinMatrices = (all, join) =>
  matrix(all[0].rows, all[0].columns, (r, c) => join(all.map((each) => each.at(r, c))));
const meanOf = (values) => sum(values) / values.length;

/** Many heads read as one: a single head, the mean of its layer, the strongest of its layer, or the mean of all. */
const READINGS = {
  head: (packed, layer, head) => headMatrix(packed, layer, head),
  layer: (packed, layer) =>
    joinMatrices(
      range(packed.shape[1]).map((head) => headMatrix(packed, layer, head)),
      meanOf,
    ),
  strongest: (packed, layer) =>
    joinMatrices(
      range(packed.shape[1]).map((head) => headMatrix(packed, layer, head)),
      (values) => Math.max(...values),
    ),
  all: (packed) =>
    joinMatrices(
      range(packed.shape[0]).flatMap((layer) => range(packed.shape[1]).map((head) => headMatrix(packed, layer, head))),
      meanOf,
    ),
};

/** Pieces to words: what a word gets is the sum over its pieces, what a word gives is their mean. */
const byWords = (weights, rowWords, columnWords) =>
  matrix(rowWords.length, columnWords.length, (r, c) => {
    const { from, to } = rowWords[r];
    const got = range(to - from).map((i) =>
      sum(range(columnWords[c].to - columnWords[c].from).map((j) => weights.at(from + i, columnWords[c].from + j))),
    );
    return meanOf(got);
  });

/** Without the columns that `keep` refuses; what is left sums to what it was. */
const withoutColumns = (weights, keep) => {
  const kept = range(weights.columns).filter(keep);
  const rest = range(weights.rows).map((r) => sum(kept.map((c) => weights.at(r, c))));
  const total = range(weights.rows).map((r) => sum(range(weights.columns).map((c) => weights.at(r, c))));
  return matrix(weights.rows, kept.length, (r, c) => (rest[r] > 0 ? (weights.at(r, kept[c]) / rest[r]) * total[r] : 0));
};

// ---------------------------------------------------------------- labels of attention's rows and columns

/** The decoder's input u is the begin sign, then the pieces one place later. */
const ATTENTION = {
  encoder: { title: "Encoder", about: "source looks at source", stack: "encoder", kind: "self" },
  decoder: { title: "Decoder", about: "target looks at itself, backwards", stack: "decoder", kind: "self" },
  cross: { title: "Cross", about: "target looks at source", stack: "decoder", kind: "cross" },
};
const attentionLabels = (trace, name) => {
  const source = pieceLabels(trace.source.pieces);
  const target = pieceLabels(trace.target?.pieces ?? []);
  if (name === "encoder") return { rows: source, columns: source };
  return { rows: target, columns: name === "cross" ? source : ["<s>", ...target].slice(0, target.length) };
};

/** Names of a stage's rows and columns as a reader counts: heads from 1, like layers and steps. */
const stageLabels = (names) =>
  names?.map((text) => pieceText({ text }).replace(/^head (\d+)$/, (_, head) => `head ${Number(head) + 1}`)) ?? null;

/** A packed matrix of activations: bytes stretched between its lowest and highest value. */
const stageMatrix = (stage) => {
  const bytes = unpacked(stage);
  const [rows, columns] = stage.shape;
  return matrix(rows, columns, (r, c) => stage.lo + (bytes[r * columns + c] / 255) * (stage.hi - stage.lo));
};
