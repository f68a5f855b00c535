"""SubRip subtitles (.srt): numbers and times stay, the words of each cue are translated as one."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from html import unescape

from headway.serve.markup import Markup
from headway.serve.problems import Problem
from headway.serve.tagged_sentence import Translated

_TIME = r"\d{1,3}:\d{1,2}:\d{1,2}[,.]\d{1,3}"
_TIMES = rf"[ \t]*{_TIME}[ \t]*-->[ \t]*{_TIME}[^\r\n]*\r?\n"
_CUE = re.compile(rf"^({_TIMES})((?:[ \t]*[^\s][^\r\n]*(?:\r?\n|\Z))+)", re.MULTILINE)
_WORD = re.compile(r"(?:<[^<>]*>|[^\s<]|<)+")  # with the tags at it


class Cue:
    """What is shown at one time, on some lines."""

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()
        self.line_end = "\r\n" if "\r\n" in text else "\n"
        self.last = self.line_end if text.endswith("\n") else ""
        self.is_dialogue = len(self.lines) > 1 and all(line.lstrip().startswith(("-", "–", "—")) for line in self.lines)
        parts = self.lines if self.is_dialogue else [" ".join(line.strip() for line in self.lines)]
        self.parts = [Markup(part) for part in parts]

    def rendered(self, done: Iterator[Translated]) -> str:
        """Takes as many translations as it needs."""
        parts = [unescape(part.rendered([next(done) for _ in part.texts])) for part in self.parts]
        lines = parts if self.is_dialogue else wrap_words(parts[0], len(self.lines))
        return self.line_end.join(lines) + self.last


class Subtitles:
    """Cues, and all that stands between them."""

    def __init__(self, text: str) -> None:
        self.pieces: list[str | Cue] = []
        at = 0
        for match in _CUE.finditer(text):
            self.pieces += [text[at : match.end(1)], Cue(match[2])]
            at = match.end()
        self.pieces.append(text[at:])
        self.cues = [piece for piece in self.pieces if isinstance(piece, Cue)]
        if not self.cues:
            raise Problem(400, "the file holds no subtitles: there is no line with two times and --> between them")

    @property
    def texts(self) -> list[str]:
        return [text for cue in self.cues for part in cue.parts for text in part.texts]

    @property
    def aligned(self) -> bool:
        return any(part.aligned for cue in self.cues for part in cue.parts)

    def rendered(self, translations: Sequence[Translated]) -> str:
        done = iter(translations)
        return "".join(piece if isinstance(piece, str) else piece.rendered(done) for piece in self.pieces)


def wrap_words(text: str, count: int) -> list[str]:
    """On at most so many lines, about equally long."""
    words = deque(_WORD.findall(text))
    lines: list[str] = []
    left = sum(map(len, words)) + len(words)
    while words:
        wanted = left / max(count - len(lines), 1)
        line = [words.popleft()]
        length = len(line[0])
        while words and (length + len(words[0]) / 2 < wanted or len(lines) == count - 1):
            length += 1 + len(words[0])
            line.append(words.popleft())
        lines.append(" ".join(line))
        left -= length + 1
    return lines or [text]
