"""The pages that are written from the code: every command, every public name, every setting."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import types
import typing
from collections.abc import Iterator
from typing import Any

import typer.main

from headway import config
from headway.cli import app
from headway.errors import EXIT_CODES
from headway.tasks.run import Run

GENERATED = "<!-- written by docs/build.py: change the code, then `make docs` -->"
PUBLIC = {  # what Python programs may rely on
    "headway": ("Translator", "DecodingOptions", "Translation"),
    "headway.search": (),
    "headway.metrics": (),
    "headway.model.hooks": ("record", "Seen", "ablate", "attention_layers"),
    "headway.reports.plots": ("attention_picture", "attention_grid", "curves_picture"),
    "headway.recipes": ("base", "big", "small", "tiny", "deep_encoder", "llama", "gpt2", "transformer_xl", "tener"),
    "headway.config": ("load", "from_dict", "to_dict", "dump", "schema"),
    "headway.runs.trainer": ("Trainer",),
}
METHODS = {"Translator": ("load", "translate", "stream", "score"), "Trainer": ("events",)}  # of others: all

# ---------------------------------------------------------------- the command line


def cli_page() -> str:
    """Every command with its arguments, options and defaults."""
    commands: Any = typer.main.get_command(app)
    lines = ["# Commands", "", GENERATED, "", (app.info.help or "").strip(), ""]
    for name, command in commands.commands.items():
        lines += [f"## headway {name}", "", *paragraphs(command.help or ""), ""]
        for full, one in nested(name, command):
            heading = [f"### headway {full}", "", *paragraphs(one.help or ""), ""] if full != name else []
            lines += [*heading, *usage(full, one), ""]
    lines += ["## Exit codes", "", "| code | meaning |", "|---|---|"]
    return "\n".join([*lines, *(f"| {code} | {cell(meaning)} |" for code, meaning in EXIT_CODES.items())]) + "\n"


def nested(name: str, command: Any) -> list[tuple[str, Any]]:
    """A command by itself, or the commands of a group with their full names."""
    inner = getattr(command, "commands", None)
    return [(name, command)] if inner is None else [(f"{name} {key}", one) for key, one in inner.items()]


def paragraphs(text: str) -> list[str]:
    return inspect.cleandoc(text).split("\n")


def usage(name: str, command: Any) -> Iterator[str]:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    words = [p.name.upper() if p.required else f"[{p.name.upper()}]" for p in arguments]
    yield "```sh"
    yield " ".join(["headway", name, "[OPTIONS]", *words])
    yield "```"
    yield ""
    yield "| | default | |"
    yield "|---|---|---|"
    for param in command.params:
        spelled = param.name.upper() if param in arguments else " ".join(param.opts)
        yield f"| `{spelled}` | {default_of(param)} | {cell(getattr(param, 'help', None) or '')} |"


def default_of(param: Any) -> str:
    value = param.default
    unset = value is None or isinstance(value, bool) or callable(value) or "UNSET" in str(value).upper()
    return "" if unset or value == "" else f"`{value}`"


# ---------------------------------------------------------------- Python and settings


def reference_page() -> str:
    """The public names with their signatures and docstrings; then every setting of a run."""
    lines = [
        "# Reference",
        "",
        GENERATED,
        "",
        "- [From Python](#from-python)",
        "- [Settings of a run](#settings-of-a-run)",
    ]
    lines += ["", "## From Python", ""]
    for name, chosen in PUBLIC.items():
        module = importlib.import_module(name)
        lines += [f"### {name}", "", *paragraphs(module.__doc__ or ""), ""]
        for public in chosen or sorted(module.__all__):
            lines += [*entry(public, getattr(module, public)), ""]
    lines += ["## Settings of a run", "", *SETTINGS_INTRODUCTION, ""]
    for kind in configurations(Run):
        lines += [*settings_table(kind), ""]
    return "\n".join(lines)


SETTINGS_INTRODUCTION = [
    "A run is a TOML file; `headway config` prints one with all settings. A part is chosen by its kind; what is not",
    'said about it has its default: `positions = { kind = "rotary" }`.',
]


def entry(name: str, thing: Any) -> Iterator[str]:
    if isinstance(thing, types.UnionType):
        yield from (f"#### `{name}`", "", "One of " + ", ".join(f"`{one.__name__}`" for one in typing.get_args(thing)))
        return
    yield f"#### `{name}{signature(thing)}`"
    yield ""
    yield from paragraphs(thing.__doc__ or "")
    yield ""
    yield from fields_table(thing) if has_fields(thing) else ()
    if inspect.isclass(thing):
        chosen = METHODS.get(name) or [n for n, member in vars(thing).items() if documented(n, member)]
        for method in chosen:
            function = unwrapped(vars(thing)[method])
            arguments = "" if isinstance(vars(thing)[method], property) else signature(function)
            yield f"- `.{method}{arguments}` {paragraphs(function.__doc__ or '')[0]}".rstrip()


def documented(name: str, member: Any) -> bool:
    function = unwrapped(member)
    return inspect.isfunction(function) and not name.startswith("_") and bool(function.__doc__)


def unwrapped(member: Any) -> Any:
    return member.__func__ if isinstance(member, classmethod | staticmethod) else getattr(member, "fget", member)


def has_fields(thing: Any) -> bool:
    return dataclasses.is_dataclass(thing) or hasattr(thing, "_fields")


def signature(thing: Any) -> str:
    """As it is called: without self, types as they are written."""
    if has_fields(thing) or (inspect.isclass(thing) and "__init__" not in vars(thing)):
        return ""
    parameters = [p for p in inspect.signature(thing).parameters.values() if p.name not in ("self", "cls")]
    return f"({', '.join(map(parameter, parameters))})"


def parameter(one: inspect.Parameter) -> str:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(one.kind, "")
    kind = "" if one.annotation is inspect.Parameter.empty else f": {one.annotation}"
    default = f" = {one.default!r}" if len(repr(one.default)) < 40 else " = ..."  # long ones hold addresses
    return f"{stars}{one.name}{kind}" + ("" if one.default is inspect.Parameter.empty else default)


def configurations(kind: Any) -> list[Any]:
    """A configuration and all inside it, each once, in the order they are met."""
    found = [kind]
    for member in found:
        for hint in typing.get_type_hints(member).values():
            found += [inner for inner in members(hint) if inner not in found]
    return found


def members(hint: Any) -> Iterator[Any]:
    if dataclasses.is_dataclass(hint):
        yield hint
    elif typing.get_origin(hint) in (typing.Union, types.UnionType, tuple, list):
        for argument in typing.get_args(hint):
            yield from members(argument)


def settings_table(kind: Any) -> Iterator[str]:
    named = next((str(f.default) for f in dataclasses.fields(kind) if f.name == "kind"), "")
    yield f"### {kind.__name__}" + (f': `kind = "{named}"`' if named else "")
    yield ""
    yield from paragraphs(kind.__doc__ or "")
    yield ""
    yield from fields_table(kind)


def fields_table(kind: Any) -> Iterator[str]:
    comments, defaults = comments_of(kind), defaults_of(kind)
    if not defaults:
        return
    yield "| | default | |"
    yield "|---|---|---|"
    for name, default in defaults.items():
        yield f"| `{name}` | {default} | {cell(comments.get(name, ''))} |"
    yield ""


def comments_of(kind: Any) -> dict[str, str]:
    if dataclasses.is_dataclass(kind):
        return config.field_comments(kind)  # pyright: ignore[reportArgumentType]
    return dict(re.findall(r"^    (\w+): [^#\n]*#\s*(.+)$", inspect.getsource(kind), re.MULTILINE))


def defaults_of(kind: Any) -> dict[str, str]:
    if not dataclasses.is_dataclass(kind):
        return {
            name: shown(kind._field_defaults[name]) if name in kind._field_defaults else "" for name in kind._fields
        }
    return {field.name: default_value(field) for field in dataclasses.fields(kind) if field.name != "kind"}


def default_value(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        return shown(field.default)
    return "" if field.default_factory is dataclasses.MISSING else "empty"


def shown(value: Any) -> str:
    if dataclasses.is_dataclass(value):
        return f"`{getattr(value, 'kind', type(value).__name__)}`"
    written = {"None": "unset", "True": "`true`", "False": "`false`", "": "empty", "()": "empty"}
    return written.get(str(value), f"`{value}`")


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
