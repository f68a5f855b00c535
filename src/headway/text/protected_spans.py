"""Spans of a source that must come out untouched: code, markup, placeholders, whatever a pattern finds."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import regex

from headway.errors import UsageError
from headway.text.tokenizer import Tokenizer
from headway.text.vocabulary import EOS

SECONDS = 2.0  # that all patterns together may take for one text
HIDDEN = "\0"  # in the place of every character of a span, where only the rest counts
STRANGER = "\U0010fffd"  # for private use: in no vocabulary, so no piece joins it with what follows


class Span(NamedTuple):
    """A stretch of a text."""

    start: int
    end: int
    text: str
    within: bool  # something other than a space stands before it


def compiled(patterns: Sequence[str]) -> list[regex.Pattern[str]]:
    """Refuse what is no regular expression, and what matches nothing at all."""
    if isinstance(patterns, str):
        raise UsageError(f"keep {patterns!r}: give a list of regular expressions, not one string")
    return [one_compiled(text) for text in patterns]


def one_compiled(text: str) -> regex.Pattern[str]:
    """`regex` instead of `re`: its searches can be given a time limit."""
    try:
        pattern = regex.compile(text)
    except (regex.error, OverflowError, RecursionError) as error:
        raise UsageError(f"keep {text!r}: no regular expression: {error}") from None
    if pattern.search(""):
        raise UsageError(f"keep {text!r}: it matches an empty text; let it ask for at least one character")
    return pattern


def spans_of(text: str, patterns: Iterable[regex.Pattern[str]]) -> list[Span]:
    """What is to be kept. Of matches that overlap the first counts, and of two that begin together the longer.

    UsageError when the patterns take longer than SECONDS for this text.
    """
    end = time.monotonic() + SECONDS
    matches = {match for pattern in patterns for match in matches_of(text, pattern, end)}
    found: list[Span] = []
    for start, end in sorted(matches, key=lambda match: (match[0], -match[1])):
        if not found or start >= found[-1].end:
            found.append(Span(start, end, text[start:end], start > 0 and not text[start - 1].isspace()))
    return found


def matches_of(text: str, pattern: regex.Pattern[str], end: float) -> list[tuple[int, int]]:
    """Where a pattern matches something; UsageError if the search is not over at the time `end`."""
    try:
        left = max(end - time.monotonic(), 0.001)
        return [match.span() for match in pattern.finditer(text, timeout=left) if match[0]]
    except TimeoutError:
        raise UsageError(
            f"keep {pattern.pattern!r}: it takes more than {SECONDS:g} seconds for a text of {len(text):,} characters; "
            "write a simpler pattern or give shorter texts"
        ) from None


def hidden(text: str, spans: Iterable[Span]) -> str:
    """The text without what the spans say; every other character stays in its place."""
    parts: list[str] = []
    here = 0
    for span in spans:
        parts += [text[here : span.start], HIDDEN * len(span.text)]
        here = span.end
    return "".join([*parts, text[here:]])


def unbroken(cuts: Iterable[tuple[str, str]], spans: Sequence[Span]) -> list[tuple[str, str]]:
    """Sentences, each with the gap after it; where a span lies across a gap, both sides are one sentence."""
    starts, here = [span.start for span in spans], 0
    found: list[tuple[str, str]] = []
    for sentence, gap in cuts:
        last = bisect_left(starts, here) - 1  # of the spans that begin before this sentence
        across = last >= 0 and spans[last].end > here
        here += len(sentence) + len(gap)
        before = "".join(found.pop()) if across else ""
        found.append((before + sentence, gap))
    return found


def seam(length: int, spans: Sequence[Span]) -> int:
    """The place nearest to the middle of a text at which no span is cut; the middle, if there is none."""
    middle = length // 2
    across = bisect_left(spans, middle, key=lambda one: one.start) - 1  # of the spans that begin before the middle
    if across < 0 or spans[across].end <= middle:
        return middle
    ends = [place for place in (spans[across].start, spans[across].end) if 0 < place < length]
    return min(ends, key=lambda place: abs(place - middle), default=middle)


def lost(wanted: Iterable[str], text: str) -> list[str]:
    """Those that a text lacks, each as often as it is wanted. A place in the text serves one of them, the longest."""
    missing: list[str] = []
    for span, times in sorted(Counter(wanted).items(), key=lambda pair: -len(pair[0])):
        here = min(times, text.count(span))
        text = text.replace(span, HIDDEN, here)
        missing += [span] * (times - here)
    return missing


def phrases_of(spans: Iterable[Span], tokenizer: Tokenizer, room: int) -> list[list[int]]:
    """The spans in pieces of the target, but for those that it cannot spell and those for which there is no room."""
    said = [phrase for span in spans if (phrase := pieces(span, tokenizer))]
    found: list[list[int]] = []
    for phrase in [*said, *nested(said)]:
        if len(phrase) <= room:
            found.append(phrase)
            room -= len(phrase)
    return found


def nested(phrases: list[list[int]]) -> list[list[int]]:
    """Those that others hold, once for each time: said there they do not count for themselves."""
    kinds = [phrase for place, phrase in enumerate(phrases) if phrase not in phrases[:place]]
    return [
        kind
        for kind in kinds
        for other in phrases
        for at in range(len(other) - len(kind) + 1)
        if kind != other and kind == other[at : at + len(kind)]
    ]


def pieces(span: Span, tokenizer: Tokenizer) -> list[int]:
    """A span after a space, or not, as it stands in the source; nothing if no pieces give it back as it is."""
    stranger = tokenizer.encode(STRANGER)
    inside = tokenizer.encode(STRANGER + span.text)[len(stranger) :]
    ways = [inside, tokenizer.encode(span.text)] if span.within else [tokenizer.encode(span.text)]
    exact = (way for way in ways if min(way, default=EOS) > EOS and tokenizer.decode(way) == span.text)
    return next(exact, [])
