"""What a teacher is worth: one small student learns from real translations, from a teacher's, and from both.

HEADWAY_DATA=corpora python -m bench.distillation TEACHER [--work runs/distillation] [--epochs 60] [--set KEY=VALUE ...]

TEACHER is a model folder of English to German, such as recipes/multi30k-en-de.toml makes; the text is Multi30k's.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from bench.recipes import ROWS, distilled, file, headway, measured, read, run

ROW = ROWS["multi30k-en-de"]
STUDENT = {  # a deep encoder and a shallow decoder
    "model.width": 128, "model.heads": 4, "model.encoder_layers": 4, "model.decoder_layers": 1,
    "model.feed_forward.width": 256, "training.r_drop": 0.0,
}  # fmt: skip


def corpora(teacher: Path, work: Path) -> dict[str, tuple[Path, Path]]:
    """Real pairs, the teacher's, and both one after the other."""
    real, made = (file(ROW.train[0]), file(ROW.train[1])), work / "distilled"
    headway("distill", teacher, "--source", real[0], "--out", made)
    taught = distilled(ROW, made)
    both = work / "both.source", work / "both.target"
    for path, name, other in zip(both, ROW.train, taught, strict=True):
        path.write_text(read(name) + other.read_text(encoding="utf-8"), encoding="utf-8")
    return {"real": real, "taught": taught, "both": both}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("teacher", type=Path)
    parser.add_argument("--work", type=Path, default=Path("runs/distillation"))
    parser.add_argument("--epochs", type=float, default=60.0, help="of one corpus; of both together half as many")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as of headway train")
    given = parser.parse_args()
    work, more = given.work.resolve(), [word for one in given.set for word in ("--set", one)]
    work.mkdir(parents=True, exist_ok=True)
    print("| learned from | training | measured | goal |\n|---|---|---|---|", flush=True)
    print(f"| the teacher itself | | {measured(ROW, given.teacher, file, work)} | |", flush=True)
    for name, pair in corpora(given.teacher, work).items():
        epochs = given.epochs / (2 if name == "both" else 1)  # as many steps for each
        row = replace(ROW, train=tuple(map(str, pair)), settings={**STUDENT, "training.epochs": epochs}, goal="")
        print(run(name, row, work, more), flush=True)


if __name__ == "__main__":
    main()
