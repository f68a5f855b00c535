"""What training is told to do takes effect: each of these fails where the one line that does it is taken away."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
import safetensors.torch
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import corpora
from headway.model.design import EncoderDecoderDesign
from headway.model.kernels import Fused, Mixing, Softmax
from headway.model.mask import Mask
from headway.model.models import EncoderDecoder
from headway.model.size import Size
from headway.model.states import Once
from headway.storage import files
from headway.storage.folder import WEIGHTS, write_model
from headway.tasks.translation.task import TranslationTask
from headway.text.subword import Subword
from headway.text.vocabulary import BOS, EOS, PAD, SPECIAL_PIECES
from headway.text.words import Words
from headway.training.checkpoint import Checkpoints
from headway.training.events import Planned
from headway.training.objectives import BatchLoss
from headway.training.optimiser import Adam, Update
from headway.training.task import Batch, Validation

STEPS = {"steps": 12, "validate_every": 12, "checkpoint_every": 3}
AVERAGES: list[dict[str, Any]] = [
    {"kind": "tail", "share": 0.5, "every": 2},
    {"kind": "exponential", "decay": 0.9},
    {"kind": "last", "count": 4, "every": 2},
]


def averaging(kind: dict[str, Any]) -> dict[str, Any]:
    return {"training": {**STEPS, "averaging": kind}}


# ---------------------------------------------------------------- averages


@pytest.mark.parametrize("kind", AVERAGES, ids=lambda kind: kind["kind"])
def test_the_mean_of_the_weights_is_what_is_measured_and_published(
    kind: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[dict[str, Tensor]] = []

    def validate(self: TranslationTask, model: nn.Module, device: torch.device) -> Validation:  # noqa: ARG001
        measured.append({name: weight.clone() for name, weight in model.state_dict().items()})
        return Validation({"loss": 1.0, "bleu": 1.0, "chrf": 1.0})

    monkeypatch.setattr(TranslationTask, "validate", validate)
    corpora.train(tmp_path, averaging(kind))
    published = safetensors.torch.load_file(tmp_path / "model" / WEIGHTS)
    last = Checkpoints(tmp_path / "model" / "state").newest()
    assert last is not None and last.step == 12 and len(measured) == 1
    saved, now = last.tensors("average"), last.tensors("model")
    for name, weight in published.items():
        parts = [saved[f"{i}|{name}"] for i in range(4)] if kind["kind"] == "last" else [saved[name]]
        torch.testing.assert_close(weight, torch.stack(parts).mean(dim=0))
        torch.testing.assert_close(weight, measured[0][name], rtol=0, atol=0)
    assert not all(torch.equal(weight, now[name]) for name, weight in published.items())


@pytest.mark.parametrize("kind", AVERAGES, ids=lambda kind: kind["kind"])
def test_a_run_that_goes_on_goes_on_with_its_mean(kind: dict[str, Any], tmp_path: Path) -> None:
    corpora.train(tmp_path, averaging(kind))
    expected = corpora.outcome(tmp_path / "model")
    shutil.rmtree(tmp_path / "model" / "state" / "step-00000012")
    events = corpora.train(tmp_path, averaging(kind))
    assert [event.step for event in events if isinstance(event, Planned)] == [9]
    assert corpora.outcome(tmp_path / "model") == expected


# ---------------------------------------------------------------- the loss


def first_batch(folder: Path, *changes: dict[str, Any]) -> tuple[TranslationTask, EncoderDecoder, nn.Module, Batch]:
    trainer = corpora.trainer(folder, *changes)
    task, model = trainer.task, trainer.job.model
    assert isinstance(task, TranslationTask) and isinstance(model, EncoderDecoder)
    loss = BatchLoss(task.forward_pass(model), trainer.run.training.objective.build())
    return task, model, loss, next(iter(trainer.job.stream.iterate(corpora.START)))


def smoothed(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    flat, wanted = logits.flatten(0, 1), labels.flatten()
    return F.cross_entropy(flat, wanted, ignore_index=PAD, reduction="sum", label_smoothing=smoothing)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_labels_are_smoothed_as_the_run_says(smoothing: float, tmp_path: Path) -> None:
    _, model, loss, batch = first_batch(
        tmp_path, {"model": {"dropout": 0.0}, "training": {"objective": {"label_smoothing": smoothing}}}
    )
    source, inputs, labels = batch.tensors()
    total, nll, count = loss(torch.tensor(1), source, inputs, labels)
    logits = model(source, inputs)
    torch.testing.assert_close(total, smoothed(logits, labels, smoothing))
    torch.testing.assert_close(nll, smoothed(logits, labels, 0.0))
    assert int(count) == int((labels != PAD).sum()) == batch.tokens


@pytest.mark.parametrize("r_drop", [0.0, 5.0])
def test_two_passes_must_agree_as_the_run_says(r_drop: float, tmp_path: Path) -> None:
    """R-Drop's formula, as a mean over the two passes; the same seed gives the same dropout."""
    change = {"model": {"dropout": 0.3}, "training": {"r_drop": r_drop, "objective": {"label_smoothing": 0.0}}}
    _, model, loss, batch = first_batch(tmp_path, change)
    source, inputs, labels = batch.tensors()
    torch.manual_seed(0)
    total, _, _ = loss(torch.tensor(1), source, inputs, labels)
    torch.manual_seed(0)
    if r_drop:
        first, second = model(torch.cat([source, source]), torch.cat([inputs, inputs])).chunk(2)
        log_p, log_q = (logits.log_softmax(dim=-1)[labels != PAD] for logits in (first, second))
        apart = sum(F.kl_div(a, b, reduction="sum", log_target=True) for a, b in ((log_p, log_q), (log_q, log_p)))
        expected = sum(smoothed(logits, labels, 0.0) for logits in (first, second)) / 2 + r_drop * apart / 4
        assert (log_p - log_q).abs().max() > 0.1
    else:
        expected = smoothed(model(source, inputs), labels, 0.0)
    torch.testing.assert_close(total, expected, rtol=1e-4, atol=1e-3)


# ---------------------------------------------------------------- validation


def test_outputs_are_measured_against_the_references(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = corpora.trainer(tmp_path, {"training": {"validation_sentences": 10}})
    task, device = trainer.task, torch.device("cpu")
    assert isinstance(task, TranslationTask)
    references = [pair.target for pair in task.dev[:10]]
    outputs = [" ".join(line.split()[1:] + ["ba"]) for line in references]  # near, and not the same
    monkeypatch.setattr(TranslationTask, "translate", lambda *_: outputs)
    scores = task.validate(trainer.job.mirror, device).scores
    assert scores["bleu"] == pytest.approx(sacrebleu.corpus_bleu(outputs, [references]).score, abs=1e-4)
    assert scores["chrf"] == pytest.approx(sacrebleu.corpus_chrf(outputs, [references]).score, abs=1e-4)
    assert 0 < scores["bleu"] < 99
    assert task.validate(trainer.job.mirror, device).sample["reference"] in references


@torch.inference_mode()
def test_the_validation_loss_is_the_cross_entropy_of_the_references(tmp_path: Path) -> None:
    trainer = corpora.trainer(tmp_path, {"training": {"objective": {"label_smoothing": 0.3}}})
    task, model = trainer.task, trainer.job.mirror
    assert isinstance(task, TranslationTask) and isinstance(model, EncoderDecoder)
    total = count = 0.0
    for pair in task.dev:
        target = task.tokenizers.target.encode(pair.target)
        source = torch.tensor([[*task.tokenizers.source.encode(pair.source), EOS]])
        logits = model(source, torch.tensor([[BOS, *target]]))[0]
        total += float(F.cross_entropy(logits, torch.tensor([*target, EOS]), reduction="sum"))
        count += len(target) + 1
    assert task.dev_loss(model, task.dev, torch.device("cpu")) == pytest.approx(total / count, rel=1e-5)


# ---------------------------------------------------------------- attention dropout

SHARE = 0.25


@pytest.mark.parametrize("mixing", [Fused(), Softmax()], ids=lambda mixing: mixing.kind)
@pytest.mark.parametrize("hidden", ["nothing", "padding", "future"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_weights_are_dropped_on_a_processor(mixing: Mixing, hidden: str, dtype: torch.dtype) -> None:
    """The values are unit vectors, so that the output is the weights: a share of those that can be seen is zero."""
    torch.manual_seed(0)
    b, h, t = 8, 2, 64
    q, k = (torch.randn(b, h, t, t).to(dtype) / 8 for _ in range(2))
    v = torch.eye(t).expand(b, h, t, t).to(dtype)
    pos = torch.arange(t)[None]
    keys = torch.ones(b, t, dtype=torch.bool).index_fill(1, torch.tensor([t - 1]), False)
    mask = {"nothing": Mask(), "padding": Mask(keys=keys), "future": Mask(causal=True)}[hidden].at(pos, pos)
    kernel = mixing.build(Size(t * h, h, h, t, 1, 1, t), SHARE)
    whole = kernel.eval()(q, k, v, mask, None, Once())
    thinned = kernel.train()(q, k, v, mask, None, Once())
    seen = whole > 0
    assert int(seen.sum()) > 10_000
    assert float((thinned[seen] == 0).float().mean()) == pytest.approx(SHARE, abs=0.02)
    left = seen & (thinned != 0)
    torch.testing.assert_close(thinned[left], whole[left] / (1 - SHARE), rtol=0.02, atol=1e-3)


def test_a_model_hands_its_attention_dropout_on() -> None:
    design = EncoderDecoderDesign(
        width=32, heads=2, encoder_layers=1, decoder_layers=1, dropout=0.0, attention_dropout=0.5
    )
    model, ids = design.build(20), torch.randint(4, 20, (2, 9))
    model.train()
    assert not torch.equal(model(ids, ids), model(ids, ids))
    model.eval()
    assert torch.equal(model(ids, ids), model(ids, ids))


# ---------------------------------------------------------------- half precision


def test_half_precision_raises_its_scale_after_two_thousand_good_steps() -> None:
    weight = nn.Parameter(torch.ones(2))
    update = Update(Adam().build(nn.ParameterList([weight]), 1e-6), 1.0, half=True)
    scales = []
    for _ in range(4001):
        weight.grad = update.scale * torch.ones(2)
        norm, _ = update()
        scales.append(float(update.scale))
    torch.testing.assert_close(norm, torch.tensor(2.0).sqrt())  # whatever the scale, it is taken out again
    assert scales == [2.0**14] * 1999 + [2.0**15] * 2000 + [2.0**16] * 2
    update.scale.fill_(2.0**24)
    update.good.fill_(1999)
    weight.grad = torch.ones(2)
    update()
    assert float(update.scale) == 2.0**24  # at most


# ---------------------------------------------------------------- names that last


class Disk:
    """What was made durable and renamed, in order, by names below a folder."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.acts = folder, list[tuple[str, str]]()
        fsync, replace = os.fsync, os.replace

        def watch_fsync(handle: int) -> None:
            self.note("sync", Path(os.readlink(f"/proc/self/fd/{handle}")))
            fsync(handle)

        def watch_replace(old: Path, new: Path) -> None:
            self.note("rename", new)
            replace(old, new)

        monkeypatch.setattr("os.fsync", watch_fsync)
        monkeypatch.setattr("os.replace", watch_replace)

    def note(self, act: str, path: Path) -> None:
        if path.is_relative_to(self.folder):
            self.acts.append((act, str(path.relative_to(self.folder))))

    def last(self, act: str, name: str) -> int:
        return len(self.acts) - 1 - self.acts[::-1].index((act, name))


needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc to name an open file")


@needs_proc
def test_a_new_name_is_made_durable_in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(tmp_path, monkeypatch)
    files.replace_text(tmp_path / "latest", "one")
    assert [act for act in disk.acts if ".tmp-" not in act[1]] == [("rename", "latest"), ("sync", ".")]


@needs_proc
def test_a_checkpoint_is_durable_before_it_is_named_the_latest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Checkpoints(tmp_path) as checkpoints:
        disk = Disk(tmp_path, monkeypatch)
        checkpoints.save(1, {"model": {"w": torch.ones(2)}}, {})
    renamed = disk.acts.index(("rename", "step-00000001"))
    assert ("sync", ".") in disk.acts[renamed : disk.acts.index(("rename", "latest"))]
    assert ("sync", ".") in disk.acts[disk.acts.index(("rename", "latest")) :]


@needs_proc
def test_a_model_is_durable_before_its_facts_are_and_the_facts_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(tmp_path, monkeypatch)
    write_model(tmp_path, {"w": torch.ones(2)}, "", {}, lambda place: (place / "joint.x").write_text("x"), "")
    new, pending = disk.acts.index(("sync", ".new")), disk.acts.index(("rename", ".pending"))
    written = {name for act, name in disk.acts[:new] if act == "sync"}
    assert written == {f".new/{name}" for name in ("joint.x", "README.md", "config.toml", WEIGHTS, "headway.json")}
    assert new < pending  # the names inside, then the name of the whole
    facts = disk.acts.index(("rename", "headway.json"))
    others = max(disk.last("rename", name) for name in ("joint.x", "README.md", "config.toml", WEIGHTS))
    first = disk.acts.index(("rename", "README.md"))
    assert ("sync", ".") in disk.acts[pending:first]
    assert ("sync", ".") in disk.acts[others:facts]
    assert ("sync", ".") in disk.acts[facts:]


# ---------------------------------------------------------------- names of special pieces


@pytest.mark.parametrize("name", [*SPECIAL_PIECES, "<2de>", "<0x41>"])
def test_a_special_piece_cannot_be_asked_for_as_a_piece(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name!r} is the name of a special token"):
        Subword(pieces=(name,))


@pytest.mark.parametrize("name", SPECIAL_PIECES)
def test_a_word_with_the_name_of_a_special_piece_is_a_word(name: str) -> None:
    text = f"{name} dog {name}"
    for tokenizer in (Words().learn([text] * 9), Subword(size=300).learn([text] * 9)):
        ids = tokenizer.encode(text)
        assert not set(ids) & {PAD, BOS, EOS}
        assert tokenizer.decode(ids) == text
