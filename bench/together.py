"""What several models are worth that write together: one recipe by several seeds, each alone, then all of them.

HEADWAY_DATA=corpora python -m bench.together inflection-german-compounds [--seeds 3] [--work runs/together]
                                              [--device cpu] [--set KEY=VALUE ...]
"""

from __future__ import annotations

import argparse
from pathlib import Path

from bench.recipes import ROWS, measured, placed, run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("row", choices=ROWS, metavar="ROW", help="as of bench.recipes: a translator")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--work", type=Path, default=Path("runs/together"))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as of headway train")
    given = parser.parse_args()
    row, work = ROWS[given.row], given.work / given.row
    if len(row.train) != 2:
        parser.error(f"{given.row} is no translator")
    more = ["--device", given.device, *(word for one in given.set for word in ("--set", one))]
    print("| seed | training | measured | goal |\n|---|---|---|---|", flush=True)
    for seed in range(1, given.seeds + 1):
        print(run(str(seed), row, work, [*more, "--seed", str(seed)]), flush=True)
    first, *others = [work / str(seed) / "model" for seed in range(1, given.seeds + 1)]
    beside = [word for other in others for word in ("--with", other)]
    found = measured(row, first, placed(work / "1" / "data"), work, *beside, "--device", given.device)
    print(f"| together | | {found} | {row.goal or '–'} |", flush=True)


if __name__ == "__main__":
    main()
