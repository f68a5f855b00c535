"""Glossaries that DeepL's clients make: kept in memory, and shown only to the key that they were made with."""

from __future__ import annotations

import csv
import io
import unicodedata
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID, uuid4

from starlette.requests import Request

from headway.data.glossary import LONGEST_TERM, Glossary
from headway.serve.deepl_forms import CommonFields, source_code
from headway.serve.language_routing import NO_TERMS
from headway.serve.problems import Problem

MOST_GLOSSARIES = 1000
MOST_CHARACTERS = 20_000_000  # of all terms of all glossaries
MOST_IN_A_REQUEST = 5

Direction = tuple[str, str]  # codes of a source and a target language, without their regions


@dataclass
class StoredGlossary:
    """Terms for one or more directions, under one name."""

    name: str
    owner: str  # hash of the key it was made with; empty on a server without keys
    dictionaries: dict[Direction, Glossary] = field(default_factory=dict)
    id: str = field(default_factory=lambda: str(uuid4()))
    created: str = field(default_factory=lambda: datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"))

    @property
    def characters(self) -> int:
        return sum(len(one) + len(other) for terms in self.dictionaries.values() for one, other in terms.terms)


class Glossaries:
    """All glossaries of a server."""

    def __init__(self) -> None:
        self.table: dict[str, StoredGlossary] = {}  # by id

    def of(self, request: Request) -> list[StoredGlossary]:
        """The glossaries that belong to the sender of a request, the oldest first."""
        return [one for one in self.table.values() if one.owner == owner(request)]

    def get(self, request: Request, glossary_id: str) -> StoredGlossary:
        """One glossary of the sender. Problem 400 for what cannot be an id, 404 if there is none."""
        try:
            found = self.table.get(str(UUID(glossary_id)))
        except ValueError:
            raise Problem(400, "Invalid glossary_id: it has the form of a UUID") from None
        if found is None or found.owner != owner(request):
            raise Problem(404, "there is no glossary with this glossary_id; glossaries are lost when the server stops")
        return found

    def add(self, request: Request, name: str, dictionaries: dict[Direction, Glossary]) -> StoredGlossary:
        """Keep a new glossary. Problem 413 if there is no room for it."""
        made = StoredGlossary(name, owner(request))
        if len(self.table) >= MOST_GLOSSARIES:
            raise Problem(413, f"this server keeps {MOST_GLOSSARIES:,} glossaries; delete one")
        self.change(made, dictionaries)
        self.table[made.id] = made
        return made

    def change(self, glossary: StoredGlossary, dictionaries: dict[Direction, Glossary]) -> None:
        """Replace or add dictionaries. Problem 413 if there is no room for them."""
        changed = StoredGlossary("", "", {**glossary.dictionaries, **dictionaries})
        others = sum(one.characters for one in self.table.values() if one is not glossary)
        if others + changed.characters > MOST_CHARACTERS:
            raise Problem(413, f"the glossaries of a server hold {MOST_CHARACTERS:,} characters; delete one")
        glossary.dictionaries = changed.dictionaries

    def delete(self, glossary: StoredGlossary) -> None:
        self.table.pop(glossary.id, None)

    def terms(self, request: Request, asked: CommonFields) -> Glossary:
        """The terms of the glossaries that a request names. Problem 400 if one is not for its direction."""
        ids = [asked.glossary_id] if asked.glossary_id else asked.glossary_ids
        if len(ids) > MOST_IN_A_REQUEST:
            raise Problem(400, f"Invalid request: glossary_ids has at most {MOST_IN_A_REQUEST} entries")
        if not ids:
            return NO_TERMS
        if asked.source_lang is None:
            raise Problem(400, "Invalid request: source_lang is needed with a glossary")
        direction = (source_code(asked.source_lang), source_code(asked.target_lang))
        found = [self.get(request, one).dictionaries.get(direction) for one in ids]
        if None in found:
            raise Problem(400, f"no dictionary found for language pair {' - '.join(direction)} in this glossary")
        rows = {row[0]: row for terms in reversed(found) if terms for row in terms.terms}  # the first glossary counts
        return Glossary(tuple(rows.values()))


def owner(request: Request) -> str:
    """Who sent a request: the hash of the key, or nothing where no key is needed."""
    return getattr(request.state, "owner", "")


# ---------------------------------------------------------------- entries as text


def parse_entries(text: str, form: str) -> Glossary:
    """The terms of rows that tabs (tsv) or commas (csv) divide. Problem 400 that names the row that is wrong."""
    found: dict[str, str] = {}
    for number, row in enumerate(rows_of(text, form), 1):
        if not any(cell.strip() for cell in row):
            continue
        terms = [cell.strip() for cell in row]
        if len(terms) != 2 or not all(1 <= len(term) <= LONGEST_TERM for term in terms):
            raise wrong_row(number, f"it is not two terms of 1 to {LONGEST_TERM} characters")
        if any(unicodedata.category(letter) == "Cc" for term in terms for letter in term):
            raise wrong_row(number, "it has a control character")
        if terms[0] in found:
            raise wrong_row(number, "its first term has a row already")
        found[terms[0]] = terms[1]
    if not found:
        raise Problem(400, "Invalid glossary entries: there are none")
    return Glossary(tuple(found.items()))


def rows_of(text: str, form: str) -> list[list[str]]:
    """The cells of each row, without the two language codes that may end a row of csv."""
    if form == "tsv":
        return [line.split("\t") for line in text.splitlines()]
    try:
        rows = list(csv.reader(io.StringIO(text), strict=True))
    except csv.Error as error:
        raise Problem(400, f"Invalid glossary entries: the CSV cannot be read: {error}") from None
    return [row[:2] if len(row) == 4 else row for row in rows]


def wrong_row(number: int, reason: str) -> Problem:
    return Problem(400, f"Invalid glossary entries: row {number}: {reason}")


def print_entries(glossary: Glossary) -> str:
    """The terms as rows that tabs divide."""
    return "\n".join(f"{source}\t{target}" for source, target in glossary.terms)
