"""Budgets of minutes with a clock that the tests move: how long a run takes, what it decides and repeats."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch

import corpora
from headway import config
from headway.runs.decide import FEW_SENTENCES, SHARE_OF_VALIDATION, USEFUL_STEPS, Candidate, Decided, Timing, decide
from headway.runs.trainer import Trainer
from headway.storage.folder import read_model
from headway.tasks.run import Run
from headway.tasks.translation.task import TranslationTask
from headway.training.engine import Engine
from headway.training.events import Ended, Event, Noted, Previewed, Replanned, Stepped, Validated
from headway.training.job import Job
from headway.training.pacing import NAME, Budget, Decision
from headway.training.plan import CPU_TIERS, RUNGS, propose, smaller_runs
from headway.training.ranks import Ranks
from headway.training.signals import StopRequest
from headway.training.task import Validation

CPU = torch.device("cpu")
FREE: dict[str, Any] = {"validate_every": None, "checkpoint_every": 5, "log_every": 50, "steps": None}


@dataclass
class Machine:
    """A computer whose speed is a function of its clock. Nothing but steps and validations takes time."""

    step: Callable[[float], float]  # seconds of a step at this time
    loss: float = 1.0  # seconds of the loss of all validation pairs
    sentence: float = 0.0  # seconds of each translated sentence
    now: float = 0.0
    factor: float = 1.0  # of the step in a trial
    validated: list[float] = field(default_factory=list)

    def timing(self) -> Timing:
        return Timing(self.try_step, self.try_validation, lambda: self.now)

    def try_step(self, _: Job, __: float) -> float:
        took = self.step(self.now) * self.factor
        self.now += 5 * took
        return took

    def try_validation(self, job: Job) -> float:
        assert isinstance(job.task, TranslationTask)
        took = self.loss + self.sentence * job.task.setup.training.validation_sentences
        self.now += took
        return took

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        work = Engine.step

        def step(engine: Engine, *given: Any) -> torch.Tensor:
            self.now += self.step(self.now)
            return work(engine, *given)

        def validate(task: TranslationTask, *_: Any) -> Validation:
            took = self.loss + self.sentence * task.setup.training.validation_sentences
            self.now += took
            self.validated.append(took)
            return Validation({"loss": 3.0 - self.now * 1e-4}, {})

        monkeypatch.setattr(Engine, "step", step)
        monkeypatch.setattr(TranslationTask, "validate", validate)


def run_of(folder: Path, minutes: float | None, **changes: Any) -> Run:
    training = {**FREE, "minutes": minutes, **changes}
    return config.from_dict(Run, corpora.table(folder, {"training": training}))


def decided(folder: Path, run: Run, machine: Machine, **options: Any) -> Decided:
    return decide([Candidate(run)], folder / "model", CPU, Ranks(), timing=machine.timing(), **options)


def train(folder: Path, made: Decided, stop_at: int | None = None) -> list[Event]:
    """All events; at `stop_at` the process ends without saving, as if it was killed."""
    trainer, events = Trainer(made, folder / "model", CPU, Ranks()), list[Event]()
    for event in trainer.events(StopRequest()):
        events.append(event)
        if stop_at is not None and trainer.job.progress.step >= stop_at:
            break
    trainer.job.saver.checkpoints.release()
    return events


def of(kind: type[Any], events: list[Event]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


# ---------------------------------------------------------------- the time it takes


MACHINES: dict[str, tuple[float, Callable[[float], float], float]] = {  # minutes, seconds of a step, factor in trials
    "fast": (1.0, lambda _: 0.2, 1.0),
    "slow": (4.0, lambda _: 2.0, 1.0),
    "trials too slow": (2.0, lambda _: 0.5, 3.0),
    "trials too fast": (2.0, lambda _: 0.5, 0.3),
    "slower midway": (2.0, lambda now: 0.4 if now < 60 else 1.2, 1.0),
    "slower near the end": (2.0, lambda now: 0.4 if now < 105 else 1.2, 1.0),
    "faster midway": (2.0, lambda now: 1.2 if now < 60 else 0.4, 1.0),
}


@pytest.mark.parametrize("name", MACHINES)
def test_a_budget_is_kept_within_a_tenth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    minutes, speed, factor = MACHINES[name]
    machine = Machine(speed, factor=factor)
    machine.install(monkeypatch)
    events = train(tmp_path, decided(tmp_path, run_of(tmp_path, minutes), machine))
    assert machine.now == pytest.approx(60 * minutes, rel=0.1)
    assert of(Ended, events)[0].reason == "done"
    assert of(Validated, events)[-1].step == of(Ended, events)[0].step
    assert read_model(tmp_path / "model").notes == []
    steps = config.load(Run, tmp_path / "model" / "config.toml").training.steps
    assert steps == of(Ended, events)[0].step
    changed = of(Replanned, events)
    assert bool(changed) == (name not in ("fast", "slow"))


def test_a_slower_machine_is_noticed_and_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(MACHINES["slower midway"][1])
    machine.install(monkeypatch)
    made = decided(tmp_path, run_of(tmp_path, 2.0), machine)
    events = train(tmp_path, made)
    changed = of(Replanned, events)
    stored = Budget.read(tmp_path / "model" / "state")
    assert stored is not None and stored.seconds == 120
    assert stored.decisions == (Decision(0, made.plan.steps), *(Decision(e.step, e.total) for e in changed))
    logged = corpora.events(tmp_path / "model", "replan")
    assert [(e["step"], e["before"], e["total"]) for e in logged] == [(e.step, e.before, e.total) for e in changed]
    assert changed[0].total < changed[0].before == made.plan.steps


def test_a_resumed_run_repeats_all_decisions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed after decisions that no checkpoint holds, and resumed on a machine of another speed."""
    ends: list[Any] = []
    for name in ("whole", "killed"):
        place = tmp_path / name
        place.mkdir()
        machine = Machine(MACHINES["slower midway"][1])
        with monkeypatch.context() as patch:
            machine.install(patch)
            run = run_of(place, 2.0, checkpoint_every=60)
            if name == "killed":
                events = train(place, decided(place, run, machine), stop_at=150)
                assert of(Replanned, events) and corpora.checkpoints(place / "model")[-1] == 120
                late = Machine(lambda _: 0.01, now=1e6)
                late.install(patch)
                stored = config.load(Run, place / "model" / "config.toml")
                before = Budget.read(place / "model" / "state")
                again = decided(place, stored, late)
                assert again.pacer.budget == before
                train(place, again, stop_at=before.decisions[-1].step)  # pyright: ignore[reportOptionalMemberAccess]
                assert Budget.read(place / "model" / "state") == before
                machine = Machine(MACHINES["slower midway"][1])
            else:
                train(place, decided(place, run, machine), stop_at=150)
        steps = corpora.events(place / "model", "step") + corpora.events(place / "model", "replan")
        ends.append(
            [{k: v for k, v in e.items() if k in ("step", "loss", "lr", "total")} for e in steps if e["step"] <= 148]
        )
    assert ends[0] == ends[1]


# ---------------------------------------------------------------- going on


def test_minutes_count_the_whole_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(lambda _: 0.5)
    machine.install(monkeypatch)
    run = run_of(tmp_path, 1.0)
    steps = of(Ended, train(tmp_path, decided(tmp_path, run, machine)))[0].step
    again = train(tmp_path, decided(tmp_path, run, machine))
    assert "the budget of 1 minutes is used up" in of(Noted, again)[-1].text
    assert "--minutes 2" in of(Noted, again)[-1].text and of(Stepped, again) == []
    less = decided(tmp_path, run_of(tmp_path, 0.25), machine)
    assert less.plan.steps == steps  # never fewer than are done
    begun = machine.now
    longer = of(Ended, train(tmp_path, decided(tmp_path, run_of(tmp_path, 2.0), machine)))[0]
    assert machine.now - begun == pytest.approx(60, rel=0.15) and longer.step > 1.7 * steps
    fixed = train(
        tmp_path, decided(tmp_path, run_of(tmp_path, None, steps=longer.step + 7), machine, keep_budget=False)
    )
    assert of(Ended, fixed)[0].step == longer.step + 7
    assert not (tmp_path / "model" / "state" / NAME).exists()


# ---------------------------------------------------------------- what is decided


def test_too_small_a_budget_is_said_with_what_would_be_enough(tmp_path: Path) -> None:
    small = decided(tmp_path, run_of(tmp_path, 2.0), Machine(lambda _: 4.0))
    (note,) = [note for note in small.notes if "too few" in note]
    assert f"{small.plan.steps} steps fit, and {USEFUL_STEPS} are the least" in note
    needed = float(note.split("--minutes ")[1].split()[0])
    enough = decided(tmp_path, run_of(tmp_path, needed), Machine(lambda _: 4.0))
    assert enough.plan.steps >= USEFUL_STEPS and not [note for note in enough.notes if "too few" in note]
    assert needed == pytest.approx(USEFUL_STEPS * 4 / 60, rel=0.3)


@pytest.mark.parametrize("sentence", [0.0, 0.01, 0.1, 2.0])
def test_validations_take_a_small_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sentence: float) -> None:
    machine = Machine(lambda _: 0.5, loss=0.2, sentence=sentence)
    machine.install(monkeypatch)
    made = decided(tmp_path, run_of(tmp_path, 5.0, validation_sentences=500), machine)
    train(tmp_path, made)
    assert sum(machine.validated) <= max(SHARE_OF_VALIDATION * 300 + machine.validated[0], 2 * machine.validated[0])
    assert (made.plan.validation_sentences == 500) == (sentence == 0.0)
    assert made.plan.validation_sentences >= FEW_SENTENCES


def test_an_early_stop_leaves_a_model_and_says_how_good_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(lambda _: 1.0)
    machine.install(monkeypatch)
    made = decided(tmp_path, run_of(tmp_path, 20.0, validate_every=1000), machine)
    trainer, stop, events = Trainer(made, tmp_path / "model", CPU, Ranks()), StopRequest(), list[Event]()
    for event in trainer.events(stop):
        events.append(event)
        if isinstance(event, Stepped) and event.step >= 100:
            stop.signal = signal.SIGTERM
    early, last = of(Previewed, events)
    assert early.step <= 61 and last.step == 100 and last.scores
    assert read_model(tmp_path / "model").facts["step"] == 100
    assert trainer.job.progress.best is None  # the first validation is still to come


# ---------------------------------------------------------------- sizes


class Ladder:
    """Candidates for so many pairs; a step of each takes as long as its batch and width say."""

    def __init__(self, folder: Path, speed: float, minutes: float, given: dict[str, Any] | None = None) -> None:
        self.speed = speed
        asked = {"data": corpora.write(folder), "training": {"minutes": minutes}, **(given or {})}
        tables = smaller_runs(asked, propose(asked, 30_000, CPU), CPU)
        self.candidates = [Candidate(config.from_dict(Run, table), enough) for table, enough in tables]
        self.folder, self.tried = folder / "model", list[int]()

    def step(self, job: Job, _: float) -> float:
        self.tried.append(job.settings.batch.tokens)
        return self.speed * job.settings.batch.tokens * job.width**1.5 / (4096 * 256**1.5)

    def decide(self) -> Decided:
        return decide(self.candidates, self.folder, CPU, Ranks(), timing=Timing(self.step, lambda _: 0.1, lambda: 0.0))


def test_the_size_follows_the_steps_that_fit(tmp_path: Path) -> None:
    """The slower the machine, the smaller model and batch; never is a large one tried on a slow machine."""
    sizes = []
    for speed in (0.01, 0.1, 0.5, 1.0, 6.0, 30.0):
        ladder = Ladder(tmp_path, speed, 4.0)
        made = ladder.decide()
        sizes.append((made.run.model.width, made.run.training.batch.tokens, made.run.training.learning_rate))
        longest = max(ladder.step(job, 0.0) for job in [Trainer(made, tmp_path / "other", CPU, Ranks()).job])
        assert longest * made.plan.steps < 240
    full, rate = CPU_TIERS[1], CPU_TIERS[1].muon
    assert sizes == sorted(sizes, key=lambda size: (-size[0], -size[1])) and len(set(sizes)) >= 4
    assert sizes[0] == (full.width, full.tokens, rate)
    assert sizes[-1] == (RUNGS[-1].width, RUNGS[-1].tokens, 2 * (rate or 0))
    slow = Ladder(tmp_path, 30.0, 4.0)
    slow.decide()
    assert max(slow.tried) <= 1024


def test_what_was_given_is_never_made_smaller(tmp_path: Path) -> None:
    sizes = {"model": {"kind": "encoder_decoder", "width": 64, "heads": 2}}
    given = Ladder(tmp_path, 30.0, 4.0, sizes).decide().run
    assert given.model.width == 64
    training = {"minutes": 4.0, "batch": {"tokens": 3000}, "learning_rate": 1e-3}
    batch = Ladder(tmp_path, 30.0, 4.0, {"training": training}).decide().run
    assert (batch.training.batch.tokens, batch.training.learning_rate) == (3000, 1e-3)


def test_other_budgets_and_devices_have_no_smaller_runs() -> None:
    for training, device in (({"steps": 9}, CPU), ({}, CPU), ({"minutes": 1.0}, torch.device("cuda", 0))):
        asked = {"data": {"source": "a", "target": "b"}, "training": training}
        proposed = propose(asked, 30_000, device)
        assert smaller_runs(asked, proposed, device) == [(proposed, 0)]


def test_without_minutes_the_plan_says_how_long_it_takes(tmp_path: Path) -> None:
    made = decided(tmp_path, run_of(tmp_path, None, steps=30), Machine(lambda _: 0.25))
    facts = Trainer(replace(made), tmp_path / "model", CPU, Ranks()).planned().plan
    assert (facts["steps"], facts["seconds_per_step"]) == (30, 0.25) and "minutes" not in facts
