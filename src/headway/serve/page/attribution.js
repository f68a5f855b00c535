"use strict";
// Panel I. What in the source made a target piece likely: gradients, and leaving pieces out.

const attributionView = { method: "occlusion", row: null };

const METHODS = {
  occlusion: {
    title: "Leave it out",
    about: "how much less likely a target piece gets when a source piece is left out",
  },
  gradient: {
    title: "Input \u00d7 gradient",
    about: "how steeply the log-probability rises along each source piece's vector",
  },
  integrated: {
    title: "Integrated gradients",
    about: "gradients on the whole way from empty vectors to the source; they add up to what the source does",
  },
};

const causeBars = (weights, row, labels, most) =>
  make(
    "ol",
    { class: "options" },
    labels.map((label, c) => {
      const value = weights.at(row, c);
      return make(
        "li",
        { class: "option cause" },
        make("span", { class: "option-text", dir: "auto" }, label),
        make(
          "span",
          { class: "cause-track" },
          make("span", {
            class: "cause-bar",
            style: {
              width: `${(50 * Math.abs(value)) / most}%`,
              [value < 0 ? "right" : "left"]: "50%",
              background: colour("signed", value < 0 ? -0.75 : 0.75),
            },
          }),
        ),
        make("span", { class: "option-p" }, signed(value)),
      );
    }),
  );

const drawAttribution = (host, trace) => {
  const there = Object.keys(METHODS).filter((name) => trace.attribution[name]);
  const method = there.includes(attributionView.method) ? attributionView.method : there[0];
  const table = trace.attribution[method];
  const [rows, columns] = [pieceLabels(trace.target.pieces), pieceLabels(trace.source.pieces)];
  const weights = matrix(table.shape[0], table.shape[1], (r, c) => table.data[r * table.shape[1] + c]);
  const most = Math.max(1e-6, ...weights.values.map(Math.abs));
  const row = clamp(attributionView.row ?? 0, 0, rows.length - 1);
  const wide = panelWidth(host) > 900;
  const card = make("div", { class: "card" });
  const show = (r) => {
    attributionView.row = r;
    refill(
      card,
      make("h3", { dir: "auto" }, rows[r]),
      make("p", { class: "facts" }, "for (blue) and against (orange) this piece, in nats"),
      causeBars(weights, r, columns, most),
    );
  };
  const caption = `${METHODS[method].title}: source pieces (columns) for each target piece (rows), in nats`;
  show(row);
  refill(
    host,
    controls(
      choice(
        "Method",
        there.map((name) => [name, METHODS[name].title]),
        method,
        (name) => {
          attributionView.method = name;
          redraw();
        },
      ),
      scaleKey("signed", `\u2212${decimal(most, 1)}`, `+${decimal(most, 1)}`),
    ),
    make("p", { class: "note lead" }, METHODS[method].about),
    make(
      "div",
      { class: "beside" },
      make(
        "figure",
        { class: "plate" },
        heatmap(weights, {
          rows,
          columns,
          width: wide ? panelWidth(host) - 440 : panelWidth(host) - 40,
          caption,
          scale: "signed",
          most,
          big: 34,
          say: (r, c) => `${columns[c]} for ${rows[r]}: ${signed(weights.at(r, c))} nats`,
          onpick: show,
          onpoint: (r) => r !== null && show(r),
        }).node,
        completeness(table.check),
      ),
      card,
    ),
    matrixTable(weights, rows, columns, caption),
  );
};

/** Attributions of a path must add up to the difference between its ends. */
const completeness = (check) =>
  check
    ? note(
        `Check: these numbers add up to ${decimal(check.found)}; the source as a whole makes ${decimal(check.expected)} of difference (${percent(Math.abs(check.found - check.expected) / Math.max(1e-9, Math.abs(check.expected)))} apart).`,
      )
    : null;
