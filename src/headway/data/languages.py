"""The languages of a translator: one answer for training, evaluation, serving and export."""

from __future__ import annotations

import re
from pathlib import Path

from headway.data.checks.blocks import two_files
from headway.data.checks.languages import CODES, Voice
from headway.data.corpus import Data
from headway.text.languages import NAMES, canonical_code

CODE = r"[A-Za-z]{2,3}(?:[-_][A-Za-z]{2,4})?"
Pair = tuple[str, str]


def languages_of(data: Data, folder: Path) -> Pair:
    """Return the languages of a trained model, empty where nothing tells them.

    The configuration counts first, then the endings of the training files, then the name of the folder, such as en-de.
    """
    return first_known(configured(data), by_endings(data.source, data.target), by_folder(folder))


def languages_to_train(data: Data) -> Pair:
    """Return the languages of a new run: by configuration, by the endings of its files, else by their text."""
    told = first_known(configured(data), by_endings(data.source, data.target))
    return told if all(told) or not data.target else first_known(told, by_text(Path(data.source), Path(data.target)))


def first_known(*pairs: Pair) -> Pair:
    """Return for each side the first language that is known."""
    sources, targets = zip(*pairs, strict=True)
    return next(filter(None, sources), ""), next(filter(None, targets), "")


def configured(data: Data) -> Pair:
    return data.source_language, data.target_language


def by_endings(source: str, target: str) -> Pair:
    """The endings of two files; one alone, or twice the same, says nothing."""
    found = ending(source), ending(target)
    return found if all(found) and found[0] != found[1] else ("", "")


def by_folder(folder: Path) -> Pair:
    named = re.search(rf"(?:^|[._-])({CODE})-({CODE})$", folder.resolve().name)
    return (named[1], named[2]) if named and is_language(named[1]) and is_language(named[2]) else ("", "")


def by_text(source: Path, target: Path) -> Pair:
    """By scripts and frequent words of the first lines; empty where more than one language is possible."""
    block = next(iter(two_files(source, target)), None)
    if block is None:
        return "", ""
    found = []
    for side in block.sides:
        voice = Voice("", None)
        voice.listen(side.texts, side.codes)
        candidates = voice.candidates()
        found.append(candidates[0] if len(candidates) == 1 or candidates[:1] == ("zh",) else "")
    return found[0], found[1]


def ending(path: str) -> str:
    """Return en for train.en and train.en.gz, and nothing for corpus.txt."""
    found = re.search(rf"\.({CODE})(?:\.(?:gz|xz|zst))?$", path)
    return found[1] if found and is_language(found[1]) else ""


def is_language(code: str) -> bool:
    plain = canonical_code(CODES.get(code.lower(), code))
    return plain in NAMES or plain.split("-")[0] in NAMES
