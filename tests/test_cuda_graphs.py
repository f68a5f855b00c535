"""Every task's training step can be recorded as a CUDA graph: replayed blindly, it learns what the plain step does."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path

import pytest
import torch

import corpora
from graph_replay import NotRecordable, Tape, TapedEngine
from headway.runs import assemble
from headway.training.engine import Engine
from headway.training.events import Saved
from headway.training.signals import StopRequest
from recorded_runs import KINDS, TRAINING, trainer


def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on trainers record; the captured engine asks CUDA for its random state."""
    monkeypatch.setattr(assemble, "engine_kind", lambda *_: TapedEngine)
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda _: torch.get_rng_state())
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state, _: torch.set_rng_state(state))


@pytest.mark.parametrize("kind", KINDS)
def test_a_recorded_step_learns_what_the_plain_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    plain = trainer(tmp_path, "plain", kind)
    list(plain.events(StopRequest()))
    recorded(monkeypatch)
    taped = trainer(tmp_path, "taped", kind)
    list(taped.events(StopRequest()))
    engine = taped.job.engine
    assert type(plain.job.engine) is Engine and isinstance(engine, TapedEngine)
    shapes = list(engine.recordings.by_shape)
    assert 1 <= len(shapes) <= (2 if "model" in KINDS[kind][1]["task"]["kind"] else TRAINING["steps"])
    assert len({both[:2] for both in shapes}) == len(shapes)  # pieces and labels: letters make no shape of their own
    losses = [[event["loss"] for event in corpora.events(tmp_path / out, "step")] for out in ("plain", "taped")]
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    for name, tensor in plain.job.weights().items():
        torch.testing.assert_close(taped.job.weights()[name], tensor, atol=1e-3, rtol=1e-2, msg=name)
    for name, tensor in plain.job.engine.recurrent_state.items():
        torch.testing.assert_close(engine.recurrent_state[name], tensor, atol=1e-2, rtol=1e-2, msg=name)


@pytest.mark.parametrize("kind", ["learned", "memory", "crf"])
def test_a_recorded_run_goes_on_bit_for_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    recorded(monkeypatch)
    list(trainer(tmp_path, "whole", kind, checkpoint_every=3).events(StopRequest()))
    killed = trainer(tmp_path, "killed", kind, checkpoint_every=3).events(StopRequest())
    assert isinstance(killed, Generator)
    next(event for event in killed if isinstance(event, Saved) and event.step == 3)
    killed.close()
    list(trainer(tmp_path, "killed", kind, checkpoint_every=3).events(StopRequest()))
    assert corpora.outcome(tmp_path / "killed") == corpora.outcome(tmp_path / "whole")


def test_a_tape_reads_what_lies_in_its_tensors_now() -> None:
    x, out = torch.tensor([1.0, 2.0]), torch.zeros(2)
    with Tape() as tape:
        doubled = (x.view(2, 1) * 2)[:, 0]
        out += doubled
    x.copy_(torch.tensor([5.0, 7.0]))
    tape.replay()
    assert doubled.tolist() == [10.0, 14.0] and out.tolist() == [12.0, 18.0]


@pytest.mark.parametrize(
    "work", [lambda x: x.sum().item(), lambda x: x[x > 0], lambda x: x.nonzero(), lambda x: bool((x > 0).any())]
)
def test_a_tape_refuses_what_would_wait(work: Callable[[torch.Tensor], object]) -> None:
    with pytest.raises(NotRecordable), Tape():
        work(torch.ones(3))
