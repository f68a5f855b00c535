"""The columns that are written for each translated line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from headway.options import check_ranges, option
from headway.tasks.decoding_options import DecodingOptions
from headway.tasks.translation.result import Translation


@dataclass(frozen=True)
class OutputColumns:
    """What is written for each line besides its translation."""

    panel: ClassVar[str] = "Output"

    scores: bool = option(False, "Add a column with the score of each translation.")
    confidence: float = option(0.0, "Leave the output empty where the confidence is lower than this.", least=0, most=1)
    json_lines: bool = option(False, "Write one JSON object per line, with scores.", flags=("--json",))

    def __post_init__(self) -> None:
        check_ranges(self)

    def numbered(self, options: DecodingOptions) -> bool:
        """Return whether a line has several rows, each with its number."""
        return options.n_best > 1 and not self.json_lines

    def rows(self, number: int, translation: Translation, options: DecodingOptions) -> Iterator[str]:
        if self.json_lines:
            yield json.dumps(self.described(translation, options), ensure_ascii=False)
        elif self.numbered(options):
            for one in (translation, *translation.alternatives):
                yield f"{number}\t{self.row(one, options)}\t{one.score:.4f}"
        else:
            yield self.row(translation, options)

    def row(self, translation: Translation, options: DecodingOptions) -> str:
        cells = [" ".join(self.text(translation).splitlines())]
        if self.scores and not self.numbered(options):
            cells.append(f"{translation.score:.4f}")
        if options.alignments:
            cells.append(" ".join(f"{a}-{b}" for a, b in translation.alignment))
        return "\t".join(cells)

    def text(self, translation: Translation) -> str:
        return translation.text if translation.confidence >= self.confidence else ""

    def described(self, translation: Translation, options: DecodingOptions) -> dict[str, Any]:
        """Return a line as a JSON object, with the names of the server's answers."""
        found: dict[str, Any] = {
            "source": translation.source,
            "text": self.text(translation),
            "score": round(translation.score, 4),
            "confidence": round(translation.confidence, 4),
            "finished": translation.finished,
        }
        if options.alignments:
            found["alignment"] = translation.alignment
        if translation.lost:
            found["missing_spans"] = translation.lost
        if options.n_best > 1:
            found["alternatives"] = [
                {"text": self.text(one), "score": round(one.score, 4)} for one in translation.alternatives
            ]
        return found
