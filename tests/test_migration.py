"""Folders and files of older versions: models predict what they did, and old names are refused with the new ones."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import corpora
from headway import config
from headway.cli import app
from headway.errors import UsageError
from headway.runs.resume import Request
from headway.storage.migration import RENAMED, VERSION, migrated
from headway.tasks.predictors import open_model
from headway.tasks.run import Run

OLD = Path(__file__).parent / "data" / "version-1"
FOLDERS = {"translator": "translator-int8", "tagger": "tagger", "language_model": "language_model"}
CLOSE: dict[str, Any] = {"rel": 1e-3, "abs": 1e-3}


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of what version 1 wrote, as the working folder: its files are named relative to it."""
    place = tmp_path / "version-1"
    shutil.copytree(OLD, place)
    monkeypatch.chdir(place)
    return place


def headway(*words: str) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 0, result.output
    return result.stdout


def predicted(folder: str, recorded: dict[str, Any]) -> list[dict[str, Any]]:
    Path("asked").write_text("".join(f"{line}\n" for line in recorded["lines"]), encoding="utf-8")
    said = headway("predict", folder, "--input", "asked", "--json", "--device", "cpu", *recorded["words"])
    return [json.loads(line) for line in said.splitlines()]


def same(found: Any, wanted: Any) -> None:
    """The same texts and structure, and nearly the same numbers."""
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        for key, value in wanted.items():
            same(found[key], value)
    elif isinstance(wanted, list):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            same(one, other)
    else:
        assert found == (pytest.approx(wanted, **CLOSE) if isinstance(wanted, float) else wanted)


# ---------------------------------------------------------------- folders


@pytest.mark.parametrize("name", FOLDERS)
def test_a_model_of_version_1_predicts_what_it_predicted(old: Path, name: str) -> None:
    recorded = json.loads((old / f"{name}.json").read_text(encoding="utf-8"))
    same(predicted(FOLDERS[name], recorded), recorded["outputs"])


def test_a_run_of_version_1_goes_on_as_it_went_on(old: Path) -> None:
    """Its state is found, its settings are translated, and the steps after the resume learn the same."""
    recorded = json.loads((old / "tagger.json").read_text(encoding="utf-8"))["resumed"]
    headway("train", "--out", "tagger", "--steps", str(recorded["steps"]), "--device", "cpu")
    steps = [event for event in corpora.events(old / "tagger", "step") if event["step"] > 120]
    assert {str(event["step"]): event["loss"] for event in steps} == pytest.approx(recorded["losses"], rel=1e-3)
    same(predicted("tagger", recorded), recorded["outputs"])
    table = tomllib.loads((old / "tagger" / "config.toml").read_text(encoding="utf-8"))
    request = json.loads((old / "tagger" / "state" / "request.json").read_text(encoding="utf-8"))
    assert table["version"] == request["version"] == VERSION
    assert table["training"]["r_drop"] == request["training"]["r_drop"] == 1.0
    assert table["training"]["clip_norm"] == request["training"]["clip_norm"] == 0.5


def test_a_run_of_version_1_is_not_gone_on_with_under_other_settings(old: Path) -> None:
    with pytest.raises(UsageError, match=r"training\.r_drop was 1\.0, and now it is 2\.0"):
        Request({"training": {"r_drop": 2.0}}, old / "tagger").changes({})
    with pytest.raises(UsageError, match=r"task\.agreement is now training\.r_drop"):
        Request({"task": {"agreement": 1.0}}, old / "tagger")


def test_an_exported_folder_of_version_1_is_described_and_exported_again(old: Path) -> None:
    assert "decoder" in headway("describe", "translator-int8")
    headway("export", "translator-int8", "--to", "headway-int8", "--out", "again")
    recorded = json.loads((old / "translator.json").read_text(encoding="utf-8"))
    same(predicted("again", recorded), recorded["outputs"])


# ---------------------------------------------------------------- newer versions


@pytest.mark.parametrize("change", ["config", "facts"])
def test_a_folder_of_a_newer_version_is_refused_in_one_line(old: Path, change: str) -> None:
    if change == "config":
        path = old / "tagger" / "config.toml"
        path.write_text("version = 99\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
        wanted = r"config\.toml has version 99; this headway reads .* up to version 2: install the newer headway"
    else:
        path = old / "tagger" / "headway.json"
        facts = json.loads(path.read_text(encoding="utf-8")) | {"format": 99}
        path.write_text(json.dumps(facts), encoding="utf-8")
        wanted = r"has format 99 of headway .* reads formats up to 2: install the newer headway"
    with pytest.raises(UsageError, match=wanted) as refused:
        open_model(Path("tagger"), "cpu")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("version", [0, -1, "2", 1.5, True])
def test_a_version_that_is_none_is_refused(version: Any) -> None:
    with pytest.raises(UsageError, match=r"version is .*; it must be a whole number from 1 to 2"):
        migrated({"version": version}, "run.toml")


# ---------------------------------------------------------------- names


def names_of(*tables: dict[str, Any]) -> set[str]:
    """Every key of these runs, with all defaults, by its dotted name."""
    return {name for table in tables for name in corpora.flat(config.to_dict(config.from_dict(Run, table)))}


def test_every_new_name_is_one_of_today_and_no_old_one_is() -> None:
    schedule = {"kind": "inverse_root", "max_warmup_share": 0.5}
    training = {"optimiser": {"kind": "adamw"}, "schedule": schedule}
    kinds = ("translation", "tagging", "classification", "language_model")
    names = names_of(*({"task": {"kind": kind}, "training": training} for kind in kinds))
    assert set(RENAMED.values()) <= names
    assert not RENAMED.keys() & names
    assert config.from_dict(Run, {}).version == VERSION


def test_a_step_moves_values_and_changes_nothing_else() -> None:
    table = {"seed": 5, "task": {"kind": "translation", "agreement": 5.0}, "training": {"smoothing": 0.2, "steps": 9}}
    before = json.loads(json.dumps(table))
    assert migrated(table, "old", unversioned=1) == {
        "version": 2,
        "seed": 5,
        "task": {"kind": "translation"},
        "training": {"steps": 9, "r_drop": 5.0, "objective": {"label_smoothing": 0.2}},
    }
    assert table == before, "the given table is left alone"
    assert migrated(table, "new") == {"version": 2, **table}, "without a version it is of today"
    both = {"version": 1, "training": {"clip": 0.5, "clip_norm": 2.0}}
    assert migrated(both, "old") == {"version": 2, "training": {"clip_norm": 2.0}}


def test_a_file_that_states_its_version_is_translated() -> None:
    table = {"version": 1, "task": {"kind": "tagging", "agreement": 2.0}, "training": {"optimiser": {"kind": "adam"}}}
    assert config.from_dict(Run, table).training.r_drop == 2.0


def test_old_names_in_a_file_or_an_option_are_refused_with_the_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "run.toml"
    path.write_text('[task]\nagreement = 5.0\n[training]\nwatch = "bleu"\noptimiser = { kind = "muon", decay = 0.1 }\n')
    hints = (
        "task.agreement is now training.r_drop; "
        "training.optimiser.decay is now training.optimiser.weight_decay; "
        "training.watch is now training.best_metric"
    )
    with pytest.raises(UsageError) as refused:
        config.load(Run, path)
    assert str(refused.value) == f"{path}: {hints}"
    result = CliRunner().invoke(app, ["train", str(path), "--out", "model"])
    assert isinstance(result.exception, UsageError) and hints in str(result.exception)
    result = CliRunner().invoke(app, ["train", "--out", "model", "--set", "training.smoothing=0.1"])
    assert "training.smoothing is now training.objective.label_smoothing" in str(result.exception)
    assert not (tmp_path / "model" / "config.toml").exists()
