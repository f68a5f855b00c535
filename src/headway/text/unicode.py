"""Rules for single Unicode characters: lone surrogates, unprintable characters, lower case."""

from __future__ import annotations

import re

SPACE_MARK = "▁"  # sentencepiece's mark for the space before a word
UNKNOWN = "⁇"  # decoded form of an unknown token
JOINERS = "\u200c\u200d"  # Persian and Indic scripts need these two

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def mend(text: str) -> str:
    """Return the text with lone surrogates, which have no UTF-8 form, replaced by U+FFFD."""
    return _LONE_SURROGATE.sub("\ufffd", text)


def plain(text: str, keep: str = "") -> str:
    """Return the text with unprintable characters replaced by spaces, so that it cannot control a terminal.

    Characters of `keep` stay.
    """
    return "".join(sign if sign.isprintable() or sign in JOINERS or sign in keep else " " for sign in text)


def lowercase_rules() -> str:
    """Return sentencepiece rules that lowercase each character by itself; unlike case folding they keep the ß."""
    lowered = ((code, chr(code).lower()) for code in range(0x110000) if not 0xD800 <= code < 0xE000)
    return "".join(
        f"{code:X}\t{' '.join(f'{ord(letter):X}' for letter in lower)}\n"
        for code, lower in lowered
        if lower != chr(code)
    )
