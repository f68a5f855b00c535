"""Training from files to folder: what is written, what is kept, what is said when something is wrong."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import corpora
import fork_server
from headway import config
from headway.errors import DiskError, DivergedError, UsageError
from headway.model.models import EncoderDecoder
from headway.runs.trainer import Trainer
from headway.storage import files
from headway.storage.byte_tables import unpack
from headway.storage.folder import read_model
from headway.tasks.run import Run
from headway.tasks.translation.task import TranslationTask
from headway.text.vocabulary import EOS, SPECIAL_PIECES
from headway.training import divergence
from headway.training.engine import Engine
from headway.training.events import Ended, Event, Noted, Stepped, Validated
from headway.training.log import Log
from headway.training.objectives import BatchLoss, TeacherForcing
from headway.training.optimiser import Adam, Update
from headway.training.ranks import Ranks
from headway.training.signals import StopRequest
from headway.training.task import Batch, Validation

Sums = tuple[Tensor, Tensor, Tensor]
original = BatchLoss.forward


def of(kind: type[Any], events: list[Event]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


# ---------------------------------------------------------------- a run


def test_a_run_learns_and_leaves_a_model_a_log_and_a_state(tmp_path: Path) -> None:
    change = {"training": {"steps": 60, "validate_every": 30}}
    events = corpora.train(tmp_path, change)
    losses = [event.loss for event in of(Stepped, events)]
    assert losses[-1] < losses[0] - 1.5
    folder = tmp_path / "model"
    published = read_model(folder)
    assert published.notes == [] and published.facts["step"] == 60
    assert {"config.toml", "model.safetensors", "README.md", "joint.spm", "metrics.jsonl", "state"} <= {
        path.name for path in folder.iterdir()
    }
    corpora.covered(corpora.events(folder, "step"), every=4, total=60)
    assert of(Ended, events)[0].scores == of(Validated, events)[-1].scores
    tokens = sum(event["tokens"] for event in corpora.events(folder, "step"))
    stream = corpora.trainer(tmp_path, change).job.stream.iterate(corpora.START)
    assert tokens == sum(next(stream).tokens for _ in range(60))


def test_validating_leaves_training_alone(tmp_path: Path) -> None:
    ends = []
    for every in (24, 3):
        place = tmp_path / str(every)
        place.mkdir()
        setting = corpora.write_config(place, {"training": {"validate_every": every}})
        assert fork_server.run(place, "train", setting, "--out", place / "model")[0] == 0
        weights, _, state = corpora.outcome(place / "model")
        ends.append((weights, state, corpora.events(place / "model", "validate")[-1]["loss"]))
    assert ends[0] == ends[1]


def scripted(monkeypatch: pytest.MonkeyPatch, losses: dict[int, float]) -> None:
    """Validation losses by the number of the validation."""
    script = iter(losses.values())

    def validate(self: TranslationTask, model: torch.nn.Module, device: torch.device) -> Validation:
        loss = next(script)
        return Validation({"loss": loss, "bleu": 10 - loss, "chrf": loss}, {})

    monkeypatch.setattr(TranslationTask, "validate", validate)


def test_the_folder_keeps_the_best_also_after_a_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    every = {"training": {"validate_every": 4, "checkpoint_every": 4, "steps": 12}}
    scripted(monkeypatch, {4: 3.0, 8: 2.0, 12: 2.5})
    corpora.train(tmp_path, every)
    assert read_model(tmp_path / "model").facts["step"] == 8
    scripted(monkeypatch, {16: 2.2, 20: 1.9})
    events = corpora.train(tmp_path, {"training": {**every["training"], "steps": 20}})
    assert [event.best for event in of(Validated, events)] == [False, True]
    assert read_model(tmp_path / "model").facts == {**read_model(tmp_path / "model").facts, "step": 20}
    assert of(Ended, events)[0].scores["loss"] == 1.9


def test_patience_ends_a_run_and_more_of_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def setting(patience: int) -> dict[str, Any]:
        return {"training": {"validate_every": 2, "steps": 40, "patience": patience}}

    scripted(monkeypatch, dict(enumerate([3.0, 2.0, 2.1, 2.2, 2.3])))
    events = corpora.train(tmp_path, setting(3))
    assert (of(Ended, events)[0].reason, of(Ended, events)[0].step) == ("patience", 10)
    assert corpora.checkpoints(tmp_path / "model")[-1] == 10
    events = corpora.train(tmp_path, setting(3))
    assert of(Stepped, events) == [] and "--set training.patience=6" in of(Noted, events)[0].text
    scripted(monkeypatch, dict(enumerate([2.4, 1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1])))
    events = corpora.train(tmp_path, setting(6))
    assert (of(Ended, events)[0].reason, of(Ended, events)[0].step) == ("done", 40)


@pytest.mark.parametrize(("watch", "best"), [("loss", 4), ("bleu", 4), ("chrf", 2)])
def test_what_is_watched_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watch: str, best: int) -> None:
    scripted(monkeypatch, {2: 3.0, 4: 2.0, 6: 2.5})
    corpora.train(tmp_path, {"training": {"validate_every": 2, "steps": 6, "best_metric": watch}})
    assert read_model(tmp_path / "model").facts["step"] == best


def test_without_validation_pairs_the_latest_is_published(tmp_path: Path) -> None:
    corpora.train(tmp_path, {"data": {"dev_sentences": 0}, "training": {"steps": 9, "validate_every": 3}})
    assert read_model(tmp_path / "model").facts["step"] == 9


def test_a_score_that_is_not_finite_is_never_the_best(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(monkeypatch, {2: math.nan, 4: 2.0, 6: math.nan})
    corpora.train(tmp_path, {"training": {"validate_every": 2, "steps": 6}})
    assert read_model(tmp_path / "model").facts["step"] == 4


# ---------------------------------------------------------------- numbers that are not finite


def poison(monkeypatch: pytest.MonkeyPatch, bad: Callable[[int], bool]) -> None:
    """Let the loss of some training batches, counted from 1, be no number."""
    calls = iter(range(1, 10**6))

    def forward(self: BatchLoss, step: Tensor, *tensors: Tensor) -> Sums:
        total, nll, count = original(self, step, *tensors)
        return (total * math.nan if bad(next(calls)) else total), nll, count

    monkeypatch.setattr(BatchLoss, "forward", forward)


def test_one_bad_step_is_skipped_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    poison(monkeypatch, lambda call: call == 6)
    events = corpora.train(tmp_path)
    assert [event.skipped for event in of(Stepped, events)] == [0, 1, 0, 0, 0, 0]
    assert of(Noted, events) == [] and of(Ended, events)[0].reason == "done"
    assert all(math.isfinite(event.loss) for event in of(Stepped, events))
    assert all(tensor.isfinite().all() for tensor in read_model(tmp_path / "model").tensors.values())


def test_ten_in_a_row_go_back_once_with_half_the_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    poison(monkeypatch, lambda call: 12 <= call <= 21)
    events = corpora.train(tmp_path, {"training": {"steps": 40, "schedule": {"kind": "constant"}}})
    notes = [event.text for event in of(Noted, events)]
    assert len(notes) == 1 and re.search(r"10 steps in a row were not finite .*corpus\.a:\d+", notes[0])
    back = int(re.search(r"back to step (\d+) with half", notes[0])[1])  # pyright: ignore
    log = corpora.events(tmp_path / "model", "step")
    corpora.covered(log, every=4, total=40)
    assert [event["lr"] for event in log] == [5e-3 if event["step"] <= back else 2.5e-3 for event in log]


def test_after_a_slow_way_up_the_best_checkpoint_is_taken_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last ones lie on the way up. What comes after is judged anew: it ends well."""
    monkeypatch.setattr(divergence, "WINDOW", 8)
    scripted(monkeypatch, dict(enumerate([3.0, 2.5, 2.0, 1.5, 1.0, *[2.0] * 40])))  # the best at step 20
    losses = iter([9.0] * 8 + [5.0] * 12 + [5.0 + 0.1 * step for step in range(28)] + [4.0] * 100)

    def forward(self: BatchLoss, step: Tensor, *tensors: Tensor) -> Sums:
        total, nll, count = original(self, step, *tensors)
        return total - total.detach() + next(losses) * count, nll, count

    monkeypatch.setattr(BatchLoss, "forward", forward)
    settings = {"steps": 80, "validate_every": 4, "checkpoint_every": 4, "schedule": {"kind": "constant"}}
    events = corpora.train(tmp_path, {"training": settings})
    notes = [event.text for event in of(Noted, events)]
    assert len(notes) == 1 and "half of what was learned is lost" in notes[0], notes
    assert "back to step 20 with half the learning rate" in notes[0]
    assert of(Ended, events)[0].reason == "done"


@pytest.mark.parametrize("checkpoint_every", [3, 1000])
def test_what_stays_bad_ends_with_the_lines_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkpoint_every: int
) -> None:
    poison(monkeypatch, lambda call: call >= 8)
    trainer = corpora.trainer(tmp_path, {"training": {"checkpoint_every": checkpoint_every, "steps": 200}})
    events: list[Event] = []
    with pytest.raises(DivergedError, match=r"at step \d+: 10 steps .*\(.*corpus\.a:\d+, .*; step \d+ is kept"):
        events += trainer.events(StopRequest())
    assert DivergedError.exit_code == 4
    assert trainer.job.progress.rate_factor == 0.5
    kept = trainer.job.saver.checkpoints.newest()
    assert kept is not None and all(tensor.isfinite().all() for tensor in kept.tensors("model").values())
    assert corpora.events(tmp_path / "model", "end")[0]["reason"] == "diverged"
    for line in (tmp_path / "model" / "metrics.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=lambda text: pytest.fail(f"{text} is not JSON"))


def test_weights_that_are_not_finite_are_never_saved_as_good(tmp_path: Path) -> None:
    trainer = corpora.trainer(tmp_path, {"training": {"steps": 60}})
    with pytest.raises(DivergedError):
        for event in trainer.events(StopRequest()):
            if event.step >= 6:
                next(trainer.job.model.parameters()).data[0] = math.inf
    kept = trainer.job.saver.checkpoints.newest()
    assert kept is not None and all(tensor.isfinite().all() for tensor in kept.tensors("model").values())


# ---------------------------------------------------------------- memory


def engine_for(trainer: Any, most: int | None) -> tuple[Engine, EncoderDecoder]:
    """An engine whose device can hold so many rows."""
    torch.manual_seed(5)
    model = trainer.task.build()
    loss = BatchLoss(trainer.task.forward_pass(model), TeacherForcing().build())
    forward = loss.forward

    def limited(step: Tensor, *tensors: Tensor) -> Sums:
        if most is not None and len(tensors[0]) > most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(step, *tensors)

    loss.forward = limited
    return Engine(loss, Update(Adam().build(model, 0.1), 1.0, False), "fp32", torch.device("cpu")), model


@pytest.mark.parametrize("most", [1, 5, 9])
def test_a_batch_that_does_not_fit_is_cut_and_gives_the_same_gradient(tmp_path: Path, most: int) -> None:
    trainer = corpora.trainer(tmp_path, {"model": {"dropout": 0.0}})
    stream = trainer.task.stream(0, 1).iterate(corpora.START)
    batches: list[Batch] = [next(stream) for _ in range(2)]
    tokens = float(sum(batch.tokens for batch in batches))
    seen: list[list[Tensor]] = []
    numbers = []
    for limit in (None, most):
        engine, model = engine_for(trainer, limit)
        sums = engine.gradients(batches, seed=1, tokens=tokens)
        seen.append([parameter.grad.clone() for parameter in model.parameters()])  # pyright: ignore
        numbers.append(sums)
        assert (engine.splits > 0) == (limit is not None)
    torch.testing.assert_close(numbers[0], numbers[1], rtol=1e-6, atol=0.0)
    for whole, cut in zip(*seen, strict=True):
        torch.testing.assert_close(cut, whole, rtol=0.0, atol=1e-6)


def test_a_sentence_too_large_for_the_device_is_said_plainly(tmp_path: Path) -> None:
    trainer = corpora.trainer(tmp_path)
    engine, _ = engine_for(trainer, 0)
    batch = next(iter(trainer.task.stream(0, 1).iterate(corpora.START)))
    with pytest.raises(UsageError, match=r"one sentence alone does not fit into memory; lower data\.longest"):
        engine.step([batch], 1, 1, 0.1, 1.0)


def test_a_run_that_had_to_cut_says_so(tmp_path: Path) -> None:
    trainer = corpora.trainer(tmp_path)
    forward = trainer.job.engine.loss.forward

    def limited(step: Tensor, *tensors: Tensor) -> Sums:
        if len(tensors[0]) > 12:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(step, *tensors)

    trainer.job.engine.loss.forward = limited
    notes = of(Noted, list(trainer.events(StopRequest())))
    assert notes and all("out of memory" in note.text and "training.batch.tokens" in note.text for note in notes)


# ---------------------------------------------------------------- disk


def test_lost_saves_are_noted_and_the_third_in_a_row_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = corpora.trainer(tmp_path, {"training": {"checkpoint_every": 2, "validate_every": 100, "steps": 100}})
    trainer.job.saver.sleep = lambda _: None
    notes: list[str] = []
    with pytest.raises(DiskError, match=r"cannot write .*step-00000012: No space left on device \([\d,]+ bytes"):
        for event in trainer.events(StopRequest()):
            notes += [event.text] if isinstance(event, Noted) else []
            if event.step == 6:
                monkeypatch.setattr(files, "at", lambda _: files._fail(28))
    assert [note for note in notes if "training goes on" in note] == [
        note for note in notes if re.search(r"lost save [12] of 3", note)
    ]
    assert corpora.checkpoints(tmp_path / "model")[-1] == 6 and corpora.unfinished(tmp_path / "model") == []


# ---------------------------------------------------------------- the log


def test_the_log_forgets_what_happens_again_and_torn_lines(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    with Log(tmp_path, 0) as log:
        for step in range(1, 6):
            log.add(Noted(step, f"line\n{step} \u2028 \udc80"))
    path.write_bytes(path.read_bytes() + b'{"event": "step", "st')
    with Log(tmp_path, 3) as log:
        log.add(Noted(4, "again"))
        log.add(Noted(5, "again"))
        log.add(Noted(2, "back"))
        log.add(Ended(3, "done"))
    events = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
    assert [event["step"] for event in events] == [1, 2, 2, 3]
    with Log(tmp_path, 3):
        assert [event["step"] for event in map(json.loads, path.read_bytes().split(b"\n")[:-1])] == [1, 2, 2]


# ---------------------------------------------------------------- a disk that does not keep what it was given


def spoil(path: Path) -> None:
    """Turn one bit in the middle."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


FEW = {"training": {"steps": 6, "validate_every": 3}}


@pytest.mark.parametrize("name", ["source.ids", "source.offsets", "target.ids", "target.offsets", "corpora"])
def test_a_damaged_corpus_is_encoded_anew_with_a_note(tmp_path: Path, name: str) -> None:
    corpora.train(tmp_path, FEW)
    encoded = next((tmp_path / "model" / "state" / "corpus").glob(f"*/{name}"))
    sound = encoded.read_bytes()
    spoil(encoded)
    again = corpora.trainer(tmp_path, FEW)
    events = list(again.events(StopRequest()))
    notes = [event.text for event in of(Noted, events) if "is made anew" in event.text]
    assert len(notes) == 1 and notes[0].startswith(f"{encoded.parent} is damaged")
    assert encoded.read_bytes() == sound
    assert corpora.trainer(tmp_path, FEW).notes == []


@pytest.mark.parametrize("gone", [False, True])
def test_without_a_sound_checkpoint_nothing_is_replaced_unasked(tmp_path: Path, gone: bool) -> None:
    corpora.train(tmp_path, FEW)
    out = tmp_path / "model"
    published = corpora.fingerprint(out / "model.safetensors")
    for path in (out / "state").glob("step-*"):
        if gone:
            shutil.rmtree(path)
        else:
            spoil(path / "model.safetensors")
    before = sorted(path.name for path in (out / "state").iterdir())
    longer = {"training": {"steps": 9, "validate_every": 3, "learning_rate": 1e-4}}
    with pytest.raises(UsageError, match="--restart") as caught:
        corpora.train(tmp_path, longer)
    line = str(caught.value)
    assert "\n" not in line and str(out) in line
    assert (
        ("holds none" in line)
        if gone
        else ("step-00000006 is damaged: the checksum of model.safetensors is wrong" in line)
    )
    assert corpora.fingerprint(out / "model.safetensors") == published
    assert sorted(path.name for path in (out / "state").iterdir()) == before
    run = config.from_dict(Run, corpora.table(tmp_path, longer))
    restarted = Trainer(run, out, torch.device("cpu"), Ranks(), restart=True)
    assert of(Ended, list(restarted.events(StopRequest())))[0].reason == "done"
    assert corpora.fingerprint(out / "model.safetensors") != published
    assert corpora.checkpoints(out)[-1] == 9


# ---------------------------------------------------------------- the command


@pytest.fixture
def setting(tmp_path: Path) -> Path:
    return corpora.write_config(tmp_path, {"training": {"steps": 6, "validate_every": 3}})


def lines(said: str) -> list[str]:
    return [line for line in said.splitlines() if line.startswith("headway:")]


def test_a_second_start_reads_no_text_again(tmp_path: Path, setting: Path) -> None:
    out = tmp_path / "model"
    assert fork_server.run(tmp_path, "train", setting, "--out", out)[0] == 0
    before = {path: path.stat().st_mtime_ns for path in (out / "state").rglob("*") if path.is_file()}
    code, said = fork_server.run(tmp_path, "train", setting, "--out", out)
    assert code == 0 and "nothing is left to do: all 6 steps are done; to go on, give more" in said
    after = {path: path.stat().st_mtime_ns for path in (out / "state").rglob("*") if path.is_file()}
    assert {path for path in after if after[path] != before.get(path)} <= {out / "state" / "request.json"}


def test_what_a_killed_process_left_is_removed_at_the_next_start(tmp_path: Path, setting: Path) -> None:
    out = tmp_path / "model"
    assert fork_server.run(tmp_path, "train", setting, "--out", out)[0] == 0
    dead = subprocess.Popen(["true"])
    dead.wait()
    left = out / "state" / "corpus" / f"0123456789abcdef.x_y.tmp-{dead.pid}"
    left.mkdir()
    (left / "source.ids").write_bytes(b"half")
    for path in (out / "state").glob("step-*"):
        spoil(path / "facts.json")
    code, said = fork_server.run(tmp_path, "train", "--out", out)
    assert code == 2 and len(lines(said)) == 1
    assert "step-00000006 is damaged: the checksum of facts.json is wrong" in lines(said)[0]
    assert not left.exists()
    code, said = fork_server.run(tmp_path, "train", "--out", out, "--restart")
    assert code == 0 and [event["step"] for event in corpora.events(out, "step")] == [4, 6]


def test_more_steps_go_on_and_a_changed_setting_is_named(tmp_path: Path, setting: Path) -> None:
    out = tmp_path / "model"
    assert fork_server.run(tmp_path, "train", setting, "--out", out)[0] == 0
    code, said = fork_server.run(tmp_path, "train", "--out", out, "--set", "training.learning_rate=0.1")
    assert code == 2 and lines(said) == [
        f"headway: {out} holds a run in which training.learning_rate was 0.005, and now it is 0.1; "
        "leave it out to go on with that run, or give another --out"
    ]
    same = ["--set", "model.dropout=0.1", "--set", "training.log_every=2", "--steps", "8"]
    assert fork_server.run(tmp_path, "train", "--out", out, *same)[0] == 0
    assert [event["step"] for event in corpora.events(out, "step")] == [4, 6, 8]
    stored = tomllib.loads((out / "config.toml").read_text())
    assert (stored["training"]["steps"], stored["training"]["log_every"]) == (8, 2)
    code, said = fork_server.run(tmp_path, "train", "--out", out)
    assert code == 0 and "all 8 steps are done" in said
    with (tmp_path / "corpus.a").open("a") as source, (tmp_path / "corpus.b").open("a") as target:
        print("ba en", file=source)
        print("en ba", file=target)
    code, said = fork_server.run(tmp_path, "train", "--out", out, "--steps", 10)
    assert code == 2 and "have changed since it began" in said
    assert read_model(out).notes == []


def test_a_run_that_goes_on_longer_keeps_its_rise(tmp_path: Path) -> None:
    schedule = {"kind": "inverse_root", "warmup": 8, "max_warmup_share": 0.5}
    setting = corpora.write_config(tmp_path, {"training": {"steps": 6, "log_every": 1, "schedule": schedule}})
    out = tmp_path / "model"
    for steps in (6, 9):
        assert fork_server.run(tmp_path, "train", setting, "--out", out, "--steps", steps)[0] == 0
        assert tomllib.loads((out / "config.toml").read_text())["training"]["schedule"]["warmup"] == 3
    rates = [event["lr"] / 0.005 for event in corpora.events(out, "step")]
    assert rates == pytest.approx([min(step / 3, math.sqrt(3 / step)) for step in range(1, 10)])


def test_minutes_take_about_that_long_and_become_steps(tmp_path: Path) -> None:
    table = corpora.table(tmp_path, {"training": {"validate_every": None, "checkpoint_every": None}})
    del table["training"]["steps"]
    overrides = [f"--set={key}={json.dumps(value)}" for key, value in corpora.flat(table).items() if value is not None]
    out, begun = tmp_path / "model", time.monotonic()
    code, said = fork_server.run(tmp_path, "train", *overrides, "--out", out, "--minutes", 0.08)
    took = time.monotonic() - begun
    assert code == 0, said
    assert 2 < took < 40  # meant are 5 seconds, on a machine that others use too
    stored = tomllib.loads((out / "config.toml").read_text())["training"]
    assert stored["steps"] == corpora.events(out, "step")[-1]["step"] > 6 and "minutes" not in stored
    code, said = fork_server.run(tmp_path, "train", *overrides, "--out", out, "--minutes", 0.08)
    assert code == 0 and "nothing is left" in said
    code, said = fork_server.run(tmp_path, "train", "--out", out, "--minutes", 0.24)
    assert code == 0
    longer = tomllib.loads((out / "config.toml").read_text())["training"]["steps"]
    assert stored["steps"] < longer == corpora.events(out, "step")[-1]["step"]


def test_epochs_become_steps(tmp_path: Path) -> None:
    table = corpora.table(tmp_path, {"training": {"epochs": 2.0, "validate_every": 100}})
    del table["training"]["steps"]
    overrides = [f"--set={key}={json.dumps(value)}" for key, value in corpora.flat(table).items()]
    assert fork_server.run(tmp_path, "train", *overrides, "--out", tmp_path / "model")[0] == 0
    assert corpora.events(tmp_path / "model", "step")[-1]["epoch"] == pytest.approx(2.0, abs=0.05)


def test_a_strange_folder_is_refused_and_untouched(tmp_path: Path, setting: Path) -> None:
    strange = tmp_path / "strange"
    for names in (["thesis.tex"], ["config.toml"], ["state/keep.txt"], ["metrics.jsonl", "state/x"]):
        for name in names:
            (strange / name).parent.mkdir(parents=True, exist_ok=True)
            (strange / name).write_text("mine")
        before = {path: path.stat().st_mtime_ns for path in strange.rglob("*")}
        code, said = fork_server.run(tmp_path, "train", setting, "--out", strange)
        assert code == 2 and len(lines(said)) == 1 and "holds something else" in said
        assert {path: path.stat().st_mtime_ns for path in strange.rglob("*")} == before
        for path in sorted(strange.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
    code, said = fork_server.run(tmp_path, "train", setting, "--out", setting)
    assert code == 2 and "is a file; choose a folder" in said
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for out in (tmp_path / "link", tmp_path / "link" / "model"):
        code, said = fork_server.run(tmp_path, "train", setting, "--out", out)
        assert code == 2 and f"{tmp_path / 'link'} is a link to {tmp_path / 'nowhere'}, which is not a folder" in said
    assert not (tmp_path / "nowhere").exists()


def test_a_published_model_without_its_state_is_refused(tmp_path: Path, setting: Path) -> None:
    out = tmp_path / "model"
    assert fork_server.run(tmp_path, "train", setting, "--out", out)[0] == 0
    (out / "state").rename(tmp_path / "elsewhere")
    code, said = fork_server.run(tmp_path, "train", setting, "--out", out)
    assert code == 2 and "a published model without training state; name a new folder" in said
    assert read_model(out).notes == [] and not (out / "state").exists()


def forbid(folder: Path) -> Iterator[None]:
    folder.mkdir()
    folder.chmod(0o500)
    yield
    folder.chmod(0o700)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_place_that_cannot_be_written_is_said(tmp_path: Path, setting: Path) -> None:
    for _ in forbid(tmp_path / "forbidden"):
        code, said = fork_server.run(tmp_path, "train", setting, "--out", tmp_path / "forbidden" / "model")
        assert code == 3 and "Permission denied" in lines(said)[0]


def test_a_read_only_place_is_said(tmp_path: Path, setting: Path) -> None:
    code, said = fork_server.run(tmp_path, "train", setting, "--out", "/proc/headway-model")
    assert code == 3 and len(lines(said)) == 1 and "cannot write /proc/headway-model" in said


BAD_DATA: dict[str, tuple[dict[str, Any], int, str]] = {
    "nothing left": ({"data": {"longest": 1}}, 2, "no pair is left to train on; left out: "),
    "all filtered": ({"data": {"longest_characters": 1}}, 2, "no usable pair"),
    "missing": ({"data": {"source": "nowhere.a"}}, 2, "nowhere.a"),
    "uneven dev": ({"data": {"dev_source": "{}/corpus.a", "dev_target": "{}/run.toml"}}, 2, "lines but"),
    "unknown tag": (
        {"data": {"dev_corpora": [{"source": "{}/corpus.a", "target": "{}/corpus.b", "tag": "xx"}]}},
        2,
        "tag 'xx' is not among those of the training text",
    ),
    "tied apart": ({"text": {"joint": False, "size": 300}}, 2, 'set model.tie_embeddings = "output"'),
    "too small batches": ({"training": {"batch": {"tokens": 4}}}, 2, "batches of 4 tokens cannot hold"),
}


@pytest.mark.parametrize("name", BAD_DATA)
def test_bad_data_gives_one_line_and_a_code(tmp_path: Path, name: str) -> None:
    change, expected, text = json.loads(json.dumps(BAD_DATA[name]).replace("{}", str(tmp_path)))
    setting = corpora.write_config(tmp_path, change)
    code, said = fork_server.run(tmp_path, "train", setting, "--out", tmp_path / "model")
    assert (code, len(lines(said))) == (expected, 1), said
    assert text in said and "Traceback" not in said
    good = corpora.write_config(tmp_path, {"training": {"steps": 2, "validate_every": 2}})
    assert fork_server.run(tmp_path, "train", good, "--out", tmp_path / "model")[0] == 0  # the folder is still good


def test_doctor_is_asked_first_and_can_be_overruled(tmp_path: Path, setting: Path) -> None:
    path = tmp_path / "corpus.b"
    whole = path.read_text().splitlines()
    path.write_text("".join(f"{line if number % 3 == 0 else ''}\n" for number, line in enumerate(whole)))
    code, said = fork_server.run(tmp_path, "train", setting, "--out", tmp_path / "model")
    assert code == 5 and len(lines(said)) == 1 and "not fit for training" in said
    assert not list((tmp_path / "model").glob("*.toml"))
    code, said = fork_server.run(tmp_path, "train", setting, "--out", tmp_path / "model", "--force")
    assert code == 0 and "note: doctor: fatal: " in said
    assert any("doctor: fatal" in event["text"] for event in corpora.events(tmp_path / "model", "note"))


def test_the_log_keeps_where_the_model_looked(tmp_path: Path) -> None:
    run = corpora.trainer(tmp_path)
    for _ in run.events(StopRequest()):
        pass
    for event in corpora.events(tmp_path / "model", "validate"):
        looked, sample = event["attention"], event["sample"]
        assert looked["rows"][-1] == looked["columns"][-1] == SPECIAL_PIECES[EOS]
        said = ["".join(looked[side][:-1]).replace("▁", " ").strip() for side in ("columns", "rows")]
        assert said == [sample["source"], sample["output"].strip()]
        weights = unpack(looked)
        assert weights.shape == (len(looked["rows"]), len(looked["columns"]))
        assert torch.allclose(weights.sum(dim=1), torch.ones(len(weights)), atol=len(looked["columns"]) / 510)
