"""Models of one stack: their attention weights, what their heads do, and their sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headway.errors import UsageError
from headway.inspection.anatomy import size_of
from headway.inspection.heads import describe_heads, habits, rarity
from headway.inspection.trace_request import TraceRequest
from headway.model.hooks import Seen, attention_layers
from headway.storage.byte_tables import pack
from headway.text.tokenizer import Tokenizer

ONE_ENGINE = "models of this task run in PyTorch alone"


@dataclass(frozen=True)
class SingleStack:
    """The only stack of a model, for its traces."""

    model: nn.Module
    name: Literal["encoder", "decoder"]  # as a trace calls it: one that looks everywhere, or one that looks back
    path: str  # where it is in the model

    @property
    def layers(self) -> list[str]:
        """Return the names of the attention layers, from the bottom up."""
        return [name for name in attention_layers(self.model) if name.startswith(f"{self.path}.layers.")]

    def silenced(self, request: TraceRequest) -> list[tuple[str, int]]:
        """Return the heads to silence, by the names of their layers. Refuse what only a translation has."""
        if request.prefix or request.hypothesis or request.target:
            raise UsageError(
                "a prefix, a hypothesis and a target language are for translations; this model writes none"
            )
        layers = self.layers
        for head in request.ablate:
            if (head.stack, head.kind) != (self.name, "self") or head.layer >= len(layers):
                last = f"{self.name}.{len(layers) - 1}.self"
                raise UsageError(f"there is no head {head}; this model has {self.name}.0.self to {last}")
        return [(layers[head.layer], head.head) for head in request.ablate]

    def weights(self, seen: Seen) -> Float[Tensor, "l h q k"]:
        return torch.cat([seen.attention(name) for name in self.layers]).float()

    def panels(
        self, weights: Float[Tensor, "l h q k"], ids: Sequence[int], tokenizer: Tokenizer, request: TraceRequest
    ) -> dict[str, Any]:
        """Return the panels that the request names. `ids` are what is looked at; idle heads rest on the first."""
        found: dict[str, Any] = {}
        if "attention" in request.include:
            found["attention"] = {self.name: pack(weights)}
        if "heads" in request.include:
            found["heads"] = describe_heads(habits(weights.cpu(), "self", rarity(ids, tokenizer), 0), self.name, "self")
        return found

    def server_facts(self, vocabulary: int) -> dict[str, Any]:
        """Return what a server says of such a model: it has no languages, and PyTorch runs it."""
        found = self.facts("", vocabulary)
        same = {name: found[name] for name in ("parameters", f"{self.name}_layers", "heads", "width", "vocabulary")}
        return {"pairs": [], **same, "engine": "torch", "precision": "fp32", "reason": ONE_ENGINE}

    def facts(self, name: str, vocabulary: int) -> dict[str, Any]:
        layers = attention_layers(self.model)
        first = self.layers[0]
        inner = self.model.get_submodule(first.removesuffix("self_attention") + "feed_forward.down")
        return {
            "name": name,
            "source": "",
            "target": "",
            f"{self.name}_layers": len(self.layers),
            "heads": layers[first].heads,
            "width": layers[first].out.out_features,
            "inner": inner.get_parameter("weight").size(1),
            "vocabulary": [vocabulary],
            "parameters": size_of(self.model),
        }
