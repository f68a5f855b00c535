"""CTranslate2's format, straight from our tensors: fast decoding on CPUs, with weights of 8 bits if wanted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from headway.engines.ctranslate2.specification import specification
from headway.errors import UsageError
from headway.model.design import EncoderDecoderDesign
from headway.model.kernels import Fused
from headway.model.plain_design import Exportable, other_part, with_plain_attention
from headway.storage.weights import NamedTensors
from headway.text.vocabulary import BOS, EOS, UNK
from headway.version import extra

QUANTIZATIONS = ("int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16", "float32")


def convert(
    design: Exportable,
    tensors: NamedTensors,
    source_pieces: Sequence[str],
    target_pieces: Sequence[str],
    out_dir: Path,
    quantization: str | None = None,
) -> Path:
    """Write a CTranslate2 model. A language model has one vocabulary, the target's."""
    extra("ctranslate2", "ctranslate2")
    if quantization is not None and quantization not in QUANTIZATIONS:
        raise UsageError(f"quantization is {quantization!r}; choose one of {', '.join(QUANTIZATIONS)}")
    design = with_plain_attention(design)
    check_ctranslate2(design)
    # A copy, for the library rounds weights where they lie.
    spec = specification(design, {name: tensor.to(torch.float32, copy=True) for name, tensor in tensors.items()})
    if isinstance(design, EncoderDecoderDesign):
        spec.register_source_vocabulary(different(source_pieces))
        spec.register_target_vocabulary(different(target_pieces))
        spec.config.decoder_start_token = target_pieces[BOS]
        spec.config.add_source_eos = True
    else:
        spec.register_vocabulary(different(target_pieces))
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = (target_pieces[i] for i in (UNK, BOS, EOS))
    spec.config.layer_norm_epsilon = design.norm.epsilon
    spec.validate()
    spec.optimize(quantization=quantization)
    out_dir.mkdir(parents=True, exist_ok=True)
    spec.save(str(out_dir))
    return out_dir


def different(pieces: Sequence[str]) -> list[str]:
    """CTranslate2 looks pieces up by name: of two with one name, the later gets another."""
    first = {piece: i for i, piece in reversed(list(enumerate(pieces)))}
    return [piece if first[piece] == i else f"{piece}#{i}" for i, piece in enumerate(pieces)]


def check_ctranslate2(design: Exportable) -> None:
    """Refuse by name what the format has no place for."""
    if (part := other_part(design)) is not None:
        raise refusal(part)
    looks = [("attention", design.attention)]
    if isinstance(design, EncoderDecoderDesign):
        looks.append(("encoder attention", design.encoder_attention or design.attention))
        looks.append(("cross attention", design.cross_attention))
        if set(design.read_layers()) != {design.encoder_layers - 1}:
            raise refusal("decoder layers that read other encoder layers than the last")
    for name, mixing in looks:
        if not isinstance(mixing, Fused):
            raise refusal(f"{mixing.kind} {name}")
    for part, kinds in UNKNOWN.items():
        kind = getattr(design, part).kind
        if kind in kinds:
            raise refusal(f"{kind} {part}")


UNKNOWN = {"positions": ("transformer_xl", "tener"), "norm": ("batch",), "residual": ("rezero",)}


def refusal(part: str) -> UsageError:
    return UsageError(f"CTranslate2 cannot hold {part}; use --to onnx, or translate with headway itself")
