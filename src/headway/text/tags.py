"""Language tags such as `<2de>`, a token before the source that asks for German. No text encodes to a tag."""

from __future__ import annotations

import re
from collections.abc import Sequence

from headway.errors import UsageError

_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")


def tag_piece(tag: str) -> str:
    """Return the token of a language tag, for example `<2de>` for `de`."""
    return f"<2{tag}>"


def check_tags(tags: Sequence[str]) -> None:
    """Raise UsageError if a language tag is malformed or given twice."""
    wrong = next((tag for tag in tags if not _NAME.fullmatch(tag)), None)
    if wrong is not None:
        raise UsageError(f"language tag {wrong!r}: use 1 to 32 letters, digits, - or _, for example de or zh-Hans")
    if len(set(tags)) < len(tags):
        raise UsageError(f"language tags {', '.join(tags)}: each may be given once")
