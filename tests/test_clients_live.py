"""Real client packages against a real server on this machine, with a toy model that says nonsense."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError

import pytest
import uvicorn

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
