"""Figures are drawn from the tables of results.md: every one of them finds its numbers there."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest
from PIL import Image, ImageColor

DOCS = Path(__file__).parent.parent / "docs"
RESULTS = (DOCS / "results.md").read_text(encoding="utf-8")
MADE_UP = """
## One

| run | seconds | BLEU |
|---|---|---|
| headway, slow, seed 1 | 1,234 s, alone | **40.5** (goal: 33) |
| the same, untimed | | 41 |
| Hugging Face | 99 s | 39.0 |

| run | seconds | BLEU |
|---|---|---|
| of another table | 1 | 2 |

## Two
"""


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(DOCS)
    return importlib.import_module("figures")


def test_the_numbers_are_those_of_the_first_table_of_a_section(figures: ModuleType) -> None:
    panel = figures.Panel("One", "seconds", "BLEU", "seconds")
    found = [("headway, slow, seed 1", 1234.0, 40.5), ("Hugging Face", 99.0, 39.0)]
    assert list(figures.points(MADE_UP, panel)) == found
    chosen = figures.Panel("One", "seconds", "BLEU", "seconds", rows="^Hugging")
    assert list(figures.points(MADE_UP, chosen)) == found[1:]
    with pytest.raises(AssertionError, match="no table"):
        list(figures.points(MADE_UP, figures.Panel("Two", "seconds", "BLEU", "seconds")))
    with pytest.raises(AssertionError, match="no section 'Three'"):
        figures.section(MADE_UP, "Three")


def test_every_figure_has_its_rows_and_its_place(figures: ModuleType) -> None:
    shown = "".join(path.read_text(encoding="utf-8") for path in DOCS.glob("*.md"))
    for name, panels in figures.PANELS.items():
        assert f"pictures/{name}" in shown
        assert (DOCS / "pictures" / name).exists()
        for panel in panels:
            rows, found = (
                list(figures.table(figures.section(RESULTS, panel.section))),
                list(figures.points(RESULTS, panel)),
            )
            assert len(found) >= max(2, len(rows) // 2), (name, panel.section)


def test_a_figure_is_drawn(figures: ModuleType, tmp_path: Path) -> None:
    figures.draw(MADE_UP, (figures.Panel("One", "seconds", "BLEU", "seconds", ticks=(100, 1000)),), tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as picture:
        colours = {colour for _, colour in picture.convert("RGB").getcolors(1 << 20) or ()}
    for wanted in figures.PALETTE[:2]:  # ours, and the peer's
        assert min(max(abs(a - b) for a, b in zip(ImageColor.getrgb(wanted), one, strict=True)) for one in colours) < 9
