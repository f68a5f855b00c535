"use strict";
// What stands around the two texts: languages, speed, other translations, the model's card.

const languageName = (code) => {
  if (!code) return "";
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(code);
  } catch {
    return code; // a name that is no language code
  }
};
const modelTitle = (model) =>
  model.from && model.to
    ? `${languageName(model.from)} \u2192 ${languageName(model.to)} \u00b7 ${model.id}`
    : `${(TASKS.get(model.task) ?? taskNow()).title} \u00b7 ${model.id}`;

const showSpeed = ({ milliseconds = null, tokens = null, score = null }) => {
  const parts = [
    milliseconds === null ? null : `${whole(milliseconds)} ms`,
    tokens?.length && milliseconds ? `${whole((1000 * tokens.length) / milliseconds)} pieces/s` : null,
    score === null ? null : `score ${decimal(score)}`,
  ];
  byId("speed").textContent = parts.filter(Boolean).join(" \u00b7 ");
};

const showDetected = async (text) => {
  const told = byId("detected");
  try {
    const { language, confidence } = await server.detect(text);
    if (byId("q").value !== text) return;
    told.textContent = confidence ? `looks like ${languageName(language)}, ${percent(confidence / 100)}` : "";
  } catch {
    told.textContent = ""; // a server without /detect
  }
};

/** Other translations: those of the trace can be looked at, those of a plain translation only read. */
const showOthers = () => {
  const host = byId("others");
  const traced = session.trace?.alternatives;
  const list = traced ?? (session.answers.length === 1 ? session.answers[0].alternatives : []);
  host.hidden = list.length < 2;
  if (host.hidden) return;
  const chosen = session.request.hypothesis;
  refill(
    host,
    make("h2", null, "Best of the beam"),
    make(
      "ol",
      null,
      list.map((each, index) =>
        make(
          "li",
          null,
          make(
            "button",
            {
              type: "button",
              class: "other",
              "aria-pressed": String(index === chosen),
              disabled: !session.live || !traced,
              data: { key: `other-${index}` },
              onclick: () => change({ hypothesis: index }),
            },
            make(
              "span",
              { dir: "auto" },
              index && list[0].text !== each.text
                ? diffText(list[0].text, each.text).filter((part) => part.tagName !== "DEL")
                : each.text,
            ),
            make("small", null, decimal(each.score)),
          ),
        ),
      ),
    ),
  );
};

/** Which sentence of a longer text the panels are about. */
const showSentences = () => {
  const host = byId("sentence");
  const all = session.live ? spoken(session.text) : [];
  host.hidden = all.length < 2;
  if (host.hidden) return;
  const at = clamp(session.sentence, 0, all.length - 1);
  refill(
    host,
    choice(
      "Look at sentence",
      all.map((_, index) => [index, String(index + 1)]),
      at,
      (index) => {
        session.sentence = index;
        change({ prefix: [], edit: [], hypothesis: 0, position: -1 });
      },
    ),
    make("span", { class: "aside", dir: "auto" }, all[at].text),
  );
};

const CARD_FIELDS = {
  parameters: "parameters",
  labels: "labels",
  layers: "layers",
  encoder_layers: "encoder layers",
  decoder_layers: "decoder layers",
  heads: "heads",
  width: "width",
  inner: "inner width",
  position: "positions",
  norm: "norm",
  placement: "norm placement",
  steps: "steps trained",
  bleu: "BLEU",
  chrf: "chrF",
  licence: "licence",
  engine: "engine",
  precision: "precision",
  device: "device",
};

const showCard = () => {
  const facts = { ...session.model, ...session.trace?.model };
  const told = (value) =>
    typeof value === "number" ? (Number.isInteger(value) ? short(value) : decimal(value, 1)) : value;
  const pairs = Object.entries(CARD_FIELDS).filter(
    ([key]) => ["number", "string"].includes(typeof facts[key]) && facts[key] !== "" && facts[key] !== 0,
  );
  refill(
    byId("card"),
    pairs.length
      ? [
          make("h2", { dir: "auto" }, facts.name || facts.id || "Model"),
          make(
            "dl",
            { class: "card-facts" },
            pairs.map(([key, title]) =>
              make("div", null, make("dt", null, title), make("dd", { dir: "auto" }, told(facts[key]))),
            ),
          ),
        ]
      : [],
  );
};

const say = (text) => {
  byId("status").textContent = text;
};
