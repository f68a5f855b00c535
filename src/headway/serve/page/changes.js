"use strict";
// What the reader changed, and what came of it: shown above every panel as long as anything is changed.

const changeChip = (text, onremove, key) =>
  make(
    "li",
    { class: "chip" },
    make("span", { dir: "auto" }, text),
    make(
      "button",
      { type: "button", class: "chip-x", "aria-label": `Undo: ${text}`, onclick: onremove, data: { key } },
      "\u00d7",
    ),
  );

const changeChips = (trace) => {
  const { prefix, edit, ablate } = session.request;
  const held = (trace?.target.pieces ?? [])
    .slice(0, prefix.length)
    .map((piece) => piece.text)
    .join("")
    .replaceAll("\u2581", " ")
    .trim();
  const heads = ablate.map((head) => {
    const name = Object.keys(ATTENTION).find(
      (each) => ATTENTION[each].stack === head.stack && ATTENTION[each].kind === head.kind,
    );
    return changeChip(
      `silent: ${headName(name, head.layer, head.head)}`,
      () => toggleHead(head),
      `undo-${head.stack}-${head.kind}-${head.layer}-${head.head}`,
    );
  });
  return [
    prefix.length ? changeChip(`begins with \u201c${held}\u201d`, () => force([]), "undo-prefix") : null,
    edit.map(({ pos, piece }) => {
      const was = session.original?.[pos] ? pieceText(session.original[pos]) : `piece ${pos + 1}`;
      return changeChip(
        piece ? `\u201c${was}\u201d reads \u201c${piece}\u201d` : `without \u201c${was}\u201d`,
        () => editPiece(pos, null),
        `undo-edit-${pos}`,
      );
    }),
    heads,
  ];
};

/** How the old translation fares now: a log-probability has no unit that a reader knows, a factor has. */
const timesLikelier = (delta) => {
  const factor = Math.exp(Math.abs(delta));
  const told = factor >= 1000 ? short(factor) : factor >= 10 ? factor.toFixed(0) : factor.toFixed(1);
  return Math.abs(delta) < 0.01
    ? "as likely as before"
    : `${told} times ${delta < 0 ? "less" : "more"} likely than before`;
};

/** A forced beginning leaves the model as it was; silenced heads and other pieces make it think otherwise of the old text. */
const verdict = (trace, baseline, same) => {
  const { noun } = taskNow();
  if (baseline.logp === null) return note(same ? `The ${noun} stays the same.` : `The ${noun} has changed.`);
  const unchanged = !session.request.edit.length && !session.request.ablate.length;
  if (taskNow().scoresText && !unchanged && baseline.text !== trace.target.text)
    return note(
      "This text is ",
      make("b", null, timesLikelier(baseline.logp_now - baseline.logp).replace("before", "the old one")),
      `: log-probability ${decimal(baseline.logp)} \u2192 ${decimal(baseline.logp_now)}.`,
    );
  const [before, now] = [baseline.logp, unchanged ? trace.target.logp : baseline.logp_now];
  return note(
    same ? `The ${noun} stays the same. ` : "",
    unchanged ? "The model finds this one " : `The old ${noun} is now `,
    make("b", null, unchanged ? timesLikelier(now - before).replace("before", "its own") : timesLikelier(now - before)),
    `: log-probability ${decimal(before)} \u2192 ${decimal(now)} (${signed(now - before)}).`,
  );
};

const logpTold = (logp) => (logp === null ? null : make("small", null, decimal(logp)));

const drawChanges = (host, trace) => {
  host.hidden = !touched();
  if (host.hidden) return refill(host);
  const baseline = trace?.baseline;
  const same = baseline && baseline.text === trace.target.text;
  return refill(
    host,
    make(
      "div",
      { class: "changes-head" },
      make("h2", null, "Changed"),
      make("ul", { class: "chips" }, changeChips(trace)),
      button("Undo all", () => change({ ...UNTOUCHED }), { key: "undo-all" }),
    ),
    baseline
      ? make(
          "dl",
          { class: "versus" },
          make("dt", null, "Before"),
          make("dd", { dir: "auto" }, baseline.text, logpTold(baseline.logp)),
          make("dt", null, "Now"),
          make(
            "dd",
            { dir: "auto" },
            same ? trace.target.text : diffText(baseline.text, trace.target.text),
            logpTold(trace.target.logp),
          ),
        )
      : null,
    baseline ? verdict(trace, baseline, same) : null,
  );
};
