"""Quality against speed: one model, translated fast, by default and as well as it can, from text to text.

HEADWAY_DATA=corpora python -m bench.manners [MODEL] [--table tatoeba-deu-eng/dev.tsv] [--to de] [--count 1000]

Without MODEL it is the built-in one. The table has English and the other language in its first two columns.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from bench.recipes import read
from headway import Translator
from headway.metrics import measure

MANNERS: dict[str, tuple[str, dict[str, Any]]] = {
    "fast: greedy, int8": ("int8", {"beam": 1}),
    "default: beam 5, int8": ("int8", {"beam": 5}),
    "fp32: beam 5": ("fp32", {"beam": 5}),
    "wide: beam 12, int8": ("int8", {"beam": 12}),
    "best: minimum Bayes risk, int8": ("int8", {"best": True}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", type=Path)
    parser.add_argument("--table", default="tatoeba-deu-eng/dev.tsv")
    parser.add_argument("--to", default="de")
    parser.add_argument("--count", type=int, default=1000)
    given = parser.parse_args()
    rows = [line.split("\t") for line in read(given.table).split("\n") if line][: given.count]
    sources, references = [row[0] for row in rows], [row[1] for row in rows]
    print("| manner | sentences/s | BLEU | chrF |", "|---|---|---|---|", sep="\n")
    for name, (precision, manner) in MANNERS.items():
        translator = Translator.load(given.model, device="cpu", precision=precision)
        translator(sources[:50], to=given.to, **manner)
        begun = time.perf_counter()
        found = translator(sources, to=given.to, **manner)
        took = time.perf_counter() - begun
        scores = measure([one.text for one in found], references, language=given.to).values_by_name()
        print(f"| {name} | {len(rows) / took:,.0f} | {scores['bleu']:.1f} | {scores['chrf']:.1f} |", flush=True)


if __name__ == "__main__":
    main()
