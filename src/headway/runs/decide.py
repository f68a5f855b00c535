"""Decide a run: from what was asked for to sizes, steps, validations and warm-up. Nothing else decides them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from headway.devices import half_is_fast
from headway.errors import UsageError
from headway.runs.assemble import assemble
from headway.storage.manifest import Checkpoint
from headway.storage.publication import FACTS
from headway.tasks.run import Run
from headway.training.checkpoint import Checkpoints
from headway.training.job import Job
from headway.training.loop import drain
from headway.training.pacing import RESERVE, Budget, Decision, Pacer, fitting_steps
from headway.training.ranks import Ranks
from headway.training.schedules import with_warmup
from headway.training.task import Task
from headway.training.timing import time_step, time_validation

VALIDATIONS = 20  # in a run
SHARE_OF_VALIDATION = 0.1  # of the budget, for all validations together
SHARE_OF_TRIALS = 0.1  # of the budget, for timing steps and a validation before the run
FEW_SENTENCES = 16  # of a validation on a machine that is too slow for more
USEFUL_STEPS = 300  # fewer steps of the smallest model give a translator that repeats itself


@dataclass(frozen=True)
class Candidate:
    """A run that may be trained, and how many steps make it better than the next smaller one."""

    run: Run
    enough: int = 0


@dataclass(frozen=True)
class Timing:
    """Measured seconds. Injected into tests."""

    step: Callable[[Job, float], float] = time_step
    validation: Callable[[Job], float] = time_validation
    clock: Callable[[], float] = time.monotonic


@dataclass(frozen=True)
class Plan:
    """What was decided. It is printed before the run and stands in the log."""

    steps: int
    validate_every: int
    validation_sentences: int
    minutes: float | None = None  # the budget, if it is a budget of time
    seconds_per_step: float | None = None  # measured; None where nothing was measured
    seconds_per_validation: float | None = None

    def facts(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class Decided:
    """A complete run with its prepared data, and where it goes on."""

    run: Run
    task: Task
    plan: Plan
    pacer: Pacer
    before: Checkpoint | None
    notes: list[str]


class Deciding:
    """One decision, step by step."""

    def __init__(self, folder: Path, device: torch.device, ranks: Ranks, timing: Timing) -> None:
        self.folder, self.device, self.ranks, self.timing = folder, device, ranks, timing
        self.tried = 0.0  # seconds that trials took, the same on all ranks
        self.notes: list[str] = []

    # ------------------------------------------------------------ the run's data

    def prepare(self, run: Run) -> Task:
        setup = run.setup(self.folder)
        task = self.ranks.in_turn(lambda: run.task.prepare(setup))
        self.notes += [note for note in setup.notes if note not in self.notes]
        check_best_metric(run.training.best_metric, task.measured)
        return task

    def newest(self, run: Run, task: Task, restart: bool) -> Checkpoint | None:
        """The checkpoint to go on from; None for a run that begins."""
        training = run.training
        checkpoints = Checkpoints(self.folder / "state", training.keep_last, training.keep_best, task.fingerprint)
        found = checkpoints.newest()
        self.notes += drain(checkpoints.notes)
        if found is None and not restart:
            self.check_beginning(checkpoints)
        if found is not None and found.configuration != checkpoints.configuration:
            raise UsageError(
                f"{self.folder} holds a run on other training text, or in another order: the files or the version of "
                "headway have changed since it began; put them back, or give another --out"
            )
        return found

    def check_beginning(self, checkpoints: Checkpoints) -> None:
        """Hours of training must not be lost unasked: without checkpoints, a run that has begun stays as it is."""
        damaged = checkpoints.listed()
        if not (damaged or (self.folder / FACTS).exists()):
            return
        found = "; ".join(self.notes) if damaged else f"{self.folder / 'state'} holds none"
        raise UsageError(
            f"{self.folder}: no checkpoint can be read ({found}); put back a copy of the checkpoints, give another "
            "--out, or give --restart to begin again at step 0 and replace the published model"
        )

    # ------------------------------------------------------------ a number of steps

    def in_steps(self, run: Run, task: Task, steps: int, pace: float | None) -> Decided:
        """A run of so many steps."""
        training = run.training
        most = max(1, min(VALIDATIONS, steps // training.log_every))  # a few steps are no reason to measure
        every = training.validate_every or max(1, steps // most)
        plan = Plan(steps, every, training.validation_sentences, None, pace)
        return Decided(complete(run, plan), task, plan, Pacer(clock=self.timing.clock), None, self.notes)

    def in_epochs(self, run: Run, task: Task, epochs: float) -> int:
        per_step = run.training.accumulate * self.ranks.world
        return max(1, round(epochs * task.stream(self.ranks.rank, self.ranks.world).count(0) / per_step))

    # ------------------------------------------------------------ a number of minutes

    def begin_in_minutes(self, candidates: Sequence[Candidate], minutes: float) -> Decided:
        """The largest of the runs that can make enough steps in this time, with as many steps as fit."""
        seconds = minutes * 60
        run, task, pace = self.choose(candidates, seconds)
        sentences, validation = self.time_validations(run, task, seconds)
        between = max(validation / SHARE_OF_VALIDATION, seconds / VALIDATIONS)  # seconds of training
        every = run.training.validate_every or max(1, int(between / pace))
        left = seconds * (1 - RESERVE) - self.tried
        steps = max(1, fitting_steps(left, pace, validation, every))
        every = run.training.validate_every or min(every, steps)
        plan = Plan(steps, every, sentences, minutes, round(pace, 4), round(validation, 3))
        run = complete(run, plan)
        if sentences != candidates[0].run.training.validation_sentences:
            task = self.prepare(run)
        self.warn(plan)
        budget = Budget(seconds, (Decision(0, steps),))
        pacer = Pacer(self.tried, budget, self.timing.clock, validation)
        return Decided(run, task, plan, pacer, None, self.notes)

    def choose(self, candidates: Sequence[Candidate], seconds: float) -> tuple[Run, Task, float]:
        """Try the smallest run first, then larger ones as long as the machine can make enough steps of them."""
        chosen: tuple[Run, Task, float] | None = None
        known: dict[tuple[Any, ...], float] = {}
        for run, enough in ((one.run, one.enough) for one in reversed(candidates)):
            if chosen is not None:
                smaller, _, pace = chosen
                growth = max(1.0, run.training.batch.tokens / smaller.training.batch.tokens)
                if seconds / (pace * growth) < enough:
                    break
            task, key = self.prepare(run), (run.model.width, run.training.batch.tokens)
            if key not in known:
                job = assemble(run, task, self.folder, self.device, self.ranks)
                known[key] = self.trial(lambda job=job: self.timing.step(job, seconds * SHARE_OF_TRIALS / 3))
            if chosen is not None and seconds / known[key] < enough:
                break
            chosen = run, task, known[key]
        assert chosen is not None
        return chosen

    def trial(self, work: Callable[[], float]) -> float:
        begun = self.timing.clock()
        found = work()
        self.tried += self.ranks.sum(self.timing.clock() - begun)[0] / self.ranks.world
        return found

    def time_validations(self, run: Run, task: Task, seconds: float) -> tuple[int, float]:
        """How many sentences a validation may have, and how long it takes with so many."""
        wanted, allowed = run.training.validation_sentences, seconds * SHARE_OF_VALIDATION / 4
        sentences = min(FEW_SENTENCES, wanted)
        while True:
            training = replace(run.training, validation_sentences=sentences)
            tried = self.prepare(replace(run, training=training))
            job = assemble(replace(run, training=training), tried, self.folder, self.device, self.ranks)
            took = self.trial(lambda job=job: self.timing.validation(job))
            if sentences >= wanted or took * 4 > allowed:
                return sentences, took
            sentences = min(4 * sentences, wanted)

    def warn(self, plan: Plan) -> None:
        """Say when a budget is too small, and what would be enough."""
        if plan.minutes is None or plan.seconds_per_step is None or plan.steps >= USEFUL_STEPS:
            return
        needed = USEFUL_STEPS * plan.seconds_per_step * (1 + SHARE_OF_VALIDATION) + self.tried
        self.notes.append(
            f"{plan.minutes:g} minutes are too few for a useful model on this machine: {plan.steps:,} steps fit, and "
            f"{USEFUL_STEPS} are the least; give about --minutes {max(plan.minutes + 1, -(-needed // 60)):g} or more"
        )

    # ------------------------------------------------------------ going on

    def resume(self, run: Run, task: Task, before: Checkpoint, asked: Budget | None) -> Decided:
        """Go on from a checkpoint: with its own decisions, or with a budget that is given anew."""
        training, step = run.training, before.step
        seconds = float(before.facts.get("seconds", 0.0))
        pace = seconds / step if step else None
        total = training.steps
        if training.minutes is not None:  # a new budget for the whole run, what was done until now included
            spent = float(before.facts.get("spent", seconds))
            left = training.minutes * 60 * (1 - RESERVE) - spent
            more = fitting_steps(left, max(spent / step, 1e-9), 0.0, None) if step else 1
            asked = Budget(training.minutes * 60, asked.decisions if asked else ()).decide(Decision(step, step + more))
            total = step + more
        elif asked is not None:
            total = asked.total(step)
        elif training.epochs is not None:
            total = self.in_epochs(run, task, training.epochs)
        decided = self.in_steps(run, task, max(total or step, 1), pace and round(pace, 4))
        pacer = Pacer(budget=asked, clock=self.timing.clock)
        minutes = asked.seconds / 60 if asked else None
        return replace(decided, plan=replace(decided.plan, minutes=minutes), pacer=pacer, before=before)


def decide(
    candidates: Sequence[Candidate],
    folder: Path,
    device: torch.device,
    ranks: Ranks,
    restart: bool = False,
    keep_budget: bool = True,
    timing: Timing | None = None,
) -> Decided:
    """The run to train: the largest candidate that its budget allows; or the run in the folder, to go on with.

    Candidates are ordered from the largest to the smallest, and differ in model and training only.
    `keep_budget`: a budget of minutes that an earlier start was given still holds.
    Without a `timing` only budgets of minutes are timed, and the plan of another run does not say how long it takes.
    """
    deciding = Deciding(folder, device, ranks, timing or Timing())
    candidates = [replace(one, run=on_device(one.run, device)) for one in candidates]
    run = candidates[0].run
    task = deciding.prepare(run)
    before = deciding.newest(run, task, restart)
    minutes = run.training.minutes
    budget = Budget.read(folder / "state") if keep_budget else None
    if before is not None:
        return deciding.resume(run, task, before, budget)
    if minutes is not None:
        return deciding.begin_in_minutes(candidates, minutes)
    epochs = run.training.epochs
    steps = deciding.in_epochs(run, task, epochs) if epochs is not None else run.training.steps
    if steps is None:
        return deciding.begin_in_minutes(candidates, 1.0)
    pace = None
    if timing is not None:
        job = assemble(run, task, folder, device, ranks)
        pace = round(deciding.trial(lambda: timing.step(job, 60.0)), 4)
    decided = deciding.in_steps(run, task, steps, pace)
    if budget is None or steps != budget.total(0):
        return decided
    return replace(decided, pacer=Pacer(0.0, budget, deciding.timing.clock))


def complete(run: Run, plan: Plan) -> Run:
    """With everything that the plan has decided: steps instead of epochs or minutes, validations, warm-up."""
    schedule = with_warmup(run.training.schedule, plan.steps)
    training = replace(
        run.training,
        steps=plan.steps,
        epochs=None,
        minutes=None,
        validate_every=plan.validate_every,
        validation_sentences=plan.validation_sentences,
        schedule=schedule,
    )
    return replace(run, training=training)


def on_device(run: Run, device: torch.device) -> Run:
    """With the precision that "auto" means on this device."""
    precision = run.training.precision
    if precision == "auto":
        precision = "bf16" if half_is_fast(device) else "fp32"
    return replace(run, training=replace(run.training, precision=precision))


def check_best_metric(metric: str, measured: tuple[str, ...]) -> None:
    known = ("loss", *measured)
    if metric not in known:
        raise UsageError(f"training.best_metric is {metric!r}; this task measures {', '.join(known)}")
