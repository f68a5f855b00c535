"""What an output must be, whatever the model would rather write: the shapes that a task brings to every search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from headway.errors import UsageError
from headway.search.logits_processors import Shape
from headway.search.trees import Trees
from headway.text.tokenizer import Tokenizer
from headway.text.trees import CLOSING, OPENING
from headway.text.vocabulary import SPECIAL_PIECES


@dataclass(frozen=True)
class AnyText:
    """No rule."""

    kind: Literal["text"] = "text"
    repeats: bool = False  # outputs may repeat themselves: repetition is not reported as a loop

    def shapes(self, sources: Sequence[str], target: Tokenizer) -> tuple[Shape, ...]:  # noqa: ARG002
        return ()


@dataclass(frozen=True)
class BracketedTree:
    """A tree over the words of the source, in the notation of headway.text.trees."""

    repeats: ClassVar[bool] = True  # leaves look alike

    kind: Literal["tree"] = "tree"

    def shapes(self, sources: Sequence[str], target: Tokenizer) -> tuple[Shape, ...]:
        """For the sentences of one batch, in their order."""
        ids = {target.piece(index): index for index in range(len(SPECIAL_PIECES) + len(target.tags), len(target))}
        closing = {piece[1:]: index for piece, index in ids.items() if piece.startswith(CLOSING)}
        opening = {piece[1:]: index for piece, index in ids.items() if piece.startswith(OPENING)}
        pairs = [(index, closing[label]) for label, index in opening.items() if label in closing]
        leaves = [index for piece, index in ids.items() if not piece.startswith((OPENING, CLOSING))]
        if not pairs or not leaves:
            raise UsageError(
                "task.output = tree: the target has no pieces such as (NP, )NP and XX; "
                'write trees as "(NP XX XX )NP" and set target_text.kind = "words"'
            )
        return (Trees(pairs, leaves, [len(source.split()) for source in sources]),)


Output = AnyText | BracketedTree
