"use strict";
// Panel B. Pieces of both sides, coloured by how sure the model was; a click sends the translation another way.

const tokensView = { measure: "p", target: null, source: null, held: false };
const FIRST_PIECE = 4; // numbers below are signs that cannot stand in a text

const MEASURES = {
  p: {
    title: "Probability",
    low: "sure",
    high: "unlikely",
    doubt: (piece) => 1 - Math.exp(piece.logp),
    say: (piece) => percent(Math.exp(piece.logp)),
  },
  entropy: {
    title: "Entropy",
    low: "0 nats",
    high: "4 nats",
    doubt: (piece) => piece.entropy / 4,
    say: (piece) => decimal(piece.entropy),
  },
  rank: {
    title: "Rank",
    low: "first",
    high: "fifth or lower",
    doubt: (piece) => (piece.rank - 1) / 4,
    say: (piece) => `${piece.rank}.`,
  },
};

/** Pieces of one word stand close together, so that words can still be read. */
const pieceRow = (pieces, text, one) => {
  const words = wordsOf(pieces);
  const row = make("div", { class: "pieces", dir: rightToLeft(text) ? "rtl" : "ltr" });
  fillLazily(
    row,
    words.length,
    (w) =>
      make(
        "span",
        { class: "word" },
        range(words[w].to - words[w].from).map((i) => one(pieces[words[w].from + i], words[w].from + i)),
      ),
    "span",
  );
  return row;
};

const targetPiece = (trace, onshow) => (piece, index) => {
  const measure = MEASURES[tokensView.measure];
  const doubt = clamp(measure.doubt(piece), 0, 1);
  const changed = trace.baseline?.changed?.includes(index);
  return make(
    "button",
    {
      type: "button",
      class: `piece ${piece.forced ? "forced" : ""} ${changed ? "changed" : ""} ${isEnd(piece) ? "end" : ""}`,
      style: { background: colour("doubt", doubt), color: inkOn("doubt", doubt) },
      "aria-pressed": String(tokensView.held && tokensView.target === index),
      "aria-label": `${pieceText(piece)}, ${percent(Math.exp(piece.logp))}, rank ${piece.rank}${piece.forced ? ", held" : ""}`,
      data: { key: `target-${index}` },
      onpointerenter: () => tokensView.held || onshow("target", index, false),
      onfocus: () => tokensView.held || onshow("target", index, false),
      onclick: () => onshow("target", index, !(tokensView.held && tokensView.target === index)),
    },
    make("span", { class: "piece-text", dir: "auto" }, pieceText(piece)),
    make("span", { class: "piece-number" }, measure.say(piece)),
  );
};

const sourcePiece = (onshow) => (piece, index) => {
  const edit = session.request.edit.find((each) => each.pos === index);
  return make(
    "button",
    {
      type: "button",
      class: `piece source ${edit ? (edit.piece ? "changed" : "dropped") : ""} ${isEnd(piece) ? "end" : ""}`,
      data: { key: `source-${index}` },
      disabled: isEnd(piece) || !session.live,
      title: session.live ? null : "Editing needs the server: this is a saved page",
      onclick: () => onshow("source", index, true),
    },
    make("span", { class: "piece-text", dir: "auto" }, edit?.piece || pieceText(piece)),
    make("span", { class: "piece-number" }, edit ? (edit.piece ? "edited" : "dropped") : String(piece.id)),
  );
};

// ---------------------------------------------------------------- the card beside the pieces

/** Anything can be written; in a text that is read no sign can be put, and its end stays. */
const canStand = (option, piece) => translating() || (option.id >= FIRST_PIECE && !isEnd(piece));

const alternativeRow = (trace, index, option, best) => {
  const chosen = option.id === trace.target.pieces[index].id;
  const before = trace.target.pieces.slice(0, index).map((piece) => piece.id);
  const p = Math.exp(option.logp);
  return make(
    "li",
    null,
    make(
      "button",
      {
        type: "button",
        class: `option ${chosen ? "chosen" : ""}`,
        disabled: !session.live || chosen || !canStand(option, trace.target.pieces[index]),
        data: { key: `option-${option.id}` },
        title: chosen
          ? "This one was written"
          : session.live
            ? "Write this one instead, and go on from there"
            : "Needs the server: this is a saved page",
        onclick: () => {
          tokensView.held = true;
          if (translating()) force([...before, option.id]);
          else editPiece(index, option.text);
        },
      },
      make("span", { class: "option-text", dir: "auto" }, pieceText(option)),
      make(
        "span",
        { class: "option-track" },
        make("span", { class: "option-bar", style: { width: `${Math.max(0.5, (100 * p) / best)}%` } }),
      ),
      make("span", { class: "option-p" }, percent(p)),
    ),
  );
};

/** Only what is written can be held; a text that is read stands as it is. */
const holdButtons = (piece, ids) =>
  translating()
    ? make(
        "div",
        { class: "row" },
        isEnd(piece) ? null : button("Hold everything up to here", () => force(ids), { key: "hold" }),
        session.request.prefix.length ? button("Let go", () => force([]), { key: "let-go" }) : null,
      )
    : null;

const targetCard = (trace, index) => {
  const piece = trace.target.pieces[index];
  const ids = trace.target.pieces.slice(0, index + 1).map((each) => each.id);
  const best = Math.max(...piece.top.map((option) => Math.exp(option.logp)), 1e-9);
  return make(
    "div",
    { class: "card" },
    make("h3", { dir: "auto" }, pieceText(piece)),
    make(
      "p",
      { class: "facts" },
      `step ${index + 1} \u00b7 ${percent(Math.exp(piece.logp))} \u00b7 rank ${piece.rank} \u00b7 entropy ${decimal(piece.entropy)} nats`,
    ),
    make(
      "ol",
      { class: "options", "aria-label": "What else could have stood here" },
      piece.top.map((option) => alternativeRow(trace, index, option, best)),
    ),
    session.live ? holdButtons(piece, ids) : note("Choosing another piece needs the server: this is a saved page."),
  );
};

const sourceCard = (index) => {
  const piece = session.original[index];
  const edit = session.request.edit.find((each) => each.pos === index);
  const input = make("input", {
    type: "text",
    class: "text-input",
    dir: "auto",
    value: edit?.piece ?? pieceText(piece),
    "aria-label": "Put this in its place",
    data: { key: "edit-text" },
  });
  return make(
    "form",
    {
      class: "card",
      onsubmit: (event) => {
        event.preventDefault();
        editPiece(index, input.value === pieceText(piece) ? null : input.value);
      },
    },
    make("h3", { dir: "auto" }, pieceText(piece)),
    make("p", { class: "facts" }, `source piece ${index + 1} \u00b7 number ${piece.id}`),
    make(
      "div",
      { class: "row" },
      input,
      make("button", { class: "button strong", data: { key: "edit-put" } }, "Replace"),
    ),
    make(
      "div",
      { class: "row" },
      button("Drop it", () => editPiece(index, ""), { key: "edit-drop" }),
      edit ? button("As it was", () => editPiece(index, null), { key: "edit-undo" }) : null,
    ),
    note("The model then reads the changed pieces; the words you typed stay."),
  );
};

// ---------------------------------------------------------------- the panel

const tokensAdvice = () => {
  const point = "Point at a piece to see what else could have stood there; click to hold it.";
  if (!session.live) return point;
  return translating()
    ? `${point} An alternative in the list is written in its place, and the rest is translated anew.`
    : `${point} An alternative in the list is read in its place, and changes what follows.`;
};

const sourceTitle = (trace) =>
  make("h3", { class: "row-title" }, "Source ", make("small", null, plural(trace.source.pieces.length, "piece")));

const memoryTold = ({ length, segment }) =>
  `The text is read ${plural(segment, "piece")} at a time; the model remembers ${plural(length, "piece")} before them.`;

const drawTokens = (host, trace) => {
  const card = make("div", { class: "tokens-card", role: "region", "aria-label": "One piece" });
  const { pieces } = trace.target;
  tokensView.target = clamp(tokensView.target ?? leastSure(pieces), 0, pieces.length - 1);
  if (tokensView.source !== null && tokensView.source >= (session.original?.length ?? 0)) tokensView.source = null;
  const show = (side, index, hold) => {
    Object.assign(tokensView, {
      held: hold,
      source: side === "source" ? index : null,
      target: side === "target" ? index : tokensView.target,
    });
    refill(card, side === "source" ? sourceCard(index) : targetCard(trace, index));
    host.querySelectorAll(".piece").forEach((each) => {
      each.classList.toggle("shown", each.dataset.key === `${side}-${index}`);
      each.setAttribute("aria-pressed", String(hold && each.dataset.key === `${side}-${index}`));
    });
  };
  const measure = MEASURES[tokensView.measure];
  const target = pieceRow(pieces, trace.target.text, targetPiece(trace, show));
  const source = pieceRow(session.original ?? trace.source.pieces, trace.source.text, sourcePiece(show));
  refill(
    host,
    controls(
      choice(
        "Colour by",
        Object.entries(MEASURES).map(([key, { title }]) => [key, title]),
        tokensView.measure,
        (picked) => {
          tokensView.measure = picked;
          redraw();
        },
      ),
      scaleKey("doubt", measure.low, measure.high),
    ),
    make(
      "div",
      { class: "beside" },
      make(
        "div",
        null,
        translating() && [sourceTitle(trace), source],
        make(
          "h3",
          { class: "row-title" },
          translating() ? "Target " : "Text ",
          make("small", null, `${plural(pieces.length, "piece")} \u00b7 log-probability ${decimal(trace.target.logp)}`),
        ),
        target,
        note(tokensAdvice()),
        trace.memory?.length ? note(memoryTold(trace.memory)) : null,
      ),
      card,
    ),
  );
  walkable([...source.querySelectorAll(".piece:not(:disabled)")], 1e9);
  walkable([...target.querySelectorAll(".piece")], 1e9);
  if (tokensView.source !== null) show("source", tokensView.source, true);
  else show("target", tokensView.target, tokensView.held);
};

const TOKENS_PANEL = { id: "tokens", title: "Tokens", parts: [], draw: drawTokens };
