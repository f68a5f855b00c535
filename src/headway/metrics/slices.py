"""Slices of a test set: sentences by length, and those with numbers, negation or rare words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headway.metrics.catalogue import bleu_splitter, main_language

EDGES = (5, 10, 15, 20, 30, 40, 60)  # the longest reference of each slice, in the tokens of BLEU

Pick = Callable[[str], frozenset[str]]


@dataclass(frozen=True)
class Slice:
    """The indices of some sentences of a test set, and a name for what they have in common."""

    name: str
    rows: tuple[int, ...]


def by_length(references: Sequence[str], language: str = "") -> list[Slice]:
    """Return sentences by the length of their reference in the tokens of BLEU, without empty slices."""
    split = bleu_splitter(language)
    lengths = [len(split(reference)) for reference in references]
    starts, ends = (0, *(edge + 1 for edge in EDGES)), (*EDGES, None)
    slices: list[Slice] = []
    for start, end in zip(starts, ends, strict=True):
        rows = tuple(r for r, n in enumerate(lengths) if n >= start and (end is None or n <= end))
        name = f"{start} or more" if end is None else f"{start} – {end}"
        slices.append(Slice(f"up to {end}" if start == 0 else name, rows))
    return [one for one in slices if one.rows]


def where(name: str, pick: Pick, references: Sequence[str]) -> Slice:
    """Return the sentences in whose reference `pick` finds something."""
    return Slice(name, tuple(row for row, reference in enumerate(references) if pick(reference)))


def kept(pick: Pick, hypotheses: Sequence[str], references: Sequence[str]) -> float | None:
    """Return the percentage of the items in the references that are in the outputs; None if there are no items."""
    wanted = [pick(reference) for reference in references]
    total = sum(len(items) for items in wanted)
    found = sum(len(items & pick(said)) for items, said in zip(wanted, hypotheses, strict=True))
    return 100 * found / total if total else None


def numbers(text: str) -> frozenset[str]:
    """Return the numbers of a text without separators, which differ by language: 1,000.5 and 1.000,5 are equal."""
    return frozenset(re.sub(r"\D", "", found) for found in re.findall(r"\d+(?:[.,\u00a0\u202f]\d+)*", text))


# Words of negation, as whole words in languages with spaces. There is no slice for other languages.
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
    """Return a function that finds negation in a language, whatever its word; None for an unknown language."""
    pattern = NEGATION.get(main_language(language))
    if pattern is None:
        return None
    found = re.compile(pattern, re.IGNORECASE).search
    return lambda text: frozenset({"negation"} if found(text) else ())


def count_words(texts: Sequence[str], language: str = "") -> Counter[str]:
    """Return how often each word occurs in the texts, ignoring case."""
    split = bleu_splitter(language)
    return Counter(word for text in texts for word in split(text.lower()))


def rare(counts: Counter[str], at_most: int, language: str = "") -> Pick:
    """Return a function that finds the words that occur at most `at_most` times in `counts`."""
    split = bleu_splitter(language)
    return lambda text: frozenset(word for word in split(text.lower()) if word[0].isalpha() and counts[word] <= at_most)
