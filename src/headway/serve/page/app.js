"use strict";
// The whole page: which panels there are, which one is open, and when to draw again. Loaded last.

/** Panels that make sense for the model in use, in the order of their tabs. */
const fitting = () => [...taskNow().panels, TRAINING_PANEL];
const PANELS = [...new Set([...[...TASKS.values()].flatMap((task) => task.panels), TRAINING_PANEL])];

let current = fitting()[0];
const openPanelId = () => current.id;
const openParts = () => current.parts;
const panelWidth = (host) => Math.max(280, host.clientWidth || byId("panels").clientWidth);

// ---------------------------------------------------------------- drawing

/** Draw into a host; the control that had the focus has it again, though it is a new one. */
const keepingFocus = (host, paint) => {
  const key = host.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  paint();
  if (key)
    [...host.querySelectorAll("[data-key]")].find((each) => each.dataset.key === key)?.focus({ preventScroll: true });
};

const whyNothing = () => {
  if (session.told) return make("p", { class: "empty wrong" }, session.told);
  if (session.busy) return make("p", { class: "empty" }, "Looking inside \u2026");
  return make("p", { class: "empty" }, "Type something above: this is what the model did with it.");
};

const redraw = () => {
  const host = byId(`panel-${current.id}`);
  const missing = session.trace ? current.parts.filter((part) => !hasPart(session.trace, part)) : [];
  keepingFocus(host, () => {
    if (!current.alone && !session.trace) refill(host, whyNothing());
    else if (missing.length)
      refill(
        host,
        session.live && session.busy
          ? whyNothing()
          : make("p", { class: "empty" }, `This page was saved without ${missing.join(" and ")}.`),
      );
    else current.draw(host, session.trace);
  });
};

const redrawAll = () => {
  byId("panels").classList.toggle("busy", session.busy);
  if (session.busy && session.trace) return; // the old picture stays until the new one is there
  keepingFocus(byId("changes"), () => drawChanges(byId("changes"), session.trace));
  keepingFocus(byId("others"), showOthers);
  keepingFocus(byId("sentence"), showSentences);
  showCard();
  redraw();
};

// ---------------------------------------------------------------- tabs

const openPanel = (id, ask = true) => {
  current = fitting().find((panel) => panel.id === id) ?? fitting()[0];
  for (const { id: each } of PANELS) {
    const here = each === current.id;
    furnish(byId(`tab-${each}`), { "aria-selected": String(here), tabindex: here ? "0" : "-1" }, []);
    byId(`panel-${each}`).hidden = !here;
  }
  writeAddress();
  if (ask) look(current.parts);
};

/** Show the tabs of the model's task, in their order. */
const arrangeTabs = () => {
  const there = fitting();
  for (const panel of PANELS) byId(`tab-${panel.id}`).hidden = !there.includes(panel);
  byId("tabs").append(...there.map(({ id }) => byId(`tab-${id}`)));
};

/** Another task has other panels; the open one stays open where it can. */
const fitPanels = () => {
  arrangeTabs();
  openPanel(current.id, false);
};

const tabKeys = (event) => {
  const there = fitting();
  const at = there.indexOf(current);
  const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: there.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  const { id } = there[(to + there.length) % there.length];
  openPanel(id);
  byId(`tab-${id}`).focus();
};

const furnishTabs = () => {
  refill(
    byId("tabs"),
    PANELS.map(({ id, title }) =>
      make(
        "button",
        {
          type: "button",
          role: "tab",
          id: `tab-${id}`,
          "aria-controls": `panel-${id}`,
          onclick: () => openPanel(id),
          onkeydown: tabKeys,
        },
        title,
      ),
    ),
  );
  refill(
    byId("panels"),
    PANELS.map(({ id }) =>
      make("section", {
        role: "tabpanel",
        id: `panel-${id}`,
        "aria-labelledby": `tab-${id}`,
        class: "panel",
        hidden: true,
      }),
    ),
  );
};

// ---------------------------------------------------------------- light and dark

const remembered = (name, value) => {
  try {
    return value === undefined ? localStorage.getItem(name) : localStorage.setItem(name, value);
  } catch {
    return null; // pages from files, and strict browsers, have no memory
  }
};
const furnishTheme = () => {
  const chosen = remembered("theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  const tell = () => byId("theme").setAttribute("aria-pressed", String(darkNow()));
  byId("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = darkNow() ? "light" : "dark";
    remembered("theme", document.documentElement.dataset.theme);
    tell();
    redraw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    tell();
    redraw();
  });
  tell();
};

/** Pictures are laid out for a width: when it changes, draw again. */
const furnishSize = () => {
  let [width, soon] = [0, 0];
  new ResizeObserver(([entry]) => {
    const now = Math.round(entry.contentRect.width);
    if (width && now !== width) {
      clearTimeout(soon);
      soon = setTimeout(redraw, 120);
    }
    width = now;
  }).observe(byId("panels"));
};

// ---------------------------------------------------------------- beginning

const beginSaved = (trace) => {
  document.body.classList.add("saved");
  Object.assign(session, { live: false, trace, text: trace.source.text, original: trace.source.pieces });
  Object.assign(session.request, {
    ...UNTOUCHED,
    hypothesis: trace.request?.hypothesis ?? 0,
    ablate: trace.request?.ablate ?? [],
    prefix: trace.request?.prefix ?? [],
  });
  const { name: id, source: from, target: to } = trace.model;
  chooseModel({ id, from, to, ...trace.model, task: trace.kind });
  byId("q").value = trace.source.text;
  byId("q").readOnly = true;
  newText();
  showResult(taskNow().summary(trace));
  showSpeed({ milliseconds: trace.milliseconds ?? null, score: trace.target?.score ?? null });
  openPanel(readAddress().panel, false);
  redrawAll();
};

const beginLive = async () => {
  const { q, model, panel } = readAddress();
  openPanel(panel, false);
  redrawAll();
  try {
    session.models = await server.models();
  } catch (error) {
    session.told = error.message;
    if (error.status === 401 || error.status === 403) askForKey();
    return redrawAll();
  }
  refill(
    byId("model"),
    session.models.map((each) => make("option", { value: each.key }, modelTitle(each))),
  );
  byId("model-choice").hidden = session.models.length < 2;
  chooseModel(session.models.find((each) => each.key === model) ?? session.models[0] ?? null);
  openPanel(panel, false); // only now is it known which there are
  server
    .settings()
    .then((settings) => settings.filesTranslation && acceptFiles(byId("desk")))
    .catch(() => {}); // no files then
  return setText(q || byId("q").value);
};

const begin = () => {
  document.documentElement.classList.add("scripted");
  session.onchange = redrawAll;
  furnishTheme();
  furnishTabs();
  arrangeTabs();
  furnishDesk();
  furnishSize();
  const saved = byId("trace");
  if (saved) beginSaved(JSON.parse(saved.textContent));
  else {
    addEventListener("hashchange", () => {
      const { q, panel } = readAddress();
      openPanel(panel, false);
      setText(q);
    });
    beginLive();
  }
};

begin();
