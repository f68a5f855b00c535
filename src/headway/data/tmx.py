"""Read translation memories (TMX) unit by unit, without expanding entities or loading external files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headway.data.archives import open_bytes
from headway.data.formats import (
    BAD_ROW,
    LONGEST_LINE,
    NO_LANGUAGE,
    NO_NAMES,
    TOO_LONG,
    Invalid,
    Names,
    Row,
    complain,
    one_line,
)
from headway.errors import UsageError

LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
CODES = {"bpt", "ept", "it", "ph", "ut"}  # inline elements that contain markup instead of words


def tmx(path: Path, invalid: Invalid = "error", names: Names = NO_NAMES) -> Iterator[Row]:
    """Yield one row for each translation unit, with the two languages in `names`."""
    try:
        from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]
    except ImportError:
        raise UsageError("reading TMX files needs the package lxml; run pip install 'headway-mt[tmx]'") from None
    seen: set[str] = set()
    with open_bytes(path) as stream:
        try:
            for unit in _units(etree, stream):
                variants = _variants(unit)
                _check_chosen(path, unit.sourceline, variants, names)
                yield _row(path, unit.sourceline, variants, invalid, names)
                seen.update(variants)
                _forget(unit)
        except etree.XMLSyntaxError as error:
            line, reason = error.lineno or 1, " ".join(str(error.msg).split(", line ")[0].split())
            raise UsageError(f"{path}:{line}: not a TMX file: {reason}") from None
    _check_found(path, seen, names)


def _units(etree: Any, stream: Any) -> Iterator[Any]:
    safe = {"resolve_entities": False, "no_network": True, "load_dtd": False, "huge_tree": False}
    for _, unit in etree.iterparse(stream, events=("end",), tag="tu", remove_comments=True, **safe):
        yield unit


def _forget(unit: Any) -> None:
    """Remove a unit and everything before it from the tree, to bound memory."""
    unit.clear()
    while unit.getprevious() is not None:
        del unit.getparent()[0]


def _variants(unit: Any) -> dict[str, Any]:
    """Return the segment of each language; the first one if a language occurs twice."""
    found: dict[str, Any] = {}
    for variant in unit.iter("tuv"):
        language = (variant.get(LANGUAGE) or variant.get("lang") or "").lower().replace("_", "-")
        segment = variant.find("seg")
        if segment is not None:
            found.setdefault(language, segment)
    return found


def _row(path: Path, line: int, variants: dict[str, Any], invalid: Invalid, names: Names) -> Row:
    source, target = _pick(variants, names.source_language), _pick(variants, names.target_language)
    if source is None or target is None:
        return Row(line, None, None, NO_LANGUAGE)
    try:
        texts = [one_line("".join(_words(segment))) for segment in (source, target)]
    except ValueError as error:
        if invalid == "error":
            complain(path, line, str(error))
        return Row(line, None, None, BAD_ROW)
    if max(len(text.encode("utf-8")) for text in texts) > LONGEST_LINE:
        return Row(line, None, None, TOO_LONG)
    return Row(line, texts[0], texts[1], None)


def _pick(variants: dict[str, Any], language: str) -> Any:
    """Return the variant of a language; `en` also finds en-GB if there is no en."""
    wanted = language.lower().replace("_", "-")
    near = (code for code in variants if code.split("-")[0] == wanted)
    return variants[wanted] if wanted in variants else variants.get(next(near, ""))


def _words(segment: Any) -> Iterator[str]:
    yield segment.text or ""
    for child in segment:
        if not isinstance(child.tag, str):  # an unexpanded entity, or a processing instruction
            if child.text and child.text.startswith("&"):
                raise ValueError(f"uses the entity {child.text[:40]}, which is not expanded for safety")
        elif child.tag not in CODES:
            yield from _words(child)
        yield child.tail or ""


def _check_chosen(path: Path, line: int, variants: dict[str, Any], names: Names) -> None:
    for side, language in (("source", names.source_language), ("target", names.target_language)):
        if not language:
            known = ", ".join(sorted(filter(None, variants))[:12]) or "not named"
            raise UsageError(f"{path}:{line}: set data.{side}_language; the languages here are {known}")


def _check_found(path: Path, seen: set[str], names: Names) -> None:
    if not seen:
        raise UsageError(f"{path}:1: the file has no translation unit (<tu>)")
    for side, language in (("source", names.source_language), ("target", names.target_language)):
        if _pick(dict.fromkeys(seen, True), language) is None:
            known = ", ".join(sorted(filter(None, seen))[:12]) or "not named"
            raise UsageError(f"{path}:1: data.{side}_language is {language!r}; the languages here are {known}")
