"""Every engine must say what the model says; what an engine cannot do must be a reason, never an error."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from headway.data.padding import pad_rows
from headway.engines import Engine, Unavailable, choose, spread, translate_all
from headway.engines.ctranslate2.engine import CTranslate2Engine
from headway.engines.native import build
from headway.engines.native.engine import NativeEngine
from headway.engines.native.weights import objection
from headway.engines.pytorch import TorchEngine
from headway.errors import UsageError
from headway.model.design import EncoderDecoderDesign, LanguageModelDesign
from headway.model.feed_forward import Gelu, Relu, Swiglu, Swish
from headway.model.kernels import Fused, Linear, Linformer, Softmax
from headway.model.kernels.scores import Additive, Cosine, Dot
from headway.model.models import EncoderDecoder
from headway.model.norms import BatchNorm, RMSNorm
from headway.model.positions import Alibi, Bucketed, Learned, NoPositions, Rotary, Tener, TransformerXL
from headway.model.residuals import DeepNorm, Pre, ReZero, Sandwich
from headway.search import Beam, Greedy, Hypothesis, Limits, Sample
from headway.search.logits_processors import Never, Prefix
from headway.text.vocabulary import BOS, EOS, PAD

WORDS = 83
SHORT = Limits(ratio=1.0, extra=5, longest=12)
SEARCHES = [
    Greedy(limits=SHORT),
    Beam(size=4, n_best=3, alpha=0.8, limits=SHORT),
    Beam(size=3, patience=1.0, limits=SHORT),
]

DESIGNS: dict[str, EncoderDecoderDesign] = {
    "paper": EncoderDecoderDesign(width=32, heads=2, encoder_layers=2, decoder_layers=2, output_bias=True),
    "odd sizes": EncoderDecoderDesign(
        width=30, heads=3, feed_forward=Relu(width=70), encoder_layers=1, decoder_layers=3, tie_embeddings="none",
        output_bias=True,
    ),
    "modern": EncoderDecoderDesign(
        width=48, heads=6, key_heads=2, feed_forward=Swiglu(), positions=Rotary(), norm=RMSNorm(), residual=Pre(),
        bias=False, encoder_layers=2, decoder_layers=1, scale_embedding=False, output_bias=True,
    ),
    "learned": EncoderDecoderDesign(
        width=64, heads=4, feed_forward=Gelu(), positions=Learned(), residual=Pre(), encoder_layers=3, decoder_layers=2,
        tie_embeddings="output", longest=40,
    ),
    "deep": EncoderDecoderDesign(
        width=32, heads=2, feed_forward=Swish(), positions=Alibi(), residual=DeepNorm(), encoder_layers=3,
        decoder_layers=2, attended_layers="each",
    ),
    "rezero": EncoderDecoderDesign(
        width=32, heads=2, head_width=20, feed_forward=Gelu(tanh=True), positions=Bucketed(), residual=ReZero(),
        encoder_layers=2, decoder_layers=3, attended_layers=(1, 0, 1), output_bias=True,
    ),
    "no positions": EncoderDecoderDesign(
        width=16, heads=1, positions=NoPositions(), attention=Softmax(score=Dot()), encoder_layers=1, decoder_layers=1,
        encoder_attention=Fused(scaled=False),
    ),
}  # fmt: skip

UNSUPPORTED = {
    "sandwich residual": EncoderDecoderDesign(width=16, heads=2, residual=Sandwich()),
    "batch norm": EncoderDecoderDesign(width=16, heads=2, norm=BatchNorm()),
    "transformer_xl positions": EncoderDecoderDesign(width=16, heads=2, positions=TransformerXL()),
    "tener positions": EncoderDecoderDesign(
        width=16, heads=2, positions=Tener(), attention=Fused(scaled=False)
    ),
    "linear attention": EncoderDecoderDesign(width=16, heads=2, attention=Linear()),
    "linformer attention": EncoderDecoderDesign(width=16, heads=2, encoder_attention=Linformer()),
    "softmax attention": EncoderDecoderDesign(width=16, heads=2, cross_attention=Softmax(score=Additive())),
    "softmax attention of this kind": EncoderDecoderDesign(width=16, heads=2, attention=Softmax(score=Cosine())),
}  # fmt: skip


def shaken(model: nn.Module) -> None:
    """Nothing is left at a value that would hide a fault, such as a gain of one."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * parameter.abs().mean().clamp(min=0.5) * torch.randn_like(parameter)
    model.eval()


def build_model(design: EncoderDecoderDesign) -> EncoderDecoder:
    """Some outputs end, and some do not."""
    model = design.build(WORDS, WORDS if design.tie_embeddings == "all" else WORDS - 12)
    shaken(model)
    if model.head.bias is not None:
        with torch.no_grad():
            model.head.bias[EOS] = 2 * model.head.weight.std() * design.width**0.5
    return model


def sources(count: int = 7, longest: int = 11) -> Tensor:
    """Ragged sentences of pieces that every vocabulary here has."""
    lengths = [1, longest, *torch.randint(1, longest, (count - 2,)).tolist()]
    return pad_rows([[*torch.randint(4, WORDS - 12, (length,)).tolist(), EOS] for length in lengths], "cpu")


@pytest.fixture(scope="session", autouse=True)
def compiled() -> None:
    try:
        build.library()
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(params=DESIGNS)
def pair(request: pytest.FixtureRequest) -> tuple[EncoderDecoder, NativeEngine]:
    design = DESIGNS[request.param]
    model = build_model(design)
    return model, NativeEngine(model, design, "fp32")


@pytest.fixture
def paper() -> tuple[EncoderDecoderDesign, EncoderDecoder]:
    return DESIGNS["paper"], build_model(DESIGNS["paper"])


# ---------------------------------------------------------------- the same numbers


def walk(model: Any, source: Tensor, moves: list[tuple[str, Any]], pieces: list[Tensor]) -> list[Tensor]:
    """Step, then move rows about, then step again."""
    rows, found = model.start(source), []
    last = torch.full((len(source),), BOS)
    for (move, arguments), piece in zip(moves, pieces, strict=True):
        found.append(model.step(last, rows).clone())
        getattr(rows, move)(*arguments)
        last = piece
    return [*found, model.step(last, rows)]


@torch.inference_mode()
def test_steps_equal_the_model(pair: tuple[EncoderDecoder, NativeEngine]) -> None:
    model, engine = pair
    source = sources(5)
    moves = [
        ("reorder", (torch.arange(5).repeat_interleave(3),)),  # a beam of three
        ("reorder", (torch.tensor([2, 2, 0, 3, 5, 4, 7, 7, 7, 9, 10, 11, 14, 12, 12]),)),
        ("keep", (torch.tensor([0, 2, 3]), 3)),
        ("select", (torch.tensor([8, 0, 4]),)),
    ]
    counts = (15, 15, 9, 3)
    pieces = [torch.randint(4, WORDS - 12, (count,)) for count in counts]
    for ours, theirs in zip(*(walk(m, source, moves, pieces) for m in (model, engine)), strict=True):
        torch.testing.assert_close(theirs, ours, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("search", SEARCHES, ids=lambda s: s.kind)
def test_searches_equal_the_model(pair: tuple[EncoderDecoder, NativeEngine], search: Greedy | Beam) -> None:
    """In the kernel, and in Python over the kernel's steps."""
    model, engine = pair
    source = sources()
    expected = search(model, source)
    assert_same(engine.translate(source, search), expected)
    assert_same(search(engine, source), expected)


def assert_same(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    assert [[h.ids for h in outputs] for outputs in found] == [[h.ids for h in outputs] for outputs in expected]
    for ours, theirs in zip(sum(found, []), sum(expected, []), strict=True):
        assert ours.finished == theirs.finished
        assert [ours.total, ours.score] == pytest.approx([theirs.total, theirs.score], rel=1e-4, abs=1e-4)
        assert ours.token_scores == pytest.approx(theirs.token_scores, rel=1e-4, abs=1e-4)


def test_outputs_end_and_are_cut(paper: tuple[EncoderDecoderDesign, EncoderDecoder]) -> None:
    """The comparison above must have met both; caps are each sentence's own."""
    design, model = paper
    source = sources(64)
    for search in SEARCHES[:2]:
        outputs = NativeEngine(model, design, "fp32").translate(source, search)
        assert {h.finished for each in outputs for h in each} == {True, False}
        for each, cap in zip(outputs, SHORT.caps(source).tolist(), strict=True):
            assert all(len(h.ids) + h.finished <= cap for h in each)
            assert all(len(h.token_scores) == len(h.ids) + h.finished for h in each)


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_a_batch_equals_its_sentences_alone(paper: tuple[EncoderDecoderDesign, EncoderDecoder], precision: Any) -> None:
    """To the last bit: no row sees its neighbours."""
    design, model = paper
    engine, source = NativeEngine(model, design, precision), sources(9)
    for search in SEARCHES:
        alone = [engine.translate(row[row != PAD][None], search)[0] for row in source]
        assert engine.translate(source, search) == alone


def test_int8_is_close() -> None:
    design = EncoderDecoderDesign(width=128, heads=4, encoder_layers=2, decoder_layers=2, output_bias=True)
    model = design.build(500).eval()
    with torch.no_grad():
        model.head.bias[EOS] = -100  # outputs of one length, to compare piece by piece
    exact, rough = (NativeEngine(model, design, precision) for precision in ("fp32", "int8"))
    source = sources(32)
    steps = [engine.step(torch.full((32,), BOS), engine.start(source)) for engine in (exact, rough)]
    assert torch.cosine_similarity(*steps).min() > 0.995
    outputs = [[h[0].ids for h in engine.translate(source, SEARCHES[0])] for engine in (exact, rough)]
    same = [a == b for ours, theirs in zip(*outputs, strict=True) for a, b in zip(ours, theirs, strict=True)]
    assert np.mean(same) > 0.8


def test_weights_that_are_not_finite_do_no_harm(paper: tuple[EncoderDecoderDesign, EncoderDecoder]) -> None:
    design, model = paper
    for value in (float("nan"), float("inf")):
        with torch.no_grad():
            model.decoder.layers[0].feed_forward.up.weight[3] = value  # pyright: ignore
        for precision in ("fp32", "int8"):
            outputs = NativeEngine(model, design, precision).translate(sources(), SEARCHES[1])
            assert all(0 <= i < WORDS for each in outputs for h in each for i in h.ids)


# ---------------------------------------------------------------- what the kernel leaves to others


def test_shapes_and_other_searches_step_through_the_kernel(paper: tuple[EncoderDecoderDesign, EncoderDecoder]) -> None:
    design, model = paper
    engine, source = NativeEngine(model, design, "fp32"), sources(3)
    assert_same(engine.translate(source, SEARCHES[1], [Never([7, 9])]), SEARCHES[1](model, source, [Never([7, 9])]))
    outputs = engine.translate(source, SEARCHES[0], [Prefix([[10, 11], [12], []])])
    assert [h[0].ids[:2] == [10, 11] for h in outputs][0] and outputs[1][0].ids[0] == 12
    for search in (Sample(count=2, limits=SHORT), Beam(size=70, limits=SHORT), Greedy(limits=Limits(shortest=4))):
        assert [[h.ids for h in each] for each in engine.translate(source, search)] == [
            [h.ids for h in each] for each in search(model, source)
        ]


def test_what_is_too_long_for_the_tables_goes_to_the_model() -> None:
    design = DESIGNS["paper"]
    model = build_model(design)
    engine = NativeEngine(model, design, "fp32")
    engine.longest = 6
    assert_same(engine.translate(sources(4), SEARCHES[1]), SEARCHES[1](model, sources_again(4)))


def sources_again(count: int) -> Tensor:
    torch.manual_seed(0)
    build_model(DESIGNS["paper"])
    return sources(count)


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_designs_it_cannot_express_run_otherwise(name: str) -> None:
    design = UNSUPPORTED[name]
    assert name in (objection(design) or "")
    chosen = choose(design.build(WORDS), design)
    assert chosen.engine.name in ("ctranslate2", "torch")
    assert name.split()[0] in chosen.reason
    assert len(chosen.engine.translate(sources(3), SEARCHES[0])) == 3
    with pytest.raises(UsageError, match=r"engine native cannot be used: .*; leave the choice to auto"):
        choose(design.build(WORDS), design, "native")


def test_a_language_model_runs_in_torch() -> None:
    design = LanguageModelDesign(width=16, heads=2, layers=1)
    chosen = choose(design.build(WORDS), design)
    assert chosen.engine.name == "torch" and "encoder-decoder" in chosen.reason


def test_weights_it_does_not_know_are_not_ignored(paper: tuple[EncoderDecoderDesign, EncoderDecoder]) -> None:
    design, model = paper
    model.register_parameter("extra", nn.Parameter(torch.zeros(3)))
    with pytest.raises(Unavailable, match="extra"):
        NativeEngine(model, design, "fp32")


def test_wrong_numbers_are_refused(paper: tuple[EncoderDecoderDesign, EncoderDecoder]) -> None:
    design, model = paper
    engine = NativeEngine(model, design, "fp32")
    with pytest.raises(UsageError, match="outside the model's range"):
        engine.translate(torch.tensor([[WORDS, EOS]]), SEARCHES[0])
    with pytest.raises(UsageError, match="outside the model's range"):
        engine.translate(torch.tensor([[-4, EOS]]), SEARCHES[0])
    with pytest.raises(UsageError, match="outside the model's range"):
        engine.translate(torch.tensor([[PAD, PAD]]), SEARCHES[0])
    rows = engine.start(sources(3))
    with pytest.raises(UsageError, match="outside the model's range"):
        rows.select(torch.tensor([0, 3]))
    with pytest.raises(ValueError, match="last pieces"):
        engine.step(torch.tensor([5, 5]), rows)
    with pytest.raises(UsageError, match="outside the model's range"):
        for _ in range(engine.longest + 1):
            engine.step(torch.tensor([5, 5, 5]), rows)
    assert engine.translate(sources(0 + 3), SEARCHES[0])  # and goes on working
    assert engine.translate(torch.zeros(0, 4, dtype=torch.long), SEARCHES[0]) == []


# ---------------------------------------------------------------- choosing


def test_the_kernel_is_chosen_on_a_processor(paper: tuple[EncoderDecoderDesign, EncoderDecoder]) -> None:
    design, model = paper
    chosen = choose(model, design)
    assert (chosen.engine.name, chosen.engine.precision) == ("native", "int8")
    assert isinstance(chosen.engine, Engine) and isinstance(TorchEngine(model), Engine)
    assert choose(model, design, precision="fp32").engine.precision == "fp32"
    assert choose(model, design, "torch").engine.name == "torch"
    with pytest.raises(UsageError, match="fp32 only"):
        choose(model, design, "torch", "int8")
    with pytest.raises(UsageError, match="engine is 'fast'; choose one of auto, native"):
        choose(model, design, "fast")
    with pytest.raises(UsageError, match="precision is 'int4'; choose one of auto, fp32, int8"):
        choose(model, design, "native", "int4")


@pytest.fixture
def forgotten() -> Iterator[None]:
    """What a process finds out once, it finds out again."""
    build.outcome.cache_clear()
    yield
    build.outcome.cache_clear()


def test_without_a_compiler(
    paper: tuple[EncoderDecoderDesign, EncoderDecoder], monkeypatch: pytest.MonkeyPatch, forgotten: None
) -> None:
    design, model = paper
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    chosen = choose(model, design)
    assert chosen.engine.name in ("ctranslate2", "torch")
    assert "no C++ compiler" in chosen.reason
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    chosen = choose(model, design)
    assert chosen.engine.name == "torch" and "headway[ctranslate2]" in chosen.reason


@pytest.mark.parametrize(
    ("source", "reason"), [("int headway_check(int) { return 999999; }", "does not compute"), ("int x =", "error")]
)
def test_a_kernel_that_fails_is_not_used(
    source: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forgotten: None
) -> None:
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel" / "native.cpp").write_text(f'extern "C" {{ {source} }}')
    monkeypatch.setattr(build, "KERNEL", tmp_path / "kernel")
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    for _ in range(2):
        with pytest.raises(Unavailable, match=reason):
            build.library()
    assert not list((tmp_path / "cache").rglob("*.so"))


def test_old_processors_are_told_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, forgotten: None) -> None:
    compiler = build.find_compiler()
    before = build.fingerprint(compiler)
    info = tmp_path / "cpuinfo"
    info.write_text("processor\t: 0\nflags\t\t: fpu avx avx2 fma\n")
    monkeypatch.setattr(build, "CPU_INFO", info)
    assert build.fingerprint(compiler) != before
    info.write_text("processor\t: 0\nflags\t\t: fpu sse2 fma\n")
    with pytest.raises(Unavailable, match="no avx2"):
        build.library()


# ---------------------------------------------------------------- building

TOY = 'extern "C" int headway_check(int) { return 0; }'
BUILD = """
import sys, pathlib, headway.engines.native.build as build
build.KERNEL = pathlib.Path(sys.argv[1])
print(build.library()._name)
"""


def test_processes_that_build_at_once_share_one_build(tmp_path: Path) -> None:
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel" / "native.cpp").write_text(TOY)
    environment = os.environ | {"HEADWAY_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-c", BUILD, str(tmp_path / "kernel")]
    running = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    names = {process.communicate(timeout=120)[0].strip() for process in running}
    assert [process.returncode for process in running] == [0, 0]
    assert names == {str(path) for path in (tmp_path / "cache" / "kernels").glob("*.so*") if path.suffix != ".lock"}


def test_a_damaged_build_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forgotten: None) -> None:
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel" / "native.cpp").write_text(TOY)
    monkeypatch.setattr(build, "KERNEL", tmp_path / "kernel")
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    folder = next(build.folders())
    path = folder / f"native-{build.fingerprint(build.find_compiler())}.so"
    path.write_bytes(b"not a library")
    assert build.library().headway_check(0) == 0  # made elsewhere, for this process
    assert not path.exists()
    build.outcome.cache_clear()
    assert build.library()._name == str(path)


def test_a_cache_that_others_may_write_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path))
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels").chmod(0o777)
    assert tmp_path not in next(build.folders()).parents
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "file" / "x"))
    (tmp_path / "file").write_text("")
    assert next(build.folders()).is_dir()


# ---------------------------------------------------------------- CTranslate2


def test_ctranslate2_says_the_same_and_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ctranslate2")
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    design = EncoderDecoderDesign(width=32, heads=2, encoder_layers=2, decoder_layers=2)
    model = build_model(design)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    engine = CTranslate2Engine(model, design, "fp32")
    source, search = sources(12, 10), Greedy(limits=Limits(ratio=0.0, extra=12))
    expected = search(model, source)
    found = engine.translate(source, search)
    assert [h[0].ids for h in found] == [h[0].ids for h in expected]
    assert [h[0].finished for h in found] == [h[0].finished for h in expected]
    assert found[0][0].total == pytest.approx(expected[0][0].total, rel=0.2)
    assert len(engine.translate(source, Beam(size=4, n_best=2))[0]) == 2
    assert_same(engine.translate(source, search, [Never([5])]), search(model, source, [Never([5])]))
    (made,) = (tmp_path / "cache").iterdir()
    written = made.stat().st_mtime_ns
    time.sleep(0.01)
    CTranslate2Engine(model, design, "fp32")
    assert made.stat().st_mtime_ns == written
    CTranslate2Engine(model, design, "int8")
    assert {path.name.split("-")[1] for path in (tmp_path / "cache").iterdir()} == {"fp32", "int8"}
    monkeypatch.setenv("HEADWAY_CACHE", "/proc/nothing/can/be/written/here")
    with pytest.raises(Unavailable, match="cannot be kept in /proc/nothing"):
        CTranslate2Engine(model, design, "fp32")
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


# ---------------------------------------------------------------- many sentences, many threads


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_spread_keeps_the_order_and_draws_as_needed(workers: int) -> None:
    drawn: list[int] = []

    def jobs() -> Iterator[int]:
        for job in range(40):
            drawn.append(job)
            yield job

    def act(job: int) -> int:
        time.sleep(0.002 * (job % 3))
        return -job

    results = spread(act, jobs(), workers)
    assert next(results) == 0
    assert len(drawn) <= 2 * workers + 1
    assert list(results) == [-job for job in range(1, 40)]


def test_spread_hands_errors_on() -> None:
    def act(job: int) -> int:
        return 1 // (3 - job)

    with pytest.raises(ZeroDivisionError):
        list(spread(act, range(1000), 2))


def test_a_job_equals_its_sentences(paper: tuple[EncoderDecoderDesign, EncoderDecoder]) -> None:
    design, model = paper
    engine = NativeEngine(model, design, "int8", workers=2)
    sentences = [row[row != PAD].tolist() for row in sources(50)]
    expected = [engine.translate(pad_rows([sentence], "cpu"), SEARCHES[1])[0] for sentence in sentences]
    assert translate_all(engine, sentences, SEARCHES[1], rows=4) == expected
    assert translate_all(engine, [], SEARCHES[1]) == []
    first = translate_all(engine, sentences, SEARCHES[0], lambda places: [Prefix([[10 + i] for i in places])], rows=4)
    assert [outputs[0].ids[0] for outputs in first] == [10 + i for i in range(50)]


def test_four_threads_share_a_model(paper: tuple[EncoderDecoderDesign, EncoderDecoder]) -> None:
    design, model = paper
    engine = NativeEngine(model, design, "int8", workers=4)
    batches = [sources(5) for _ in range(40)]
    expected = [engine.translate(batch, SEARCHES[1]) for batch in batches]
    barrier = threading.Barrier(4)

    def work(_: int) -> list[list[list[Hypothesis]]]:
        barrier.wait()
        return [engine.translate(batch, SEARCHES[1]) for batch in batches]

    with ThreadPoolExecutor(4) as pool:
        assert all(found == expected for found in pool.map(work, range(4)))


# ---------------------------------------------------------------- memory


def resident() -> int:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_memory_stays_flat(paper: tuple[EncoderDecoderDesign, EncoderDecoder]) -> None:
    """Over two thousand sentences, searches that are dropped half-way, and models that come and go."""
    design, model = paper
    engine = NativeEngine(model, design, "int8")
    batches = [sources(8) for _ in range(10)]

    def work() -> None:
        for batch in batches:
            engine.translate(batch, SEARCHES[1])
            engine.step(torch.full((8,), BOS), engine.start(batch))

    work()
    before = resident()
    for _ in range(25):
        work()
    for _ in range(100):
        NativeEngine(model, design, "fp32").translate(batches[0], SEARCHES[0])
    assert resident() - before < 8 << 20
    assert len(engine.free) <= engine.workers
