"""Parsing as a foreign language (Vinyals et al. 2015): words to trees, for example those of GUM,
https://github.com/amir-zeldes/gum (const/), one bracketed tree a line.

    python examples/parsing.py prepare train.trees dev.trees parsing
    headway train recipes/parsing.toml --out parser
    headway evaluate parser --source parsing/dev.words --reference parsing/dev.trees --metrics brackets,accuracy
    headway translate parser --input parsing/dev.words --output out.trees
    python examples/parsing.py restore parsing/dev.words out.trees > out.ptb

A tree is written as `(S (NP XX XX )NP (VP XX )VP . )S`: XX stands for a word, a punctuation mark for itself; with
--tags parts of speech stand for words. Function tags and traces are left out. `restore` puts the words back.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from pairs import read_lines, write_pairs

PUNCTUATION = {",", ":", "``", "''", "."}
Node = tuple[str, list]  # a label, and what is below it: nodes, or one word


def read_node(tokens: Iterator[str]) -> Node:
    """What follows an opening bracket, up to the closing one."""
    label, below = next(tokens), []
    if label == "(":  # a root without a name
        label, below = "ROOT", [read_node(tokens)]
    while (token := next(tokens)) != ")":
        below.append(read_node(tokens) if token == "(" else token)
    return label, below


def pieces(node: Node, tags: bool) -> tuple[list[str], list[str]]:
    """The words below a node, and their tree in our notation; nothing where there is only a trace."""
    label, below = node
    if below and isinstance(below[0], str):
        leaf = label if tags or label in PUNCTUATION else "XX"
        return ([], []) if label == "-NONE-" else ([below[0]], [leaf])
    parts = [pieces(child, tags) for child in below]
    words, tree = ([piece for part in parts for piece in part[side]] for side in (0, 1))
    plain = re.split("[-=]", label)[0]
    return words, [f"({plain}", *tree, f"){plain}"] if words else []


def pair(line: str, tags: bool) -> tuple[str, str]:
    tokens = iter(re.findall(r"[()]|[^\s()]+", line))
    next(tokens)
    words, tree = pieces(read_node(tokens), tags)
    return " ".join(words), " ".join(tree)


def restore(sentence: str, tree: str) -> str:
    """A tree as other programs read it, such as evalb."""
    words = iter(sentence.split())
    unnamed = re.sub(r" \)\S*", ")", tree)
    return re.sub(r"(?<!\S)[^()\s]+", lambda leaf: f"({leaf[0]} {next(words)})", unnamed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("prepare", "restore"))
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--tags", action="store_true")
    asked = parser.parse_args()
    if asked.what == "restore":
        for sentence, tree in zip(*map(read_lines, asked.files), strict=True):
            print(restore(sentence, tree))
        return
    *files, folder = asked.files
    for part, path in zip(("train", "dev", "test"), files, strict=False):
        found = (pair(line, asked.tags) for line in read_lines(path) if line)
        write_pairs(folder, part, ("words", "trees"), ((words, tree) for words, tree in found if words))


if __name__ == "__main__":
    main()
