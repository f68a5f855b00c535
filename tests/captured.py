"""Recordings without CUDA: a graph that does its work anew each time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch

from headway.engines.cuda import captured_beam


@dataclass
class Play:
    """A graph that does the work anew each time."""

    work: Any

    def replay(self) -> None:
        self.work()


class Plain(captured_beam.Recording):
    """A recording without CUDA."""

    def record(self, pool: Any) -> None:
        self.reading, self.writing = Play(self.read), Play(self.write)


def play_without_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captured_beam, "Recording", Plain)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 0))
