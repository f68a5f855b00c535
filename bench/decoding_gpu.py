"""Sentences a second on CUDA: transformer-base shapes, source of 32 pieces, 32 pieces forced out, beside Hugging Face.

python -m bench.decoding_gpu [--rows 1x1,1x4,64x1,64x4,256x4,1024x1] [--alone] [--ordinary]
python -m bench.decoding_gpu --profile 1x1,256x4   the kernels of one step
python -m bench.decoding_gpu --threads 1,4,16 --rows 1024x1,256x4   what the host's threads of OpenMP change: nothing
python -m bench.decoding_gpu --check               the lean step and the ordinary one say the same in fp32
python -m bench.decoding_gpu --model en-de --text test.en [--to de]    whole sentences, from text to text
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from headway import Translator, recipes
from headway.engines.cuda import captured_beam, fused_decoder
from headway.engines.cuda.captured_beam import CapturedBeam, leanest_writer, model_writer
from headway.model.models import EncoderDecoder
from headway.model.residuals import Pre
from headway.search import Beam, Limits
from headway.search.scoring import score_texts
from headway.text.vocabulary import EOS

VOCABULARY, LENGTH = 32_000, 32
LIMITS = Limits(ratio=0.0, extra=LENGTH)


def best_time(work: Callable[[], object], repeats: int) -> float:
    work()
    took = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        work()
        torch.cuda.synchronize()
        took.append(time.perf_counter() - begun)
    return sorted(took)[len(took) // 2]


def marian() -> torch.nn.Module:
    from transformers import MarianConfig, MarianMTModel

    layout = MarianConfig(
        vocab_size=VOCABULARY, d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8,
        decoder_attention_heads=8, encoder_ffn_dim=2048, decoder_ffn_dim=2048, pad_token_id=0, eos_token_id=3,
        decoder_start_token_id=2, scale_embedding=True, activation_function="relu", forced_eos_token_id=None,
    )  # fmt: skip
    return MarianMTModel(layout).cuda().bfloat16().eval()


def forced() -> EncoderDecoder:
    """No output ends by itself: every one has the forced length."""
    model = replace(recipes.base(), output_bias=True).build(VOCABULARY).cuda().bfloat16().eval()
    with torch.no_grad():
        assert model.head.bias is not None
        model.head.bias[EOS] = -1e4
    return model


def parse(row: str) -> tuple[int, int]:
    sentences, beam = map(int, row.split("x"))
    return sentences, beam


def compare(rows: list[str], alone: bool, ordinary: bool) -> None:
    model, peer = forced(), None if alone else marian()
    print("| sentences × beam | headway ms | sentences/s | Hugging Face ms | ratio | ms a step |")
    print("|---|---|---|---|---|---|")
    for sentences, beam in map(parse, rows):
        source = torch.randint(4, VOCABULARY, (sentences, LENGTH))
        ours = CapturedBeam(
            model, Beam(size=beam, limits=LIMITS), writer=model_writer if ordinary else leanest_writer
        )  # fmt: skip
        assert all(len(found[0].ids) == LENGTH for found in ours(source))
        mine = best_time(partial(ours, source), 5)
        theirs = float("nan") if peer is None else best_time(partial(generate, peer, source.cuda(), beam), 2)
        print(
            f"| {sentences} × {beam} | {mine * 1e3:.1f} | {sentences / mine:,.0f} | {theirs * 1e3:.0f} "
            f"| {theirs / mine:.1f} | {mine * 1e3 / LENGTH:.2f} |",
            flush=True,
        )
        del ours
        torch.cuda.empty_cache()


def by_threads(rows: list[str], counts: list[int]) -> None:
    """The same batches with different numbers of OpenMP threads on the host: the times should be the same."""
    model, before = forced(), torch.get_num_threads()
    print(f"| sentences × beam | {' | '.join(f'{count} threads, ms' for count in counts)} |")
    print(f"|{'---|' * (len(counts) + 1)}")
    for sentences, beam in map(parse, rows):
        source, times = torch.randint(4, VOCABULARY, (sentences, LENGTH)), []
        ours = CapturedBeam(model, Beam(size=beam, limits=LIMITS))
        for count in counts:
            torch.set_num_threads(count)
            times.append(best_time(partial(ours, source), 9))
        torch.set_num_threads(before)
        print(f"| {sentences} × {beam} | {' | '.join(f'{1e3 * time:.1f}' for time in times)} |", flush=True)


def generate(peer: Any, source: torch.Tensor, beam: int) -> object:
    return peer.generate(
        source, attention_mask=torch.ones_like(source), num_beams=beam, do_sample=False,
        min_new_tokens=LENGTH, max_new_tokens=LENGTH,
    )  # fmt: skip


@torch.inference_mode()
def profile(rows: list[str], shown: int = 15) -> None:
    """The kernels of the sixteenth step, the most expensive first, and where the time of a call goes."""
    os.environ |= {"TEARDOWN_CUPTI": "0", "DISABLE_CUPTI_LAZY_REINIT": "1"}  # else the next recording's replay fails
    model = forced()
    for sentences, beam in map(parse, rows):
        source = torch.randint(4, VOCABULARY, (sentences, LENGTH))
        ours = CapturedBeam(model, Beam(size=beam, limits=LIMITS))
        ours(source)
        recording = next(iter(ours.recordings.values()))
        assert recording.reading is not None and recording.writing is not None
        recording.begin(source)
        reading = best_time(recording.reading.replay, 1)
        recording.begin(source)
        recording.reading.replay()
        steps = best_time(recording.writing.replay, 13)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
            recording.writing.replay()
            torch.cuda.synchronize()
        kernels = [each for each in seen.key_averages() if each.device_time_total > 0]
        kernels.sort(key=lambda each: -each.device_time_total)
        count, total = sum(each.count for each in kernels), sum(each.device_time_total for each in kernels)
        back = best_time(lambda recording=recording: recording.result.hypotheses(len(recording.source)), 3)
        print(
            f"{sentences} × {beam}: {count} kernels a step, {total:.0f} µs inside them; {steps * 1e6:.0f} µs a step, "
            f"{reading * 1e6:.0f} µs to read the source, {back * 1e6:.0f} µs to make lists"
        )
        for each in kernels[:shown]:
            print(f"  {each.device_time_total:7.1f} µs  {each.count:3d} times  {each.key[:90]}")


@torch.inference_mode()
def check() -> None:
    """The lean step and the ordinary one say the same, but where two choices are equally good by rounding.

    From there on they go different ways, so no bound on their scores holds; but every total is what the model itself
    gives when it is asked for that output.
    """
    wrong = 0
    small = replace(recipes.base(), width=128, heads=2, encoder_layers=2, decoder_layers=2)
    for design in (small, replace(small, residual=Pre())):
        model = design.build(1000).cuda().eval()
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        for sentences, beam, length in ((1, 1, 9), (1, 4, 30), (64, 5, 33), (300, 8, 20), (1024, 1, 40)):
            source = torch.randint(4, 1000, (sentences, length))
            search = Beam(size=beam, n_best=min(2, beam))
            assert fused_decoder.unsupported(model, beam) is None
            lean, ordinary = (
                CapturedBeam(model, search, writer=each)(source) for each in (leanest_writer, model_writer)
            )
            same = sum([one.ids for one in a] == [one.ids for one in b] for a, b in zip(lean, ordinary, strict=True))
            told = score_texts(model, source.cuda(), [one[0].ids for one in lean])
            sums = [sum(b.token_scores[: len(a[0].token_scores)]) for a, b in zip(lean, told, strict=True)]
            apart = max(abs(a[0].total - b) / max(1.0, abs(b)) for a, b in zip(lean, sums, strict=True))
            residual = type(design.residual).__name__.lower()
            print(
                f"{residual} {sentences} × {beam}: {same} of {sentences} the same, totals within {apart:.1e}",
                flush=True,
            )
            wrong += same < 0.98 * sentences or apart >= 1e-3
    assert not wrong, f"{wrong} shapes differ by more than rounding can explain"


def text_to_text(folder: str, path: Path, to: str) -> None:
    """Pieces, search and words again, as `headway translate` does it; after a first time, which records.

    Beside it the same where no sentence waits for a lane: a batch is over when its longest sentence is.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    print("| beam | sentences/s | pieces/s | sentences/s without lanes | outputs the same |")
    print("|---|---|---|---|---|")
    for beam in (1, 4):
        speeds, outputs = list[float](), list[list[str]]()
        for most in (captured_beam.MOST_QUEUED, captured_beam.lanes_for(beam)):
            with mock.patch.object(captured_beam, "MOST_QUEUED", most):
                translate = partial(Translator.load(folder), lines, beam=beam, to=to)
                speeds.append(len(lines) / best_time(translate, 3))
                found = translate()
                outputs.append([one.text for one in found])
        length = sum(len(one.tokens) for one in found) / len(lines)
        same = sum(a == b for a, b in zip(*outputs, strict=True)) / len(lines)
        cells = f"{speeds[0]:,.0f} | {speeds[0] * length:,.0f} | {speeds[1]:,.0f} | {100 * same:.1f} %"
        print(f"| {beam} | {cells} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="1x1,1x4,64x1,64x4,256x4,1024x1")
    parser.add_argument("--alone", action="store_true", help="without Hugging Face")
    parser.add_argument("--ordinary", action="store_true", help="the model's own step, for comparison")
    parser.add_argument("--profile", metavar="ROWS", help="the kernels of one step")
    parser.add_argument("--threads", metavar="COUNTS", help="the same with different numbers of host threads")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--model", help="a model folder, for --text")
    parser.add_argument("--text", type=Path, help="a file of sentences")
    parser.add_argument("--to", default="", help="of a multilingual model")
    given = parser.parse_args()
    torch.manual_seed(0)
    if given.check:
        check()
    if given.profile:
        profile(given.profile.split(","))
    if given.threads:
        by_threads(given.rows.split(","), [int(count) for count in given.threads.split(",")])
    if given.text:
        text_to_text(given.model, given.text, given.to)
    if not (given.check or given.profile or given.threads or given.text):
        compare(given.rows.split(","), given.alone, given.ordinary)


if __name__ == "__main__":
    main()
