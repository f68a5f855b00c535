"""Model folders as Hugging Face's libraries read them, tokeniser included."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from headway.data.padding import pad_rows
from headway.errors import RefusedError, UsageError
from headway.exchange.agreement import Engine, Trial
from headway.exchange.huggingface import to_gpt2, to_llama, to_marian
from headway.exchange.quiet import quiet
from headway.exchange.tokenizer_json import tokenizer_json
from headway.exchange.trained import Trained
from headway.model.design import EncoderDecoderDesign
from headway.model.plain_design import with_plain_attention
from headway.text.sentencepieces import SentencePieces
from headway.text.tokenizer import Tokenizer
from headway.text.vocabulary import BOS, EOS, PAD, SPECIAL_PIECES, UNK
from headway.version import extra

LONGEST = 512  # pieces, in generation_config.json and tokenizer_config.json
NEVER = [[PAD], [UNK], [BOS]]  # what our search never lets out


def write_hub_folder(trained: Trained, folder: Path) -> None:
    """config.json, model.safetensors, generation_config.json and the tokeniser's files."""
    extra("transformers", "hf")
    if isinstance(trained.design, EncoderDecoderDesign):
        write_marian_tokenizer(trained, folder)
    else:
        write_tokenizer_json(trained, folder)
    with quiet():
        model_of(trained).save_pretrained(folder)
    for path in folder.glob("*.safetensors"):  # written for its owner alone; a model is to be shared
        path.chmod((folder / "config.json").stat().st_mode)
    (folder / "README.md").write_text(trained.card, encoding="utf-8")


def model_of(trained: Trained) -> Any:
    """The model as an object of transformers."""
    import transformers

    design = with_plain_attention(trained.design)
    try:
        if isinstance(design, EncoderDecoderDesign):
            kind, (state, table) = "Marian", to_marian(design, trained.tensors)
        elif design.positions.kind == "rotary":
            kind, (state, table) = "Llama", to_llama(design, trained.tensors)
        else:
            kind, (state, table) = "GPT2", to_gpt2(design, trained.tensors)
    except UsageError as error:
        raise UsageError(f"{error}; use --to ctranslate2 or --to onnx") from None
    config = getattr(transformers, f"{kind}Config")(**table)
    model = getattr(transformers, table["architectures"][0])(config)
    model.load_state_dict({name: tensor.float() for name, tensor in state.items()})
    model.generation_config = transformers.GenerationConfig(**generation(design))
    return model.eval()


def generation(design: Any) -> dict[str, Any]:
    starts = {"decoder_start_token_id": BOS} if isinstance(design, EncoderDecoderDesign) else {}
    return {
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "pad_token_id": PAD,
        "bad_words_ids": NEVER,
        "max_length": min(LONGEST, design.longest),
        "num_beams": 5,
        **starts,
    }


# ---------------------------------------------------------------- tokenisers


def write_marian_tokenizer(trained: Trained, folder: Path) -> None:
    sides = {"source": trained.source, "target": trained.target}
    for name, tokenizer in sides.items():
        if not isinstance(tokenizer, SentencePieces):
            raise UsageError(
                f"Marian layout: the {name} is cut by {type(tokenizer).__name__}; only sentencepiece models are held"
            )
        tokenizer.save(folder, name)
    shared = names(trained.source) == names(trained.target)
    write_json(folder / "vocab.json", names(trained.source))
    if not shared:
        write_json(folder / "target_vocab.json", names(trained.target))
    languages = dict(zip(("source_lang", "target_lang"), (code or None for code in trained.languages), strict=True))
    special = dict(
        zip(("pad_token", "unk_token", "eos_token"), (SPECIAL_PIECES[i] for i in (PAD, UNK, EOS)), strict=True)
    )
    limits = {"model_max_length": min(LONGEST, trained.design.longest), "separate_vocabs": not shared}
    write_json(
        folder / "tokenizer_config.json", {"tokenizer_class": "MarianTokenizer", **languages, **special, **limits}
    )


def names(tokenizer: Tokenizer) -> dict[str, int]:
    """Pieces and their ids; a tag is written as Marian's models write it, `>>de<<`."""
    table = {tokenizer.piece(i): i for i in range(len(tokenizer))}
    tags = {tokenizer.piece(i): f">>{tag}<<" for tag, i in tokenizer.tags.items()}
    return {tags.get(piece, piece): i for piece, i in table.items()}


def write_tokenizer_json(trained: Trained, folder: Path) -> None:
    (folder / "tokenizer.json").write_text(tokenizer_json(trained.target), encoding="utf-8")
    names = ("pad_token", "unk_token", "bos_token", "eos_token")
    special = {name: trained.target.piece(i) for i, name in enumerate(names)}
    limits = {"model_max_length": trained.design.longest, "clean_up_tokenization_spaces": False}
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", **special, **limits})


def write_json(path: Path, table: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(table, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


# ---------------------------------------------------------------- trying it


def check_hub_folder(folder: Path, trial: Trial) -> Engine:
    """Open the folder as a user would; its tokeniser must cut and join as ours, then its model may speak."""
    import transformers

    with quiet():
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
        reads = isinstance(trial.trained.design, EncoderDecoderDesign)
        kind = transformers.AutoModelForSeq2SeqLM if reads else transformers.AutoModelForCausalLM
        model = kind.from_pretrained(folder, local_files_only=True, use_safetensors=True).eval()
    for text, source, output in zip(trial.texts, trial.sources, trial.outputs, strict=True):
        check_text(tokenizer, trial, text, [*source, EOS] if reads else [BOS, *source], output)
    return lambda sources: generate(model, sources, reads, trial.steps)


def check_text(tokenizer: Any, trial: Trial, text: str, source: list[int], output: list[int]) -> None:
    tags = {i: f">>{tag}<<" for tag, i in trial.trained.source.tags.items()}
    with quiet():
        cut = tokenizer(tags.get(source[0], "") + text)["input_ids"]
        joined = tokenizer.decode(output, skip_special_tokens=True)
    if cut != source:
        raise RefusedError(
            f"the hf export cuts {text[:60]!r} into other pieces than its model does; nothing was written"
        )
    ours = trial.trained.target.decode(output)
    if "\ufffd" not in ours and joined.strip() != ours.strip():  # broken bytes may be shown in several ways
        raise RefusedError(
            f"the hf export writes {joined[:60]!r} where its model writes {ours[:60]!r}; nothing was written"
        )


@torch.inference_mode()
def generate(model: Any, sources: list[list[int]], reads: bool, steps: int) -> list[list[int]]:
    """Greedy outputs. Translators get all sentences at once; language models one by one, as padding is on the right."""
    starts = [[*source, EOS] if reads else [BOS, *source] for source in sources]
    options = {"num_beams": 1, "do_sample": False, "max_new_tokens": steps, "max_length": None}
    said: list[list[int]] = []
    for batch in [starts] if reads else [[start] for start in starts]:
        ids = pad_rows(batch, "cpu")
        with quiet():
            found = model.generate(ids, attention_mask=(ids != PAD).long(), **options)
        said += found[:, 1 if reads else ids.size(1) :].tolist()
    return [one[: one.index(EOS)] if EOS in one else one for one in said]
