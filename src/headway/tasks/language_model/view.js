"use strict";
// Language modelling: how a text could go on, and how likely each of its pieces was.

TASKS.set("language_model", {
  title: "Language model",
  source: "Text",
  result: "How it could go on",
  saved: "How well it was foreseen", // a trace holds no continuation
  noun: "text",
  scoresText: true,
  cut: WHOLE,
  told: ({ text }) => text,
  summary: ({ target }) => `perplexity ${decimal(Math.exp(-target.score))} a piece`,
  panels: [TOKENS_PANEL, ATTENTION_PANEL, HEADS_PANEL],
});
