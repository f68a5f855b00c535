"""Keep sentences apart to measure with: python split.py FOLDER..., each with train.en and train.XX, into split/

The English sentence decides, by a hash: in every language, direction and edition of the corpus the same ones are kept
apart. A sentence of another language that stands in dev or test leaves train too: nothing is met on either side.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from pathlib import Path

SHARES = 84  # one for test, one for dev, the rest for train
OUT = Path("split")

Pair = tuple[str, str]  # English, other language


def part_of(english: str) -> str:
    share = int(hashlib.sha256(english.encode()).hexdigest()[:12], 16) % SHARES
    return {0: "test", 1: "dev"}.get(share, "train")


def split(pairs: Iterable[Pair]) -> dict[str, list[Pair]]:
    parts: dict[str, list[Pair]] = {"train": [], "dev": [], "test": []}
    for pair in dict.fromkeys(pairs):  # the same pair again teaches nothing
        parts[part_of(pair[0])].append(pair)
    apart = {other for name in ("dev", "test") for _, other in parts[name]}
    parts["train"] = [pair for pair in parts["train"] if pair[1] not in apart]
    return parts


def read(folder: Path, other: str) -> list[Pair]:
    sides = ((folder / f"train.{end}").read_text(encoding="utf-8").split("\n") for end in ("en", other))
    return [pair for pair in zip(*sides, strict=True) if all(side.strip() for side in pair)]


def write(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


def main(folders: list[Path]) -> None:
    english: dict[str, None] = {}
    samples: list[str] = []
    for folder in folders:
        other = next(path.suffix[1:] for path in sorted(folder.glob("train.*")) if path.suffix != ".en")
        for name, pairs in split(read(folder, other)).items():
            for end, lines in zip(("en", other), zip(*pairs, strict=True) if pairs else ((), ()), strict=True):
                write(OUT / f"en-{other}" / f"{name}.{end}", lines)
            print(f"en-{other} {name}: {len(pairs):,} pairs")
            english |= dict.fromkeys(pair[0] for pair in pairs if name == "train")
            samples += [side for pair in pairs[:: max(1, len(pairs) // 3)][:3] for side in pair if name == "dev"]
    write(OUT / "all.en", english)  # every English sentence can be translated into all other languages
    write(OUT / "sample.txt", samples)
    print(f"all.en: {len(english):,} sentences")


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
