"""Small models made on the spot: ours in their folders, and others' in Hugging Face's layouts."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from torch import nn

from headway import config
from headway.data.corpus import Data
from headway.exchange.trained import Trained
from headway.model.design import EncoderDecoderDesign, LanguageModelDesign
from headway.model.feed_forward import Relu
from headway.storage.folder import write_model
from headway.storage.weights import weights_of
from headway.tasks.run import Run
from headway.text.tokenizer import Subword, Tokenizer, Tokenizers
from texts import sentences

SMALL = EncoderDecoderDesign(width=32, heads=4, encoder_layers=2, decoder_layers=1, feed_forward=Relu(width=48))
PIECES = Subword(size=400).learn(sentences(300))
OTHERS = Subword(size=380, algorithm="unigram").learn(sentences(300, seed=1))


def stir(model: nn.Module, matrices: float = 1.5) -> nn.Module:
    """Fresh models say the same to everything: larger matrices, and norms and biases that are not plain."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 1:
                weight.add_(0.1 * torch.randn(weight.shape, generator=generator))
            elif "embed" not in name and "head" not in name:
                weight.mul_(matrices)
    return model.eval()


def trained(
    design: EncoderDecoderDesign | LanguageModelDesign = SMALL,
    source: Tokenizer = PIECES,
    target: Tokenizer | None = None,
    languages: tuple[str, str] = ("de", "en"),
) -> Trained:
    """A model with random weights."""
    target = target or source
    torch.manual_seed(0)
    reads = isinstance(design, EncoderDecoderDesign)
    model = stir(design.build(len(source), len(target)) if reads else design.build(len(target)))
    return Trained("toy", design, {n: x.detach() for n, x in model.state_dict().items()}, source, target, languages)


def publish(folder: Path, model: Trained) -> Path:
    run = Run(
        data=Data(source_language=model.languages[0], target_language=model.languages[1]),
        text=Subword(joint=model.source is model.target),
        model=model.design,
    )
    tokenizers = Tokenizers(model.source, model.target)
    write_model(
        folder, weights_of(model.build()), config.dump(run), {"task": "translation"}, tokenizers.save, "# toy\n"
    )
    return folder


# ---------------------------------------------------------------- others' models


def foreign_pieces(path: Path, seed: int, **options: Any) -> sentencepiece.SentencePieceProcessor:
    """As other toolkits learn them: unknown, begin and end first, no padding, spaces made one."""
    model = io.BytesIO()
    chosen = {"vocab_size": 150, "model_type": "unigram", "num_threads": 1, "minloglevel": 2} | options
    text: Iterator[str] = iter(sentences(400, seed))
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=text, model_writer=model, **chosen)
    path.write_bytes(model.getvalue())
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def write_json(path: Path, table: Any) -> None:
    path.write_text(json.dumps(table, ensure_ascii=False), encoding="utf-8")


def marian_folder(folder: Path, algorithm: str = "unigram", shared: bool = True) -> Any:
    """The layout of the published Marian models: end 0, unknown 1, a language, pieces of both sides, padding last."""
    import transformers

    folder.mkdir()
    sides = [foreign_pieces(folder / f"{name}.spm", i, model_type=algorithm) for i, name in enumerate(NAMES)]
    groups = [sides] if shared else [[side] for side in sides]
    tables = [numbered({side.id_to_piece(i) for side in group for i in range(3, len(side))}) for group in groups]
    for name, table in zip(("vocab.json", "target_vocab.json"), tables, strict=False):
        write_json(folder / name, table)
    write_json(
        folder / "tokenizer_config.json", {"source_lang": "de", "target_lang": "fr", "separate_vocabs": not shared}
    )
    torch.manual_seed(0)
    sizes = {f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in SIZES.items()}
    configuration = transformers.MarianConfig(
        **sizes, d_model=32, max_position_embeddings=128, activation_function="swish", scale_embedding=True,
        vocab_size=len(tables[0]), decoder_vocab_size=len(tables[-1]), share_encoder_decoder_embeddings=shared,
        pad_token_id=len(tables[-1]) - 1, decoder_start_token_id=len(tables[-1]) - 1, eos_token_id=0,
        forced_eos_token_id=None,
    )  # fmt: skip
    model = transformers.MarianMTModel(configuration)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "embed_positions" not in name:
                weight.mul_(5) if weight.dim() > 1 else weight.add_(0.1 * torch.randn_like(weight))
        model.final_logits_bias.normal_()
        model.final_logits_bias[0, [1, -1]] = -50  # unknown and padding: our search never lets them out
    model.eval().save_pretrained(folder)
    return model


NAMES = ("source", "target")
SIZES = {"layers": 2, "attention_heads": 4, "ffn_dim": 48}


def numbered(pieces: set[str]) -> dict[str, int]:
    """The first pieces are left out: what sentencepiece gives and the table lacks is unknown."""
    return {name: i for i, name in enumerate(["</s>", "<unk>", ">>fra<<", *sorted(pieces)[3:], "<pad>"])}


def llama_folder(folder: Path) -> Any:
    import transformers

    folder.mkdir()
    pieces = foreign_pieces(folder / "tokenizer.model", 1, model_type="bpe", byte_fallback=True, vocab_size=400)
    torch.manual_seed(0)
    configuration = transformers.LlamaConfig(
        vocab_size=len(pieces), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, bos_token_id=1, eos_token_id=2, max_position_embeddings=128,
    )  # fmt: skip
    model = stir(transformers.LlamaForCausalLM(configuration), 6)
    model.save_pretrained(folder)  # pyright: ignore[reportCallIssue]
    return model, pieces.encode, pieces.id_to_piece


def gpt2_folder(folder: Path, together: bool) -> Any:
    """With tokenizer.json, or with the older vocab.json and merges.txt; more rows than pieces."""
    import tokenizers
    import transformers

    folder.mkdir()
    pieces = tokenizers.ByteLevelBPETokenizer()
    end = "<|endoftext|>"
    pieces.train_from_iterator(sentences(300), vocab_size=380, special_tokens=[end], show_progress=False)
    torch.manual_seed(0)
    count, last = pieces.get_vocab_size(), pieces.token_to_id(end)
    configuration = transformers.GPT2Config(
        vocab_size=count + 5, n_positions=128, n_embd=32, n_layer=2, n_head=4, bos_token_id=last, eos_token_id=last
    )
    model = stir(transformers.GPT2LMHeadModel(configuration), 6)
    model.save_pretrained(folder)  # pyright: ignore[reportCallIssue]
    pieces.save(str(folder / "tokenizer.json")) if together else pieces.save_model(str(folder))
    return model, lambda text: pieces.encode(text).ids, pieces.id_to_token
