"""What is to be looked at, and what is to be changed before."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from headway.errors import UsageError

VERSION = 1
LONGEST = 128  # pieces of a source or a target; attention grows with their product
MOST_EDITS = 32
HEAD = re.compile(r"(encoder|decoder)\.(\d{1,3})\.(self|cross)\.(\d{1,3})")

# The one list of panels: parts of a trace that are made only where they are asked for. docs/look.md describes each.
Panel = Literal["attention", "beam", "heads", "lens", "inside", "attribution", "occlusion"]
EVERYTHING: tuple[Panel, ...] = get_args(Panel)
Check = Callable[[], None]


def go_on() -> None:
    """A check that never ends a trace."""


class TooLongError(UsageError):
    """More pieces than a trace can show."""


@dataclass(frozen=True)
class Edit:
    """Another piece in the source."""

    pos: int  # place of the piece in the source
    piece: str  # what stands there instead: a piece of the vocabulary or plain text; empty: nothing


@dataclass(frozen=True)
class Head:
    """One head of one attention layer; everything counts from 0."""

    stack: Literal["encoder", "decoder"]
    layer: int
    kind: Literal["self", "cross"]
    head: int

    @classmethod
    def parse(cls, text: str) -> Head:
        """From the short form, such as decoder.2.cross.3."""
        found = HEAD.fullmatch(text.strip())
        if found is None or found[1] + found[3] == "encodercross":
            raise UsageError(
                f"head {text!r}: write stack.layer.kind.head, such as encoder.0.self.1 or decoder.2.cross.3"
            )
        return cls(found[1], int(found[2]), found[3], int(found[4]))  # pyright: ignore[reportArgumentType]

    @property
    def attention(self) -> str:
        """The name of its layer in the model."""
        return f"{self.stack}.layers.{self.layer}.{self.kind}_attention"

    def __str__(self) -> str:
        return f"{self.stack}.{self.layer}.{self.kind}.{self.head}"


@dataclass(frozen=True)
class TraceRequest:
    """A sentence, the panels wanted, and changes to the model, the source and the beginning of the output."""

    q: str  # the sentence
    model: str = ""  # name of the model, to be shown; a server's choice of model
    source: str = ""  # language of the sentence; a server's choice of model
    target: str = ""  # language to translate into, for models that know several
    include: tuple[Panel, ...] = ()  # panels besides the pieces
    beam_size: int = 4  # hypotheses that grow together
    alpha: float | None = None  # how much long outputs are favoured; unset: as always
    top_k: int = 10  # alternatives shown for each piece
    prefix: tuple[int, ...] = ()  # ids of pieces that the output must begin with
    edit: tuple[Edit, ...] = ()  # pieces of the source to replace or drop
    ablate: tuple[Head, ...] = ()  # heads to silence
    hypothesis: int = 0  # which of the outputs found is looked at
    position: int = -1  # target piece shown from the inside; -1: the last

    def __post_init__(self) -> None:
        if not self.q.strip():
            raise UsageError("the sentence is empty; give at least one word")
        check("beam_size", self.beam_size, 1, 10)
        check("alpha", 0 if self.alpha is None else self.alpha, 0, 2)
        check("top_k", self.top_k, 1, 20)
        check("hypothesis", self.hypothesis, 0, self.beam_size - 1)
        check("position", self.position, -1, LONGEST)
        if len(self.prefix) > LONGEST:
            raise TooLongError(f"prefix has {len(self.prefix)} pieces; a trace shows at most {LONGEST}")
        if len(self.edit) > MOST_EDITS:
            raise UsageError(f"edit has {len(self.edit)} entries; at most {MOST_EDITS} are allowed")

    @property
    def changes(self) -> bool:
        """Whether this is something else than the model's own translation."""
        return bool(self.prefix or self.edit or self.ablate)

    @property
    def silenced(self) -> list[tuple[str, int]]:
        """Heads to silence, by the names of their layers."""
        return [(head.attention, head.head) for head in self.ablate]


def check(name: str, value: float | int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise UsageError(f"{name} is {value}; it must be from {low} to {high}")
