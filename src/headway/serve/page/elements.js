"use strict";
// Making elements. Text always goes in as text: nothing that a user types or a model says can become markup.

const PROPERTIES = new Set(["value", "checked", "disabled", "hidden", "selected", "indeterminate"]);

/** Give a node its attributes, listeners (onclick: function) and CSSOM styles, then its children. */
const furnish = (node, attributes, children) => {
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || (value === false && !PROPERTIES.has(key))) continue;
    if (typeof value === "function") node.addEventListener(key.slice(2), value);
    else if (key === "style") Object.entries(value).forEach(([name, text]) => node.style.setProperty(name, text));
    else if (key === "data") Object.assign(node.dataset, value);
    else if (PROPERTIES.has(key)) node[key] = value;
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
};

const make = (name, attributes, ...children) => furnish(document.createElement(name), attributes, children);
const draw = (name, attributes, ...children) =>
  furnish(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

/** New children for a node, in place of all it had. */
const refill = (node, ...children) => {
  node.replaceChildren();
  return furnish(node, null, children);
};

const byId = (id) => document.getElementById(id);
const clamp = (value, low, high) => Math.min(high, Math.max(low, value));
const range = (count) => Array.from({ length: Math.max(0, count) }, (_, index) => index);
const sum = (values) => values.reduce((total, value) => total + value, 0);

// ---------------------------------------------------------------- numbers as text

const percent = (p) => {
  const value = 100 * p;
  if (value >= 99.95 || value === 0) return `${Math.round(value)} %`;
  return value < 0.1 ? "< 0.1 %" : `${value.toFixed(value < 10 ? 1 : 0)} %`;
};
// A true minus sign is as wide as a digit, so that columns of numbers stand straight.
const decimal = (value, digits = 2) =>
  Number.isFinite(value) ? value.toFixed(digits).replace("-", "\u2212") : "\u2013";
const signed = (value, digits = 2) => (value >= 0 ? "+" : "") + decimal(value, digits);
const whole = (value) => (Number.isFinite(value) ? Math.round(value).toLocaleString("en") : "\u2013");
const short = (value) => {
  const [scale, unit] = value >= 1e9 ? [1e9, " B"] : value >= 1e6 ? [1e6, " M"] : value >= 1e4 ? [1e3, " k"] : [1, ""];
  return unit ? `${(value / scale).toFixed(value / scale < 10 ? 1 : 0)}${unit}` : whole(value);
};
const plural = (count, one, many = `${one}s`) => `${whole(count)} ${count === 1 ? one : many}`;

// ---------------------------------------------------------------- words that changed

/** Two word lists side by side: [["same" | "gone" | "new", word], ...], by their longest common subsequence. */
const wordDiff = (before, after) => {
  const longest = range(before.length + 1).map(() => new Uint16Array(after.length + 1));
  for (let i = before.length - 1; i >= 0; i--)
    for (let j = after.length - 1; j >= 0; j--)
      longest[i][j] =
        before[i] === after[j] ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
  const steps = [];
  let [i, j] = [0, 0];
  while (i < before.length || j < after.length) {
    if (i < before.length && j < after.length && before[i] === after[j]) steps.push(["same", before[i++], j++]);
    else if (j >= after.length || (i < before.length && longest[i + 1][j] >= longest[i][j + 1]))
      steps.push(["gone", before[i++]]);
    else steps.push(["new", after[j++]]);
  }
  return steps.map(([kind, word]) => [kind, word]);
};

const diffText = (before, after) =>
  wordDiff(before.split(/\s+/).filter(Boolean), after.split(/\s+/).filter(Boolean)).flatMap(([kind, word]) => [
    kind === "same" ? word : make(kind === "new" ? "ins" : "del", null, word),
    " ",
  ]);

// ---------------------------------------------------------------- scripts that run from right to left

const rightToLeft = (text) =>
  /^[^A-Za-z\u00c0-\u024f\u0370-\u052f]*[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/.test(text);

/** How wide a text will be, before it is drawn. */
const textWidth = (() => {
  const context = document.createElement("canvas").getContext("2d");
  return (text, size = 14, weight = 400) => {
    context.font = `${weight} ${size}px ${getComputedStyle(document.body).fontFamily}`;
    return context.measureText(text).width;
  };
})();
