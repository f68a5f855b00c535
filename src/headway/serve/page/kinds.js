"use strict";
// What models are trained for: what stands around the two texts, how a text is cut, and how an answer is told.

const SENTENCES = (text) => sentencesOf(text);
const ONE_A_LINE = (text) => sentencesOf(text).map((each) => ({ before: "", text: each.text, after: "\n" }));
const WHOLE = (text) => [{ before: "", text: text.trim(), after: "" }];

const spansTold = ({ words, labels, spans }) =>
  spans
    ? spans.map((span) => `${span.text} (${span.kind || "span"})`).join(", ") || "no spans"
    : words.map((word, index) => `${word}/${labels[index]}`).join(" ");

/** `told`: a prediction in a line; `summary`: the same of a saved trace. Translations are asked for in their own way. */
const TASKS = {
  translation: {
    title: "Translation",
    source: "Source",
    result: "Translation",
    noun: "translation",
    cut: SENTENCES,
    told: null,
    summary: (trace) => trace.target?.text ?? "",
  },
  tagging: {
    title: "Tagging",
    source: "Text",
    result: "Labels",
    noun: "labelling",
    cut: ONE_A_LINE,
    told: spansTold,
    summary: (trace) => trace.target.text || "no spans",
  },
  classification: {
    title: "Classification",
    source: "Text",
    result: "Class",
    noun: "answer",
    cut: WHOLE,
    told: ({ labels, probabilities }) =>
      labels.map((label) => `${label} ${percent(probabilities[label])}`).join(", ") || "none",
    summary: ({ classes }) =>
      classes
        .filter((each) => each.chosen)
        .map((each) => `${each.label} ${percent(each.p)}`)
        .join(", ") || "none",
  },
  language_model: {
    title: "Language model",
    source: "Text",
    result: "How it could go on",
    saved: "How well it was foreseen", // a trace holds no continuation
    noun: "text",
    cut: WHOLE,
    told: ({ text }) => text,
    summary: ({ target }) => `perplexity ${decimal(Math.exp(-target.score))} a piece`,
  },
};

/** Of the model in use; a saved page has the kind of its trace. */
const kindName = () => (Object.hasOwn(TASKS, session.model?.task ?? "") ? session.model.task : "translation");
const kindNow = () => TASKS[kindName()];
const translating = () => kindName() === "translation";

/** Those parts of a text with words in them: one of them is looked at. */
const spoken = (text) => kindNow().cut(text).filter((part) => part.text);
