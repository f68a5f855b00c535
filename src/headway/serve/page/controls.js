"use strict";
// Things to press and pull. Native inputs underneath, so that keys and screen readers work by themselves.

let controlNumber = 0;

/** One of a few, as a row of words. `options` are [value, text] pairs. */
const choice = (label, options, value, onpick, key = label) => {
  const name = `choice-${++controlNumber}`;
  return make(
    "fieldset",
    { class: "choice" },
    make("legend", null, label),
    make(
      "div",
      null,
      options.map(([each, text]) =>
        make(
          "label",
          null,
          make("input", {
            type: "radio",
            name,
            checked: each === value,
            value: String(each),
            data: { key: `${key}-${each}` },
            onchange: () => onpick(each),
          }),
          make("span", null, text),
        ),
      ),
    ),
  );
};

/** A number to slide; `say` turns it into words. `oninput` while sliding, `onset` when let go. */
const slider = (label, { low, high, step = 1, value, say = String, oninput, onset, disabled = false }) => {
  const told = make("output", null, say(value));
  const input = make("input", {
    type: "range",
    min: low,
    max: high,
    step,
    "aria-valuetext": say(value),
    disabled,
    data: { key: label },
    oninput: () => {
      const now = Number(input.value);
      told.textContent = say(now);
      input.setAttribute("aria-valuetext", say(now));
      oninput?.(now);
    },
    onchange: () => onset?.(Number(input.value)),
  });
  input.value = value; // after min and max, which would clip it
  return make("label", { class: "slider" }, make("span", null, label), input, told);
};

const toggle = (label, checked, onset, { disabled = false, title = null } = {}) =>
  make(
    "label",
    { class: "toggle", title },
    make("input", {
      type: "checkbox",
      checked,
      disabled,
      data: { key: label },
      onchange: (event) => onset(event.target.checked),
    }),
    make("span", { class: "toggle-track", "aria-hidden": "true" }),
    make("span", null, label),
  );

const button = (text, onclick, { kind = "", title = null, disabled = false, key = text } = {}) =>
  make("button", { type: "button", class: `button ${kind}`, title, disabled, onclick, data: { key } }, text);

const controls = (...children) => make("div", { class: "controls" }, children);
const plate = (title, about, ...children) =>
  make("figure", { class: "plate" }, make("figcaption", null, title, " ", make("small", null, about)), children);
const note = (...children) => make("p", { class: "note" }, children);

/** Arrow keys walk through items laid out in rows of `across`; only one of them is a tab stop. */
const walkable = (items, across) => {
  items.forEach((item, index) => {
    item.tabIndex = index ? -1 : 0;
    item.addEventListener("focus", () => items.forEach((other) => (other.tabIndex = other === item ? 0 : -1)));
    item.addEventListener("keydown", (event) => {
      const moves = {
        ArrowLeft: -1,
        ArrowRight: 1,
        ArrowUp: -across,
        ArrowDown: across,
        Home: -index,
        End: items.length - 1 - index,
      };
      const to = items[index + (moves[event.key] ?? NaN)];
      if (!to || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      to.focus();
    });
  });
  return items;
};

/** So many rows are made at once; more when the reader comes near the end of them. */
const MANY = 200;

const fillLazily = (parent, count, one, unit, from = 0) => {
  const to = Math.min(count, from + MANY);
  const slice = make(
    unit,
    { class: "slice" },
    range(to - from).map((index) => one(from + index)),
  );
  parent.append(slice);
  if (to === count) return;
  const seen = new IntersectionObserver(
    ([entry]) => {
      if (!entry.isIntersecting) return;
      seen.disconnect();
      fillLazily(parent, count, one, unit, to);
    },
    { rootMargin: "400px" },
  );
  seen.observe(slice.lastElementChild);
};

/** Names with their chances, as bars; the one that was chosen stands out. */
const chanceBars = (rows, label) =>
  make(
    "ol",
    { class: "options", "aria-label": label },
    rows.map((row) =>
      make(
        "li",
        { class: `option cause ${row.chosen ? "chosen" : ""}` },
        make("span", { class: "option-text", dir: "auto" }, row.label),
        make(
          "span",
          { class: "option-track" },
          make("span", { class: "option-bar", style: { width: `${Math.max(0.5, 100 * row.p)}%` } }),
        ),
        make("span", { class: "option-p" }, percent(row.p)),
      ),
    ),
  );
