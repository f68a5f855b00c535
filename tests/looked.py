"""Translators with random weights, made in memory, to look into."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from headway.data.corpus import Data
from headway.engines.pytorch import TorchEngine
from headway.model.design import EncoderDecoderDesign
from headway.model.feed_forward import Relu
from headway.tasks.run import Run
from headway.tasks.translation.translator import Translator
from headway.text.sentencepieces import SentencePieces
from headway.text.tokenizer import Subword, Tokenizers
from headway.text.vocabulary import EOS
from models import TEXT

SENTENCE = "a dog runs on the bench"
ENDING = 1.8  # by so much more likely than other pieces is the end
SMALL: dict[str, Any] = {
    "width": 32, "heads": 4, "encoder_layers": 2, "decoder_layers": 2, "feed_forward": Relu(width=64), "dropout": 0.0,
    "output_bias": True, "tie_embeddings": "none",
}  # fmt: skip


@cache
def pieces() -> SentencePieces:
    return Subword(size=500).learn(TEXT * 20)


def made(seed: int = 5, **choice: Any) -> Translator:
    """A small model that says nonsense, and ends after some words."""
    design = EncoderDecoderDesign(**(SMALL | choice))
    data = Data(source="a.en", target="a.de", source_language="en", target_language="de")
    torch.manual_seed(seed)
    model = design.build(len(pieces())).eval()
    assert model.head.bias is not None
    model.head.bias.data[EOS] = ENDING
    tokenizers = Tokenizers(pieces(), pieces())
    run = Run(data=data, text=Subword(size=500), model=design)
    return Translator(run, tokenizers, model, TorchEngine(model), torch.device("cpu"))
