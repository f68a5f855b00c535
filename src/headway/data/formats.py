"""Read parallel text line by line: two text files, TSV or JSON lines (TMX is in tmx.py)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from io import BufferedReader
from itertools import islice, zip_longest
from pathlib import Path
from typing import Literal, NamedTuple, NoReturn

from headway.data.archives import open_bytes, refuse_foreign
from headway.errors import UsageError

__all__ = ["Invalid", "Line", "Names", "Row", "jsonl", "lines", "open_bytes", "parallel", "raw_lines", "tsv"]

Invalid = Literal["error", "skip", "replace"]
Policy = Invalid | Literal["refuse"]  # refuse: an error whose advice names no setting, as lines may not be skipped
LONGEST_LINE = 32 << 10  # bytes; longer lines are dropped and never kept in memory
FORM_SAMPLE = 100  # lines from which the columns of a file are found
BOM = b"\xef\xbb\xbf"

OR_SKIP = 'mend it, or set data.invalid = "skip"'
ADVICE = {"error": OR_SKIP, "refuse": "mend it"}
NOT_UTF8 = "not UTF-8"
HAS_NUL = "holds a NUL character"
TOO_LONG = f"longer than {LONGEST_LINE >> 10} KiB"
BAD_ROW = "not a pair"
NO_LANGUAGE = "without one of the two languages"


class Line(NamedTuple):
    """One line without its line end. `text` is None if it is unreadable; text with a `problem` was repaired."""

    number: int
    text: str | None
    problem: str | None


class Row(NamedTuple):
    """One pair of a file, or the problem because of which there is none."""

    line: int
    source: str | None
    target: str | None
    problem: str | None


class Names(NamedTuple):
    """The fields or languages of the two sides in a file that has both."""

    source_field: str = ""
    target_field: str = ""
    source_language: str = ""
    target_language: str = ""


NO_NAMES = Names()
Reader = Callable[[Path, Invalid, Names], Iterator[Row]]

# ---------------------------------------------------------------- lines


def lines(path: Path, invalid: Policy = "error", longest: int = LONGEST_LINE) -> Iterator[Line]:
    """Yield the lines of a file, ended by line feeds only, as for `wc -l`; `invalid` is for text other than UTF-8."""
    with open_bytes(path) as stream:
        yield from lines_of(path, stream, invalid, longest)


def lines_of(path: Path, stream: BufferedReader, invalid: Policy, longest: int) -> Iterator[Line]:
    """Yield the lines of an open stream; `path` is its name in messages."""
    for number, raw in enumerate(sized_lines(path, stream, longest), 1):
        if not isinstance(raw, int):
            yield _decode(path, number, strip_end(raw), invalid)
        elif invalid == "refuse":
            advice = "break it into several lines"
            complain(path, number, f"the line has {raw:,} bytes, and at most {longest:,} are read", advice)
        else:
            yield Line(number, None, TOO_LONG)


def raw_lines(path: Path, stream: BufferedReader, longest: int = LONGEST_LINE) -> Iterator[bytes | None]:
    """Yield the bytes of each line with its line end; None for a line longer than `longest` bytes."""
    return (None if isinstance(raw, int) else raw for raw in sized_lines(path, stream, longest))


def sized_lines(path: Path, stream: BufferedReader, longest: int) -> Iterator[bytes | int]:
    """Yield the bytes of each line with its line end; for a line longer than `longest` bytes, its size."""
    room = longest + 2  # the end may take two bytes
    first = stream.readline(room + len(BOM))
    refuse_foreign(path, first)
    raw = first.removeprefix(BOM)
    if not raw:
        raise UsageError(f"{path}:1: the file is empty")
    while raw:
        rest = _skip_rest_of_line(stream) if len(raw) >= room and not raw.endswith(b"\n") else 0
        yield raw if len(raw) <= longest or len(strip_end(raw)) <= longest else len(strip_end(raw)) + rest
        raw = stream.readline(room)


def strip_end(raw: bytes) -> bytes:
    return raw.removesuffix(b"\n").removesuffix(b"\r")


def _skip_rest_of_line(stream: BufferedReader) -> int:
    """Skip the rest of a line, and return its size in bytes without the line end."""
    size = 0
    while (rest := stream.readline(1 << 16)) and not rest.endswith(b"\n"):
        size += len(rest)
    return size + len(strip_end(rest))


def _decode(path: Path, number: int, raw: bytes, invalid: Policy) -> Line:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        if invalid in ADVICE:
            detail = f"not UTF-8 at byte {error.start + 1} (0x{raw[error.start]:02x})"
            complain(path, number, detail, ADVICE[invalid])
        text = raw.decode("utf-8", "replace") if invalid == "replace" else None
        return Line(number, text and text.replace("\0", "\ufffd"), NOT_UTF8)
    if "\0" in text:
        if invalid in ADVICE:
            complain(path, number, "holds a NUL character: is it UTF-16, or not a text file?", ADVICE[invalid])
        return Line(number, text.replace("\0", "\ufffd") if invalid == "replace" else None, HAS_NUL)
    return Line(number, text, None)


def count_lines(path: Path) -> int:
    """Return the number of lines, as `wc -l` counts them, plus one if the last has no line end."""
    count, last = 0, b"\n"
    with open_bytes(path) as stream:
        while piece := stream.read(1 << 18):
            count, last = count + piece.count(b"\n"), piece[-1:]
    return count + (last != b"\n")


def complain(path: Path, number: int, detail: str, advice: str = OR_SKIP) -> NoReturn:
    raise UsageError(f"{path}:{number}: {detail}; {advice}")


# ---------------------------------------------------------------- pairs


def parallel(source: Path, target: Path, invalid: Invalid = "error") -> Iterator[Row]:
    """Yield line n of both files as a row; UsageError with both counts if the numbers of lines differ."""
    for ours, theirs in zip_longest(lines(source, invalid), lines(target, invalid)):
        if ours is None or theirs is None:
            refuse_counts(source, target, count_lines(source), count_lines(target))
        yield Row(ours.number, ours.text, theirs.text, ours.problem or theirs.problem)


def refuse_counts(source: Path, target: Path, sources: int, targets: int) -> NoReturn:
    where = f"{source if sources > targets else target}:{min(sources, targets) + 1}"
    counts = f"{source} has {sources:,} lines but {target} has {targets:,}"
    raise UsageError(f"{where}: {counts}; `headway doctor {source} {target}` finds where they part")


def tsv(path: Path, invalid: Invalid = "error", names: Names = NO_NAMES) -> Iterator[Row]:
    """Source, tab, target on each line; with more columns, the fields are column numbers counted from 1.

    Files of Tatoeba need no fields: sentences beside their numbers, or before an attribution.
    """
    chosen = _columns(path, names) or tatoeba_columns(path)
    for number, text, problem in lines(path, invalid):
        if text is None:
            yield Row(number, None, None, problem)
            continue
        cells = text.split("\t")
        if chosen is None and len(cells) == 2:
            yield Row(number, cells[0], cells[1], problem)
        elif chosen is not None and len(cells) > max(chosen):
            yield Row(number, cells[chosen[0]], cells[chosen[1]], problem)
        else:
            yield _bad_row(path, number, invalid, _say_columns(len(cells), chosen))


def tatoeba_columns(path: Path) -> tuple[int, int] | None:
    """Return where the two sentences of Tatoeba's files stand; None for a file of another form."""
    rows = [line.text.split("\t") for line in islice(lines(path, "skip"), FORM_SAMPLE) if line.text]
    if not rows or len({len(row) for row in rows}) != 1:
        return None
    numbers = [all(row[place].isascii() and row[place].isdigit() for row in rows) for place in range(len(rows[0]))]
    if numbers == [True, False, False]:
        return 1, 2
    if numbers == [True, False, True, False]:
        return 1, 3
    if len(numbers) == 3 and all(row[2].startswith("CC-BY") for row in rows):
        return 0, 1
    return None


def _columns(path: Path, names: Names) -> tuple[int, int] | None:
    given = (str(names.source_field), str(names.target_field))
    if given == ("", ""):
        return None
    if not all(re.fullmatch(r"[1-9]\d{0,3}", name) for name in given):
        raise UsageError(f"{path}: source_field, target_field are {given}; a TSV file needs two column numbers")
    return int(given[0]) - 1, int(given[1]) - 1


def _say_columns(count: int, chosen: tuple[int, int] | None) -> str:
    found = f"{count} column{'s' * (count != 1)}"
    if chosen:
        return f"{found}, column {max(chosen) + 1} is wanted"
    more = ' (choose two with --fields 1,2, or source_field = "1", target_field = "2")' if count > 2 else ""
    return f"{found}, 2 are wanted: source, tab, target{more}"


def jsonl(path: Path, invalid: Invalid = "error", names: Names = NO_NAMES) -> Iterator[Row]:
    """Yield rows of JSON objects: {"source": "…", "target": "…"} or {"translation": {"en": "…", "de": "…"}}."""
    for number, text, problem in lines(path, invalid):
        if text is None:
            yield Row(number, None, None, problem)
            continue
        try:
            source, target = _json_pair(text, names)
        except ValueError as error:
            yield _bad_row(path, number, invalid, str(error))
        else:
            yield Row(number, source, target, problem)


def _json_pair(text: str, names: Names) -> tuple[str, str]:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON ({str(error)[:80]})") from None
    source = _field(row, "source", names.source_field, names.source_language)
    return source, _field(row, "target", names.target_field, names.target_language)


def _field(row: object, side: str, field: str, language: str) -> str:
    """Return the text at a dotted name; without one, that of `source` or `target`, or of `translation.<language>`."""
    plain = isinstance(row, dict) and side in row
    path = (field or (side if plain else f"translation.{language}")).split(".")
    value = row
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    if not isinstance(value, str):
        raise ValueError(_say_missing(row, side, ".".join(path)))
    if re.search("[\0\ud800-\udfff]", value):
        raise ValueError(f"{side}: holds a NUL or half of a surrogate pair")
    return one_line(value)


def _say_missing(row: object, side: str, path: str) -> str:
    if not isinstance(row, dict):
        return "not a JSON object"
    inner = row.get("translation")
    if path == "translation." and isinstance(inner, dict):
        return f"languages {', '.join(map(str, inner))[:60]}: set data.{side}_language to one of them"
    wanted = f'a text under "{side}"' if path == "translation." else f'a text under "{path}"'
    return f"no {side}: {wanted} is wanted, the fields are {', '.join(row)[:60] or 'none'}"


def one_line(text: str) -> str:
    """Return a text with line ends replaced by spaces, as a sentence must be one line."""
    return re.sub(r"[ \t]*[\r\n]+[ \t]*", " ", text) if "\n" in text or "\r" in text else text


def _bad_row(path: Path, number: int, invalid: Invalid, detail: str) -> Row:
    if invalid == "error":
        complain(path, number, detail)
    return Row(number, None, None, BAD_ROW)
