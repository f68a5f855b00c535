"""The page for browsers without scripts: its form is answered with the page again, the translation in it."""

from __future__ import annotations

from html import escape
from importlib.resources import files

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from headway.serve.fields import fields
from headway.serve.problems import Problem
from headway.serve.service import Service

TEXT, RESULT = "</textarea>", "</output>"  # each occurs once in the page


def router(service: Service) -> APIRouter:
    routes = APIRouter(include_in_schema=False)
    page = (files("headway") / "serve" / "page" / "index.html").read_text(encoding="utf-8")

    @routes.post("/")
    async def translate(request: Request) -> HTMLResponse:
        asked = await fields(request)
        text = str(asked.get("q", ""))
        try:
            service.keys.check(asked.get("api_key"))
            answer, status, headers = await said(service, str(asked.get("model", "")), text), 200, {}
        except Problem as problem:
            answer, status, headers = problem.detail, problem.status, problem.headers
        return HTMLResponse(filled(page, text, answer), status, headers)

    return routes


async def said(service: Service, name: str, text: str) -> str:
    """The translation, or what else the model makes of a text."""
    pair = service.way("", "", name)
    if not pair.target:
        return (await service.predict([text], service.model(pair.model)))[0].text
    return (await service.translate([text], pair))[0].text


def filled(page: str, text: str, answer: str) -> str:
    """Browsers drop the line end that a text area begins with, so it gets one of its own."""
    page = page.replace(TEXT, f"\n{escape(text)}{TEXT}", 1)
    return page.replace(RESULT, f"{escape(answer)}{RESULT}", 1)
