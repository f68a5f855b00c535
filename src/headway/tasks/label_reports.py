"""What tagging and classification share: notes on labelled files, model cards, and models that decide together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from headway.data.files import Files
from headway.errors import UsageError
from headway.storage.card import CardFacts, DataFile, Score

NAMED = 5  # places that are named


@runtime_checkable
class Labelled(Protocol):
    """An example, its labels, and where it stands."""

    @property
    def source(self) -> str: ...
    @property
    def labels(self) -> tuple[str, ...]: ...
    @property
    def path(self) -> str: ...
    @property
    def line(self) -> int: ...


def place(example: Labelled) -> str:
    return f"{example.path}:{example.line}"


def named(places: Sequence[str]) -> str:
    more = f" and {len(places) - NAMED} more" if len(places) > NAMED else ""
    return ", ".join(places[:NAMED]) + more


def oddities(train: Sequence[Labelled], dev: Sequence[Labelled], known: Sequence[str]) -> Iterator[str]:
    """Validation examples that cannot be right, or are no test."""
    labels = set(known)
    strange = {label: one for one in reversed(dev) for label in one.labels if label not in labels}
    for label, one in strange.items():
        yield f"{place(one)}: validation label {label!r} is not in the training file"
    seen = {one.source for one in train}
    both = sum(one.source in seen for one in dev)
    if both:
        yield f"{both:,} of {len(dev):,} validation examples stand in the training file too"


def middling(examples: Sequence[Labelled]) -> int:
    """An example of middling length shows more than the first one."""
    order = sorted(range(len(examples)), key=lambda index: (len(examples[index].source), index))
    return order[len(order) // 2]


def say_labels(labels: Sequence[str]) -> str:
    return f"{len(labels)} ({', '.join(labels[:8])}{', ...' if len(labels) > 8 else ''})"


def card_of(
    task: str,
    folder: Path,
    files: Files,
    counts: tuple[int, int],  # examples of training and of validation
    sizes: Mapping[str, int],
    scores: Mapping[str, float],
    units: tuple[str, str],  # of the loss, and of all other scores
) -> CardFacts:
    held = ", ".join(map(str, files.validation())) or "held out"
    return CardFacts(
        name=folder.name,
        task=task,
        languages=[files.language] if files.language else [],
        data=[
            DataFile("training", ", ".join(map(str, files.training())), counts[0]),
            DataFile("validation", held, counts[1]),
        ],
        sizes=sizes,
        scores=[
            Score(name, value, units[0] if name == "loss" else units[1], "validation") for name, value in scores.items()
        ],
        use=f"headway predict {folder} < in.txt",
    )


# ---------------------------------------------------------------- models that decide together


def check_same_labels(answers: object, others: Sequence[tuple[Path, object]]) -> None:
    """Refuse models whose labels or whose files differ from those of the first."""
    for path, other in others:
        if other != answers:
            raise UsageError(f"{path}: its labels, or the form of its files, are not those of the first model")


def order_of(labels: Sequence[str], first: Sequence[str]) -> list[int]:
    """Return where a model has each label of the first one: the held-out examples decide which label came first."""
    return [labels.index(label) for label in first]
