"""What the examples share: reading a file, packed or not, and writing two that belong line to line."""

from __future__ import annotations

import lzma
from collections.abc import Iterable
from pathlib import Path


def read_lines(path: Path) -> list[str]:
    content = path.read_bytes()
    text = lzma.decompress(content) if path.suffix == ".xz" else content
    return text.decode("utf-8").removesuffix("\n").split("\n")


def write_pairs(folder: Path, part: str, sides: tuple[str, str], pairs: Iterable[tuple[str, str]]) -> None:
    """For example train.words and train.trees, from pairs of a source and a target."""
    found = list(pairs)
    folder.mkdir(parents=True, exist_ok=True)
    for side, column in zip(sides, zip(*found, strict=True), strict=True):
        (folder / f"{part}.{side}").write_text("".join(f"{text}\n" for text in column), encoding="utf-8")
    print(f"{folder / part}.{sides[0]} and .{sides[1]}: {len(found):,} lines")
