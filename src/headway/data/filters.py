"""Filters of sentence pairs. Each returns the reason to drop a pair, or None to keep it."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field

Filter = Callable[[str, str], str | None]

SHORTEST = 10  # characters; shorter sides count as this long, so that short pairs pass the ratio filter


def empty(source: str, target: str) -> str | None:
    """Drop pairs with a blank side."""
    return None if source.strip() and target.strip() else "empty"


def identical(source: str, target: str) -> str | None:
    return "identical on both sides" if source.strip() == target.strip() else None


@dataclass(frozen=True)
class Longest:
    """Drop pairs with a side of more than `characters` characters."""

    characters: int

    def __call__(self, source: str, target: str) -> str | None:
        over = max(len(source), len(target)) > self.characters
        return f"longer than {self.characters:,} characters" if over else None


@dataclass(frozen=True)
class Uneven:
    """Drop pairs in which one side is more than `ratio` times longer than the other, as they are no translations."""

    ratio: float

    def __call__(self, source: str, target: str) -> str | None:
        shorter, longer = sorted((len(source), len(target)))
        return f"over {self.ratio:g} times longer on one side" if longer > self.ratio * max(shorter, SHORTEST) else None


@dataclass
class Duplicate:
    """Drop pairs that occurred before with the same source and target."""

    seen: Seen = field(default_factory=lambda: Seen())

    def __call__(self, source: str, target: str) -> str | None:
        return "duplicate" if self.seen.add(fingerprint(f"{source}\n{target}")) else None


def fingerprint(text: str, seed: int = 0) -> int:
    """Return a 64-bit hash, equal on all machines; 10 million texts have a collision with probability 3e-6."""
    salt = seed.to_bytes(16, "little", signed=True)
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, salt=salt).digest()
    return int.from_bytes(digest, "little")


class Seen:
    """A set of 64-bit integers that takes 11 to 22 bytes for each, where a Python set takes about 90."""

    def __init__(self) -> None:
        self.slots = array("Q", bytes(8 << 10))
        self.count = 0

    def add(self, number: int) -> bool:
        """Add a number; return whether it was in the set before."""
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
