"""Reasons to leave a pair out. Each filter looks at one pair and gives a reason, or None to keep it."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field

Filter = Callable[[str, str], str | None]

SHORTEST = 10  # characters a side counts for at least, so that short pairs pass the ratio


def empty(source: str, target: str) -> str | None:
    """Nothing to read or nothing to write: such a pair cannot teach."""
    return None if source.strip() and target.strip() else "empty"


def identical(source: str, target: str) -> str | None:
    return "identical on both sides" if source.strip() == target.strip() else None


@dataclass(frozen=True)
class Longest:
    """Leave out pairs with a side of more than so many characters."""

    characters: int

    def __call__(self, source: str, target: str) -> str | None:
        over = max(len(source), len(target)) > self.characters
        return f"longer than {self.characters:,} characters" if over else None


@dataclass(frozen=True)
class Uneven:
    """Leave out pairs where one side is so many times longer than the other: they hardly translate each other."""

    ratio: float

    def __call__(self, source: str, target: str) -> str | None:
        shorter, longer = sorted((len(source), len(target)))
        return f"over {self.ratio:g} times longer on one side" if longer > self.ratio * max(shorter, SHORTEST) else None


@dataclass
class Duplicate:
    """Leave out pairs that came before, both sides equal."""

    seen: Seen = field(default_factory=lambda: Seen())

    def __call__(self, source: str, target: str) -> str | None:
        return "duplicate" if self.seen.add(fingerprint(f"{source}\n{target}")) else None


def fingerprint(text: str, seed: int = 0) -> int:
    """64 bits that are the same on every machine; two texts of ten million share them with chance 3 in a million."""
    salt = seed.to_bytes(16, "little", signed=True)
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, salt=salt).digest()
    return int.from_bytes(digest, "little")


class Seen:
    """A set of 64-bit numbers in 11 to 22 bytes each (a Python set takes about 90), growing by doubling."""

    def __init__(self) -> None:
        self.slots = array("Q", bytes(8 << 10))
        self.count = 0

    def add(self, number: int) -> bool:
        """Put a number in; say whether it was there before."""
        if 4 * self.count >= 3 * len(self.slots):
            self._grow()
        return self._put(number or 1)  # 0 marks a free slot

    def _put(self, number: int) -> bool:
        slots, last = self.slots, len(self.slots) - 1
        place = number & last
        while held := slots[place]:
            if held == number:
                return True
            place = (place + 1) & last
        slots[place] = number
        self.count += 1
        return False

    def _grow(self) -> None:
        old, self.count = self.slots, 0
        self.slots = array("Q", bytes(16 * len(old)))
        for number in old:
            if number:
                self._put(number)
