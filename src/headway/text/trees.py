"""Parse constituency trees such as `(S (NP XX XX )NP (VP XX )VP )S`, with one leaf for each word of the sentence."""

from __future__ import annotations

from typing import NamedTuple

OPENING, CLOSING = "(", ")"


class Bracket(NamedTuple):
    """A constituent: its label, and the range of its leaves."""

    label: str
    start: int
    end: int  # one past the last leaf


class Tree(NamedTuple):
    """The constituents of a tree, inner ones first, and its leaves."""

    brackets: list[Bracket]
    leaves: list[str]


def read_tree(text: str) -> Tree | None:
    """Return the tree, or None if brackets do not match. A closing bracket may omit its label."""
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
