"""Replies: the last utterances of a conversation to the next one, from any file with an utterance a line and an empty
line between conversations, for example film dialogue (MSCTD, https://github.com/XL2248/MSCTD, non-commercial use).

    python examples/dialogue.py train.en dev.en dialogue --context 2
    headway train recipes/dialogue.toml --out talker
    headway evaluate talker --source dialogue/dev.context --reference dialogue/dev.reply --metrics bleu,chrf
    headway translate talker --temperature 0.8 < contexts.txt

Utterances of a context stand between ` | `, the latest last. A conversation has many good replies: scores against one
of them are low, and say little beyond which of two models is the better.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from pairs import read_lines, write_pairs


def turns(lines: list[str], context: int) -> Iterator[tuple[str, str]]:
    """Every utterance that answers one, with up to so many before it."""
    before: list[str] = []
    for line in lines:
        reply = " ".join(line.split())
        if reply and before:
            yield " | ".join(before), reply
        before = [*before, reply][-context:] if reply else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train", type=Path)
    parser.add_argument("dev", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--context", type=int, default=2)
    asked = parser.parse_args()
    for part, path in (("train", asked.train), ("dev", asked.dev)):
        write_pairs(asked.folder, part, ("context", "reply"), turns(read_lines(path), asked.context))


if __name__ == "__main__":
    main()
