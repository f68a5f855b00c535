"use strict";
// What is being looked at: the text, the model, what the reader changed, and the trace so far.

const UNTOUCHED = { prefix: [], edit: [], ablate: [], hypothesis: 0, position: -1 };

const session = {
  live: true,
  models: [],
  model: null, // of this.models
  text: "",
  sentence: 0, // which of the text's sentences is looked at
  answers: [], // plain translations of the sentences
  request: { ...UNTOUCHED, beam_size: 4, alpha: null },
  trace: null,
  original: null, // source pieces before any edit: edits count from them
  treeBefore: null, // the beam before its settings were changed
  told: "", // why there is no trace
  busy: false,
  onchange: () => {}, // called whenever any of this is new
};

const listOf = (value) => (value.length ? value : undefined);
const touched = () => session.request.prefix.length + session.request.edit.length + session.request.ablate.length > 0;
const sameHead = (a, b) => a.stack === b.stack && a.kind === b.kind && a.layer === b.layer && a.head === b.head;
const isSilent = (head) => session.request.ablate.some((each) => sameHead(each, head));

/** A text as sentences with the space around them: models learnt from single ones. Old browsers cut at line ends. */
const sentencesOf = (text) => {
  const cut = Intl.Segmenter
    ? [...new Intl.Segmenter(undefined, { granularity: "sentence" }).segment(text)].map(({ segment }) => segment)
    : text.split(/(?<=\n)/);
  return cut.map((segment) => {
    const [, before, sentence, after] = /^(\s*)([^]*?)(\s*)$/.exec(segment);
    return { before, text: sentence, after };
  });
};
/** The request of the present state, as plain data; without `include` it tells whether a trace is still true. */
const traceRequest = (include) => {
  const { prefix, edit, ablate, hypothesis, position, beam_size, alpha } = session.request;
  return {
    q: spoken(session.text)[session.sentence].text,
    model: session.model?.id,
    source: session.model?.source || undefined,
    target: session.model?.target || undefined,
    include,
    beam_size,
    alpha: alpha ?? undefined,
    prefix: listOf(prefix),
    edit: listOf(edit),
    ablate: listOf(ablate),
    hypothesis,
    position,
  };
};

/** Is it there? The view from inside is of one target piece, and must be of the one that is asked for. */
const hasPart = (trace, part) => {
  const { position } = session.request;
  if (part === "inside")
    return Boolean(trace?.inside) && (!session.live || position < 0 || trace.inside.position === position);
  if (part === "attribution") return Boolean(trace?.attribution?.gradient);
  if (part === "occlusion") return Boolean(trace?.attribution?.occlusion ?? trace?.occlusion);
  return Boolean(trace?.[part]);
};

/** Parts asked for later join those that are there already. */
const joined = (old, fresh) => ({
  ...old,
  ...Object.fromEntries(Object.entries(fresh).filter(([, value]) => value !== null && value !== undefined)),
  baseline: fresh.baseline ?? null,
  ...(old?.attribution || fresh.attribution ? { attribution: { ...old?.attribution, ...fresh.attribution } } : {}),
});

let traceKey = "";

/** Have these parts of the trace of the present state, asking the server for what is missing. */
const look = async (parts) => {
  if (!session.live) return session.onchange();
  if (!session.text.trim() || !session.model) {
    Object.assign(session, { trace: null, told: "", busy: false });
    return session.onchange();
  }
  const key = JSON.stringify({ ...traceRequest(), position: undefined });
  const old = key === traceKey ? session.trace : null;
  // Seen from inside, the piece worth most is the one the model hesitated at; it is known after a first look.
  if (parts.includes("inside") && session.request.position < 0 && old)
    session.request.position = leastSure(old.target.pieces);
  const first = old ? parts : parts.filter((part) => part !== "inside");
  const missing = first.filter((part) => !hasPart(old, part));
  if (old && !missing.length) return session.onchange();
  session.busy = true;
  session.onchange();
  try {
    const fresh = await server.trace(traceRequest(missing));
    traceKey = key;
    const untouched = !session.request.edit.length;
    Object.assign(session, { trace: joined(old, fresh), told: "", busy: false });
    if (untouched) session.original = fresh.source.pieces;
    if (first !== parts && first.length < parts.length) return look(parts);
  } catch (error) {
    if (error.name === "AbortError") return;
    Object.assign(session, { trace: null, told: error.message, busy: false });
    traceKey = "";
  }
  session.onchange();
};

/** Change what is asked, then look again with the parts of the open panel. */
const change = (what) => {
  Object.assign(session.request, what);
  return look(openParts());
};

const force = (ids) => change({ prefix: ids, hypothesis: 0, position: -1 });
const toggleHead = (head) => {
  const { stack, kind, layer, head: number } = head;
  const others = session.request.ablate.filter((each) => !sameHead(each, head));
  return change({ ablate: isSilent(head) ? others : [...others, { stack, layer, kind, head: number }] });
};
const editPiece = (pos, piece) => {
  const others = session.request.edit.filter((each) => each.pos !== pos);
  return change({
    edit: piece === null ? others : [...others, { pos, piece }],
    prefix: [],
    hypothesis: 0,
    position: -1,
  });
};
/** A new tree beside the old one. */
const growTree = (what) => {
  session.treeBefore = session.trace?.beam
    ? { beam: session.trace.beam, text: session.trace.alternatives[0]?.text ?? "" }
    : null;
  return change({ ...what, hypothesis: 0, position: -1 });
};
