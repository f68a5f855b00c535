"""A table of character kinds for all code points: scripts, digits, punctuation, invisible characters."""

from __future__ import annotations

import unicodedata
from functools import cache

import numpy as np
from jaxtyping import UInt8

EUROPEAN = ["LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "GEORGIAN"]
ASIAN = ["HEBREW", "ARABIC", "DEVANAGARI", "BENGALI", "TAMIL", "THAI", "HANGUL", "KANA", "CJK"]
SCRIPTS = [*EUROPEAN, *ASIAN, "OTHER"]
SIGNS = ["digit", "question", "exclamation", "comma", "colon", "quotation", "bracket"]
ODD = ["control", "carriage return", "line separator", "zero-width", "direction mark", "replacement", "private use"]
KINDS = ["plain", *SCRIPTS, *SIGNS, *ODD]
KIND = {name: number for number, name in enumerate(KINDS)}

SIGN_CHARACTERS = {
    "question": "?？؟;՞",
    "exclamation": "!！¡",
    "comma": ",，、،",
    "colon": ":：;；",
    "quotation": "\"'“”„‘’«»「」『』",
    "bracket": "()（）[]【】{}",
    "carriage return": "\r",
    "line separator": "\v\f\x1c\x1d\x1e\x85\u2028\u2029",
    "zero-width": "\u200b\u200c\u200d\u2060\ufeff\u00ad",
    "direction mark": "\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069",
    "replacement": "\ufffd",
}
HAN_PLANES = slice(0x20000, 0x40000)
PRIVATE = (slice(0xE000, 0xF900), slice(0xF0000, 0x110000))


@cache
def kind_table() -> UInt8[np.ndarray, " codes"]:
    """Return the kind of every code point; the script of a letter is the first word of its Unicode name."""
    table = np.zeros(0x110000, np.uint8)
    for code in range(0x10000):
        table[code] = _kind_of(chr(code))
    table[HAN_PLANES] = KIND["CJK"]
    for area in PRIVATE:
        table[area] = KIND["private use"]
    for name, characters in SIGN_CHARACTERS.items():
        table[[ord(character) for character in characters]] = KIND[name]
    return table


def _kind_of(character: str) -> int:
    category = unicodedata.category(character)
    if category.startswith("L"):
        return KIND[_script_of(character)]
    if category == "Nd":
        return KIND["digit"]
    return KIND["control"] if category == "Cc" and character not in "\t\n" else 0


def _script_of(letter: str) -> str:
    first = unicodedata.name(letter, "OTHER").split()[0]
    first = {"HIRAGANA": "KANA", "KATAKANA": "KANA", "KATAKANA-HIRAGANA": "KANA", "FULLWIDTH": "LATIN"}.get(
        first, first
    )
    return first if first in SCRIPTS else "OTHER"
