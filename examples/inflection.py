"""Inflection: a lemma and the features of a form, to the form. CoNLL-SIGMORPHON 2017, task 1:
https://github.com/sigmorphon/conll2017 (all/task1: german-train-high, german-dev, ...)

    python examples/inflection.py german-train-high german-dev inflection [--compounds 1] [--unseen 3]
    headway train recipes/inflection.toml --out inflector
    headway evaluate inflector --source inflection/dev.lemma --reference inflection/dev.form --metrics accuracy,per

Features and letters are symbols between spaces, "V PST 3 SG s a g e n" to "s a g t e"; a space inside a form is ▁.
With --compounds, every word of the training list comes so many times more behind the beginning of another one: as Haus
has Häuser, so Lagerhaus has Lagerhäuser. What is made up need not exist: it says that a word's end decides its forms.
With --unseen, known lemmas with features that the list does not have for them go into unseen.lemma, so many for each
entry: models can write those forms (`headway distill`), and a student learn from them.
"""

from __future__ import annotations

import argparse
import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pairs import read_lines, write_pairs

SHORTEST = 3  # letters that are put before a word


class Entry(NamedTuple):
    lemma: str
    form: str
    features: str

    @property
    def kind(self) -> str:
        """A noun's, a verb's."""
        return self.features.split(";")[0]

    @property
    def pair(self) -> tuple[str, str]:
        return f"{self.features.replace(';', ' ')} {spelled(self.lemma)}", spelled(self.form)

    def behind(self, start: str) -> Entry:
        return Entry(start + self.lemma.lower(), start + self.form.lower(), self.features)


def read(path: Path) -> list[Entry]:
    return [Entry(*line.split("\t")) for line in read_lines(path) if line]


def spelled(text: str) -> str:
    return " ".join(text.replace(" ", "▁"))


def compounds(entries: list[Entry], times: int) -> Iterator[Entry]:
    """Of words that change at their end only, as far as that shows: a form that begins as its lemma does."""
    dice, lemmas = random.Random(1), defaultdict[str, list[str]](list)
    for entry in entries:
        lemmas[entry.kind].append(entry.lemma)
    for entry in entries * times:
        other = dice.choice(lemmas[entry.kind])
        if entry.form[:1] == entry.lemma[:1] and " " not in entry.lemma + entry.form + other and len(other) >= SHORTEST:
            yield entry.behind(other[: dice.randint(SHORTEST, len(other))])


def unseen(entries: list[Entry], times: int) -> list[Entry]:
    """Lemmas of the list with features that others of their kind have; the form is what nobody told."""
    dice, features = random.Random(1), defaultdict[str, set[str]](set)
    for entry in entries:
        features[entry.kind].add(entry.features)
    lemmas = {(entry.lemma, entry.kind): None for entry in entries}
    told = {(entry.lemma, entry.features) for entry in entries}
    asked = [Entry(lemma, "", each) for lemma, kind in lemmas for each in sorted(features[kind])]
    new = [entry for entry in asked if (entry.lemma, entry.features) not in told]
    return dice.sample(new, min(len(new), times * len(entries)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("train", "dev", "folder"):
        parser.add_argument(name, type=Path)
    parser.add_argument(
        "--compounds", type=int, default=0, metavar="N", help="made-up words, at most, for each real one"
    )
    parser.add_argument("--unseen", type=int, default=0, metavar="N", help="inputs without a form, for each entry")
    given = parser.parse_args()
    train = read(given.train)
    asked = [entry.pair[0] for entry in unseen(train, given.unseen)]
    train += compounds(train, given.compounds)
    for part, entries in (("train", train), ("dev", read(given.dev))):
        write_pairs(given.folder, part, ("lemma", "form"), (entry.pair for entry in entries))
    if asked:
        (given.folder / "unseen.lemma").write_text("".join(f"{line}\n" for line in asked), encoding="utf-8")
        print(f"{given.folder / 'unseen.lemma'}: {len(asked):,} lines")


if __name__ == "__main__":
    main()
