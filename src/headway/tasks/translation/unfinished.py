"""The record beside an unfinished output: of what it is made, so that nothing but the same work goes on with it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headway.errors import UsageError
from headway.storage.files import disk_trouble, replace_text

ENDING = ".resume"


def record_of(output: Path) -> Path:
    return output.with_name(output.name + ENDING)


def check_resumable(text: Path | None, output: Path | None) -> None:
    """Refuse to go on with a file that no unfinished translation has left."""
    if text is None or output is None:
        raise UsageError("--resume needs --input and --output: standard input cannot be read twice")
    record = record_of(output)
    if os.path.lexists(output) and not record.is_file():
        raise UsageError(
            f"--resume: {output} is not an unfinished translation, for {record} is missing; name another --output"
        )


@contextmanager
def recorded(output: Path, work: Mapping[str, Any]) -> Iterator[None]:
    """Keep the record of the work beside its output until the block has ended well.

    An output of other work is refused untouched. The record is also removed when the block fails and leaves no output.
    """
    record = record_of(output)
    work = json.loads(json.dumps(work))  # as it will be read again
    before = read(record) if record.exists() else None
    if before is not None and output.exists() and before != work:
        other = next(name for name in {**before, **work} if before.get(name) != work.get(name))
        raise UsageError(
            f"--resume: {output} was begun with another {other}; "
            "give the same input, model and options as then, or name another --output"
        )
    replace_text(record, json.dumps(work, ensure_ascii=False, indent=1) + "\n")
    try:
        yield
    except BaseException:
        if not output.exists():
            record.unlink(missing_ok=True)
        raise
    with disk_trouble(record, 0):
        record.unlink()


def read(record: Path) -> dict[str, Any]:
    try:
        found = json.loads(record.read_bytes())
        if isinstance(found, dict):
            return found
    except (OSError, ValueError, RecursionError):
        pass
    raise UsageError(f"{record} is not the record of an unfinished translation; name another --output")
