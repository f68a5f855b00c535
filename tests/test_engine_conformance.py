"""One rule of decoding: every engine gives the hypotheses that `headway.search` gives in plain PyTorch.

The cases are made from the fields of `Beam` and `Limits`: one value of one field at a time, and random combinations.
With a CUDA device the CUDA engine runs there; without one its graphs are played by plain functions on the CPU.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from captured import play_without_graphs
from compiled import require_kernel
from engine_models import DESIGNS, SEARCHES, WORDS, assert_same, build_model, sources
from headway.data.padding import pad_rows
from headway.engines import Engine
from headway.engines.ctranslate2 import engine as ctranslate2
from headway.engines.cuda import engine as cuda
from headway.engines.native import support as native
from headway.engines.native.engine import NativeEngine
from headway.engines.pytorch import TorchEngine
from headway.model.design import EncoderDecoderDesign
from headway.model.models import EncoderDecoder
from headway.search import Beam, Greedy, Hypothesis, Limits, score_texts
from headway.search.logits_processors import BannedPhrases, ForcedPrefix, NoRepeatNgram, SuppressTokens
from headway.text.vocabulary import BOS, EOS, PAD, UNK

Search = Greedy | Beam
SHORT = Limits(ratio=1.0, extra=5, longest=12)
BASE = Beam(size=4, alpha=0.6, limits=SHORT)

# ---------------------------------------------------------------- the engines


def open_native(design: EncoderDecoderDesign, model: EncoderDecoder) -> Engine:
    require_kernel()
    return NativeEngine(model, design, "fp32", workers=1)


def open_cuda(design: EncoderDecoderDesign, model: EncoderDecoder) -> Engine:
    model = copy.deepcopy(model)
    return cuda.CudaEngine(model.cuda() if torch.cuda.is_available() else model, design, "fp32")


def open_ctranslate2(design: EncoderDecoderDesign, model: EncoderDecoder) -> Engine:
    pytest.importorskip("ctranslate2")
    return ctranslate2.CTranslate2Engine(model, design, "fp32", workers=1)


class Kind(NamedTuple):
    unsupported: Callable[..., str | None]
    open: Callable[[EncoderDecoderDesign, EncoderDecoder], Engine]


ENGINES: dict[str, Kind] = {
    "torch": Kind(lambda *_: None, lambda _, model: TorchEngine(model)),
    "native": Kind(native.unsupported, open_native),
    "cuda": Kind(cuda.unsupported, open_cuda),
    "ctranslate2": Kind(ctranslate2.unsupported, open_ctranslate2),
}

# What an engine decides by rules of its own (docs/engines.md). Such cases are compared with weaker properties.
OWN_RULES: dict[str, dict[str, str]] = {
    "ctranslate2": {
        "stopping": "a beam stops when patience times size outputs have ended, also where no patience is set",
        "caps": "the longest cap of a batch holds for all its sentences",
        "token scores": "hypotheses have no scores of single pieces",
    }
}


@pytest.fixture(autouse=True)
def graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    if not torch.cuda.is_available():
        play_without_graphs(monkeypatch)


# ---------------------------------------------------------------- the cases, made from `Beam`


@dataclass(frozen=True)
class Case:
    search: Search
    lengths: tuple[int, ...] = (1, 11, 5, 7, 3)
    processors: Callable[[int], Sequence[Any]] = lambda _: ()

    @property
    def rules(self) -> set[str]:
        """What engines may decide by rules of their own here."""
        caps = self.search.limits.caps(batch(self.lengths))
        stopping = isinstance(self.search, Beam) and self.search.size > 1
        return ({"stopping"} if stopping else set()) | ({"caps"} if len(set(caps.tolist())) > 1 else set())


VALUES: dict[str, tuple[Any, ...]] = {
    "size": (1, 2, 5, 8, 70),
    "alpha": (0.0, 1.0, 2.0),
    "n_best": (2, 4),
    "patience": (0.25, 1.0, 3.0),
    "limits": tuple(
        replace(SHORT, **{name: value})
        for name, values in {
            "ratio": (0.0, 2.5), "extra": (0, 1), "longest": (1, 6), "shortest": (4,), "shortest_ratio": (0.8,),
        }.items()
        for value in values
    ),
}  # fmt: skip


def cases() -> dict[str, Case]:
    found = {
        "beam": Case(BASE),
        "greedy": Case(Greedy(limits=SHORT)),
        "greedy, equal caps": Case(Greedy(limits=Limits(ratio=0.0, extra=9))),
    }
    for name, values in VALUES.items():
        for value in values:
            short = (
                " ".join(f"{k}={v}" for k, v in vars(value).items() if v != getattr(SHORT, k, v))
                if isinstance(value, Limits)
                else value
            )
            found[f"{name} {short}"] = Case(replace(BASE, **{name: value}))
    dice = random.Random(0)
    for number in range(10):
        size = dice.randint(1, 9)
        chosen = {name: dice.choice(values) for name, values in VALUES.items() if name not in ("size", "n_best")}
        found[f"random {number}"] = Case(Beam(size=size, n_best=dice.randint(1, size), **chosen))
    return found | {
        "one sentence": Case(BASE, (6,)),
        "many sentences": Case(replace(BASE, n_best=2), tuple(range(1, 20))),
        "very different lengths": Case(replace(BASE, limits=Limits(ratio=0.5, extra=2)), (1, 40, 2)),
        "no sentence": Case(BASE, ()),
        "no sentence, greedy": Case(Greedy(), ()),
        "prefix": Case(BASE, processors=lambda n: [ForcedPrefix([[10 + i] * (i % 3) for i in range(n)])]),
        "prefix, greedy": Case(Greedy(limits=SHORT), processors=lambda n: [ForcedPrefix([[10, 11]] * n)]),
        "bans": Case(BASE, processors=lambda _: [
            NoRepeatNgram(1), BannedPhrases([[20, 21], [22]]), SuppressTokens(range(30, 50)),
        ]),
    }  # fmt: skip


CASES = cases()
DESIGN = DESIGNS["paper"]


def batch(lengths: Sequence[int]) -> Tensor:
    if not lengths:
        return torch.zeros(0, 4, dtype=torch.long)
    dice = torch.Generator().manual_seed(len(lengths))
    rows = [[*torch.randint(4, WORDS - 12, (length,), generator=dice).tolist(), EOS] for length in lengths]
    return pad_rows(rows, "cpu")


def model_of(design: EncoderDecoderDesign, words: int | None = None) -> EncoderDecoder:
    """Special pieces have no probability, so that it makes no difference whether they are forbidden before or after."""
    torch.manual_seed(0)
    model = build_model(design, words)
    if model.head.bias is not None:
        with torch.no_grad():
            model.head.bias[[PAD, UNK, BOS]] = -1e4
    return model


@cache
def opened(name: str) -> tuple[EncoderDecoder, Engine]:
    model = model_of(DESIGN)
    return model, ENGINES[name].open(DESIGN, model)


def test_every_field_has_cases() -> None:
    limits = [case.search.limits for case in CASES.values()]
    assert {field.name for field in fields(Beam)} - {"kind"} == VALUES.keys()
    for field in fields(Limits):
        assert len({getattr(one, field.name) for one in limits}) > 1, field.name


# ---------------------------------------------------------------- the rule


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_finds_what_the_search_finds(name: str, case: Case) -> None:
    model, engine = opened(name)
    source, processors = batch(case.lengths), case.processors(len(case.lengths))
    found = engine.translate(source, case.search, processors)
    in_pytorch = ENGINES[name].unsupported(DESIGN, case.search, processors) is not None
    own = set() if in_pytorch else OWN_RULES.get(name, {}).keys()
    if not own:
        assert_same(found, case.search(model, source, processors))
    elif not case.rules & own:
        assert_same(without_token_scores(found), without_token_scores(case.search(model, source)))
    else:
        assert_plausible(found, model, source, case.search)


def without_token_scores(found: list[list[Hypothesis]]) -> list[list[Hypothesis]]:
    return [[one._replace(token_scores=[]) for one in outputs] for outputs in found]


def assert_plausible(found: list[list[Hypothesis]], model: EncoderDecoder, source: Tensor, search: Search) -> None:
    """As many as were asked for, different, the totals the model's own, and no longer than the longest cap."""
    assert len(found) == len(source)
    cap = max(search.limits.caps(source).tolist(), default=0)
    for row, outputs in zip(source, found, strict=True):
        assert len(outputs) == (search.n_best if isinstance(search, Beam) else 1)
        assert len({tuple(one.ids) for one in outputs}) == len(outputs)
        for one in outputs:
            assert len(one.ids) + one.finished <= cap and min(one.ids, default=EOS + 1) > EOS
            if one.finished:
                (forced,) = score_texts(model, row[None], [one.ids], search.alpha)
                assert [one.total, one.score] == pytest.approx([forced.total, forced.score], abs=1e-3)


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("name", ENGINES)
def test_engines_agree_on_every_design_that_they_run(name: str, design: str) -> None:
    """Greedy search with one cap, and for engines without rules of their own every kind of search."""
    kind, chosen = ENGINES[name], DESIGNS[design]
    if reason := kind.unsupported(chosen):
        pytest.skip(reason)
    if name == "ctranslate2" and not chosen.output_bias:
        pytest.skip("special pieces have a probability here, which CTranslate2 takes away before the softmax")
    model = model_of(chosen)
    engine, source = kind.open(chosen, model), sources()
    if name in OWN_RULES:
        search = Greedy(limits=Limits(ratio=0.0, extra=9))
        assert_same(*(without_token_scores(one) for one in (engine.translate(source, search), search(model, source))))
        return
    for search in SEARCHES:
        assert_same(engine.translate(source, search), search(model, source))


# ---------------------------------------------------------------- small vocabularies, ties and special pieces

SMALL = replace(DESIGN, tie_embeddings="none")


@pytest.mark.parametrize(("size", "n_best"), [(3, 3), (6, 6), (12, 5)])
@pytest.mark.parametrize("name", ["torch", "native", "cuda"])
def test_a_vocabulary_smaller_than_the_beam(name: str, size: int, n_best: int) -> None:
    """Four pieces besides the special ones."""
    model = model_of(SMALL, 8)
    search = Beam(size=size, n_best=n_best, limits=Limits(ratio=0.0, extra=3))
    source = batch((3, 1, 6)).clamp(max=7)
    assert_same(ENGINES[name].open(SMALL, model).translate(source, search), search(model, source))


@pytest.mark.parametrize("search", [Greedy(limits=SHORT), *(replace(BASE, size=n, n_best=n) for n in (2, 3, 5))])
@pytest.mark.parametrize("name", ["torch", "native", "cuda"])
def test_ties_may_fall_either_way_and_change_nothing_else(name: str, search: Search) -> None:
    """Pieces 20 and 21, 22 and 23, ... are twins in every weight: one stands for the other, and no output is lost."""
    model = model_of(SMALL)
    with torch.no_grad():
        assert model.head.bias is not None
        model.head.bias[EOS] -= 3.0  # some outputs should be long enough to hold twins
        for table in (model.head.weight, model.head.bias, model.target_embedding.weight):
            table[21::2] = table[20:-1:2]
    found = ENGINES[name].open(SMALL, model).translate(batch((3, 9, 1)), search)
    expected = search(model, batch((3, 9, 1)))
    for outputs in found:
        assert len({tuple(one.ids) for one in outputs}) == len(outputs)
    assert_same([list(map(first_twin, each)) for each in found], [list(map(first_twin, each)) for each in expected])
    assert len({one.score for one in found[1]}) < len(found[1]) or len(found[1]) == 1  # there were ties


def first_twin(one: Hypothesis) -> Hypothesis:
    return one._replace(ids=[piece & ~1 if piece >= 20 else piece for piece in one.ids])


@pytest.mark.parametrize("name", ENGINES)
def test_special_pieces_never_come_out(name: str) -> None:
    model = model_of(DESIGN)
    with torch.no_grad():
        assert model.head.bias is not None
        model.head.bias[[PAD, UNK, BOS]] = 50.0
    source = batch((4, 6))
    for search in (Greedy(limits=SHORT), BASE):
        found = ENGINES[name].open(DESIGN, model).translate(source, search)
        assert all(piece > EOS for outputs in found for one in outputs for piece in one.ids)
