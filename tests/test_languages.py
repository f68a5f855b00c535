"""The languages of a model: one answer, from its configuration, its files, its folder or its text."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway import config
from headway.data.corpus import Data
from headway.data.languages import ending, languages_of, languages_to_train
from headway.metrics.catalogue import bleu_tokenizer
from headway.tasks.run import Run

ENGLISH = "the dog is in the house and it was on the way to that place\n" * 30
CHINESE = "狗在房子里，它正在去那个地方的路上。\n" * 30


@pytest.mark.parametrize(
    ("data", "folder", "found"),
    [
        (Data(source_language="en", target_language="zh"), "x", ("en", "zh")),
        (Data(source="train.en", target="train.de"), "x", ("en", "de")),
        (Data(source="train.en.gz", target="a/train.zh-Hans.zst"), "fr-de", ("en", "zh-Hans")),
        (Data(source="a.txt", target="b.txt"), "models/fr-de", ("fr", "de")),
        (Data(source="a.txt", target="b.txt", target_language="it"), "fr-de", ("fr", "it")),
        (Data(source="a.txt", target="b.txt"), "big-run", ("", "")),  # words, not languages
        (Data(source="train.letters", target="train.phonemes"), "model", ("", "")),
        (Data(source="x.en", target="y.en"), "model", ("", "")),  # twice the same says nothing
    ],
)
def test_languages_are_found_in_one_order(data: Data, folder: str, found: tuple[str, str]) -> None:
    assert languages_of(data, Path(folder)) == found


def test_new_runs_also_ask_their_text(tmp_path: Path) -> None:
    for name, text in (("a.txt", ENGLISH), ("b.txt", CHINESE)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    found = languages_to_train(Data(source=str(tmp_path / "a.txt"), target=str(tmp_path / "b.txt")))
    assert found == ("en", "zh")
    assert bleu_tokenizer(found[1]) == "zh"


def test_endings_that_are_no_languages() -> None:
    assert [ending(name) for name in ("x.txt", "x.tok", "x.gz", "x", "x.en-de.de", "x.cmn")] == [
        "", "", "", "", "de", "cmn"
    ]  # fmt: skip


def test_columns_may_be_set_as_numbers() -> None:
    table = config.override({"data": {"source": "a.tsv"}}, ["data.source_field=1", "data.target_field=2"])
    data = config.from_dict(Run, table).data
    assert isinstance(data, Data) and (data.source_field, data.target_field) == (1, 2)
