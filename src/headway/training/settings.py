"""How a model is trained, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from headway.data.batches import BatchSettings
from headway.model.size import check_range
from headway.training.averaging import Averaging, Tail
from headway.training.objectives import AnyObjective, TeacherForcing
from headway.training.optimiser import Adam, Muon, Optimiser
from headway.training.schedules import InverseRoot, Schedule

LOSS_PAIRS = 20  # pairs whose loss is measured, at most, for each sentence that a validation translates


@dataclass(frozen=True)
class Training:
    """Length, objective, optimiser, validation and checkpoints of a training run."""

    section: ClassVar[bool] = True

    steps: int | None = None  # number of updates; unset: from epochs or minutes, or chosen by the plan
    epochs: float | None = None  # number of passes over the corpus
    minutes: float | None = None  # wall-clock budget in minutes; the plan turns it into steps
    batch: BatchSettings = BatchSettings()  # size and shapes of a batch on one device
    accumulate: int = 1  # batches whose gradients are summed for one update
    learning_rate: float = 1e-3  # peak learning rate; with the noam schedule a factor
    schedule: Schedule = InverseRoot()  # learning-rate schedule: noam, inverse_root, cosine or constant
    optimiser: Optimiser = Adam()  # adam, adamw or muon
    objective: AnyObjective = TeacherForcing()  # what is minimised: teacher_forcing (cross-entropy)
    r_drop: float = 0.0  # R-Drop: weight of the KL divergence of two forward passes; 5 is usual; 0: off, one pass
    clip_norm: float = 1.0  # maximum norm of the gradient; 0: no clipping
    precision: Literal["auto", "fp32", "bf16", "fp16"] = (
        "auto"  # of matrix products; auto: bf16 if it is fast, else fp32
    )
    compile: bool = False  # use torch.compile, which pays off on long runs
    cuda_graphs: bool = True  # on CUDA, replay the steps of small models as graphs; needs bounded batch shapes
    averaging: Averaging = Tail()  # average of the weights that is published: none, last, tail or exponential
    validate_every: int | None = None  # steps between validations; unset: chosen by the plan
    checkpoint_every: int | None = None  # steps between checkpoints; unset: about every five minutes
    log_every: int = 50  # steps between lines of metrics.jsonl
    best_metric: str = "loss"  # metric of the best model: loss, or one of the task, such as bleu, chrf, f1 or accuracy
    patience: int | None = None  # stop after this many validations without a better score; unset: never
    validation_sentences: int = 500  # number of sentences translated at each validation
    validation_beam: int = 1  # beam size at validation; 1: greedy
    keep_last: int = 2  # number of newest checkpoints to keep, at least 1
    keep_best: int = 1  # number of best checkpoints to keep
    fsdp: bool = False  # FSDP2: shard parameters over ranks
    tensorboard: bool = False  # also write event files for TensorBoard
    deterministic: bool = False  # on CUDA, use only kernels that sum in a fixed order

    def __post_init__(self) -> None:
        self.check_budget()
        for name in ("steps", "epochs", "minutes", "validate_every", "checkpoint_every", "patience"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"{name} is {value}; it must be more than 0")
        for name in ("accumulate", "log_every", "keep_last", "validation_beam"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        check_range("r_drop", self.r_drop, 0, 1_000)
        if self.fsdp and isinstance(self.optimiser, Muon):
            raise ValueError("fsdp spreads matrices over ranks, and muon needs each of them whole; take adam or adamw")
        if self.learning_rate <= 0:
            raise ValueError(f"learning_rate is {self.learning_rate}; it must be more than 0")

    def check_budget(self) -> None:
        budgets = [name for name in ("steps", "epochs", "minutes") if getattr(self, name) is not None]
        if len(budgets) > 1:
            raise ValueError(f"{' and '.join(budgets)} are both set; give one budget")
