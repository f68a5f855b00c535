"""What a client sent: as JSON, as a form, as a form in parts, or in the address. Clients do all of these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from fastapi import Request
from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError
from pydantic_core.core_schema import CoreSchema, is_instance_schema
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException

from headway.serve.problems import NO_ROOM, Problem, parse_json

MOST_FIELDS = 200  # of a form


@dataclass(frozen=True)
class Upload:
    """A file that came with a form."""

    filename: str
    data: bytes

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return is_instance_schema(cls)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "string", "format": "binary"}


Model = TypeVar("Model", bound=BaseModel)


async def fields(request: Request, repeated: Sequence[str] = ()) -> dict[str, Any]:
    """Names and values; the body's win over the address's. The `repeated` ones of a form are lists."""
    values = parse_form(request.scope["query_string"], repeated)
    return values | await parse_body(request, repeated)


async def parse_body(request: Request, repeated: Sequence[str]) -> dict[str, Any]:
    body = await request.body()
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not body.strip():
        return {}
    if kind == "multipart/form-data":
        return await parse_multipart(request)
    if kind.endswith("json") or body.lstrip()[:1] == b"{":
        found = parse_json(body)
        if not isinstance(found, dict):
            raise Problem(400, "Invalid JSON format")
        return found
    return parse_form(body, repeated)


async def parse_multipart(request: Request) -> dict[str, Any]:
    try:
        async with request.form(max_files=1, max_fields=MOST_FIELDS) as form:
            return {
                name: normalise_line_ends(value)
                if isinstance(value, str)
                else Upload(value.filename or "", await value.read())
                for name, value in form.items()
            }
    except OSError:  # a large file waits on the disk
        raise Problem(507, NO_ROOM, 60) from None
    except (HTTPException, MultiPartException, ValueError, KeyError, AssertionError):
        raise Problem(400, "Invalid request: the form cannot be read") from None


def parse_form(body: bytes, repeated: Sequence[str]) -> dict[str, Any]:
    try:
        pairs = parse_qsl(body.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
    except ValueError:
        raise Problem(400, "Invalid request: the form cannot be read") from None
    found: dict[str, Any] = {
        name: normalise_line_ends(value) for name, value in reversed(pairs)
    }  # the first of a name counts
    lists = {name: [normalise_line_ends(value) for key, value in pairs if key == name] for name in repeated}
    return found | {name: values for name, values in lists.items() if values}


def normalise_line_ends(text: str) -> str:
    """Forms have their lines end in CR LF, whatever was typed."""
    return text.replace("\r\n", "\n")


def validate(model: type[Model], values: dict[str, Any]) -> Model:
    """The fields as their types; Problem 400 that names the first wrong one."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        name = first["loc"][0]
        if first["type"] in ("missing", "too_short"):
            raise Problem(400, f"Invalid request: missing {name} parameter") from None
        if first["type"] in ("int_type", "int_parsing", "int_parsing_size"):
            raise Problem(400, f"Invalid request: {name} parameter is not a number") from None
        raise Problem(400, f"Invalid request: {name}: {first['msg']}") from None


def check_texts(texts: Sequence[str], longest: int, most: int) -> None:
    """Check the texts of a request; Problem 400 if there are none or too many, or one is too long or no text at all."""
    if not texts:
        raise Problem(400, "Invalid request: missing q parameter")
    if len(texts) > most:
        raise Problem(400, f"Invalid request: request ({len(texts)}) exceeds batch limit ({most})")
    for text in texts:
        if len(text) > longest:
            raise Problem(400, f"Invalid request: request ({len(text)}) exceeds text limit ({longest})")
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            raise Problem(400, "Invalid request: a text holds half a character (a lone surrogate)")
