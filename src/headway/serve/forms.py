"""What LibreTranslate's clients send and get, field by field."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from headway.serve.fields import Upload

Code = Annotated[str, Field(min_length=1, max_length=64)]
FORM_KINDS = ("application/json", "application/x-www-form-urlencoded", "multipart/form-data")


class TranslateRequest(BaseModel):
    """Fields that are not named here are ignored: clients send many."""

    q: str | list[str]
    source: Code
    target: Code
    format: Literal["text", "html"] = "text"
    alternatives: int = Field(0, ge=0)
    api_key: str | None = None


class DetectRequest(BaseModel):
    q: str | list[str]
    api_key: str | None = None


class FileRequest(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    file: Upload
    source: Code
    target: Code
    api_key: str | None = None


class SuggestRequest(BaseModel):
    q: str
    s: str
    source: Code
    target: Code
    api_key: str | None = None


class PageForm(BaseModel):
    """What the page sends where scripts are off."""

    q: str = ""
    model: str = Field("", max_length=64)
    api_key: str | None = None


class DetectedLanguage(BaseModel):
    confidence: float = Field(ge=0, le=100)
    language: str


class TranslateResponse(BaseModel):
    """`detectedLanguage` is always there: one client reads it whether it asked for detection or not."""

    translatedText: str | list[str]
    detectedLanguage: DetectedLanguage | list[DetectedLanguage]
    alternatives: list[str] | list[list[str]] | None = None


class LanguageResponse(BaseModel):
    code: str
    name: str
    targets: list[str]


class FileResponseBody(BaseModel):
    translatedFileUrl: str


class Error(BaseModel):
    error: str


class FrontendSettings(BaseModel):
    charLimit: int
    frontendTimeout: int
    apiKeys: bool
    keyRequired: bool
    suggestions: bool
    filesTranslation: bool
    supportedFilesFormat: list[str]
    language: dict[str, dict[str, str]]


PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Error} for status in (400, 401, 403, 404, 408, 413, 429, 500, 503, 507)
}


def request_body(model: type[BaseModel], *kinds: str) -> dict[str, Any]:
    """For the description of the interface: the same fields, in any of these forms."""
    schema = model.model_json_schema()
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema} for kind in kinds}}}
