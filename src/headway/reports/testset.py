"""Test sets and the outputs of systems, read from files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.data.formats import lines
from headway.data.languages import ending
from headway.errors import UsageError


@dataclass(frozen=True)
class TestSet:
    """References and, if known, their sources and language."""

    __test__ = False  # pytest would collect a class of this name

    references: tuple[str, ...]
    sources: tuple[str, ...] | None = None
    language: str = ""


@dataclass(frozen=True)
class Outputs:
    """The outputs of one system and, if known, its confidence in each: the mean probability of a token."""

    name: str
    texts: tuple[str, ...]
    confidences: tuple[float | None, ...] | None = None
    seconds: float | None = None  # time of decoding


def read_lines(path: Path) -> tuple[str, ...]:
    """Return all lines of a UTF-8 file; UsageError for an unreadable line, as the lines of two files must match."""
    found = []
    for line in lines(path, "skip"):
        if line.text is None:
            raise UsageError(
                f"{path}:{line.number}: {line.problem}; every line must be valid UTF-8, as lines are paired"
            )
        found.append(line.text)
    return tuple(found)


def read_test_set(reference: Path, source: Path | None, language: str, limit: int | None) -> TestSet:
    """Read a test set: references, sources if there is a file of them, at most `limit` sentences."""
    if limit is not None and limit < 1:
        raise UsageError(f"--limit {limit}: must be at least 1")
    references = read_lines(reference)
    if source is None:
        return TestSet(references[:limit], None, language)
    sources = read_lines(source)
    check_counts(source, len(sources), reference, len(references))
    return TestSet(references[:limit], sources[:limit], language)


def read_outputs(path: Path, reference: Path, test: TestSet, limit: int | None) -> Outputs:
    """Read a file of outputs. It must have as many lines as the references; with a limit, it may have more."""
    texts = read_lines(path)
    if limit is None or len(texts) < len(test.references):
        check_counts(path, len(texts), reference, len(test.references))
    return Outputs(str(path), texts[: len(test.references)])


def check_counts(first: Path, firsts: int, second: Path, seconds: int) -> None:
    """Raise UsageError if two files that belong together have different numbers of lines."""
    if firsts != seconds:
        raise UsageError(
            f"{first} has {firsts:,} lines but {second} has {seconds:,}; "
            "line n of one must belong to line n of the other"
        )


def language_of(path: Path) -> str:
    """Return the language that the ending of a file names: de for test.de and test.de.gz; empty if it names none."""
    return ending(path.name)


def mean(values: Sequence[float]) -> float | None:
    """Return the mean, or None if there are no values."""
    return sum(values) / len(values) if values else None
