"""What people see while a model trains."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headway.training.events import Ended, Event, Noted, Planned, Saved, Stepped, Validated


class Silence:
    """Ranks that do not speak."""

    def preparing(self, run: Any) -> None:
        """Before the plan: reading, learning pieces, encoding."""

    def __call__(self, event: Event) -> None:
        """After every event."""


class Lines(Silence):
    """Plain lines, for files and pipes."""

    def preparing(self, run: Any) -> None:
        self.say("reading the corpus, learning pieces and encoding (once; the next start finds them ready)")

    def __call__(self, event: Event) -> None:
        for kind, tell in self.tellers().items():
            if isinstance(event, kind):
                self.say(tell(event))

    def tellers(self) -> dict[type[Event], Any]:
        return {
            Planned: lambda e: f"plan: {', '.join(f'{k} {v}' for k, v in e.plan.items())}",
            Stepped: lambda e: (
                f"step {e.step}/{e.total} loss {e.loss:.4f} lr {e.lr:.2e} {e.tokens_per_second:,.0f} tokens/s "
                f"epoch {e.epoch:.2f}" + (f" skipped {e.skipped}" if e.skipped else "")
            ),
            Validated: lambda e: f"validation at {e.step}: {' '.join(f'{k} {v:.3f}' for k, v in e.scores.items())}",
            Saved: lambda e: f"saved {e.path}",
            Noted: lambda e: f"note: {e.text}",
            Ended: lambda e: f"ended at step {e.step}: {e.reason}",
        }

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


@contextmanager
def view(speaks: bool, folder: Path) -> Iterator[Silence]:
    """A live view on a terminal, lines elsewhere, silence on other ranks."""
    yield Lines() if speaks else Silence()
