"""Everything a run holds while it trains, and how it is written down and taken up again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import nn

from headway.data.order import Cursor
from headway.errors import UsageError
from headway.training.task import Task
from headway.training.averaging import Average
from headway.training.engine import Engine
from headway.training.manifest import Checkpoint
from headway.training.optimiser import moments, restore_moments
from headway.training.ranks import Ranks
from headway.training.saver import Saver
from headway.training.settings import Training
from headway.training.weights import Weights, load_weights, weights_of


@dataclass
class Progress:
    """The numbers that move. Written into every checkpoint."""

    step: int = 0
    cursor: Cursor = Cursor()
    best: float | None = None  # higher is better
    stale: int = 0  # validations since the best
    rate_factor: float = 1.0  # halved after a divergence
    seconds: float = 0.0  # spent training, over all starts

    def to_json(self) -> dict[str, Any]:
        cursor = [self.cursor.epoch, self.cursor.window, self.cursor.batch]
        return {**self.__dict__, "cursor": cursor}

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> Progress:
        known = {name: facts[name] for name in cls.__dataclass_fields__}
        return cls(**{**known, "cursor": Cursor(*facts["cursor"])})


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
    progress: Progress = field(default_factory=Progress)

    def rate(self, step: int) -> float:
        settings = self.settings
        return (
            self.progress.rate_factor * settings.learning_rate * settings.schedule.factor(step, self.total, self.width)
        )

    def weights(self) -> Weights:
        return weights_of(self.model)

    def published(self) -> Weights:
        """The weights worth keeping: averaged, where the run averages."""
        return self.average.result(self.weights())

    # ------------------------------------------------------------ checkpoints

    def tensors(self) -> dict[str, Weights]:
        return {
            "model": self.weights(),
            "optimiser": moments(self.model, self.engine.update.optimiser),
            "update": self.engine.update.state(),
            "average": self.average.state(),
        }

    def facts(self) -> dict[str, Any]:
        return {**self.progress.to_json(), "total": self.total, "world": self.ranks.world, "seed": self.seed}

    def restore(self, checkpoint: Checkpoint) -> None:
        if checkpoint.facts.get("seed") != self.seed:
            raise UsageError(
                f"the run was started with seed {checkpoint.facts.get('seed')}, not {self.seed}; "
                "give the old seed, or another --out"
            )
        load_weights(self.model, checkpoint.tensors("model"))
        restore_moments(self.model, self.engine.update.optimiser, checkpoint.tensors("optimiser"))
        self.engine.update.restore(checkpoint.tensors("update"))
        device = next(self.model.parameters()).device
        self.average.restore({name: w.to(device) for name, w in checkpoint.tensors("average").items()})
        self.progress = Progress.from_json(checkpoint.facts)
