"use strict";
// Colours for numbers. Lightness always runs one way, so the scales survive colour blindness and grey print.

const SCALES = {
  // how much weight: from paper to deep blue
  weight: {
    light: ["#f6f6f4", "#b9d5ea", "#4b9bd0", "#0a5c97", "#06304f"],
    dark: ["#1f242b", "#173f5f", "#1f77b4", "#6db8ee", "#e3f2fd"],
  },
  // how much doubt: from calm blue to warm orange
  doubt: {
    light: ["#e3eff8", "#f3efe6", "#fbdcb8", "#f4b07a", "#e8894a"],
    dark: ["#1d3346", "#2e3138", "#4f3a22", "#7d4a1c", "#a95b17"],
  },
  // against and for: orange, paper, blue
  signed: {
    light: ["#b34d00", "#f0b183", "#f6f6f4", "#8fc0e2", "#0a5c97"],
    dark: ["#ff9a56", "#7d4419", "#1f242b", "#1d5f91", "#7cc8f2"],
  },
};

const darkNow = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};

const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

/** 256 colours of a scale in the present theme, as red, green, blue one after another. */
const palette = (() => {
  const made = new Map();
  return (name) => {
    const key = `${name}-${darkNow() ? "dark" : "light"}`;
    if (!made.has(key)) {
      const stops = SCALES[name][darkNow() ? "dark" : "light"].map(channels);
      const bytes = new Uint8ClampedArray(256 * 3);
      for (const step of range(256)) {
        const place = (step / 255) * (stops.length - 1);
        const low = Math.min(Math.floor(place), stops.length - 2);
        for (const c of range(3))
          bytes[step * 3 + c] = stops[low][c] + (stops[low + 1][c] - stops[low][c]) * (place - low);
      }
      made.set(key, bytes);
    }
    return made.get(key);
  };
})();

const colourBytes = (name, value) => {
  const step = Math.round(clamp(value, 0, 1) * 255);
  return palette(name).subarray(step * 3, step * 3 + 3);
};
/** A colour for a number from 0 to 1 (for `signed`: from -1 to 1). */
const colour = (name, value) => `rgb(${colourBytes(name, name === "signed" ? (value + 1) / 2 : value).join(" ")})`;

/** Black or white, whichever can be read on this colour. */
const inkOn = (name, value) => {
  const [r, g, b] = colourBytes(name, name === "signed" ? (value + 1) / 2 : value);
  return 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#14171b" : "#ffffff";
};

/** The key of a scale: its colours between two words. */
const scaleKey = (name, low, high) =>
  make(
    "span",
    { class: "scale-key" },
    make("span", null, low),
    make("span", {
      class: "scale-bar",
      style: {
        background: `linear-gradient(to right, ${range(9).map((i) => colour(name, name === "signed" ? i / 4 - 1 : i / 8))})`,
      },
    }),
    make("span", null, high),
  );
