"""DeepL's routes for glossaries: version 2 has one direction in each, version 3 several."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from headway.data.glossary import Glossary
from headway.serve.deepl_forms import FORM_KINDS, language, source_code
from headway.serve.fields import fields, validate
from headway.serve.forms import Code, request_body
from headway.serve.glossaries import Direction, Glossaries, StoredGlossary, parse_entries, print_entries
from headway.serve.language_routing import LanguageRouter
from headway.serve.pivot_routing import Languages
from headway.serve.problems import Problem

MOST_DICTIONARIES = 100
TSV = "text/tab-separated-values"
Name = Annotated[str, Field(min_length=1, max_length=1024)]
CodeAsked = Annotated[str, Query(min_length=1, max_length=64)]


class DictionaryRequest(BaseModel):
    source_lang: Code
    target_lang: Code
    entries: str
    entries_format: Literal["tsv", "csv"] = "tsv"


class GlossaryRequest(DictionaryRequest):
    """Version 2."""

    name: Name


class MultilingualRequest(BaseModel):
    """Version 3."""

    name: Name
    dictionaries: list[DictionaryRequest] = Field(min_length=1, max_length=MOST_DICTIONARIES)


class ChangeRequest(BaseModel):
    name: Name | None = None
    dictionaries: list[DictionaryRequest] = Field([], max_length=MOST_DICTIONARIES)


class DictionaryInfo(BaseModel):
    source_lang: str
    target_lang: str
    entry_count: int


class DictionaryEntries(BaseModel):
    source_lang: str
    target_lang: str
    entries: str
    entries_format: str = "tsv"


class Entries(BaseModel):
    dictionaries: list[DictionaryEntries]


class GlossaryInfo(BaseModel):
    """Version 2."""

    glossary_id: str
    name: str
    ready: bool = True
    source_lang: str
    target_lang: str
    creation_time: str
    entry_count: int


class GlossaryList(BaseModel):
    glossaries: list[GlossaryInfo]


class MultilingualInfo(BaseModel):
    """Version 3."""

    glossary_id: str
    name: str
    creation_time: str
    dictionaries: list[DictionaryInfo]


class MultilingualList(BaseModel):
    glossaries: list[MultilingualInfo]


class LanguagePair(BaseModel):
    source_lang: str
    target_lang: str


class LanguagePairs(BaseModel):
    supported_languages: list[LanguagePair]


def router(interpreter: LanguageRouter, glossaries: Glossaries) -> APIRouter:
    """The routes of both versions."""
    routes = APIRouter()
    routes.include_router(version_2(interpreter, glossaries))
    routes.include_router(version_3(interpreter, glossaries))
    routes.include_router(dictionaries_of_version_3(interpreter, glossaries))

    @routes.get("/v2/glossary-language-pairs")
    async def pairs() -> LanguagePairs:
        """The directions for which there can be a glossary: all."""
        known = interpreter.languages
        found = {(source_code(one), source_code(other)) for one in known.all for other in known.targets(one)}
        listed = [LanguagePair(source_lang=one.lower(), target_lang=other.lower()) for one, other in sorted(found)]
        return LanguagePairs(supported_languages=listed)

    return routes


def version_2(interpreter: LanguageRouter, glossaries: Glossaries) -> APIRouter:
    """Glossaries with one direction."""
    routes = APIRouter(prefix="/v2/glossaries")

    @routes.post("", status_code=201, openapi_extra=request_body(GlossaryRequest, *FORM_KINDS))
    async def create(request: Request) -> GlossaryInfo:
        """Make a glossary."""
        asked = validate(GlossaryRequest, await fields(request))
        return glossary_info(glossaries.add(request, asked.name, parse_dictionaries([asked], interpreter.languages)))

    @routes.get("")
    async def every(request: Request) -> GlossaryList:
        """All glossaries with one direction that were made with this key."""
        return GlossaryList(
            glossaries=[glossary_info(one) for one in glossaries.of(request) if len(one.dictionaries) == 1]
        )

    @routes.get("/{glossary_id}")
    async def get(request: Request, glossary_id: str) -> GlossaryInfo:
        """One glossary without its entries."""
        return glossary_info(glossaries.get(request, glossary_id))

    @routes.get(
        "/{glossary_id}/entries",
        response_class=Response,  # has no type of its own, which problems would take over
        responses={200: {"content": {TSV: {"schema": {"type": "string"}}}}},
    )
    async def entries(request: Request, glossary_id: str) -> Response:
        """The entries of a glossary, as rows that tabs divide."""
        found = glossaries.get(request, glossary_id)
        glossary_info(found)
        (terms,) = found.dictionaries.values()
        return Response(print_entries(terms), media_type=f"{TSV}; charset=utf-8")

    @routes.delete("/{glossary_id}", status_code=204)
    async def delete(request: Request, glossary_id: str) -> None:
        """Delete a glossary."""
        glossaries.delete(glossaries.get(request, glossary_id))

    return routes


def version_3(interpreter: LanguageRouter, glossaries: Glossaries) -> APIRouter:
    """Glossaries with any number of directions."""
    routes = APIRouter(prefix="/v3/glossaries")

    @routes.post("", status_code=201, openapi_extra=request_body(MultilingualRequest, "application/json"))
    async def create(request: Request) -> MultilingualInfo:
        """Make a glossary."""
        asked = validate(MultilingualRequest, await fields(request))
        return multilingual_info(
            glossaries.add(request, asked.name, parse_dictionaries(asked.dictionaries, interpreter.languages))
        )

    @routes.get("")
    async def every(request: Request) -> MultilingualList:
        """All glossaries that were made with this key."""
        return MultilingualList(glossaries=[multilingual_info(one) for one in glossaries.of(request)])

    @routes.get("/{glossary_id}")
    async def get(request: Request, glossary_id: str) -> MultilingualInfo:
        """One glossary without its entries."""
        return multilingual_info(glossaries.get(request, glossary_id))

    @routes.patch("/{glossary_id}", openapi_extra=request_body(ChangeRequest, "application/json"))
    async def change(request: Request, glossary_id: str) -> MultilingualInfo:
        """Rename a glossary, or add entries to its dictionaries."""
        asked, found = validate(ChangeRequest, await fields(request)), glossaries.get(request, glossary_id)
        added = parse_dictionaries(asked.dictionaries, interpreter.languages)
        glossaries.change(
            found, {pair: merge_terms(found.dictionaries.get(pair), terms) for pair, terms in added.items()}
        )
        found.name = asked.name or found.name
        return multilingual_info(found)

    @routes.delete("/{glossary_id}", status_code=204)
    async def delete(request: Request, glossary_id: str) -> None:
        """Delete a glossary."""
        glossaries.delete(glossaries.get(request, glossary_id))

    return routes


def dictionaries_of_version_3(interpreter: LanguageRouter, glossaries: Glossaries) -> APIRouter:
    """The dictionaries in a glossary: one for each direction."""
    routes = APIRouter(prefix="/v3/glossaries/{glossary_id}")

    @routes.get("/entries")
    async def entries(request: Request, glossary_id: str, source_lang: CodeAsked, target_lang: CodeAsked) -> Entries:
        """The entries of one dictionary."""
        found, pair = glossaries.get(request, glossary_id), (source_code(source_lang), source_code(target_lang))
        text = print_entries(found.dictionaries[find_direction(found, pair)])
        return Entries(dictionaries=[DictionaryEntries(source_lang=pair[0], target_lang=pair[1], entries=text)])

    @routes.put("/dictionaries", openapi_extra=request_body(DictionaryRequest, "application/json"))
    async def replace(request: Request, glossary_id: str) -> DictionaryInfo:
        """Replace a dictionary, or add one."""
        asked, found = validate(DictionaryRequest, await fields(request)), glossaries.get(request, glossary_id)
        made = parse_dictionaries([asked], interpreter.languages)
        glossaries.change(found, made)
        ((pair, terms),) = made.items()
        return dictionary_info(pair, terms)

    @routes.delete("/dictionaries", status_code=204)
    async def delete(request: Request, glossary_id: str, source_lang: CodeAsked, target_lang: CodeAsked) -> None:
        """Delete a dictionary."""
        found = glossaries.get(request, glossary_id)
        del found.dictionaries[find_direction(found, (source_code(source_lang), source_code(target_lang)))]

    return routes


# ---------------------------------------------------------------- between requests and glossaries


def parse_dictionaries(
    asked: list[DictionaryRequest] | list[GlossaryRequest], known: Languages
) -> dict[Direction, Glossary]:
    """The dictionaries of a request by their directions. Problem 400 if a direction or an entry is wrong."""
    found: dict[Direction, Glossary] = {}
    for one in asked:
        source, target = (
            language(one.source_lang, "source_lang", known),
            language(one.target_lang, "target_lang", known),
        )
        known.route(source, target)
        terms = parse_entries(one.entries, one.entries_format)
        pair = (source_code(source), source_code(target))
        found[pair] = merge_terms(found.get(pair), terms)
    return found


def merge_terms(old: Glossary | None, new: Glossary) -> Glossary:
    """The terms of both; the new ones count."""
    return Glossary(tuple({**dict(old.terms if old else ()), **dict(new.terms)}.items()))


def find_direction(glossary: StoredGlossary, pair: Direction) -> Direction:
    """The direction, if the glossary has it; Problem 404 otherwise."""
    if pair not in glossary.dictionaries:
        raise Problem(404, f"no dictionary found for language pair {' - '.join(pair)[:40]} in this glossary")
    return pair


def glossary_info(glossary: StoredGlossary) -> GlossaryInfo:
    """What version 2 says of a glossary. Problem 400 if it does not have one direction."""
    if len(glossary.dictionaries) != 1:
        raise Problem(400, "this glossary does not have one dictionary; use /v3/glossaries")
    (((source, target), terms),) = glossary.dictionaries.items()
    return GlossaryInfo(
        glossary_id=glossary.id, name=glossary.name, creation_time=glossary.created, entry_count=len(terms.terms),
        source_lang=source.lower(), target_lang=target.lower(),
    )  # fmt: skip


def multilingual_info(glossary: StoredGlossary) -> MultilingualInfo:
    """What version 3 says of a glossary."""
    found = [dictionary_info(pair, terms) for pair, terms in glossary.dictionaries.items()]
    return MultilingualInfo(
        glossary_id=glossary.id, name=glossary.name, creation_time=glossary.created, dictionaries=found
    )


def dictionary_info(pair: Direction, terms: Glossary) -> DictionaryInfo:
    return DictionaryInfo(source_lang=pair[0].lower(), target_lang=pair[1].lower(), entry_count=len(terms.terms))
