"use strict";
// Panel G. How the model knows where a piece stands. Computed here from the formulas, to be played with.

const positionsView = { width: null, count: 64, at: 0, halves: true };

const turnSpeed = (pair, width) => 10000 ** (-(2 * pair) / width);
const sinusoidAt = (position, feature, width, halves) => {
  const pair = halves ? feature % (width / 2) : Math.floor(feature / 2);
  const cosine = halves ? feature >= width / 2 : feature % 2 === 1;
  const angle = position * turnSpeed(pair, width);
  return cosine ? Math.cos(angle) : Math.sin(angle);
};
/** The product of two encodings depends on their distance alone: a sum of cosines. */
const likeness = (distance, width) =>
  sum(range(width / 2).map((pair) => Math.cos(distance * turnSpeed(pair, width)))) / (width / 2);

const KINDS = {
  sinusoidal: "This model adds these waves to its embeddings: that is the paper's way.",
  learned: "This model learnt a vector for every position instead; the waves below are the paper's, for comparison.",
  rotary:
    "This model turns queries and keys by an angle that grows with the position. What two of them then share depends on their distance by the same sum of cosines as below, over the width of one head.",
  alibi:
    "This model adds nothing to embeddings; every head takes a fixed amount off its scores for every piece of distance.",
  bucketed:
    "This model adds a learnt number to its scores for every range of distances; near ones have a range each, far ones share.",
  transformer_xl: "This model compares queries with the distance itself, through waves like those below.",
  tener: "This model compares queries with the distance and its direction, through waves like those below.",
  none: "This model has no positions: it reads a bag of pieces, but for the decoder's order of writing.",
};

const wavePicture = (width, count, at, halves, onpick) => {
  const waves = matrix(count, width, (position, feature) => sinusoidAt(position, feature, width, halves));
  const canvas = thumbnail(waves, { scale: "signed", most: 1 });
  const readout = make("p", { class: "readout" }, "\u00a0");
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [
      clamp(Math.floor(((event.clientY - box.top) / box.height) * count), 0, count - 1),
      clamp(Math.floor(((event.clientX - box.left) / box.width) * width), 0, width - 1),
    ];
  };
  const line = make("span", { class: "wave-line", style: { top: `${(100 * (at + 0.5)) / count}%` } });
  const frame = make(
    "div",
    {
      class: "waves",
      role: "img",
      "aria-label": `Sinusoids: ${count} positions downwards, ${width} features across`,
      onpointermove: (event) => {
        const [p, f] = place(event);
        readout.textContent = `position ${p}, feature ${f}: ${decimal(waves.at(p, f), 3)}`;
      },
      onclick: (event) => onpick(place(event)[0]),
    },
    canvas,
    line,
  );
  return [frame, readout];
};

const slopes = (heads, count) =>
  range(heads).map((head) => ({
    name: `head ${head + 1}`,
    points: range(count).map((distance) => [distance, -(2 ** ((-8 * (head + 1)) / heads)) * distance]),
  }));

const drawPositions = (host, trace) => {
  const model = trace?.model ?? session.model ?? {};
  const kind = model.position ?? "sinusoidal";
  const natural = kind === "rotary" && model.heads ? model.width / model.heads : model.width;
  const width = positionsView.width ?? clamp(2 * Math.round((natural ?? 128) / 2), 8, 512);
  const { count, halves } = positionsView;
  const at = clamp(positionsView.at, 0, count - 1);
  const set = (key) => (value) => {
    positionsView[key] = value;
    redraw();
  };
  const room = panelWidth(host) > 900 ? panelWidth(host) / 2 - 40 : panelWidth(host) - 40;
  const points = range(count).map((other) => [other - at, likeness(other - at, width)]);
  refill(
    host,
    controls(
      slider("Width", { low: 8, high: 512, step: 8, value: width, onset: set("width") }),
      slider("Positions", { low: 16, high: 256, step: 16, value: count, onset: set("count") }),
      slider("Position", { low: 0, high: count - 1, value: at, onset: set("at") }),
      choice(
        "Order",
        [
          [true, "Sines, then cosines"],
          [false, "In turn, as the paper writes"],
        ],
        halves,
        set("halves"),
      ),
    ),
    KINDS[kind] ? make("p", { class: "note lead" }, KINDS[kind]) : null,
    make(
      "div",
      { class: "charts" },
      plate(
        "The waves",
        "a row for every position, a column for every feature",
        wavePicture(width, count, at, halves, set("at")),
        scaleKey("signed", "\u22121", "1"),
      ),
      lineChart({
        title: "How alike two positions are",
        about: `PE(${at}) \u00b7 PE(${at} + distance), divided by its greatest value`,
        series: [{ name: "likeness", points }],
        width: room,
        height: 260,
        mark: 0,
        xName: "distance",
      }),
      kind === "alibi"
        ? lineChart({
            title: "What distance costs",
            about: "taken off the score of each head",
            series: slopes(model.heads ?? 8, count),
            width: room,
            xName: "distance",
          })
        : null,
    ),
    note(
      "PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos(pos / 10000^(2i/d)): fast waves count single steps, slow ones whole passages. A fixed distance is a fixed rotation, so it looks the same everywhere.",
    ),
  );
};
