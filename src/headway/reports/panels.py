"""Panels of training curves: which quantities are drawn together, independent of the output format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headway.reports.history import Curve, History

MOST = 400  # most points of a line; a screen cannot resolve more
TITLES = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER", "lr": "learning rate", "tokens_per_second": "tokens/s"}

LOSS = "nll"  # the loss without label smoothing, as on the dev set; "loss" is drawn if it is missing
RATE, SPEED = "learning rate", "training speed (tokens/s)"
FROM_ZERO = (RATE, SPEED)  # their axes begin at zero, so that noise is not magnified


@dataclass(frozen=True)
class Line:
    """One curve with the indices of its colour and dash pattern; `dotted` curves mark their points."""

    name: str
    curve: Curve
    colour: int
    dash: int
    dotted: bool


@dataclass(frozen=True)
class Panel:
    """Curves that share a y axis, and the range of this axis."""

    title: str
    lines: tuple[Line, ...]
    low: float
    high: float


def panels(histories: Sequence[History]) -> list[Panel]:
    """Return panels of loss, scores, learning rate and speed of one or several runs, without empty ones."""
    scores = list(dict.fromkeys(key for one in histories for key in one.dev if key != "loss"))
    wanted = {
        "loss per token (nats)": [("train", LOSS), ("dev", "loss")],
        "scores on the dev set": [("dev", key) for key in scores],
        RATE: [("train", "lr")],
        SPEED: [("train", "tokens_per_second")],
    }
    lines = {title: _lines(histories, series) for title, series in wanted.items()}
    return [Panel(title, tuple(drawn), *_heights(drawn, title)) for title, drawn in lines.items() if drawn]


def _heights(lines: Sequence[Line], title: str) -> tuple[float, float]:
    """Return the range of the y axis: from zero, unless a loss or score varies little."""
    values = [value for line in lines for value in line.curve.values]
    low, high = min(values), max(values)
    flat = low > 0.6 * high and title not in FROM_ZERO
    return (low, high) if flat or low < 0 else (0.0, high)


def _lines(histories: Sequence[History], series: list[tuple[str, str]]) -> list[Line]:
    """Return the lines of a panel. With one run, colours are series; else colours are runs and dashes are series."""
    lines = []
    for r, history in enumerate(histories):
        for s, (side, key) in enumerate(series):
            curve = _curve(history, side, key)
            if curve is not None:
                colour, dash = (s, 0) if len(histories) == 1 else (r, s)
                name = _name(history.name, side, key, len(histories), len(series))
                lines.append(Line(name, curve.thinned(MOST), colour, dash, side == "dev"))
    return lines


def _curve(history: History, side: str, key: str) -> Curve | None:
    curves = history.dev if side == "dev" else history.train
    return curves.get(key) or curves.get("loss" if key == LOSS else key)


def _name(run: str, side: str, key: str, runs: int, series: int) -> str:
    what = side if key in ("loss", LOSS) else TITLES.get(key, key)
    words = [run] * (runs > 1) + [what] * (series > 1 or runs == 1)
    return ", ".join(words)
