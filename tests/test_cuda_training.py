"""What only a GPU can show of training: recorded steps of every task learn what plain ones do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import corpora
from headway.training.engine import CapturedEngine
from headway.training.signals import StopRequest
from kinds import KINDS, certain, trainer

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


@pytest.mark.parametrize(
    ("kind", "training"), [*((kind, {}) for kind in KINDS), ("memory", {"optimiser": {"kind": "muon"}})]
)
def test_recorded_training_learns_what_plain_training_does(tmp_path: Path, kind: str, training: dict[str, Any]) -> None:
    """Without dropout: a graph may draw its random numbers in another order."""
    losses = []
    for graphs in (True, False):
        run = certain(trainer(tmp_path, f"graphs-{graphs}", kind, "cuda", cuda_graphs=graphs, **training))
        assert isinstance(run.job.engine, CapturedEngine) == graphs
        list(run.events(StopRequest()))
        losses.append([event["loss"] for event in corpora.events(tmp_path / f"graphs-{graphs}", "step")])
    assert losses[0] == pytest.approx(losses[1], rel=1e-2)
