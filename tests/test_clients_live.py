"""Real client packages against a real server on this machine, with a toy model that says nonsense."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import deepl
import pytest
import uvicorn
from deepl.api_data import MultilingualGlossaryDictionaryEntries

from headway.tasks.translation.translator import Translator
from model_folders import random_folder
from serving import DeskWorker, local

TEXT = "a dog runs through the snow"


class Live:
    """A server in a thread of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.url = folder, ""
        self.ready, self.server = threading.Event(), None
        self.thread = threading.Thread(target=lambda: asyncio.run(self.run()))

    async def run(self) -> None:
        async with local(lambda: DeskWorker({"toy": self.folder}), beam=2) as here:
            config = uvicorn.Config(here.app, port=0, lifespan="off", log_config=None)
            self.server = uvicorn.Server(config)
            serving = asyncio.create_task(self.server.serve())
            while not self.server.started:
                await asyncio.sleep(0.01)
            port = self.server.servers[0].sockets[0].getsockname()[1]
            self.url = f"http://127.0.0.1:{port}"
            self.ready.set()
            await serving


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    server = Live(random_folder(tmp_path_factory.mktemp("models") / "toy"))
    server.thread.start()
    assert server.ready.wait(60)
    yield server
    assert server.server is not None
    server.server.should_exit = True
    server.thread.join(60)


@pytest.fixture(scope="module")
def expected(live: Live) -> str:
    return Translator.load(live.folder, "cpu", "torch").translate([TEXT], beam=2)[0].text


def test_libretranslatepy(live: Live, expected: str) -> None:
    from libretranslatepy import LibreTranslateAPI

    client = LibreTranslateAPI(live.url, api_key="anything")
    assert client.translate(TEXT, "en", "de") == expected
    assert client.languages() == [
        {"code": "en", "name": "English", "targets": ["de"]},
        {"code": "de", "name": "German", "targets": []},
    ]
    assert client.detect("Das ist ein Hund.")[0]["language"] == "de"
    with pytest.raises(HTTPError) as error:
        client.translate(TEXT, "en", "xx")
    with contextlib.closing(error.value):
        assert error.value.code == 400


def test_deep_translator(live: Live, expected: str) -> None:
    from deep_translator import LibreTranslator

    client = LibreTranslator(source="en", target="de", api_key="anything", custom_url=f"{live.url}/")
    assert client.translate(TEXT) == expected
    assert client.translate_batch([TEXT, TEXT]) == [expected, expected]


# ---------------------------------------------------------------- DeepL's own client


@pytest.fixture(scope="module")
def deepl_client(live: Live) -> Iterator[deepl.DeepLClient]:
    client = deepl.DeepLClient("anything", server_url=live.url)
    yield client
    client.close()


def test_deepl_texts(deepl_client: deepl.DeepLClient, expected: str) -> None:
    one = deepl_client.translate_text(TEXT, target_lang="de", source_lang="En", formality="prefer_more")
    assert isinstance(one, deepl.TextResult)
    assert (one.text, one.detected_source_lang, one.billed_characters) == (expected, "EN", len(TEXT))
    many = deepl_client.translate_text(
        iter([TEXT, f"\n{TEXT}\n"]), target_lang="DE", preserve_formatting=True, context="snow",
        split_sentences=deepl.SplitSentences.NO_NEWLINES,
    )  # fmt: skip
    assert isinstance(many, list) and [found.text for found in many] == [expected, f"\n{expected}\n"]
    for name in ("source_lang", "split_sentences"):
        wrong: dict[str, Any] = {name: "XX"}
        with pytest.raises(deepl.DeepLException, match=name):
            deepl_client.translate_text(TEXT, target_lang="DE", **wrong)
    with pytest.raises(deepl.DeepLException, match="target_lang.*not supported"):
        deepl_client.translate_text(TEXT, target_lang="XX")
    with pytest.raises(deepl.DeepLException, match="formality.*target_lang"):
        deepl_client.translate_text(TEXT, target_lang="DE", formality="more")


def test_deepl_tags(deepl_client: deepl.DeepLClient) -> None:
    text = '<doc><raw>kept</raw>A <g id="1">dog</g> runs.</doc>'
    found = deepl_client.translate_text(
        text, source_lang="EN", target_lang="DE", tag_handling="xml", ignore_tags="raw", outline_detection=False,
        splitting_tags=["doc", "par"], non_splitting_tags="g",
    )  # fmt: skip
    assert isinstance(found, deepl.TextResult)
    assert re.fullmatch(r'<doc>.*<raw>kept</raw>.*<g id="1">[^<]*</g>.*</doc>', found.text, re.DOTALL)


def test_deepl_languages_and_usage(deepl_client: deepl.DeepLClient) -> None:
    assert [(one.code, one.name) for one in deepl_client.get_source_languages()] == [("EN", "English")]
    assert [(one.code, one.supports_formality) for one in deepl_client.get_target_languages()] == [("DE", False)]
    pairs = deepl_client.get_glossary_languages()
    assert [(one.source_lang, one.target_lang) for one in pairs] == [("en", "de")]
    usage = deepl_client.get_usage()
    assert usage.character.valid and not usage.any_limit_reached


def test_deepl_glossaries(deepl_client: deepl.DeepLClient) -> None:
    entries = {"dog": "Köter", "A%=&": "B&=%", "\u0394\u3041": "\u6df1"}
    made = deepl_client.create_glossary("animals", "EN", "DE", entries)
    assert (made.source_lang, made.target_lang, made.entry_count, made.ready) == ("EN", "DE", 3, True)
    assert deepl_client.get_glossary(made.glossary_id).creation_time == made.creation_time
    assert deepl_client.get_glossary_entries(made) == entries
    assert "animals" in [one.name for one in deepl_client.list_glossaries()]
    found = deepl_client.translate_text(TEXT, source_lang="EN", target_lang="DE", glossary=made)
    assert isinstance(found, deepl.TextResult) and "Köter" in found.text
    deepl_client.delete_glossary(made)
    for ask in (deepl_client.get_glossary, deepl_client.get_glossary_entries, deepl_client.delete_glossary):
        with pytest.raises(deepl.GlossaryNotFoundException):
            ask(made.glossary_id)
        with pytest.raises(deepl.DeepLException):
            ask("invalid_glossary_id")
    with pytest.raises(deepl.DeepLException, match="glossary"):
        deepl_client.translate_text(TEXT, source_lang="EN", target_lang="DE", glossary=made.glossary_id)
    with pytest.raises(deepl.DeepLException):
        deepl_client.create_glossary("animals", "EN", "XX", entries)
    csv = deepl_client.create_glossary_from_csv("csv", "EN", "DE", 'dog,"Köter, der",en,de\ncat,Katze\n')
    assert deepl_client.get_glossary_entries(csv) == {"dog": "Köter, der", "cat": "Katze"}


def test_deepl_glossaries_with_several_dictionaries(deepl_client: deepl.DeepLClient) -> None:
    def entries(**terms: str) -> MultilingualGlossaryDictionaryEntries:
        return MultilingualGlossaryDictionaryEntries("EN", "DE", terms)

    made = deepl_client.create_multilingual_glossary("animals", [entries(dog="Hund")])
    assert [(one.source_lang, one.target_lang, one.entry_count) for one in made.dictionaries] == [("EN", "DE", 1)]
    assert deepl_client.update_multilingual_glossary_name(made, "beasts").name == "beasts"
    changed = deepl_client.update_multilingual_glossary_dictionary(made, entries(cat="Katze"))
    assert changed.dictionaries[0].entry_count == 2
    (found,) = deepl_client.get_multilingual_glossary_entries(made, "EN", "DE").dictionaries
    assert found.entries == "dog\tHund\ncat\tKatze"
    assert deepl_client.replace_multilingual_glossary_dictionary(made, entries(dog="Köter")).entry_count == 1
    assert made.glossary_id in [one.glossary_id for one in deepl_client.list_multilingual_glossaries()]
    used = deepl_client.translate_text(TEXT, source_lang="EN", target_lang="DE", glossary=made)
    assert isinstance(used, deepl.TextResult) and "Köter" in used.text
    deepl_client.delete_multilingual_glossary_dictionary(made, source_lang="EN", target_lang="DE")
    assert deepl_client.get_multilingual_glossary(made.glossary_id).dictionaries == []
    deepl_client.delete_multilingual_glossary(made)
    with pytest.raises(deepl.GlossaryNotFoundException):
        deepl_client.get_multilingual_glossary(made.glossary_id)


def test_deepl_documents(deepl_client: deepl.DeepLClient, expected: str, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text(f"{TEXT}\n")
    status = deepl_client.translate_document_from_filepath(
        tmp_path / "in.txt", tmp_path / "out.txt", source_lang="EN", target_lang="DE"
    )
    assert status.done and status.billed_characters == len(TEXT)
    assert (tmp_path / "out.txt").read_text(encoding="utf-8") == f"{expected}\n"
    glossary = deepl_client.create_glossary("animals", "EN", "DE", {"dog": "Köter"})
    handle = deepl_client.translate_document_upload(
        TEXT, filename="a.txt", source_lang="EN", target_lang="DE", glossary=glossary
    )
    assert deepl_client.translate_document_wait_until_done(handle).ok
    answer = deepl_client.translate_document_download(handle)
    assert answer is not None and "Köter" in answer.content.decode()
    with pytest.raises(deepl.DeepLException, match="Not found"):
        deepl_client.translate_document_get_status(deepl.DocumentHandle(handle.document_id, "CD34" * 16))
    with pytest.raises(deepl.DeepLException, match="file format"):
        deepl_client.translate_document_upload("x", filename="a.exe", source_lang="EN", target_lang="DE")


ARGOS = """
import sys
from argostranslate import apis, translate
apis.LibreTranslateAPI.DEFAULT_URL = sys.argv[1]
api = apis.LibreTranslateAPI()
print(api.detect("Das ist ein Hund.")[0]["language"])
english, german = translate.get_installed_languages()
print(english.name, german.name)
print(english.get_translation(german).translate(sys.argv[2]))
"""


def test_argos_translate(live: Live, expected: str, tmp_path: Path) -> None:
    """Its provider for LibreTranslate, in a process whose home is somewhere else."""
    homes = {name: str(tmp_path) for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")}
    command = [sys.executable, "-c", ARGOS, live.url, TEXT]
    environment = {**os.environ, **homes, "ARGOS_MODEL_PROVIDER": "LIBRETRANSLATE"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.split("\n") == ["de", "English German", expected, ""], done.stderr
