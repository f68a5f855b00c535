"""Foreign folders become ours and say the same; what is hostile or damaged is refused, and nothing in it is run."""

from __future__ import annotations

import json
import os
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from exchange_models import (
    OTHERS,
    foreign_pieces,
    gpt2_folder,
    llama_folder,
    marian_folder,
    publish,
    trained,
    write_json,
)
from headway import Translator
from headway.commands.import_ import import_
from headway.errors import RefusedError, UsageError
from headway.exchange import pickles
from headway.exchange.agreement import continue_greedily
from headway.exchange.exports import export_model
from headway.exchange.imports import import_model
from headway.exchange.trained import read_trained
from headway.exchange.vocabularies import cut_like
from headway.model.models import LanguageModel
from headway.search import Limits
from headway.storage.folder import read_model
from headway.text import spm
from headway.text.hub import HubPieces
from headway.text.tokenizer import load
from headway.text.vocabulary import EOS, SPECIAL_PIECES
from texts import NASTY, sentences

transformers = pytest.importorskip("transformers", reason="transformers is not installed")
STEPS = 24


def greedy(model: Any, ids: list[int], end: int, **more: Any) -> list[int]:
    """What transformers says, without begin and end."""
    given = torch.tensor([ids])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = model.generate(
            given, attention_mask=torch.ones_like(given), num_beams=1, do_sample=False, max_new_tokens=STEPS, **more
        )
    said = found[0].tolist()
    return said[: said.index(end, 1)] if end in said[1:] else said


def marian_tokenizer(folder: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it recommends a package it does not use
        return transformers.MarianTokenizer.from_pretrained(folder)


# ---------------------------------------------------------------- Marian


@pytest.fixture(scope="module", params=["unigram", "bpe", "apart"])
def marian(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path, Path]:
    place = tmp_path_factory.mktemp("marian")
    kind = request.param
    theirs = marian_folder(place / "theirs", "bpe" if kind == "bpe" else "unigram", shared=kind != "apart")
    import_model(place / "theirs", place / "ours")
    return theirs, place / "theirs", place / "ours"


def test_raw_text_is_translated_as_by_transformers(marian: tuple[Any, Path, Path]) -> None:
    model, theirs, ours = marian
    tokenizer, translator = marian_tokenizer(theirs), Translator.load(ours, device="cpu", engine="torch")
    texts = [*sentences(6, seed=5), "Straße", "x ñ 日本 1", "grün  grün"]
    wanted = []
    for text in texts:
        said = greedy(model, tokenizer(text)["input_ids"], 0)
        wanted.append(tokenizer.decode(said, skip_special_tokens=True).strip())
    found = translator.translate(texts, beam=1, limits=Limits(ratio=0.0, extra=STEPS))
    assert [one.text.strip() for one in found] == wanted


def test_marian_logits_after_the_import(marian: tuple[Any, Path, Path]) -> None:
    """Piece by piece through both tables of numbers: the same scores to 1e-5."""
    model, theirs, ours = marian
    tables = [
        json.loads((theirs / name).read_text())
        for name in ("vocab.json", "target_vocab.json")
        if (theirs / name).exists()
    ]
    taken = read_trained(ours)
    pieces = ["▁ga", "mi", "▁ver", "er"]
    source = [taken.source.encode(text) for text in sentences(3, seed=2)][0]
    names = [taken.source.piece(i) for i in source]
    known = [(i, tables[0][name]) for i, name in zip(source, names, strict=True) if name in tables[0]]
    index = {taken.target.piece(i): i for i in range(len(taken.target))}
    written = [name for name in pieces if name in tables[-1]]
    shared = [name for name in tables[-1] if name in index and name not in SPECIAL_PIECES]
    with torch.no_grad():
        mine = taken.build()(
            torch.tensor([[*(i for i, _ in known), EOS]]), torch.tensor([[2, *(index[name] for name in written)]])
        )  # pyright: ignore[reportCallIssue]
        start = model.config.decoder_start_token_id
        yours = model(
            torch.tensor([[*(i for _, i in known), 0]]),
            decoder_input_ids=torch.tensor([[start, *(tables[-1][name] for name in written)]]),
        ).logits
    torch.testing.assert_close(
        mine[..., [index[name] for name in shared]],
        yours[..., [tables[-1][name] for name in shared]],
        atol=1e-5,
        rtol=1e-5,
    )


def test_languages_become_tags(marian: tuple[Any, Path, Path]) -> None:
    model, theirs, ours = marian
    taken, tokenizer = read_trained(ours), marian_tokenizer(theirs)
    assert taken.languages == ("de", "fr") and list(taken.source.tags) == ["fra"]
    text = sentences(1, seed=8)[0]
    ids = [taken.source.tags["fra"], *taken.source.encode(text), EOS]
    numbers = tokenizer(f">>fra<<{text}")["input_ids"]
    table = json.loads((theirs / "vocab.json").read_text())
    assert numbers[0] == table[">>fra<<"] and len(numbers) == len(ids)


@pytest.mark.parametrize("algorithm", ["unigram", "bpe"])
def test_what_source_spm_does_not_know_is_looked_up_in_vocab_json(algorithm: str, tmp_path: Path) -> None:
    """Letters that source.spm lacks and vocab.json has get the same numbers as in transformers."""
    marian_folder(tmp_path / "theirs", algorithm)
    table = json.loads((tmp_path / "theirs/vocab.json").read_text(encoding="utf-8"))
    cut = {piece.text for piece in spm.contents((tmp_path / "theirs/source.spm").read_bytes()).pieces}
    names = list(table)
    for new in ("ñ", "日本"):
        names[next(i for i, name in enumerate(names) if len(name) > 2 and name[0] != "<" and name not in cut)] = new
        cut.add(names[names.index(new)])
    write_json(tmp_path / "theirs/vocab.json", {name: i for i, name in enumerate(names)})
    import_model(tmp_path / "theirs", tmp_path / "ours")
    theirs, ours = marian_tokenizer(tmp_path / "theirs"), read_trained(tmp_path / "ours").source
    texts = ["x ñ 日本 1", "ñ", "日", "<s> ñ", "er geht ñ"]
    texts += ["日本ñ", "españa"] if algorithm == "unigram" else []  # bpe ends an unknown stretch at a letter with a row
    found = [[ours.piece(i) for i in ours.encode(text)] for text in texts]
    numbers = [theirs(text)["input_ids"][:-1] for text in texts]
    # A piece that source.spm gives and vocab.json lacks has a row of its own here, which equals that of <unk>.
    wanted = [[names[i] for i in row] for row in numbers]
    assert [[name if name in table or name in ("ñ", "日本") else "<unk>" for name in row] for row in found] == wanted
    assert "ñ" in found[0] and "日本" in found[0]
    assert [ours.encode(text) for text in texts] == ours.encode_many(texts)


def test_a_marian_model_goes_out_and_comes_back(tmp_path: Path) -> None:
    """Out by export, in by import: the same pieces under the same numbers, the same weights."""
    model = trained(source=OTHERS)
    folder = publish(tmp_path / "de-en", model)
    export_model(folder, "hf", tmp_path / "hub")
    import_model(tmp_path / "hub", tmp_path / "back")
    back = read_trained(tmp_path / "back")
    assert back.pieces() == model.pieces() and back.languages == ("de", "en")
    for name, tensor in model.tensors.items():
        torch.testing.assert_close(back.tensors[name], tensor, atol=0, rtol=0)


@pytest.mark.parametrize("algorithm", ["unigram", "bpe"])
def test_renumbered_pieces_cut_as_before(algorithm: str, tmp_path: Path) -> None:
    one, two = (foreign_pieces(tmp_path / f"{i}.spm", i, model_type=algorithm) for i in range(2))
    names = [*SPECIAL_PIECES, *sorted({p.id_to_piece(i) for p in (one, two) for i in range(3, len(p))}, reverse=True)]
    again = cut_like((tmp_path / "0.spm").read_bytes(), names)
    assert [again.piece(i) for i in range(len(again))] == names
    for text in [*sentences(60, seed=4), *NASTY, "ab ñ  ba", ""]:
        if "▁" not in text:
            wanted = [piece if one.piece_to_id(piece) != 0 else "<unk>" for piece in one.encode(text, out_type=str)]
            assert again.pieces(text) == wanted
    assert all(kind != spm.Kind.NORMAL or text in names for text, _, kind in spm.contents(again.model).pieces)


# ---------------------------------------------------------------- language models


def nameless(name_of: Callable[[int], str | None], i: int) -> bool:
    """Rows that only fill up the table, and what our search never lets out."""
    try:
        return name_of(i) in (None, *SPECIAL_PIECES)
    except IndexError:
        return True


@pytest.mark.parametrize(
    "write",
    [llama_folder, lambda f: gpt2_folder(f, True), lambda f: gpt2_folder(f, False)],
    ids=["llama", "json", "old"],
)
def test_language_models_go_on_as_in_transformers(write: Callable[[Path], Any], tmp_path: Path) -> None:
    model, encode, name_of = write(tmp_path / "theirs")
    import_model(tmp_path / "theirs", tmp_path / "ours")
    taken = read_trained(tmp_path / "ours")
    ours = taken.build()
    assert isinstance(ours, LanguageModel)
    begin, end = model.config.bos_token_id, model.config.eos_token_id
    never = [i for i in range(model.config.vocab_size) if i != end and nameless(name_of, i)]
    for text in [*sentences(3, seed=6), "ab ñ!"]:
        prompt = encode(text)
        said = greedy(model, [begin, *prompt], end, pad_token_id=end, suppress_tokens=never)[1 + len(prompt) :]
        mine = continue_greedily(ours, taken.source.encode(text), STEPS)
        assert [taken.target.piece(i) for i in mine] == [name_of(i) for i in said]


def test_a_language_model_cannot_be_tricked_by_its_special_pieces(tmp_path: Path) -> None:
    gpt2_folder(tmp_path / "theirs", True)
    import_model(tmp_path / "theirs", tmp_path / "ours")
    tokenizer = load(tmp_path / "ours", "joint")
    assert isinstance(tokenizer, HubPieces)
    for text in [*NASTY, "<|endoftext|>", "a<|endoftext|>b", "  two  spaces ", *sentences(20, seed=3)]:
        ids = tokenizer.encode(text)
        assert min(ids, default=EOS + 1) > EOS and max(ids, default=0) < len(tokenizer)
        assert tokenizer.decode(ids) == text
    assert tokenizer.encode_many(["a b", "c"]) == [tokenizer.encode("a b"), tokenizer.encode("c")]
    assert any(tokenizer.starts_word(i) for i in tokenizer.encode(" ga"))


# ---------------------------------------------------------------- pickles


class Bomb:
    """What a hostile pickle holds: a call that runs when it is opened."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.canary}",)


@pytest.fixture(scope="module")
def small_marian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small") / "theirs"
    marian_folder(folder)
    return folder


@pytest.fixture
def theirs(small_marian: Path, tmp_path: Path) -> Path:
    """A folder to damage."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    for path in small_marian.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def refusal(theirs: Path, out: Path, kind: type[Exception] = UsageError) -> str:
    with pytest.raises(kind) as caught:
        import_model(theirs, out)
    assert not out.exists() and "\n" not in str(caught.value)
    return str(caught.value)


def test_a_pickle_of_tensors_is_taken(theirs: Path, tmp_path: Path) -> None:
    weights = theirs / "model.safetensors"
    state = safetensors.torch.load_file(weights)
    weights.unlink()
    torch.save(state, theirs / "pytorch_model.bin")
    import_model(theirs, tmp_path / "ours")
    assert read_model(tmp_path / "ours").facts["imported"] == "marian"


@pytest.mark.parametrize("protocol", ["torch", "bare"])
def test_a_hostile_pickle_runs_nothing(protocol: str, theirs: Path, tmp_path: Path) -> None:
    (theirs / "model.safetensors").unlink()
    canary, table = tmp_path / "canary", {"model.shared.weight": Bomb(tmp_path / "canary")}
    if protocol == "torch":
        torch.save(table, theirs / "pytorch_model.bin")
    else:
        (theirs / "pytorch_model.bin").write_bytes(pickle.dumps(table))
    assert "refused" in refusal(theirs, tmp_path / "ours")
    assert not canary.exists()


def test_a_pickle_under_a_safe_name_runs_nothing(theirs: Path, tmp_path: Path) -> None:
    torch.save({"x": Bomb(tmp_path / "canary")}, theirs / "model.safetensors")
    assert "pickle" in refusal(theirs, tmp_path / "ours")
    assert not (tmp_path / "canary").exists()


def test_an_old_torch_opens_no_pickle(theirs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (theirs / "model.safetensors").rename(theirs / "pytorch_model.bin")
    monkeypatch.setattr(pickles.torch, "__version__", "2.9.1+cpu")
    assert "2.10" in refusal(theirs, tmp_path / "ours")


def test_something_else_than_tensors_is_refused(theirs: Path, tmp_path: Path) -> None:
    (theirs / "model.safetensors").unlink()
    torch.save([1, 2, 3], theirs / "pytorch_model.bin")
    assert "not a table of tensors" in refusal(theirs, tmp_path / "ours")


# ---------------------------------------------------------------- damage


def change(path: Path, **values: Any) -> None:
    write_json(path, json.loads(path.read_text()) | values)


CONFIGS: list[dict[str, Any]] = [
    {"model_type": "bert"},
    {"model_type": ["marian"]},
    {"encoder_layers": 10**9},
    {"encoder_layers": -1},
    {"encoder_layers": "2"},
    {"d_model": 2**40},
    {"d_model": 64},
    {"d_model": None},
    {"vocab_size": 10**12},
    {"vocab_size": 3},
    {"encoder_attention_heads": 0},
    {"encoder_ffn_dim": 10**9, "decoder_ffn_dim": 10**9},
    {"activation_function": "__import__('os').system('true')"},
    {"pad_token_id": -1},
    {"decoder_start_token_id": 10**6},
    {"eos_token_id": "</s>"},
    {"max_position_embeddings": -5},
]


@pytest.mark.parametrize("values", CONFIGS, ids=[next(f"{k}={v!r:.12}" for k, v in one.items()) for one in CONFIGS])
def test_a_configuration_that_lies_is_refused(values: dict[str, Any], theirs: Path, tmp_path: Path) -> None:
    change(theirs / "config.json", **values)
    refusal(theirs, tmp_path / "ours")


def damage_json(folder: Path) -> None:
    (folder / "config.json").write_text("{broken")


def damage_weights(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-10])


def lose_a_tensor(folder: Path) -> None:
    path = folder / "model.safetensors"
    state = safetensors.torch.load_file(path)
    del state["model.encoder.layers.0.fc1.weight"]
    safetensors.torch.save_file(state, path)


def quantize(folder: Path) -> None:
    path = folder / "model.safetensors"
    state = safetensors.torch.load_file(path)
    state["model.encoder.layers.0.fc1.weight"] = torch.zeros(48, 32, dtype=torch.int8)
    safetensors.torch.save_file(state, path)


def damage_pieces(folder: Path) -> None:
    (folder / "source.spm").write_bytes(b"\x0a\x80\x80\x80\x01" + b"x" * 100)


def lose_pieces(folder: Path) -> None:
    (folder / "target.spm").unlink()


def list_as_vocabulary(folder: Path) -> None:
    (folder / "vocab.json").write_text("[1, 2]")


def numbers_beyond(folder: Path) -> None:
    change(folder / "vocab.json", beyond=10**7)


def shards_outside(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    write_json(folder / "model.safetensors.index.json", {"weight_map": {"x": "../../etc/passwd"}})


def lose_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


@pytest.mark.parametrize(
    "damage",
    [
        damage_json, damage_weights, lose_a_tensor, quantize, damage_pieces, lose_pieces, list_as_vocabulary,
        numbers_beyond, shards_outside, lose_weights,
    ],
)  # fmt: skip
def test_damage_is_refused_in_one_line(damage: Callable[[Path], None], theirs: Path, tmp_path: Path) -> None:
    damage(theirs)
    refusal(theirs, tmp_path / "ours")


def test_shards_are_joined(theirs: Path, tmp_path: Path) -> None:
    whole = theirs / "model.safetensors"
    state = safetensors.torch.load_file(whole)
    whole.unlink()
    names = sorted(state)
    halves = {f"model-0000{i + 1}-of-00002.safetensors": names[i::2] for i in range(2)}
    for file, part in halves.items():
        safetensors.torch.save_file({name: state[name] for name in part}, theirs / file)
    table = {name: file for file, part in halves.items() for name in part}
    write_json(theirs / "model.safetensors.index.json", {"weight_map": table})
    import_model(theirs, tmp_path / "ours")
    assert read_trained(tmp_path / "ours").tensors


def test_an_import_that_says_something_else_is_refused(
    theirs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(theirs / "config.json", activation_function="relu")
    import headway.exchange.imports as imports

    true = imports.run_original

    def as_trained(foreign: Any, runs: str) -> Any:
        return true(type(foreign)(foreign.path, foreign.config | {"activation_function": "gelu"}, foreign.state), runs)

    monkeypatch.setattr(imports, "run_original", as_trained)
    assert "other scores" in refusal(theirs, tmp_path / "ours", RefusedError)


def test_a_model_that_is_there_stays(theirs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import_(theirs, out=tmp_path / "ours")
    assert "scores of" in capsys.readouterr().err
    before = (tmp_path / "ours" / "headway.json").read_bytes()
    with pytest.raises(UsageError, match="--force"):
        import_(theirs, out=tmp_path / "ours")
    assert (tmp_path / "ours" / "headway.json").read_bytes() == before
    import_(theirs, out=tmp_path / "ours", force=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="something else"):
        import_(theirs, out=tmp_path / "mine", force=True)


def test_the_licence_is_carried_over(theirs: Path, tmp_path: Path) -> None:
    (theirs / "README.md").write_text("---\nlanguage: de\nlicense: cc-by-4.0\n---\n# A model\n")
    import_model(theirs, tmp_path / "ours")
    assert "license: cc-by-4.0" in (tmp_path / "ours" / "README.md").read_text()
