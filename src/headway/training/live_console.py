"""The live screen of a training run: the plan, a bar, curves, scores, and one sentence getting better."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.segment import Segment
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from headway.text.unicode import plain
from headway.training.console import Clock, Silence, duration, now, plan_rows, replanned
from headway.training.events import Ended, Event, Noted, Planned, Replanned, Stepped, Validated

BARS = "▁▂▃▄▅▆▇█"
TIMES_A_SECOND = 4
SHOWN_SCORES, SHOWN_OUTPUTS, SHOWN_NOTES = 6, 4, 3
CURVE = 24  # signs of a small curve
LINES_OF_TEXT = 2  # a long sentence is cut after so many lines
NARROW = 60  # columns below which curves and side remarks are left out


class Screen(Silence):
    """Remembers what was told and draws it a few times a second."""

    def __init__(self, console: Console, folder: Path) -> None:
        self.console, self.folder = console, folder
        self.clock, self.entered = Clock(), now()
        self.run: Any = None
        self.spinner = Spinner("line" if console.options.ascii_only else "dots")
        self.last: Stepped | None = None
        self.losses: list[float] = []
        self.validations: list[Validated] = []
        self.outputs: list[tuple[int, str]] = []
        self.notes: list[str] = []
        self.ended: Ended | None = None
        self.live = Live(self, console=console, refresh_per_second=TIMES_A_SECOND)

    def __enter__(self) -> Screen:
        self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.live.transient = self.clock.began is None  # nothing to leave behind
        try:
            self.live.stop()
        except Exception:  # a drawing that fails is no reason to lose what was trained
            return

    # ------------------------------------------------------------ what happens

    def preparing(self, run: Any) -> None:
        self.run = run

    def __call__(self, event: Event) -> None:
        self.clock.see(event)
        if isinstance(event, Planned):
            self.console.print(plan_table(event, self.run, self.folder), "")
        elif isinstance(event, Stepped):
            self.last = event
            self.losses.append(event.loss)
        elif isinstance(event, Validated):
            self.keep(event)
        elif isinstance(event, Replanned):
            self.notes.append(replanned(event).removeprefix("note: "))
        elif isinstance(event, Noted):
            self.notes.append(plain(event.text))
        elif isinstance(event, Ended):
            self.ended = event

    def keep(self, event: Validated) -> None:
        self.validations.append(event)
        output = plain(event.sample.get("output", ""))
        if event.sample and (not self.outputs or self.outputs[-1][1] != output):
            self.outputs.append((event.step, output))

    # ------------------------------------------------------------ drawing

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment | Text]:
        """Drawn whole or not at all: this runs in a thread of its own, where nobody would catch a fault."""
        try:
            yield from list(console.render(Group(*self.parts(options)), options))
        except Exception as error:
            yield Text(f"cannot draw this: {error!r}")

    def parts(self, options: ConsoleOptions) -> Iterator[Spinner | Table | Text]:
        wide = options.max_width >= NARROW
        curves = wide and not options.ascii_only
        if self.clock.began is None:
            self.spinner.update(text=Text(f" preparing the text, {duration(now() - self.entered)}"))
            yield self.spinner
            return
        yield self.bar(wide)
        if self.last is not None:
            yield self.numbers(self.last, curves)
        if self.validations:
            yield Text("")
            yield scores_table(self.validations, curves)
        if self.outputs:
            yield Text("")
            yield sample_table(self.validations[-1].sample, self.outputs, options.max_width)
        for note in self.notes[-SHOWN_NOTES:]:
            yield Text(f"note: {note}", style="yellow")
        if self.ended is not None:
            yield Text(f"{self.ended.reason} at step {self.ended.step:,} after {duration(self.clock.gone)}")

    def bar(self, wide: bool) -> Table:
        clock = self.clock
        row = Table.grid(padding=(0, 1), expand=True)
        row.add_column(ratio=1, min_width=4)
        row.add_column(no_wrap=True, overflow="ellipsis")
        share = 100 * clock.step / max(1, clock.total)
        words = [f"{share:3.0f} %"]
        words += [f"step {clock.step:,} of {clock.total:,}"] if wide else []
        words += [f"{duration(clock.left)} left" if clock.left is not None else "…"] if self.ended is None else []
        row.add_row(ProgressBar(total=max(1, clock.total), completed=clock.step), Text(" · ".join(words)))
        return row

    def numbers(self, last: Stepped, curves: bool) -> Text:
        text = Text(no_wrap=True, overflow="ellipsis")
        text.append("loss ").append(f"{last.loss:.3f} ", style="bold")
        if curves:
            text.append(sparkline(self.losses, CURVE) + " ", style="cyan")
        text.append(f"rate {last.lr:.1e}  {last.tokens_per_second:,.0f} tokens/s  epoch {last.epoch:.2f}")
        if last.skipped:
            text.append(f"  skipped {last.skipped}", style="yellow")
        return text


def plan_table(planned: Planned, run: Any, folder: Path) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.title, table.title_justify, table.title_style = Text(f"headway: {plain(str(folder))}"), "left", "bold"
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in plan_rows(planned, run):
        table.add_row(Text(name), Text(text))
    return table


def scores_table(validations: Sequence[Validated], curves: bool) -> Table:
    """The newest validations; the curve of each score runs over all of them."""
    names = list(validations[-1].scores)
    table = Table.grid(padding=(0, 2, 0, 0))
    for _ in ("step", *names):
        table.add_column(justify="right", no_wrap=True)
    table.add_row(Text("step", style="dim"), *(Text(name, style="dim") for name in names))
    for one in validations[-SHOWN_SCORES:]:
        style = "bold" if one.best else ""
        cells = (f"{one.scores[name]:.3f}" if name in one.scores else "" for name in names)
        table.add_row(*(Text(cell, style=style) for cell in (f"{one.step:,}", *cells)))
    if curves and len(validations) > 1:
        series = ([one.scores[name] for one in validations if name in one.scores] for name in names)
        table.add_row("", *(Text(sparkline(values, 10), style="cyan") for values in series))
    return table


def sample_table(sample: dict[str, str], outputs: Sequence[tuple[int, str]], width: int) -> Table:
    """Texts stand at the end of their lines, so that writing from right to left disturbs nothing."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    room = max(8, LINES_OF_TEXT * (width - 14))
    for name in ("source", "reference"):
        table.add_row(Text(name), Text(shorten(plain(sample.get(name, "")), room)))
    for step, output in outputs[-SHOWN_OUTPUTS:]:
        table.add_row(Text(f"at {step:,}"), Text(shorten(output, room), style="green"))
    return table


def shorten(text: str, room: int) -> str:
    return text if cell_len(text) <= room else set_cell_size(text, room - 1).rstrip() + "…"


def sparkline(values: Sequence[float], width: int) -> str:
    """A curve of so many signs, from the lowest to the highest value; what is no number is a gap."""
    size = -(-len(values) // width) if values else 1
    means = [sum(part) / len(part) for part in (values[i : i + size] for i in range(0, len(values), size))]
    finite = [value for value in means if abs(value) < float("inf")]
    if not finite:
        return ""
    low, spread = min(finite), (max(finite) - min(finite)) or 1.0
    return "".join(
        BARS[min(len(BARS) - 1, int((value - low) / spread * len(BARS)))] if abs(value) < float("inf") else " "
        for value in means
    )
