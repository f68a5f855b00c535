"""The same numbers for TensorBoard, where it is wanted and installed."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

from headway.errors import UsageError
from headway.training.events import Event, Stepped, Validated


class NoBoard:
    """Writes nothing."""

    def add(self, event: Event) -> None:
        """After every event."""

    def __enter__(self) -> NoBoard:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is open."""


class Board(NoBoard):
    """Event files in the run's `tensorboard` folder: look with `tensorboard --logdir RUN`."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise UsageError(
                "training.tensorboard needs TensorBoard: pip install 'headway-mt[tensorboard]', or leave it out"
            ) from None
        self.writer: Any = SummaryWriter(str(folder / "tensorboard"))

    def add(self, event: Event) -> None:
        for name, value in numbers(event).items():
            self.writer.add_scalar(name, value, event.step)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.writer.close()


def numbers(event: Event) -> dict[str, float]:
    """What is drawn of an event."""
    if isinstance(event, Stepped):
        names = ("loss", "nll", "lr", "grad_norm", "tokens_per_second")
        return {f"train/{name}": getattr(event, name) for name in names}
    return {f"validation/{name}": value for name, value in event.scores.items()} if isinstance(event, Validated) else {}


def board(folder: Path, wanted: bool) -> NoBoard:
    return Board(folder) if wanted else NoBoard()
