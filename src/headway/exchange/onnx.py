"""ONNX: two graphs for a translator, one for a language model. Memory goes in and out, so any runtime can decode."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.errors import RefusedError, UsageError
from headway.exchange.agreement import STEPS, Engine, Trial, forced
from headway.exchange.graphs import ContinueGraph, ReadGraph, StepGraph
from headway.exchange.quiet import quiet
from headway.exchange.trained import Trained
from headway.model.design import EncoderDecoderDesign
from headway.model.models import EncoderDecoder
from headway.model.plain_design import Exportable
from headway.text.tokenizer import Tokenizers
from headway.text.vocabulary import BOS, EOS, PAD
from headway.version import extra

READ, STEP = "encoder.onnx", "decoder.onnx"
CLOSE = 1e-4  # scores may differ by this share of the largest

NAMES = {2: "past", 3: "source"}  # of lengths, by their size in the example

Numbers = Float[np.ndarray, "..."]


# ---------------------------------------------------------------- writing


def write_onnx(trained: Trained, folder: Path) -> None:
    """The graphs with float32 weights, and the tokenisers."""
    extra("onnx", "onnx")
    extra("onnxscript", "onnx")
    check_onnx_design(trained.design)
    model = trained.build()
    size, source = trained.design.size(), torch.tensor([[4, 5, EOS], [4, EOS, PAD]])
    layers = len(model.transformer.layers)
    past = [torch.zeros(2, size.key_heads, 2, size.head_width) for _ in range(2 * layers)]
    last, names = torch.tensor([[BOS], [BOS]]), named("past", layers)
    outputs = ["scores", *named("present", layers)]
    with torch.no_grad(), quiet():
        if isinstance(model, EncoderDecoder):
            keys = list(ReadGraph(model)(source))
            inputs = ["last", "source", *names, *named("source", layers)]
            write_graph(ReadGraph(model), (source,), ["source"], named("source", layers), folder / READ)
            write_graph(StepGraph(model), (last, source, past, keys), inputs, outputs, folder / STEP)
        else:
            write_graph(ContinueGraph(model), (last, past), ["last", *names], outputs, folder / STEP)
    Tokenizers(trained.source, trained.target).save(folder)


def check_onnx_design(design: Exportable) -> None:
    if design.norm.kind == "batch":
        raise UsageError("ONNX cannot hold batch norm, which picks the real tokens out of a batch; use headway itself")


def named(what: str, layers: int) -> list[str]:
    return [f"{what}.{layer}.{leaf}" for layer in range(layers) for leaf in ("keys", "values")]


def write_graph(graph: nn.Module, example: tuple[Any, ...], inputs: list[str], outputs: list[str], path: Path) -> None:
    """Batch and lengths stay open. Values of the example do not matter, only its dimensions."""
    try:
        program = torch.onnx.export(
            graph.eval(),
            example,
            dynamo=True,
            verbose=False,
            input_names=inputs,
            output_names=outputs,
            dynamic_shapes=tuple(open_axes(value) for value in example),
        )
    except torch.onnx.OnnxExporterError as error:
        reason = " ".join(str(error.__cause__ or error).split())[:120]
        raise UsageError(f"ONNX cannot hold a part of this model, as its exporter says: {reason}") from None
    assert program is not None
    program.save(path)


def open_axes(value: Tensor | list[Tensor]) -> Any:
    """Rows and the length of every input: axes 0 and 1 of pieces, 0 and 2 of keys and values. `last` has length one."""
    if isinstance(value, list):
        return [open_axes(one) for one in value]
    length = 2 if value.dim() == 4 else 1
    return {0: "rows"} if value.size(length) == 1 else {0: "rows", length: NAMES[value.size(length)]}


# ---------------------------------------------------------------- running


class OnnxModel:
    """A model of ONNX graphs: `start` with sources, then `step` from piece to piece."""

    def __init__(self, folder: Path) -> None:
        runtime = extra("onnxruntime", "onnx")
        options = runtime.SessionOptions()
        options.log_severity_level = 3
        there = {name: folder / name for name in (READ, STEP) if (folder / name).is_file()}
        sessions = {name: runtime.InferenceSession(str(path), options) for name, path in there.items()}
        self.reader, self.stepper = sessions.get(READ), sessions[STEP]
        self.past: list[Numbers] = []
        self.given: dict[str, Any] = {}

    def start(self, source: Int[np.ndarray, "b s"]) -> None:
        """Read the sources and forget what was written. A language model only takes their number."""
        shapes = {one.name: one.shape for one in self.stepper.get_inputs() if one.name.startswith("past.")}
        self.past = [np.zeros((len(source), heads, 0, width), np.float32) for _, heads, _, width in shapes.values()]
        if self.reader is not None:
            names = [output.name for output in self.reader.get_outputs()]
            keys = dict(zip(names, self.reader.run(None, {"source": source}), strict=True))
            self.given = {"source": source, **keys}

    def step(self, last: Int[np.ndarray, "b"]) -> Float[np.ndarray, "b v"]:
        """The scores of the next piece of every row."""
        names = [one.name for one in self.stepper.get_inputs() if one.name.startswith("past.")]
        memory = dict(zip(names, self.past, strict=True))
        scores, *self.past = self.stepper.run(None, {"last": last[:, None], **memory, **self.given})
        return scores


def run(model: OnnxModel, source: Sequence[int], steps: int = STEPS) -> list[int]:
    """Greedy decoding: what the graphs are for, in a few lines."""
    model.start(np.array([[*source, EOS]], dtype=np.int64))
    *before, last = [BOS] if model.reader is not None else [BOS, *source]
    for piece in before:
        model.step(np.array([piece], dtype=np.int64))
    said: list[int] = []
    while len(said) < steps:
        scores = model.step(np.array([last], dtype=np.int64))
        last = EOS + int(scores[0, EOS:].argmax())  # padding, unknown and begin never come out
        if last == EOS:
            break
        said.append(last)
    return said


# ---------------------------------------------------------------- trying it


def check_onnx(folder: Path, trial: Trial) -> Engine:
    """Its scores must be the model's at every step of our outputs; then it may speak."""
    model = OnnxModel(folder)
    for source, output in zip(trial.sources, trial.outputs, strict=True):
        worst = difference(model, trial, source, output)
        if not worst <= CLOSE:
            raise RefusedError(
                f"the onnx export gives other scores than its model: they differ by {worst:.3g} "
                f"where {CLOSE:g} is allowed; nothing was written"
            )
    return lambda sources: [run(model, source, trial.steps) for source in sources]


@torch.inference_mode()
def difference(model: OnnxModel, trial: Trial, source: list[int], output: list[int]) -> float:
    wanted = forced(trial.model, source, output).numpy()
    reads = isinstance(trial.trained.design, EncoderDecoderDesign)
    model.start(np.array([[*source, EOS]], dtype=np.int64))
    pieces = [BOS, *output] if reads else [BOS, *source, *output]
    scores = np.concatenate([model.step(np.array([piece], dtype=np.int64)) for piece in pieces])
    return float(np.abs(scores[len(scores) - len(wanted) :] - wanted).max() / max(1.0, np.abs(wanted).max()))
