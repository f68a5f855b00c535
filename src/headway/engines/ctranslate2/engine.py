"""CTranslate2: the model converted once and kept, for machines where our own kernel cannot be compiled."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from headway.engines.base import Precision, Unavailable, as_beam, processors, unsupported_search, user_cache
from headway.engines.ctranslate2.convert import convert, unsupported_part
from headway.engines.pytorch import TorchEngine
from headway.errors import HeadwayError
from headway.model.design import Design, EncoderDecoderDesign
from headway.search import Beam, Hypothesis, Search
from headway.search.base import length_weight
from headway.search.logits_processors import LogitsProcessor
from headway.text.vocabulary import EOS, PAD

QUANTISATION: dict[Precision, str | None] = {"fp32": None, "int8": "int8"}
LONGEST_SOURCE = 1024  # pieces, the default of CTranslate2
COMPUTE: dict[Precision, str] = {"fp32": "float32", "int8": "int8"}


def unsupported(
    design: Design, search: Search | None = None, logits_processors: Sequence[LogitsProcessor] = ()
) -> str | None:
    """Why CTranslate2 cannot run models of this design or this search, or None if it can."""
    if not isinstance(design, EncoderDecoderDesign):
        return f"CTranslate2 translates with encoder-decoders, this is {design.__class__.__name__}"
    if (part := unsupported_part(design)) is not None:
        return f"CTranslate2 cannot hold {part}"
    return unsupported_search(search, logits_processors)


class CTranslate2Engine:
    """Greedy and beam search by CTranslate2, with rules of its own.

    Scores are divided by a power of the length; a beam stops when it has found enough; the longest cap of a batch
    holds for all of it; and hypotheses have no scores of single pieces. What `unsupported` names runs in PyTorch.
    """

    name = "ctranslate2"

    def __init__(self, model: nn.Module, design: Design, precision: Precision, workers: int | None = None) -> None:
        """Raises Unavailable if the package is missing or its format cannot hold the model."""
        self.design, self.precision = design, str(precision)
        self.workers = workers or processors()
        self.otherwise = TorchEngine(model)
        self.translator = open_translator(converted(model, design, precision), precision, self.workers)

    def translate(
        self, source: Int[Tensor, "b s"], search: Search, logits_processors: Sequence[LogitsProcessor] = ()
    ) -> list[list[Hypothesis]]:
        if not len(source):
            return []
        beam = as_beam(search)
        if beam is None or unsupported(self.design, search, logits_processors) or not can_read(source):
            return self.otherwise.translate(source, search, logits_processors)
        alpha = beam.alpha if beam.size > 1 else 0.0  # a single hypothesis needs no rule for lengths
        results = self.translator.translate_batch(
            [[str(i) for i in row if i not in (PAD, EOS)] for row in source.tolist()],
            min_decoding_length=0,
            max_input_length=LONGEST_SOURCE,
            max_decoding_length=int(beam.limits.caps(source).max()),
            length_penalty=alpha,
            return_scores=True,
            return_end_token=True,
            beam_size=beam.size,
            num_hypotheses=beam.n_best,
            patience=patience(beam),
        )
        return [list(hypotheses(result, alpha, beam.alpha)) for result in results]


def can_read(source: Int[Tensor, "b s"]) -> bool:
    """Whether all sources end with EOS, which CTranslate2 adds itself, and none is so long that it would be cut."""
    if source.size(1) > LONGEST_SOURCE:
        return False
    last = (source != PAD).sum(dim=1, keepdim=True).clamp(min=1) - 1
    return bool((source.gather(1, last) == EOS).all())


def patience(beam: Beam) -> float:
    """Enough for all outputs that are wanted to end. CTranslate2 rounds its product with the size of the beam."""
    return max(beam.patience or 1.0, (beam.n_best + 1e-3) / beam.size)


def hypotheses(result: Any, penalty: float, alpha: float) -> Iterator[Hypothesis]:
    """Its scores are totals divided by a power of the length, the end included; ours are weighed as everywhere."""
    for pieces, score in zip(result.hypotheses, result.scores, strict=True):
        ids = [int(piece) for piece in pieces]
        finished, length = ids[-1:] == [EOS], max(1, len(ids))
        total = score * length**penalty
        yield Hypothesis(ids[: len(ids) - finished], total * length_weight(length, alpha), total, [], finished)


# ---------------------------------------------------------------- the converted model


def converted(model: nn.Module, design: Design, precision: Precision) -> Path:
    """The model in CTranslate2's format, in the user's cache: what lies in a model folder may be a stranger's."""
    if (reason := unsupported(design)) is not None:
        raise Unavailable(reason)
    assert isinstance(design, EncoderDecoderDesign)
    try:
        import ctranslate2  # noqa: F401
    except ImportError as error:
        raise Unavailable(f"{error}; pip install 'headway-mt[ctranslate2]'") from None
    tensors = model.state_dict()
    place = user_cache() / f"ctranslate2-{precision}-{digest(design, tensors)}"
    try:
        return in_place(place, design, tensors, QUANTISATION[precision])
    except OSError as error:  # read only, or full
        raise Unavailable(f"the converted model cannot be kept in {place.parent}: {error.strerror}") from None
    except HeadwayError as error:
        raise Unavailable(str(error)) from None


def digest(design: Design, tensors: Mapping[str, Tensor]) -> str:
    """Changes with the design and with any weight."""
    found = hashlib.sha256(repr(design).encode())
    for name, tensor in sorted(tensors.items()):
        found.update(name.encode())
        found.update(tensor.detach().cpu().flatten().view(torch.uint8).numpy().data)
    return found.hexdigest()[:20]


def in_place(path: Path, design: EncoderDecoderDesign, tensors: Mapping[str, Tensor], bits: str | None) -> Path:
    """Written beside and renamed, so that no process ever reads half of it."""
    if path.is_dir():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    source, target = (
        [str(i) for i in range(len(tensors[f"{side}_embedding.weight"]))] for side in ("source", "target")
    )
    try:
        # Pieces by number: what they stand for does not matter here. Copies: quantising writes over what it is given.
        convert(design, {name: tensor.clone() for name, tensor in tensors.items()}, source, target, new, bits)
        if not path.is_dir():
            new.rename(path)
    except OSError:
        if not path.is_dir():  # else another process was faster
            raise
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return path


def open_translator(path: Path, precision: Precision, workers: int) -> Any:
    """One thread for each worker: more threads in one worker are slower for sentences."""
    import ctranslate2

    try:
        return ctranslate2.Translator(
            str(path), device="cpu", compute_type=COMPUTE[precision], inter_threads=workers, intra_threads=1
        )
    except (RuntimeError, ValueError) as error:
        raise Unavailable(f"it cannot open the converted model: {error}") from None
