"""The texts of a classification run, parted into training and validation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headway.data.files import Files
from headway.data.heldout import hold_out, is_held_out
from headway.data.labelled import Document
from headway.errors import UsageError
from headway.tasks.classification.classifier import Classes
from headway.tasks.label_reports import named, oddities, place


@dataclass(frozen=True)
class Documents:
    """The texts of a run, parted into training and validation."""

    train: tuple[Document, ...]
    dev: tuple[Document, ...]
    classes: Classes
    empty: tuple[Document, ...]  # left out

    @classmethod
    def part(
        cls, train: Sequence[Document], dev: Sequence[Document], classes: Classes, files: Files, seed: int
    ) -> Documents:
        full = [one for one in train if one.text.strip()]
        if not full:
            raise UsageError(f"{files.training()[0]}:1: no text with a label is in it")
        if not files.validation():
            held = hold_out(full, seed, files.dev_sentences)
            full, dev = [one for one in full if not is_held_out(seed, one.source, held.limit)], held.examples
        counts = Counter(label for one in full for label in one.labels)
        labels = tuple(sorted(counts, key=lambda label: (-counts[label], label)))
        if len(labels) < 2 and not classes.form.separator:
            raise UsageError(
                f"{files.training()[0]}: all texts have the label {''.join(labels)!r}; two are wanted at least"
            )
        empty = tuple(one for one in (*train, *dev) if not one.text.strip())
        return cls(tuple(full), tuple(one for one in dev if one.text.strip()), Classes(labels, classes.form), empty)

    def notes(self) -> Iterator[str]:
        """What a user should know before training."""
        if self.empty:
            where = named([place(one) for one in self.empty])
            yield f"{len(self.empty):,} texts are empty and left out ({where})"
        yield from oddities(self.train, self.dev, self.classes.labels)
