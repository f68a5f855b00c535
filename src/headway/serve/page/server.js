"use strict";
// All talk with the server. Texts travel in bodies, never in addresses, so that they stay out of logs.

class ServerError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

const errorLine = (body, response) => {
  const said = body?.error?.message ?? body?.error ?? body?.detail ?? body?.message;
  if (typeof said === "string") return said;
  if (Array.isArray(said) && said[0]?.msg) return said[0].msg;
  return `the server answered ${response.status} ${response.statusText}`.trim();
};

/** The key for servers that want one. It is forgotten with the tab. */
const apiKey = {
  value: "",
  header: () => (apiKey.value ? { Authorization: `Bearer ${apiKey.value}` } : {}),
};

const ask = async (address, body, signal) => {
  let response;
  try {
    response = await fetch(
      address,
      body === undefined
        ? { headers: apiKey.header(), signal }
        : {
            method: "POST",
            headers: { "Content-Type": "application/json", ...apiKey.header() },
            body: JSON.stringify(body),
            signal,
          },
    );
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError("the server cannot be reached", 0);
  }
  const answer = await response.json().catch((error) => {
    if (error.name === "AbortError") throw error; // silenced while the answer was on its way
    return null;
  });
  if (!response.ok) throw new ServerError(errorLine(answer, response), response.status);
  if (answer === null) throw new ServerError("the server's answer is no JSON", response.status);
  return answer;
};

/** The newest question of a kind silences those before it. */
const newest = () => {
  let controller = null;
  return async (address, bodies) => {
    controller?.abort();
    controller = new AbortController();
    const { signal } = controller;
    const answers = [];
    for (const body of bodies) answers.push(await ask(address, body, signal));
    return answers;
  };
};
const TEXTS = 50; // in one request
const translateNewest = newest();
const traceNewest = newest();

const NAMELESS = new Set(["src", "tgt", ""]); // languages of a folder that does not say them

/** One entry for each direction of each model; models that do not translate have one without languages. */
const directions = (models) =>
  models.flatMap((model) =>
    (model.pairs?.length ? model.pairs : [{}]).map(({ source, target }, index) => ({
      ...model,
      key: `${model.id} ${index}`,
      source,
      target,
      from: NAMELESS.has(source ?? "") ? "" : source,
      to: NAMELESS.has(target ?? "") ? "" : target,
    })),
  );

const server = {
  models: async () => directions(await ask("v1/models")),
  /** One answer for each text; `alternatives` begin with the answer itself. */
  translate: async (texts, { id: model, source, target }) => {
    const slices = range(Math.ceil(texts.length / TEXTS)).map((i) => texts.slice(i * TEXTS, (i + 1) * TEXTS));
    const bodies = slices.map((slice) => ({ texts: slice, model, source, target, n_best: 4, scores: true }));
    const answers = await translateNewest("v1/translate", bodies);
    return answers
      .flatMap((answer) => answer.translations)
      .map((first) => ({ ...first, alternatives: [first, ...(first.alternatives ?? [])] }));
  },
  /** What a model that does not translate makes of each text; `tell` puts it into a line. */
  predict: async (texts, { id: model }, tell) => {
    const bodies = range(Math.ceil(texts.length / TEXTS)).map((i) => ({
      texts: texts.slice(i * TEXTS, (i + 1) * TEXTS),
      model,
    }));
    const answers = await translateNewest("v1/predict", bodies);
    return answers
      .flatMap((answer) => answer.predictions)
      .map((each) => ({ text: tell(each), tokens: [], score: null, alternatives: [] }));
  },
  detect: async (q) => (await ask("detect", { q }))[0],
  trace: async (request) => (await traceNewest("v1/trace", [request]))[0],
  training: async (model) => (await ask(`v1/training/${encodeURIComponent(model)}`)).events,
  settings: () => ask("frontend/settings"),
  translateFile: async (file, source, target) => {
    const form = new FormData();
    Object.entries({ file, source, target }).forEach(([name, value]) => form.append(name, value));
    const response = await fetch("translate_file", { method: "POST", headers: apiKey.header(), body: form });
    const answer = await response.json().catch(() => null);
    if (!response.ok) throw new ServerError(errorLine(answer, response), response.status);
    // Behind a proxy the address may name another host: only its path is used, on this server.
    return new URL(answer.translatedFileUrl, location.href).pathname;
  },
};
