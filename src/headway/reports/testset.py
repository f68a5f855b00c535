"""Sentences with their references, and what a system made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.data.formats import lines
from headway.data.languages import ending
from headway.errors import UsageError


@dataclass(frozen=True)
class TestSet:
    """References, their language, and the sources where they are known."""

    __test__ = False  # pytest takes the name for a test

    references: tuple[str, ...]
    sources: tuple[str, ...] | None = None
    language: str = ""


@dataclass(frozen=True)
class Outputs:
    """What one system said, and how sure it was of each sentence (a probability per piece) if it told."""

    name: str
    texts: tuple[str, ...]
    confidences: tuple[float | None, ...] | None = None
    seconds: float | None = None


def read_lines(path: Path) -> tuple[str, ...]:
    """All lines of a UTF-8 file; one that cannot be read is an error, for then nothing pairs up."""
    found = []
    for line in lines(path, "skip"):
        if line.text is None:
            raise UsageError(f"{path}:{line.number}: {line.problem}; every line is needed, as UTF-8")
        found.append(line.text)
    return tuple(found)


def read_test_set(reference: Path, source: Path | None, language: str, limit: int | None) -> TestSet:
    """The test set of two files, or of one when only outputs are scored."""
    if limit is not None and limit < 1:
        raise UsageError(f"--limit {limit}: at least one sentence is needed")
    references = read_lines(reference)
    if source is None:
        return TestSet(references[:limit], None, language)
    sources = read_lines(source)
    check_counts(source, len(sources), reference, len(references))
    return TestSet(references[:limit], sources[:limit], language)


def read_outputs(path: Path, reference: Path, test: TestSet, limit: int | None) -> Outputs:
    """A file of outputs, as long as the file of references; with a limit, it may be longer or just so long."""
    texts = read_lines(path)
    if limit is None or len(texts) < len(test.references):
        check_counts(path, len(texts), reference, len(test.references))
    return Outputs(str(path), texts[: len(test.references)])


def check_counts(first: Path, firsts: int, second: Path, seconds: int) -> None:
    if firsts != seconds:
        raise UsageError(
            f"{first} has {firsts:,} lines but {second} has {seconds:,}; "
            "line n of one must belong to line n of the other"
        )


def language_of(path: Path) -> str:
    """Return the language that the ending of a file names: de for test.de and test.de.gz; empty if it names none."""
    return ending(path.name)


def mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
