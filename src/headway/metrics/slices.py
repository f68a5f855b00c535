"""Parts of a test set that say more than the whole: short and long sentences, numbers, negation, rare words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headway.metrics.catalogue import bleu_splitter, main_language

EDGES = (5, 10, 15, 20, 30, 40, 60)

Pick = Callable[[str], frozenset[str]]


@dataclass(frozen=True)
class Slice:
    """Some rows of the test set, and what they have in common."""

    name: str
    rows: tuple[int, ...]


def by_length(references: Sequence[str], language: str = "") -> list[Slice]:
    """Rows by the length of their reference, in the units that BLEU counts; empty ranges are left out."""
    split = bleu_splitter(language)
    lengths = [len(split(reference)) for reference in references]
    starts, ends = (0, *(edge + 1 for edge in EDGES)), (*EDGES, None)
    slices = []
    for start, end in zip(starts, ends, strict=True):
        rows = tuple(r for r, n in enumerate(lengths) if n >= start and (end is None or n <= end))
        name = f"{start} or more" if end is None else f"{start} – {end}"
        slices.append(Slice(f"up to {end}" if start == 0 else name, rows))
    return [one for one in slices if one.rows]


def where(name: str, pick: Pick, references: Sequence[str]) -> Slice:
    """The rows whose reference has something to pick."""
    return Slice(name, tuple(row for row, reference in enumerate(references) if pick(reference)))


def kept(pick: Pick, hypotheses: Sequence[str], references: Sequence[str]) -> float | None:
    """The percentage of what the references have that the outputs have too; None when they have nothing."""
    wanted = [pick(reference) for reference in references]
    total = sum(len(items) for items in wanted)
    found = sum(len(items & pick(said)) for items, said in zip(wanted, hypotheses, strict=True))
    return 100 * found / total if total else None


def numbers(text: str) -> frozenset[str]:
    """Figures, without the separators that languages write differently: 1,000.5 and 1.000,5 are the same."""
    return frozenset(re.sub(r"\D", "", found) for found in re.findall(r"\d+(?:[.,\u00a0\u202f]\d+)*", text))


# Words that deny, as whole words where a language has spaces. A language that is not here has no such slice.
NEGATION = {
    "cs": r"\b(?:ne|není|nejsou|nejsem|nebyl\w*|nebude\w*|nemá\w*|nemůže\w*|nikdy|nikdo|nic|nikde|žádn\w*)\b",
    "da": r"\b(?:ikke|ingen|intet|aldrig)\b",
    "de": r"\b(?:nicht|nichts|kein(?:e[mnrs]?)?|nie|niemals|niemand\w*|nirgend\w*|weder)\b",
    "en": r"\b(?:not?|cannot|never|none|nobody|nothing|nowhere|neither|nor)\b|n['’]t\b",
    "es": r"\b(?:no|ni|nunca|jamás|nadie|nada|ning[uú]n\w*|tampoco)\b",
    "fr": r"\b(?:ne|pas|jamais|rien|personne|aucune?)\b|\bn['’]",
    "it": r"\b(?:non|né|mai|niente|nulla|nessun\w*)\b",
    "ja": r"ない|なかった|なく|ません|(?<=[わかさたなまらば])ず",
    "nl": r"\b(?:niet|niets|geen|nooit|niemand|nergens)\b",
    "pl": r"\b(?:nie|nigdy|nikt|nic|nigdzie|żad\w*)\b",
    "pt": r"\b(?:não|nunca|jamais|ninguém|nada|nenhum\w*|nem)\b",
    "ru": r"\b(?:не|ни|нет|никогда|никто|ничего|ничто|нигде)\b",
    "sv": r"\b(?:inte|ej|ingen|inget|inga|aldrig)\b",
    "uk": r"\b(?:не|ні|немає|ніколи|ніхто|нічого)\b",
    "zh": r"[不没沒無无未别別非]",
}


def negation(language: str) -> Pick | None:
    """Whether a sentence denies: which word does it is a matter of taste, so all count as one."""
    pattern = NEGATION.get(main_language(language))
    if pattern is None:
        return None
    found = re.compile(pattern, re.IGNORECASE).search
    return lambda text: frozenset({"negation"} if found(text) else ())


def count_words(texts: Sequence[str], language: str = "") -> Counter[str]:
    """How often each word stands in the texts, without regard to case."""
    split = bleu_splitter(language)
    return Counter(word for text in texts for word in split(text.lower()))


def rare(counts: Counter[str], at_most: int, language: str = "") -> Pick:
    """Words that `counts` has seen at most so often."""
    split = bleu_splitter(language)
    return lambda text: frozenset(word for word in split(text.lower()) if word[0].isalpha() and counts[word] <= at_most)
