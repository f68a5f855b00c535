"""Language models from files to folder: what they learn, how they go on after a stop, what they say of mistakes."""

from __future__ import annotations

import json
import random
from collections.abc import Generator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

import corpora
from headway import config
from headway.cli import app
from headway.errors import UsageError
from headway.model.design import LanguageModelDesign
from headway.model.models import LanguageModel
from headway.runs.trainer import Trainer
from headway.tasks.decoding_options import GenerationOptions
from headway.tasks.language_model.perplexity import remembered, strided
from headway.tasks.language_model.predictor import LanguagePredictor
from headway.tasks.language_model.task import LanguageModelling, LanguageModelTask, check_design
from headway.tasks.predictors import open_model
from headway.tasks.run import Run
from headway.training.events import Event, Saved
from headway.training.ranks import Ranks
from headway.training.signals import StopRequest

TINY: dict[str, Any] = {
    "task": {"kind": "language_model", "segment": 12},
    "text": {"kind": "characters"},
    "model": {
        "kind": "language_model", "width": 32, "heads": 2, "layers": 2, "feed_forward": {"kind": "relu", "width": 64},
        "positions": {"kind": "rotary"}, "residual": {"kind": "pre"}, "dropout": 0.0, "scale_embedding": False,
    },
    "training": {
        "steps": 20, "batch": {"tokens": 96}, "precision": "fp32", "learning_rate": 3e-3,
        "objective": {"label_smoothing": 0.0},
        "schedule": {"kind": "constant"}, "averaging": {"kind": "none"}, "log_every": 5, "validate_every": 10,
    },
}  # fmt: skip
XL: dict[str, Any] = {"model": {"positions": {"kind": "transformer_xl"}, "memory": 16}}
IN_TURNS: dict[str, Any] = {**XL, "task": {"interleaved_batches": 2, "memory_dropout": 0.5}}


def write(folder: Path, text: str) -> str:
    path = folder / "text.txt"
    path.write_text(text, encoding="utf-8")
    return str(path)


def trainer(folder: Path, text: str, *changes: Mapping[str, Any], out: str = "model") -> Trainer:
    whole: dict[str, Any] = {"data": {"train": write(folder, text)}, **TINY}
    for change in changes:
        whole = config.merge(whole, change)
    return Trainer(config.from_dict(Run, whole), folder / out, torch.device("cpu"), Ranks())


def train(folder: Path, text: str, *changes: Mapping[str, Any], out: str = "model") -> list[Event]:
    return list(trainer(folder, text, *changes, out=out).events(StopRequest()))


def opened(folder: Path) -> LanguagePredictor:
    model = open_model(folder, "cpu")
    assert isinstance(model, LanguagePredictor)
    return model


# ---------------------------------------------------------------- what they learn


def counting(lines: int) -> str:
    """The letters in order, from any of them on."""
    dice, letters = random.Random(0), "abcdefghij" * 3
    return "".join(f"{letters[start : start + dice.randint(5, 15)]}\n" for start in dice.choices(range(10), k=lines))


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("counter")
    train(folder, counting(300), {"training": {"steps": 150, "batch": {"tokens": 256}, "validate_every": 150}})
    return folder / "model"


def test_a_toy_is_learned(counter: Path) -> None:
    """What follows a letter is certain; only where a line ends is not."""
    model = opened(counter)
    greedy = model.with_options(max_new_tokens=4, temperature=0.0)
    assert greedy.write("cde") == "fghi"
    assert [one.text[:2] for one in greedy.predict(["ab", "efg"])] == ["cd", "hi"]


def test_drawing_is_repeated_by_its_seed(counter: Path) -> None:
    model = opened(counter)
    manner = {"max_new_tokens": 40, "temperature": 1.0, "top_p": 0.95, "seed": 4}
    texts = [model.with_options(**manner).write("ab") for _ in range(2)]
    assert texts[0] == texts[1] and "\n" in texts[0]


def test_what_is_told_of_a_text_adds_up(counter: Path, tmp_path: Path) -> None:
    text = counting(20)
    path = tmp_path / "test.txt"
    path.write_text(text, encoding="utf-8")
    model = opened(counter)
    found = model.evaluate([path])
    documents, amounts = model.read([path])
    nats = sum(one.sum() for one in strided(model.model, documents, 12, 3))
    assert found.count == amounts.tokens == len(text)
    assert found.scores["loss"].value == pytest.approx(nats / len(text))
    assert found.scores["bits_per_character"].value == pytest.approx(found.scores["loss"].value / 0.693147, rel=1e-5)
    counts = {str(name): number for name, number in found.tables[1].rows}
    assert counts["words"] == len(text.split()) + 20 and counts["lines"] == 20
    path.write_text("xyz\n", encoding="utf-8")
    assert "not in the vocabulary" in model.evaluate([path]).notes[0]


def test_the_commands(counter: Path, tmp_path: Path) -> None:
    told = CliRunner().invoke(app, ["predict", str(counter), "--prompt", "cde", "--max", "4", "--temperature", "0"])
    assert told.output == "cdefghi\n"
    (tmp_path / "lines.txt").write_text("ab\nefg\n", encoding="utf-8")
    asked = ["--input", str(tmp_path / "lines.txt"), "--max", "2", "--top-k", "1", "--seed", "5", "--json"]
    told = CliRunner().invoke(app, ["predict", str(counter), *asked])
    assert [json.loads(line)["text"] for line in told.output.splitlines()] == ["cd", "hi"]
    told = CliRunner().invoke(app, ["predict", str(counter), "--prompt", "a", "--beam", "2", "--temperature", "0.5"])
    assert isinstance(told.exception, UsageError) and "--beam and --temperature" in str(told.exception)
    told = CliRunner().invoke(app, ["evaluate", str(counter), "--source", str(tmp_path / "lines.txt")])
    assert (
        told.exit_code == 0
        and "interval" not in told.output
        and "bits_per_character" in told.output
        and "windows" in told.output
    )


# ---------------------------------------------------------------- memory


def copying(blocks: int) -> str:
    """Eleven random letters, the same in capitals, and so on: no segment of ten holds a letter and its copy."""
    dice, made = random.Random(1), list[str]()
    for _ in range(blocks):
        letters = "".join(dice.choices("abcdefgh", k=11))
        made.append(f"{letters}:{letters.upper()}.")
    return "".join(made)


@pytest.mark.parametrize(("memory", "solved"), [(0, False), (16, True)])
def test_only_a_memory_copies_across_segments(tmp_path: Path, memory: int, solved: bool) -> None:
    """The same weights but for the memory: without it the second time is as hard as the first, eight letters."""
    changes = {
        "task": {"kind": "language_model", "segment": 10},
        "model": {"positions": {"kind": "transformer_xl"}, "memory": memory},
        "training": {"steps": 120, "batch": {"tokens": 320}, "learning_rate": 1e-2, "validate_every": 120},
    }
    run = trainer(tmp_path, copying(400), changes, {"data": {"dev": dev(tmp_path, copying(20))}})
    list(run.events(StopRequest()))
    model, task = run.job.mirror, run.task
    assert isinstance(model, LanguageModel) and isinstance(task, LanguageModelTask)
    documents = list(task.dev.documents())
    read = remembered(model, documents, 10) if memory else strided(model, documents, 10, 10)
    second = read[0][: 20 * 24].reshape(20, 24)[:, 12:23]  # the capitals
    chance = 2.0794  # the logarithm of eight
    assert second.mean() < 0.1 * chance if solved else second.mean() > 0.9 * chance


def dev(folder: Path, text: str) -> str:
    path = folder / "dev.txt"
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("changes", [{}, XL, IN_TURNS], ids=["shuffled", "memory", "turns"])
@pytest.mark.usefixtures("short_rows")
def test_a_run_that_was_killed_goes_on_bit_for_bit(tmp_path: Path, changes: dict[str, Any]) -> None:
    """Also what was remembered is remembered again: it is part of the checkpoint."""
    more = {"training": {"checkpoint_every": 7, "accumulate": 2}, "model": {"dropout": 0.1}}
    train(tmp_path, counting(40), changes, more, out="whole")
    killed = trainer(tmp_path, counting(40), changes, more, out="killed").events(StopRequest())
    assert isinstance(killed, Generator)
    next(event for event in killed if isinstance(event, Saved) and event.step == 7)
    killed.close()
    train(tmp_path, counting(40), changes, more, out="killed")
    assert corpora.outcome(tmp_path / "killed") == corpora.outcome(tmp_path / "whole")
    held = Path(str(tmp_path / "whole" / "state"))
    assert any(held.glob("step-*/carried.safetensors")) == bool(changes)


@pytest.mark.usefixtures("short_rows")
@pytest.mark.parametrize("turns", [1, 2])
def test_a_batch_that_is_cut_in_two_remembers_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    """Out of memory in the middle of a step: the halves begin again with what was remembered before it."""
    results = []
    for failing in (False, True):
        changes = {"training": {"precision": "fp32"}, "task": {"interleaved_batches": turns}}
        run = trainer(tmp_path, counting(40), XL, changes, out=f"cut-{failing}")
        assert isinstance(run.task, LanguageModelTask) and run.task.in_order().turns == turns
        engine, stream = run.job.engine, run.job.stream.iterate(corpora.START)
        batches = list(islice(stream, 3))
        engine.step(batches[:1], 1, 1, 0.0, 1.0)
        plain, left = engine.one, [failing]

        def one(tensors: tuple[Tensor, ...], tokens: float, plain: Any = plain, left: list[bool] = left) -> Tensor:
            found = plain(tensors, tokens)  # which already wrote into the memory
            if left.pop() if left else False:
                raise torch.OutOfMemoryError
            return found

        monkeypatch.setattr(engine, "one", one)
        sums = engine.gradients(batches[1:], 1, 1.0)
        results.append((sums, {name: tensor.clone() for name, tensor in engine.recurrent_state.items()}, engine.splits))
    (sums, carried, none), (again, also, splits) = results
    assert (none, splits) == (0, 1) and torch.allclose(sums, again, rtol=1e-5)
    assert all(torch.allclose(carried[name], also[name], rtol=1e-4, atol=1e-5) for name in carried)


def test_timing_leaves_no_memory(tmp_path: Path) -> None:
    """A budget in minutes is tried out first; the run then begins as if it had not been."""
    made = trainer(tmp_path, counting(40), XL)
    timed = replace(made.run, training=replace(made.run.training, steps=None, minutes=0.05))
    run = Trainer(timed, tmp_path / "timed", torch.device("cpu"), Ranks())
    assert run.plan.seconds_per_step and run.job.pacer.spent > 0
    assert run.job.engine.recurrent_state["length"].tolist() == [[0] * run.task.size.rows]  # pyright: ignore


def test_the_recipes_are_sound_and_memory_adds_no_weights() -> None:
    counts = {}
    for path in sorted((Path(__file__).parent.parent / "recipes").glob("*.toml")):
        run = config.load(Run, path)
        if not isinstance(run.task, LanguageModelling):
            continue
        assert isinstance(run.model, LanguageModelDesign)
        check_design(run.model, run.task.segment)
        with torch.device("meta"):
            counts[path.stem] = sum(weight.numel() for weight in run.model.build(1000).parameters())
    assert counts["wikitext2-xl"] == counts["wikitext2-vanilla"]
    assert {"shakespeare", "shakespeare-cpu", "llama"} <= counts.keys()


# ---------------------------------------------------------------- texts and mistakes


def test_short_texts_and_short_documents_train(tmp_path: Path) -> None:
    """Shorter than one segment: the text is one segment by itself."""
    events = train(tmp_path, "ab\n\nc\n", {"task": {"document": "line", "held_out": 0.0}, "training": {"steps": 2}})
    assert events[-1].name == "end"
    events = train(tmp_path, "ab\n", XL, {"training": {"steps": 2}, "task": {"held_out": 0.0}}, out="other")
    assert events[-1].name == "end"


@pytest.mark.parametrize(
    ("text", "change", "said"),
    [
        ("", {}, "the file is empty"),
        ("\n \n\n", {"task": {"document": "line"}}, "no text|every line is empty"),
        ("abc\n", {"model": {"positions": {"kind": "learned"}, "longest": 8}}, "segment is 12, but the model knows 8"),
        ("abc\n", {"model": {"positions": {"kind": "sinusoidal"}, "memory": 4}}, "positions that only count distances"),
        ("abc\n", {"model": {"kind": "encoder"}}, "a language model only looks back"),
        ("abc\n", {"task": {"memory_dropout": 0.5}}, "the model has no memory"),
        ("abc\n", {"task": {"interleaved_batches": 2}}, "the model has no memory"),
    ],
)
def test_mistakes_are_told_in_one_line(tmp_path: Path, text: str, change: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said) as error:
        trainer(tmp_path, text, change)
    assert "\n" not in str(error.value)


# ---------------------------------------------------------------- others' models


@pytest.mark.parametrize("layout", ["llama", "gpt2"])
def test_an_imported_folder_is_a_language_model(tmp_path: Path, layout: str) -> None:
    """It is measured and goes on as transformers does with the same weights and the same ids."""
    pytest.importorskip("transformers")
    from exchange_models import gpt2_folder, llama_folder
    from headway.exchange.imports import import_model

    make = llama_folder if layout == "llama" else partial(gpt2_folder, together=False)
    original, encode, piece = make(tmp_path / "theirs")
    import_model(tmp_path / "theirs", tmp_path / "ours")
    model = opened(tmp_path / "ours")
    text = tmp_path / "text.txt"
    text.write_text("a dog runs\nthrough the snow\n", encoding="utf-8")
    amounts = model.read([text])[1]
    assert amounts.documents == 1 and amounts.lines == 2 and model.way.whole
    begin, end = original.config.bos_token_id, original.config.eos_token_id
    theirs = torch.tensor([[begin, *encode("a dog runs\nthrough the snow"), end]])
    with torch.no_grad():  # rows without a piece are not imported
        logits = original(theirs).logits[0, :-1, [i for i in range(original.config.vocab_size) if piece_of(piece, i)]]
    expected = float(torch.nn.functional.cross_entropy(logits, theirs[0, 1:]))
    assert model.evaluate([text]).scores["loss"].value == pytest.approx(expected, rel=1e-5)
    generator = model.generator
    written = generator.finish([generator.ids("a dog")], GenerationOptions(max_new_tokens=8, temperature=0.0))[0]
    start = torch.tensor([[begin, *encode("a dog")]])
    never = {"bad_words_ids": [[0], [begin]]} if begin != end else {}  # unknown and begin
    said = original.generate(start, attention_mask=torch.ones_like(start), do_sample=False, max_new_tokens=8, **never)
    theirs = [one for one in said[0, start.size(1) :].tolist() if one != end]
    assert [model.tokenizer.piece(one) for one in written.ids] == [piece(one) for one in theirs]


def piece_of(piece: Any, index: int) -> str | None:
    try:
        return piece(index)
    except IndexError:
        return None


def test_a_language_model_is_exported_and_comes_back(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from headway.exchange.exports import export_model
    from headway.exchange.imports import import_model

    changes = {
        "text": {"kind": "subword", "size": 300},
        "model": {"feed_forward": {"kind": "swiglu", "width": 48}, "norm": {"kind": "rms"}, "bias": False},
        "training": {"steps": 3, "validate_every": 3},
        "task": {"segment": 64},
    }
    text = "".join(f"{corpora.sentence(random.Random(i))}\n" for i in range(200))
    train(tmp_path, text, changes)
    export_model(tmp_path / "model", "hf", tmp_path / "hf")
    import_model(tmp_path / "hf", tmp_path / "back")
    path = tmp_path / "line.txt"
    path.write_text(text.splitlines()[0], encoding="utf-8")
    before, after = (opened(tmp_path / name).evaluate([path]).scores["loss"].value for name in ("model", "back"))
    assert after == pytest.approx(before, rel=1e-5)
