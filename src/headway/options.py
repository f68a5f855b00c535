"""Options that are declared once, for Python, the command line and the server: a field with help text and range."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import Field, dataclass, field, fields
from typing import Any, TypeVar

from headway.errors import UsageError

T = TypeVar("T")


@dataclass(frozen=True)
class Option:
    """The description of one option. Its name, type and default are those of its field."""

    help: str
    least: int | float | None = None  # the smallest value that is allowed
    most: int | float | None = None  # the largest value that is allowed
    above: int | float | None = None  # values must be larger than this
    flags: tuple[str, ...] = ()  # names on the command line; by default the name of the field with dashes
    parse: Callable[[str], Any] | None = None  # from the text on the command line to the value of the field
    metavar: str | None = None  # the value's name in the help of the command line
    default_text: str | None = None  # the default in words, where an unset value has a meaning

    def allows(self, value: int | float) -> bool:
        """Return whether a number lies in the range. NaN never does."""
        return (
            (self.least is None or value >= self.least)
            and (self.most is None or value <= self.most)
            and (self.above is None or value > self.above)
            and value == value
        )

    @property
    def text(self) -> str:
        """The help text with the range."""
        return f"{self.help.removesuffix('.')} ({self.range})." if self.most is not None else self.help

    @property
    def range(self) -> str:
        """The range in words."""
        if self.most is None:
            return f"above {self.above:g}" if self.above is not None else f"at least {self.least:g}"
        start = f"above {self.above:g} and at most" if self.above is not None else f"from {self.least:g} to"
        return f"{start} {self.most:g}"


def option(default: T, help: str, **description: Any) -> T:
    """Return a dataclass field with this default and this description; see `Option`."""
    details = Option(help, **description)
    return field(default=default, metadata={"option": details, "help": help})


def declared(kind: type[Any]) -> dict[str, tuple[Field[Any], Option]]:
    """Return the options of a dataclass by their names; other fields are left out."""
    return {one.name: (one, one.metadata["option"]) for one in fields(kind) if "option" in one.metadata}


def type_of(kind: type[Any], name: str) -> Any:
    """Return the type of one field. Other fields of the dataclass may have types that are not imported."""
    owner = next(base for base in kind.__mro__ if name in vars(base).get("__annotations__", {}))
    written = owner.__annotations__[name]
    return eval(written, vars(sys.modules[owner.__module__])) if isinstance(written, str) else written


def check_ranges(options: Any) -> None:
    """Raise a UsageError that names the first option that lies outside its range."""
    for complaint in complaints(options):
        raise UsageError(complaint)


def complaints(options: Any) -> Iterator[str]:
    for name, (_, details) in declared(type(options)).items():
        value = getattr(options, name)
        if isinstance(value, int | float) and not isinstance(value, bool) and not details.allows(value):
            yield f"{name.replace('_', '-')} is {value}; it must be {details.range}"
