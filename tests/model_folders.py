"""A small model folder with random weights: it says nonsense, but the same nonsense every time."""

from __future__ import annotations

from pathlib import Path

import torch

from headway import config
from headway.data.corpus import Data
from headway.model.design import EncoderDecoderDesign
from headway.model.feed_forward import Relu
from headway.storage.folder import write_model
from headway.storage.weights import weights_of
from headway.tasks.run import Run
from headway.text.tokenizer import Subword, Text

TEXT = [
    "a dog runs through the snow .", "two men sit on a bench", "the little cat sleeps",
    "Ein Hund rennt durch den Schnee.", "Zwei Männer sitzen auf einer Bank.", "Die kleine Katze schläft.",
    "He said: 'no'!", "1984 was a year; 42 is an answer.",
]  # fmt: skip


DATA = Data(source="a.en", target="a.de", source_language="en", target_language="de", longest=40)


def random_folder(
    folder: Path, tags: tuple[str, ...] = (), seed: int = 0, data: Data = DATA, text: Text = Subword(size=350)
) -> Path:
    """A folder that loads and translates."""
    design = EncoderDecoderDesign(
        width=32, heads=4, encoder_layers=1, decoder_layers=2, feed_forward=Relu(width=64), dropout=0.0
    )
    run = Run(data=data, text=text, model=design)
    tokenizer = run.text.learn(TEXT * 20, tags)
    torch.manual_seed(seed)
    model = design.build(len(tokenizer))
    write_model(
        folder,
        weights_of(model),
        config.dump(run),
        {"task": "translation", "step": 0, "scores": {}},
        lambda place: tokenizer.save(place, "joint"),
        "# random\n",
    )
    return folder


def snapshot(folder: Path) -> list[tuple[str, int, int, int]]:
    """Changes when anything in the folder is made, removed, renamed or written."""
    paths = [folder, *sorted(folder.rglob("*"))]
    return [(str(path), *((it := path.lstat()).st_ino, it.st_mtime_ns, it.st_size)) for path in paths]
