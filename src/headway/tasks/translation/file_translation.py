"""A whole text through a translator: in order, in bounded memory, and on again after a kill."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from io import BufferedReader
from itertools import islice
from pathlib import Path

from headway.data.formats import Line, count_lines, lines_of
from headway.data.formats import lines as read_lines
from headway.errors import UsageError
from headway.storage.files import Writable, disk_trouble, write_all
from headway.tasks.decoding_options import DecodingOptions
from headway.tasks.translation.output_columns import OutputColumns
from headway.tasks.translation.translator import WINDOW, Translator
from headway.tasks.translation.unfinished import record_of
from headway.training.console import fit_for

LONGEST_LINE = 1 << 20  # bytes of one input line
TIME_CODE = re.compile(r"\d{1,3}:\d\d:\d\d[,.]\d{3}\s+-->\s")
STANDARD_INPUT, STANDARD_OUTPUT = Path("standard input"), Path("standard output")  # their names in messages


@dataclass(frozen=True)
class Files:
    """Where text comes from and goes to; None is standard input or output."""

    input: Path | None
    output: Path | None
    resume: bool

    def __post_init__(self) -> None:
        if self.output is None:
            return
        if os.path.isdir(self.output):
            raise UsageError(f"{self.output} is a folder; name a file")
        if self.input is not None and same_file(self.input, self.output):
            raise UsageError(f"{self.output} is the input itself; name another --output")
        if os.path.lexists(self.output) and not self.resume:
            goes_on = "is unfinished; `headway translate --resume` goes on with it; or"
            raise UsageError(
                f"{self.output} {goes_on if record_of(self.output).is_file() else 'exists;'} name another --output"
            )

    def lines(self) -> Iterator[str]:
        found = standard_input() if self.input is None else read_lines(self.input, "refuse", LONGEST_LINE)
        return (plain_text(line, self.input or STANDARD_INPUT) for line in found)

    def total(self) -> int | None:
        return None if self.input is None else count_lines(self.input)


def plain_text(line: Line, path: Path) -> str:
    """Return the text of a line. Time codes of subtitles are no text, and a translation would destroy them."""
    text = line.text or ""
    if TIME_CODE.match(text):
        raise UsageError(
            f"{path}:{line.number}: this is a time code of subtitles, not text; "
            "`headway serve` translates .srt files (POST /translate_file)"
        )
    return text


def same_file(one: Path, other: Path) -> bool:
    """Whether two names lead to the same file, by whatever spelling, link or mount."""
    return os.path.exists(one) and os.path.exists(other) and os.path.samefile(one, other)


def standard_input() -> Iterator[Line]:
    """Its lines, under the rules of a file's; nothing at all is no line."""
    stream = open(sys.stdin.fileno(), "rb", closefd=False)  # noqa: SIM115 (it is not ours to close)
    return lines_of(STANDARD_INPUT, stream, "refuse", LONGEST_LINE) if stream.peek(1) else iter(())


def translate_lines(
    translator: Translator, files: Files, options: DecodingOptions, columns: OutputColumns | None = None
) -> str:
    """Translate everything; a sentence about what a person should know, or nothing."""
    columns = columns or OutputColumns()
    unsure = runaway = lacking = done = 0
    with ExitStack() as stack:
        window_size = translator.window if files.input else min(translator.window, WINDOW["cpu"])  # a pipe waits for us
        out, done = opened(files, columns.numbered(options), window_size, stack)
        source = islice(files.lines(), done, None)
        progress = stack.enter_context(shown(files.total(), done))
        while window := list(islice(source, window_size)):
            for translation in translator.translate(window, options):
                unsure += translation.confidence < columns.confidence
                runaway += translation.looping or not translation.finished
                lacking += bool(translation.lost)
                rows = columns.rows(done, translation, options)
                write(out, "".join(row + "\n" for row in rows), files.output)
                done += 1
            secure(out, files.output)
            progress(done)
    said = {
        f"{unsure} lines left empty (confidence below {columns.confidence:g})": unsure,
        f"{runaway} outputs reached the length limit or repeat themselves": runaway,
        f"{lacking} outputs lack a span that --keep names": lacking,
    }
    return "; ".join(told for told, count in said.items() if count)


def write(out: Writable, text: str, path: Path | None) -> None:
    data = fit_for(out.isatty(), text).encode("utf-8", "replace")
    with disk_trouble(path or STANDARD_OUTPUT, len(data)):
        write_all(out, data)
        out.flush()


def secure(out: Writable, path: Path | None) -> None:
    """Bring what was written to a file to the disk itself."""
    if path is not None:
        with disk_trouble(path, 0):
            os.fsync(out.fileno())


def created(path: Path | None, stack: ExitStack) -> Writable:
    """A new file, or standard output. A file that is still empty when the work fails is removed."""
    if path is None:
        return sys.stdout.buffer

    def remove_if_empty(failure: type[BaseException] | None, *_: object) -> None:
        if failure is not None and path.stat().st_size == 0:
            path.unlink()

    with disk_trouble(path, 0):
        file = path.open("xb", buffering=0)
    stack.push(remove_if_empty)
    return stack.enter_context(file)


def opened(files: Files, numbered: bool, window: int, stack: ExitStack) -> tuple[Writable, int]:
    """The output, and how many input lines are done already.

    Only whole windows count: lines are packed together within one, and in other company a score may differ in its
    last digit. What lies after them is written again.
    """
    if files.output is None or not files.output.exists():
        return created(files.output, stack), 0
    with disk_trouble(files.output, 0):
        with files.output.open("rb") as written:
            starts = line_starts(written, numbered)
        done = (len(starts) - 1) // window * window
        out = stack.enter_context(files.output.open("r+b", buffering=0))
        out.truncate(starts[done])
        out.seek(starts[done])
    return out, done


def line_starts(out: BufferedReader, numbered: bool) -> list[int]:
    """Where the rows of each input line begin, and where the next ones will. The last line may lack some rows."""
    starts: list[int] = []
    position, before = 0, -1
    for number, row in enumerate(out):
        if not row.endswith(b"\n"):
            break
        line = int(row.split(b"\t", 1)[0]) if numbered else number
        starts += [position] if line != before else []
        position, before = position + len(row), line
    return starts if numbered and starts else [*starts, position]


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
