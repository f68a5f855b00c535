"""Check the language of each side: swapped sides, wrong files, or both sides in one language."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from headway.data.checks.base import Finding
from headway.data.checks.blocks import Block, two_files
from headway.data.checks.kinds import KIND, SCRIPTS, kind_table

SAMPLE = 4096  # lines from which the language is detected

# Short words that are frequent in one language and rare in others.
FREQUENT = {
    "cs": "je se na že do jsem to ale jako si který jsou nebo tak",
    "da": "og det er jeg ikke til af på den har med der hvad",
    "de": "der die und ist das nicht ich ein eine zu den mit sie es auf",
    "en": "the and of to is in that it you for on with was are this",
    "es": "el los que en un una por con es las del se para está",
    "fi": "ja on ei hän että se oli minä mutta kun ovat tämä",
    "fr": "le les et des est un une dans il pas je du pour vous",
    "hu": "az és hogy nem is egy van meg ez volt csak mint",
    "it": "il di che un una per non sono è del con le gli della",
    "nl": "de het een van en is dat niet ik op zijn met voor te",
    "pl": "nie się na do to że jest jak po jestem są czy dla",
    "pt": "os um uma não do da em para com é que ao você",
    "ro": "și în nu este un pe că cu din mai sunt pentru",
    "sv": "och det är att en jag som inte på för med har av",
    "tr": "bir ve bu için çok ne da mi var ama değil olarak",
}
SCRIPT_OF = {
    "LATIN": FREQUENT,
    "GREEK": ("el",),
    "CYRILLIC": ("ru", "uk", "bg", "sr", "mk", "be", "kk"),
    "HEBREW": ("he", "iw", "yi"),
    "ARABIC": ("ar", "fa", "ur"),
    "DEVANAGARI": ("hi", "mr", "ne"),
    "BENGALI": ("bn",),
    "TAMIL": ("ta",),
    "THAI": ("th",),
    "GEORGIAN": ("ka",),
    "ARMENIAN": ("hy",),
    "HANGUL": ("ko",),
    "KANA": ("ja",),
    "CJK": ("zh", "yue"),
}
CODES = {"deu": "de", "ger": "de", "eng": "en", "fra": "fr", "fre": "fr", "spa": "es", "ita": "it", "por": "pt"}
CODES |= {"cmn": "zh", "zho": "zh", "chi": "zh", "jpn": "ja", "kor": "ko", "rus": "ru", "cze": "cs", "ces": "cs"}


def named(path: Path) -> str | None:
    """Return the language code in the name of a file, such as train.de or corpus.en-fr.fr.gz, or None."""
    known = {code for codes in SCRIPT_OF.values() for code in codes}
    parts = re.split(r"[.]", path.name.lower())
    codes = (CODES.get(part, part) for part in reversed(parts[1:]))
    return next((code for code in codes if code in known), None)


class Voice:
    """Counts of the letters and words of one side, from which its language is detected."""

    def __init__(self, name: str, language: str | None) -> None:
        self.name = name
        self.language = language  # expected language
        self.lines = 0
        self.letters = np.zeros(0x10000, np.int64)
        self.words = Counter[str]()

    def listen(self, texts: list[str], codes: Int[np.ndarray, " c"]) -> None:
        self.letters += np.bincount(np.minimum(codes, 0xFFFF), minlength=0x10000)
        if self.lines < SAMPLE:
            self.words.update(re.findall(r"[^\W\d_]+", " ".join(texts[: SAMPLE - self.lines]).casefold()))
        self.lines += len(texts)

    def scripts(self) -> dict[str, float]:
        """Return the share of each script among the letters."""
        kinds = np.bincount(kind_table()[:0x10000], weights=self.letters, minlength=len(KIND))
        shares = {script: float(kinds[KIND[script]]) for script in SCRIPTS}
        return {script: count / max(sum(shares.values()), 1) for script, count in shares.items()}

    def candidates(self) -> tuple[str, ...]:
        """Return the languages that the text may be in; empty if it is uncertain."""
        scripts = self.scripts()
        if scripts["KANA"] > 0.1:
            return ("ja",)
        main = max(scripts, key=lambda script: scripts[script])
        if scripts[main] < 0.5:
            return ()
        return self._by_words() if main == "LATIN" else tuple(SCRIPT_OF.get(main, ()))

    def _by_words(self) -> tuple[str, ...]:
        total = max(sum(self.words.values()), 1)
        shares = {code: sum(self.words[w] for w in words.split()) / total for code, words in FREQUENT.items()}
        best, second = sorted(shares, key=lambda code: -shares[code])[:2]
        return (best,) if shares[best] > 0.08 and shares[best] > 1.3 * shares[second] else ()

    def profile(self) -> Float[np.ndarray, " codes"]:
        letters = self.letters * (kind_table()[:0x10000] <= KIND[SCRIPTS[-1]]) * (kind_table()[:0x10000] > 0)
        return letters / max(letters.sum(), 1)


def distance(one: Float[np.ndarray, " codes"], other: Float[np.ndarray, " codes"]) -> float:
    """Return the Jensen-Shannon divergence of two distributions, in bits: 0 if equal, 1 if disjoint."""
    middle = (one + other) / 2
    parts = [p[p > 0] * np.log2(p[p > 0] / middle[p > 0]) for p in (one, other)]
    return float(sum(part.sum() for part in parts) / 2)


class Languages:
    """A check that compares the language of each side with its name, the other side, and the dev and test files."""

    def __init__(self, source: Voice, target: Voice, others: dict[str, tuple[Path, Path]]) -> None:
        self.source, self.target = source, target
        self.others = {name: tuple(map(_voice_of, paths)) for name, paths in others.items()}

    def look(self, block: Block) -> None:
        for voice, side in zip((self.source, self.target), block.sides, strict=True):
            voice.listen(side.texts, side.codes)

    def findings(self) -> Iterator[Finding]:
        yield from self._by_name()
        for name, (source, target) in self.others.items():
            yield from self._by_comparison(name, source, target)

    def _by_name(self) -> Iterator[Finding]:
        voices = (self.source, self.target)
        names, heard = [voice.language for voice in voices], [voice.candidates() for voice in voices]
        wrong = [bool(heard[i]) and names[i] is not None and names[i] not in heard[i] for i in (0, 1)]
        if all(wrong) and names[0] in heard[1] and names[1] in heard[0]:
            title = f"the sides are swapped: {self.source.name} is in {names[1]}, {self.target.name} in {names[0]}"
            yield Finding("fatal", title, self.source.lines, "exchange the files, or rename them")
            return
        for voice, name, languages, is_wrong in zip(voices, names, heard, wrong, strict=True):
            if is_wrong:
                title = f"{voice.name} should be {name} but looks like {' or '.join(languages[:3])}"
                yield Finding("warning", title, voice.lines, "read some lines: is it the right file?")
        if len(heard[0]) == 1 and heard[0] == heard[1] and not any(wrong):
            title = f"both sides look like the same language ({heard[0][0]})"
            yield Finding("warning", title, self.source.lines, "is one of them the wrong file?")

    def _by_comparison(self, name: str, source: Voice, target: Voice) -> Iterator[Finding]:
        ours, theirs = self.source.profile(), self.target.profile()
        straight = distance(ours, source.profile()) + distance(theirs, target.profile())
        crossed = distance(ours, target.profile()) + distance(theirs, source.profile())
        if crossed < 0.5 * straight:
            title = (
                f"the sides are swapped, compared with the {name} files: {self.source.name} looks like {target.name}"
            )
            yield Finding("fatal", title, self.source.lines, "give both pairs of files in the same order")


def _voice_of(path: Path) -> Voice:
    voice = Voice(str(path), named(path))
    for block in two_files(path, path):
        voice.listen(block.source.texts, block.source.codes)
    return voice
