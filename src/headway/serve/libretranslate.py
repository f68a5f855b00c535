"""The interface that programs written for LibreTranslate use."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse

from headway.serve.documents import FORMATS, suffix_of
from headway.serve.fields import check_texts, fields, validate
from headway.serve.forms import (
    FORM_KINDS,
    PROBLEMS,
    DetectedLanguage,
    DetectRequest,
    FileRequest,
    FileResponseBody,
    FrontendSettings,
    LanguageResponse,
    SuggestRequest,
    TranslateRequest,
    TranslateResponse,
    request_body,
)
from headway.serve.guard import admit
from headway.serve.language_routing import AUTO, LanguageRouter, RoutedTranslation, note_all
from headway.serve.problems import Problem
from headway.serve.reading import OpenedDocument
from headway.serve.result_files import ResultFiles
from headway.serve.service import Answer, Service
from headway.serve.settings import Settings
from headway.text.languages import client_code, language_name

TIMEOUT = 500  # milliseconds that a page waits after the last key was struck


def router(service: Service, settings: Settings) -> APIRouter:
    routes = APIRouter(tags=["LibreTranslate"], responses=PROBLEMS)
    interpreter, limits = LanguageRouter(service), settings.limits
    routes.include_router(files(service, interpreter))
    routes.include_router(about(service, interpreter))

    @routes.post(
        "/translate", response_model_exclude_none=True, openapi_extra=request_body(TranslateRequest, *FORM_KINDS)
    )
    async def translate(request: Request) -> TranslateResponse:
        """Translate a text or a list of texts; in HTML the tags stay."""
        asked = validate(TranslateRequest, await fields(request))
        admit(request, service.keys, asked.api_key)
        texts = [asked.q] if isinstance(asked.q, str) else asked.q
        check_texts(texts, limits.text, limits.texts)
        service.check("alternatives", asked.alternatives, 0, limits.alternatives)
        wanted = asked.alternatives if asked.format == "text" else 0
        async with service.in_time():
            documents = await service.readers.read(asked.format, texts)
            found = await interpreter.translate(documents, asked.source, asked.target, wanted)
            note_all(request, found, texts)
            done = await write_documents(service, documents, found, asked.alternatives)
        return answer(asked, done, found)

    @routes.post("/detect", openapi_extra=request_body(DetectRequest, *FORM_KINDS))
    async def detect(request: Request) -> list[DetectedLanguage]:
        """The languages a text may be in, the likeliest first."""
        asked = validate(DetectRequest, await fields(request))
        admit(request, service.keys, asked.api_key)
        texts = [asked.q] if isinstance(asked.q, str) else asked.q
        check_texts(texts, limits.text, limits.texts)
        (guesses,) = await interpreter.detect(["\n".join(texts)])
        return [
            DetectedLanguage(confidence=guess.confidence, language=client_code(guess.language)) for guess in guesses
        ]

    return routes


def about(service: Service, interpreter: LanguageRouter) -> APIRouter:
    """What there is, for programs and pages that ask first."""
    routes, limits = APIRouter(), service.limits

    @routes.post("/languages", include_in_schema=False)
    @routes.get("/languages")
    async def languages() -> list[LanguageResponse]:
        """All languages, and into which others each is translated."""
        known = interpreter.languages
        return [
            LanguageResponse(
                code=client_code(code),
                name=language_name(code),
                targets=[client_code(target) for target in known.targets(code)],
            )
            for code in known.all
        ]

    @routes.get("/frontend/settings")
    async def frontend() -> FrontendSettings:
        """What a page needs to know of this server."""
        known = interpreter.languages.all
        return FrontendSettings(
            charLimit=limits.text,
            frontendTimeout=TIMEOUT,
            apiKeys=service.keys.required,
            keyRequired=service.keys.required,
            suggestions=False,
            filesTranslation=bool(known),
            supportedFilesFormat=list(FORMATS),
            language={"source": {"code": AUTO, "name": "Auto Detect"}, "target": language_facts(known[-1])}
            if known
            else {},
        )

    @routes.post("/suggest", openapi_extra=request_body(SuggestRequest, *FORM_KINDS))
    async def suggest(request: Request) -> None:
        """Suggestions are not taken."""
        admit(request, service.keys, validate(SuggestRequest, await fields(request)).api_key)
        raise Problem(403, "Suggestions are disabled on this server.")

    return routes


def files(service: Service, interpreter: LanguageRouter) -> APIRouter:
    routes, shelf = APIRouter(), ResultFiles()

    @routes.post("/translate_file", openapi_extra=request_body(FileRequest, "multipart/form-data"))
    async def translate_file(request: Request) -> FileResponseBody:
        """Translate a file; the answer says where to fetch it."""
        asked = validate(FileRequest, await fields(request))
        admit(request, service.keys, asked.api_key)
        suffix = suffix_of(asked.file.filename)
        document = await service.readers.read_file(suffix, asked.file.data)
        found = await interpreter.translate_file(document, asked.source, asked.target)
        note_all(request, [found], document.texts)
        data = await service.readers.write_file(document, found.answers)
        title = f"{PurePath(asked.file.filename).stem}_{asked.target}{suffix}"
        return FileResponseBody(translatedFileUrl=download_address(request, shelf.put(data, title, suffix)))

    @routes.get("/download_file/{filename}", response_class=FileResponse)
    async def download_file(filename: str) -> FileResponse:
        """Fetch a translated file."""
        kept = shelf.get(filename)
        return FileResponse(kept.path, filename=kept.title, media_type="application/octet-stream")

    return routes


async def write_documents(
    service: Service, documents: Sequence[OpenedDocument], found: Sequence[RoutedTranslation], alternatives: int
) -> list[list[str]]:
    """For each document its translation, then its alternatives: the k-th is made of the k-th of each text."""
    ways = [one.answers for one in found]
    ways += [
        [nth_alternative(answer, number) for answer in one.answers] for number in range(alternatives) for one in found
    ]
    texts = await service.readers.write([*documents] * (1 + alternatives), ways)
    return [texts[number :: len(documents)] for number in range(len(documents))]


def answer(
    asked: TranslateRequest, done: Sequence[Sequence[str]], found: Sequence[RoutedTranslation]
) -> TranslateResponse:
    """One text gets one of everything; a list gets lists."""
    texts = [best for best, *_ in done]
    sources = [
        DetectedLanguage(confidence=one.source.confidence, language=client_code(one.source.language)) for one in found
    ]
    others = [[text for text in dict.fromkeys(more) if text.strip() and text != best] for best, *more in done]
    wanted = others if asked.alternatives else None
    if isinstance(asked.q, str):
        return TranslateResponse(
            translatedText=texts[0], detectedLanguage=sources[0], alternatives=wanted and wanted[0]
        )
    return TranslateResponse(translatedText=texts, detectedLanguage=sources, alternatives=wanted)


def nth_alternative(one: Answer, number: int) -> Answer:
    return one.alternatives[number] if number < len(one.alternatives) else one


def language_facts(code: str) -> dict[str, Any]:
    return {"code": client_code(code), "name": language_name(code)}


def download_address(request: Request, filename: str) -> str:
    """As the client sees it: a proxy in front of us may speak TLS."""
    url = request.url_for("download_file", filename=filename)
    return str(url.replace(scheme="https") if request.headers.get("x-forwarded-proto") == "https" else url)
