"""A short search: one recipe as it is, and again with each of some changes, measured on its dev files.

HEADWAY_DATA=corpora python -m bench.variants tatoeba-en-de-tenth --set training.epochs=20
                                              --try model.tie_embeddings='"output"'
                                              --try "model.encoder_layers=4 model.decoder_layers=2" [--work runs/search]

--set holds for all runs; each --try is one more run, with one or more settings between spaces.
"""

from __future__ import annotations

import argparse
import shlex
from dataclasses import replace
from pathlib import Path

from bench.recipes import ROWS, run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("row", choices=ROWS, metavar="ROW", help="as of bench.recipes")
    parser.add_argument("--work", type=Path, default=Path("runs/search"))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as of headway train")
    parser.add_argument("--try", action="append", default=[], metavar="SETTINGS", dest="tries", help="one more run")
    parser.add_argument("--only-tries", action="store_true", help="leave out the run without a change")
    given = parser.parse_args()
    if not ROWS[given.row].dev:
        parser.error(f"{given.row} has no dev files to measure on")
    row = replace(ROWS[given.row], tests=(ROWS[given.row].dev,), goal="")
    print("| change | training | measured | |\n|---|---|---|---|", flush=True)
    for change in given.tries if given.only_tries else ["", *given.tries]:
        words = [word for one in (*given.set, *shlex.split(change, posix=False)) for word in ("--set", one)]
        name = change.replace('"', "") or "none"
        folder = given.work / given.row
        print(
            run(name.replace("/", "-").replace(" ", "+"), row, folder, ["--device", given.device, *words]), flush=True
        )


if __name__ == "__main__":
    main()
