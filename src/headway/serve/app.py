"""The application: all interfaces, the page, health and measures, inside guard and records."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from headway.inspection.page_files import page_files
from headway.serve import deepl, libretranslate, plain_page, v1
from headway.serve.guard import Guard
from headway.serve.hosts import Hosts
from headway.serve.middleware import RequestLog, unexpected
from headway.serve.problems import Problem, problem_response, validation_problem
from headway.serve.route_list import list_routes
from headway.serve.service import Service
from headway.serve.settings import Settings
from headway.version import installed

KINDS = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".json": "application/json",
}
REFUSED = {404: Problem(404, "there is no such page"), 405: Problem(405, "this method is not allowed here")}
UNREADABLE = Problem(400, "Invalid request: the body cannot be read")
TWENTY_DAYS = 20 * 24 * 3600  # seconds a browser may remember what is allowed


def create(service: Service, settings: Settings) -> ASGIApp:
    prefix = settings.url_prefix
    schema = f"{prefix}/openapi.json"
    app = FastAPI(title="headway", version=installed("headway"), docs_url=None, redoc_url=None, openapi_url=schema)
    interfaces = (v1.router(service), libretranslate.router(service, settings), deepl.router(service, settings))
    for routes in (page(), plain_page.router(service), about(service, app), *interfaces):
        app.include_router(routes, prefix=prefix)
    answer_problems(app, prefix)
    hosts = Hosts(settings.host, settings.allowed_hosts)
    guarded: ASGIApp = Guard(app, service.keys, service.crowd, hosts, settings.limits, prefix)
    if settings.cors_origins:
        guarded = CORSMiddleware(
            guarded, settings.cors_origins, allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"], max_age=TWENTY_DAYS,
        )  # fmt: skip
    return RequestLog(guarded, service.log, service.measures, settings.log_text, prefix)


def page() -> APIRouter:
    """Return the routes of the page and its parts."""
    routes = APIRouter(include_in_schema=False)
    table = {
        name: (body, kind) for name, body in page_files().items() if (kind := KINDS.get("." + name.rpartition(".")[2]))
    }

    @routes.get("/page/{name}")
    async def part(name: str) -> Response:
        if name not in table:
            raise Problem(404, "there is no such page")
        body, kind = table[name]
        return Response(body, media_type=f"{kind}; charset=utf-8", headers={"Cache-Control": "no-cache"})

    @routes.get("/")
    async def index() -> Response:
        return await part("index.html")

    return routes


def about(service: Service, app: FastAPI) -> APIRouter:
    """The server itself."""
    routes = APIRouter(tags=["server"])

    @routes.get("/health")
    async def health() -> dict[str, str]:
        """The server can answer; 503 and the reason when no model process is at work and none could be started."""
        if service.trouble:
            raise Problem(503, service.trouble, 5)
        return {"status": "ok"}

    @routes.get("/ready")
    async def ready() -> dict[str, str]:
        """The server has a model at work and is not about to stop."""
        if not service.ready:
            raise Problem(503, service.trouble or "not ready", 1)
        return {"status": "ready"}

    @routes.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> Response:
        """For Prometheus."""
        return Response(service.measures.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @routes.get("/spec", include_in_schema=False)
    async def spec() -> JSONResponse:
        """The description of all routes, under the name that LibreTranslate gives it."""
        return JSONResponse(app.openapi())

    @routes.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return list_routes(app.openapi())

    return routes


def answer_problems(app: FastAPI, prefix: str) -> None:
    """Everything that goes wrong leaves in the words of the interface that was called."""

    def path(request: Request) -> str:
        return request.url.path.removeprefix(prefix)

    async def problem(request: Request, error: Any) -> Response:
        return problem_response(error, path(request))

    async def refused(request: Request, error: Any) -> Response:
        return problem_response(REFUSED.get(error.status_code, UNREADABLE), path(request))

    async def wrong(request: Request, error: Any) -> Response:
        return problem_response(validation_problem(error.errors()), path(request))

    async def fault(request: Request, _: Exception) -> Response:
        return unexpected(path(request))

    app.add_exception_handler(Problem, problem)
    app.add_exception_handler(HTTPException, refused)
    app.add_exception_handler(RequestValidationError, wrong)
    app.add_exception_handler(Exception, fault)
