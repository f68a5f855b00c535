"""What may stand in a text, one character at a time."""

from __future__ import annotations

import re

SPACE_MARK = "▁"  # how sentencepiece writes the space before a word
UNKNOWN = "⁇"  # how an unknown piece is shown
JOINERS = "\u200c\u200d"  # Persian and Indic scripts need these two

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def mend(text: str) -> str:
    """Half a surrogate pair is not a character and has no UTF-8 form: show it as U+FFFD."""
    return _LONE_SURROGATE.sub("\ufffd", text)


def plain(text: str, keep: str = "") -> str:
    """The text without what could move a cursor, turn the direction of writing or fail to be written."""
    return "".join(sign if sign.isprintable() or sign in JOINERS or sign in keep else " " for sign in text)


def lowercase_rules() -> str:
    """Sentencepiece rules that lower each character by itself; unlike case folding they keep the ß."""
    lowered = ((code, chr(code).lower()) for code in range(0x110000) if not 0xD800 <= code < 0xE000)
    return "".join(
        f"{code:X}\t{' '.join(f'{ord(letter):X}' for letter in lower)}\n"
        for code, lower in lowered
        if lower != chr(code)
    )
