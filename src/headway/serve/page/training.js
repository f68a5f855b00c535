"use strict";
// Panel H. How the model was trained: curves, a mark to slide along them, and one sentence as it got better.

const trainingView = { runs: new Map(), mark: null, other: "" };

/** The log of a run, asked for once; a saved page may bring its own. */
const trainingEvents = (id) => {
  if (!trainingView.runs.has(id)) {
    trainingView.runs.set(id, null);
    server
      .training(id)
      .then(
        (events) => trainingView.runs.set(id, events),
        () => trainingView.runs.set(id, []),
      )
      .then(redraw);
  }
  return trainingView.runs.get(id);
};

/** A run that was killed repeats some steps when it goes on: what was said last holds. */
const curveOf = (events, kind, field) => {
  const points = [];
  for (const event of events) {
    if (event.event !== kind || !Number.isFinite(event[field])) continue;
    while (points.length && points[points.length - 1][0] >= event.step) points.pop();
    points.push([event.step, event[field]]);
  }
  return points;
};

const CURVES = [
  {
    title: "Loss",
    about: "nats a piece",
    lines: () => [
      ["training", "step", "loss"],
      ["without smoothing", "step", "nll"],
      ["validation", "validate", "loss"],
    ],
  },
  {
    title: "Scores on held-out text",
    about: "higher is better",
    lines: (events) => measuresOf(events).filter(([, , name]) => !ERRORS.test(name)),
    low: 0,
  },
  {
    title: "Errors on held-out text",
    about: "lower is better",
    lines: (events) => measuresOf(events).filter(([, , name]) => ERRORS.test(name)),
    low: 0,
  },
  {
    title: "Bits a character of held-out text",
    about: "lower is better",
    lines: () => [["bits", "validate", "bits_per_character"]],
    low: 0,
  },
  { title: "Learning rate", about: "", lines: () => [["rate", "step", "lr"]], low: 0 },
  { title: "Speed", about: "pieces a second", lines: () => [["speed", "step", "tokens_per_second"]], low: 0 },
];

const NAMES = { bleu: "BLEU", chrf: "chrF", f1: "F1" };
const ERRORS = /^(ter|wer|cer|per)\b/; // of these less is better

/** What a task measures, by the log itself: every number of a validation that has no chart of its own. */
const measuresOf = (events) => {
  const fields = events.filter((event) => event.event === "validate").flatMap((event) => Object.entries(event));
  const known = new Set(["step", "time", "loss", "perplexity", "bits_per_character"]);
  const names = fields.filter(([name, value]) => Number.isFinite(value) && !known.has(name)).map(([name]) => name);
  return [...new Set(names)].map((name) => [NAMES[name] ?? name, "validate", name]);
};

const trainingCharts = (runs, width, mark, onmark) =>
  CURVES.map(({ title, about, lines, low }) => {
    const series = runs.flatMap(({ name, events }) =>
      lines(events).map(([line, kind, field]) => ({
        name: runs.length > 1 ? `${name}: ${line}` : line,
        points: curveOf(events, kind, field),
        dotted: kind === "validate",
      })),
    );
    return series.some((each) => each.points.length)
      ? lineChart({ title, about, series, width, mark, xName: "step", low, from: 0, onmark })
      : null;
  });

// ---------------------------------------------------------------- one sentence through the training

/** Where the model looked at that step: it learns to, and that is worth watching. */
const sampleLook = (event, width) => {
  const { rows, columns, shape, data } = event.attention ?? {};
  if (!data) return null;
  const bytes = unpacked(event.attention);
  const weights = matrix(shape[0], shape[1], (r, c) => bytes[r * shape[1] + c] / 255);
  const [down, across] = [rows, columns].map((texts) => texts.map((text) => pieceText({ text })));
  return make(
    "div",
    { class: "looked" },
    note(`Where it looked at step ${whole(event.step)}: rows are what it wrote, the mean of the last layer\u2019s heads.`),
    heatmap(weights, { rows: down, columns: across, width, caption: "What it looked at", big: 22 }).node,
  );
};

const sampleList = (samples, mark, onmark, width) => {
  if (!samples.length) return null;
  const at = samples.reduce((best, each) => (Math.abs(each.step - mark) < Math.abs(best.step - mark) ? each : best));
  const { source, reference } = at.sample;
  const [score] = [...measuresOf(samples), ["loss", "validate", "loss"]];
  return plate(
    "One sentence as it got better",
    "underlined: other words than at the step before",
    make(
      "dl",
      { class: "versus" },
      make("dt", null, "Source"),
      make("dd", { dir: "auto" }, source),
      make("dt", null, "Reference"),
      make("dd", { dir: "auto" }, reference),
    ),
    sampleLook(at, width),
    make(
      "ol",
      { class: "samples" },
      samples.map((each, index) => {
        const before = index ? samples[index - 1].sample.output : "";
        return make(
          "li",
          { "aria-current": each === at ? "true" : null },
          make(
            "button",
            { type: "button", class: "other", onclick: () => onmark(each.step), data: { key: `sample-${each.step}` } },
            make("small", null, whole(each.step)),
            make(
              "span",
              { dir: "auto" },
              index
                ? diffText(before, each.sample.output ?? "").filter((part) => part.tagName !== "DEL")
                : each.sample.output,
            ),
            make("small", null, `${score[0]} ${decimal(each[score[2]], 1)}`),
          ),
        );
      }),
    ),
  );
};

// ---------------------------------------------------------------- without a log: the schedule of the paper

const paperRate = (model, width) => {
  if (!model?.steps || !model.warmup || !model.peak_rate) return null;
  const { steps, warmup, peak_rate: peak } = model;
  const rate = (step) => peak * Math.min(step / warmup, Math.sqrt(warmup / step));
  const points = range(201)
    .map((i) => Math.max(1, (i / 200) * steps))
    .map((step) => [step, rate(step)]);
  return lineChart({
    title: "Learning rate of the paper",
    about: `with this model's warm-up of ${whole(warmup)} steps and its highest rate`,
    series: [{ name: "rate", points }],
    width,
    mark: warmup,
    xName: "step",
    low: 0,
    from: 0,
  });
};

const drawTraining = (host, trace) => {
  const id = session.model?.id ?? "";
  const events = session.live ? (id ? trainingEvents(id) : null) : (trace?.training?.events ?? []);
  const width = panelWidth(host) > 820 ? panelWidth(host) / 2 - 50 : panelWidth(host) - 40;
  if (events === null) return refill(host, make("p", { class: "empty" }, "Reading the log \u2026"));
  if (!events.length)
    return refill(
      host,
      note(
        session.live
          ? "The folder of this model holds no training log (metrics.jsonl)."
          : "This page was saved without the training log.",
      ),
      make("div", { class: "charts" }, paperRate(trace?.model, width)),
    );
  const steps = curveOf(events, "step", "loss").map((point) => point[0]);
  const last = Math.max(...events.map((event) => event.step ?? 0));
  const mark = clamp(trainingView.mark ?? last, 0, last);
  const onmark = (step) => {
    trainingView.mark = step;
    redraw();
  };
  const others = session.models.filter((model) => model.id !== id);
  const otherEvents = trainingView.other ? trainingEvents(trainingView.other) : null;
  const runs = [
    { name: id, events },
    ...(otherEvents?.length ? [{ name: trainingView.other, events: otherEvents }] : []),
  ];
  const select = make(
    "select",
    {
      "aria-label": "Compare with",
      data: { key: "compare" },
      onchange: (event) => {
        trainingView.other = event.target.value;
        redraw();
      },
    },
    make("option", { value: "" }, "Compare with \u2026"),
    [...new Set(others.map((model) => model.id))].map((other) =>
      make("option", { value: other, selected: other === trainingView.other }, other),
    ),
  );
  const samples = events.filter((event) => event.event === "validate" && typeof event.sample?.output === "string");
  return refill(
    host,
    controls(
      slider("Step", {
        low: 0,
        high: last,
        step: Math.max(1, Math.round(last / 200)),
        value: mark,
        say: whole,
        onset: onmark,
      }),
      others.length ? select : null,
      make("span", { class: "aside" }, `${plural(steps.length, "point")} of the log`),
    ),
    make("div", { class: "charts" }, trainingCharts(runs, width, mark, onmark)),
    sampleList(samples, mark, onmark, panelWidth(host) - 60),
  );
};

const TRAINING_PANEL = { id: "training", title: "Training", parts: [], draw: drawTraining, alone: true };
