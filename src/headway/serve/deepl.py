"""The interface that programs written for DeepL use: texts, languages, usage, glossaries and documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, BeforeValidator, Field

from headway.serve import deepl_documents, deepl_glossaries
from headway.serve.deepl_forms import (
    FORM_KINDS,
    PROBLEMS,
    CommonFields,
    Names,
    as_list,
    check_common,
    source_code,
    target_codes,
)
from headway.serve.fields import check_texts, fields, validate
from headway.serve.forms import request_body
from headway.serve.glossaries import Glossaries
from headway.serve.language_routing import AUTO, LanguageRouter, RoutedTranslation, note_all
from headway.serve.reading import OpenedDocument
from headway.serve.service import Service
from headway.serve.settings import Settings
from headway.text.languages import language_name

UNLIMITED = 1_000_000_000_000  # characters; what DeepL says to those who have no limit
LISTS = ("text", "splitting_tags", "non_splitting_tags", "ignore_tags", "glossary_ids")


class TranslateRequest(CommonFields):
    """Fields that are not named here, such as context and model_type, are ignored."""

    text: Annotated[list[str], BeforeValidator(as_list), Field(min_length=1)]
    split_sentences: Literal["0", "1", "nonewlines", 0, 1] = "1"
    preserve_formatting: bool = False
    tag_handling: Literal["html", "xml"] | None = None
    outline_detection: bool = True
    splitting_tags: Names = []
    non_splitting_tags: Names = []
    ignore_tags: Names = []
    show_billed_characters: bool = False


class TextTranslation(BaseModel):
    detected_source_language: str
    text: str
    billed_characters: int | None = None


class Translations(BaseModel):
    translations: list[TextTranslation]


class LanguageInfo(BaseModel):
    language: str
    name: str
    supports_formality: bool = False


class LanguagesRequest(BaseModel):
    type: Literal["source", "target"] = "source"


class Usage(BaseModel):
    character_count: int = 0
    character_limit: int = UNLIMITED


def router(service: Service, settings: Settings) -> APIRouter:
    """All routes of DeepL's interface."""
    routes = APIRouter(tags=["DeepL"], responses=PROBLEMS)
    interpreter, glossaries = LanguageRouter(service), Glossaries()
    routes.include_router(texts(service, interpreter, glossaries, settings))
    routes.include_router(about(interpreter))
    routes.include_router(deepl_glossaries.router(interpreter, glossaries))
    routes.include_router(deepl_documents.router(service, interpreter, glossaries))
    return routes


def texts(service: Service, interpreter: LanguageRouter, glossaries: Glossaries, settings: Settings) -> APIRouter:
    """The route that translates texts."""
    routes, limits = APIRouter(), settings.limits

    @routes.post(
        "/v2/translate", response_model_exclude_none=True, openapi_extra=request_body(TranslateRequest, *FORM_KINDS)
    )
    async def translate(request: Request) -> Translations:
        """Translate one or more texts; with `tag_handling` their tags stay."""
        asked = validate(TranslateRequest, await fields(request, LISTS))
        check_texts(asked.text, limits.text, limits.texts)
        check_common(asked, interpreter.languages)
        glossary = glossaries.terms(request, asked)
        async with service.in_time():
            documents = await read(service, asked)
            source = asked.source_lang or AUTO
            found = await interpreter.translate(documents, source, asked.target_lang, glossary=glossary)
            note_all(request, found, asked.text)
            done = await service.readers.write(documents, [one.answers for one in found])
        return answer(asked, done, found)

    return routes


def about(interpreter: LanguageRouter) -> APIRouter:
    """The routes that say what this server offers."""
    routes = APIRouter()

    @routes.get("/v2/languages", openapi_extra={"parameters": [TYPE_PARAMETER]})
    async def languages(request: Request) -> list[LanguageInfo]:
        """All languages to translate from, or into."""
        kind = validate(
            LanguagesRequest, await fields(request)
        ).type  # DeepL's own client sends it in the body of a GET
        pairs = interpreter.languages.pairs
        if kind == "source":
            found = {source_code(pair.source): language_name(pair.source) for pair in pairs}
        else:
            found = {code: called for pair in pairs for code, called in target_codes(pair.target)}
        return [LanguageInfo(language=code, name=called) for code, called in found.items()]

    @routes.get("/v2/usage")
    async def usage() -> Usage:
        """Nothing is counted and nothing is limited."""
        return Usage()

    return routes


TYPE_PARAMETER = {"name": "type", "in": "query", "schema": {"enum": ["source", "target"], "default": "source"}}


async def read(service: Service, asked: TranslateRequest) -> list[OpenedDocument]:
    """The texts as documents, read as the request says."""
    if asked.tag_handling == "html":
        return await service.readers.read("html", asked.text)
    if asked.tag_handling is None:
        return await service.readers.read("text", asked.text, lines=asked.split_sentences in ("1", 1))
    return await service.readers.read(
        "xml", asked.text, outline=asked.outline_detection, splitting=asked.splitting_tags,
        non_splitting=asked.non_splitting_tags, ignored=asked.ignore_tags,
    )  # fmt: skip


def answer(asked: TranslateRequest, done: Sequence[str], found: Sequence[RoutedTranslation]) -> Translations:
    """A translation for each text that was asked for."""
    return Translations(
        translations=[
            TextTranslation(
                detected_source_language=source_code(one.source.language),
                text=text,
                billed_characters=len(given) if asked.show_billed_characters else None,
            )
            for given, text, one in zip(asked.text, done, found, strict=True)
        ]
    )
