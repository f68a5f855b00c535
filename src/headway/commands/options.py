"""What was given on the command line, as the user typed it."""

from __future__ import annotations

from collections.abc import Mapping


def typed(given: Mapping[str, object]) -> str:
    """The options that have a value, by the names of their parameters: "--top-p, --seed"; nothing where none has."""
    return ", ".join(f"--{name.replace('_', '-')}" for name, value in given.items() if value)
