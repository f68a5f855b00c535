"""Engines: how one is chosen, built and shared by threads; what it cannot do must be a reason, never an error."""

from __future__ import annotations

import ctypes
import gc
import os
import shutil
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

from compiled import require_kernel
from engine_models import DESIGNS, SEARCHES, SHORT, UNSUPPORTED, WORDS, assert_same, build_model, sources
from headway.data.padding import pad_rows
from headway.engines import Engine, Unavailable, choose, spread, translate_all
from headway.engines.ctranslate2.engine import CTranslate2Engine
from headway.engines.native import build
from headway.engines.native.engine import NativeEngine
from headway.engines.native.library import Kernel
from headway.engines.native.support import unsupported
from headway.engines.pytorch import TorchEngine
from headway.errors import UsageError
from headway.model.design import EncoderDecoderDesign, LanguageModelDesign
from headway.model.models import EncoderDecoder
from headway.search import Greedy, Hypothesis, Limits, Sample
from headway.search.logits_processors import ForcedPrefix
from headway.text.vocabulary import BOS, EOS, PAD


@pytest.fixture(scope="session", autouse=True)
def compiled() -> None:
    require_kernel()


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


def test_sampling_steps_through_the_kernel(paper: tuple[EncoderDecoderDesign, EncoderDecoder]) -> None:
    (design, model), search = paper, Sample(count=2, limits=SHORT)
    source = sources(3)
    found = NativeEngine(model, design, "fp32").translate(source, search)
    assert [[h.ids for h in each] for each in found] == [[h.ids for h in each] for each in search(model, source)]


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
    assert name in (unsupported(design) or "")
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
    with pytest.raises(UsageError, match="it computes in fp32, not in int8"):
        choose(model, design, "torch", "int8")
    with pytest.raises(UsageError, match="engine is 'fast'; choose one of auto, native"):
        choose(model, design, "fast")
    with pytest.raises(UsageError, match="precision is 'int4'; choose one of auto, fp32, bf16, int8"):
        choose(model, design, "native", "int4")


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a CUDA device")
def test_cuda_without_a_device_is_refused_by_name(paper: tuple[EncoderDecoderDesign, EncoderDecoder]) -> None:
    design, model = paper
    with pytest.raises(UsageError) as error:
        choose(model, design, "cuda")
    assert str(error.value) == (
        "engine cuda cannot be used: it needs an NVIDIA GPU, and PyTorch can use no CUDA device on this machine; "
        "leave the choice to auto"
    )


def test_a_model_on_another_device_says_which_is_needed(
    paper: tuple[EncoderDecoderDesign, EncoderDecoder], monkeypatch: pytest.MonkeyPatch
) -> None:
    design, model = paper
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(UsageError, match="cuda cannot be used: it runs on cuda, and the model is on cpu"):
        choose(model, design, "cuda")
    with pytest.raises(UsageError, match="native cannot be used: it runs on cpu, and the model is on meta"):
        choose(model.to("meta"), design, "native")


def test_every_engine_knows_its_precisions(paper: tuple[EncoderDecoderDesign, EncoderDecoder]) -> None:
    design, model = paper
    with pytest.raises(UsageError, match="it computes in fp32 or int8, not in bf16"):
        choose(model, design, "native", "bf16")
    with pytest.raises(UsageError, match="no engine can be used: native cannot be used: .*; torch cannot be used"):
        choose(model, design, "auto", "bf16")


def test_a_notice_names_the_engine_only_where_there_is_something_to_say(
    paper: tuple[EncoderDecoderDesign, EncoderDecoder],
) -> None:
    design, model = paper
    assert choose(model, design).notice() is None
    assert choose(model, design, "torch").notice("torch") == "engine torch (fp32): it was asked for"
    other = UNSUPPORTED["batch norm"]
    notice = choose(other.build(WORDS), other).notice() or ""
    assert "native cannot be used: the kernel has no batch norm" in notice and "\n" not in notice


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
    assert chosen.engine.name == "torch" and "headway-mt[ctranslate2]" in chosen.reason


@pytest.mark.parametrize(
    ("source", "reason"), [("int headway_check(int, int) { return 9; }", "does not compute"), ("int x =", "error")]
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
    with pytest.raises(pytest.fail.Exception, match=reason):  # the tests are not skipped: a compiler was found
        require_kernel()


def test_a_wrong_zero_point_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forgotten: None) -> None:
    """Weights that are shifted by 127 where 128 is subtracted differ too little for a bound on random numbers."""
    shutil.copytree(build.KERNEL, tmp_path / "kernel")
    source = tmp_path / "kernel" / "linear.h"
    text = source.read_text()
    assert text.count("/ l.scale[i]) + 128)") == 1
    source.write_text(text.replace("/ l.scale[i]) + 128)", "/ l.scale[i]) + 127)"))
    monkeypatch.setattr(build, "KERNEL", tmp_path / "kernel")
    monkeypatch.setattr(build, "FLAGS", tuple("-O0" if flag == "-O3" else flag for flag in build.FLAGS))
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    with pytest.raises(Unavailable, match="does not compute"):
        build.library()


@pytest.mark.parametrize(("rows", "outputs", "inputs"), [(1, 1, 16), (7, 70, 64), (13, 33, 256)])
def test_an_int8_product_of_whole_numbers_is_exact(rows: int, outputs: int, inputs: int) -> None:
    """With a 127 in every row all scales are 1, so nothing is rounded and numpy's integers are the answer."""
    dice = np.random.default_rng(0)
    weights, x = (dice.integers(-127, 128, (n, inputs)) for n in (outputs, rows))
    weights[:, 0], x[:, -1] = 127, -127
    bias = dice.integers(-1000, 1000, outputs)
    found = np.empty((rows, outputs), np.float32)
    arrays = [np.ascontiguousarray(each, np.float32) for each in (weights, bias, x)]
    pointers = [each.ctypes.data for each in (*arrays, found)]
    Kernel(build.library()).check("multiply", *pointers, outputs, inputs, rows, 1)
    np.testing.assert_array_equal(found, x @ weights.T + bias)


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

TOY = 'extern "C" int headway_check(int, int) { return 0; }'
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
    assert build.library().headway_check(0, 0) == 0  # made elsewhere, for this process
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


def test_a_converted_model_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ctranslate2")
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    design = EncoderDecoderDesign(width=32, heads=2, encoder_layers=2, decoder_layers=2)
    model = build_model(design)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    CTranslate2Engine(model, design, "fp32")
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


def test_sources_that_it_would_cut_go_to_the_model() -> None:
    pytest.importorskip("ctranslate2")
    design = EncoderDecoderDesign(width=16, heads=1, encoder_layers=1, decoder_layers=1)
    model = build_model(design)
    engine = CTranslate2Engine(model, design, "fp32", workers=1)
    limits = Limits(ratio=0.0, extra=2)
    for source in (sources(2, 1100), sources(2, 5).masked_fill(sources(2, 5) == EOS, 7)):  # too long; without an end
        assert_same(engine.translate(source, Greedy(limits=limits)), Greedy(limits=limits)(model, source))


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
    first = translate_all(
        engine, sentences, SEARCHES[0], lambda places: [ForcedPrefix([[10 + i] for i in places])], rows=4
    )
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
