"""Check that line n of one side translates line n of the other, and find where it no longer does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from headway.data.checks.base import Example, Finding, excerpt, percent
from headway.data.checks.blocks import Block, Blocks
from headway.data.checks.likeness import Likeness, Traits, join, traits
from headway.data.checks.tracker import FAR_AWAY, Slip, Tracker, View

SECTION = 65_536  # lines that are learnt from and then scored together; about 26 MB
ENOUGH = 1000  # fewest lines for the finding that the files do not belong together
FEWEST = 60  # fewest lines to learn from
WINDOW = 256  # lines that are assumed to have the same shift while learning
SHORTEST_STRETCH = 25  # fewest lines of a shift; fewer may be sentences in another order
CLEARLY = 0.3  # by how much the correlation of another shift must be higher
TOO_MANY = 0.005  # share of the lines from which a finding is more severe
NO_EVIDENCE = 0.05  # nats a line below which nothing was learnt; translations give 1.5 and more
BY_CHANCE = 100.0  # total nats of overfitting on unrelated files: half a nat for each learnt parameter


class Stretch(NamedTuple):
    """Source lines `first` to `last` match target lines with an offset of `shift` (None: no target lines nearby)."""

    first: int
    last: int
    shift: int | None


class Alignment:
    """A check that learns a translation score from the corpus, then searches for shifted and unrelated lines."""

    def __init__(self, corpus: Blocks, difference: int, reach: int, one_language: bool = False) -> None:
        self.corpus = corpus
        self.one_language = one_language  # if so, neighbouring lines may be about the same thing
        self.difference = difference  # target lines minus source lines
        self.reach = reach
        self.names = ("", "")
        self.counts = (0, 0)
        self.waiting: list[tuple[Traits, Traits]] = []
        self.base = 0  # index of the first waiting line
        self.likeness: Likeness | None = None
        self.evidence: list[float] = []
        self.tracker = Tracker(reach, difference)

    def look(self, block: Block) -> None:
        self.names = (block.source.name, block.target.name)
        self.counts = (self.counts[0] + len(block.source), self.counts[1] + len(block.target))
        if block.paired or abs(self.counts[0] - self.counts[1]) <= 2 * FAR_AWAY:  # otherwise the rest cannot be matched
            self.waiting.append((traits(block.source), traits(block.target)))
        if sum(len(ours) for ours, _ in self.waiting) >= SECTION:
            self._follow(last=False)

    def _follow(self, last: bool) -> None:
        """Learn from the waiting lines, and score them."""
        source, target = (join(list(parts)) for parts in zip(*self.waiting, strict=True))
        if self.likeness is None or len(source) >= SECTION // 4:  # a short rest is scored with what was learnt before
            shifts = {0, self.tracker.shift or 0, self.difference}
            self.likeness = learn(source, target, self.reach, shifts)
            self.evidence.append(self.likeness.evidence)
        view = View(self.likeness, self.likeness.mark_source(source), self.likeness.mark_target(target), self.base)
        self.tracker.follow(view, last)
        start = max(0, self.tracker.row - FAR_AWAY - self.base)
        self.waiting = [(source.after(start), target.after(start))]
        self.base += start

    def findings(self) -> Iterator[Finding]:
        if self.likeness or min(self.counts) >= FEWEST:
            self._follow(last=True)
        found = stretches(self.tracker.slips, min(self.counts))
        shifted = [stretch for stretch in found if stretch.shift]
        if self.difference:
            yield self._different_counts(found)
        elif shifted:
            yield self._shifted(shifted)
        yield from self._unlike([stretch for stretch in found if stretch.shift is None])

    def _different_counts(self, found: list[Stretch]) -> Finding:
        ours, theirs = self.names
        title = f"{ours} has {self.counts[0]:,} lines but {theirs} has {self.counts[1]:,}"
        if found and abs(self.difference) <= FAR_AWAY:
            main = max(found, key=_size)
            return Finding("fatal", title, abs(self.difference), _advise(main), self._examples([main]))
        if found:
            lost = Stretch(*found[0][:2], None)
            return Finding("fatal", title, abs(self.difference), _advise(lost), self._examples([lost]))
        advice = f"the lines match up to line {min(self.counts):,}: look at the end of the longer file"
        if self._nothing_fits():
            advice = (
                "it is unknown where lines are missing: there are too few lines, or they do not look like translations"
            )
        return Finding("fatal", title, abs(self.difference), advice)

    def _shifted(self, found: list[Stretch]) -> Finding:
        count = sum(map(_size, found))
        share, advice = percent(count, self.counts[0]), _advise(found[0])
        if self.one_language:
            title = f"lines that are more similar to another line of the other side ({share})"
            advice = "normal if each line answers the previous one; otherwise, " + advice
            return Finding("warning", title, count, advice, self._examples(found))
        severe = "fatal" if count > TOO_MANY * self.counts[0] else "warning"
        title = f"lines that are paired with the translation of another line ({share})"
        return Finding(severe, title, count, advice, self._examples(found))

    def _unlike(self, found: list[Stretch]) -> Iterator[Finding]:
        if self.counts[0] >= ENOUGH and self._nothing_fits():
            title = "the two sides do not look like translations: do the files belong together?"
            yield Finding("warning", title, self.counts[0], "compare some lines by hand: has one file been shuffled?")
        elif found and not self.difference:
            count = sum(map(_size, found))
            share = percent(count, self.counts[0])
            title = f"stretches of lines that do not look like translations of each other ({share})"
            severe = "warning" if count > TOO_MANY * self.counts[0] else "note"
            yield Finding(severe, title, count, "read some of them", self._examples(found))

    def _nothing_fits(self) -> bool:
        chance = NO_EVIDENCE + BY_CHANCE / max(self.counts[0], 1)
        return max(self.evidence, default=0.0) < chance

    def _examples(self, found: list[Stretch]) -> tuple[Example, ...]:
        """Return the first line of the first stretches, and the line where its translation should be."""
        wanted = [(stretch.first, stretch.first + (stretch.shift or 0)) for stretch in found[:2]]
        return tuple(example for rows in wanted for example in self._pair_at(*rows))

    def _pair_at(self, ours: int, theirs: int) -> Iterator[Example]:
        before = 0
        for block in self.corpus():
            for side, number in zip(block.sides, (ours, theirs), strict=True):
                if before < number <= before + len(side):
                    index = number - before - 1
                    yield Example(side.where(index), excerpt(side.texts[index]))
            before += max(len(block.source), len(block.target))
            if before >= max(ours, theirs):
                return


def _size(stretch: Stretch) -> int:
    return stretch.last - stretch.first + 1


def _advise(stretch: Stretch) -> str:
    where = f"from source line {stretch.first:,} on"
    if stretch.shift is None:
        return f"{where} the lines do not match any more: look there for missing lines"
    side, other = ("target", "source") if stretch.shift > 0 else ("source", "target")
    number = f"{abs(stretch.shift)} line{'s' * (abs(stretch.shift) > 1)}"
    return f"{where} the translation is shifted: near there the {side} has {number} too many, or the {other} too few"


def stretches(slips: list[Slip], count: int) -> list[Stretch]:
    """Return the stretches between slips that are shifted or unmatched, without very short ones."""
    starts = [Slip(1, 0), *slips]
    found: list[Stretch] = []
    for here, after in zip(starts, [*starts[1:], Slip(count + 1, None)], strict=True):
        stretch = Stretch(here.line, after.line - 1, here.shift)
        if _size(stretch) < SHORTEST_STRETCH and found:
            continue
        if found and found[-1].shift == stretch.shift:
            stretch = Stretch(found.pop().first, *stretch[1:])
        found.append(stretch)
    return [stretch for stretch in found if stretch.shift != 0]


# ---------------------------------------------------------------- learning from lines that may be shifted


def learn(source: Traits, target: Traits, reach: int, shifts: set[int]) -> Likeness:
    """Return the score learnt with the shift that explains the corpus best, among likely shifts."""
    tried = [np.full(len(source), shift) for shift in shifts if abs(shift) <= FAR_AWAY]
    tried.append(_guess_shifts(source, target, reach))
    distinct = {shifts.tobytes(): shifts for shifts in tried}.values()
    candidates = (Likeness(source, target, _partners(shifts, len(target))) for shifts in distinct)
    return max(candidates, key=lambda likeness: likeness.evidence)


def _partners(shifts: Int[np.ndarray, " n"], count: int) -> Int[np.ndarray, " n"]:
    return np.clip(np.arange(len(shifts)) + shifts, 0, count - 1)


def _guess_shifts(source: Traits, target: Traits, reach: int) -> Int[np.ndarray, " n"]:
    """Return for each line the shift at which the lengths of its window correlate best; 0 unless it is much better."""
    count = len(source)
    shifts = np.array(sorted(range(-reach, reach + 1), key=abs))
    fits = np.stack([_fit(source, target, int(shift)) for shift in shifts])
    best = np.where(fits.max(axis=0) > fits[0] + CLEARLY, shifts[fits.argmax(axis=0)], 0)
    return np.repeat(best, WINDOW)[:count]


def _fit(source: Traits, target: Traits, shift: int) -> Float[np.ndarray, " windows"]:
    """Return the correlation of the logarithms of the lengths in each window."""
    partner = _partners(np.full(len(source), shift), len(target))
    x, y = np.log1p(source.lengths), np.log1p(target.lengths[partner])
    starts = np.arange(0, len(source), WINDOW)
    size = np.diff(np.append(starts, len(source)))
    mean = lambda values: np.add.reduceat(values, starts) / size  # noqa: E731
    spread = np.sqrt((mean(x * x) - mean(x) ** 2).clip(1e-6) * (mean(y * y) - mean(y) ** 2).clip(1e-6))
    return (mean(x * y) - mean(x) * mean(y)) / spread
