"""Inflection: a lemma and the features of a form, to the form. CoNLL-SIGMORPHON 2017, task 1:
https://github.com/sigmorphon/conll2017 (all/task1: german-train-high, german-dev, ...)

    python examples/inflection.py german-train-high german-dev inflection
    headway train recipes/inflection.toml --out inflector
    headway evaluate inflector --source inflection/dev.lemma --reference inflection/dev.form --metrics accuracy,per

Features and letters are symbols between spaces, "V PST 3 SG s a g e n" to "s a g t e"; a space inside a form is ▁.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pairs import read_lines, write_pairs


def spelled(text: str) -> str:
    return " ".join(text.replace(" ", "▁"))


def pair(line: str) -> tuple[str, str]:
    lemma, form, features = line.split("\t")
    return f"{features.replace(';', ' ')} {spelled(lemma)}", spelled(form)


def main(train: str, dev: str, folder: str) -> None:
    for part, path in (("train", train), ("dev", dev)):
        write_pairs(Path(folder), part, ("lemma", "form"), (pair(line) for line in read_lines(Path(path)) if line))


if __name__ == "__main__":
    main(*sys.argv[1:])
