"""What people see while a model trains: the same facts in every form, and never a reason to stop."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from headway.tasks.run import Run
from headway.training import console as views
from headway.training.console import Careful, Clock, Forgiving, Lines, Silence, duration, plain, plan_rows, view
from headway.training.events import Ended, Event, Noted, Planned, Saved, Stepped, Validated
from headway.training.live_console import Screen, shorten, sparkline

PLAN = {
    "pairs": 29_000, "dropped": {"empty": 3}, "source_pieces": 400_000, "target_pieces": 410_000, "validation": 1014,
    "vocabulary": [8000, 8000], "parameters": 7_600_000, "device": "cpu", "precision": "bf16",
    "tokens_per_batch": 4096, "steps": 200, "seconds_per_step": 0.5, "colour": "blue",
}  # fmt: skip
STEP = Stepped(50, 200, 3.25, 3.0, 1e-3, 0.7, 4096, 8123.4, 0.41, 25.0)
ODD = [
    "A dog runs.", "我爱机器学习" * 30, "الكلب يركض", "\x1b[2J\x1b[31mred", "a\tb\r\nc", "\u202eright to left",
    "می‌خواهم", "👩‍👩‍👧 e\u0301", "\ud800", "[bold]not markup[/bold] [/]", "", "x" * 5000,
]  # fmt: skip


def story(text: str) -> Iterator[Event]:
    yield Planned(0, 200, PLAN)
    for step in range(50, 201, 50):
        yield replace(STEP, step=step, loss=200 / step, skipped=step // 150)
        sample = {"source": text, "reference": text[::-1], "output": text[: step // 20]}
        yield Validated(step, {"loss": 3 - step / 100, "bleu": step / 10}, sample, best=True)
        yield Saved(step, f"state/step-{step}")
    yield Noted(200, text)
    yield Ended(200, "done", {"loss": 1.0})


def recorded(width: int, height: int = 40, encoding: str = "utf-8") -> Console:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict", write_through=True)
    return Console(file=Forgiving(stream), force_terminal=True, width=width, height=height, color_system="truecolor")


def written(console: Console) -> str:
    return console.file.buffer.getvalue().decode(console.file.encoding)


def drawn(screen: Screen) -> str:
    """The picture as it stands, without colours."""
    console = Console(width=screen.console.width, record=True, file=io.StringIO(), force_terminal=True)
    console.print(screen)
    return console.export_text()


def watched(console: Console, events: Iterator[Event]) -> Screen:
    with Screen(console, Path("en-de")) as screen:
        screen.preparing(Run())
        assert "cannot draw" not in drawn(screen)
        for event in events:
            screen(event)
            screen.live.refresh()
            assert "cannot draw" not in drawn(screen)
    return screen


# ---------------------------------------------------------------- the screen


@pytest.mark.parametrize("width", [1, 2, 5, 10, 20, 40, 59, 60, 80, 200])
def test_any_width_is_wide_enough(width: int) -> None:
    screen = watched(recorded(width), story("A dog runs through the park with a ball."))
    lines = drawn(screen).splitlines()
    assert max(cell_len(line) for line in lines) <= width


@pytest.mark.parametrize("text", ODD)
def test_odd_text_is_shown_and_does_nothing(text: str) -> None:
    console = recorded(80)
    screen = watched(console, story(text))
    shown = drawn(screen)
    assert text == "" or plain(text)[:8] in shown
    assert "\x1b[2J" not in written(console)
    assert "\u202e" not in shown


@given(st.text(max_size=80))
def test_any_text_is_one_harmless_line(text: str) -> None:
    line = plain(text)
    assert len(line) == len(text)
    assert all(sign.isprintable() or sign in views.JOINERS for sign in line)
    line.encode("utf-8")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_unicode(encoding: str) -> None:
    console = recorded(80, encoding=encoding)
    watched(console, story("我爱机器学习 " * 10))
    assert "bleu" in written(console)


def test_the_screen_tells_what_happened() -> None:
    console = recorded(100)
    screen = watched(console, story("A dog runs."))
    shown = drawn(screen)
    for wanted in ("100 %", "step 200 of 200", "loss 1.000", "8,123 tokens/s", "rate 1.0e-03", "bleu", "20.000"):
        assert wanted in shown
    for wanted in ("source", "reference", "at 100", "A dog runs.", "note: A dog", "done at step 200"):
        assert wanted in shown
    for wanted in ("en-de", "29,000 pairs", "3 empty", "7,600,000 parameters", "30.4 MB", "0:01:40", "colour", "blue"):
        assert wanted in written(console)


def test_before_the_plan_there_is_a_clock_and_after_a_failure_nothing_is_left() -> None:
    console = recorded(80)
    with pytest.raises(RuntimeError), Screen(console, Path("x")) as screen:
        screen.preparing(Run())
        assert "preparing the text, 0:00:0" in drawn(screen)
        raise RuntimeError
    assert screen.live.transient


def test_outputs_are_listed_when_they_change() -> None:
    texts = ["a", "a", "b", "b", "b", "c"]
    sample = {"source": "s", "reference": "c"}
    events = (Validated(n, {"loss": 1.0}, sample | {"output": text}, True) for n, text in enumerate(texts))
    screen = watched(recorded(80), (event for event in (Planned(0, 9, {}), *events)))
    assert screen.outputs == [(0, "a"), (2, "b"), (5, "c")]


def test_a_drawing_that_fails_says_so_and_goes_on() -> None:
    screen = Screen(recorded(80), Path("x"))
    screen.clock.began = "nonsense"  # pyright: ignore[reportAttributeAccessIssue]
    screen.last = "nonsense"  # pyright: ignore[reportAttributeAccessIssue]
    assert "cannot draw this" in drawn(screen)


def test_small_curves() -> None:
    assert sparkline([], 5) == ""
    assert sparkline([1.0], 5) == "▁"
    assert sparkline([1.0, 2.0], 5) == "▁█"
    assert sparkline([1.0, float("nan"), 2.0], 5) == "▁ █"
    assert sparkline([float("inf")], 5) == ""
    assert len(sparkline([float(n) for n in range(1000)], 24)) <= 24


@given(st.text(max_size=60), st.integers(8, 40))
def test_a_shortened_text_fits(text: str, room: int) -> None:
    line = plain(text)
    assert cell_len(shorten(line, room)) <= room
    assert shorten(line, 200) == line


# ---------------------------------------------------------------- lines


def spoken(events: Iterator[Event]) -> list[str]:
    said: list[str] = []
    lines = Lines(said.append)
    lines.preparing(Run())
    for event in events:
        lines(event)
    return said


def test_lines_tell_everything_in_order() -> None:
    said = spoken(story("A dog runs."))
    steps = [line for line in said if line.startswith("step ")]
    assert len(steps) == 4
    assert steps[0].startswith("step 50/200 loss 4.0000 lr 1.00e-03 8,123 tokens/s epoch 0.41 left 0:")
    assert "validation at 50: loss 2.500 bleu 5.000" in said
    assert "saved state/step-100" in said
    assert said[-1] == "ended at step 200: done"


@pytest.mark.parametrize("text", ODD)
def test_an_event_never_breaks_a_line(text: str) -> None:
    assert all(line.count("\n") == 0 and "\x1b" not in line for line in spoken(story(text)))


def test_a_plan_without_facts_is_short() -> None:
    assert plan_rows(Planned(0, 10, {}), None) == [("training", "10 steps")]


def test_a_plan_that_goes_on_says_from_where() -> None:
    rows = dict(plan_rows(Planned(120, 200, PLAN), Run()))
    assert rows["time"] == "80 steps to go from step 120, about 0:00:40 (500 ms a step)"
    assert "-" not in dict(plan_rows(Planned(120, 100, PLAN), Run()))["time"]
    assert rows["measured"].startswith("loss of 1,014 pairs kept apart; 500 of them translated greedily")


# ---------------------------------------------------------------- time


def test_time_left_follows_the_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, time = Clock(), [100.0]
    monkeypatch.setattr(views, "now", lambda: time[0])
    clock.see(Planned(20, 120, {}))
    assert clock.left is None
    time[0] = 130.0
    clock.see(replace(STEP, step=50, total=120))
    assert clock.left == pytest.approx(70.0)  # 30 steps took 30 seconds, 70 are left
    time[0] = 140.0
    assert clock.left == pytest.approx(60.0)
    time[0] = 999.0
    assert clock.left == 0.0
    assert duration(3_725.0) == "1:02:05"


# ---------------------------------------------------------------- choosing, and what may go wrong


def test_other_ranks_are_silent(capsys: pytest.CaptureFixture[str]) -> None:
    with view(False, Path("x")) as show:
        show.preparing(Run())
        for event in story("text"):
            show(event)
    assert capsys.readouterr() == ("", "")


def test_a_pipe_gets_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with view(True, Path("x")) as show:
        show.preparing(Run())
        for event in story("text"):
            show(event)
    said = capsys.readouterr().err
    assert "step 50/200" in said
    assert "\x1b" not in said


def test_a_terminal_gets_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm-256color")
    with view(True, Path("x")) as show:
        show.preparing(Run())
        for event in story("text"):
            show(event)
    assert "━" in terminal.getvalue()


def test_a_stream_that_breaks_is_forgiven() -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

        def flush(self) -> None:
            raise OSError(5, "input/output error")

    stream = Forgiving(Gone())
    assert stream.write("x") == 0
    stream.flush()
    watched(Console(file=stream, force_terminal=True, width=80), story("x"))  # pyright: ignore[reportArgumentType]


def test_a_view_that_fails_falls_silent(capsys: pytest.CaptureFixture[str]) -> None:
    class Clumsy(Silence):
        def __call__(self, event: Event) -> Any:
            raise ZeroDivisionError("oops")

    show = Careful(Clumsy())
    for event in story("x"):
        show(event)
    assert capsys.readouterr().err.count("oops") == 1
