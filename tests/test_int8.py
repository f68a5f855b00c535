"""Weights in int8: what is stored, what comes back, and a small copy of a folder that every command can open."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from typer.testing import CliRunner

from exchange_models import SMALL, publish, trained
from headway import Translator
from headway.cli import app
from headway.commands.export import export
from headway.engines.native.weights import pack
from headway.errors import RefusedError, UsageError
from headway.exchange.exports import export_model
from headway.model.design import EncoderDecoderDesign
from headway.model.positions import Learned
from headway.storage.folder import read_model
from headway.storage.int8 import SCALE, quantise, quantised, restore, restored
from headway.storage.tensors import load
from texts import sentences

FACTORS = st.sampled_from([1.0, 0.125, 64**-0.5 * 1.7, 40**-0.5, 3.0])


def matrix(seed: int, scale: float) -> Tensor:
    """Rows of very different sizes, one of zeros, one with a single large number."""
    dice = torch.Generator().manual_seed(seed)
    weight = torch.randn(9, 17, generator=dice) * torch.logspace(-4, 2, 9)[:, None] * scale
    weight[3], weight[5, 7] = 0.0, 50 * scale
    return weight


@given(st.integers(0, 10_000), st.sampled_from([1e-3, 0.05, 1.0, 300.0]))
def test_nothing_moves_by_more_than_half_a_step(seed: int, size: float) -> None:
    weight = matrix(seed, size)
    whole, scale = quantise(weight)
    assert whole.dtype == torch.int8 and whole.abs().max() == 127
    error = (restore(whole, scale) - weight).abs()
    assert (error <= scale[:, None] * (0.5 + 1e-4)).all()
    most = weight.abs().argmax(dim=1, keepdim=True)
    torch.testing.assert_close(restore(whole, scale).gather(1, most), weight.gather(1, most))


@given(st.integers(0, 10_000), st.sampled_from([1e-3, 0.05, 1.0, 300.0]), FACTORS)
def test_quantising_what_was_restored_gives_the_same_whole_numbers(seed: int, size: float, factor: float) -> None:
    """Also where a constant factor was multiplied in, as the kernel does with queries."""
    whole, scale = quantise(matrix(seed, size))
    assert torch.equal(quantise(restore(whole, scale) * factor)[0], whole)


@pytest.mark.parametrize("design", [SMALL, replace(SMALL, width=40, heads=5, positions=Learned())])
def test_the_kernel_finds_the_numbers_that_were_stored(design: EncoderDecoderDesign) -> None:
    """By the formula of kernel/linear.h, written anew with numpy."""
    model = trained(design)
    again = restored(quantised(model.tensors))
    packed = [pack(model.design, tensors, "int8").tensors for tensors in (model.tensors, again)]
    compared = 0
    for ours, theirs in zip(*packed, strict=True):
        if ours is not None and theirs is not None and ours.ndim == 2:
            np.testing.assert_array_equal(*(whole_numbers(array) for array in (ours, theirs)))
            compared += 1
    assert compared > 8


def whole_numbers(rows: np.ndarray) -> np.ndarray:
    most = np.maximum(np.abs(rows).max(axis=1), np.float32(1e-9))
    return np.rint(rows / (most / np.float32(127))[:, None]).astype(np.int64)


def test_norms_biases_and_whole_numbers_stay_as_they_are() -> None:
    weights = {"norm": torch.randn(5), "count": torch.tensor(3), "cube": torch.randn(2, 3, 4), "w": torch.randn(4, 5)}
    packed = quantised(weights)
    assert set(packed) == {*weights, "w" + SCALE} and packed["w"].dtype == torch.int8
    back = restored(packed)
    assert set(back) == set(weights)
    assert all(torch.equal(back[name], weights[name]) for name in ("norm", "count", "cube"))
    assert restored(weights) == weights  # ordinary weights are not even copied


@pytest.mark.parametrize("scale", [torch.ones(3), torch.ones(4, 1), torch.ones(4, dtype=torch.int32)])
def test_scales_that_do_not_fit_are_refused(scale: Tensor) -> None:
    with pytest.raises(UsageError, match="one number for each row of w"):
        restored({"w": torch.ones(4, 5, dtype=torch.int8), "w" + SCALE: scale})


# ---------------------------------------------------------------- the folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model, and its small copy."""
    place = tmp_path_factory.mktemp("int8")
    folder = publish(place / "model", trained())
    (folder / "state").mkdir()
    (folder / "metrics.jsonl").write_text("")
    export(folder, to="headway-int8", out=place / "copy")
    return folder, place / "copy"


def test_the_copy_is_a_model_folder_without_its_past(folders: tuple[Path, Path]) -> None:
    folder, copy = folders
    before, after = read_model(folder), read_model(copy)
    assert after.config_text == before.config_text and after.notes == []
    assert after.facts["weights"] == "int8" and after.facts["task"] == "translation"
    assert {name: x.shape for name, x in after.tensors.items()} == {n: x.shape for n, x in before.tensors.items()}
    assert all(tensor.dtype == torch.float32 for tensor in after.tensors.values())
    assert not (copy / "state").exists() and not (copy / "metrics.jsonl").exists()
    assert (copy / "README.md").read_text() == (folder / "README.md").read_text()
    sizes = [(path / "model.safetensors").stat().st_size for path in (folder, copy)]
    assert sizes[1] < 0.4 * sizes[0]  # a quarter, and in so small a model many norms and scales
    described = [CliRunner().invoke(app, ["describe", str(path)]).stdout for path in (folder, copy)]
    assert described[0] == described[1] and "parameters" in described[0]


def test_the_copy_says_how_well_it_agreed(folders: tuple[Path, Path]) -> None:
    told = json.loads((folders[1] / "headway-export.json").read_text())
    assert told["to"] == "headway-int8" and told["agreement"]["worst"] <= told["agreement"]["allowed"] == 0.5
    assert 0 < told["agreement"]["same"] <= told["agreement"]["sentences"]


def test_a_copy_of_the_copy_holds_the_same_whole_numbers(folders: tuple[Path, Path], tmp_path: Path) -> None:
    export_model(folders[1], "headway-int8", tmp_path / "again")
    stored = [load(path / "model.safetensors") for path in (folders[1], tmp_path / "again")]
    for name, tensor in stored[0].items():
        if tensor.dtype == torch.int8:
            assert torch.equal(tensor, stored[1][name]), name
        else:
            torch.testing.assert_close(tensor, stored[1][name], rtol=3e-7, atol=0)  # a scale may lose its last bit


def test_both_translate_alike(folders: tuple[Path, Path]) -> None:
    """Forced to the same outputs, they give nearly the same probabilities."""
    lines = sentences(8, seed=3)
    first, second = (Translator.load(path, "cpu", "torch") for path in folders)
    texts = [one.text for one in first(lines, beam=1)]
    for one, other in zip(first.score(lines, texts), second.score(lines, texts), strict=True):
        assert one.total / len(one.token_scores) == pytest.approx(other.total / len(other.token_scores), abs=0.1)


def test_a_copy_that_says_something_else_is_not_written(
    folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = lambda weights: {n: -x if n.endswith(SCALE) else x for n, x in quantised(weights).items()}  # noqa: E731
    monkeypatch.setattr("headway.exchange.int8.quantised", broken)
    with pytest.raises(RefusedError, match="nothing was written"):
        export_model(folders[0], "headway-int8", tmp_path / "out")
    assert not (tmp_path / "out").exists()
