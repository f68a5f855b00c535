"""Spans of a source that must appear unchanged in its translation: code, markup, placeholders and the like."""

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

SECONDS = 2.0  # time limit for all patterns together on one text
HIDDEN = "\0"  # replaces every character of a span where spans must not be searched
STRANGER = "\U0010fffd"  # private use: in no vocabulary, so no subword joins it with the text behind it


class Span(NamedTuple):
    """A part of a text that a pattern matched: `text[start:end]`."""

    start: int
    end: int
    text: str
    within: bool  # whether a character other than a space precedes it


def compiled(patterns: Sequence[str]) -> list[regex.Pattern[str]]:
    """Return the patterns compiled; UsageError for an invalid one or one that matches the empty text."""
    if isinstance(patterns, str):
        raise UsageError(f"keep {patterns!r}: give a list of regular expressions, not one string")
    return [one_compiled(text) for text in patterns]


def one_compiled(text: str) -> regex.Pattern[str]:
    """Return one pattern compiled by `regex`, whose searches, unlike those of `re`, accept a time limit."""
    try:
        pattern = regex.compile(text)
    except (regex.error, OverflowError, RecursionError) as error:
        raise UsageError(f"keep {text!r}: not a regular expression: {error}") from None
    if pattern.search(""):
        raise UsageError(f"keep {text!r}: it matches the empty text; change it to match at least one character")
    return pattern


def spans_of(text: str, patterns: Iterable[regex.Pattern[str]]) -> list[Span]:
    """Return the spans to protect, in order.

    Of matches that overlap, the first wins; of two that begin together, the longer.

    UsageError if the patterns take longer than SECONDS for this text.
    """
    end = time.monotonic() + SECONDS
    matches = {match for pattern in patterns for match in matches_of(text, pattern, end)}
    found: list[Span] = []
    for start, end in sorted(matches, key=lambda match: (match[0], -match[1])):
        if not found or start >= found[-1].end:
            found.append(Span(start, end, text[start:end], start > 0 and not text[start - 1].isspace()))
    return found


def matches_of(text: str, pattern: regex.Pattern[str], end: float) -> list[tuple[int, int]]:
    """Return start and end of each match; UsageError if the search is not finished at the monotonic time `end`."""
    try:
        left = max(end - time.monotonic(), 0.001)
        return [match.span() for match in pattern.finditer(text, timeout=left) if match[0]]
    except TimeoutError:
        raise UsageError(
            f"keep {pattern.pattern!r}: it takes more than {SECONDS:g} seconds for a text of {len(text):,} characters; "
            "write a simpler pattern or give shorter texts"
        ) from None


def hidden(text: str, spans: Iterable[Span]) -> str:
    """Return the text with every character of the spans replaced by HIDDEN; all other offsets stay the same."""
    parts: list[str] = []
    here = 0
    for span in spans:
        parts += [text[here : span.start], HIDDEN * len(span.text)]
        here = span.end
    return "".join([*parts, text[here:]])


def unbroken(cuts: Iterable[tuple[str, str]], spans: Sequence[Span]) -> list[tuple[str, str]]:
    """Return (sentence, gap) pairs in which sentences are joined again where a span crosses the gap between them."""
    starts, here = [span.start for span in spans], 0
    found: list[tuple[str, str]] = []
    for sentence, gap in cuts:
        last = bisect_left(starts, here) - 1  # the last span that begins before this sentence
        across = last >= 0 and spans[last].end > here
        here += len(sentence) + len(gap)
        before = "".join(found.pop()) if across else ""
        found.append((before + sentence, gap))
    return found


def seam(length: int, spans: Sequence[Span]) -> int:
    """Return the offset nearest to the middle of a text that lies in no span, or the middle if there is none."""
    middle = length // 2
    across = bisect_left(spans, middle, key=lambda one: one.start) - 1  # the last span that begins before the middle
    if across < 0 or spans[across].end <= middle:
        return middle
    ends = [place for place in (spans[across].start, spans[across].end) if 0 < place < length]
    return min(ends, key=lambda place: abs(place - middle), default=middle)


def lost(wanted: Iterable[str], text: str) -> list[str]:
    """Return the strings that a text lacks, each as often as it is missing.

    Each occurrence in the text counts for one string only, the longest that matches.
    """
    missing: list[str] = []
    for span, times in sorted(Counter(wanted).items(), key=lambda pair: -len(pair[0])):
        here = min(times, text.count(span))
        text = text.replace(span, HIDDEN, here)
        missing += [span] * (times - here)
    return missing


def phrases_of(spans: Iterable[Span], tokenizer: Tokenizer, room: int) -> list[list[int]]:
    """Return the token ids of each span, without spans that the tokeniser cannot spell or that exceed `room` tokens."""
    said = [phrase for span in spans if (phrase := pieces(span, tokenizer))]
    found: list[list[int]] = []
    for phrase in [*said, *nested(said)]:
        if len(phrase) <= room:
            found.append(phrase)
            room -= len(phrase)
    return found


def nested(phrases: list[list[int]]) -> list[list[int]]:
    """Return the phrases contained in other phrases, once for each occurrence: they are required in addition."""
    kinds = [phrase for place, phrase in enumerate(phrases) if phrase not in phrases[:place]]
    return [
        kind
        for kind in kinds
        for other in phrases
        for at in range(len(other) - len(kind) + 1)
        if kind != other and kind == other[at : at + len(kind)]
    ]


def pieces(span: Span, tokenizer: Tokenizer) -> list[int]:
    """Return the token ids that decode to exactly this span, spaced as in the source; empty if there are none."""
    stranger = tokenizer.encode(STRANGER)
    inside = tokenizer.encode(STRANGER + span.text)[len(stranger) :]
    ways = [inside, tokenizer.encode(span.text)] if span.within else [tokenizer.encode(span.text)]
    exact = (way for way in ways if min(way, default=EOS) > EOS and tokenizer.decode(way) == span.text)
    return next(exact, list[int]())
