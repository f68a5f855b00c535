"""How a model is trained, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from headway.data.batches import BatchSettings
from headway.training.averaging import Averaging, Tail
from headway.training.optimiser import Adam, Muon, Optimiser
from headway.training.schedules import InverseRoot, Schedule

LOSS_PAIRS = 20  # pairs whose loss is measured, at most, for each sentence that a validation translates


@dataclass(frozen=True)
class Training:
    """How long, how fast, what is measured and what is kept."""

    section: ClassVar[bool] = True

    steps: int | None = None  # updates in all; unset: from epochs or minutes, or chosen by the plan
    epochs: float | None = None  # times through the corpus
    minutes: float | None = None  # wall-clock budget; the plan turns it into steps
    batch: BatchSettings = BatchSettings()  # tokens of one batch on one device
    accumulate: int = 1  # batches summed for one update
    learning_rate: float = 1e-3  # the peak (for noam: a factor)
    schedule: Schedule = InverseRoot()  # noam, inverse_root, cosine or constant
    optimiser: Optimiser = Adam()  # adam, adamw or muon
    smoothing: float = 0.1  # label smoothing
    clip: float = 1.0  # longest gradient; 0: never clipped
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"  # arithmetic of matrix products
    compile: bool = False  # torch.compile: pays on long runs
    graphs: bool = True  # on CUDA, replay captured graphs for small models
    averaging: Averaging = Tail()  # weights that are published: none, last, tail or exponential
    validate_every: int | None = None  # steps between validations; unset: chosen by the plan
    checkpoint_every: int | None = None  # steps between checkpoints; unset: about every five minutes
    log_every: int = 50  # steps between lines of metrics.jsonl
    watch: str = "loss"  # what "best" means: loss, or a score of the task, such as bleu, chrf, f1 or accuracy
    patience: int | None = None  # validations without a better score before stopping; unset: never
    validation_sentences: int = 500  # sentences translated at each validation
    validation_beam: int = 1  # beam of validation
    keep_last: int = 2  # newest checkpoints kept
    keep_best: int = 1  # best checkpoints kept
    shard: bool = False  # FSDP2: spread parameters over ranks
    tensorboard: bool = False  # write event files for TensorBoard too
    deterministic: bool = False  # on CUDA, only kernels whose sums have one order

    def __post_init__(self) -> None:
        self.check_budget()
        for name in ("steps", "epochs", "minutes", "validate_every", "checkpoint_every", "patience"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"{name} is {value}; it must be more than 0")
        for name in ("accumulate", "log_every", "keep_last", "validation_beam"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if not 0 <= self.smoothing < 1:
            raise ValueError(f"smoothing is {self.smoothing}; it must be at least 0 and less than 1")
        if self.shard and isinstance(self.optimiser, Muon):
            raise ValueError("shard spreads matrices over ranks, and muon needs each of them whole; take adam or adamw")
        if self.learning_rate <= 0:
            raise ValueError(f"learning_rate is {self.learning_rate}; it must be more than 0")

    def check_budget(self) -> None:
        budgets = [name for name in ("steps", "epochs", "minutes") if getattr(self, name) is not None]
        if len(budgets) > 1:
            raise ValueError(f"{' and '.join(budgets)} are both set; give one budget")
