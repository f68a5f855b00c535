"""Choose the examples that are held out for validation if there are no validation files."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, runtime_checkable

from headway.data.filters import fingerprint

LARGEST_SHARE = 20  # at most one example in 20 is held out


@runtime_checkable
class HasSource(Protocol):
    @property
    def source(self) -> str: ...


Example = TypeVar("Example", bound=HasSource)


@dataclass(frozen=True)
class HeldOut(Generic[Example]):
    """The held-out examples: all whose source has a key of at most `limit`."""

    limit: int
    examples: tuple[Example, ...]


def split_key(seed: int, source: str) -> int:
    """Return a hash of the source sentence and the seed, independent of position and case."""
    return fingerprint(source.strip().casefold(), seed)


def is_held_out(seed: int, source: str, limit: int) -> bool:
    return split_key(seed, source) <= limit


def hold_out(examples: Iterable[Example], seed: int, most: int) -> HeldOut[Example]:
    """Return the examples with the smallest keys: `most` of them or 5 % of all, whichever is less.

    Equal sources stay together, so no held-out source is trained on. One pass, with about `most` examples in memory.
    """
    keys: list[int] = []  # negated, so that the largest key is first
    groups: dict[int, list[Example]] = {}
    read = waiting = 0
    for example in examples:
        read += 1
        key = split_key(seed, example.source)
        group = groups.get(key)
        if group is None:
            group = groups[key] = []
            heapq.heappush(keys, -key)
        if len(group) <= most:  # a larger group is never chosen
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
