"""Word diff of two texts: which words of one are not in the other."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from itertools import groupby

# A word, a run of spaces, or one punctuation mark; scripts without spaces are compared character by character.
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
WORD = re.compile(rf"\s+|[{UNSPACED}]|[^\W{UNSPACED}]+|[^\w\s]")


def words(text: str) -> list[str]:
    """Return the words, spaces and punctuation marks of a text; joined they are the text."""
    return WORD.findall(text)


def common(text: str, other: str) -> list[tuple[str, bool]]:
    """Return each word of `text`, and whether it is in the longest common subsequence with `other`."""
    mine = [word for word in words(text) if not word.isspace()]
    theirs = [word for word in words(other) if not word.isspace()]
    same = [False] * len(mine)
    for block in SequenceMatcher(a=mine, b=theirs, autojunk=False).get_matching_blocks():
        same[block.a : block.a + block.size] = [True] * block.size
    return list(zip(mine, same, strict=True))


def spaced(text: str, marks: list[str]) -> list[tuple[str, str]]:
    """Return the text as (part, mark) pairs; a space between two words with equal marks has their mark."""
    pieces: list[tuple[str, str]] = []
    queue, gap = iter(marks), ""
    for word in words(text):
        if word.isspace():
            gap = word
            continue
        mark = next(queue)
        joined = bool(pieces) and pieces[-1][1] == mark
        if gap and not joined:
            pieces.append((gap, ""))
        pieces.append((gap + word if joined else word, mark))
        gap = ""
    return _merge([*pieces, (gap, "")])


def _merge(pieces: list[tuple[str, str]]) -> list[tuple[str, str]]:
    runs = groupby(pieces, key=lambda piece: piece[1])
    merged = [("".join(text for text, _ in run), mark) for mark, run in runs]
    return [(text, mark) for text, mark in merged if text]


def marked(text: str, other: str) -> list[tuple[str, str]]:
    """Return `text` as (part, mark) pairs: "" where `other` has the same words, else "other"."""
    return spaced(text, ["" if same else "other" for _, same in common(text, other)])


def judged(text: str, rival: str, reference: str) -> list[tuple[str, str]]:
    """Return `text` as (part, mark) pairs: "" where `rival` agrees, else "right" or "wrong" by the reference."""
    against_rival, against_reference = common(text, rival), common(text, reference)
    marks = [
        "" if same else "right" if right else "wrong"
        for (_, same), (_, right) in zip(against_rival, against_reference, strict=True)
    ]
    return spaced(text, marks)
