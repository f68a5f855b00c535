"""What a parser costs grows with its input and no faster, whatever the input is."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import docx
import pytest

from headway.data.glossary import Glossary
from headway.serve.detection import Detector
from headway.serve.documents import open_document
from headway.serve.projection import Links, Projection
from headway.text import protected_spans
from headway.text.sentences import sentences

Text = TypeVar("Text", str, bytes)
SHORT, TIMES = 1_500, 8  # characters, and how many times as many
MOST = 3 * TIMES  # times as long; quadratic work takes TIMES * TIMES
FLOOR = 0.1  # seconds of processor that are never too long for SHORT * TIMES characters

# Each of these is repeated; what a parser takes for the beginning of something never ends.
FAMILIES = {
    "abbreviations": "A. ", "sentences": "Go on. ", "numbers": "1. ", "digits": "7", "dots": ".", "spaces": " ",
    "lines": "\n", "dotted spaces": ". ", "letters": "x", "brackets": "(((", "closing": '."))) ', "quotes": '"',
    "stops": "。", "stops and quotes": "。”", "full stop and spaces": "x.   ", "marks": "a\u0301\u0301\u0301",
    "nested": "<b><b>", "pairs": "<b>x</b> ", "closed": "</b>", "entities": "&amp;", "ampersands": "&", "names": "&amp",
    "less": "<", "tags": "<a ", "attributes": ' a="x"', "unclosed": '<a b="', "comments": "<!--", "marked": "<!",
    "protected": "<code>", "raw": "<script>", "titles": "<title>x</title>", "kept": '<i class="notranslate">x</i>',
    "braces": "{{{{", "carriage returns": "x\r", "dashes": "- ", "times": "00:00:01,0 --> 00:00:02,0\nx\n\n",
    "time": "00:00:01,0 -->", "wide": "語", "tabs": "\t", "images": "<img>x. Y ", "backslashes": "\\",
}  # fmt: skip


@dataclass
class Said:
    """A translation that is not the text, so that it has to be put in."""

    text: str
    alignment: Links = field(default_factory=list)


def document(suffix: str, around: str = "{}") -> Callable[[str], None]:
    """Reads a file and writes it again."""

    def act(text: str) -> None:
        opened = open_document(suffix, around.replace("{}", text).encode())
        opened.packed([Said(text.upper(), in_step(text)) for text in opened.texts])

    return act


def in_step(text: str) -> list[tuple[int, int]]:
    return [(word, word) for word in range(len(text.split()))]


def project(text: str) -> None:
    """Many words and few tags; tags are bounded before."""
    Projection(text, text.upper(), in_step(text)).place([])


def keep(text: str) -> None:
    spans = protected_spans.spans_of(text, protected_spans.compiled([r"\{\w{1,9}\}", "[0-9]+", "x", "A. .*"]))
    protected_spans.hidden(text, spans)
    protected_spans.unbroken(sentences(text), spans)
    protected_spans.seam(len(text), spans)


def term(text: str) -> None:
    Glossary(tuple((text[:size] or "x", "y") for size in (1, 7, 200))).wanted(text)


PARSERS: dict[str, Callable[[str], object]] = {
    "sentences": sentences,
    "text": document(".txt"),
    "html": document(".html"),
    "html after a tag": document(".html", "<p title=x {}"),
    "html of protected elements": document(".html", "<code>{}</code> x"),
    "subtitles": document(".srt", "1\n00:00:01,0 --> 00:00:02,0\nx\n\n2\n00:00:02,0 --> 00:00:03,0\n{}\n"),
    "projection": project,
    "detection": Detector(["en", "de"]).guesses,
    "keep": keep,
    "glossary": term,
}


def seconds(parse: Callable[[Text], object], text: Text) -> float:
    """Of processor time: what else the machine does counts little."""
    before = time.process_time()
    parse(text)
    return time.process_time() - before


def check_linear(parse: Callable[[Text], object], short: Text, long: Text) -> None:
    """Measured again only when it looks bad."""
    took = seconds(parse, long)
    if took < FLOOR or took < MOST * seconds(parse, short):
        return
    took, least = (min(seconds(parse, text) for _ in range(3)) for text in (long, short))
    assert took < FLOOR or took < MOST * least, (
        f"{took:.2f} s for {len(long):,} characters, {least:.3f} s for an eighth"
    )


def word_file(runs: int) -> bytes:
    """A paragraph of runs that look different in turn, all of a formatting that is long to write down."""
    found = docx.Document()
    paragraph = found.add_paragraph()
    for number in range(runs):
        run = paragraph.add_run("word ")
        run.bold = number % 2 == 1
        run.font.name = "x" * 100
    stream = io.BytesIO()
    found.save(stream)
    return stream.getvalue()


def repeated(unit: str, length: int) -> str:
    return (unit * (1 + length // len(unit)))[:length]


def translate_word(data: bytes) -> None:
    opened = open_document(".docx", data)
    opened.packed([Said(text.upper(), in_step(text)) for text in opened.texts])


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("family", FAMILIES)
def test_time_is_linear(family: str, parser: str) -> None:
    unit, parse = FAMILIES[family], PARSERS[parser]
    check_linear(parse, repeated(unit, SHORT), repeated(unit, SHORT * TIMES))


def test_time_of_word_files_is_linear() -> None:
    check_linear(translate_word, *(word_file(runs) for runs in (100, 100 * TIMES)))
