"""Training curves and attention, from made-up runs: read rightly, drawn to files, harmless pages."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from headway.commands.plot import plot
from headway.errors import UsageError
from headway.reports.charts import bar_chart, histogram, short, ticks
from headway.reports.history import Curve, read_history
from headway.reports.panels import panels
from headway.reports.plots import attention_grid, attention_picture


def event(kind: str, step: int, time: float, **fields: Any) -> str:
    return json.dumps({"event": kind, "step": step, "time": time, **fields}) + "\n"


def write_run(folder: Path, steps: int = 30, torn: bool = True) -> Path:
    """A run of one step a second, validated every ten steps; its last line is half written."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [event("plan", 0, 1000.0)]
    for step in range(1, steps + 1):
        facts = {"loss": 5 / step + 1, "nll": 5 / step, "lr": 1e-4 * step, "tokens_per_second": 9000.0 + step}
        lines.append(event("step", step, 1000.0 + step, **facts))
        if step % 10 == 0:
            sample = {"source": "a", "reference": "b", "output": "c"}
            lines.append(
                event("validate", step, 1000.0 + step, loss=4 / step, bleu=1.0 * step, chrf=2.0 * step, sample=sample)
            )
    (folder / "metrics.jsonl").write_text("".join(lines) + '{"event": "step", "st' * torn)
    return folder


def run(*arguments: str) -> str:
    app = typer.Typer()
    app.command()(plot)
    result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def is_png(path: Path) -> bool:
    return path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n") and path.stat().st_size > 5000


# ---------------------------------------------------------------- reading


def test_curves_are_read_whatever_the_last_line(tmp_path: Path) -> None:
    history = read_history(write_run(tmp_path / "en-de"))
    assert history.name == "en-de"
    assert history.train["loss"].steps == [float(step) for step in range(1, 31)]
    assert history.train["loss"].minutes == pytest.approx([step / 60 for step in range(1, 31)])
    assert history.dev["bleu"].values == [10.0, 20.0, 30.0]
    assert set(history.dev) == {"loss", "bleu", "chrf"}


def test_a_run_that_was_killed_and_went_on_is_one_line(tmp_path: Path) -> None:
    first = [event("plan", 0, 0.0)] + [event("step", step, 60.0 * step, loss=1.0) for step in (1, 2, 3)]
    torn = '{"event": "step", "step": 4, "ti\n'
    again = [event("plan", 1, 9999.0)] + [event("step", step, 9999.0 + 60 * step, loss=2.0) for step in (2, 3, 4)]
    (tmp_path / "metrics.jsonl").write_text("".join([*first, torn, *again]))
    loss = read_history(tmp_path).train["loss"]
    assert loss.steps == [1, 2, 3, 4]
    assert loss.values == [1.0, 2.0, 2.0, 2.0]  # what was said last holds
    assert loss.minutes == pytest.approx([1, 5, 6, 7])  # three minutes before, the pause left out


def test_minutes_are_those_the_run_counted(tmp_path: Path) -> None:
    steps = [event("step", step, 1e9 * step, loss=1.0, seconds=30.0 * step) for step in (1, 2)]
    (tmp_path / "metrics.jsonl").write_text("".join([*steps, event("validate", 2, 5e9, loss=2.0)]))
    history = read_history(tmp_path)
    assert history.train["loss"].minutes == [0.5, 1.0]
    assert history.dev["loss"].minutes == [1.0]


def test_training_loss_is_drawn_without_smoothing(tmp_path: Path) -> None:
    history = read_history(write_run(tmp_path / "en-de"))
    train, dev = panels([history])[0].lines
    assert train.curve.values == pytest.approx([5 / step for step in range(1, 31)])
    assert dev.curve == history.dev["loss"]


def test_numbers_that_are_none_are_left_out(tmp_path: Path) -> None:
    lines = [event("step", 1, 1.0, loss=math.nan), event("step", 2, 2.0, loss=None), event("step", 3, 3.0, loss=1)]
    (tmp_path / "metrics.jsonl").write_text("".join([*lines, "[]\n", "7\n", "\n"]))
    assert read_history(tmp_path).train["loss"].values == [1.0]


@pytest.mark.parametrize(
    ("content", "words"), [(None, "cannot be read"), ("", "no training step"), ("{}\n", "no training")]
)
def test_runs_without_metrics_are_one_line(tmp_path: Path, content: str | None, words: str) -> None:
    if content is not None:
        (tmp_path / "metrics.jsonl").write_text(content)
    with pytest.raises(UsageError, match=words) as error:
        run(str(tmp_path))
    assert "\n" not in str(error.value)


@given(st.integers(1, 300), st.integers(1, 40))
def test_thinning_keeps_few_points_and_the_mean(count: int, most: int) -> None:
    values = [float(i * i) for i in range(count)]
    thin = Curve([float(i) for i in range(count)], values, values).thinned(most)
    assert len(thin.values) == len(thin.steps) <= most
    assert min(values) <= min(thin.values) <= max(thin.values) <= max(values)
    assert thin.steps == sorted(thin.steps)
    if count % len(thin.values) == 0:
        assert np.mean(thin.values) == pytest.approx(np.mean(values))


# ---------------------------------------------------------------- drawing


def test_plot_writes_a_picture_and_a_page_beside_the_run(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "en-de")
    said = run(str(folder))
    assert is_png(folder / "curves.png")
    assert "<svg" in (folder / "curves.html").read_text()
    assert "curves.png" in said.replace("\n", "")


def test_settings_of_matplotlib_do_not_start_latex(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be those of a file `matplotlibrc` in the current folder. A LaTeX that is started says so by failing."""
    matplotlib = pytest.importorskip("matplotlib")
    monkeypatch.setitem(matplotlib.rcParams, "text.usetex", True)
    monkeypatch.setenv("PATH", "")
    run(str(write_run(tmp_path / "run")), "--out", str(tmp_path / "curves.png"))
    assert is_png(tmp_path / "curves.png")


def test_plot_several_runs_into_one_file(tmp_path: Path) -> None:
    first, second = write_run(tmp_path / "a" / "run$1$"), write_run(tmp_path / "b" / "run$1$", steps=20)
    out = tmp_path / "both.html"
    run(str(first), str(second / "metrics.jsonl"), "--out", str(out))
    html = out.read_text()
    assert str(first) in html  # one name for two runs would tell nothing
    assert not (first / "curves.png").exists()
    run(str(first), str(second), "--out", str(tmp_path / "both.png"))
    assert is_png(tmp_path / "both.png")
    with pytest.raises(UsageError, match=r"\.png or \.html"):
        run(str(first), "--out", str(tmp_path / "both.pdf"))


def test_the_page_holds_its_numbers_and_reaches_for_nothing(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "<img src=x>")
    run(str(folder), "--out", str(tmp_path / "x.html"))
    html = (tmp_path / "x.html").read_text()
    assert "<img" not in html
    for sign in ("http:", "https:", "src=x>", "@import", "url("):
        assert sign not in html.replace("&lt;img src=x&gt;", "")
    numbers = json.loads(html.partition('id="numbers">')[2].partition("</script>")[0])
    assert len(numbers["charts"]) == html.count('class="plot"') == 8  # four panels, by steps and by minutes
    train, dev = numbers["charts"][0]["lines"]
    assert (train["name"], dev["name"]) == ("train", "dev")
    assert train["x"] == list(range(1, 31))
    assert dev["y"] == pytest.approx([4 / 10, 4 / 20, 4 / 30], rel=1e-5)


def test_colours_tell_series_apart_in_one_run_and_runs_in_several(tmp_path: Path) -> None:
    one, two = (read_history(write_run(tmp_path / name)) for name in ("a", "b"))
    assert [(line.name, line.colour, line.dash) for line in panels([one])[0].lines] == [("train", 0, 0), ("dev", 1, 0)]
    lines = [(line.name, line.colour, line.dash) for line in panels([one, two])[0].lines]
    assert lines == [("a, train", 0, 0), ("a, dev", 0, 1), ("b, train", 1, 0), ("b, dev", 1, 1)]


def test_a_run_with_losses_only_has_no_empty_panels(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text(event("step", 1, 1.0, loss=2.0))
    assert [panel.title for panel in panels([read_history(tmp_path)])] == ["loss per token (nats)"]
    run(str(tmp_path))
    assert is_png(tmp_path / "curves.png")


def test_without_matplotlib_there_is_still_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_run(tmp_path / "en-de")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert "headway-mt[plot]" in run(str(folder)).replace("\n", "")
    assert (folder / "curves.html").exists()
    assert not (folder / "curves.png").exists()
    with pytest.raises(UsageError, match="pip install"):
        run(str(folder), "--out", str(tmp_path / "x.png"))


def test_attention_pictures(tmp_path: Path) -> None:
    rows, columns = ["▁Ein", "▁$1$", "自", "</s>"], ["▁A", "▁$", "_self", "dog", "</s>"]
    heads = np.random.default_rng(0).dirichlet(np.ones(5), size=(6, 4)).astype(np.float32)
    attention_picture(heads[0], rows, columns, tmp_path / "one.png", "layer 1, head 1")
    attention_grid(heads, rows, columns, tmp_path / "all.png", "layer 1")
    assert is_png(tmp_path / "one.png")
    assert is_png(tmp_path / "all.png")
    with pytest.raises(ValueError, match="4 rows and 4 columns"):
        attention_picture(heads[0], rows, rows, tmp_path / "wrong.png")


# ---------------------------------------------------------------- charts


@given(st.floats(-1e6, 1e6), st.floats(1e-9, 1e6) | st.just(0.0))
def test_ticks_are_even_and_cover_the_range(low: float, span: float) -> None:
    marks = ticks(low, low + span)
    gaps = np.diff(marks)
    slack = 1e-6 * (abs(low) + span + 1)
    assert marks[0] <= low + slack
    assert marks[-1] >= low + span - slack
    assert np.allclose(gaps, gaps[0], rtol=1e-3, atol=1e-9)
    assert gaps[0] > 0
    assert 2 <= len(marks) <= 8


def test_numbers_are_short() -> None:
    assert [short(value) for value in (0.0, 0.0007, 0.25, 12.3456, 20_000.0, 2.5e7)] == [
        "0", "0.0007", "0.25", "12.35", "20,000", "2.5e+07"]  # fmt: skip


def test_histogram_counts_every_value() -> None:
    labels, counts = histogram([0.0, 9.99, 10.0, 100.0, 55.0])
    assert labels[0] == "0–10"
    assert (counts[0], counts[1], counts[5], counts[9]) == (2, 1, 1, 1)


def test_bar_charts_stand_on_zero_also_for_losses() -> None:
    html = bar_chart("x", ["a", "b"], {"gain": [-3.0, 2.0]})
    assert "gain, a: -3" in html
    assert 'height="-' not in html
