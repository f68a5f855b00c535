"""The pictures of these pages, from the model that `headway demo` trained: python docs/pictures.py headway-demo"""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image

from headway.commands.pronunciation import Places, draw
from headway.tasks.translation.translator import Translator

HERE = Path(__file__).resolve().parent / "pictures"
COLOURS = 256  # enough for charts, and half of the bytes


def shrink(path: Path, to: Path) -> None:
    Image.open(path).convert("RGB").quantize(COLOURS).save(to, optimize=True)


def main(folder: Path) -> None:
    places = Places(folder)
    HERE.mkdir(exist_ok=True)
    for path in draw(places, Translator.load(places.model, device="cpu", engine="torch")):
        shrink(path, HERE / path.name)
        print(f"wrote {HERE / path.name}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "headway-demo"))
