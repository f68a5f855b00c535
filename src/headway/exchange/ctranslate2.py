"""Export to CTranslate2, and the exported model as CTranslate2 runs it."""

from __future__ import annotations

import logging
from pathlib import Path

import torch

from headway.engines.ctranslate2.convert import convert, different
from headway.exchange.agreement import STEPS, Engine
from headway.exchange.trained import Trained
from headway.model.design import EncoderDecoderDesign
from headway.text.tokenizer import Tokenizers
from headway.text.vocabulary import BOS


def write_ctranslate2(trained: Trained, folder: Path, quantization: str | None) -> None:
    """The model and the tokenisers, which CTranslate2 itself does not use."""
    convert(trained.design, trained.tensors, *trained.pieces(), folder, quantization)
    Tokenizers(trained.source, trained.target).save(folder)


def open_ctranslate2(folder: Path, trained: Trained, steps: int = STEPS) -> Engine:
    """The model as CTranslate2 runs it, greedily. Weights of fewer bits are used as they are."""
    import ctranslate2

    ctranslate2.set_log_level(logging.ERROR)  # it warns of weights that the processor must widen
    source, target = (different(side) for side in trained.pieces())
    ids = {piece: i for i, piece in enumerate(target)}
    threads = torch.get_num_threads()
    if not isinstance(trained.design, EncoderDecoderDesign):
        generator = ctranslate2.Generator(str(folder), intra_threads=threads)

        def go_on(sources: list[list[int]]) -> list[list[int]]:
            prompts = [[target[i] for i in (BOS, *one)] for one in sources]
            found = generator.generate_batch(prompts, beam_size=1, max_length=steps, include_prompt_in_result=False)
            return [[ids[piece] for piece in one.sequences[0]] for one in found]

        return go_on
    translator = ctranslate2.Translator(str(folder), intra_threads=threads)

    def translate(sources: list[list[int]]) -> list[list[int]]:
        pieces = [[source[i] for i in one] for one in sources]
        found = translator.translate_batch(pieces, beam_size=1, max_decoding_length=steps, min_decoding_length=0)
        return [[ids[piece] for piece in one.hypotheses[0]] for one in found]

    return translate
