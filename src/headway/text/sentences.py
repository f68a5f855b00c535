"""Cut a paragraph into sentences, and say what stood between them."""

from __future__ import annotations

import re

# After . ! ? … and the like, closing quotes and brackets, then space; or at once after Chinese and Japanese ones.
_END = re.compile(r"(?<=[.!?…؟।॥])[\"'”’»)\]]*(\s+)(?=[\"'“‘«(\[¿¡]*[^\W_a-z])|(?<=[。！？])([”’」』）]*)(?=\S)")
_ABBREVIATION = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Dr|Prof|St|Sr|Jr|vs|etc|e\.g|i\.e|cf|No|Nr|bzw|z\.B|d\.h|u\.a|M|Mme|Mlle)|\b[A-Z]|\b\d+)\.$"
)
LONGEST_ABBREVIATION = 32  # characters before the end that can say so; a number with more digits ends a sentence


def sentences(text: str) -> list[tuple[str, str]]:
    """Pairs of a sentence and the space that follows it; joined they are the text again. Time is linear."""
    found: list[tuple[str, str]] = []
    start = 0
    for match in _END.finditer(text):
        gap = match.group(1) or ""
        end = match.end() - len(gap)
        if not _ABBREVIATION.search(text, max(start, end - LONGEST_ABBREVIATION), end):
            found.append((text[start:end], gap))
            start = match.end()
    found.append((text[start:], ""))
    return found
