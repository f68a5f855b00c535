"""Which pairs are kept apart for validation when no files are given for it."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, runtime_checkable

from headway.data.filters import fingerprint

LARGEST_SHARE = 20  # at most one pair in so many is held out


@runtime_checkable
class HasSource(Protocol):
    @property
    def source(self) -> str: ...


Example = TypeVar("Example", bound=HasSource)


@dataclass(frozen=True)
class HeldOut(Generic[Example]):
    """Held out are the sources whose key is not above `limit`, with all their translations."""

    limit: int
    examples: tuple[Example, ...]


def split_key(seed: int, source: str) -> int:
    """A number that depends on the seed and the source sentence alone, not on its place or its case."""
    return fingerprint(source.strip().casefold(), seed)


def is_held_out(seed: int, source: str, limit: int) -> bool:
    return split_key(seed, source) <= limit


def hold_out(examples: Iterable[Example], seed: int, most: int) -> HeldOut[Example]:
    """The sentences with the smallest keys, `most` pairs or 5 % of all, whichever is less.

    Equal sources go together, so no held-out source is also trained on. One pass; about `most` pairs in memory.
    """
    keys: list[int] = []  # negative: the largest key first
    groups: dict[int, list[Example]] = {}
    read = waiting = 0
    for example in examples:
        read += 1
        key = split_key(seed, example.source)
        group = groups.get(key)
        if group is None:
            group = groups[key] = []
            heapq.heappush(keys, -key)
        if len(group) <= most:  # a larger group can never be chosen
            group.append(example)
            waiting += 1
        while keys and waiting - len(groups[-keys[0]]) >= most:
            waiting -= len(groups.pop(-heapq.heappop(keys)))
    return _smallest(groups, min(most, read // LARGEST_SHARE))


def _smallest(groups: dict[int, list[Example]], most: int) -> HeldOut[Example]:
    limit, chosen = -1, list[Example]()
    for key in sorted(groups):
        if len(chosen) + len(groups[key]) > most:
            break
        limit, chosen = key, chosen + groups[key]
    return HeldOut(limit, tuple(chosen))
