"""A new idea costs one file and one word.

Each test takes a copy of the package, puts the file of an idea into it, adds its class to the union of its family, and
uses the part in a process of its own. Nothing else of the copy is changed. The ideas lie in `tests/ideas`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import headway
from headway import config
from headway.errors import UsageError
from headway.model.design import EncoderDecoderDesign, LanguageModelDesign, ModelDesign
from headway.model.inputs import Features, SourceBatch
from headway.model.models import EncoderDecoder, LanguageModel
from headway.search import Beam, Greedy, score
from headway.text.vocabulary import BOS, EOS, PAD

HERE = Path(__file__).parent
WORDS = 13
SMALL = """
kind = "encoder_decoder"
width = 16
heads = 2
encoder_layers = 1
decoder_layers = 2
dropout = 0.0
"""


@dataclass(frozen=True)
class Copy:
    """A copy of the package's source."""

    folder: Path

    def add(self, idea: str, place: str, union: str) -> None:
        """Put `tests/ideas/IDEA.py` into the folder `place`, and its class into the union, as in "file.py: Family"."""
        package = self.folder / "headway"
        code = (HERE / "ideas" / f"{idea}.py").read_text(encoding="utf-8")
        (package / place / f"{idea}.py").write_text(code, encoding="utf-8")
        name = re.findall(r"^@dataclass\(frozen=True\)\nclass (\w+):", code, re.MULTILINE)[-1]
        file, family = (package / union.split(": ")[0]), union.split(": ")[1]
        module = f"headway.{place.replace('/', '.')}.{idea}"
        text, count = re.subn(
            rf"^({family} = .*?)(  #.*)?$", rf"from {module} import {name}\n\1 | {name}", file.read_text(), flags=re.M
        )
        assert count == 1
        file.write_text(text, encoding="utf-8")

    def run(self, use: Callable[[Path], None]) -> None:
        """Call a function of this file in a process that imports the copy."""
        call = f"import pathlib, headway, {__name__} as t; t.{use.__name__}(pathlib.Path({str(self.folder)!r}))"
        paths = os.environ | {"PYTHONPATH": os.pathsep.join([str(self.folder), str(HERE)]), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, "-c", call], capture_output=True, text=True, check=False, env=paths, cwd=self.folder
        )
        assert done.returncode == 0, done.stderr


@pytest.fixture
def package(tmp_path: Path) -> Copy:
    leave = shutil.ignore_patterns("__pycache__", "everyday", "page")
    shutil.copytree(Path(headway.__file__).parent, tmp_path / "headway", ignore=leave)
    return Copy(tmp_path)


# ---------------------------------------------------------------- what every new part must do


def built(toml: str) -> Any:
    """Return the model that a configuration describes. The configuration must survive being written and read."""
    design = config.from_dict(ModelDesign, tomllib.loads(toml))
    assert config.from_dict(ModelDesign, tomllib.loads(config.dump(design))) == design
    torch.manual_seed(0)
    return design.build(WORDS, WORDS) if isinstance(design, EncoderDecoderDesign) else design.build(WORDS)


def refused(toml: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        built(toml)


def sentences() -> Tensor:
    rows = torch.full((3, 6), PAD)
    for row, length in zip(rows, (5, 3, 4), strict=True):
        row[:length], row[length] = torch.randint(4, WORDS, (length,)), EOS
    return rows


def learns(model: nn.Module, loss: Callable[[], Tensor]) -> None:
    """Two steps change every parameter and lower the loss of the same batch."""
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses: list[float] = []
    for _ in range(3):
        optimiser.zero_grad()
        total = loss()
        losses.append(float(total.detach()))
        total.backward()
        optimiser.step()
    assert losses[2] < losses[1] < losses[0]
    assert [name for name, parameter in model.named_parameters() if torch.equal(parameter, before[name])] == []


def translates(model: EncoderDecoder, source: SourceBatch) -> None:
    """It learns; and the whole pass gives every hypothesis that a search finds step by step the same score."""
    target = sentences()
    inputs = torch.cat([torch.full((3, 1), BOS), target[:, :-1]], dim=1)
    learns(model, lambda: model.loss(source, inputs, target, label_smoothing=0.1).total)
    model.eval()
    for search in (Greedy(), Beam(size=3, n_best=2)):
        found = search(model, source)
        for sentence, hypotheses in enumerate(found):
            alone = source.index_select(0, torch.tensor([sentence]))
            for one in hypotheses:
                ids = torch.tensor([[*one.ids, *[EOS] * one.finished]])
                assert float(score(model, alone, ids).sum()) == pytest.approx(one.total, abs=1e-3)
        assert all(len(hypotheses) == (2 if isinstance(search, Beam) else 1) for hypotheses in found)


def continues(model: LanguageModel) -> None:
    """Step by step, with rows that change places, it gives what the whole pass gives."""
    ids = sentences()[:, :4]
    learns(model, lambda: nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()))
    model.eval()
    order = torch.tensor([2, 0, 0])
    with torch.no_grad():
        state = model.start(3)
        first = [model.step(column, state) for column in ids[:, :2].unbind(1)]
        torch.testing.assert_close(torch.stack(first, dim=1), model(ids)[:, :2])
        state.reorder(order)
        torch.testing.assert_close(model.feed(ids[order, 2:], state), model(ids[order])[:, 2:])


def trains(folder: Path, change: dict[str, Any]) -> None:
    """A whole run from a configuration leaves a folder that translates, and that no export misreads."""
    import corpora
    from headway.exchange.trained import read_trained

    corpora.train(folder, change, {"training": {"steps": 2, "validate_every": 2}})
    translator = headway.Translator.load(folder / "model", device="cpu")
    assert translator.engine.name == "torch"  # engines that do not know the part leave the model to PyTorch
    assert len(translator.translate(["ba ter"], beam=2)) == 1
    with pytest.raises(UsageError, match="which no export format knows"):
        read_trained(folder / "model")


# ---------------------------------------------------------------- the ideas


def test_a_position_scheme(package: Copy) -> None:
    package.add("square", "model/positions", "model/positions/__init__.py: Position")
    package.run(use_square)


def use_square(folder: Path) -> None:  # noqa: ARG001
    translates(built(SMALL + 'positions = { kind = "square", weight = 0.1 }'), sentences())
    linear = 'positions = { kind = "square" }\nattention = { kind = "linear" }'
    refused(SMALL + linear, "linear attention cannot use square positions: they add a bias")


def test_a_score(package: Copy) -> None:
    package.add("nearest", "model/kernels", "model/kernels/scores.py: Score")
    package.run(use_nearest)


def use_nearest(folder: Path) -> None:  # noqa: ARG001
    nearest = '{ kind = "softmax", score = { kind = "nearest" } }'
    translates(built(f"{SMALL}attention = {nearest}\ncross_attention = {nearest}"), sentences())


def test_an_input(package: Copy) -> None:
    package.add("frames", "model/inputs", "model/inputs/__init__.py: Input")
    package.run(use_frames)


def use_frames(folder: Path) -> None:  # noqa: ARG001
    """Sequences become shorter, and what stands in padded frames changes nothing."""
    model = built(SMALL + 'tie_embeddings = "output"\ninputs = { kind = "frames", features = 5 }')
    frames, target = Features(torch.randn(3, 9, 5), torch.tensor([9, 4, 6])), sentences()
    translates(model, frames)
    assert model.encode(frames).memories[0].mask.keys.sum(dim=1).tolist() == [5, 2, 3]
    disturbed = Features(frames.values.clone(), frames.lengths)
    disturbed.values[1, 4:] += 1
    assert torch.equal(model(disturbed, target), model(frames, target))
    refused(
        SMALL + 'inputs = { kind = "frames" }',
        'tie_embeddings = "all" needs token inputs, not frames; set tie_embeddings = "output"',
    )


def test_a_decoder(package: Copy) -> None:
    package.add("gru", "model/decoders", "model/decoders/__init__.py: Decoder")
    package.run(use_gru)


def use_gru(folder: Path) -> None:
    """It decodes a source, and it is a language model."""
    translates(built(SMALL + 'decoder = { kind = "gru" }'), sentences())
    small = 'kind = "language_model"\nwidth = 16\nheads = 2\nlayers = 2\ndropout = 0.0\ndecoder = { kind = "gru" }\n'
    continues(built(small))
    refused(small + "memory = 8", "a gru decoder keeps no memory of earlier segments; set memory = 0")
    trains(folder, {"model": {"decoder": {"kind": "gru"}}})


def test_an_output_distribution(package: Copy) -> None:
    package.add("copying", "model/outputs", "model/outputs/__init__.py: Output")
    package.run(use_copying)


def use_copying(folder: Path) -> None:
    """It sums to one and can copy; it trains with R-Drop too."""
    model, source, target = built(SMALL + 'output = { kind = "copy" }'), sentences(), sentences()
    translates(model, source)
    with torch.no_grad():
        model.head.gate.bias.fill_(20.0)  # copy alone
        chances = model(source, target).exp()
    torch.testing.assert_close(chances.sum(dim=-1), torch.ones(chances.shape[:2]))
    there = torch.zeros(3, WORDS).scatter(1, source, 1.0).index_fill(1, torch.tensor([PAD]), 0.0)
    assert float((chances * there[:, None]).sum(dim=-1).min()) > 0.999
    trains(folder, {"model": {"output": {"kind": "copy"}}, "training": {"r_drop": 1.0}})


def test_an_objective_an_optimiser_and_a_schedule(package: Copy) -> None:
    package.add("scheduled_sampling", "training/objectives", "training/objectives/__init__.py: AnyObjective")
    package.add("sgd", "training", "training/optimiser.py: Optimiser")
    package.add("linear_schedule", "training", "training/schedules.py: Schedule")
    package.run(use_training_ideas)


def use_training_ideas(folder: Path) -> None:
    """With no share of its own predictions scheduled sampling is teacher forcing, also under R-Drop."""
    import corpora

    def steps(name: str, **training: Any) -> list[dict[str, Any]]:
        (folder / name).mkdir()
        usual = {"steps": 8, "log_every": 2, "validate_every": 8, "averaging": {"kind": "none"}}
        corpora.train(folder / name, {"model": {"dropout": 0.0}, "training": usual | training})
        return corpora.events(folder / name / "model", "step")

    def scheduled(name: str, until: int, **training: Any) -> list[float]:
        return losses(steps(name, objective={"kind": "scheduled_sampling", "steps": until}, **training))

    def losses(events: list[dict[str, Any]]) -> list[float]:
        return [event["loss"] for event in events]

    forced = losses(steps("forced"))
    assert scheduled("hardly", 10**9) == pytest.approx(forced, rel=1e-5)
    assert scheduled("twice", 10**9, r_drop=1.0) == pytest.approx(forced, rel=1e-4), "both passes are the same"
    assert scheduled("always", 1)[0] != pytest.approx(forced[0], rel=1e-3)
    linear = steps("linear", schedule={"kind": "linear"}, optimiser={"kind": "sgd"}, learning_rate=0.5)
    assert [event["lr"] for event in linear] == pytest.approx([0.5 * (1 - n / 8) for n in (2, 4, 6, 8)])
    assert losses(linear)[-1] < losses(linear)[0]


# ---------------------------------------------------------------- today's parts


def test_a_design_without_the_keys_has_the_first_member_of_each_family() -> None:
    """So folders of earlier versions mean the same."""
    for design in (EncoderDecoderDesign(), LanguageModelDesign()):
        table = config.to_dict(design)
        without = {key: value for key, value in table.items() if key not in ("inputs", "decoder", "output")}
        assert config.from_dict(ModelDesign, without) == design
