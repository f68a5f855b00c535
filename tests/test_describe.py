"""The commands describe and config: what they print is counted again, and what they write can be read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from click.testing import Result
from safetensors.torch import save_file
from typer.testing import CliRunner

from headway import recipes
from headway.commands.config import config
from headway.commands.describe import describe, pair_table
from headway.config import dump, load
from headway.errors import DiskError, UsageError
from headway.inspection.anatomy import count_parts, equal_neighbours, module_tree
from headway.model.design import EncoderDecoderDesign, LanguageModelDesign
from headway.model.positions import Learned
from headway.tasks.run import Run

DOCS = Path(__file__).parent.parent / "docs" / "model.md"
SMALL = EncoderDecoderDesign(width=16, heads=2, encoder_layers=3, decoder_layers=2, tie_embeddings="output")


def call(command: Any, *words: str, width: int = 120) -> Result:
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, list(words), env={"COLUMNS": str(width)})


def said(command: Any, *words: str, width: int = 120) -> str:
    result = call(command, *words, width=width)
    assert result.exception is None, result.exception
    return result.stdout


def refused(command: Any, *words: str) -> str:
    error = call(command, *words).exception
    assert isinstance(error, UsageError | DiskError), error
    assert "\n" not in str(error)
    return str(error)


def total(text: str) -> int:
    found = re.search(r"^ *all +([\d,]+)", text, re.MULTILINE)
    assert found
    return int(found[1].replace(",", ""))


def parameters(design: Any, *sizes: int) -> int:
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in design.build(*sizes).parameters())


# ---------------------------------------------------------------- describe


@pytest.mark.parametrize("name", recipes.ALL)
def test_every_recipe_is_described(name: str) -> None:
    text = said(describe, name, "--vocabulary", "1000")
    assert total(text) == parameters(recipes.ALL[name](), 1000)
    counts = [int(n.replace(",", "")) for n in re.findall(r"^ [a-z].*?  +([\d,]+) +[\d.]+%", text, re.MULTILINE)]
    assert sum(counts) == total(text)


def test_the_paper_in_numbers() -> None:
    text = said(describe, "base", "--vocabulary", "37000")
    for expected in ("37,000 × 512 × 22.63", "512 → 2,048 → 512, relu", "8 heads × 64", "6 × decoder layer", "0 … 5"):
        assert expected in text
    assert "add & layer norm" in text and "keys and" in text


def test_seven_billion_parameters_take_no_memory() -> None:
    text = said(describe, "llama")
    assert total(text) == 6_738_415_616
    assert "32 × layer" in text and "26.95 GB" in text and "rotary" in text


@pytest.mark.parametrize("width", [80, 100, 160])
def test_nothing_is_cut_off(width: int) -> None:
    text = said(describe, "base", width=width)
    assert "…" not in text.replace("0 … 5", "").replace("around_self … around_feed", "").replace(
        "self_attention … cross_attention", ""
    )
    assert max(len(line) for line in text.splitlines()) <= width


def test_a_design_a_run_and_a_folder(tmp_path: Path) -> None:
    design, run, folder = tmp_path / "design.toml", tmp_path / "run.toml", tmp_path / "model"
    design.write_text(dump(SMALL))
    run.write_text('[text]\nkind = "words"\nsize = 50\n[model]\nkind = "encoder"\nwidth = 16\nheads = 2\n')
    folder.mkdir()
    (folder / "config.toml").write_text(dump(Run(model=SMALL)))
    tensors = SMALL.build(60, 70).state_dict()
    save_file({name: tensor.clone() for name, tensor in tensors.items()}, folder / "model.safetensors")
    assert total(said(describe, str(design))) == parameters(SMALL, 32_000)
    assert "50 × 16" in said(describe, str(run))
    assert total(said(describe, str(folder))) == parameters(SMALL, 60, 70)
    assert "embedding = output" not in said(describe, str(run))


def test_settings_may_be_changed() -> None:
    text = said(describe, "small", "--set", "width=64", "--set", "residual.kind=pre")
    assert "64 → 1,024 → 64" in text and "layer norm  128" in text


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["huge"], "huge is neither a file, a folder nor a recipe; the recipes are base, big"),
        (["nowhere.toml"], "nowhere.toml: cannot be read: No such file"),
        (["base", "--set", "heads=7"], "base: width is 512 and heads is 7: width must be a multiple of heads"),
        (["base", "--vocabulary", "-1"], "vocabulary is -1; it must be from 1 to 1000000"),
    ],
)
def test_what_cannot_be_described(words: list[str], line: str) -> None:
    assert refused(describe, *words).startswith(line)


def test_a_folder_with_broken_weights(tmp_path: Path) -> None:
    assert "config.toml: cannot be read" in refused(describe, str(tmp_path))
    (tmp_path / "config.toml").write_text(dump(SMALL))
    (tmp_path / "model.safetensors").write_bytes(b"nothing")
    assert "is not a sound safetensors file" in refused(describe, str(tmp_path))


# ---------------------------------------------------------------- counting


def test_a_matrix_used_twice_counts_once() -> None:
    counts = count_parts(SMALL.build(60, 70))
    assert counts["source embedding"] == 60 * 16
    assert counts["target = output"] == 70 * 16
    assert "output" not in counts
    learned = count_parts(LanguageModelDesign(width=16, heads=2, layers=2, positions=Learned(), longest=9).build(60))
    assert learned["layers positions"] == 9 * 16
    assert learned["embedding = output"] == 60 * 16


def test_equal_neighbours_are_drawn_once() -> None:
    model = SMALL.build(60, 70)
    assert [names for names, _ in equal_neighbours(model.encoder.layers)] == [["0", "1", "2"]]
    with torch.no_grad():
        model.encoder.layers[1].get_submodule("feed_forward").dropout = torch.nn.Linear(2, 2)  # type: ignore[assignment]
    assert [names for names, _ in equal_neighbours(model.encoder.layers)] == [["0"], ["1"], ["2"]]
    assert str(module_tree(model).label) == f"EncoderDecoder  {sum(p.numel() for p in model.parameters()):,}"


def test_two_thirds_of_a_large_model_are_feed_forward_layers() -> None:
    with torch.device("meta"):
        model = recipes.llama().build(32_000)
    counts = count_parts(model)
    assert 0.63 < counts["layers feed-forward"] / sum(counts.values()) < 0.67


# ---------------------------------------------------------------- the pairs, and the guide that shows them


def test_the_guide_shows_the_pairs_as_they_are() -> None:
    assert pair_table() in DOCS.read_text(encoding="utf-8")
    assert pair_table() in said(describe, "--pairs", width=40)


def test_the_guides_code_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    complete = [code for code in blocks if code.startswith("import")]
    assert len(complete) == 2
    for code in complete:
        exec(compile(code, "model.md", "exec"), {})


# ---------------------------------------------------------------- config


@pytest.mark.parametrize("name", recipes.ALL)
def test_config_prints_a_run_that_loads(name: str, tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(said(config, name))
    assert load(Run, path) == Run(model=recipes.ALL[name]())
    assert "width of the vectors" in path.read_text()


def test_config_writes_the_schema(tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    assert said(config, "--schema", str(path)) == ""
    whole = json.loads(path.read_text())
    assert {"model", "training", "data", "text"} <= whole["properties"].keys()


def test_config_refuses_what_it_cannot_do(tmp_path: Path) -> None:
    assert refused(config, "huge").startswith("huge is not a recipe; choose one of base, big")
    assert "cannot write" in refused(config, "--schema", str(tmp_path / "no" / "where.json"))
