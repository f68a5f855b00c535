"""Does the export say what its model says? Asked with real sentences, before anything is put in its place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from headway.data.padding import pad_rows
from headway.errors import RefusedError
from headway.exchange.trained import Trained
from headway.model.models import EncoderDecoder, LanguageModel
from headway.search import Greedy, Limits
from headway.text.vocabulary import BOS, EOS

STEPS = 48  # pieces each output may have, the end included
EXACT = 1e-3  # nats: two roads to the same numbers
LOOSE = {"float16": 0.05, "bfloat16": 0.2, "int": 0.5}  # what fewer bits may cost at one piece

# Source pieces (without begin and end) in, the best piece at every step out (without the end).
Engine = Callable[[list[list[int]]], list[list[int]]]


def tolerance(quantization: str | None) -> float:
    """Nats that a piece may be worse than the best one, at the precision of the weights."""
    return next((allowed for bits, allowed in LOOSE.items() if (quantization or "").startswith(bits)), EXACT)


@dataclass(frozen=True)
class Agreement:
    """How an engine's outputs look to the model itself."""

    sentences: int
    same: int  # outputs equal to ours, piece by piece
    worst: float  # nats by which a chosen piece was worse than the best one
    allowed: float

    def demand(self, target: str) -> None:
        if not self.worst <= self.allowed:
            raise RefusedError(
                f"the {target} export does not say what its model says: {self.sentences - self.same} of "
                f"{self.sentences} sentences differ, a piece by {self.worst:.3g} nats where {self.allowed:g} are "
                "allowed; nothing was written"
            )

    def facts(self) -> dict[str, int | float]:
        return {"sentences": self.sentences, "same": self.same, "worst": self.worst, "allowed": self.allowed}


class Trial:
    """Sentences, and what the model makes of them: greedy, so that every engine can do the same."""

    def __init__(self, trained: Trained, texts: Sequence[str]) -> None:
        self.trained, self.model = trained, trained.build()
        half = trained.design.longest // 2  # tables of positions may end there
        self.steps = max(1, min(STEPS, half - 2))
        tried = [(text, self.ids(text, turn)) for turn, text in enumerate(texts)]
        short = [(text, ids) for text, ids in tried if len(ids) < half]
        self.texts, self.sources = [text for text, _ in short], [ids for _, ids in short]
        self.outputs = self.ours()

    def ids(self, text: str, turn: int) -> list[int]:
        """Pieces of a text; a translator with language tags gets them in turn."""
        tags = list(self.trained.source.tags.values()) if isinstance(self.model, EncoderDecoder) else []
        return [*([tags[turn % len(tags)]] if tags else []), *self.trained.source.encode(text)]

    def ours(self) -> list[list[int]]:
        return greedily(self.model, self.sources, self.steps)

    def judge(self, engine: Engine, allowed: float = EXACT) -> Agreement:
        """Let the engine speak, and see how good the model finds every piece it chose."""
        outputs = [output[: self.steps] for output in engine(self.sources)]
        pairs = zip(outputs, self.outputs, strict=True)
        regrets = [self.regret(source, output) for source, output in zip(self.sources, outputs, strict=True)]
        return Agreement(len(outputs), sum(a == b for a, b in pairs), max(regrets, default=0.0), allowed)

    @torch.inference_mode()
    def regret(self, source: list[int], output: list[int]) -> float:
        """The most by which a piece was worse than the best one, after the pieces before it."""
        if any(piece >= len(self.trained.target) for piece in output):
            return float("inf")
        chosen = torch.tensor(output if len(output) == self.steps else [*output, EOS])
        logits = forced(self.model, source, output)[: len(chosen)]
        logits[:, :EOS] = -torch.inf  # padding, unknown and begin never come out
        return float((logits.amax(dim=-1) - logits.gather(-1, chosen[:, None])[:, 0]).max())


def forced(model: EncoderDecoder | LanguageModel, source: list[int], output: list[int]) -> Float[Tensor, "t v"]:
    """The scores of every next piece of an output, from the first to the one after it."""
    if isinstance(model, LanguageModel):
        return model(torch.tensor([[BOS, *source, *output]]))[0, len(source) :]
    return model(torch.tensor([[*source, EOS]]), torch.tensor([[BOS, *output]]))[0]


def greedily(model: EncoderDecoder | LanguageModel, sources: list[list[int]], steps: int) -> list[list[int]]:
    """The best piece at every step, without the end."""
    if isinstance(model, LanguageModel):
        return [continue_greedily(model, source, steps) for source in sources]
    source = pad_rows([[*source, EOS] for source in sources], "cpu")
    return [found[0].ids for found in Greedy(limits=Limits(ratio=0.0, extra=steps))(model, source)]


@torch.inference_mode()
def continue_greedily(model: LanguageModel, prompt: list[int], steps: int) -> list[int]:
    """What a language model says after a prompt."""
    rows = model.start(1)
    scores, said = model.feed(torch.tensor([[BOS, *prompt]]), rows)[:, -1], []
    for _ in range(steps):
        scores[:, :EOS] = -torch.inf
        best = int(scores.argmax())
        if best == EOS:
            break
        said.append(best)
        scores = model.step(torch.tensor([best]), rows)
    return said
