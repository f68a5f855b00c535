"""What requests for texts and for documents have in common in DeepL's interface, and its codes for languages."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field

from headway.serve.forms import Code
from headway.serve.pivot_routing import Languages
from headway.serve.problems import Problem
from headway.text.languages import canonical_code, client_code, find_language, without_region
from headway.text.languages import language_name as name_of

FORM_KINDS = ("application/json", "application/x-www-form-urlencoded")
GlossaryId = Annotated[str, Field(max_length=64)]


class Message(BaseModel):
    message: str


PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Message} for status in (400, 401, 403, 404, 408, 413, 429, 500, 503, 507)
}


def as_list(value: Any) -> Any:
    """A list of a single text; other values as they are."""
    return [value] if isinstance(value, str) else value


def as_names(value: Any) -> Any:
    """The names in a list of texts, or in one text, that commas divide."""
    listed = as_list(value)
    if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
        return value
    return [name.strip() for one in listed for name in one.split(",") if name.strip()]


Names = Annotated[list[str], BeforeValidator(as_names)]


def in_lower_case(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


Formality = Annotated[Literal["default", "more", "less", "prefer_more", "prefer_less"], BeforeValidator(in_lower_case)]


class CommonFields(BaseModel):
    """Fields that say how a text or a document is translated."""

    target_lang: Code
    source_lang: Code | None = None
    formality: Formality = "default"
    glossary_id: GlossaryId | None = None
    glossary_ids: Names = []


def check_common(asked: CommonFields, known: Languages) -> None:
    """Check languages and formality; Problem 400 that names the field that cannot be met."""
    language(asked.target_lang, "target_lang", known)
    if asked.source_lang is not None:
        language(asked.source_lang, "source_lang", known)
    if asked.formality in ("more", "less"):
        raise Problem(
            400,
            "'formality' is not supported for given 'target_lang': no model here chooses a tone; "
            "prefer_more and prefer_less are accepted and change nothing",
        )


def language(code: str, field: str, known: Languages) -> str:
    """The language that a client means; Problem 400 that names the field if no model has it."""
    found = find_language(code, known.all)
    if found is None:
        raise Problem(400, f"Value for '{field}' not supported; see /v2/languages")
    return found


# Languages that DeepL translates into under names of their regions: programs show these and refuse EN and PT.
TARGETS = {
    "en": (("EN-GB", "English (British)"), ("EN-US", "English (American)")),
    "pt": (("PT-PT", "Portuguese (European)"),),
    "pb": (("PT-BR", "Portuguese (Brazilian)"),),
    "zh": (("ZH", "Chinese (simplified)"), ("ZH-HANS", "Chinese (simplified)")),
    "zt": (("ZH-HANT", "Chinese (traditional)"),),
}
SOURCES = {"zt": "ZH"}


def source_code(language: str) -> str:
    """DeepL's code of a language to translate from: one without a region or a script."""
    plain = canonical_code(language)
    return SOURCES.get(plain) or without_region(plain).upper()


def target_codes(language: str) -> tuple[tuple[str, str], ...]:
    """DeepL's codes and names of a language to translate into."""
    return TARGETS.get(canonical_code(language)) or ((client_code(language).upper(), name_of(language)),)
