"""Frozen dataclasses <-> TOML. A configuration is data with types, checked once, saved beside the weights."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import itertools
import json
import re
import tomllib
import typing
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from headway.errors import UsageError

Config = TypeVar("Config")
Override = tuple[str, str]

LARGEST = 1 << 20  # bytes of a TOML file
DEEPEST = 16  # parts of a dotted key; the standard parser needs time and memory by the square of their number
PART = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+"""
TOO_DEEP = re.compile(rf"(?<![\w-]){PART}(?:\.[ \t]*+{PART}){{{DEEPEST}}}")

# ---------------------------------------------------------------- reading


def load(kind: type[Config] | UnionType, path: Path, overrides: list[str] | None = None) -> Config:
    """Read a TOML file into a dataclass, or one of several; `overrides` are `key.path=value` in TOML's spelling."""
    return from_dict(kind, read_toml(path, overrides), where=str(path))


def read_toml(path: Path, overrides: list[str] | None = None) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
        text = data[:LARGEST].decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 at byte {error.start}; save the file as UTF-8") from None
    if len(data) > LARGEST:
        raise UsageError(f"{path}: larger than {LARGEST:,} bytes, so not a configuration; give another file")
    return override(parse_toml(text, str(path)), overrides or [])


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """The tables of a TOML text of unknown origin."""
    if deep := TOO_DEEP.search(text):
        line = text.count("\n", 0, deep.start()) + 1
        raise UsageError(f"{where}: line {line}: a key has more than {DEEPEST} parts")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a number of too many digits is a plain ValueError
        raise UsageError(f"{where}: not valid TOML: {error}") from None


def override(table: dict[str, Any], overrides: list[str]) -> dict[str, Any]:
    """Apply `training.steps=500`; what does not parse as a TOML value is taken as a string."""
    for item in overrides:
        key, equals, text = item.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"--set {item}: write it as key=value, for example training.steps=500")
        *parents, last = key.strip().split(".")
        place = table
        for parent in parents:
            place = place.setdefault(parent, {})
            if not isinstance(place, dict):
                raise UsageError(f"--set {item}: {parent} is a value, not a table")
        place[last] = _value(text.strip())
    return table


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def from_dict(kind: type[Config] | UnionType, table: Mapping[str, Any], where: str = "configuration") -> Config:
    """Check a table and make the dataclass of it. By way of JSON, whose strict rules let "yes" be no boolean."""
    table = _with_kinds(kind, table)
    refuse_renamed(kind, table, where)
    _check_names(kind, table, where, ())
    try:
        return _adapter(kind).validate_json(json.dumps(table, default=str), strict=True)
    except ValidationError as error:
        raise UsageError(f"{where}: {_first_line(kind, table, error)}") from None
    except ValueError as error:  # a number of too many digits
        raise UsageError(f"{where}: {error}") from None


def _with_kinds(kind: Any, table: Mapping[str, Any]) -> dict[str, Any]:
    """A table that names no kind is of its field's default kind: `model.width = 128` alone is enough.

    A dataclass may `complete` its table first, where one field implies the kind of another.
    """
    filled = getattr(kind, "complete", dict)(table)
    if not dataclasses.is_dataclass(kind):
        return filled
    for one in dataclasses.fields(kind):
        value, usual = filled.get(one.name), one.default
        if isinstance(value, Mapping) and dataclasses.is_dataclass(usual):
            usual_kind = getattr(usual, "kind", None)
            named = value if "kind" in value or usual_kind is None else {"kind": usual_kind, **value}
            filled[one.name] = _with_kinds(type(usual), named) if named.get("kind") == usual_kind else named
    return filled


def merge(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Tables are joined key by key; where a part's kind differs, the upper one replaces it whole."""
    joined = dict(under)
    for key, value in over.items():
        below = joined.get(key)
        same_kind = (
            isinstance(below, Mapping)
            and isinstance(value, Mapping)
            and below.get("kind") == value.get("kind", below.get("kind"))
        )
        joined[key] = merge(below, value) if same_kind else value  # pyright: ignore[reportArgumentType]
    return joined


@cache
def _adapter(kind: Any) -> TypeAdapter:
    return TypeAdapter(kind)


def _first_line(kind: Any, table: Mapping[str, Any], error: ValidationError) -> str:
    """Say the first problem in one line, with the kinds of unions left out of the path."""
    problems = error.errors(include_url=False)
    kinds = {(member.__name__, _kind(member)) for member in _all_dataclasses(kind)}
    problem = next((one for one in problems if _concerns(one["loc"], table, kinds)), problems[0])
    names = [str(part) for part in problem["loc"]]
    known = {name for member in _all_dataclasses(kind) for name in _hints(member)}
    path = ".".join(name for name in names if name in known or name.isdigit()) or "configuration"
    message = problem["msg"].removeprefix("Value error, ")
    given = problem["input"]
    if problem["type"] == "value_error" and not isinstance(given, str | int | float | bool):
        return message if path == "configuration" else f"{path}: {message}"
    return f"{path} is {given!r:.200}: {message[:1].lower()}{message[1:]}"


def _concerns(place: tuple[int | str, ...], value: Any, kinds: set[tuple[str, str | None]]) -> bool:
    """A value is tried as every member of a union; only the complaints of the member it names are about it."""
    members = {name for name, _ in kinds}
    for part in place:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            named = value.get("kind") if isinstance(value, Mapping) else None
            if named is not None and part in members and (part, named) not in kinds:
                return False
    return True


# ---------------------------------------------------------------- names: unknown keys and kinds


def refuse_renamed(kind: Any, table: Mapping[str, Any], where: str) -> None:
    """Refuse keys by which older versions knew something, and say what each is called now."""
    renamed: Mapping[str, str] = getattr(kind, "renamed", {})
    hints = [f"{old} is now {new}" for old, new in renamed.items() if _holds(table, old)]
    if hints:
        raise UsageError(f"{where}: {'; '.join(hints)}")


def _holds(table: Any, path: str) -> bool:
    for name in path.split("."):
        if not isinstance(table, Mapping) or name not in table:
            return False
        table = table[name]
    return True


def _check_names(kind: Any, value: Any, where: str, path: tuple[str, ...]) -> None:
    """Refuse unknown keys and unknown kinds, naming the nearest known one."""
    members = list(_dataclasses_in(kind))
    if isinstance(value, list | tuple):
        lists = [one for one in (kind, *typing.get_args(kind)) if typing.get_origin(one) in (list, tuple)]
        for one, (index, item) in itertools.product(lists, enumerate(value)):
            _check_names(typing.get_args(one)[0], item, where, (*path, str(index)))
        return
    if not members:
        return
    if not isinstance(value, Mapping):
        _check_plain(kind, members, f"{where}: {'.'.join(path)} is {value!r}")
        return
    chosen = _choose(members, value, where, path)
    hints = _hints(chosen)
    for key, inner in value.items():
        if key not in hints:
            raise UsageError(f"{where}: unknown key {_dotted(path, key):.200}; {_suggest(key, list(hints))}")
        _check_names(hints[key], inner, where, (*path, key))


def _check_plain(kind: Any, members: list[Any], given: str) -> None:
    """A plain value can stand where something else than a table is allowed too."""
    plain = [one for one in typing.get_args(kind) if one is not type(None) and one not in members]
    if not plain:
        kinds = f', such as {{ kind = "{_kind(members[0])}" }}' if _kind(members[0]) else ""
        raise UsageError(f"{given}; it must be a table{kinds}")


def _choose(members: list[Any], value: Mapping[str, Any], where: str, path: tuple[str, ...]) -> Any:
    by_kind = {kind: member for member in members if (kind := _kind(member))}
    if len(members) == 1 or not by_kind:
        chosen = members[0]
        given = value.get("kind")
        if given is None or given == _kind(chosen) or _kind(chosen) is None:
            return chosen
    given = value.get("kind")
    if isinstance(given, str) and given in by_kind:
        return by_kind[given]
    here = _dotted(path, "kind")
    choice = f"choose one of {', '.join(sorted(by_kind))}"
    raise UsageError(
        f"{where}: {here} is missing; {choice}" if given is None else f"{where}: {here} is {given!r}; {choice}"
    )


def _suggest(key: str, known: list[str]) -> str:
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"{hint}known here: {', '.join(known)}"


def _dotted(path: tuple[str, ...], key: str) -> str:
    return ".".join((*path, key))


def _kind(member: Any) -> str | None:
    """What tells a member of a union apart; a field of that name without a default is an ordinary one."""
    fields = [field for field in dataclasses.fields(member) if field.name == "kind"]
    return next((str(field.default) for field in fields if field.default is not dataclasses.MISSING), None)


def _dataclasses_in(annotation: Any) -> Iterator[Any]:
    if dataclasses.is_dataclass(annotation):
        yield annotation
    elif typing.get_origin(annotation) in (typing.Union, UnionType, typing.Annotated):
        for argument in typing.get_args(annotation):
            yield from _dataclasses_in(argument)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def _all_dataclasses(kind: Any) -> set[Any]:
    """A configuration's own dataclasses, the inner ones too, also inside lists."""
    found = {member for inner in (kind, *typing.get_args(kind)) for member in _dataclasses_in(inner)}
    hints = [hint for member in found for hint in _hints(member).values()]
    return found.union(*(_all_dataclasses(hint) for hint in hints))


# ---------------------------------------------------------------- writing


def to_dict(config: Any) -> dict[str, Any]:
    """Plain values, unset ones left out, as TOML knows no null."""
    fields = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    return {name: _plain(value) for name, value in fields.items() if value is not None}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return to_dict(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def dump(config: Any) -> str:
    """A complete TOML text: every field, with the comment that stands beside it in the code."""
    return "\n".join(_table_lines(config, ())).strip() + "\n"


def _table_lines(config: Any, path: tuple[str, ...]) -> Iterator[str]:
    comments = field_comments(type(config))
    tables: list[tuple[str, Any]] = []
    for field in sorted(dataclasses.fields(config), key=lambda field: field.name != "kind"):
        value, comment = getattr(config, field.name), comments.get(field.name, "")
        if dataclasses.is_dataclass(value) and _is_section(value):
            tables.append((field.name, value))
            continue
        note = f"  # {comment}" if comment else ""
        yield (f"# {field.name} ={note or ' unset'}" if value is None else f"{field.name} = {_toml(value)}{note}")
    for name, value in tables:
        yield ""
        yield from (f"# {line}" for line in (inspect.getdoc(value) or "").splitlines()[:1])
        yield f"[{_dotted(path, name)}]"
        yield from _table_lines(value, (*path, name))


def _is_section(value: Any) -> bool:
    """Parts fit on one line; whole chapters of a run get a table of their own."""
    return getattr(type(value), "section", False)


def _toml(value: Any) -> str:
    if dataclasses.is_dataclass(value):
        return "{ " + ", ".join(f"{k} = {_toml(v)}" for k, v in to_dict(value).items()) + " }"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(k)} = {_toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)


@cache
def field_comments(kind: type[Any]) -> dict[str, str]:
    """The comment at the end of each field's line: written once, read in the code and in the TOML."""
    comments: dict[str, str] = {}
    for member in reversed(kind.__mro__):
        if dataclasses.is_dataclass(member):
            lines = inspect.getsource(member).splitlines()
            found = (re.match(r"    (\w+):[^#]*#\s*(.+)$", line) for line in lines)
            comments |= {match[1]: match[2] for match in found if match}
    return comments


def schema(kind: type[Any] | UnionType) -> dict[str, Any]:
    """A JSON schema, for editors that complete and check TOML; with our comments, and without unknown keys."""
    whole = _adapter(kind).json_schema()
    tables = {whole.get("title"): whole} | whole.get("$defs", {})
    for member in _all_dataclasses(kind):
        long_name = f"{member.__module__}.{member.__name__}".replace(".", "__")  # where two have one name
        table = tables.get(long_name) or tables[member.__name__]
        table["additionalProperties"] = False
        for name, entry in table["properties"].items():
            entry |= {"description": comment} if (comment := field_comments(member).get(name)) else {}
    return whole
