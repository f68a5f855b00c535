"""All routes on one page, without a script and without a request elsewhere."""

from __future__ import annotations

from typing import Any

from fastapi.responses import HTMLResponse

from headway.reports.html import page, table, tag

POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"


def list_routes(schema: dict[str, Any]) -> HTMLResponse:
    rows = [
        (f"{method.upper()} {path}", *describe_route(schema, act))
        for path, acts in schema["paths"].items()
        for method, act in acts.items()
    ]
    routes = table(("route", "what it does", "takes"), rows, "All routes", words=("what it does", "takes"))
    whole = tag("p", "The same for programs: ", tag("a", "openapi.json", href="openapi.json"))
    return HTMLResponse(page("headway: interfaces", whole, routes), headers={"Content-Security-Policy": POLICY})


def describe_route(schema: dict[str, Any], act: dict[str, Any]) -> tuple[str, str]:
    taken = [parameter["name"] for parameter in act.get("parameters", ())]
    for content in act.get("requestBody", {}).get("content", {}).values():
        taken += fields(schema, content["schema"])
    return act.get("description") or act.get("summary", ""), ", ".join(dict.fromkeys(taken))


def fields(schema: dict[str, Any], body: dict[str, Any]) -> list[str]:
    """The names in a body, wherever it is described."""
    name = body.get("$ref", "").rpartition("/")[2]
    return list((schema["components"]["schemas"][name] if name else body).get("properties", ()))
