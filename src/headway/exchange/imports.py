"""Import: a model in Hugging Face's layout becomes a headway folder that says the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headway import config
from headway.data.corpus import Data
from headway.data.files import Files
from headway.errors import RefusedError, UsageError
from headway.exchange.agreement import Trial, forced
from headway.exchange.foreign import SMALL, Foreign, read_foreign
from headway.exchange.huggingface import from_gpt2, from_llama, from_marian
from headway.exchange.quiet import quiet
from headway.exchange.samples import probes
from headway.exchange.trained import Trained, expected_shapes
from headway.exchange.vocabularies import Vocabulary, language_model_vocabulary, marian_vocabularies
from headway.model.design import EncoderDecoderDesign
from headway.model.plain_design import Exportable
from headway.storage.card import CardFacts, card
from headway.storage.checked_weights import check_tensors
from headway.storage.folder import write_model
from headway.storage.publication import FACTS
from headway.storage.weights import weights_of
from headway.tasks.language_model.task import LanguageModelling
from headway.tasks.run import Run, Task
from headway.tasks.translation.task import Translation
from headway.text.tokenizer import Subword, Tokenizers
from headway.text.vocabulary import BOS, EOS
from headway.version import versions

NEVER = -1e4  # the score of pieces that the foreign model does not know
SEGMENT = 1024  # tokens that an imported language model reads at once, where it knows so many positions
POSITIONS = 1024  # that the original is built with: its tables grow with them, or with their square
CLOSE = 1e-4  # how far scores may be from the original's, as a share of the largest


@dataclass(frozen=True)
class Kind:
    """A layout: how its weights and its vocabularies are read, and which class of transformers runs it."""

    design: Callable[[dict[str, Tensor], dict[str, Any]], tuple[Exportable, dict[str, Tensor]]]
    vocabularies: Callable[[Foreign], tuple[Vocabulary, Vocabulary]]
    runs: str


def twice(foreign: Foreign) -> tuple[Vocabulary, Vocabulary]:
    one = language_model_vocabulary(foreign)
    return one, one


KINDS = {
    "marian": Kind(from_marian, marian_vocabularies, "MarianMTModel"),
    "llama": Kind(from_llama, twice, "LlamaForCausalLM"),
    "gpt2": Kind(from_gpt2, twice, "GPT2LMHeadModel"),
}


def import_model(folder: Path, out: Path, force: bool = False) -> str:
    """Write `folder`'s model to `out` as a headway folder. Returns how it compared with the original."""
    check_place(out, force)
    foreign = read_foreign(folder)
    name = foreign.config.get("model_type")
    if not isinstance(name, str) or name not in KINDS:
        raise UsageError(f"{folder}: config.json says model_type {name!r:.40}; {', '.join(KINDS)} can be imported")
    trained, vocabularies = take_over(foreign, KINDS[name])
    compared = compare(foreign, KINDS[name].runs, trained, vocabularies)
    publish(foreign, trained, out)
    return compared


def check_place(out: Path, force: bool) -> None:
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not (out / FACTS).is_file():
        raise UsageError(f"--out {out}: holds something else than a headway model; name a new folder")
    if not force:
        raise UsageError(f"--out {out}: holds a model; name a new folder, or give --force to replace it")


# ---------------------------------------------------------------- taking over


def take_over(foreign: Foreign, kind: Kind) -> tuple[Trained, tuple[Vocabulary, Vocabulary]]:
    try:
        design, tensors = kind.design(foreign.state, foreign.config)
        check_vocabulary(foreign, max(len(x) for name, x in tensors.items() if name.endswith("embedding.weight")))
        source, target = kind.vocabularies(foreign)
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UsageError(f"{foreign.path}: its files do not describe one model: {reason}") from None
    rows = [len(tensors[name]) for name in tensors if name.endswith("embedding.weight")]
    check_tensors(expected_shapes(design, rows[0], rows[-1]), tensors)
    for side, count in ((source, rows[0]), (target, rows[-1])):
        if max(side.order.rows) >= count:
            raise UsageError(f"{foreign.path}: the vocabulary has pieces beyond the model's {count:,} rows")
    tensors = in_order(tensors, source, target)
    languages = foreign.table("tokenizer_config.json", SMALL) if foreign.has("tokenizer_config.json") else {}
    codes = [languages.get(name) for name in ("source_lang", "target_lang")]
    first, second = (code if isinstance(code, str) and len(code) < 16 else "" for code in codes)
    shown = Trained(foreign.path.resolve().name, design, tensors, source.tokenizer, target.tokenizer, (first, second))
    return shown, (source, target)


def check_vocabulary(foreign: Foreign, rows: int) -> None:
    """Before pieces are made for it: a size in a file costs nothing to write."""
    for name in ("vocab_size", "decoder_vocab_size"):
        size = foreign.config.get(name)
        if isinstance(size, int) and size > rows:
            raise UsageError(f"{foreign.path}: config.json gives {name} {size:,}, and the model has {rows:,} rows")


def in_order(tensors: dict[str, Tensor], source: Vocabulary, target: Vocabulary) -> dict[str, Tensor]:
    """Rows of the vocabularies in our order; tables that were one stay one."""
    taken = dict(tensors)
    for name, tensor in tensors.items():
        if name == "source_embedding.weight":
            taken[name] = source.order.embedding(tensor)
        elif name.endswith(("embedding.weight", "head.weight")):
            taken[name] = target.order.embedding(tensor)
        elif name == "head.bias":
            taken[name] = target.order.bias(tensor, NEVER)
    return taken


# ---------------------------------------------------------------- comparing


@torch.inference_mode()
def compare(foreign: Foreign, runs: str, trained: Trained, vocabularies: tuple[Vocabulary, Vocabulary]) -> str:
    """The scores of the original, run by transformers where it is installed, must be those of the import."""
    try:
        import transformers  # noqa: F401
    except ImportError:
        return "not compared with the original, which needs pip install 'headway-mt[hf]'"
    trial = Trial(trained, probes(trained.source))
    with quiet():
        original = run_original(foreign, runs)
        turns = range(len(trial.texts))
        worst = max((difference(original, trial, vocabularies, turn) for turn in turns), default=0.0)
    if not worst <= CLOSE:
        raise RefusedError(
            f"{foreign.path}: the import gives other scores than the original, by {worst:.3g} where {CLOSE:g} is "
            "allowed; nothing was written"
        )
    return f"scores of {len(trial.texts)} sentences differ from the original's by at most {worst:.1e} of the largest"


def run_original(foreign: Foreign, runs: str) -> Any:
    """Built from plain numbers of the configuration: nothing in it can name code to run."""
    import transformers

    kind = getattr(transformers, runs)
    plain = {name: value for name, value in foreign.config.items() if name in PLAIN}
    plain |= {name: min(plain[name], POSITIONS) for name in ("n_positions", "max_position_embeddings") if name in plain}
    model = kind(kind.config_class(**plain, attn_implementation="eager"))
    prefix = "transformer." if runs == "GPT2LMHeadModel" and "wte.weight" in foreign.state else ""
    state = {name: x[:POSITIONS] if name.endswith(BY_POSITION) else x for name, x in foreign.state.items()}
    model.load_state_dict({prefix + name: tensor for name, tensor in state.items()}, strict=False)
    model.tie_weights()
    return model.eval()


BY_POSITION = ("embed_positions.weight", "wpe.weight")

# fmt: off
PLAIN = {
    "vocab_size", "decoder_vocab_size", "d_model", "encoder_layers", "decoder_layers", "encoder_attention_heads",
    "decoder_attention_heads", "encoder_ffn_dim", "decoder_ffn_dim", "activation_function", "scale_embedding",
    "share_encoder_decoder_embeddings", "tie_word_embeddings", "max_position_embeddings", "pad_token_id",
    "eos_token_id", "bos_token_id", "decoder_start_token_id", "hidden_size", "intermediate_size", "num_hidden_layers",
    "num_attention_heads", "num_key_value_heads", "head_dim", "hidden_act", "rms_norm_eps", "rope_parameters",
    "rope_theta", "rope_scaling", "attention_bias", "mlp_bias", "n_embd", "n_layer", "n_head", "n_inner",
    "n_positions", "layer_norm_epsilon", "scale_attn_weights", "scale_attn_by_inverse_layer_idx",
}
# fmt: on


def difference(original: Any, trial: Trial, vocabularies: tuple[Vocabulary, Vocabulary], turn: int) -> float:
    source, output = trial.sources[turn], trial.outputs[turn]
    theirs = [torch.tensor(vocabulary.order.rows) for vocabulary in vocabularies]
    ours = forced(trial.model, source, output)
    read = [theirs[0][i].item() for i in source]
    written = [theirs[1][i].item() for i in output]
    begin, end = theirs[1][BOS].item(), theirs[0][EOS].item()
    if isinstance(trial.trained.design, EncoderDecoderDesign):
        found = original(torch.tensor([[*read, end]]), decoder_input_ids=torch.tensor([[begin, *written]])).logits[0]
    else:
        found = original(torch.tensor([[begin, *read, *written]])).logits[0, len(source) :]
    shared = [
        i for i, row in enumerate(vocabularies[1].order.rows) if row >= 0 and i not in vocabularies[1].order.silent
    ]
    return float((ours[:, shared] - found[:, theirs[1][shared]]).abs().max() / ours[:, shared].abs().max().clamp(min=1))


# ---------------------------------------------------------------- writing


def purpose(trained: Trained) -> tuple[Task, Data | Files]:
    """What the model is for. Others' language models write the ends of lines as part of the text."""
    source, target = trained.languages
    if isinstance(trained.design, EncoderDecoderDesign):
        return Translation(), Data(source_language=source, target_language=target)
    segment = min(trained.design.longest, SEGMENT)
    return LanguageModelling(segment=segment, line_end="text"), Files(language=source)


def publish(foreign: Foreign, trained: Trained, out: Path) -> None:
    source, target = trained.languages
    joint = trained.source is trained.target
    reads, weights = isinstance(trained.design, EncoderDecoderDesign), weights_of(trained.build())
    task, data = purpose(trained)
    run = Run(licence=foreign.licence, task=task, data=data, text=Subword(joint=joint), model=trained.design)
    facts = CardFacts(
        name=out.name,
        task="translation" if reads else "language modelling",
        command=f"headway import {foreign.path} --out {out}",
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        languages=[code for code in (source, target) if code],
        licence=foreign.licence,
        sizes={
            "parameters": sum(tensor.numel() for tensor in weights.values()),
            "vocabulary": len(trained.target),
        },
        versions=versions(),
        use=f"headway translate {out} < in.txt > out.txt" if reads else f'headway predict {out} --prompt "..."',
    )
    told = {"task": task.kind, "imported": foreign.config["model_type"]}
    tokenizers = Tokenizers(trained.source, trained.target)
    write_model(out, weights, config.dump(run), told, tokenizers.save, card(facts))
