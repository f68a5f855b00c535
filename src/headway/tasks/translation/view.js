"use strict";
// Translation: a text is read, another one is written by a search.

TASKS.set("translation", {
  title: "Translation",
  source: "Source",
  result: "Translation",
  noun: "translation",
  translates: true,
  cut: SENTENCES,
  told: null,
  summary: (trace) => trace.target?.text ?? "",
  panels: [
    TOKENS_PANEL,
    { id: "alignment", title: "Alignment", parts: ["attention"], draw: drawAlignment },
    HEADS_PANEL,
    { id: "beam", title: "Beam", parts: ["beam"], draw: drawBeam },
    { id: "inside", title: "Inside", parts: ["inside", "lens"], draw: drawInside },
    { id: "positions", title: "Positions", parts: [], draw: drawPositions, alone: true },
    { id: "attribution", title: "Attribution", parts: ["attribution", "occlusion"], draw: drawAttribution },
  ],
});
