"""The page for browsers without scripts: its form is answered with the page again, the translation in it."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from headway.serve.fields import check_texts, fields, validate
from headway.serve.forms import FORM_KINDS, PageForm, request_body
from headway.serve.forms import PROBLEMS as JSON_PROBLEMS
from headway.serve.guard import admit
from headway.serve.problems import Problem
from headway.serve.service import Service, replace_lone_surrogates

PROBLEMS: dict[int | str, dict[str, Any]] = {  # on the page; as JSON where the request does not come so far
    status: {**told, "content": {"text/html": {}}} for status, told in JSON_PROBLEMS.items()
}
TEXT, RESULT = "</textarea>", "</output>"  # each occurs once in the page


def router(service: Service) -> APIRouter:
    routes = APIRouter(tags=["server"])
    page = (files("headway") / "serve" / "page" / "index.html").read_text(encoding="utf-8")

    @routes.post(
        "/", response_class=HTMLResponse, responses=PROBLEMS, openapi_extra=request_body(PageForm, *FORM_KINDS)
    )
    async def translate(request: Request) -> HTMLResponse:
        """The page with a translation in it, for browsers without scripts."""
        text = ""
        try:
            asked = validate(PageForm, await fields(request))
            text = asked.q
            admit(request, service.keys, asked.api_key)
            check_texts([text], service.limits.text, 1)
            answer, status, headers = await said(service, asked.model, text), 200, {}
        except Problem as problem:
            answer, status, headers = problem.detail, problem.status, problem.headers
        return HTMLResponse(filled(page, replace_lone_surrogates(text), answer), status, headers)

    return routes


async def said(service: Service, name: str, text: str) -> str:
    """The translation, or what else the model makes of a text."""
    pair = service.find_pair_of_any_task("", "", name)
    if not pair.target:
        return (await service.predict([text], service.model(pair.model)))[0].text
    return (await service.translate([text], pair))[0].text


def filled(page: str, text: str, answer: str) -> str:
    """Browsers drop the line end that a text area begins with, so it gets one of its own."""
    page = page.replace(TEXT, f"\n{escape(text)}{TEXT}", 1)
    return page.replace(RESULT, f"{escape(answer)}{RESULT}", 1)
