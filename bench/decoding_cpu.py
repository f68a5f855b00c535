"""Decoding on a processor: headway's engines against CTranslate2 and Hugging Face generate, each at its best setting.

python -m bench.decoding_cpu [--quick] [--sizes small,base] [--model FOLDER --text FILE [--reference FILE]]
                             [--busy] [--out FILE]

All systems run the same random weights, whose outputs never end by themselves, so that everybody writes the same
number of pieces. Repeats are interleaved: a disturbance hits everybody. Two workers or threads, as on two cores.
"""

from __future__ import annotations

import argparse
import platform
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import torch

from headway import recipes
from headway.data.padding import packs, pad_rows
from headway.engines import Engine, choose, translate_all
from headway.engines.batches import SENTENCES
from headway.engines.ctranslate2.engine import COMPUTE, open_translator
from headway.engines.native.build import cpu_flags
from headway.model.design import EncoderDecoderDesign
from headway.model.models import EncoderDecoder
from headway.search import Beam, Greedy, Limits
from headway.tasks.translation.translator import Translator
from headway.text.vocabulary import EOS, PAD

CORES = 2
BATCHES = {1: 64, 5: 32}  # by beam: sentences in a batch of CTranslate2 and PyTorch, where they are fastest
PRECISIONS = ("int8", "fp32")


@dataclass(frozen=True)
class Case:
    """One model, and the sentences it gets."""

    name: str
    design: EncoderDecoderDesign
    vocabulary: int
    length: int  # pieces that are written; sources are about as long
    repeats: tuple[int, int]  # of single sentences, of batches
    sentences: int  # in one measurement of batches

    def build(self) -> EncoderDecoder:
        torch.manual_seed(0)
        model = self.design.build(self.vocabulary).eval()
        with torch.no_grad():
            assert model.head.bias is not None
            model.head.bias[EOS] = -1e4
        return model

    def sources(self) -> list[list[int]]:
        draw = random.Random(0)
        lengths = [self.length + draw.randint(-4, 4) for _ in range(self.sentences)]
        return [[*(draw.randrange(4, self.vocabulary) for _ in range(length - 1)), EOS] for length in lengths]

    def search(self, beam: int) -> Greedy | Beam:
        limits = Limits(ratio=0.0, extra=self.length, longest=self.length)
        return Greedy(limits=limits) if beam == 1 else Beam(size=beam, limits=limits)


CASES = {
    "small": Case("small", replace(recipes.small(), output_bias=True), 8000, 15, (40, 5), 256),
    "base": Case("base", replace(recipes.base(), output_bias=True), 37_000, 30, (9, 3), 128),
}

Run = Callable[[list[list[int]], int], Any]  # sentences and a beam


@dataclass(frozen=True)
class System:
    """Something that translates: one sentence as soon as possible, and many in little time."""

    name: str
    single: Run
    many: Run
    threads: int = 1  # PyTorch's
    slow: bool = False  # measured on one batch, fewer times


# ---------------------------------------------------------------- systems


def engine_system(case: Case, engine: Engine, name: str, slow: bool = False) -> System:
    def single(sentences: list[list[int]], beam: int) -> Any:
        return engine.translate(pad_rows(sentences, "cpu"), case.search(beam))

    def many(sentences: list[list[int]], beam: int) -> Any:
        return translate_all(engine, sentences, case.search(beam), rows=BATCHES[1] if slow else SENTENCES)

    return System(name, single, many, CORES if slow else 1, slow)


def both(folder: Path, precision: Any) -> tuple[Any, Any]:
    """For one sentence int8 is fastest with one thread, fp32 with two; for batches a worker for every core is."""
    import ctranslate2

    threads = 1 if precision == "int8" else CORES
    quick = ctranslate2.Translator(str(folder), compute_type=COMPUTE[precision], intra_threads=threads)
    return quick, open_translator(folder, precision, CORES)


def ctranslate2_system(case: Case, folder: Path, precision: Any, name: str) -> System:
    quick, wide = both(folder, precision)

    def run(translator: Any) -> Run:
        def translate(sentences: list[list[int]], beam: int) -> Any:
            texts = [[str(piece) for piece in sentence[:-1]] for sentence in sentences]
            sizes = {"min_decoding_length": case.length, "max_decoding_length": case.length}
            return translator.translate_batch(texts, beam_size=beam, max_batch_size=BATCHES[beam], **sizes)

        return translate

    return System(name, run(quick), run(wide))


def marian(design: EncoderDecoderDesign, model: EncoderDecoder) -> Any:
    """The same weights in Hugging Face's own code."""
    from transformers import MarianConfig, MarianMTModel
    from transformers.utils import logging

    from headway.exchange.marian import to_marian

    logging.set_verbosity_error()
    state, table = to_marian(design, model.state_dict())
    theirs: Any = MarianMTModel(MarianConfig(**table)).eval()
    theirs.load_state_dict(state, strict=False)
    return theirs


def generate_system(case: Case, model: EncoderDecoder) -> System:
    theirs = marian(case.design, model)

    @torch.inference_mode()
    def generate(sentences: list[list[int]], beam: int) -> Any:
        source = pad_rows(sentences, "cpu")
        sizes = {"min_new_tokens": case.length, "max_new_tokens": case.length}
        return theirs.generate(source, attention_mask=source.ne(0).long(), num_beams=beam, do_sample=False, **sizes)

    return System("Hugging Face generate", generate, generate, CORES, slow=True)


def systems(case: Case, folder: Path) -> Iterator[System]:
    model = case.build()
    for precision in PRECISIONS:
        yield engine_system(
            case, choose(model, case.design, "native", precision, workers=CORES).engine, f"headway {precision}"
        )
    yield engine_system(case, choose(model, case.design, "torch").engine, "headway torch", slow=True)
    for precision in PRECISIONS:
        choose(model, case.design, "ctranslate2", precision, folder)
        (made,) = (folder / "cache").glob(f"ctranslate2-{precision}-*")
        yield ctranslate2_system(case, made, precision, f"CTranslate2 {precision}")
    yield generate_system(case, model)


# ---------------------------------------------------------------- measuring


class Clock:
    """On a busy machine seconds say little; then count what all threads of this process have worked."""

    busy: ClassVar[bool] = False

    @classmethod
    def now(cls) -> float:
        return time.process_time() if cls.busy else time.perf_counter()


def seconds(system: System, run: Run, sentences: list[list[int]], beam: int) -> float:
    torch.set_num_threads(system.threads)
    begun = Clock.now()
    run(sentences, beam)
    return Clock.now() - begun


def latencies(case: Case, every: list[System], beam: int, repeats: int) -> dict[str, list[float]]:
    """Milliseconds of single sentences."""
    sources = case.sources()
    found: dict[str, list[float]] = {system.name: [] for system in every}
    for turn in range(-1, repeats):
        for system in every:
            if turn < 0 or not system.slow or turn % 4 == 0:
                taken = seconds(system, system.single, [sources[turn % 16]], beam)
                found[system.name] += [1e3 * taken] if turn >= 0 else []  # the first warms up
    return found


def rates(case: Case, every: list[System], beam: int, repeats: int) -> dict[str, list[float]]:
    """Sentences a second, in batches."""
    sources = case.sources()
    found: dict[str, list[float]] = {system.name: [] for system in every}
    for turn in range(repeats):
        for system in every:
            if not system.slow or turn == 0:
                some = sources[: BATCHES[1]] if system.slow else sources
                found[system.name].append(len(some) / seconds(system, system.many, some, beam))
    return found


def at(values: list[float], share: float = 0.5) -> float:
    """The value below which this share of all values lies."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def table(case: Case, quick: bool) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        every = list(systems(case, Path(folder)))
        names = [system.name for system in every]
        yield f"| {case.name} | " + " | ".join(names) + " | int8 | fp32 |"
        yield "|---" * (len(names) + 3) + "|"
        for beam in (1, 5):
            how = "greedy" if beam == 1 else f"beam {beam}"
            found = latencies(case, every, beam, case.repeats[0] // (4 if quick else 1))
            cells = [f"{at(found[name]):.1f} ({at(found[name], 0.95):.1f})" for name in names]
            yield f"| 1 sentence {how}, ms p50 (p95) | " + " | ".join([*cells, *ratios(found, lower=True)]) + " |"
        for beam in (1, 5):
            how = "greedy" if beam == 1 else f"beam {beam}"
            chosen = [system for system in every if not (quick and system.slow and beam > 1)]
            found = rates(case, chosen, beam, 1 if quick else case.repeats[1])
            cells = [f"{at(found[name]):.1f}" if name in found else "–" for name in names]
            yield (f"| batches {how}, sentences/s | " + " | ".join([*cells, *ratios(found, lower=False)]) + " |")


def ratio(found: dict[str, list[float]], precision: str, lower: bool) -> str:
    """How many times as fast as CTranslate2: by medians, and by the best of each."""
    ours, theirs = found[f"headway {precision}"], found[f"CTranslate2 {precision}"]
    typical, best = (at(ours) / at(theirs), (min if lower else max)(ours) / (min if lower else max)(theirs))
    return "×{:.2f} [{:.2f}]".format(*(1 / x if lower else x for x in (typical, best)))


# ---------------------------------------------------------------- text in, text out


TextRun = Callable[[list[str], int], list[str]]


def our_texts(translator: Translator) -> TextRun:
    return lambda lines, beam: [made.text for made in translator.translate(lines, beam=beam)]


def ctranslate2_texts(translator: Translator, quick: Any, wide: Any) -> TextRun:
    """With our tokeniser and its own best settings."""
    source, target = translator.tokenizers.source, translator.tokenizers.target

    def run(lines: list[str], beam: int) -> list[str]:
        texts = [[str(piece) for piece in source.encode(line)] for line in lines]
        cap = 2 * max(map(len, texts)) + 20  # ours; without one, a single runaway spoils the score
        chosen = quick if len(lines) == 1 else wide
        found = chosen.translate_batch(texts, beam_size=beam, max_batch_size=BATCHES[beam], max_decoding_length=cap)
        return [target.decode([int(piece) for piece in each.hypotheses[0]]) for each in found]

    return run


def generated_texts(translator: Translator) -> TextRun:
    """With our tokeniser, in batches of 64 of like length."""
    design = translator.run.model
    assert isinstance(design, EncoderDecoderDesign)
    model, tokenizers = marian(design, translator.model), translator.tokenizers

    @torch.inference_mode()
    def run(lines: list[str], beam: int) -> list[str]:
        torch.set_num_threads(CORES)
        texts = [[*tokenizers.source.encode(line), EOS] for line in lines]
        made = [""] * len(lines)
        for places in packs([len(text) for text in texts], 1 << 20, 64):
            source = pad_rows([texts[i] for i in places], "cpu")
            sizes = {"max_new_tokens": 2 * source.size(1) + 20, "num_beams": beam, "do_sample": False}
            found = model.generate(source, attention_mask=source.ne(PAD).long(), **sizes)
            for place, ids in zip(places, found.tolist(), strict=True):
                made[place] = tokenizers.target.decode([piece for piece in ids if piece > EOS])
        return made

    return run


def translators(folder: Path) -> Iterator[tuple[str, TextRun]]:
    """A trained model from raw text to raw text."""
    for precision in PRECISIONS:
        yield f"headway {precision}", our_texts(Translator.load(folder, "cpu", "native", precision))
    for precision in PRECISIONS:
        base = Translator.load(folder, "cpu", "ctranslate2", precision)
        (made,) = (folder / "cache").glob(f"ctranslate2-{precision}-*")
        yield f"CTranslate2 {precision}", ctranslate2_texts(base, *both(made, precision))
    yield "Hugging Face generate", generated_texts(Translator.load(folder, "cpu", "torch"))


def text_table(folder: Path, lines: list[str], references: list[str], quick: bool) -> Iterator[str]:
    every = dict(translators(folder))
    yield "| text to text | " + " | ".join(every) + " | int8 | fp32 |"
    yield "|---" * (len(every) + 3) + "|"
    for beam in (1, 5):
        how = "greedy" if beam == 1 else f"beam {beam}"
        single: dict[str, list[float]] = {name: [] for name in every}
        many: dict[str, list[float]] = {name: [] for name in every}
        outputs: dict[str, list[str]] = {}
        for line in lines[: 20 if quick else 100]:
            for name, run in every.items():
                single[name].append(1e3 * timed(run, [line], beam)[0])
        for _ in range(1 if quick else 3):
            for name, run in every.items():
                taken, outputs[name] = timed(run, lines, beam)
                many[name].append(len(lines) / taken)
        cells = [f"{at(single[name]):.1f} ({at(single[name], 0.95):.1f})" for name in every]
        yield f"| 1 line {how}, ms p50 (p95) | " + " | ".join([*cells, *ratios(single, lower=True)]) + " |"
        cells = [f"{at(many[name]):.1f}" for name in every]
        yield f"| {len(lines)} lines {how}, lines/s | " + " | ".join([*cells, *ratios(many, lower=False)]) + " |"
        if references:
            yield f"| BLEU {how} | " + " | ".join(bleu(outputs[name], references) for name in every) + " | | |"


def bleu(outputs: list[str], references: list[str]) -> str:
    from sacrebleu import corpus_bleu

    return f"{corpus_bleu(outputs, [references]).score:.2f}"


def timed(run: TextRun, lines: list[str], beam: int) -> tuple[float, list[str]]:
    begun = Clock.now()
    made = run(lines, beam)
    return Clock.now() - begun, made


def ratios(found: dict[str, list[float]], lower: bool) -> list[str]:
    return [ratio(found, precision, lower) for precision in PRECISIONS]


def read_lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two minutes instead of ten")
    parser.add_argument("--sizes", default="small,base")
    parser.add_argument("--model", type=Path, help="a trained model's folder, for a table from text to text")
    parser.add_argument("--text", type=Path, help="lines for it to translate")
    parser.add_argument("--reference", type=Path, help="their translations, for BLEU")
    parser.add_argument("--out", type=Path, help="write the table here, too")
    parser.add_argument("--busy", action="store_true", help="count processor time: others use this machine, too")
    given = parser.parse_args()
    Clock.busy = given.busy
    flags = [flag for flag in ("avx2", "avx512bw", "avx512_vnni", "avx_vnni") if flag in cpu_flags()]
    lines = [
        f"{platform.machine()}, {CORES} cores used, {', '.join(flags)}; "
        f"{'processor' if given.busy else 'wall-clock'} time; ratios to CTranslate2: medians [best runs]",
        "",
    ]
    print(*lines, sep="\n")
    tables = [table(CASES[name], given.quick) for name in given.sizes.split(",") if name]
    if given.model and given.text:
        lines_in, references = (read_lines(path) if path else [] for path in (given.text, given.reference))
        tables.append(text_table(given.model, lines_in, references, given.quick))
    for each in tables:
        for line in each:
            print(line, flush=True)
            lines.append(line)
        lines.append("")
    if given.out:
        given.out.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
