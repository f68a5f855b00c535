"""Traces in files, pages, pictures, terminals and notebooks: whole, harmless, and the same numbers everywhere."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import typer
from rich.console import Console
from typer.testing import CliRunner

from headway.commands.look import look
from headway.commands.translate import translate
from headway.errors import UsageError
from headway.inspection.embeddings import neighbourhood, principal_map, spell, tsne_map
from headway.inspection.trace_page import document
from headway.inspection.trace_request import EVERYTHING, TraceRequest
from headway.inspection.words import word_alignment
from headway.tasks.trace import trace
from headway.tasks.trace_files import draw, read_trace, save_trace
from headway.tasks.translation.result import Translation
from headway.tasks.translation.translator import Translator
from headway.text.tokenizer import Words
from model_folders import random_folder
from random_translators import SENTENCE, made

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)> & 'a dog'"


@pytest.fixture(scope="module")
def translator() -> Translator:
    return made()


@pytest.fixture(scope="module")
def found(translator: Translator) -> dict[str, Any]:
    return trace(translator, TraceRequest(EVIL, model="<b>m</b>", include=EVERYTHING))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_folder(tmp_path_factory.mktemp("models") / "small")


def run(command: Any, *arguments: object, text: str | None = None) -> str:
    app = typer.Typer()
    app.command()(command)
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=text)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def is_png(path: Path) -> bool:
    return path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n") and path.stat().st_size > 5000


class Elements(HTMLParser):
    """What a browser would find: elements with their attributes, and the text of scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self.inside = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.inside = str(dict(attrs).get("id")) if tag == "script" else ""

    def handle_data(self, data: str) -> None:
        self.texts[self.inside] = self.texts.get(self.inside, "") + data

    def all(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.elements if tag == name]


# ---------------------------------------------------------------- JSON


def test_a_trace_comes_back_from_its_file(found: dict[str, Any], tmp_path: Path) -> None:
    save_trace(found, tmp_path / "t.json")
    assert read_trace(tmp_path / "t.json") == json.loads(json.dumps(found))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no json", "not a trace"),
        ("[1, 2]", "not a trace"),
        ('{"version": 2}', "version 2; this headway reads 1"),
        ('{"version": 1, "kind": "translation"}', "model is missing"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=said):
        read_trace(path)


def test_traces_of_other_kinds_are_refused(found: dict[str, Any], tmp_path: Path) -> None:
    save_trace(found | {"kind": "painting"}, tmp_path / "t.json")
    with pytest.raises(UsageError, match="a trace of 'painting'"):
        read_trace(tmp_path / "t.json")
    with pytest.raises(UsageError, match="cannot be read"):
        read_trace(tmp_path / "none.json")


# ---------------------------------------------------------------- the page


def test_the_page_is_whole_and_asks_for_nothing(found: dict[str, Any]) -> None:
    page = Elements(document(found))
    assert not [attributes for _, attributes in page.elements if "src" in attributes]
    assert not page.all("link") and page.all("style")
    policy = next(one["content"] or "" for one in page.all("meta") if one.get("http-equiv"))
    assert policy.startswith("default-src 'none'") and "unsafe-inline" not in policy.split("script-src")[1]
    addresses = re.findall(r"https?://[\w./-]+", document(found))
    assert {address for address in addresses if "www.w3.org" not in address} == set()


def test_the_page_holds_the_trace_and_no_script_but_its_own(found: dict[str, Any]) -> None:
    page = Elements(document(found))
    assert json.loads(page.texts["trace"]) == json.loads(json.dumps(found))
    clean = Elements(document({"version": 1}))
    assert len(page.all("script")) == len(clean.all("script")) and not page.all("img")


# ---------------------------------------------------------------- words, terminal and picture


def test_word_alignment_keeps_the_weights(found: dict[str, Any]) -> None:
    """Words gather what their pieces get, so rows still add up to one."""
    matrix = word_alignment(found)
    assert matrix.columns == [*EVIL.split(), "</s>"]
    assert matrix.weights.sum(1).tolist() == pytest.approx([1.0] * len(matrix.rows), abs=0.1)
    with pytest.raises(UsageError, match="layers 0 to 1 with heads 0 to 3"):
        word_alignment(found, layer=7)


def test_a_terminal_shows_pieces_alternatives_alignment_and_beam(found: dict[str, Any]) -> None:
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    with console.file:
        console.print(draw(found | {"source": found["source"] | {"text": "a \x1b[31mred\x07 one"}}))
        said = console.export_text()
    assert "\x1b" not in said.replace("\x1b[", "") and "a  [31mred  one" in said
    for words in ("probability", "Where it looked", "Beam of 4", found["alternatives"][1]["text"].strip()[:5]):
        assert words in said


# ---------------------------------------------------------------- commands


def test_look_writes_all_files_and_draws_them_again(folder: Path, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.json", "a.html", "a.png")]
    options = ("--ablate", "decoder.0.cross.1", "--edit", "0=the", "--prefix", "Zwei", "--beam-size", 2)
    run(look, folder, "a dog", "--json", files[0], "--html", files[1], "--png", files[2], *options)
    saved = read_trace(files[0])
    assert saved["request"]["ablate"] == [{"stack": "decoder", "layer": 0, "kind": "cross", "head": 1}]
    assert saved["baseline"] and saved["model"]["name"] == "small" and is_png(files[2])
    before = files[1].read_text()
    run(look, folder, files[0], "--html", files[1])
    assert files[1].read_text() == before
    assert "Where it looked" in run(look, folder, files[0])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "give a sentence"),
        (("a dog", "--ablate", "decoder.9.cross.0"), "no layer"),
        (("a dog", "--ablate", "third"), "write stack"),
        (("a dog", "--edit", "first"), "write position=token"),
        (("a dog", "--to", "xx"), "language 'xx'"),
        (("none.json",), "cannot be read"),
        (("--embeddings", "--words", "dog," * 3000), "at most 2000"),
    ],
)
def test_wrong_use_of_look_gets_one_line(folder: Path, options: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        run(look, folder, *options)


def test_translate_writes_traces(folder: Path, tmp_path: Path) -> None:
    source, out = tmp_path / "in.txt", tmp_path / "t.jsonl"
    source.write_text("a dog\n\n" + "dog " * 300 + "\n")
    options = ("--beam", 2, "--device", "cpu", "--trace", out)
    run(translate, folder, "--input", source, "--output", tmp_path / "out.txt", *options)
    first, empty, long = (json.loads(row) for row in out.read_text().splitlines())
    assert first["target"]["text"] == (tmp_path / "out.txt").read_text().split("\n")[0]
    assert empty is None and long is None
    with pytest.raises(UsageError, match="plain search"):
        run(
            translate,
            folder,
            "--input",
            source,
            "--output",
            tmp_path / "b.txt",
            "--temperature",
            1.0,
            "--trace",
            tmp_path / "2",
        )


# ---------------------------------------------------------------- embeddings


def test_neighbours_are_the_nearest_by_cosine(translator: Translator) -> None:
    tokenizer, table = translator.tokenizers.source, translator.model.source_embedding.weight.detach().numpy()
    found = neighbourhood(translator.tokenizers.source, translator.model.source_embedding, ["dog", "bench"])
    unit = table / np.linalg.norm(table, axis=1, keepdims=True)
    for word, near in zip(found.words, found.nearest, strict=True):
        (index,) = tokenizer.encode(word)
        cosines = dict(near)
        for text, cosine in cosines.items():
            (other,) = [i for i in range(len(tokenizer)) if tokenizer.piece(i) == f"▁{text}"]
            assert cosine == pytest.approx(float(unit[index] @ unit[other]), abs=1e-3)
        assert word not in cosines and list(cosines.values()) == sorted(cosines.values(), reverse=True)


def test_a_word_that_is_not_in_the_vocabulary_has_no_neighbours() -> None:
    tokenizer = Words().learn(["jump left twice"])
    assert len(spell("jump", tokenizer)) == 1
    with pytest.raises(UsageError, match="'zzz' is not in the vocabulary"):
        spell("zzz", tokenizer)


def test_the_map_of_principal_components_keeps_the_most_variance() -> None:
    points = torch.randn(40, 6, generator=torch.Generator().manual_seed(1)) * torch.tensor([9.0, 5, 1, 1, 1, 1])
    variances = np.linalg.eigvalsh(np.cov(points.T.numpy()))[::-1]
    assert principal_map(points).var(dim=0).numpy() == pytest.approx(variances[:2], rel=1e-4)
    assert principal_map(points[:1]).shape == (1, 2)


def test_tsne_keeps_neighbours_together() -> None:
    draws = torch.Generator().manual_seed(2)
    middles = torch.randn(3, 10, generator=draws) * 4
    points = (middles[:, None] + 0.3 * torch.randn(3, 15, 10, generator=draws)).flatten(0, 1)
    distances = torch.cdist(tsne_map(points), tsne_map(points)).fill_diagonal_(torch.inf)
    groups = torch.arange(3).repeat_interleave(15)
    assert (groups[distances.argmin(dim=1)] == groups).all()


def test_look_shows_embeddings(folder: Path, tmp_path: Path) -> None:
    assert "nearest" in run(look, folder, "--embeddings", "--words", "dog,bench")
    run(look, folder, "--embeddings", "--png", tmp_path / "e.png", "--html", tmp_path / "e.html")
    assert is_png(tmp_path / "e.png") and not Elements((tmp_path / "e.html").read_text()).all("script")


# ---------------------------------------------------------------- notebooks


def test_a_notebook_shows_a_translation_without_scripts(translator: Translator) -> None:
    shown = translator.translate([SENTENCE], beam=2, n_best=2, alignments=True)[0]._repr_html_()
    page = Elements(shown)
    assert not page.all("script") and len(page.all("table")) >= 1
    assert len(page.all("span")) == len(translator.translate([SENTENCE], beam=2)[0].tokens)


def test_a_notebook_escapes_everything() -> None:
    other = Translation(EVIL, EVIL, -1.0, [EVIL, "▁"], [-0.1, -9.0], alignment=[(0, 0), (99, 99)])
    page = Elements(Translation(EVIL, EVIL, -1.0, [EVIL], [-0.5], [other], [(0, 0)])._repr_html_())
    assert not page.all("script") and not page.all("img")
    assert Elements(Translation("")._repr_html_()).all("div")
