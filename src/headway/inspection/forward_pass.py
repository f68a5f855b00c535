"""One pass over a translation, with everything that can be seen in it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headway.model.hooks import Seen, record
from headway.model.models import EncoderDecoder
from headway.text.vocabulary import BOS, EOS


@dataclass(frozen=True)
class Reading:
    """A source, a target, and what passed through the model that was given both. Row t writes target piece t."""

    source: Int[Tensor, "1 s"]  # ends with the end of the sentence
    inputs: Int[Tensor, "1 t"]  # what the decoder was given: begin, then all pieces but the last
    target: Int[Tensor, "1 t"]  # what it was to write; ends with the end of the sentence if it ended
    logp: Float[Tensor, "t v"]  # log-probabilities of every piece at every place
    layers: list[Float[Tensor, "t d"]]  # what leaves each decoder layer
    seen: Seen

    def attention(self, stack: str, kind: str) -> Float[Tensor, "l h q k"]:
        """The weights of all heads of all layers of one kind."""
        names = [name for name in self.seen.names if name.startswith(stack) and name.endswith(f"{kind}_attention")]
        return torch.cat([self.seen.attention(name) for name in names]).float()

    @property
    def chosen(self) -> Float[Tensor, "t"]:
        """The log-probabilities of the target's own pieces."""
        return self.logp.gather(1, self.target.T)[:, 0]


@torch.inference_mode()
def read(model: EncoderDecoder, source: Int[Tensor, "1 s"], ids: Sequence[int], finished: bool = True) -> Reading:
    """Give the model a source and its translation (teacher forcing), and look. Agrees with the search that wrote it."""
    target = torch.tensor([[*ids, *[EOS] * finished]], device=source.device)
    inputs = torch.tensor([[BOS, *ids][: target.size(1)]], device=source.device)
    layers: list[Tensor] = []
    with ExitStack() as undo:
        for layer in model.transformer.layers:
            hook = layer.register_forward_hook(lambda *passed: layers.append(passed[2][0]))
            undo.callback(hook.remove)
        seen = undo.enter_context(record(model))
        logits = model(source, inputs)[0]
    return Reading(source, inputs, target, logits.float().log_softmax(dim=-1), layers, seen)
