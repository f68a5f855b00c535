"""Which language a text is in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from headway.errors import UsageError
from headway.text.languages import canonical_code, find_language

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

ENOUGH = 2000  # characters; more do not change the answer
SURE = 0.5  # from here on, a language this server does not know is believed
LEAST = 1.0  # per cent; less is not worth telling
NEAR = {"wuu": "zh", "yue": "zh", "arz": "ar", "ary": "ar", "uzs": "uz", "hbo": "he"}  # close enough to be read as
NOTHING = "zxx"  # no language at all: numbers, signs


@dataclass(frozen=True)
class Guess:
    """A language and how sure we are, in per cent."""

    language: str
    confidence: float


class Detector:
    """Guesses among all languages, and leans towards those that are known here: short texts could be many."""

    def __init__(self, known: Sequence[str]) -> None:
        if not known:
            raise UsageError("no language is known: give at least one model")
        self.known = list(known)

    @property
    def default(self) -> str:
        """What a text without words is taken for."""
        return find_language("en", self.known) or self.known[0]

    def guesses(self, text: str, count: int = 3) -> list[Guess]:
        """The likeliest languages, the best first; confidence 0 when there is nothing to go by."""
        if not has_words(text):
            return [Guess(self.default, 0.0)]
        chances = self.chances(text)
        best = max(chances, key=lambda language: chances[language], default="")
        if best not in self.known and chances.get(best, 0.0) < SURE:
            chances = shares(chances, self.known)
        ranked = sorted(chances.items(), key=lambda pair: -pair[1])
        found = [Guess(language, percent(chance)) for language, chance in ranked[:count]]
        return [guess for guess in found if guess.confidence >= LEAST] or [Guess(self.default, 0.0)]

    def source(self, text: str, among: Sequence[str]) -> Guess:
        """The likeliest of some known languages. A text in an unknown one gets a low confidence."""
        if not has_words(text):
            return Guess(self.default if self.default in among else among[0], 0.0)
        chances = self.chances(text)
        known = shares(chances, among)
        best = max(known, key=lambda language: known[language], default=among[0])
        foreign = any(chance >= SURE for language, chance in chances.items() if language not in self.known)
        return Guess(best, percent((chances if foreign else known).get(best, 0.0)))

    def chances(self, text: str) -> dict[str, float]:
        """Of all languages; close relatives of a known one count for it."""
        found: dict[str, float] = {}
        for label, chance in identifier().rank(text[:ENOUGH]):
            if label != NOTHING:
                language = self.named(label)
                found[language] = found.get(language, 0.0) + chance
        return found

    def named(self, label: str) -> str:
        near = NEAR.get(label, label)
        return find_language(near, self.known) or find_language(label, self.known) or canonical_code(near)


@cache
def identifier() -> LanguageIdentifier:
    """Read from a file of the package, once; safe to share between threads."""
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError:
        raise UsageError("detecting languages needs one more package: pip install 'headway-mt[serve]'") from None
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def shares(chances: dict[str, float], among: Sequence[str]) -> dict[str, float]:
    """The chances of these languages, given that it is one of them."""
    some = {language: chances[language] for language in among if language in chances}
    total = sum(some.values())
    return {language: chance / total for language, chance in some.items()} if total else {}


def has_words(text: str) -> bool:
    """Emoji, numbers and signs alone have no language and need no translation."""
    return any(letter.isalpha() for letter in text)


def percent(chance: float) -> float:
    return round(100.0 * min(max(chance, 0.0), 1.0), 1)
