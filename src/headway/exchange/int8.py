"""A model folder again, a quarter of the size: int8 weights with a scale for each row, and nothing of its training."""

from __future__ import annotations

from pathlib import Path

from headway.exchange.agreement import Engine, Trial, greedily
from headway.exchange.trained import Trained, read_trained
from headway.storage.folder import write_model
from headway.storage.int8 import quantised
from headway.storage.weights import weights_of
from headway.text.tokenizer import Tokenizers

NEW = ("format", "headway", "files")  # facts that the copy says of itself


def write_int8(trained: Trained, folder: Path) -> None:
    """Every command opens it like the folder it was made from."""
    weights = quantised(weights_of(trained.build()))
    facts = {name: fact for name, fact in trained.facts.items() if name not in NEW} | {"weights": "int8"}
    pieces = Tokenizers(trained.source, trained.target)
    write_model(folder, weights, trained.config, facts, pieces.save, trained.card)


def open_int8(folder: Path, trial: Trial) -> Engine:
    """The copy itself, read back."""
    model = read_trained(folder).build()
    return lambda sources: greedily(model, sources, trial.steps)
