"""A translator that writes down how it came to every line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headway.errors import UsageError
from headway.inspection.trace_request import EVERYTHING, TooLongError, TraceRequest
from headway.storage.files import disk_trouble
from headway.tasks.decoding_options import DecodingOptions
from headway.tasks.trace import trace
from headway.tasks.trace_files import as_json
from headway.tasks.translation.result import Translation
from headway.tasks.translation.translator import Translator


class Tracing(Translator):
    """One trace a line, in JSON; `null` for lines that are empty or too long to be shown."""

    def __init__(self, translator: Translator, path: Path, name: str) -> None:
        super().__init__(
            **{key: getattr(translator, key) for key in ("run", "tokenizers", "model", "chosen", "device")}
        )
        self.path, self.name = path, name
        with disk_trouble(path, 0):
            path.write_bytes(b"")

    def translate(
        self, lines: Sequence[str], options: DecodingOptions | None = None, **changes: Any
    ) -> list[Translation]:
        request = template(self.decoding(options, **changes), self)
        rows = "".join(f"{self.row(line, request)}\n" for line in lines)
        with disk_trouble(self.path, len(rows)), self.path.open("ab") as out:
            out.write(rows.encode())
        return super().translate(lines, options, **changes)

    def row(self, line: str, request: dict[str, Any]) -> str:
        if not line.strip():
            return json.dumps(None)
        try:
            return as_json(trace(self, TraceRequest(line, model=self.name, include=EVERYTHING, **request)))
        except TooLongError:
            return json.dumps(None)


def template(how: DecodingOptions, translator: Translator) -> dict[str, Any]:
    """A trace shows plain beam search, so that what is written down is what was done."""
    usual = DecodingOptions()
    names = ("temperature", "best", "no_repeat", "glossary", "keep")
    other = [name for name in names if getattr(how, name) != getattr(usual, name)]
    if other or how.beam > 10:
        asked = f"a beam of {how.beam}" if how.beam > 10 else other[0].replace("_", "-")
        raise UsageError(f"--trace shows a plain search with a beam of 1 to 10, not {asked}; leave one of them out")
    prefix = tuple(translator.tokenizers.target.encode(how.prefix)) if how.prefix else ()
    return {"beam_size": how.beam, "alpha": min(how.alpha, 2.0), "prefix": prefix, "target": how.to}
