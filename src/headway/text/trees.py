"""Trees written as text: `(S (NP XX XX )NP (VP XX )VP )S`, one leaf for each word of the sentence."""

from __future__ import annotations

from typing import NamedTuple

OPENING, CLOSING = "(", ")"


class Bracket(NamedTuple):
    """A constituent: what it is called, and the leaves below it."""

    label: str
    start: int
    end: int  # behind the last leaf


class Tree(NamedTuple):
    """Constituents, inner ones first, and what stands for each word."""

    brackets: list[Bracket]
    leaves: list[str]


def read_tree(text: str) -> Tree | None:
    """None where brackets do not pair up; a closing one may leave its name out."""
    tree, begun = Tree([], []), list[tuple[str, int]]()
    for piece in text.split():
        if piece.startswith(OPENING):
            begun.append((piece[1:], len(tree.leaves)))
        elif not piece.startswith(CLOSING):
            tree.leaves.append(piece)
        elif not begun or piece[1:] not in ("", begun[-1][0]):
            return None
        else:
            tree.brackets.append(Bracket(*begun.pop(), len(tree.leaves)))
    return None if begun else tree
