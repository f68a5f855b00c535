"""The rows of bench.recipes: their recipes and settings are understood."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.recipes import ROWS, words_of

from headway import config
from headway.data.files import Files
from headway.tasks.run import Run

RECIPES = Path(__file__).parent.parent / "recipes"


@pytest.mark.parametrize("name", ROWS)
def test_a_row_names_a_recipe_and_settings_that_it_knows(name: str) -> None:
    row = ROWS[name]
    run = config.load(Run, RECIPES / f"{row.recipe}.toml", words_of(row, Path)[1::2])
    read = run.data.train if isinstance(run.data, Files) else (run.data.source, run.data.target)
    assert (read if isinstance(read, tuple) else (read,)) == row.train
    assert len(row.tests) >= 1 and all(len(test) == len(row.train) for test in row.tests)
