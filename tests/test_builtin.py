"""The model that comes with the package: who uses it when none is named, how it is made, and the model itself."""

from __future__ import annotations

import asyncio
import importlib.util
import io
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import typer.main
from rich.console import Console

from headway import Translator, cli, config
from headway.builtin import present
from headway.commands.demo import show_everyday
from headway.commands.pronunciation import EVERYDAY, everyday
from headway.data.corpus import Corpus, Data, Pair
from headway.errors import UsageError
from headway.exchange.exports import export_model
from headway.serve.models import model_ids
from headway.tasks.run import Run
from headway.tasks.translation.task import share_of
from model_folders import TEXT, random_folder
from serving import DeskWorker, ask, local

ROOT = Path(__file__).parent.parent
RECIPE = ROOT / "recipes" / "builtin"
LARGEST = 16 << 20  # bytes of the whole folder
NONE = "name a model folder: this package comes without a model"
DIRECTIONS = [("en", "de"), ("de", "en"), ("en", "fr"), ("fr", "en")]
DATA = Data(corpora=tuple(Corpus(f"a.{a}", f"a.{b}", tag=b, source_language=a) for a, b in DIRECTIONS), longest=40)


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package that comes with one model: four directions, in int8, and random."""
    place = tmp_path_factory.mktemp("package")
    folder = random_folder(place / "made", ("de", "en", "fr"), data=DATA)
    export_model(folder, "headway-int8", place / "builtin" / "everyday")
    return place / "builtin"


@pytest.fixture
def builtin(shipped: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("headway.builtin.HERE", shipped)
    return shipped / "everyday"


@pytest.fixture
def texts(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / "a.en", tmp_path / "a.de"]
    for path, lines in zip(paths, (TEXT[:3], TEXT[3:6]), strict=True):
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return paths


class Shell:
    """The command line, in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], typed: Path) -> None:
        self.monkeypatch, self.capfd, self.typed = monkeypatch, capfd, typed

    def __call__(self, *words: object, text: str = "") -> tuple[int, str, str]:
        self.typed.write_text(text, encoding="utf-8")
        self.monkeypatch.setattr(sys, "argv", ["headway", *map(str, words)])
        with self.typed.open(encoding="utf-8") as stdin:
            self.monkeypatch.setattr(sys, "stdin", stdin)
            code = cli.run()
        said = self.capfd.readouterr()
        return code, said.out, said.err


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Shell:
    return Shell(monkeypatch, capfd, tmp_path / "typed.txt")


@pytest.fixture
def one_thread() -> Iterator[None]:
    """A server takes all cores; tests that follow must not."""
    yield
    torch.set_num_threads(1)


# ---------------------------------------------------------------- who uses it


def test_translate_needs_no_folder(builtin: Path, shell: Shell) -> None:
    lines = "a dog runs\n\nEin Hund rennt.\n"
    code, out, err = shell("translate", "--to", "de", "--beam", 1, text=lines)
    assert code == 0, err
    assert len(out.split("\n")) == 4 and out.split("\n")[1] == ""
    assert out == shell("translate", builtin, "--to", "de", "--beam", 1, text=lines)[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("translate", "--to", "xx"), "language 'xx' is not in this model; it has de, en, fr"),
        (("translate",), "this model translates into de, en, fr: say which, such as --to de"),
        (("look", "a dog", "--to", "xx"), "language 'xx' is not in this model; it has de, en, fr"),
        (("look", "a dog"), "this model translates into de, en, fr: say which"),
        (("look", "--to", "de"), "give a sentence"),
        (("score", "--source", "EN", "--target", "DE"), "this model translates into de, en, fr"),
        (("heads", "--source", "EN", "--to", "xx"), "language 'xx' is not in this model"),
        (("evaluate", "--source", "EN", "--reference", "DE"), "this model translates into de, en, fr"),
        (("predict", "BUILTIN", "--to", "xx"), "language 'xx' is not in this model"),
        (("distill", "BUILTIN", "--source", "EN", "--out", "made", "--to", "xx"), "language 'xx' is not in this model"),
        (("augment", "BUILTIN", "--target", "DE", "--out", "made"), "this model translates into de, en, fr: say which"),
        (("evaluate", "BUILTIN", "EN", "DE", "--to", "xx"), "language 'xx' is not in this model"),
    ],
)
def test_a_language_that_is_wrong_or_missing_is_one_line(
    builtin: Path, texts: list[Path], shell: Shell, words: tuple[str, ...], said: str
) -> None:
    places = {"EN": texts[0], "DE": texts[1], "BUILTIN": builtin}
    code, _, err = shell(*(places.get(word, word) for word in words), text="a dog\n")
    assert code == 2 and err.startswith("headway: ") and said in err and err.count("\n") == 1


def test_other_commands_need_no_folder_either(builtin: Path, texts: list[Path], shell: Shell, tmp_path: Path) -> None:
    files = ("--source", texts[0])
    code, out, err = shell("score", *files, "--target", texts[1], "--to", "de")
    assert code == 0 and len(out.splitlines()) == 3, err
    assert out != shell("score", *files, "--target", texts[1], "--to", "fr")[1]  # the tag is seen
    code, _, err = shell(
        "evaluate", *files, "--reference", texts[1], "--to", "de", "--json", tmp_path / "e.json", "--resamples", 0
    )
    assert code == 0 and (tmp_path / "e.json").is_file(), err
    code, out, err = shell("heads", *files, "--to", "de")
    assert code == 0 and "decoder" in out, err
    code, _, err = shell("distill", builtin, *files, "--to", "fr", "--out", tmp_path / "made", "--beam", 1)
    assert code == 0 and (tmp_path / "made" / "train.target").is_file(), err
    assert json.loads((tmp_path / "made" / "facts.json").read_text())["order"]["to"] == "fr"


def test_predict_can_be_told_the_language_too(builtin: Path, shell: Shell) -> None:
    code, out, err = shell("predict", builtin, "--to", "de", text="a dog\n")
    assert (code, err, out.count("\n")) == (0, "", 1)


def test_look_takes_a_sentence_alone(builtin: Path, shell: Shell, tmp_path: Path) -> None:
    trace = tmp_path / "t.json"
    code, _, err = shell("look", "a dog runs", "--to", "de", "--json", trace)
    assert code == 0, err
    told = json.loads(trace.read_text(encoding="utf-8"))
    assert told["source"]["text"] == "a dog runs" and told["model"]["name"] == "everyday"
    assert "<2de>" in told["source"]["pieces"][0].values()
    assert shell("look", trace)[0] == 0  # a saved trace needs no model at all
    assert shell("look", "--embeddings", "--words", "dog")[0] == 0
    assert "pieces" in shell("look", "a dog " * 500, "--to", "de")[2]  # too long for a path, and for a trace


@pytest.mark.usefixtures("one_thread")
def test_serve_offers_every_direction(builtin: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr("headway.serve.server.run", asked.append)
    assert shell("serve")[0] == 0
    assert asked[0].folders == (builtin,)

    async def talk() -> tuple[Any, Any, Any]:
        async with local(lambda: DeskWorker(model_ids(asked[0].folders))) as server:
            models = await ask(server.app, "GET", "/v1/models")
            body = {"texts": ["a dog"], "source": "en", "target": "fr", "beam": 1}
            said = await ask(server.app, "POST", "/v1/translate", body)
            other = await ask(server.app, "POST", "/v1/translate", body | {"target": "zh"})
            return models.json(), said, other

    models, said, other = asyncio.run(talk())
    assert (models[0]["engine"], models[0]["precision"], models[0]["reason"]) == ("torch", "fp32", "it was asked for")
    assert {(pair["source"], pair["target"]) for pair in models[0]["pairs"]} == set(DIRECTIONS)
    assert said.status == 200 and other.status == 400
    one = Translator.load(builtin, "cpu", "torch")(["a dog"], to="fr", beam=1)[0].text
    assert said.json()["translations"][0]["text"] == one


def test_python_needs_no_folder(builtin: Path) -> None:
    assert Translator.load(device="cpu", engine="torch")(["a dog"], to="en", beam=1)[0].source == "a dog"


@pytest.mark.parametrize(
    "words", [("translate",), ("serve",), ("look", "a dog"), ("score", "--source", "EN", "--target", "DE")]
)
def test_without_a_model_all_ask_for_a_folder(
    texts: list[Path], shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: tuple[str, ...]
) -> None:
    monkeypatch.setattr("headway.builtin.HERE", tmp_path / "nothing")
    code, _, err = shell(*(dict(EN=texts[0], DE=texts[1]).get(word, word) for word in words))
    assert code == 2 and NONE in err and err.count("\n") == 1


def test_a_missing_folder_is_no_reason_for_another_model(builtin: Path, shell: Shell) -> None:
    code, _, err = shell("translate", "en-de", "--to", "de", text="a dog\n")
    assert code == 2 and "en-de is not a folder" in err
    with pytest.raises(UsageError, match="is not a folder"):
        Translator.load("en-de")


def test_the_demo_ends_with_it(builtin: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=200)
    show_everyday(console)
    said = console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
    assert all((text in said) == (to in ("de", "en", "fr")) for text, to in EVERYDAY)
    assert "headway serve" in said and "http://127.0.0.1:5000" in said
    monkeypatch.setattr("headway.builtin.HERE", tmp_path)
    assert everyday() == []
    show_everyday(console)
    assert console.file.getvalue() == said  # pyright: ignore[reportAttributeAccessIssue]


# ---------------------------------------------------------------- several languages


def test_only_a_model_that_always_saw_a_tag_needs_one() -> None:
    tagged, plain = Corpus("a", "b", tag="bt"), Corpus("a", "b")
    assert Data(corpora=(tagged, tagged)).multilingual
    others = (Data(), Data(corpora=(tagged, plain)), Data(source="a", target="b", corpora=(tagged,)))
    assert not any(data.multilingual for data in others)


def test_validation_measures_every_corpus() -> None:
    pairs = [Pair(f"{corpus} {line}", "", "", corpus, line) for corpus in range(6) for line in range(50)]
    some = share_of(pairs, 60)
    assert len(set(some)) == 60 and [sum(pair.corpus == corpus for pair in some) for corpus in range(6)] == [10] * 6
    assert share_of(pairs[:50], 10) == pairs[:10] and share_of(pairs, 1000) == pairs and share_of([], 3) == []


# ---------------------------------------------------------------- how it is made


@pytest.mark.parametrize("name", ["teacher", "student"])
def test_the_recipes_build_six_directions(name: str) -> None:
    run = config.load(Run, RECIPE / f"{name}.toml")
    corpora = run.pairs.corpora
    assert {(one.source_language, one.tag) for one in corpora} == {*DIRECTIONS, ("en", "zh"), ("zh", "en")}
    assert len(corpora) == len(run.pairs.dev_corpora) == 6 and run.pairs.multilingual
    with torch.device("meta"):
        model = run.model.build(run.text.size)  # pyright: ignore[reportAttributeAccessIssue]
    count = sum(parameter.numel() for parameter in model.parameters())
    assert name == "teacher" or 14e6 < count <= 15.2e6


def test_the_script_uses_commands_and_files_that_exist() -> None:
    script = (RECIPE / "make.sh").read_text(encoding="utf-8").replace("\\\n", " ")
    assert subprocess.run(["sh", "-n", str(RECIPE / "make.sh")], check=False).returncode == 0
    commands: dict[str, Any] = typer.main.get_command(cli.app).commands  # pyright: ignore[reportAttributeAccessIssue]
    found = [shlex.split(line) for line in re.findall(r"headway ((?:data|train|distill|export|evaluate) .*)", script)]
    assert [words[0] for words in found] == ["data", "train", "distill", "distill", "train", "export", "evaluate"]
    for name, *rest in found:
        known = {option for param in commands[name].params for option in param.opts}
        assert {word for word in rest if word.startswith("--")} <= known
    assert all((RECIPE / name).is_file() for name in re.findall(r"\$here/(\w+\.\w+)", script))


def test_no_sentence_is_on_both_sides_of_the_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("split", RECIPE / "split.py")
    assert spec is not None and spec.loader is not None
    split = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(split)
    monkeypatch.chdir(tmp_path)
    for other in ("de", "fr"):
        (tmp_path / other).mkdir()
        english = [f"sentence {i // 2}" for i in range(3000)]
        (tmp_path / other / "train.en").write_text("\n".join([*english, ""]))
        (tmp_path / other / f"train.{other}").write_text("\n".join([*(f"{other} {i % 1700}" for i in range(3000)), ""]))
    split.main([Path("de"), Path("fr")])
    read = lambda name: (tmp_path / "split" / name).read_text().splitlines()  # noqa: E731
    for other in ("de", "fr"):
        for side in ("en", other):
            train, *apart = (set(read(f"en-{other}/{part}.{side}")) for part in ("train", "dev", "test"))
            assert train and all(apart) and not train & (apart[0] | apart[1])
        assert len(read(f"en-{other}/train.en")) == len(read(f"en-{other}/train.{other}"))
    assert set(read("en-de/dev.en")) == set(read("en-fr/dev.en"))
    assert len(read("all.en")) == len(set(read("all.en")))


# ---------------------------------------------------------------- the model itself

there = pytest.mark.skipif(not present(), reason="no built-in model: recipes/builtin/make.sh makes one")
OFFLINE = """
import sys
def watch(event, told):
    if event in ("socket.connect", "socket.getaddrinfo"):
        sys.exit("the network was asked for")
sys.addaudithook(watch)
from headway.cli import main
main()
"""


@there
def test_it_is_small_and_names_its_sources() -> None:
    folder = present()[0]
    assert sum(path.stat().st_size for path in folder.rglob("*")) <= LARGEST
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "Tatoeba" in card and re.search("CC[ -]BY", card) and "https://tatoeba.org" in card
    assert {path.suffix for path in folder.iterdir()} <= {".md", ".toml", ".json", ".safetensors", ".spm"}


@there
def test_it_answers_after_installation_alone_and_offline(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OFFLINE, "translate", "--to", "de"]
    done = subprocess.run(
        command, input=b"Where is the station?\n", capture_output=True, cwd=tmp_path, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.decode().strip()) > 5


@there
def test_it_has_learned_its_languages() -> None:
    translator = Translator.load(device="cpu")
    known = {"de": "Bahnhof", "fr": "gare"}
    for to, word in known.items():
        assert word in translator(["Where is the station?"], to=to)[0].text
    assert "station" in translator(["Wo ist der Bahnhof?"], to="en")[0].text.lower()
