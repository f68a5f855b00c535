"""A corpus of tagged sentences: read, repaired, and parted into training and validation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headway.data.files import Files
from headway.data.heldout import HeldOut, hold_out, is_held_out
from headway.data.schemes import Scheme, detect, nearly
from headway.data.tagged import Layout, Sentence, read
from headway.tasks.label_reports import named, oddities, place
from headway.tasks.tagging.tagger import Labelling

SHARE_OF_CHARACTERS = 0.98  # of the words have one character: the language is written without spaces


@dataclass(frozen=True)
class Annotated:
    """The sentences of a run; those to learn from have no broken spans any more."""

    train: tuple[Sentence, ...]
    dev: tuple[Sentence, ...]
    labelling: Labelling
    repaired: tuple[Sentence, ...]  # as they stood in the files
    strange: str = ""  # a label that keeps the others from spelling spans

    @classmethod
    def read(cls, data: Files, layout: Layout, scheme: Scheme | None, seed: int) -> Annotated:
        found = tuple(every(data.training(), layout, data))
        counts = Counter(label for one in found for label in one.labels)
        chosen = scheme or detect(counts)
        train, dev = parted(found, data, layout, seed)
        repaired = [replace(one, labels=tuple(chosen.repair(one.labels))) for one in train]
        labels = Counter(label for one in repaired for label in one.labels)
        ordered = sorted(labels, key=lambda label: (-labels[label], label))
        broken = tuple(one for one, other in zip(train, repaired, strict=True) if one.labels != other.labels)
        strange = "" if scheme or chosen.letters else misfit(found, counts)
        return cls(tuple(repaired), dev, Labelling(tuple(ordered), chosen, spaced(found), layout), broken, strange)

    def notes(self) -> Iterator[str]:
        """What a user should know before training."""
        if self.strange:
            yield self.strange
        if self.repaired:
            where = named([place(one) for one in self.repaired])
            rule = "they are read as the CoNLL evaluation reads them, and written anew"
            yield f"{len(self.repaired):,} sentences have spans that are spelled wrongly ({where}); {rule}"
        yield from oddities(self.train, self.dev, self.labelling.labels)


def misfit(found: Sequence[Sentence], counts: Mapping[str, int]) -> str:
    """Where a label stands that is no span's, while nearly all others are."""
    scheme, strange = nearly(counts)
    places = [(one, at) for one in found for at, label in enumerate(one.labels) if label in strange]
    if not places:
        return ""
    one, at = places[0]
    return (
        f"{one.path}:{one.line + at}: {one.labels[at]!r} is no label of {scheme.name}, as nearly all others are; so "
        "labels spell no spans here, and F1 is not measured; "
        f'mend it, or set task.scheme = "{scheme.name}" to read it as O'
    )


def every(paths: Sequence[Path], layout: Layout, data: Files) -> Iterator[Sentence]:
    for path in paths:
        yield from read(path, layout, data.invalid)


def spaced(sentences: Sequence[Sentence]) -> bool:
    words = Counter(len(word) for one in sentences for word in one.words)
    return words[1] < SHARE_OF_CHARACTERS * words.total()


def parted(
    found: tuple[Sentence, ...], data: Files, layout: Layout, seed: int
) -> tuple[tuple[Sentence, ...], tuple[Sentence, ...]]:
    """Training and validation: a file of its own, or else some sentences held out."""
    if data.validation():
        return found, tuple(every(data.validation(), layout, data))
    held: HeldOut[Sentence] = hold_out(found, seed, data.dev_sentences)
    return tuple(one for one in found if not is_held_out(seed, one.source, held.limit)), held.examples
