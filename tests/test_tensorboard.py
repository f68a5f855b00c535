"""TensorBoard gets the numbers of metrics.jsonl."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.training.events import Noted, Stepped, Validated
from headway.training.tensorboard import board


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_numbers_arrive(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    speed = {"tokens": 7, "tokens_per_second": 70.0, "epoch": 0.5, "seconds": 1.0}
    stepped = Stepped(step=3, total=9, loss=2.5, nll=2.0, lr=0.1, grad_norm=1.0, **speed)
    with board(tmp_path, wanted=True) as drawn:
        for event in (stepped, Validated(3, {"loss": 1.5, "bleu": 20.0}, {}, True), Noted(3, "x")):
            drawn.add(event)
    read = accumulator.EventAccumulator(str(tmp_path / "tensorboard"))
    read.Reload()
    values = {name: read.Scalars(name)[0].value for name in read.Tags()["scalars"]}
    assert values["train/loss"] == 2.5 and values["validation/bleu"] == 20.0
    assert read.Scalars("train/lr")[0].step == 3


def test_nothing_is_written_unless_wanted(tmp_path: Path) -> None:
    with board(tmp_path, wanted=False) as drawn:
        drawn.add(Noted(1, "x"))
    assert not list(tmp_path.iterdir())
