"""Check a parallel corpus for faults that would silently harm training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from headway.data.checks.alignment import Alignment
from headway.data.checks.base import Check, Example, Finding
from headway.data.checks.blocks import Blocks, one_file, two_files
from headway.data.checks.characters import OddCharacters, RareCharacters, Scripts, Unreadable
from headway.data.checks.copies import Duplicates, Leaks, Untranslated
from headway.data.checks.languages import Languages, Voice, named
from headway.data.checks.lengths import Blanks, Lengths
from headway.data.checks.markup import Style, traces
from headway.data.formats import NO_NAMES, Invalid, Names, count_lines
from headway.errors import RefusedError

__all__ = ["Diagnosis", "Example", "Finding", "examine"]

Paths = tuple[Path, Path]
ORDER = ("fatal", "warning", "note")
REACH, QUICK_REACH = 8, 2  # number of lines before and after in which a translation is searched


@dataclass(frozen=True)
class Diagnosis:
    """All findings of a corpus, the most severe first."""

    source: str
    target: str
    lines: tuple[int, int]
    findings: tuple[Finding, ...]

    @property
    def fatal(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity == "fatal")

    def refuse_if_fatal(self) -> None:
        """Raise RefusedError with the first fatal finding, if there is one."""
        for finding in self.fatal[:1]:
            more = f" (and {len(self.fatal) - 1} more)" if len(self.fatal) > 1 else ""
            raise RefusedError(f"{self.source}: not fit for training: {finding.title}{more}; {finding.advice}")

    def to_json(self) -> dict[str, Any]:
        findings = [asdict(f) | {"examples": [e._asdict() for e in f.examples]} for f in self.findings]
        return asdict(self) | {"findings": findings, "fit": not self.fatal}


def ignore(_: int) -> None:
    """Show no progress."""


def examine(
    source: Path,
    target: Path | None = None,
    test: Paths | None = None,
    dev: Paths | None = None,
    quick: bool = False,
    names: Names = NO_NAMES,
    invalid: Invalid = "error",
    progress: Callable[[int], None] = ignore,
) -> Diagnosis:
    """Return the findings of all checks on a corpus of two files or one; `quick` runs only the fast checks.

    Unreadable lines are fatal unless `invalid` tells training to skip or replace them.
    """
    others = {name: paths for name, paths in (("dev", dev), ("test", test)) if paths}
    if target is None:
        corpus, difference = partial(one_file, source, names), 0
    else:
        corpus, difference = partial(two_files, source, target), count_lines(target) - count_lines(source)
    voices = _voices(source, target, names)
    checks = [
        Unreadable([source] if target is None else [source, target], invalid),
        Alignment(corpus, difference, QUICK_REACH if quick else REACH, _one_language(names, voices)),
        Languages(*voices, others),
        Untranslated(target is not None and source.samefile(target)),
        *_line_checks(quick),
        *(Leaks(name, *paths) for name, paths in others.items()),
    ]
    lines = _read(corpus, checks, progress)
    found = [finding for check in checks for finding in check.findings()]
    found.sort(key=lambda finding: ORDER.index(finding.severity))
    return Diagnosis(voices[0].name, voices[1].name, lines, tuple(found))


def _one_language(names: Names, voices: tuple[Voice, Voice]) -> bool:
    """Return whether both sides are in one language, as for paraphrases, by settings or names of the files."""
    ours, theirs = (said or voice.language for said, voice in zip(names[2:], voices, strict=True))
    return bool(ours) and ours == theirs


def _read(corpus: Blocks, checks: list[Check], progress: Callable[[int], None]) -> tuple[int, int]:
    sources = targets = 0
    for block in corpus():
        sources, targets = sources + len(block.source), targets + len(block.target)
        for check in checks:
            check.look(block)
        progress(sources)
    return sources, targets


def _line_checks(quick: bool) -> Iterator[Check]:
    yield from (Blanks(), Lengths(), OddCharacters(), Scripts(), *traces())
    if not quick:
        yield from (Style(), Duplicates(), RareCharacters())


def _voices(source: Path, target: Path | None, names: Names) -> tuple[Voice, Voice]:
    """Return name and expected language of each side, by the settings or the names of the files."""
    if target is None:
        ours, theirs = names.source_language or None, names.target_language or None
        return Voice(f"{source} (source)", ours), Voice(f"{source} (target)", theirs)
    return Voice(str(source), named(source)), Voice(str(target), named(target))
