"""Everything a run holds while it trains, and how it is written down and taken up again."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import nn

from headway.data.order import Cursor
from headway.errors import UsageError
from headway.storage.manifest import Checkpoint
from headway.storage.weights import Weights, gathered, load_weights, weights_of, whole
from headway.training.averaging import Average
from headway.training.divergence import Guard
from headway.training.engine import Engine
from headway.training.optimiser import moments, restore_moments
from headway.training.pacing import FIRST_MODEL_SECONDS, Pacer
from headway.training.ranks import Ranks
from headway.training.recurrent_state import restore_state
from headway.training.saver import Saver
from headway.training.settings import Training
from headway.training.task import Stream, Task

CHECKPOINT_SECONDS = 300
RECURRENT = "carried"  # name of the recurrent state in a checkpoint


@dataclass
class Progress:
    """The numbers that move. Written into every checkpoint."""

    step: int = 0
    cursor: Cursor = Cursor()
    best: float | None = None  # higher is better
    stale: int = 0  # validations since the best
    rate_factor: float = 1.0  # halved after a divergence
    seconds: float = 0.0  # spent training, over all starts
    spent: float = 0.0  # the same with validating and saving
    rows: list[list[float]] = field(default_factory=list)  # numbers of the steps since the last line of the log
    guard: Guard = field(default_factory=Guard)

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> Progress:
        facts = {"spent": facts.get("seconds", 0.0), **facts}  # checkpoints of earlier releases do not have it
        known = {name: facts[name] for name in cls.__dataclass_fields__}
        return cls(**{**known, "cursor": Cursor(**facts["cursor"]), "guard": Guard(**facts["guard"])})


@dataclass
class Job:
    """A run being trained: parts passed in, ready to go."""

    task: Task
    model: nn.Module
    engine: Engine
    average: Average
    saver: Saver
    settings: Training
    seed: int
    total: int  # steps
    width: int  # of the model, for the paper's schedule
    ranks: Ranks
    stream: Stream  # of this rank
    progress: Progress = field(default_factory=Progress)
    pacer: Pacer = field(default_factory=Pacer)
    scored: tuple[int, float] = (-1, 0.0)  # step and score of the last validation
    previewed: bool = False  # whether weights were published before the first validation

    def rate(self, step: int) -> float:
        settings = self.settings
        factor = settings.schedule.factor(step, self.total, self.width)
        return self.progress.rate_factor * settings.learning_rate * factor

    @property
    def finished(self) -> bool:
        return self.progress.step >= self.total or self.out_of_patience

    @property
    def out_of_patience(self) -> bool:
        return self.settings.patience is not None and self.progress.stale >= self.settings.patience

    @property
    def late(self) -> bool:
        """Whether it is time for a checkpoint by the clock."""
        return self.settings.checkpoint_every is None and self.saver.seconds_ago > CHECKPOINT_SECONDS

    @property
    def unpublished(self) -> bool:
        """Whether the run has lasted long enough to leave a model, and has left none."""
        waiting = self.progress.best is None and not self.previewed
        return waiting and self.pacer.spent > FIRST_MODEL_SECONDS

    @property
    def sound(self) -> bool:
        """Whether all weights are finite. All ranks ask at once."""
        return all(bool(whole(weight).isfinite().all()) for weight in self.weights().values())

    def weights(self) -> Weights:
        return weights_of(self.model)

    def published(self) -> Weights:
        """The weights worth keeping: averaged, where the run averages. All ranks ask at once."""
        return gathered(self.average.result(self.weights()))

    @cached_property
    def mirror(self) -> nn.Module:
        """A second model, which is given the published weights to be measured. Training never touches it."""
        return self.task.build().to(self.engine.device).eval()

    # ------------------------------------------------------------ checkpoints

    def tensors(self) -> dict[str, Weights]:
        """All ranks ask at once."""
        groups = {
            "model": self.weights(),
            "optimiser": moments(self.model, self.engine.update.optimiser),
            "update": self.engine.update.state(),
            "average": self.average.state(),
        }
        if self.engine.recurrent_state:
            state = self.engine.recurrent_state
            groups[RECURRENT] = {name: self.ranks.stack(tensor) for name, tensor in state.items()}
        return {name: gathered(group) for name, group in groups.items()}

    def facts(self) -> dict[str, Any]:
        self.progress.spent = self.pacer.spent
        return {**asdict(self.progress), "total": self.total, "seed": self.seed, "with": self.circumstances()}

    def circumstances(self) -> dict[str, Any]:
        """What else the last bits of the numbers depend on."""
        device, threads = self.engine.device.type, torch.get_num_threads()
        return {"processes": self.ranks.world, "device": device, "threads": threads, "torch": torch.__version__}

    def resume(self, checkpoint: Checkpoint) -> list[str]:
        """Go on from a checkpoint of an earlier start; the notes say what is different now."""
        self.restore(checkpoint)
        return [note] if (note := self.changes(checkpoint)) else []

    def restore(self, checkpoint: Checkpoint) -> None:
        if checkpoint.facts["seed"] != self.seed:
            raise UsageError(
                f"the run was started with seed {checkpoint.facts['seed']}, not {self.seed}; "
                "give the old seed, or another --out"
            )
        load_weights(self.model, checkpoint.tensors("model"))
        restore_moments(self.model, self.engine.update.optimiser, checkpoint.tensors("optimiser"))
        self.engine.update.restore(checkpoint.tensors("update"))
        self.average.restore(checkpoint.tensors("average"), self.weights())
        self.restore_recurrent_state(checkpoint)
        self.progress = Progress.from_json(checkpoint.facts)
        self.pacer.spent = max(self.pacer.spent, self.progress.spent)
        self.total = self.pacer.rewind(self.progress.step) or self.total
        self.saver.mark(self.progress.step)

    def restore_recurrent_state(self, checkpoint: Checkpoint) -> None:
        """Take this rank's part of the state; with another number of ranks than before it begins at zero."""
        state, ranks = self.engine.recurrent_state, self.ranks
        of_all = checkpoint.tensors(RECURRENT) if state else {}
        same = all(of_all[name].shape == (ranks.world, *tensor.shape) for name, tensor in state.items())
        restore_state(state, {n: of_all[n][ranks.rank] if same else torch.zeros_like(x) for n, x in state.items()})

    def changes(self, checkpoint: Checkpoint) -> str | None:
        """What is different from when the checkpoint was made, and what that means."""
        before, now = checkpoint.facts["with"], self.circumstances()
        changed = [f"{name} {before.get(name)} -> {value}" for name, value in now.items() if before.get(name) != value]
        if not changed:
            return None
        return (
            f"going on at the same place in the data, but with {', '.join(changed)}: "
            "from here on losses and weights are not bit for bit those of the unbroken run"
        )
