"""Our own interface, /v1: models, translations and predictions with all there is to know, streams, traces, curves."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from headway.inspection.trace_request import EVERYTHING, Panel
from headway.options import declared
from headway.serve.middleware import note, note_model
from headway.serve.models import Pair
from headway.serve.problems import Problem
from headway.serve.service import Answer, Service
from headway.serve.settings import Limits
from headway.serve.strict_json import StrictRoute
from headway.serve.training_curves import curves
from headway.tasks.decoding_options import DecodingOptions

MOST = Limits()
Name = Annotated[str, Field(max_length=64)]
Term = Annotated[str, Field(min_length=1, max_length=200)]


def decoding_field(name: str, most: int | float | None = None, **changes: Any) -> Any:
    """Return a field with the default, the range and the description of a decoding option; a server may allow less."""
    field, details = declared(DecodingOptions)[name]
    bounds: dict[str, Any] = {"ge": details.least, "gt": details.above, "le": details.most if most is None else most}
    return Field(changes.get("default", field.default), description=details.help, **bounds)


class Body(BaseModel):
    """Nothing is guessed: a number in quotes is no number, an unknown field is an error."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class Direction(Body):
    """A model by its id, or by its languages; the first that fits is used."""

    model: Name = ""
    source: Name = ""
    target: Name = ""


class TranslateBody(Direction):
    texts: list[str] = Field(min_length=1, max_length=MOST.texts)
    n_best: int = decoding_field("n_best", most=MOST.n_best)
    beam: int | None = decoding_field("beam", most=MOST.beam, default=None)
    scores: bool = Field(False, description="Give the tokens and the log-probability of each.")
    alignments: bool = decoding_field("alignments")
    glossary: list[list[Term]] = Field([], max_length=MOST.terms, description="rows of a term and its translation")


class StreamBody(Direction):
    text: str


class PredictBody(Body):
    """A model of any task by its id; else the first."""

    model: Name = ""
    texts: list[str] = Field(min_length=1, max_length=MOST.texts)


class EditBody(Body):
    pos: int = Field(ge=0, le=MOST.pieces)
    piece: str = Field(max_length=200)


class HeadBody(Body):
    stack: Literal["encoder", "decoder"]
    layer: int = Field(ge=0, le=99)
    kind: Literal["self", "cross"]
    head: int = Field(ge=0, le=999)


class TraceBody(Direction):
    q: str = Field(min_length=1)
    include: list[Panel] = Field([], max_length=len(EVERYTHING))
    beam_size: int = Field(4, ge=1, le=MOST.beam)
    alpha: float | None = decoding_field("alpha", most=2, default=None)
    top_k: int = Field(10, ge=1, le=20)
    prefix: list[Annotated[int, Field(ge=0, le=1_000_000)]] = Field([], max_length=MOST.pieces)
    edit: list[EditBody] = Field([], max_length=32)
    ablate: list[HeadBody] = Field([], max_length=2000)
    hypothesis: int = Field(0, ge=0, lt=MOST.beam)
    position: int = Field(-1, ge=-1, le=MOST.pieces)


class Events(StreamingResponse):
    media_type = "text/event-stream"


EVENT = {"schema": {"type": "object", "properties": {"event": {"enum": ["text", "done", "problem"]}}}}


def router(service: Service) -> APIRouter:
    routes = APIRouter(prefix="/v1", tags=["headway"], route_class=StrictRoute)

    @routes.get("/models")
    async def models() -> list[dict[str, Any]]:
        """The models: what each was trained for, and the directions it translates in."""
        return [describe_model(service, name) for name in service.models]

    @routes.post("/translate")
    async def translate(body: TranslateBody, request: Request) -> dict[str, Any]:
        """Translations of texts, with scores, alternatives and alignments as wished."""
        pair = service.find_pair(body.source, body.target, body.model)
        note(request, pair.source, pair.target, body.texts)
        if not all(1 <= len(row) <= 2 for row in body.glossary):
            raise Problem(400, "Invalid request: a row of the glossary has a term and its translation")
        answers = await service.translate(
            body.texts, pair, alternatives=body.n_best - 1, beam=body.beam, alignments=body.alignments,
            glossary=[(row[0], row[-1]) for row in body.glossary],
        )  # fmt: skip
        chosen = {"model": pair.model, "source": pair.source, "target": pair.target}
        return {**chosen, "translations": [answer_facts(answer, body) for answer in answers]}

    @routes.post("/stream", response_class=Events, responses={200: {"content": {Events.media_type: EVENT}}})
    async def stream(body: StreamBody, request: Request) -> Events:
        """A greedy translation as it is written: events `text` with all so far, then `done`, or `problem`."""
        pair = service.find_pair(body.source, body.target, body.model)
        note(request, pair.source, pair.target, [body.text])
        service.check_texts([body.text])
        return Events(events(service, body.text, pair))

    routes.include_router(of_any_task(service))
    return routes


def of_any_task(service: Service) -> APIRouter:
    """What works for models that do not translate, too."""
    routes = APIRouter(route_class=StrictRoute)

    @routes.post("/predict")
    async def predict(body: PredictBody, request: Request) -> dict[str, Any]:
        """What a model of any task makes of texts: labels, classes, translations, or how a text goes on."""
        model = service.model(body.model)
        note_model(request, model.id, body.texts)
        found = await service.predict(body.texts, model)
        return {"model": model.id, "task": model.task, "predictions": [one.facts for one in found]}

    @routes.post("/trace")
    async def trace(body: TraceBody, request: Request) -> dict[str, Any]:
        """All that can be seen of one text's way through a model of any task."""
        pair = service.find_pair_of_any_task(body.source, body.target, body.model)
        note_model(request, pair.model, [body.q])
        return await service.trace(body.model_dump() | {"model": pair.model, "source": pair.source}, pair)

    @routes.get("/training/{model}")
    async def training(model: str) -> dict[str, Any]:
        """How a model was trained: the events of its metrics.jsonl, thinned out where there are many."""
        if model not in service.models:
            raise Problem(404, "there is no such model; see /v1/models")
        return {"model": model, "events": await curves(service.models[model].folder)}

    return routes


def describe_model(service: Service, name: str) -> dict[str, Any]:
    """Everything but where it lies."""
    model = service.models[name]
    pairs = [{"source": pair.source, "target": pair.target} for pair in model.pairs]
    facts = {key: value for key, value in vars(model).items() if key not in ("folder", "pairs")}
    return {**facts, "pairs": pairs}


def answer_facts(answer: Answer, body: TranslateBody) -> dict[str, Any]:
    found: dict[str, Any] = {"text": answer.text, "score": answer.score, "confidence": answer.confidence}
    if body.scores:
        found |= {"tokens": answer.tokens, "token_scores": answer.token_scores}
    if body.alignments:
        found["alignment"] = answer.alignment
    if body.n_best > 1 and answer.alternatives:
        found["alternatives"] = [answer_facts(other, body) for other in answer.alternatives]
    return found


async def events(service: Service, text: str, pair: Pair) -> AsyncIterator[str]:
    latest = ""
    try:
        async for latest in service.stream(text, pair):
            yield event("text", {"text": latest})
        yield event("done", {"text": latest})
    except Problem as problem:
        yield event("problem", {"status": problem.status, "detail": problem.detail})


def event(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
