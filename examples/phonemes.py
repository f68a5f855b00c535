r"""From spelling to sounds: the CMU pronouncing dictionary, https://github.com/cmusphinx/cmudict

    python examples/phonemes.py cmudict.dict headway-demo
    headway train recipes/cmudict.toml --out sounds
    headway evaluate sounds --source headway-demo/test.letters --reference headway-demo/test.phonemes \
        --metrics accuracy,per

The split is that of `headway demo`, which does all this by itself, in small. Stress marks are left out, as is usual;
the error of whole words is 100 minus accuracy. To learn from, all ways to say a word; to measure,
the first one.
"""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

from pairs import read_lines, write_pairs

TEST, DEV = 2000, 500


def read_dictionary(path: Path) -> dict[str, list[str]]:
    """Plain words of two letters or more, and the ways to say each."""
    words: dict[str, list[str]] = {}
    for line in read_lines(path):
        word, _, sounds = line.split("#")[0].partition(" ")
        word = re.sub(r"\(\d+\)$", "", word)
        said = re.sub("[012]", "", sounds.strip())
        if re.fullmatch("[a-z]{2,}", word) and said not in words.setdefault(word, []):
            words[word].append(said)
    return words


def main(dictionary: str, folder: str) -> None:
    words = read_dictionary(Path(dictionary))
    test, dev = (min(most, len(words) // 10) for most in (TEST, DEV))
    order = sorted(words, key=lambda word: hashlib.sha256(word.encode()).digest())
    parts = {"test": order[:test], "dev": order[test : test + dev], "train": order[test + dev :]}
    for part, chosen in parts.items():
        pairs = ((word, said) for word in chosen for said in (words[word] if part == "train" else words[word][:1]))
        write_pairs(Path(folder), part, ("letters", "phonemes"), pairs)


if __name__ == "__main__":
    main(*sys.argv[1:])
