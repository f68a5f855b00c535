"""HTML cut into text, tags and the rest, as a browser would; joined, the tokens are the document again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

# Every alternative runs to the document's end rather than fail, and gives nothing back: time is linear.
_MARKUP = re.compile(
    r"""
    (?P<comment> <!--(?:-?>|.*?(?:--!?>|\Z)) | <[!?][^>]*+>? | </[^a-zA-Z>][^>]*+>? | </> )
    | <(?P<slash>/?)(?P<name>[a-zA-Z][^\s/>]*+)
      (?P<attributes> (?: =\s*+(?:"[^"]*+"?|'[^']*+'?) | [^>] )*+ ) >?
    """,
    re.VERBOSE | re.DOTALL,
)
_TRANSLATE_NO = re.compile(r"""(?<![^\s"'/])translate\s*=\s*["']?no(?![^\s"'/>])""", re.IGNORECASE)
_CLASS = re.compile(r"""(?<![^\s"'/])class\s*=\s*(?:"([^"]*)|'([^']*)|([^\s>]*))""", re.IGNORECASE)

# Inside these, < begins nothing but their own end.
RAW_TEXT = {"iframe", "noembed", "noframes", "plaintext", "script", "style", "textarea", "title", "xmp"}
# These hold no words for a reader, or words that must stay.
PROTECTED = (RAW_TEXT - {"title"}) | {"audio", "canvas", "code", "kbd", "math", "object", "samp", "svg", "template"}
PROTECTED |= {"var", "video"}


@dataclass(frozen=True)
class Token:
    kind: Literal["text", "open", "close", "comment", "kept"]
    raw: str  # as it stands in the document
    start: int  # where that is
    name: str = ""  # of a tag, in lower case


def tokens(html: str) -> Iterator[Token]:
    """All tokens, in order. Nothing is an error: what is not markup is text."""
    at = 0
    while at < len(html):
        match = _MARKUP.search(html, at)
        if match is None:
            break
        if match.start() > at:
            yield Token("text", html[at : match.start()], at)
        token = token_of(match)
        yield token
        at = match.end()
        if token.kind == "open" and token.name in RAW_TEXT:
            end = end_of_raw_text(html, at, token.name)
            if end > at:
                yield Token("text", html[at:end], at)
            at = end
    if at < len(html):
        yield Token("text", html[at:], at)


def token_of(match: re.Match[str]) -> Token:
    if match["comment"] is not None:
        return Token("comment", match.group(), match.start())
    return Token("close" if match["slash"] else "open", match.group(), match.start(), match["name"].lower())


def end_of_raw_text(html: str, start: int, name: str) -> int:
    if name == "plaintext":
        return len(html)
    found = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(html, start)
    return found.start() if found else len(html)


def is_protected(token: Token) -> bool:
    """Its author says, or its kind implies, that it must not be translated."""
    if token.name in PROTECTED or _TRANSLATE_NO.search(token.raw):
        return True
    classes = _CLASS.search(token.raw)
    return classes is not None and "notranslate" in " ".join(filter(None, classes.groups())).lower().split()
