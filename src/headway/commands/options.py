"""Commands: functions whose options come from dataclasses, each declared once."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass, is_dataclass
from functools import wraps
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo

from headway.options import Option, declared, type_of


class Only:
    """Marks a group of which a command has these options alone: Annotated[DecodingOptions, Only("beam")]."""

    def __init__(self, *names: str) -> None:
        self.names = names


class Given(Only):
    """Marks a mapping with those options of a group that the user gave: Annotated[dict[str, Any], Given(Group)]."""

    def __init__(self, group: type[Any], *names: str) -> None:
        super().__init__(*names)
        self.group = group


@dataclass(frozen=True)
class Group:
    """A parameter of a command that stands for several options."""

    kind: type[Any]
    names: tuple[str, ...]
    partial: bool  # only what was given, as a dictionary

    @classmethod
    def of(cls, annotation: Any) -> Group | None:
        """The group that a parameter's type describes; None for an ordinary parameter."""
        kind, *marks = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
        mark = next((one for one in marks if isinstance(one, Only)), Only())
        chosen = mark.group if isinstance(mark, Given) else kind
        if not is_dataclass(chosen):
            return None
        assert isinstance(chosen, type)
        return cls(chosen, mark.names or tuple(declared(chosen)), isinstance(mark, Given))

    def parameters(self, usual: Any) -> Iterator[inspect.Parameter]:
        """Yield one parameter for each option; their defaults are those of `usual`, if it is of this kind."""
        for name in self.names:
            field, details = declared(self.kind)[name]
            default = getattr(usual, name) if isinstance(usual, self.kind) else field.default
            yield self.parameter(name, details, default)

    def parameter(self, name: str, details: Option, default: Any) -> inspect.Parameter:
        """One option as a parameter that typer understands."""
        kind = shown_type(type_of(self.kind, name), details)
        flag = both_ways(name) if default is True else dashed(name)
        default = None if self.partial or isinstance(default, tuple) or details.parse else default
        described: Any = typer.Option(
            *(details.flags or (flag,)), help=details.text,  
            parser=details.parse, show_default=details.default_text or True,
            metavar=details.metavar or list_metavar(kind), rich_help_panel=getattr(self.kind, "panel", None),
        )  # fmt: skip
        optional = kind | None if default is None else kind
        return option_parameter(name, Annotated[optional, described], default)

    def build(self, given: Mapping[str, Any]) -> Any:
        """The dataclass, or the dictionary, from the values of the command line."""
        values = {name: given[name] for name in self.names if given[name] is not None}
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
        return values if self.partial else self.kind(**values)


def shown_type(kind: Any, details: Option) -> Any:
    """The type on the command line: of a sequence it is a list, of an optional value the value."""
    if details.parse is not None:
        return Any
    arguments = [one for one in get_args(kind) if one not in (type(None), ...)]
    if get_origin(kind) is not None and any(one in str(get_origin(kind)) for one in ("tuple", "Sequence")):
        return list[arguments[0]]
    return arguments[0] if type(None) in get_args(kind) else kind


def list_metavar(kind: Any) -> str | None:
    """The name of one value of a repeatable option; None for other options, which typer names by their type."""
    return f"<{get_args(kind)[0].__name__.lower()}>" if get_origin(kind) is list else None


def dashed(name: str) -> str:
    return f"--{name.strip('_').replace('_', '-')}"


def both_ways(name: str) -> str:
    return f"{dashed(name)}/--no-{dashed(name)[2:]}"


def option_parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


QUIET = option_parameter(
    "quiet", Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress and no notes, only errors.")], False
)


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Give a function the signature of its command: a parameter that is a group becomes one option for each field."""
    hints = get_type_hints(function, include_extras=True)
    own = inspect.signature(function).parameters
    groups = {name: group for name in own if (group := Group.of(hints[name]))}
    flat: list[inspect.Parameter] = []
    for name, parameter in own.items():
        group = groups.get(name)
        flat += group.parameters(parameter.default) if group else [plain_parameter(parameter, hints[name])]
    flat.append(QUIET)
    flat.sort(key=lambda one: one.kind)  # arguments before options
    signature = inspect.Signature(flat)

    @wraps(function)
    def run(*args: Any, **options: Any) -> None:
        bound = signature.bind(*args, **options)
        bound.apply_defaults()
        given = bound.arguments
        with silence(given["quiet"]):
            function(**{name: groups[name].build(given) if name in groups else given[name] for name in own})

    run.__signature__ = signature  # pyright: ignore[reportAttributeAccessIssue]
    run.__annotations__ = {one.name: one.annotation for one in flat}
    return run


def plain_parameter(parameter: inspect.Parameter, annotation: Any) -> inspect.Parameter:
    """A parameter that is one argument or one option. A flag has no second name that turns it off."""
    marks = get_args(annotation) if get_origin(annotation) is Annotated else ()
    argument = any(isinstance(one, ArgumentInfo) for one in marks)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD if argument else inspect.Parameter.KEYWORD_ONLY
    return parameter.replace(kind=kind, annotation=annotation)


@contextmanager
def silence(quiet: bool) -> Iterator[None]:
    """Discard what is written to standard error; errors are printed after the command has ended."""
    if not quiet:
        yield
        return
    with open(os.devnull, "w", encoding="utf-8") as nothing, redirect_stderr(nothing):
        yield


def join_names(given: Mapping[str, object]) -> str:
    """The options that have a value, by the names of their parameters: "--top-p, --seed"; empty if none has one."""
    return ", ".join(dashed(name) for name, value in given.items() if value)
