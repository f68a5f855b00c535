"""Where the tags of a sentence go in its translation: they follow the words they stood around."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

# Words, single Chinese and Japanese characters, single signs.
_UNIT = re.compile(r"[぀-ヿ㐀-䶿一-鿿豈-﫿]|[^\W぀-ヿ㐀-䶿一-鿿豈-﫿]+|[^\w\s]")
Links = Sequence[tuple[int, int]]


@dataclass
class Node:
    """An inline element: its two tags, and the characters of the sentence between them."""

    opening: str
    closing: str
    start: int
    end: int
    children: list[Node] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether it holds no characters and no other element."""
        return self.start == self.end and not self.children


@dataclass(frozen=True)
class Unit:
    """The smallest thing that a tag can stand before or behind."""

    start: int
    end: int
    word: int  # number of the word it is in, as cut by spaces
    is_word: bool  # or a sign

    def within(self, node: Node) -> bool:
        return self.start < node.end and node.start < self.end


@dataclass(frozen=True)
class Placed:
    """A node in the translation, by characters."""

    node: Node
    start: int
    end: int
    children: list[Placed]


def units(text: str) -> list[Unit]:
    return [
        Unit(word.start() + unit.start(), word.start() + unit.end(), number, unit.group()[0].isalnum())
        for number, word in enumerate(re.finditer(r"\S+", text))
        for unit in _UNIT.finditer(word.group())
    ]


def origins(source: list[Unit], target: list[Unit], links: Links) -> list[int]:
    """For each unit of the translation the number of the source's unit it came from."""
    from_word = {to: origin for origin, to in links}
    believed = from_word.keys() == set(range(_words(target))) and max(from_word.values(), default=0) < _words(source)
    if not believed:  # no links, or of words cut in another way: then what is in the middle stays in the middle
        return _in_step(range(len(source)), source, range(len(target)), target)
    found = [0] * len(target)
    in_source, in_target = _by_word(source), _by_word(target)
    for to, origin in from_word.items():
        there = in_target[to]
        for index, unit in zip(there, _in_step(in_source[origin], source, there, target), strict=True):
            found[index] = unit
    return found


def _by_word(text: list[Unit]) -> list[list[int]]:
    """For each word the numbers of its units."""
    found: list[list[int]] = [[] for _ in range(_words(text))]
    for index, unit in enumerate(text):
        found[unit.word].append(index)
    return found


def _words(text: list[Unit]) -> int:
    return text[-1].word + 1 if text else 0


def _in_step(here: Sequence[int], source: list[Unit], there: Sequence[int], target: list[Unit]) -> list[int]:
    """Walk both sides at the same pace, words by words and signs by signs."""
    found = [0] * len(there)
    for kind in (True, False):
        ours = [i for i in here if source[i].is_word is kind] or list(here)
        theirs = [at for at, i in enumerate(there) if target[i].is_word is kind]
        for step, at in enumerate(theirs):
            found[at] = ours[step * len(ours) // len(theirs)] if ours else 0
    return found


class Projection:
    """Finds one unbroken place for every node, inside its parent's and beside its siblings': no tag is ever lost."""

    def __init__(self, source: str, target: str, links: Links) -> None:
        self.text, self.source, self.target = source, units(source), units(target)
        self.length = len(target)
        self.origins = origins(self.source, self.target, links)

    def place(self, nodes: list[Node]) -> list[Placed]:
        return self._level(nodes, range(len(self.target)), 0, self.length)

    def _level(self, nodes: list[Node], room: range, start: int, end: int) -> list[Placed]:
        owners = self._owners(nodes)
        free = set(room)
        windows: dict[int, range] = {}
        for number, node in enumerate(nodes):
            windows[number] = window = self._window(number, node, owners, room, free)
            free -= set(window)
        placed = []
        for number, node in enumerate(nodes):
            window = windows[number]
            if window:
                first, last = max(self.target[window.start].start, start), min(self.target[window.stop - 1].end, end)
            else:
                first = last = self._gap(node, room, [w for w in windows.values() if w], start, end)
            placed.append(Placed(node, first, last, self._level(node.children, window, first, last)))
        return sorted(placed, key=lambda one: (one.start, one.end))  # stable: empty ones keep their order

    def _owners(self, nodes: list[Node]) -> dict[int, int]:
        """Source unit -> the node it is in; the first one, if a word is in two."""
        owners: dict[int, int] = {}
        for number, node in enumerate(nodes):
            for index, unit in enumerate(self.source):
                if unit.within(node):
                    owners.setdefault(index, number)
        return owners

    def _window(self, number: int, node: Node, owners: dict[int, int], room: range, free: set[int]) -> range:
        """The run with the most letters that came from inside the node, less those that did not.

        Letters, not units: an article often looks at the noun that follows, but is shorter.
        """
        if number not in owners.values():
            return range(0)
        gains = {index: self._gain(index, number, owners.get(self.origins[index])) for index in room}
        best, window, total, begin = 0, range(0), 0, room.start
        for index in room:
            if index not in free or gains[index] is None:
                total, begin = 0, index + 1
                continue
            total += gains[index] or 0
            if total > best or (total == best > 0 and index + 1 - begin > len(window)):
                best, window = total, range(begin, index + 1)
            if total <= 0:
                total, begin = 0, index + 1
        return window or self._nearest(node, gains, free)

    def _gain(self, index: int, number: int, owner: int | None) -> int | None:
        """What a unit adds to a node; None: it is a sibling's."""
        if owner not in (None, number):
            return None
        letters = self.target[index].end - self.target[index].start
        return letters if owner == number else -letters

    def _nearest(self, node: Node, gains: dict[int, int | None], free: set[int]) -> range:
        """An element must not lose all of its words while there is one to give: an empty link cannot be clicked."""
        left = [index for index in gains if index in free and gains[index] is not None and self.target[index].is_word]
        wanted = self._share(node.start) * len(self.target)
        best = min(left, key=lambda index: abs(index - wanted), default=None)
        return range(0) if best is None else range(best, best + 1)

    def _share(self, offset: int) -> float:
        return sum(unit.end <= offset for unit in self.source) / max(len(self.source), 1)

    def _gap(self, node: Node, room: range, taken: list[range], start: int, end: int) -> int:
        """Where an element without words goes: before what followed it, or behind what it followed."""
        before = sum(unit.end <= node.start for unit in self.source)
        follower = next((index for index in room if self.origins[index] == before), None)
        leader = next((index + 1 for index in reversed(room) if self.origins[index] == before - 1), None)
        attached = node.start > 0 and not self.text[node.start - 1].isspace()
        choices = [leader, follower] if attached else [follower, leader]
        gap = next((choice for choice in choices if choice is not None), None)
        if gap is None:
            gap = room.start + round(self._share(node.start) * len(room))
        gap = next((window.stop for window in taken if window.start < gap < window.stop), gap)
        return self._offset(gap, room, attached, start, end)

    def _offset(self, gap: int, room: range, attached: bool, start: int, end: int) -> int:
        if not room:
            return start
        if gap >= room.stop:
            return end
        if gap <= room.start:
            return start
        return self.target[gap - 1].end if attached else self.target[gap].start
