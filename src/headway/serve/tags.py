"""Markup cut into text, tags and the rest; joined, the tokens are the document again. HTML is read as browsers do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from html.entities import html5
from typing import Literal

_ATTRIBUTES = r"""(?P<attributes> (?: =\s*+(?:"[^"]*+"?|'[^']*+'?) | [^>] )*+ ) >?"""
# Every alternative runs to the document's end rather than fail, and gives nothing back: time is linear.
_HTML = re.compile(
    rf"""
    (?P<comment> <!--(?:-?>|.*?(?:--!?>|\Z)) | <[!?][^>]*+>? | </[^a-zA-Z>][^>]*+>? | </> )
    | <(?P<slash>/?)(?P<name>[a-zA-Z][^\s/>]*+) {_ATTRIBUTES}
    """,
    re.VERBOSE | re.DOTALL,
)
_XML = re.compile(
    rf"""
    (?P<comment> <!(?=--).*?(?:-->|\Z) | <!\[CDATA\[.*?(?:\]\]>|\Z) | <(?=\?).*?(?:\?>|\Z)
        | <![^\[>]*+(?:\[[^\]]*+(?:\][^>]*+)?+)?+>? )
    | (?P<entity> &[^\W\d][\w.-]{{0,40}}+; )
    | <(?P<slash>/?)(?P<name>[^\W\d][^\s/>]*+) {_ATTRIBUTES}
    """,
    re.VERBOSE | re.DOTALL,
)
_TRANSLATE_NO = re.compile(r"""(?<![^\s"'/])translate\s*=\s*["']?no(?![^\s"'/>])""", re.IGNORECASE)
_CLASS = re.compile(r"""(?<![^\s"'/])class\s*=\s*(?:"([^"]*)|'([^']*)|([^\s>]*))""", re.IGNORECASE)

# How a tag or comment ends, by how it begins.
HTML_ENDS = {"<!--": ("-->", "--!>"), "": (">",)}
XML_ENDS = {"<!--": ("-->",), "<![CDATA[": ("]]>",), "<?": ("?>",), "&": (";",), "": (">",)}

# Inside these, < begins nothing but their own end.
RAW_TEXT = {"iframe", "noembed", "noframes", "plaintext", "script", "style", "textarea", "title", "xmp"}
# These hold no words for a reader, or words that must stay.
PROTECTED = (RAW_TEXT - {"title"}) | {"audio", "canvas", "code", "kbd", "math", "object", "samp", "svg", "template"}
PROTECTED |= {"var", "video"}
# Elements that stand inside a sentence.
INLINE = {
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "data", "del", "dfn", "em", "font", "i", "ins", "label",
    "mark", "nobr", "q", "s", "small", "span", "strike", "strong", "sub", "sup", "time", "tt", "u",
}  # fmt: skip
INLINE_VOID = {"img", "wbr"}
VOID = INLINE_VOID | {"area", "base", "br", "col", "embed", "hr", "input", "link", "meta", "param", "source", "track"}
# Elements that end a sentence also in XML, where documents borrow HTML's names.
BLOCK = {
    "address", "article", "aside", "blockquote", "body", "br", "dd", "div", "dl", "dt", "figure", "footer", "form",
    "h1", "h2", "h3", "h4", "h5", "h6", "head", "header", "hr", "html", "li", "main", "nav", "ol", "p", "par", "para",
    "pre", "section", "table", "tbody", "td", "tfoot", "th", "thead", "title", "tr", "ul",
}  # fmt: skip


@dataclass(frozen=True)
class Token:
    kind: Literal["text", "open", "close", "empty", "comment", "kept"]
    raw: str  # as it stands in the document
    start: int  # where that is
    name: str = ""  # of a tag; in lower case for HTML


def is_closed(raw: str, ends: dict[str, tuple[str, ...]]) -> bool:
    """Whether a tag or comment ends before its document does; one that is never closed must stay behind all else."""
    return raw.endswith(next(end for beginning, end in ends.items() if raw.startswith(beginning)))


# ---------------------------------------------------------------- HTML


class Html:
    """HTML: a fixed list of elements, names in any case, raw text in scripts and styles."""

    def tokens(self, document: str) -> Iterator[Token]:
        """All tokens, in order. Nothing is an error: what is not markup is text."""
        at = 0
        while match := _HTML.search(document, at):
            if match.start() > at:
                yield Token("text", document[at : match.start()], at)
            token = html_token(match)
            yield token
            at = match.end()
            if token.kind == "open" and token.name in RAW_TEXT:
                end = end_of_raw_text(document, at, token.name)
                if end > at:
                    yield Token("text", document[at:end], at)
                at = end
        if at < len(document):
            yield Token("text", document[at:], at)

    def is_protected(self, token: Token) -> bool:
        """Whether the element that this tag opens is not translated."""
        return token.name not in VOID and (token.name in PROTECTED or forbids_translation(token.raw))

    def is_inline(self, found: list[Token]) -> list[bool]:
        """For each token whether it opens an element that stands inside a sentence."""
        return [token.kind == "open" and token.name in INLINE for token in found]

    def is_point(self, token: Token) -> bool:
        """Whether the token stands between words and holds none."""
        return is_closed(token.raw, HTML_ENDS) and (
            token.kind == "comment" or (token.kind == "open" and token.name in INLINE_VOID)
        )

    def escape(self, text: str) -> str:
        """The text as it is written between tags."""
        return escape(text, quote=False).replace("\xa0", "&nbsp;")


def html_token(match: re.Match[str]) -> Token:
    """The token that HTML's pattern has found."""
    if match["comment"] is not None:
        return Token("comment", match.group(), match.start())
    return Token("close" if match["slash"] else "open", match.group(), match.start(), match["name"].lower())


def end_of_raw_text(html: str, start: int, name: str) -> int:
    """Where the content of a script, a style or the like ends."""
    if name == "plaintext":
        return len(html)
    found = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(html, start)
    return found.start() if found else len(html)


def forbids_translation(tag: str) -> bool:
    """Whether the tag has the attribute translate="no" or the class notranslate."""
    if _TRANSLATE_NO.search(tag):
        return True
    classes = _CLASS.search(tag)
    return classes is not None and "notranslate" in " ".join(filter(None, classes.groups())).lower().split()


# ---------------------------------------------------------------- XML


@dataclass(frozen=True)
class Xml:
    """XML: any names, compared by case; elements are inside a sentence where there is text beside them."""

    non_splitting: frozenset[str] = frozenset()  # elements that are always inside a sentence
    splitting: frozenset[str] = frozenset()  # elements that always end a sentence
    ignored: frozenset[str] = frozenset()  # elements that are not translated
    outline: bool = True  # whether elements in neither list are judged; if not, they are inside a sentence

    def tokens(self, document: str) -> Iterator[Token]:
        at = 0
        for match in _XML.finditer(document):
            if match["entity"] and match["entity"][1:] in html5:  # a character, which is text
                continue
            if match.start() > at:
                yield Token("text", document[at : match.start()], at)
            yield xml_token(match)
            at = match.end()
        if at < len(document):
            yield Token("text", document[at:], at)

    def is_protected(self, token: Token) -> bool:
        return token.name in self.ignored or forbids_translation(token.raw)

    def is_inline(self, found: list[Token]) -> list[bool]:
        beside_text = has_text_beside(found) if self.outline else [True] * len(found)
        return [
            token.kind == "open" and self._stays(token.name, beside)
            for token, beside in zip(found, beside_text, strict=True)
        ]

    def _stays(self, name: str, beside_text: bool) -> bool:
        """Whether an element of this name stays inside the sentence."""
        if name in self.splitting:
            return False
        if name in self.non_splitting:
            return True
        return beside_text and not (self.outline and name.lower() in BLOCK)

    def is_point(self, token: Token) -> bool:
        """Whether the token stands between words and holds none."""
        stays = token.kind == "comment" or (token.kind in ("empty", "kept") and self._stays(token.name, True))
        return stays and is_closed(token.raw, XML_ENDS)

    def escape(self, text: str) -> str:
        return escape(text, quote=False).replace("\xa0", "&#160;")


Dialect = Html | Xml


def xml_token(match: re.Match[str]) -> Token:
    """The token that XML's pattern has found. An entity that a DTD defines is kept like a comment."""
    if match["name"] is None:
        return Token("comment", match.group(), match.start())
    is_empty = match["attributes"].endswith("/") and not match["slash"]
    return Token(
        "close" if match["slash"] else "empty" if is_empty else "open", match.group(), match.start(), match["name"]
    )


def has_text_beside(found: list[Token]) -> list[bool]:
    """For each token whether the element around it, or the whole document, holds text of its own."""
    parents: list[int] = []
    stack = [-1]
    holders: set[int] = set()
    for index, token in enumerate(found):
        if token.kind == "close" and len(stack) > 1 and found[stack[-1]].name == token.name:
            stack.pop()
        parents.append(stack[-1])
        if token.kind == "text" and token.raw.strip():
            holders.add(stack[-1])
        if token.kind == "open":
            stack.append(index)
    return [parent in holders for parent in parents]
