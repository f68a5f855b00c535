"""What people see while a model trains: a live screen on a terminal, lines elsewhere, silence on other ranks."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.text.unicode import plain
from headway.training.events import Ended, Event, Noted, Planned, Previewed, Replanned, Saved, Stepped, Validated
from headway.training.settings import LOSS_PAIRS

PREPARING = "reading the corpus, learning pieces and encoding (once; the next start finds them ready)"


class Silence:
    """Ranks that do not speak."""

    def preparing(self, run: Any) -> None:
        """Before the plan: reading, learning pieces, encoding."""

    def __call__(self, event: Event) -> None:
        """After every event."""


class Lines(Silence):
    """Plain lines, for files and pipes."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say, self.clock, self.run = say, Clock(), None

    def preparing(self, run: Any) -> None:
        self.run = run
        self.say(PREPARING)

    def __call__(self, event: Event) -> None:
        self.clock.see(event)
        tell = self.tellers().get(type(event))
        for line in tell(event) if tell else ():
            self.say(line)

    def tellers(self) -> dict[type[Event], Callable[[Any], list[str]]]:
        return {
            Planned: lambda e: ["plan", *(f"  {name:<12} {text}" for name, text in plan_rows(e, self.run))],
            Stepped: lambda e: [self.step_line(e)],
            Previewed: lambda e: [f"published step {e.step} early: {scores_text(e.scores)}", *sample_lines(e.sample)],
            Replanned: lambda e: [replanned(e)],
            Validated: lambda e: [f"validation at {e.step}: {scores_text(e.scores)}", *sample_lines(e.sample)],
            Saved: lambda e: [f"saved {e.path}"],
            Noted: lambda e: [f"note: {plain(e.text)}"],
            Ended: lambda e: [f"ended at step {e.step}: {e.reason}"],
        }

    def step_line(self, event: Stepped) -> str:
        parts = [f"step {event.step}/{event.total} loss {event.loss:.4f} lr {event.lr:.2e}"]
        parts += [f"{event.tokens_per_second:,.0f} tokens/s epoch {event.epoch:.2f}"]
        parts += [f"skipped {event.skipped}"] if event.skipped else []
        left = self.clock.left
        return " ".join(parts + ([f"left {duration(left)}"] if left is not None else []))


class Careful(Silence):
    """A view that fails falls silent: training goes on whatever happens to the screen."""

    def __init__(self, inner: Silence) -> None:
        self.inner = inner

    def preparing(self, run: Any) -> None:
        self.try_to(lambda: self.inner.preparing(run))

    def __call__(self, event: Event) -> None:
        self.try_to(lambda: self.inner(event))

    def try_to(self, show: Callable[[], None]) -> None:
        try:
            show()
        except Exception as error:
            self.inner = Silence()
            Forgiving(sys.stderr).write(f"the view failed and is silent now ({error!r}); metrics.jsonl has it all\n")


class Forgiving:
    """A stream that may vanish: a closed terminal or a broken pipe must not end a night of training."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        try:
            return self.stream.write(text)
        except UnicodeEncodeError:
            return self.write(text.encode("ascii", "backslashreplace").decode("ascii"))
        except (OSError, ValueError):
            return 0

    def flush(self) -> None:
        try:
            self.stream.flush()
        except (OSError, ValueError):
            return

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def view(speaks: bool, folder: Path) -> Iterator[Silence]:
    """A live view on a terminal, lines elsewhere, silence on other ranks."""
    if not speaks:
        yield Silence()
        return
    from rich.console import Console

    stream = Forgiving(sys.stderr)
    console = Console(file=stream, highlight=False)  # pyright: ignore[reportArgumentType]
    if not console.is_interactive:
        yield Careful(Lines(lambda text: print(text, file=stream, flush=True)))  # pyright: ignore[reportArgumentType]
        return
    from headway.training.live_console import Screen

    with Screen(console, folder) as screen:
        yield Careful(screen)


# ---------------------------------------------------------------- time


@dataclass
class Clock:
    """When the work began, and how long it will still take if it goes on at this pace."""

    step: int = 0
    total: int = 0
    began: tuple[int, float] | None = None  # step and time at the plan
    seen: float = 0.0  # time of the last step that was told

    def see(self, event: Event) -> None:
        if isinstance(event, Planned):
            self.began, self.step, self.total, self.seen = (event.step, now()), event.step, event.total, now()
        if isinstance(event, Replanned):
            self.total = event.total
        if isinstance(event, Stepped):
            self.step, self.total, self.seen = event.step, event.total, now()
        if isinstance(event, Ended):
            self.step = event.step

    @property
    def gone(self) -> float:
        return now() - self.began[1] if self.began else 0.0

    @property
    def left(self) -> float | None:
        """Seconds; None until the first steps are done."""
        if self.began is None or self.step <= self.began[0]:
            return None
        pace = (self.seen - self.began[1]) / (self.step - self.began[0])
        return max(0.0, pace * (self.total - self.step) - (now() - self.seen))


def now() -> float:
    return time.monotonic()


def duration(seconds: float) -> str:
    minutes, second = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{second:02}"


# ---------------------------------------------------------------- words


def plan_rows(planned: Planned, run: Any) -> list[tuple[str, str]]:
    """The plan in words: what is known is put together, what is not is told as it is."""
    facts = dict(planned.plan)
    take = facts.pop
    rows = [
        ("corpus", join_words([count(take("pairs", None), "pairs"), dropped(take("dropped", None))])),
        ("pieces", pieces(take("source_pieces", None), take("target_pieces", None), take("vocabulary", None))),
        ("model", model_size(take("parameters", None))),
        ("machine", join_words([text_of(take("device", "")), text_of(take("precision", ""))])),
        ("training", join_words([count(take("steps", planned.total), "steps"), batch(take("tokens_per_batch", None))])),
        ("time", join_words([budget(take("minutes", None)), estimate(planned, take("seconds_per_step", None))])),
        ("measured", measured(take("validation", None), run, take("validation_sentences", None))),
        ("validation", every(take("validate_every", None), take("seconds_per_validation", None))),
    ]
    return [*((name, text) for name, text in rows if text), *((name, text_of(fact)) for name, fact in facts.items())]


def replanned(event: Replanned) -> str:
    """Why the number of steps has changed."""
    pace = "slower" if event.total < event.before else "faster"
    return f"note: the machine is {pace} than expected: {event.total:,} steps instead of {event.before:,} fit"


def count(number: Any, what: str) -> str:
    return f"{number:,} {what}" if isinstance(number, int) else ""


def dropped(reasons: Any) -> str:
    if not isinstance(reasons, dict) or not reasons:
        return ""
    return "left out " + ", ".join(f"{number:,} {reason}" for reason, number in reasons.items())


def pieces(source: Any, target: Any, vocabulary: Any) -> str:
    read = f"{source:,} to read, {target:,} to write" if isinstance(source, int) and isinstance(target, int) else ""
    sizes = " and ".join(f"{size:,}" for size in vocabulary) if isinstance(vocabulary, list) else ""
    return join_words([read, f"vocabularies of {sizes}" if sizes else ""])


def model_size(parameters: Any) -> str:
    return f"{parameters:,} parameters, {parameters * 4 / 1e6:,.1f} MB" if isinstance(parameters, int) else ""


def batch(tokens: Any) -> str:
    return f"{tokens:,} tokens at a time" if isinstance(tokens, int) else ""


def budget(minutes: Any) -> str:
    return f"{minutes:g} minutes in all" if isinstance(minutes, float | int) else ""


def every(steps: Any, seconds: Any) -> str:
    about = f"at most {seconds:,.1f} s each" if isinstance(seconds, float) else ""
    return join_words([f"every {steps:,} steps", about]) if isinstance(steps, int) else ""


def estimate(planned: Planned, pace: Any) -> str:
    steps = max(0, planned.total - planned.step)
    to_go = f"{steps:,} steps to go from step {planned.step:,}" if planned.step else ""
    about = f"about {duration(pace * steps)} ({pace * 1000:,.0f} ms a step)" if isinstance(pace, float) else ""
    return join_words([to_go, about])


def measured(pairs: Any, run: Any, sentences: Any) -> str:
    """On what, and how."""
    if not isinstance(pairs, int):
        return ""
    if not pairs:
        return "nothing: no pairs are held out"
    training = getattr(run, "training", None)
    some = min(pairs, sentences if isinstance(sentences, int) else getattr(training, "validation_sentences", pairs))
    beam = getattr(training, "validation_beam", 1)
    how = f"beam {beam}" if beam > 1 else "greedily"
    return f"loss of {min(pairs, LOSS_PAIRS * some):,} pairs kept apart; {some:,} of them translated {how} for scores"


def join_words(parts: list[str]) -> str:
    return ", ".join(part for part in parts if part)


def text_of(value: object) -> str:
    return plain(f"{value:,}" if isinstance(value, int) else str(value))


def scores_text(scores: dict[str, float]) -> str:
    return " ".join(f"{name} {value:.3f}" for name, value in scores.items())


def sample_lines(sample: dict[str, str]) -> list[str]:
    return [f"  {name:<9} {plain(text)}" for name, text in sample.items()]


def fit_for(terminal: bool, text: str) -> str:
    """The text as it is for a file or a pipe; for a terminal without control characters, as a model may be hostile."""
    return plain(text, keep="\n\t") if terminal else text
