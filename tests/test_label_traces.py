"""Models that do not translate, looked into and served: the numbers are those of predictors and of the perplexity."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from headway.cli import app
from headway.errors import UsageError
from headway.inspection.page_files import page_files
from headway.inspection.single_stack import ONE_ENGINE
from headway.inspection.trace_request import EVERYTHING, Edit, Head, TooLongError, TraceRequest
from headway.storage.byte_tables import unpack
from headway.tasks.classification.classifier import Classifier
from headway.tasks.language_model.perplexity import remembered, strided
from headway.tasks.language_model.predictor import LanguagePredictor
from headway.tasks.predictors import open_model
from headway.tasks.run import TASKS
from headway.tasks.tagging.tagger import Tagger
from headway.tasks.trace import trace
from headway.tasks.trace_files import read_trace
from headway.text.vocabulary import BOS, EOS
from serving import DeskWorker, Local, ask, local
from toy_models import TEXTS, toy_folders


class Opened(NamedTuple):
    model: Any
    found: dict[str, Any]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return toy_folders(tmp_path_factory.mktemp("toys"))


@pytest.fixture(scope="module")
def opened(folders: dict[str, Path]) -> dict[str, Opened]:
    models = {name: open_model(folder, "cpu") for name, folder in folders.items()}
    return {name: Opened(model, look(model, TEXTS[name])) for name, model in models.items()}


def look(model: Any, text: str, **changes: Any) -> dict[str, Any]:
    return trace(model, TraceRequest(text, model="toy", include=EVERYTHING, **changes))


def stack_of(found: dict[str, Any]) -> str:
    (stack,) = found["attention"]
    return stack


# ---------------------------------------------------------------- what all have


@pytest.mark.parametrize("name", TEXTS)
def test_attention_is_a_share_and_every_head_is_told(opened: dict[str, Opened], name: str) -> None:
    found = opened[name].found
    weights, pieces = unpack(found["attention"][stack_of(found)]), len(found["source"]["pieces"])
    assert weights.shape[-2:] == (pieces, pieces)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:3]), atol=pieces / 510, rtol=0)
    assert len(found["heads"]) == weights.size(0) * weights.size(1)
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize("name", TEXTS)
def test_silencing_a_head_changes_the_answer_and_leaves_the_model_alone(opened: dict[str, Opened], name: str) -> None:
    model, found = opened[name]
    stack: Any = stack_of(found)
    silenced = look(model, TEXTS[name], ablate=(Head(stack, 0, "self", 0), Head(stack, 0, "self", 1)))
    assert silenced["baseline"]["text"] == found["target"]["text"]
    assert silenced["heads"] != found["heads"]
    again = look(model, TEXTS[name])
    assert again | {"milliseconds": 0} == found | {"milliseconds": 0}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ablate": (Head("decoder", 0, "cross", 0),)}, "there is no head"),
        ({"ablate": (Head("encoder", 9, "self", 0),)}, "there is no head"),
        ({"prefix": (5,)}, "for translations"),
        ({"edit": (Edit(99, "x"),)}, "edit at 99"),
    ],
)
def test_what_a_model_lacks_is_refused(opened: dict[str, Opened], changes: dict[str, Any], said: str) -> None:
    for name in ("tagger", "classifier"):
        with pytest.raises(UsageError, match=said):
            look(opened[name].model, TEXTS[name], **changes)


@pytest.mark.parametrize("name", TEXTS)
def test_long_texts_are_refused(opened: dict[str, Opened], name: str) -> None:
    with pytest.raises(TooLongError):
        look(opened[name].model, "a " * 300)


# ---------------------------------------------------------------- labels


def test_labels_are_those_of_the_tagger(opened: dict[str, Opened]) -> None:
    model, found = opened["tagger"]
    assert isinstance(model, Tagger)
    (said,) = model.predict([TEXTS["tagger"]])
    assert [word["label"] for word in found["words"]] == list(said.labels)
    np.testing.assert_allclose([word["p"] for word in found["words"]], said.probabilities, atol=2e-5)
    assert found["spans"] == said.to_dict()["spans"]
    for word in found["words"]:
        assert sum(one["p"] for one in word["top"]) == pytest.approx(1, abs=1e-4)
        assert found["source"]["pieces"][word["first"]]["word"] == found["words"].index(word)


def test_an_edited_word_is_tagged_as_the_other_word_but_for_its_letters(opened: dict[str, Opened]) -> None:
    model, found = opened["tagger"]
    place = found["words"][-1]["first"]
    changed = look(model, TEXTS["tagger"], edit=(Edit(place, ""),))
    assert changed["source"]["pieces"][place]["text"] == "<unk>"
    assert len(changed["words"]) == len(found["words"])


# ---------------------------------------------------------------- classes


def test_classes_are_those_of_the_classifier_and_pooling_is_a_share(opened: dict[str, Opened]) -> None:
    model, found = opened["classifier"]
    assert isinstance(model, Classifier)
    (said,) = model.predict([TEXTS["classifier"]])
    assert {one["label"]: pytest.approx(one["p"], abs=2e-5) for one in found["classes"]} == said.chances
    assert [one["label"] for one in found["classes"] if one["chosen"]] == list(said.labels)
    assert sum(found["pooling"]) == pytest.approx(1, abs=1e-5)


def test_occlusion_is_what_predicting_again_without_the_word_says(opened: dict[str, Opened]) -> None:
    model, found = opened["classifier"]
    words, table = TEXTS["classifier"].split(), found["occlusion"]
    shorter = [" ".join(words[:place] + words[place + 1 :]) for place in range(len(words))]
    whole, rest = np.log(model.chances([TEXTS["classifier"]])), np.log(model.chances(shorter))
    rows = [model.classes.labels.index(label) for label in table["labels"]]
    worth = np.array(table["data"]).reshape(table["shape"])
    np.testing.assert_allclose(worth[:, 1:], (whole - rest).T[rows], atol=1e-4)
    assert (worth[:, 0] == 0).all()  # the class token cannot be left out


def test_an_edited_text_is_judged_as_the_other_text(opened: dict[str, Opened]) -> None:
    model, found = opened["classifier"]
    changed = look(model, TEXTS["classifier"], edit=(Edit(1, ""),))
    other = look(model, " ".join(TEXTS["classifier"].split()[1:]))
    assert changed["classes"] == other["classes"]
    assert changed["baseline"]["logp"] == pytest.approx(found["target"]["logp"])


# ---------------------------------------------------------------- language models


@pytest.mark.parametrize("name", ["writer", "rememberer"])
def test_foresight_adds_up_to_the_measured_loss(opened: dict[str, Opened], name: str) -> None:
    model, found = opened[name]
    assert isinstance(model, LanguagePredictor)
    document = [np.array([BOS, *model.tokenizer.encode(TEXTS[name]), EOS])]
    assert len(document[0]) > 2 * model.segment  # or there were nothing to carry
    if model.model.memory:
        (nats,) = remembered(model.model, document, model.segment)
    else:
        (nats,) = strided(model.model, document, model.segment, model.segment // 4)
    np.testing.assert_allclose([piece["logp"] for piece in found["target"]["pieces"]], -nats, atol=1e-4)
    assert found["target"]["logp"] == pytest.approx(-nats.sum(), abs=1e-3)
    assert found["memory"] == {"length": model.model.memory, "segment": model.segment}
    for piece in found["target"]["pieces"]:
        assert piece["rank"] == 1 or piece["top"][0]["logp"] > piece["logp"]


def test_a_memory_is_looked_at_and_nothing_beyond_it(opened: dict[str, Opened]) -> None:
    model, found = opened["rememberer"]
    weights = unpack(found["attention"]["decoder"]).amax(dim=(0, 1))
    start = 2 * model.segment  # of the third part
    before = weights[start:, :start].amax(dim=0)
    assert before[: start - model.model.memory].max() == 0 and before[start - model.model.memory :].max() > 0


# ---------------------------------------------------------------- drawn


@pytest.mark.parametrize("name", TEXTS)
def test_every_task_is_drawn_saved_and_drawn_again(folders: dict[str, Path], tmp_path: Path, name: str) -> None:
    def run(*options: object) -> str:
        result = CliRunner().invoke(app, ["look", str(folders[name]), *map(str, options)])
        assert result.exit_code == 0, result.output
        return result.output

    files = [tmp_path / f"a.{ending}" for ending in ("json", "html", "png")]
    text = TEXTS[name][:10]
    run(text, "--json", files[0], "--html", files[1], "--png", files[2])
    assert "Where it looked" in run(files[0]) and "probability" in run(text)
    assert read_trace(files[0])["kind"] in files[1].read_text()
    assert files[2].read_bytes().startswith(b"\x89PNG")


def test_only_translations_have_a_beginning_and_a_language(folders: dict[str, Path]) -> None:
    for option in (("--prefix", "a"), ("--to", "de")):
        result = CliRunner().invoke(app, ["look", str(folders["tagger"]), "a dog", *option])
        assert isinstance(result.exception, UsageError) and "translation" in str(result.exception)


# ---------------------------------------------------------------- served


def test_a_server_answers_for_models_of_every_task(opened: dict[str, Opened], folders: dict[str, Path]) -> None:
    async def check(server: Local) -> None:
        listed = (await ask(server.app, "GET", "/v1/models")).json()
        assert {one["id"]: one["task"] for one in listed} == {
            "tagger": "tagging", "classifier": "classification", "writer": "language_model",
            "rememberer": "language_model",
        }  # fmt: skip
        assert all(one["pairs"] == [] and one["parameters"] > 0 for one in listed)
        assert {(one["engine"], one["precision"], one["reason"]) for one in listed} == {("torch", "fp32", ONE_ENGINE)}
        for name, text in TEXTS.items():
            reply = await ask(server.app, "POST", "/v1/predict", {"model": name, "texts": [text, text[:10]]})
            said = [one.to_dict() for one in opened[name].model.predict([text, text[:10]])]
            assert same(reply.json()["predictions"], json.loads(json.dumps(said)))
            reply = await ask(server.app, "POST", "/v1/trace", {"model": name, "q": text, "include": ["heads"]})
            assert reply.status == 200 and same(reply.json()["target"], opened[name].found["target"])
        assert server.records()[-1]["model"] == "rememberer"

    with_models(check, folders)


def test_a_server_without_translators_has_no_languages(opened: dict[str, Opened], folders: dict[str, Path]) -> None:
    async def check(server: Local) -> None:
        for path in ("/languages", "/v2/languages"):
            assert (await ask(server.app, "GET", path)).json() == []
        page = (await ask(server.app, "GET", "/frontend/settings")).json()
        assert page["language"] == {} and not page["filesTranslation"]
        refused = [
            ("/v1/translate", {"texts": ["x"]}),
            ("/v1/stream", {"text": "x", "model": "tagger"}),
            ("/translate", {"q": "x", "source": "en", "target": "de"}),
            ("/detect", {"q": "x"}),
            ("/v1/predict", {"texts": ["x"], "model": "../tagger"}),
            ("/v1/predict", {"texts": []}),
            ("/v1/predict", {"texts": ["x" * 6000]}),
            ("/v1/trace", {"q": "x", "source": "en"}),
        ]
        for path, body in refused:
            assert (await ask(server.app, "POST", path, body)).status == 400, path
        form = {"content-type": "application/x-www-form-urlencoded"}
        reply = await ask(server.app, "POST", "/", b"q=the+dog&model=tagger", form)
        (said,) = opened["tagger"].model.predict(["the dog"])
        assert reply.status == 200 and said.text.strip() in reply.body.decode()  # the page without scripts

    with_models(check, {"tagger": folders["tagger"]})


def same(one: Any, other: Any) -> bool:
    """But for the last digits: other numbers of threads add in another order."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return math.isclose(one, other, abs_tol=1e-3) if isinstance(one, float) else one == other


def with_models(check: Callable[[Local], Coroutine[Any, Any, None]], folders: dict[str, Path]) -> None:
    async def run() -> None:
        async with local(lambda: DeskWorker(folders), folders=tuple(folders.values())) as server:
            await check(server)

    asyncio.run(run())


# ---------------------------------------------------------------- one list of panels, one view for each task


def test_the_page_lists_no_task_and_asks_for_known_panels() -> None:
    files = {name: data.decode() for name, data in page_files().items()}
    scripts = [text for name, text in files.items() if name.endswith(".js")]
    named = {
        panel
        for text in scripts
        for found in re.findall(r"parts: \[(.*?)\]", text)
        for panel in re.findall(r'"(\w+)"', found)
    }
    assert named == set(EVERYTHING)
    assert files["index.html"].count("views.js") == 1
    for kind in TASKS:
        assert f'TASKS.set("{kind}"' in files["views.js"]


def test_the_documentation_describes_every_panel() -> None:
    text = (Path(__file__).parent.parent / "docs" / "look.md").read_text(encoding="utf-8")
    assert [panel for panel in EVERYTHING if f"| {panel} |" not in text] == []
