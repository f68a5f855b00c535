"""Foreign files take no more memory and time than their size bears out, and control no terminal."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fork_server
from headway import config
from headway.errors import UsageError
from headway.model.design import EncoderDecoderDesign, LanguageModelDesign, TextEncoderDesign
from headway.storage.checked_weights import filled
from headway.storage.folder import write_model
from headway.storage.weights import weights_of
from headway.tasks.material import Tokenizers
from headway.tasks.run import Run
from headway.text import files
from headway.text.characters import Characters
from headway.text.hub import HubPieces
from headway.text.tokenizer import load
from headway.training.console import fit_for

MEASURED = """
import resource, sys, time
from pathlib import Path
from headway.errors import UsageError
{imports}
before, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))  # so that a fault does not take the machine along
try:
    {work}
    said = "taken"
except UsageError as error:
    said = str(error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10, time.monotonic() - begun, said)
"""


def measured(imports: str, work: str, *arguments: object) -> tuple[int, float, str]:
    """Megabytes and seconds that a piece of work takes in a process of its own, and what was said."""
    code = MEASURED.format(imports=imports, work=work)
    told = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)], capture_output=True, text=True, check=True
    ).stdout
    megabytes, seconds, said = told.split(" ", 2)
    return int(megabytes), float(seconds), said.strip()


# ---------------------------------------------------------------- models

SMALL = {"width": 16, "heads": 2, "feed_forward": {"kind": "relu", "width": 16}}


def published(folder: Path) -> Path:
    """A tiny translator."""
    pieces = Characters().learn(["abc"])
    run = config.from_dict(Run, {"text": {"kind": "characters"}, "model": {**SMALL, "encoder_layers": 1}})
    assert isinstance(run.model, EncoderDecoderDesign)
    model = run.model.build(len(pieces))
    write_model(folder, weights_of(model), config.dump(run), {}, Tokenizers(pieces, pieces).save, "")
    return folder


@pytest.mark.parametrize("lie", [("width = 16 ", "width = 16384 "), ("encoder_layers = 1 ", "encoder_layers = 100 ")])
def test_a_configuration_that_lies_takes_no_memory(tmp_path: Path, lie: tuple[str, str]) -> None:
    path = published(tmp_path / "model") / "config.toml"
    text = path.read_text()
    assert lie[0] in text
    path.write_text(text.replace(*lie, 1).replace("decoder_layers = 6 ", "decoder_layers = 100 "))
    work = "Translator.load(sys.argv[1], 'cpu', engine='torch')"
    megabytes, seconds, said = measured(
        "import torch\nfrom headway.tasks.translation.translator import Translator", work, path.parent
    )
    assert "model.safetensors" in said and "implies" in said
    assert megabytes < 100 and seconds < 10


@pytest.mark.parametrize("design", [EncoderDecoderDesign, LanguageModelDesign, TextEncoderDesign])
def test_weights_that_fit_are_filled_in(design: type[Any]) -> None:
    small = config.from_dict(design, SMALL)
    model = small.build(9)
    again = filled(lambda: small.build(9), weights_of(model))
    assert not again.training
    for name, weight in weights_of(model).items():
        assert weights_of(again)[name].equal(weight)


def test_a_vocabulary_beyond_all_bounds_is_one_line() -> None:
    with pytest.raises(UsageError, match=r"config\.toml: vocabulary is 2000000000"):
        filled(lambda: EncoderDecoderDesign().build(2_000_000_000), {})


# ---------------------------------------------------------------- configurations

DOTS = {
    "dots": "a" + ".a" * 100_000 + " = 1",
    "spaces": "a" + " . a" * 50_000 + " = 1",
    "a heading": "[" + ".".join(['"a"'] * 50_000) + "]",
    "inside a table": "x = {" + "a." * 100_000 + "a = 1}",
    "quotation marks": '"\\""' + '."\\""' * 30_000 + " = 1",
    "apostrophes": "'\"'" + ".'\"'" * 30_000 + " = 1",
}


@pytest.mark.parametrize("name", DOTS)
def test_a_key_of_many_parts_is_refused_at_once(name: str, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(f"seed = 1\n{DOTS[name]}\n")
    megabytes, seconds, said = measured("from headway import config", "config.read_toml(Path(sys.argv[1]))", path)
    assert said == f"{path}: line 2: a key has more than 16 parts; shorten it"
    assert megabytes < 20 and seconds < 1


def test_a_configuration_has_a_size(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("# " + "a" * config.LARGEST)
    with pytest.raises(UsageError, match="larger than 1,048,576 bytes"):
        config.read_toml(path)


@pytest.mark.parametrize("number", ["9" * 5000, "0x" + "f" * 5000])
def test_a_number_of_too_many_digits_is_one_line(number: str, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(f"seed = {number}\n")
    with pytest.raises(UsageError, match=r"config\.toml: [^\n]{1,200}$"):
        config.load(Run, path)


def test_long_names_and_values_are_cut(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    for text in (f"{'a' * 100_000} = 1", f'seed = "{"a" * 100_000}"'):
        path.write_text(text)
        with pytest.raises(UsageError) as caught:
            config.load(Run, path)
        assert len(str(caught.value)) < 1000


# ---------------------------------------------------------------- tokenisers

VOCABULARY = {piece: i for i, piece in enumerate(["<pad>", "<unk>", "<s>", "</s>", *"abcdefghijklmnop"])}
MODEL = {
    "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
    "fuse_unk": False, "byte_fallback": False, "vocab": VOCABULARY, "merges": [],
}  # fmt: skip
EMPTY = ("truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "decoder")
TABLE: dict[str, Any] = {"version": "1.0", "added_tokens": [], "model": MODEL} | dict.fromkeys(EMPTY)


def replacing(pattern: dict[str, str], content: str, times: int) -> dict[str, Any]:
    one = {"type": "Replace", "pattern": pattern, "content": content}
    return {"type": "Sequence", "normalizers": [one] * times}


def decoding(content: str, times: int) -> dict[str, Any]:
    return {
        "type": "Sequence",
        "decoders": [{"type": "Replace", "pattern": {"String": "a"}, "content": content}] * times,
    }


HOSTILE: dict[str, tuple[Any, str]] = {
    "doubling": (TABLE | {"normalizer": replacing({"String": "p"}, "pp", 40)}, "makes a text up to"),
    "between any two": (TABLE | {"normalizer": replacing({"Regex": "q*"}, "p" * 99, 1)}, "up to 100 times as long"),
    "prepending": (TABLE | {"normalizer": {"type": "Prepend", "prepend": "p" * 999}}, "up to 1e\\+03 times"),
    "decoding": (TABLE | {"decoder": decoding("a" * 9, 3)}, "its decoder has 3 steps"),
    "a long piece": (TABLE | {"model": MODEL | {"vocab": VOCABULARY | {"a" * 20_000: 20}}}, "20,000 characters"),
    "no table": ([], "not a JSON object"),
    "another table": ({"a": 1}, "cannot be used"),
    "deep": (TABLE | {"normalizer": json.loads("[" * 900 + "]" * 900)}, "cannot be used"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_tokenizer_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    table, said = HOSTILE[name]
    (tmp_path / "joint.tokenizer.json").write_text(json.dumps(table))
    with pytest.raises(UsageError, match=rf"joint\.tokenizer\.json: [^\n]*{said}"):
        load(tmp_path, "joint")


def test_a_sound_tokenizer_is_taken_and_a_template_cannot_repeat_a_text(tmp_path: Path) -> None:
    sequences = [{"Sequence": {"id": "A", "type_id": 0}}] * 1000
    pair = [{"Sequence": {"id": side, "type_id": 0}} for side in "AB"]
    template = {"type": "TemplateProcessing", "single": sequences, "pair": pair, "special_tokens": {}}
    (tmp_path / "joint.tokenizer.json").write_text(json.dumps(TABLE | {"post_processor": template}))
    assert load(tmp_path, "joint").encode("abc") == [4, 5, 6]


def test_a_tokenizer_that_takes_too_much_memory_ends_only_the_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "joint.tokenizer.json").write_text(json.dumps(TABLE))
    monkeypatch.setattr("headway.text.hub_trial.limits", lambda _: 64 << 20)
    with pytest.raises(UsageError, match="ends the process or takes too much memory"):
        load(tmp_path, "joint")
    assert HubPieces.read(tmp_path / "joint.tokenizer.json", trusted=True).encode("a") == [4]


@pytest.mark.parametrize("sign", ["[],", "{},", '"",'])
def test_json_of_many_entries_is_refused_before_it_is_read(sign: str) -> None:
    data = b"[" + sign.encode() * 8_000_000 + b"0]"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ValueError, match="entries; at most 4,194,304 are allowed"):
        files.parse_json(data)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


# ---------------------------------------------------------------- terminals

ESCAPES = "\x1b]0;title\x07\x1b[2J\x9b31m\u202e"


def test_a_terminal_obeys_no_foreign_text_and_a_file_gets_all_of_it() -> None:
    text = f"ß\t日{ESCAPES}\n"
    shown = fit_for(True, text)
    assert shown.startswith("ß\t日") and shown.endswith("\n") and not set(shown) & set(ESCAPES) - set("0;title[2J31m]")
    assert fit_for(False, text) == text


def test_an_error_about_a_hostile_name_is_harmless(tmp_path: Path) -> None:
    folder = published(tmp_path / "model")
    path = folder / "config.toml"
    path.write_text('"\\u001b]0;title\\u0007\\u009b31m" = 1\n' + path.read_text())
    code, said = fork_server.run(tmp_path, "translate", folder, "--device", "cpu", "--input", path)
    assert code == 2 and "unknown key" in said
    assert not set("\x1b\x07\x9b") & set(said)
