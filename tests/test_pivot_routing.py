"""Languages without a model of their own: through a third one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headway.serve.models import Pair
from headway.serve.pivot_routing import Languages, join_answers
from headway.serve.problems import Problem
from headway.serve.service import Answer
from serving import FACTS, FakeWorker, ask, local, said

EVERYDAY = [["en", "de", "de"], ["de", "en", "en"], ["en", "fr", "fr"], ["fr", "en", "en"]]


def pairs(*ways: str) -> Languages:
    return Languages([Pair(*way.split("-"), model=f"{way}.{number}") for number, way in enumerate(ways)])


def models(languages: Languages, source: str, target: str) -> list[str]:
    return [pair.model for pair in languages.route(source, target)]


def test_a_model_of_its_own_comes_first_then_english_then_any_other() -> None:
    known = pairs("de-it", "it-fr", "de-en", "en-fr", "de-fr")
    assert models(known, "de", "fr") == ["de-fr.4"]
    assert models(pairs("de-it", "it-fr", "de-en", "en-fr"), "de", "fr") == ["de-en.2", "en-fr.3"]
    assert models(pairs("de-it", "it-fr"), "de", "fr") == ["de-it.0", "it-fr.1"]
    assert models(pairs("de-en", "en-fr", "en-fr"), "de", "fr") == ["de-en.0", "en-fr.1"]


def test_there_is_no_way_back_to_itself_and_none_of_three_steps() -> None:
    known = pairs("a-b", "b-c", "c-d", "b-a")
    assert known.targets("a") == ["b", "c"] and known.sources("d") == ["b", "c"]
    for source, target in (("a", "d"), ("a", "a")):
        with pytest.raises(Problem):
            known.route(source, target)


def test_words_are_followed_through_the_middle() -> None:
    first = Answer("b", confidence=0.5, alignment=[(0, 1), (1, 0), (2, 2)])
    second = Answer("c", confidence=0.4, alignment=[(0, 0), (1, 1), (1, 2)], alternatives=[Answer("d")])
    both = join_answers(first, second)
    assert (both.text, both.alternatives[0].text) == ("c", "d")
    assert both.alignment == [(0, 1), (0, 2), (1, 0)]
    assert both.confidence == pytest.approx(0.2)


class Relay(FakeWorker):
    """One model of four directions, which says the language that it was asked for."""

    def __init__(self) -> None:
        super().__init__(self.tagged)
        self.facts = [{**FACTS, "pairs": EVERYDAY}]

    def tagged(self, message: dict[str, Any]) -> dict[str, Any]:
        to = message["manner"]["to"]
        return {"found": [{**said(text), "text": f"{to}({text})"} for text in message["texts"]]}


def test_a_client_gets_what_two_models_say() -> None:
    async def talk() -> None:
        async with local(Relay) as server:
            offers = (await ask(server.app, "GET", "/languages")).json()
            assert {one["code"]: one["targets"] for one in offers}["de"] == ["en", "fr"]
            body = {"q": "a", "source": "de", "target": "fr"}
            assert (await ask(server.app, "POST", "/translate", body)).json()["translatedText"] == "fr(en(a))"
            body = {"q": "a", "source": "de", "target": "en"}
            assert (await ask(server.app, "POST", "/translate", body)).json()["translatedText"] == "en(a)"

    asyncio.run(talk())
