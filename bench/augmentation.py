"""What text of the target language alone is worth: few real pairs, and the same with more that were translated back.

HEADWAY_DATA=corpora python -m bench.augmentation [--every 10] [--work runs/augmentation] [--steps 3000] [--device cpu]
                                                  [--set KEY=VALUE ...]

Of Multi30k every tenth pair is real; of the others only the German side is used. A model of the opposite direction,
learned from the real pairs, writes their English side (`headway augment`). All three models are small and learn for as
many steps.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from bench.recipes import ROWS, Row, Settings, headway, read, run

FORTH, BACK = ROWS["multi30k-en-de"], ROWS["multi30k-de-en"]
SMALL = {
    "model.width": 128, "model.heads": 4, "model.encoder_layers": 3, "model.decoder_layers": 2,
    "model.feed_forward.width": 512, "training.batch.tokens": 2048, "training.schedule.warmup": 400,
    "training.batch.shapes": "exact", "training.r_drop": 0.0, "text.size": 3000,
}  # fmt: skip


def lines(name: str) -> list[str]:
    return read(name).removesuffix("\n").split("\n")


def write(path: Path, text: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in text), encoding="utf-8")
    return path


def cut(work: Path, every: int) -> tuple[tuple[Path, Path], Path]:
    """The real pairs, and the German sentences of all the others."""
    english, german = (lines(name) for name in FORTH.train)
    real = write(work / "real.en", english[::every]), write(work / "real.de", german[::every])
    return real, write(work / "more.de", [line for number, line in enumerate(german) if number % every])


def small(row: Row, train: tuple[Path, Path], more: Settings | None = None) -> Row:
    return replace(row, train=tuple(map(str, train)), settings={**SMALL, **(more or {})}, goal="")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=10, help="which pairs are real")
    parser.add_argument("--work", type=Path, default=Path("runs/augmentation"))
    parser.add_argument("--steps", default="3000")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as of headway train")
    given = parser.parse_args()
    work = given.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    more = ["--steps", given.steps, "--device", given.device, *(word for one in given.set for word in ("--set", one))]
    real, rest = cut(work, given.every)
    print("| model | training | measured | goal |\n|---|---|---|---|", flush=True)
    print(run("back", small(BACK, (real[1], real[0])), work, more), flush=True)
    print(run("real", small(FORTH, real), work, more), flush=True)
    made = work / "made"
    headway("augment", work / "back" / "model", "--target", rest, "--out", made, "--device", given.device)
    beside = f'[{{ source = "{made}/train.en", target = "{made}/train.de", tag = "bt" }}]'
    print(run("both", small(FORTH, real, {"data.corpora": beside}), work, more), flush=True)


if __name__ == "__main__":
    main()
