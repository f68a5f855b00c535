"""The interface that programs written for DeepL (version 2) use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, BeforeValidator

from headway.serve.fields import check_texts, checked, fields
from headway.serve.forms import Code, body
from headway.serve.language_routing import AUTO, Found, Interpreter, note_all
from headway.serve.service import Service
from headway.serve.settings import Settings
from headway.text.languages import name, shown

UNLIMITED = 1_000_000_000_000  # characters; what DeepL says to those who have no limit


def as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class Asked(BaseModel):
    """Fields that are not named here, such as formality, are ignored."""

    text: Annotated[list[str], BeforeValidator(as_list)]
    target_lang: Code
    source_lang: Code | None = None
    tag_handling: Literal["html", "xml"] | None = None


class One(BaseModel):
    detected_source_language: str
    text: str


class Translations(BaseModel):
    translations: list[One]


class Language(BaseModel):
    language: str
    name: str
    supports_formality: bool = False


class Usage(BaseModel):
    character_count: int = 0
    character_limit: int = UNLIMITED


class Message(BaseModel):
    message: str


PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Message} for status in (400, 401, 403, 404, 408, 413, 429, 500, 503)
}


def router(service: Service, settings: Settings) -> APIRouter:
    routes = APIRouter(prefix="/v2", tags=["DeepL"], responses=PROBLEMS)
    interpreter, limits = Interpreter(service), settings.limits

    @routes.post("/translate", openapi_extra=body(Asked, "application/json", "application/x-www-form-urlencoded"))
    async def translate(request: Request) -> Translations:
        """Translate one or more texts; with `tag_handling` their tags stay."""
        asked = checked(Asked, await fields(request, repeated=["text"]))
        check_texts(asked.text, limits.text, limits.texts)
        async with service.in_time():
            documents = await service.readers.read("html" if asked.tag_handling else "text", asked.text)
            found = await interpreter.translate(documents, asked.source_lang or AUTO, asked.target_lang)
            note_all(request, found, asked.text)
            texts = await service.readers.write(documents, [one.answers for one in found])
        return answer(texts, found)

    @routes.get("/languages")
    async def languages(type: Literal["source", "target"] = "source") -> list[Language]:
        """All languages to translate from, or into."""
        known = interpreter.languages
        ends = dict.fromkeys(pair.source if type == "source" else pair.target for pair in known.pairs)
        return [Language(language=code(one), name=name(one)) for one in ends]

    @routes.get("/usage")
    async def usage() -> Usage:
        """Nothing is counted and nothing is limited."""
        return Usage()

    return routes


def answer(texts: Sequence[str], found: Sequence[Found]) -> Translations:
    sources = [code(one.source.language) for one in found]
    pairs = zip(sources, texts, strict=True)
    return Translations(translations=[One(detected_source_language=source, text=text) for source, text in pairs])


def code(language: str) -> str:
    return shown(language).upper()
