"use strict";
// Panel A. Two texts side by side. The form works without this script; with it, translation follows the typing.

const PATIENCE = 300; // milliseconds without a key before asking

// ---------------------------------------------------------------- the address

/** Everything after # stays in the browser: no server and no log sees it. */
const readAddress = () => {
  const fields = new URLSearchParams(location.hash.slice(1));
  return { q: fields.get("q") ?? "", model: fields.get("model") ?? "", panel: fields.get("panel") ?? "" };
};
const writeAddress = () => {
  if (!session.live) return;
  const fields = new URLSearchParams();
  if (session.text) fields.set("q", session.text);
  if (session.models.length > 1 && session.model) fields.set("model", session.model.key);
  fields.set("panel", openPanelId());
  history.replaceState(null, "", `#${fields}`);
};

// ---------------------------------------------------------------- translating

const showResult = (text) => {
  const result = byId("result");
  result.textContent = text;
  result.classList.remove("wrong");
  byId("copy").disabled = !text;
};

const translate = async () => {
  const text = byId("q").value;
  session.text = text;
  writeAddress();
  if (!text.trim() || !session.model) {
    showResult("");
    byId("speed").textContent = byId("detected").textContent = "";
    session.answers = [];
    return look([]);
  }
  byId("desk").classList.add("busy");
  try {
    const started = performance.now();
    const { cut, told } = taskNow();
    const sentences = cut(text);
    const texts = spoken(text).map((sentence) => sentence.text);
    const answers = await (told ? server.predict(texts, session.model, told) : server.translate(texts, session.model));
    session.answers = answers;
    const left = answers.map((answer) => answer.text);
    const result = sentences.map((each) => each.before + (each.text ? left.shift() : "") + each.after).join("");
    showResult(result);
    showSpeed({
      milliseconds: performance.now() - started,
      tokens: answers.flatMap((answer) => answer.tokens),
      score: answers.length === 1 ? answers[0].score : null,
    });
    if (translating()) showDetected(text);
    say(`${taskNow().result}: ${result}`);
  } catch (error) {
    if (error.name === "AbortError") return undefined;
    session.answers = [];
    showResult(error.message);
    byId("result").classList.add("wrong");
    byId("copy").disabled = true;
    if (error.status === 401 || error.status === 403) askForKey();
  }
  byId("desk").classList.remove("busy");
  return look(openParts());
};

/** A new text: what was held or edited in the old one means nothing any more; silenced heads stay silent. */
const newText = () => {
  const box = byId("q");
  box.style.height = "auto"; // grow with the text
  box.style.height = `${box.scrollHeight}px`;
  byId("count").textContent = box.value ? plural([...box.value].length, "character") : "";
  byId("clear").hidden = !box.value;
  Object.assign(session.request, { prefix: [], edit: [], hypothesis: 0, position: -1 });
  session.sentence = 0;
  session.treeBefore = null;
};

let waiting = 0;
const typed = () => {
  newText();
  clearTimeout(waiting);
  waiting = setTimeout(translate, PATIENCE);
};

const setText = (text) => {
  byId("q").value = text;
  newText();
  clearTimeout(waiting);
  return translate();
};

const reverseOf = (model) =>
  session.models.find((each) => each.from && each.from === model?.to && each.to === model?.from);

const resultTitle = () => (session.live ? taskNow().result : (taskNow().saved ?? taskNow().result));

const chooseModel = (model) => {
  const before = taskNow();
  session.model = model;
  session.request = { ...session.request, ...UNTOUCHED };
  if (session.live && taskNow() !== before) session.trace = null; // no panel could draw it
  fitPanels();
  byId("source-language").textContent = languageName(model?.from) || taskNow().source;
  byId("target-language").textContent = languageName(model?.to) || resultTitle();
  byId("file-choice").hidden = !translating();
  byId("detected").textContent = "";
  byId("q").lang = model?.from ?? "";
  byId("result").lang = model?.to ?? "";
  byId("model").value = model?.key ?? "";
  byId("swap").hidden = !reverseOf(model);
  showCard();
};

const copied = async (text, node, done) => {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    return say("Copying is not allowed here: select the text instead");
  }
  const before = node.textContent;
  node.textContent = done;
  say(done);
  return setTimeout(() => (node.textContent = before), 1500);
};

const askForKey = () => {
  byId("key-choice").hidden = false;
  byId("key").focus();
};

// ---------------------------------------------------------------- files

const fileLink = (name, path) =>
  make("a", { href: path, download: "", class: "button" }, `Save the translation of ${name}`);

const translateDropped = async (file) => {
  const told = byId("file");
  refill(told, `Translating ${file.name} \u2026`);
  try {
    refill(told, fileLink(file.name, await server.translateFile(file, session.model.source, session.model.target)));
  } catch (error) {
    refill(told, `${file.name}: ${error.message}`);
  }
};

const acceptFiles = (desk) => {
  const over = (on) => (event) => {
    if (![...(event.dataTransfer?.types ?? [])].includes("Files")) return;
    event.preventDefault();
    desk.classList.toggle("dropping", on);
    if (event.type === "drop") translateDropped(event.dataTransfer.files[0]);
  };
  Object.entries({ dragover: true, dragleave: false, drop: false }).forEach(([name, on]) =>
    desk.addEventListener(name, over(on)),
  );
  const input = make("input", {
    type: "file",
    class: "unseen",
    "aria-label": "Translate a file",
    onchange: () => input.files[0] && translateDropped(input.files[0]),
  });
  byId("file-choice").replaceChildren(make("label", { class: "button file" }, input, "Translate a file"));
};

const furnishDesk = () => {
  byId("desk").addEventListener("submit", (event) => {
    event.preventDefault();
    setText(byId("q").value);
  });
  byId("q").addEventListener("input", typed);
  byId("clear").addEventListener("click", () => {
    setText("");
    byId("q").focus();
  });
  byId("copy").addEventListener("click", (event) => copied(byId("result").textContent, event.currentTarget, "Copied"));
  byId("link").addEventListener("click", (event) => {
    writeAddress();
    copied(location.href, event.currentTarget, "Link copied");
  });
  byId("key").addEventListener("change", (event) => {
    apiKey.value = event.target.value.trim();
    beginLive();
  });
  byId("swap").addEventListener("click", () => {
    const text = byId("result").textContent;
    chooseModel(reverseOf(session.model));
    setText(text);
  });
  byId("model").addEventListener("change", (event) => {
    chooseModel(session.models.find((each) => each.key === event.target.value));
    setText(byId("q").value);
  });
};
