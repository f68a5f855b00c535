"use strict";
// Panel F. The paper's figure with live numbers: click a box for its matrices. Below it the logit lens.

const insideView = { box: "decoder-cross-attention", layer: null, head: 0 };

const WEIGHTY = new Set(["weights", "probabilities"]);

/** A matrix with many nameless columns: one stretched canvas, names of rows beside it. */
const stageStrip = (values, rows, scale, most) => {
  const canvas = thumbnail(values, { scale, most });
  const high = clamp(180 / values.rows, 8, 22);
  canvas.style.setProperty("height", `${high * values.rows}px`);
  const readout = make("p", { class: "readout" }, "\u00a0");
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const r = clamp(Math.floor(((event.clientY - box.top) / box.height) * values.rows), 0, values.rows - 1);
    const c = clamp(Math.floor(((event.clientX - box.left) / box.width) * values.columns), 0, values.columns - 1);
    readout.textContent = `${rows ? `${rows[r]}, ` : ""}feature ${c + 1}: ${decimal(values.at(r, c), 3)}`;
  });
  const names =
    rows && high >= 11
      ? make(
          "ol",
          { class: "strip-rows", style: { "line-height": `${high}px` } },
          rows.map((text) => make("li", { dir: "auto" }, text)),
        )
      : null;
  return [make("div", { class: "strip" }, names, canvas), readout];
};

const stagePicture = (stage, width) => {
  const values = stageMatrix(stage);
  const scale = WEIGHTY.has(stage.name) ? "weight" : "signed";
  const most = scale === "weight" ? Math.max(stage.hi, 1e-9) : Math.max(Math.abs(stage.lo), Math.abs(stage.hi), 1e-9);
  if (!stage.columns) return stageStrip(values, stageLabels(stage.rows), scale, most);
  return heatmap(values, {
    rows: stageLabels(stage.rows) ?? [""],
    columns: stageLabels(stage.columns),
    width,
    caption: stage.name,
    scale,
    most,
    big: 28,
  }).node;
};

const stageCard = (stage, width) =>
  make(
    "section",
    { class: "stage" },
    make(
      "h4",
      null,
      stage.name,
      " ",
      make("small", null, `${stage.shape.join(" \u00d7 ")} \u00b7 ${decimal(stage.lo)} to ${decimal(stage.hi)}`),
    ),
    make("p", { class: "formula" }, stage.formula),
    stagePicture(stage, width),
  );

const boxStages = (inside, box, layer) =>
  inside.stages.filter(
    (stage) =>
      stage.stack === box.stack &&
      box.names.includes(stage.name) &&
      (!stage.part || stage.part === box.part) &&
      (!box.layered || stage.layer === layer) &&
      (stage.head === null || stage.head === undefined || stage.head === insideView.head),
  );

// ---------------------------------------------------------------- logit lens

const lensTable = (trace) => {
  const { lens, target } = trace;
  const readout = make("p", { class: "readout", "aria-live": "polite" }, "\u00a0");
  const cell = (layer, position) => {
    const [best] = lens.cells[layer][position];
    const right = best.text === target.pieces[position].text;
    const told = lens.cells[layer][position].map((each) => `${pieceText(each)} ${percent(each.p)}`).join(" \u00b7 ");
    return make(
      "td",
      {
        class: `lens ${right ? "right" : ""}`,
        tabindex: "-1",
        style: { background: colour("weight", 0.75 * best.p), color: inkOn("weight", 0.75 * best.p) },
        title: told,
        onpointerenter: () => {
          readout.textContent = `layer ${layer + 1}: ${told}`;
        },
        onfocus: () => {
          readout.textContent = `layer ${layer + 1}: ${told}`;
        },
      },
      pieceText(best),
    );
  };
  const rows = range(lens.layers)
    .reverse()
    .map((layer) => range(target.pieces.length).map((position) => cell(layer, position)));
  walkable(rows.flat(), target.pieces.length);
  return plate(
    "Logit lens",
    "what each decoder layer would write if it were the last; bold where it already is the answer",
    make(
      "div",
      { class: "scroll" },
      make(
        "table",
        { class: "lens-table" },
        make(
          "thead",
          null,
          make(
            "tr",
            null,
            make("td", null),
            pieceLabels(target.pieces).map((text) => make("th", { scope: "col", dir: "auto" }, text)),
          ),
        ),
        make(
          "tbody",
          null,
          rows.map((row, index) => make("tr", null, make("th", { scope: "row" }, `layer ${lens.layers - index}`), row)),
        ),
      ),
    ),
    readout,
  );
};

// ---------------------------------------------------------------- the panel

const positionPicker = (trace) =>
  make(
    "label",
    { class: "slider" },
    make("span", null, "While writing"),
    make(
      "select",
      {
        data: { key: "position" },
        disabled: !session.live,
        onchange: (event) => change({ position: Number(event.target.value) }),
      },
      trace.target.pieces.map((piece, index) =>
        make(
          "option",
          { value: index, selected: index === trace.inside.position },
          `${index + 1}. ${pieceText(piece)}`,
        ),
      ),
    ),
  );

const drawInside = (host, trace) => {
  const { inside, model } = trace;
  const pick = (box) => {
    insideView.box = box.id;
    redraw();
  };
  const figure = paperFigure(model, insideView.box, pick);
  const at = Math.max(
    0,
    figure.boxes.findIndex((box) => box.id === insideView.box),
  );
  const box = figure.boxes[at];
  const layers = box.stack === "encoder" ? model.encoder_layers : model.decoder_layers;
  const layer = clamp(insideView.layer ?? layers - 1, 0, layers - 1);
  const stages = boxStages(inside, box, layer);
  const step = (by) => pick(figure.boxes[(at + by + figure.boxes.length) % figure.boxes.length]);
  const wide = panelWidth(host) > 900;
  const place =
    box.stack === "encoder"
      ? `at the source piece \u201c${pieceText({ text: inside.source_piece ?? "" })}\u201d, which is looked at most`
      : `while writing \u201c${pieceText({ text: inside.piece })}\u201d`;
  refill(
    host,
    controls(
      positionPicker(trace),
      slider("Layer", {
        low: 1,
        high: layers,
        value: layer + 1,
        say: (n) => `${n} of ${layers}`,
        disabled: !box.layered,
        oninput: (n) => {
          insideView.layer = n - 1;
          redraw();
        },
      }),
      box.names.includes("keys")
        ? headChips(model.heads, insideView.head, (head) => {
            insideView.head = head;
            redraw();
          })
        : null,
      button("\u2190 Before", () => step(-1), { key: "before" }),
      button("Next \u2192", () => step(1), { key: "next" }),
    ),
    make(
      "div",
      { class: "beside figure-beside" },
      make("figure", { class: "plate figure-plate" }, figure.node),
      make(
        "div",
        { class: "card stages" },
        make("h3", null, box.title),
        make("p", { class: "facts" }, `${box.stack}${box.layered ? `, layer ${layer + 1}` : ""}, ${place}`),
        stages.length
          ? make(
              "div",
              { class: "stage-grid" },
              stages.map((stage) => stageCard(stage, wide ? (panelWidth(host) - 640) / 2 : panelWidth(host) - 60)),
            )
          : note("This model has nothing here."),
      ),
    ),
    lensTable(trace),
  );
};
