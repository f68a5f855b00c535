"use strict";
// Panel E. The search, step by step; another beam or length penalty grows a second tree beside the first.

const beamView = { step: null, pruned: true, node: null, playing: null };

// ---------------------------------------------------------------- one hypothesis

/** Where a row looked when it wrote its piece: known for rows that were kept. */
const beamLook = (trace, node) => {
  const packed = node.fate === "kept" ? trace.beam.cross?.[node.step]?.[node.row] : null;
  if (!packed) return null;
  const bytes = fromBase64(packed);
  const weights = matrix(1, bytes.length, (_, c) => bytes[c] / 255);
  const columns = pieceLabels(trace.source.pieces);
  if (columns.length !== bytes.length) return null;
  const best = range(bytes.length)
    .sort((a, b) => bytes[b] - bytes[a])
    .slice(0, 3);
  return make(
    "p",
    { class: "facts" },
    "looked at ",
    best.map((c, i) => [i ? ", " : "", make("bdi", null, columns[c]), ` ${percent(weights.at(0, c))}`]),
  );
};

const beamCard = (trace, node) => {
  if (!node) return note("Click a piece in the tree to read the text that leads to it.");
  const ids = pathOf(node).map((each) => each.piece);
  const place = trace.alternatives.findIndex((each) => node.fate === "finished" && each.text === pathText(node));
  const show = () => {
    openPanel("tokens");
    return place >= 0
      ? change({ hypothesis: place, prefix: [] })
      : force(ids.filter((_, i) => pathOf(node)[i].text !== END));
  };
  return make(
    "div",
    { class: "card" },
    make("h3", { dir: "auto" }, pathText(node) || "\u2026"),
    make(
      "p",
      { class: "facts" },
      `step ${node.step + 1} \u00b7 ${FATES[node.fate]} \u00b7 this piece ${percent(Math.exp(node.score))} \u00b7 log-probability ${decimal(node.total)} \u00b7 made comparable ${decimal(node.normalised)}`,
    ),
    beamLook(trace, node),
    session.live
      ? button(place >= 0 ? "Look at this translation" : "Go on from here", show, { kind: "strong", key: "beam-show" })
      : null,
  );
};

const beamTable = (steps) => {
  const details = make("details", { class: "as-table" }, make("summary", null, "As a table"));
  const rows = steps.flat();
  details.addEventListener("toggle", () => {
    if (!details.open || details.querySelector("table")) return;
    const body = make(
      "table",
      null,
      make("caption", null, "All candidates, step by step"),
      make(
        "thead",
        null,
        make(
          "tr",
          null,
          ["Step", "Text so far", "Fate", "Piece", "Log-probability", "Comparable"].map((title) =>
            make("th", { scope: "col" }, title),
          ),
        ),
      ),
    );
    fillLazily(
      body,
      rows.length,
      (i) =>
        make(
          "tr",
          null,
          make("td", null, String(rows[i].step + 1)),
          make("td", { class: "words", dir: "auto" }, pathText(rows[i])),
          make("td", { class: "words" }, rows[i].fate),
          make("td", null, percent(Math.exp(rows[i].score))),
          make("td", null, decimal(rows[i].total)),
          make("td", null, decimal(rows[i].normalised)),
        ),
      "tbody",
    );
    details.append(make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Candidates" }, body));
  });
  return details;
};

// ---------------------------------------------------------------- the panel

const stopPlaying = () => {
  clearTimeout(beamView.playing);
  beamView.playing = null;
};

const playBar = (tree, last) => {
  const from = clamp(beamView.step ?? last, 0, last);
  const set = (step) => {
    beamView.step = step === last ? null : step;
    tree.until(step);
  };
  const steps = slider("Step", {
    low: 1,
    high: last + 1,
    value: from + 1,
    say: (n) => `${n} of ${last + 1}`,
    oninput: (n) => {
      stopPlaying();
      set(n - 1);
    },
  });
  const input = steps.querySelector("input");
  const play = button(
    "Play",
    () => {
      if (beamView.playing) return stopPlaying();
      let step = (beamView.step ?? last) >= last ? -1 : beamView.step;
      const forward = () => {
        step += 1;
        input.value = step + 1;
        input.dispatchEvent(new Event("input")); // tells the slider, which stops a playing of its own
        if (step < last) beamView.playing = setTimeout(forward, clamp(4000 / last, 60, 420));
      };
      return forward();
    },
    { key: "play" },
  );
  tree.until(from);
  return [steps, play];
};

const drawBeam = (host, trace) => {
  stopPlaying();
  const beam = trace.beam;
  const pick = (node) => {
    beamView.node = [node.step, node.place];
    refill(card, beamCard(trace, node));
  };
  const tree = beamTree(beam, beamView.pruned, pick);
  const last = tree.steps.length - 1;
  const held = beamView.node ? tree.steps[beamView.node[0]]?.[beamView.node[1]] : null;
  const card = make("div", { class: "beam-card", "aria-live": "polite" }, beamCard(trace, held ?? null));
  const before = session.treeBefore;
  refill(
    host,
    controls(
      slider("Beam", {
        low: 1,
        high: 10,
        value: beam.size,
        disabled: !session.live,
        onset: (size) => growTree({ beam_size: size }),
      }),
      slider("Length penalty", {
        low: 0,
        high: 2,
        step: 0.1,
        value: beam.alpha ?? 0.6,
        say: (a) => a.toFixed(1),
        disabled: !session.live,
        onset: (alpha) => growTree({ alpha }),
      }),
      playBar(tree, last),
      toggle("Show what was left behind", beamView.pruned, (on) => {
        beamView.pruned = on;
        redraw();
      }),
    ),
    plate(
      `Beam of ${beam.size}`,
      `length penalty ${decimal(beam.alpha ?? 0.6, 1)} \u00b7 ${plural(last + 1, "step")} \u00b7 thicker edges are likelier pieces`,
      tree.node,
      make(
        "ul",
        { class: "key" },
        ["best", "kept", "finished", "pruned"].map((fate) =>
          make("li", { class: `fate ${fate}` }, fate === "best" ? "the answer" : FATES[fate]),
        ),
      ),
    ),
    card,
    before && before.beam !== beam
      ? make(
          "figure",
          { class: "plate before" },
          make(
            "figcaption",
            null,
            `Before: beam of ${before.beam.size} `,
            make(
              "small",
              null,
              `length penalty ${decimal(before.beam.alpha ?? 0.6, 1)} \u00b7 `,
              make("span", { dir: "auto" }, before.text),
            ),
          ),
          beamTree(before.beam, beamView.pruned, () => {}, "before").node,
          button(
            "Put away",
            () => {
              session.treeBefore = null;
              redraw();
            },
            { key: "put-away" },
          ),
        )
      : null,
    beamTable(tree.steps),
  );
};
