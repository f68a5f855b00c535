"""Documents with tags in pieces: markup that stays where it is, and sentences with their inline elements."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import unescape

from headway.serve.detection import has_words
from headway.serve.projection import Node
from headway.serve.tagged_sentence import Sentence
from headway.serve.tags import Dialect, Token
from headway.text.sentences import sentences

DEEPEST = 32  # inline elements within one another that are moved with their words; more stay where they are
LONGEST = 2000  # characters of a sentence that tags are moved in
MOST_NODES = 100  # elements in such a sentence
_ATOM = re.compile(r"&[^\s;&]{1,32};?|[^&]|&")  # a character, or the name of one
_LOOSE = re.compile(r"\s*[,.;:!?…)\]]+(?=\s)")
_PARTS = re.compile(
    rf"(?:(?>{_ATOM.pattern})){{1,{LONGEST}}}(?:(?=\s)|\Z)|(?:(?>{_ATOM.pattern})){{1,{LONGEST}}}", re.DOTALL
)


def split_document(document: str, dialect: Dialect) -> Iterator[str | Sentence]:
    """All pieces of a document, in order."""
    for run, preformatted in runs(document, dialect):
        if isinstance(run, Token):
            yield run.raw
        else:
            yield from split_run(document, run, preformatted, dialect)


# ---------------------------------------------------------------- runs: text and inline elements between other things


def runs(document: str, dialect: Dialect) -> Iterator[tuple[Token | list[Token], bool]]:
    """Tokens that stay as they are, one by one, and lists of those that make up text; and: does every line count?"""
    found = join_protected(list(dialect.tokens(document)), dialect)
    partners = matched_tags(found, dialect)
    run: list[Token] = []
    preformatted = 0
    for index, token in enumerate(found):
        if token.kind == "text" or index in partners or dialect.is_point(token):
            run.append(token)
            continue
        if run:
            yield run, preformatted > 0
            run = []
        preformatted += {"open": 1, "close": -1}.get(token.kind, 0) if token.name == "pre" else 0
        yield token, False
    if run:
        yield run, preformatted > 0


def join_protected(found: list[Token], dialect: Dialect) -> list[Token]:
    """The tokens, where an element that must not be translated is one token with all that is in it."""
    joined: list[Token] = []
    index = 0
    while index < len(found):
        token = found[index]
        if token.kind == "open" and dialect.is_protected(token):
            end = end_of(found, index)
            raw = "".join(one.raw for one in found[index:end])
            joined.append(Token("kept", raw, token.start, token.name))
            index = end
        else:
            joined.append(token)
            index += 1
    return joined


def end_of(found: list[Token], index: int) -> int:
    """Behind the tag that closes this one; the document's end if there is none."""
    depth = 0
    for at in range(index, len(found)):
        if found[at].name == found[index].name:
            depth += {"open": 1, "close": -1}.get(found[at].kind, 0)
            if depth == 0:
                return at + 1
    return len(found)


def matched_tags(found: list[Token], dialect: Dialect) -> set[int]:
    """The tags of inline elements that are well nested and hold nothing but text and their like."""
    pairs: set[int] = set()
    stack: list[int] = []
    inline = dialect.is_inline(found)
    for index, token in enumerate(found):
        if token.kind == "text" or dialect.is_point(token):
            continue
        if token.kind == "open" and inline[index] and len(stack) < DEEPEST:
            stack.append(index)
        elif token.kind == "close" and stack and found[stack[-1]].name == token.name:
            pairs |= {stack.pop(), index}
        else:
            stack.clear()
    return pairs


# ---------------------------------------------------------------- sentences of a run


@dataclass
class RunText:
    """A run as its reader sees it: characters, where each ends in the document, and the elements around them."""

    letters: list[str] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    nodes: list[tuple[Node, int]] = field(default_factory=list)  # outermost ones, and where they end in the document

    def add(self, token: Token) -> None:
        for atom in _ATOM.finditer(token.raw):
            plain = unescape(atom.group())
            self.letters += plain
            self.ends += [token.start + atom.end()] * len(plain)


def read_run(run: list[Token], dialect: Dialect) -> RunText:
    """The run as its reader sees it."""
    reading = RunText()
    stack: list[Node] = []
    for token in run:
        here = len(reading.letters)
        if token.kind == "text":
            reading.add(token)
            continue
        if token.kind == "open" and not dialect.is_point(token):
            stack.append(Node(token.raw, "", here, here))
            continue
        node = stack.pop() if token.kind == "close" else Node(token.raw, "", here, here)
        node.closing, node.end = (token.raw if token.kind == "close" else ""), here
        if stack:
            stack[-1].children.append(node)
        else:
            reading.nodes.append((node, token.start + len(token.raw)))
    return reading


def split_run(document: str, run: list[Token], preformatted: bool, dialect: Dialect) -> Iterator[str | Sentence]:
    """The sentences of a run; an element is never cut in two."""
    reading = read_run(run, dialect)
    text = "".join(reading.letters)
    nodes = deque(reading.nodes)
    start, begin = 0, run[0].start
    for end in sentence_ends(text, reading.nodes, preformatted):
        inside, stop = [], reading.ends[end - 1] if end else begin
        while nodes and (nodes[0][0].start < end or end == len(text)):
            node, behind = nodes.popleft()
            inside.append(relative_to(node, text, start))
            stop = max(stop, behind)
        yield from split_long_sentence(Sentence(document[begin:stop], text[start:end], inside, dialect.escape), dialect)
        start, begin = end, stop


def sentence_ends(text: str, nodes: list[tuple[Node, int]], preformatted: bool) -> list[int]:
    """Where sentences end, the end of the text among them; never within an element."""
    loose = _LOOSE.match(text)  # the comma behind a name that was left out is none of the sentence's
    found = [loose.end()] if loose else []
    at = 0
    for line in text.splitlines(keepends=True) if preformatted else [text]:
        for sentence, gap in sentences(line):
            found.append(at + len(sentence))
            at += len(sentence) + len(gap)
    ends = sorted({place for place in found if 0 < place < len(text)})
    holders = [node for node, _ in nodes if node.start < node.end]  # side by side, in order
    starts = [node.start for node in holders]
    return [*(end for end in ends if not (at := bisect_left(starts, end)) or holders[at - 1].end <= end), len(text)]


def relative_to(node: Node, text: str, start: int) -> Node:
    """The element in a sentence that begins at `start`. One that had a space on either side takes one along."""
    children = [relative_to(one, text, start) for one in node.children]
    between_spaces = not node.closing and text[max(node.start - 1, 0) : node.start + 1].isspace()
    return Node(node.opening, " " if between_spaces else node.closing, node.start - start, node.end - start, children)


def split_long_sentence(sentence: Sentence, dialect: Dialect) -> Iterator[str | Sentence]:
    """A sentence that is too long, or has too many tags, is translated between its tags, piece by piece."""
    if not has_words(sentence.text):
        yield sentence.raw
    elif len(sentence.text) <= LONGEST and sum(map(count, sentence.nodes)) <= MOST_NODES:
        yield sentence
    else:
        for token in join_protected(list(dialect.tokens(sentence.raw)), dialect):
            parts = _PARTS.findall(token.raw) if token.kind == "text" else [token.raw]
            texts = [unescape(part) if token.kind == "text" else "" for part in parts]
            yield from (
                Sentence(raw, text, [], dialect.escape) if has_words(text) else raw
                for raw, text in zip(parts, texts, strict=True)
            )


def count(node: Node) -> int:
    return 1 + sum(map(count, node.children))
