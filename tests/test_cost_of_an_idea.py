"""A new mechanism costs one file and one word: it is added to a copy of the package, and a run of the copy uses it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import headway

PACKAGE, TESTS = Path(headway.__file__).parent, Path(__file__).parent


@dataclass(frozen=True)
class Idea:
    """A new member of a family."""

    name: str  # its class
    file: str  # the one file, below the package
    code: str
    union: str  # the module of the family, below the package
    family: str  # the union that gets one word more


SCHEDULED_SAMPLING = Idea(
    "ScheduledSampling",
    "training/objectives/scheduled_sampling.py",
    '''
"""The decoder reads its own predictions at a growing share of the positions (Bengio et al. 2015)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from headway.text.vocabulary import PAD
from headway.training.forward_pass import ForwardPass, Sums
from headway.training.objectives.base import Objective


class ScheduledSamplingObjective(Objective):
    def __init__(self, label_smoothing: float, steps: int) -> None:
        super().__init__()
        self.label_smoothing, self.steps = label_smoothing, steps

    def forward(self, model: ForwardPass, batch: Any, step: Tensor) -> Sums:
        with torch.no_grad():
            predictions: Any = model(batch)
            best = predictions.head(predictions.hidden[: len(batch.labels)]).argmax(dim=-1)
        own = torch.cat([batch.inputs[:, :1], best[:, :-1]], dim=1)
        chosen = torch.rand(own.shape, device=own.device) < step / self.steps
        mixed = torch.where(chosen & (batch.inputs != PAD), own, batch.inputs)
        return model(batch._replace(inputs=mixed)).loss(self.label_smoothing)


@dataclass(frozen=True)
class ScheduledSampling:
    """Scheduled sampling."""

    kind: Literal["scheduled_sampling"] = "scheduled_sampling"
    label_smoothing: float = 0.1
    steps: int = 10_000  # steps until all inputs are the model's own

    def build(self) -> Objective:
        return ScheduledSamplingObjective(self.label_smoothing, self.steps)
''',
    "training/objectives/__init__.py",
    "AnyObjective",
)
SGD = Idea(
    "Sgd",
    "training/sgd.py",
    '''
"""Stochastic gradient descent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn


@dataclass(frozen=True)
class Sgd:
    """Stochastic gradient descent."""

    kind: Literal["sgd"] = "sgd"

    def build(self, model: nn.Module, rate: float) -> torch.optim.Optimizer:
        return torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=rate, fused=True)
''',
    "training/optimiser.py",
    "Optimiser",
)
LINEAR = Idea(
    "Linear",
    "training/linear_schedule.py",
    '''
"""A straight line from the peak to zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Linear:
    """A straight line from the peak to zero."""

    kind: Literal["linear"] = "linear"

    def factor(self, step: int, total: int, width: int) -> float:
        return 1 - step / total
''',
    "training/schedules.py",
    "Schedule",
)


def add(package: Path, idea: Idea) -> None:
    """Write the one file, and put the one word, with its import, into the union."""
    (package / idea.file).write_text(idea.code.lstrip(), encoding="utf-8")
    union = package / idea.union
    module = "headway." + idea.file.removesuffix(".py").replace("/", ".")
    text, count = re.subn(rf"(?m)^({idea.family} = [^#\n]*\w)", rf"\1 | {idea.name}", union.read_text(encoding="utf-8"))
    assert count == 1, f"{idea.union} has no union {idea.family}"
    place = re.search(r"(?m)^(from|import) (?!__future__)", text)
    assert place
    line = f"from {module} import {idea.name}\n"
    union.write_text(text[: place.start()] + line + text[place.start() :], encoding="utf-8")


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package, without the weights of the built-in model."""
    copy = tmp_path / "copy" / "headway"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("*.safetensors", "__pycache__"))
    return copy


def run(package: Path, program: str) -> Any:
    """What a program prints as JSON, with the copied package."""
    paths = (str(package.parent), str(TESTS))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=package.parent)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


TRAIN = """
import json
from pathlib import Path
import corpora
import headway
assert Path(headway.__file__).is_relative_to(Path.cwd()), headway.__file__

def steps(name, **training):
    folder = Path(name)
    folder.mkdir()
    training = {"steps": 8, "log_every": 2, "validate_every": 8, "averaging": {"kind": "none"}, **training}
    corpora.train(folder, {"model": {"dropout": 0.0}, "training": training})
    return corpora.events(folder / "model", "step")

def scheduled(name, steps_of_it, **training):
    return steps(name, objective={"kind": "scheduled_sampling", "steps": steps_of_it}, **training)

print(json.dumps({
    "forced": steps("forced"),
    "hardly": scheduled("hardly", 10**9),
    "always": scheduled("always", 1),
    "twice": scheduled("twice", 10**9, r_drop=1.0),
    "linear": steps("linear", schedule={"kind": "linear"}, optimiser={"kind": "sgd"}, learning_rate=0.5),
}))
"""


def test_an_objective_an_optimiser_and_a_schedule_cost_one_file_and_one_word_each(package: Path) -> None:
    """With no share of its own predictions scheduled sampling is teacher forcing, also under R-Drop."""
    for idea in (SCHEDULED_SAMPLING, SGD, LINEAR):
        add(package, idea)
    found = run(package, TRAIN)
    losses = {name: [step["loss"] for step in steps] for name, steps in found.items()}
    assert losses["hardly"] == pytest.approx(losses["forced"], rel=1e-5)
    assert losses["twice"] == pytest.approx(losses["forced"], rel=1e-4), "without dropout both passes are the same"
    assert losses["always"][0] != pytest.approx(losses["forced"][0], rel=1e-3)
    assert [step["lr"] for step in found["linear"]] == pytest.approx([0.5 * (1 - n / 8) for n in (2, 4, 6, 8)])
    assert losses["linear"][-1] < losses["linear"][0]
