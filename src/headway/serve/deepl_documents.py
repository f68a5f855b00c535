"""DeepL's routes for documents: a file is sent, translated after its request, and fetched when it is done."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import secrets
import time
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Literal

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse
from pydantic import BaseModel, ConfigDict

from headway.data.glossary import Glossary
from headway.serve.deepl_forms import FORM_KINDS, CommonFields, check_common
from headway.serve.documents import suffix_of
from headway.serve.fields import Upload, fields, validate
from headway.serve.forms import request_body
from headway.serve.glossaries import Glossaries
from headway.serve.language_routing import AUTO, LanguageRouter
from headway.serve.logs import place
from headway.serve.middleware import note_texts
from headway.serve.problems import Problem
from headway.serve.reading import OpenedDocument
from headway.serve.result_files import KEPT, ResultFiles
from headway.serve.service import Service

MOST_UNFINISHED = 8  # documents, of all clients
PATIENCE = 3.0  # seconds that a question for the status waits for the end: a client comes back only after five

BYTES = "application/octet-stream"


class DocumentRequest(CommonFields):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    file: Upload
    filename: str | None = None
    output_format: str | None = None


class DocumentKeyRequest(BaseModel):
    document_key: str


class Handle(BaseModel):
    document_id: str
    document_key: str


class Status(BaseModel):
    document_id: str
    status: Literal["queued", "translating", "done", "error"]
    seconds_remaining: int | None = None
    billed_characters: int | None = None
    error_message: str | None = None


@dataclass
class DocumentJob:
    """A document on its way."""

    document: OpenedDocument
    asked: DocumentRequest
    glossary: Glossary
    title: str  # the name of the translated file
    handle: Handle = field(
        default_factory=lambda: Handle(
            document_id=secrets.token_hex(16).upper(), document_key=secrets.token_hex(32).upper()
        )
    )
    until: float = field(default_factory=lambda: time.monotonic() + KEPT)
    started: bool = False
    result: str = ""  # the name of the translated file on the shelf
    trouble: str = ""  # why there will be no result
    done: asyncio.Event = field(default_factory=asyncio.Event)

    def status(self) -> Status:
        """What DeepL's clients read while they wait."""
        state = "error" if self.trouble else "done" if self.result else "translating" if self.started else "queued"
        count = sum(map(len, self.document.texts))
        return Status(
            document_id=self.handle.document_id,
            status=state,
            seconds_remaining=1 if state in ("queued", "translating") else None,
            billed_characters=count if state == "done" else None,
            error_message=self.trouble or None,
        )


class DocumentJobs:
    """All documents that are being translated or wait to be fetched, by their ids."""

    def __init__(self, service: Service, interpreter: LanguageRouter) -> None:
        self.service, self.interpreter = service, interpreter
        self.table: dict[str, DocumentJob] = {}
        self.shelf = ResultFiles()
        self.turn = asyncio.Semaphore(1)

    def add(self, job: DocumentJob) -> None:
        """Translate a document when it is its turn. Problem 429 if too many wait."""
        self.table = {
            name: one for name, one in self.table.items() if one.until > time.monotonic() or not one.done.is_set()
        }
        if sum(not one.done.is_set() for one in self.table.values()) >= MOST_UNFINISHED:
            raise Problem(429, "too many documents are being translated; come back later", 10)
        self.table[job.handle.document_id] = job
        self.service.start_background(self.work(job))

    def get(self, document_id: str, key: str) -> DocumentJob:
        """The document with this id and this key; Problem 404 if there is none."""
        found = self.table.get(document_id)
        if found is None or not hmac.compare_digest(found.handle.document_key.encode(), key.encode("utf-8", "replace")):
            raise Problem(404, "there is no such document, or it is no longer kept")
        return found

    async def work(self, job: DocumentJob) -> None:
        """Translate a document and keep the result, or the reason why there is none."""
        try:
            async with self.turn:
                job.started = True
                await self.translate(job)
        except Problem as problem:
            job.trouble = problem.detail
        except Exception as error:
            self.service.log.write("error", event="a document could not be translated", fault=place(error))
            job.trouble = "a fault of the server; it has been noted"
        finally:
            job.done.set()

    async def translate(self, job: DocumentJob) -> None:
        source, target = job.asked.source_lang or AUTO, job.asked.target_lang
        found = await self.interpreter.translate_file(job.document, source, target, job.glossary)
        data = await self.service.readers.write_file(job.document, found.answers)
        job.result = self.shelf.put(data, job.title, PurePath(job.title).suffix)


def router(service: Service, interpreter: LanguageRouter, glossaries: Glossaries) -> APIRouter:
    """The routes for documents."""
    routes, jobs = APIRouter(prefix="/v2/document"), DocumentJobs(service, interpreter)

    @routes.post("", openapi_extra=request_body(DocumentRequest, "multipart/form-data"))
    async def upload(request: Request) -> Handle:
        """Send a document; the answer says how to ask for it."""
        asked = validate(DocumentRequest, await fields(request))
        check_common(asked, interpreter.languages)
        name = asked.filename or asked.file.filename
        suffix = suffix_of(name)
        if asked.output_format and f".{asked.output_format.lower().lstrip('.')}" != suffix:
            raise Problem(400, "Value for 'output_format' not supported: a document keeps its format")
        glossary = glossaries.terms(request, asked)
        document = await service.readers.read_file(suffix, asked.file.data)
        note_texts(request, document.texts)
        job = DocumentJob(document, asked, glossary, f"{PurePath(name).stem}_{asked.target_lang}{suffix}")
        jobs.add(job)
        return job.handle

    @routes.post(
        "/{document_id}", response_model_exclude_none=True, openapi_extra=request_body(DocumentKeyRequest, *FORM_KINDS)
    )
    async def status(request: Request, document_id: str) -> Status:
        """How far a document is."""
        job = jobs.get(document_id, validate(DocumentKeyRequest, await fields(request)).document_key)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(job.done.wait(), PATIENCE)
        return job.status()

    @routes.post(
        "/{document_id}/result",
        response_class=FileResponse,
        responses={200: {"content": {BYTES: {"schema": {"type": "string", "format": "binary"}}}}},
        openapi_extra=request_body(DocumentKeyRequest, *FORM_KINDS),
    )
    async def result(request: Request, document_id: str) -> FileResponse:
        """Fetch a translated document; 503 while there is none."""
        job = jobs.get(document_id, validate(DocumentKeyRequest, await fields(request)).document_key)
        if job.trouble:
            raise Problem(400, job.trouble)
        if not job.result:
            raise Problem(503, "the document is not translated yet; ask for its status", 1)
        kept = jobs.shelf.get(job.result)
        return FileResponse(kept.path, filename=kept.title, media_type=BYTES)

    return routes
