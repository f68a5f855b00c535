"""A whole text through a translator: in order, in bounded memory, and on again after a kill."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from headway.data.formats import count_lines
from headway.data.formats import lines as read_lines
from headway.errors import UsageError
from headway.storage.files import disk_trouble
from headway.tasks.translation.result import Translation
from headway.tasks.translation.translator import WINDOW, Translator
from headway.training.console import fit_for

LONGEST_LINE = 1 << 20  # bytes of one input line


@dataclass(frozen=True)
class Columns:
    """What is written for each line."""

    n_best: int = 1
    scores: bool = False
    alignments: bool = False
    confidence: float = 0.0

    def rows(self, number: int, translation: Translation) -> Iterator[str]:
        if self.n_best == 1:
            yield self.row(translation)
            return
        for one in (translation, *translation.alternatives):
            yield f"{number}\t{self.row(one)}\t{one.score:.4f}"

    def row(self, translation: Translation) -> str:
        sure = translation.confidence >= self.confidence
        cells = [" ".join(translation.text.splitlines()) if sure else ""]
        if self.scores and self.n_best == 1:
            cells.append(f"{translation.score:.4f}")
        if self.alignments:
            cells.append(" ".join(f"{a}-{b}" for a, b in translation.alignment))
        return "\t".join(cells)


@dataclass(frozen=True)
class Files:
    """Where text comes from and goes to; None is standard input or output."""

    input: Path | None
    output: Path | None
    resume: bool

    def __post_init__(self) -> None:
        if self.resume and (self.input is None or self.output is None):
            raise UsageError("--resume needs --input and --output: standard input cannot be read twice")
        if self.output is not None and self.output.exists() and not self.resume:
            raise UsageError(f"{self.output} exists; add --resume to go on with it, or remove it")
        if self.output is not None and self.output.is_dir():
            raise UsageError(f"{self.output} is a folder; name a file")

    def lines(self) -> Iterator[str]:
        if self.input is not None:
            for line in read_lines(self.input, "error", LONGEST_LINE):
                yield line.text or ""
            return
        yield from standard_input()

    def total(self) -> int | None:
        return None if self.input is None else count_lines(self.input)


def standard_input() -> Iterator[str]:
    for number, line in enumerate(sys.stdin.buffer, start=1):
        if len(line) > LONGEST_LINE:
            raise UsageError(f"standard input, line {number}: longer than {LONGEST_LINE} bytes; cut it into sentences")
        try:
            yield line.rstrip(b"\n").removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            raise UsageError(f"standard input, line {number}: not UTF-8 at byte {error.start}") from None


def translate_lines(translator: Translator, files: Files, manner: dict[str, Any], columns: Columns) -> str:
    """Translate everything; a sentence about what a person should know, or nothing."""
    unsure = runaway = lacking = done = 0
    with ExitStack() as stack:
        window_size = translator.window if files.input else min(translator.window, WINDOW["cpu"])  # a pipe waits for us
        out, done = opened(files, columns, window_size, stack)
        source = islice(files.lines(), done, None)
        progress = stack.enter_context(shown(files.total(), done))
        while window := list(islice(source, window_size)):
            for translation in translator.translate(window, **manner):
                unsure += translation.confidence < columns.confidence
                runaway += translation.looping or not translation.finished
                lacking += bool(translation.lost)
                rows = columns.rows(done, translation)
                write(out, "".join(row + "\n" for row in rows), files.output)
                done += 1
            progress(done)
    said = {
        f"{unsure} lines left empty (confidence below {columns.confidence:g})": unsure,
        f"{runaway} outputs ran away or loop": runaway,
        f"{lacking} outputs lack something that was to be kept": lacking,
    }
    return "; ".join(told for told, count in said.items() if count)


def write(out: BinaryIO, text: str, path: Path | None) -> None:
    with disk_trouble(path or Path("standard output"), len(text)):
        out.write(fit_for(out.isatty(), text).encode("utf-8", "replace"))


def opened(files: Files, columns: Columns, window: int, stack: ExitStack) -> tuple[BinaryIO, int]:
    """The output, and how many input lines are done already.

    Only whole windows count: lines are packed together within one, and in other company a score may differ in its
    last digit. What lies after them is written again.
    """
    if files.output is None:
        return sys.stdout.buffer, 0
    with disk_trouble(files.output, 0):
        out = stack.enter_context(files.output.open("r+b" if files.output.exists() else "w+b"))
        starts = line_starts(out, columns.n_best)
        done = (len(starts) - 1) // window * window
        out.truncate(starts[done])
        out.seek(starts[done])
    return out, done


def line_starts(out: BinaryIO, n_best: int) -> list[int]:
    """Where the rows of each input line begin, and where the next ones will. The last line may lack some rows."""
    starts: list[int] = []
    position, before = 0, -1
    for number, row in enumerate(out):
        if not row.endswith(b"\n"):
            break
        line = int(row.split(b"\t", 1)[0]) if n_best > 1 else number
        starts += [position] if line != before else []
        position, before = position + len(row), line
    return starts if n_best > 1 and starts else [*starts, position]


def shown(total: int | None, done: int, label: str = "translating"):  # noqa: ANN201
    """Progress with time left, where a person is looking."""
    from contextlib import nullcontext

    if total is None or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return nullcontext(lambda _: None)
    return bar(total, done, label)


class bar:  # noqa: N801
    """A progress bar on standard error."""

    def __init__(self, total: int, done: int, label: str) -> None:
        from rich.console import Console
        from rich.progress import Progress, TimeRemainingColumn

        columns = (*Progress.get_default_columns()[:-1], TimeRemainingColumn())
        self.progress = Progress(*columns, console=Console(stderr=True))
        self.task = self.progress.add_task(label, total=total, completed=done)

    def __enter__(self):  # noqa: ANN204
        self.progress.start()
        return lambda done: self.progress.update(self.task, completed=done)

    def __exit__(self, *error: object) -> None:
        self.progress.stop()
