"""What several models are worth that decide together: one recipe by several seeds, each alone, then all of them.

HEADWAY_DATA=corpora python -m bench.together inflection-german-compounds [--seeds 3] [--student unseen.lemma]
                                              [--work runs/together] [--device cpu] [--set KEY=VALUE ...]

--student names a text that nobody translated: the models write it together, and one more learns that beside the rest.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from bench.recipes import ROWS, Row, distilled, headway, measured, placed, read, run


def taught(row: Row, data: Path, text: str, work: Path, models: list[object]) -> Row:
    """The row with more to learn from: a text as the models wrote it."""
    headway("distill", *models, "--source", placed(data)(text), "--out", work / "taught")
    both = tuple(work / f"both.{side}" for side in ("source", "target"))
    for path, name, other in zip(both, row.train, distilled(row, work / "taught"), strict=True):
        real = read(name) if "/" in name else (data / name).read_text("utf-8")
        path.write_text(real + other.read_text("utf-8"), encoding="utf-8")
    return replace(row, train=tuple(str(path.resolve()) for path in both))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "row", choices=ROWS, metavar="ROW", help="as of bench.recipes: a translator, tagger or classifier"
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--student", metavar="TEXT", help="of the prepared folder; learns from all")
    parser.add_argument("--work", type=Path, default=Path("runs/together"))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as of headway train")
    given = parser.parse_args()
    row, work = ROWS[given.row], given.work / given.row
    if row.scores in ("perplexity", "loss") or (given.student and len(row.train) != 2):
        parser.error(f"{given.row} is no {'translator' if given.student else 'translator, tagger or classifier'}")
    more = ["--device", given.device, *(word for one in given.set for word in ("--set", one))]
    print("| seed | training | measured | goal |\n|---|---|---|---|", flush=True)
    for seed in range(1, given.seeds + 1):
        print(run(str(seed), row, work, [*more, "--seed", str(seed)]), flush=True)
    first, *others = [work / str(seed) / "model" for seed in range(1, given.seeds + 1)]
    beside = [word for other in others for word in ("--with", other)]
    data, where = work / "1" / "data", ["--device", given.device]
    found = measured(row, first, placed(data), work, *beside, *where)
    print(f"| together | | {found} | {row.goal or '–'} |", flush=True)
    if given.student:
        learner = taught(row, data, given.student, work, [first, *beside, *where])
        print(run("student", learner, work, [*more, "--seed", "1"]), flush=True)


if __name__ == "__main__":
    main()
