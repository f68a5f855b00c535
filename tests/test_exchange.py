"""Exports say what their model says, are refused where they do not, and never lie half-written."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch

from exchange_models import OTHERS, PIECES, SMALL, publish, trained
from headway import recipes
from headway.commands.export import export
from headway.engines.ctranslate2.convert import UNKNOWN, convert, different, unsupported_part
from headway.errors import RefusedError, UsageError
from headway.exchange import exports
from headway.exchange.agreement import Agreement, Trial, forced, tolerance
from headway.exchange.argos import write_argos
from headway.exchange.ctranslate2 import open_ctranslate2
from headway.exchange.destination import MARK
from headway.exchange.exports import choose_languages, export_model
from headway.exchange.folders import check_hub_folder, model_of, write_hub_folder
from headway.exchange.layout import activation_name
from headway.exchange.marian import check_marian
from headway.exchange.onnx import check_onnx_design
from headway.exchange.samples import probes, sample_sentences
from headway.exchange.trained import Trained, read_trained
from headway.model.design import EncoderDecoderDesign, TextEncoderDesign
from headway.model.feed_forward import FeedForward, Gelu, Swiglu, Swish
from headway.model.kernels import Fused, Linear, Mixing, Softmax
from headway.model.norms import BatchNorm, LayerNorm, Norm, RMSNorm
from headway.model.plain_design import with_plain_attention
from headway.model.positions import Alibi, Bucketed, Learned, NoPositions, Position, Rotary, Sinusoidal, TransformerXL
from headway.model.residuals import DeepNorm, Pre, Residual, ReZero, Sandwich
from headway.text.tokenizer import Characters, Subword
from headway.text.vocabulary import EOS
from texts import BPE, sentences

LLAMA = replace(recipes.llama(width=32, layers=2, heads=4, inner=48, key_heads=2), longest=48)
GPT2 = replace(recipes.gpt2(width=32, layers=2, heads=4), longest=48)


def trial(model: Trained, count: int = 4) -> Trial:
    return Trial(model, [*sentences(count, seed=9), *probes(model.source)])


def agreement(model: Trained, folder: Path, quantization: str | None = None, count: int = 4) -> Agreement:
    convert(model.design, model.tensors, *model.pieces(), folder, quantization)
    tried = trial(model, count)
    return tried.judge(open_ctranslate2(folder, model, tried.steps))


# ---------------------------------------------------------------- CTranslate2

VARIANTS: dict[str, dict[str, Any]] = {
    "the paper's": {},
    "pre-norm": {"residual": Pre()},
    "sandwich": {"residual": Sandwich()},
    "sandwich, rms": {"residual": Sandwich(), "norm": RMSNorm()},
    "deep": {"residual": DeepNorm()},
    "deep, learned": {"residual": DeepNorm(), "positions": Learned(), "tie_embeddings": "none"},
    "rms, swiglu, pre-norm": {"norm": RMSNorm(), "feed_forward": Swiglu(width=48), "residual": Pre()},
    "another epsilon": {"norm": LayerNorm(epsilon=1e-3)},
    "gelu": {"feed_forward": Gelu(width=48)},
    "gelu by tanh": {"feed_forward": Gelu(width=48, tanh=True)},
    "swish": {"feed_forward": Swish(width=48)},
    "learned": {"positions": Learned(), "longest": 128},
    "no positions": {"positions": NoPositions()},
    "other waves": {"positions": Sinusoidal(base=300.0)},
    "rotary": {"positions": Rotary()},
    "alibi": {"positions": Alibi()},
    "alibi, 6 heads": {"positions": Alibi(), "width": 36, "heads": 6},
    "bucketed": {"positions": Bucketed(buckets=8, furthest=9)},
    "grouped heads": {"key_heads": 2},
    "one key head, rotary": {"key_heads": 1, "positions": Rotary()},
    "wide heads": {"head_width": 12},
    "no biases": {"bias": False, "residual": Pre()},
    "unscaled embeddings": {"scale_embedding": False},
    "unscaled scores": {"attention": Fused(scaled=False), "cross_attention": Fused(scaled=False)},
    "written-out attention": {"attention": Softmax(), "encoder_attention": Softmax()},
    "an output bias": {"output_bias": True},
    "one layer reads": {"encoder_layers": 1, "decoder_layers": 3},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_ctranslate2_holds_every_variant(name: str, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    design = replace(SMALL, **VARIANTS[name])
    model = trained(design) if design.tie_embeddings != "none" else trained(design, PIECES, OTHERS)
    found = agreement(model, tmp_path / "out")
    assert found.worst <= 1e-4, found
    assert found.same >= found.sentences - 1, found


@pytest.mark.parametrize("design", [LLAMA, GPT2, replace(LLAMA, positions=Alibi())], ids=["llama", "gpt2", "alibi"])
def test_ctranslate2_holds_language_models(design: Any, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    found = agreement(trained(design), tmp_path / "out", count=0)
    assert found.worst <= 1e-4 and found.same == found.sentences


def test_ctranslate2_gives_the_same_tokens_for_200_sentences(tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    found = agreement(trained(replace(SMALL, tie_embeddings="output"), PIECES, OTHERS), tmp_path / "out", count=200)
    assert found.same / found.sentences >= 0.995


def test_the_scores_of_ctranslate2_are_ours(tmp_path: Path) -> None:
    ctranslate2 = pytest.importorskip("ctranslate2")
    model = trained()
    convert(model.design, model.tensors, *model.pieces(), tmp_path)
    source, target = (PIECES.encode(text) for text in sentences(2, seed=3))
    engine = ctranslate2.Translator(str(tmp_path), intra_threads=1)
    names = [[PIECES.piece(i) for i in ids] for ids in (source, target)]
    theirs = engine.score_batch([names[0]], [names[1]])[0].log_probs
    logits = forced(model.build(), source, target).detach()
    logits[:, :EOS] = -torch.inf  # padding, unknown and begin are forbidden in the file itself
    ours = logits.log_softmax(dim=-1).gather(-1, torch.tensor([*target, EOS])[:, None])[:, 0]
    assert theirs == pytest.approx(ours.tolist(), abs=1e-5)


@pytest.mark.parametrize("quantization", ["int8", "int16", "float16", "bfloat16"])
def test_fewer_bits_say_nearly_the_same_and_leave_the_model_alone(quantization: str, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    model = trained()
    before = {name: tensor.clone() for name, tensor in model.tensors.items()}
    found = agreement(model, tmp_path / "few", quantization)
    assert found.worst <= tolerance(quantization)
    assert all(torch.equal(before[name], model.tensors[name]) for name in before)
    convert(model.design, model.tensors, *model.pieces(), tmp_path / "all")
    sizes = [(tmp_path / name / "model.bin").stat().st_size for name in ("few", "all")]
    assert sizes[0] < sizes[1]


@pytest.mark.parametrize(
    ("more", "part"),
    [
        ({"positions": TransformerXL()}, "transformer_xl positions"),
        ({"attention": Linear()}, "linear attention"),
        ({"encoder_attention": Linear()}, "linear encoder attention"),
        ({"norm": BatchNorm()}, "batch norm"),
        ({"residual": ReZero()}, "rezero residual"),
        ({"attended_layers": "each", "decoder_layers": 2}, "other encoder layers"),
    ],
)
def test_ctranslate2_names_what_it_cannot_hold(more: dict[str, Any], part: str, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    design = replace(SMALL, **more)
    with pytest.raises(UsageError, match=part):
        convert(design, {}, [], [], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_pieces_of_one_name_are_told_apart() -> None:
    assert different(["<s>", "a", "<s>", "a"]) == ["<s>", "a", "<s>#2", "a#3"]


# ---------------------------------------------------------------- Hugging Face


HUB = {
    "joint": trained(),
    "apart": trained(replace(SMALL, tie_embeddings="output", feed_forward=Gelu(width=48)), PIECES, OTHERS),
    "untied": trained(
        replace(SMALL, tie_embeddings="none", output_bias=True, feed_forward=Swish(width=48)), PIECES, OTHERS
    ),
    "tags": trained(source=BPE),
    "lower case": trained(source=Subword(size=380, lowercase=True).learn(sentences(300))),
    "llama": trained(LLAMA),
    "gpt2, unigram": trained(GPT2, OTHERS),
}


@pytest.mark.parametrize("name", HUB)
def test_transformers_opens_the_folder_and_says_the_same(name: str, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    model = HUB[name]
    write_hub_folder(model, tmp_path)
    tried = trial(model, 2 if isinstance(model.design, EncoderDecoderDesign) else 0)
    found = tried.judge(check_hub_folder(tmp_path, tried))  # raw text in, raw text out, as a user would
    assert found.same == found.sentences >= 4


@pytest.mark.parametrize("name", ["joint", "apart", "untied"])
def test_marian_logits(name: str) -> None:
    pytest.importorskip("transformers")
    model = HUB[name]
    source, target = torch.randint(4, 300, (3, 9)), torch.randint(4, 300, (3, 7))
    target[:, 0] = 2
    with torch.no_grad():
        ours = model.build()(source, target)  # pyright: ignore[reportCallIssue]
        theirs = model_of(model)(source, decoder_input_ids=target).logits
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("model", "part"),
    [
        (trained(replace(SMALL, positions=Rotary())), "positions .* --to ctranslate2"),
        (trained(replace(SMALL, residual=Pre())), "residual .* --to ctranslate2"),
        (trained(source=Characters().learn(sentences(50))), "sentencepiece"),
    ],
)
def test_marian_names_what_it_cannot_hold(model: Trained, part: str, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    with pytest.raises(UsageError, match=part):
        write_hub_folder(model, tmp_path)


# ---------------------------------------------------------------- ONNX

ONNX = """
import sys, torch
torch.set_num_threads(1)
from pathlib import Path
from headway.exchange.exports import export_model
folder, out = map(Path, sys.argv[1:])
print(export_model(folder, "onnx", out).same)
"""


def test_onnx_gives_the_same_scores_with_any_batch_and_length(tmp_path: Path) -> None:
    """Exported in a process of its own: a tracer cannot pass through the checks that tests put around functions."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    from headway.exchange.onnx import OnnxModel, run

    parts = {"residual": Pre(), "norm": RMSNorm(), "positions": Rotary(), "key_heads": 2, "encoder_layers": 1}
    model = trained(replace(SMALL, **parts))
    folder = publish(tmp_path / "de-en", model)
    command = [sys.executable, "-W", "ignore", "-c", ONNX, str(folder), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0 and done.stdout.strip() == str(len(probes(PIECES))), done.stderr[-2000:]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "decoder.onnx", "encoder.onnx", MARK, "joint.spm",
    ]  # fmt: skip
    graphs, ours = OnnxModel(tmp_path / "out"), model.build()
    for rows, length in ((1, 1), (3, 12), (2, 30)):
        source, target = torch.randint(4, 300, (rows, length)), torch.randint(4, 300, (rows, 6))
        source[0, length // 2 + 1 :], target[:, 0] = 0, 2
        with torch.no_grad():
            wanted = ours(source, target).numpy()  # pyright: ignore[reportCallIssue]
        graphs.start(source.numpy())
        for step in range(target.size(1)):
            np.testing.assert_allclose(graphs.step(target[:, step].numpy()), wanted[:, step], atol=1e-4)
    tried = trial(model)
    assert [run(graphs, source) for source in tried.sources] == tried.outputs


# ---------------------------------------------------------------- Argos


def test_an_argos_package_has_the_layout_argos_reads(tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    folder = publish(tmp_path / "model", trained())
    export_model(folder, "argos", tmp_path / "out", "int8")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [MARK, "translate-de_en-1_0.argosmodel"]
    with zipfile.ZipFile(tmp_path / "out" / "translate-de_en-1_0.argosmodel") as package:
        inside = {name.removeprefix("translate-de_en-1_0/") for name in package.namelist()}
        facts = json.loads(package.read("translate-de_en-1_0/metadata.json"))
        settings = json.loads(package.read("translate-de_en-1_0/model/config.json"))
    needed = {"metadata.json", "README.md", "sentencepiece.model", "model/model.bin", "model/config.json"}
    assert needed <= inside and all("/" not in name or name.startswith("model/") for name in inside)
    named = {name: facts[name] for name in ("from_code", "from_name", "to_code", "to_name", "type")}
    assert named == {
        "from_code": "de",
        "from_name": "German",
        "to_code": "en",
        "to_name": "English",
        "type": "translate",
    }
    assert all(isinstance(facts[name], str) for name in ("package_version", "argos_version"))
    assert settings["add_source_eos"] is True and settings["decoder_start_token"] == "<s>"


@pytest.mark.slow
def test_argos_installs_the_package_and_translates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("argostranslate", reason="argostranslate is not installed")
    monkeypatch.setenv("ARGOS_PACKAGES_DIR", str(tmp_path / "packages"))
    monkeypatch.setenv("HOME", str(tmp_path))
    script = """
import sys
from pathlib import Path
from argostranslate import package, sbd, translate
sbd.MiniSBDSentencizer.split_sentences = lambda self, text: [text]  # its own model would be downloaded
package.install_from_path(Path(sys.argv[1]))
print(translate.translate(sys.argv[2], "de", "en"))
"""
    ctranslate2 = pytest.importorskip("ctranslate2")
    model, text = trained(), sentences(1)[0]
    export_model(publish(tmp_path / "model", model), "argos", tmp_path / "out")
    path = next((tmp_path / "out").glob("*.argosmodel"))
    command = [sys.executable, "-W", "ignore", "-c", script, str(path), text]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    convert(model.design, model.tensors, *model.pieces(), tmp_path / "plain")
    engine = ctranslate2.Translator(str(tmp_path / "plain"), compute_type="auto")  # as Argos opens it
    said = engine.translate_batch([PIECES.pieces(text)], beam_size=4, length_penalty=0.2)[0].hypotheses[0]
    names = {piece: i for i, piece in enumerate(model.pieces()[1])}
    wanted = PIECES.decode(names[piece] for piece in said).replace("_", " ")
    assert done.stdout.split() == wanted.split()


@pytest.mark.parametrize(
    ("model", "part"),
    [
        (trained(LLAMA), "language model"),
        (trained(source=BPE), "tags"),
        (trained(languages=("", "")), "--languages"),
        (trained(languages=("../x", "en")), "--languages"),
        (trained(source=Characters().learn(sentences(50))), "sentencepiece"),
    ],
)
def test_argos_says_what_it_cannot_hold(model: Trained, part: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=part):
        write_argos(model, tmp_path, None)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("given", "run", "folder", "pair"),
    [
        ("en-de", ("", ""), "toy", ("en", "de")),
        ("pt-BR-en", ("", ""), "toy", ("pt-BR", "en")),
        (None, ("cs", "en"), "fr-de", ("cs", "en")),
        (None, ("", ""), "toy", ("", "")),
    ],
)
def test_languages_are_given_or_found(given: str | None, run: Any, folder: str, pair: tuple[str, str]) -> None:
    assert choose_languages(given, replace(trained(), languages=run, name=folder)) == pair


# ---------------------------------------------------------------- refusals and places


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    return publish(tmp_path / "de-en", trained())


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name not in ("de-en", "out"))


@pytest.mark.parametrize("to", ["ctranslate2", "hf", "argos"])
def test_an_export_that_says_something_else_is_refused(
    to: str, model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ctranslate2")
    pytest.importorskip("transformers")
    target = exports.TARGETS[to]

    def tampered(model: Trained, folder: Path, quantization: str | None) -> None:
        wrong = {name: x * 1.3 if name.endswith("feed_forward.up.weight") else x for name, x in model.tensors.items()}
        target.write(replace(model, tensors=wrong), folder, quantization)

    monkeypatch.setitem(exports.TARGETS, to, replace(target, write=tampered))
    with pytest.raises(RefusedError, match="nothing was written") as caught:
        export_model(model_folder, to, tmp_path / "out")
    assert caught.value.exit_code == 5 and "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists() and leftovers(tmp_path) == []


def test_a_broken_engine_counts_as_disagreement() -> None:
    tried = trial(trained())
    with pytest.raises(RefusedError):
        tried.judge(lambda sources: [[10_000] for _ in sources]).demand("any")
    assert tried.judge(lambda _: tried.outputs).worst == 0


def test_what_is_there_is_not_overwritten(model_folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    out = tmp_path / "out"
    out.mkdir()
    export_model(model_folder, "ctranslate2", out)  # an empty folder is free
    before = (out / "model.bin").read_bytes()
    with pytest.raises(UsageError, match="--force"):
        export_model(model_folder, "ctranslate2", out)
    export_model(model_folder, "ctranslate2", out, "int8", force=True)
    assert (out / "model.bin").read_bytes() != before and json.loads((out / MARK).read_text())["quantization"] == "int8"
    assert leftovers(tmp_path) == []


def test_somebodys_files_are_never_replaced(model_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("years of work")
    (tmp_path / "file").write_text("a file")
    for out in (tmp_path / "out", tmp_path / "file"):
        with pytest.raises(UsageError, match="--out"):
            export_model(model_folder, "ctranslate2", out, force=True)
    assert (tmp_path / "out" / "thesis.txt").read_text() == "years of work"


def test_a_failed_replacement_leaves_the_old_export(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ctranslate2")
    export_model(model_folder, "ctranslate2", tmp_path / "out")
    before = sorted(path.name for path in (tmp_path / "out").iterdir())

    def fail(model: Trained, folder: Path, quantization: str | None) -> None:
        (folder / "half").write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(exports.TARGETS, "ctranslate2", replace(exports.TARGETS["ctranslate2"], write=fail))
    with pytest.raises(Exception, match="No space left") as caught:
        export_model(model_folder, "ctranslate2", tmp_path / "out", force=True)
    assert getattr(caught.value, "exit_code", None) == 3
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == before and leftovers(tmp_path) == []


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"to": "tflite"}, "hf, ctranslate2, onnx, argos"),
        ({"to": "hf", "quantization": "int8"}, "only ctranslate2 and argos"),
        ({"to": "ctranslate2", "quantization": "int3"}, "choose one of int8"),
        ({"to": "argos", "languages": "german"}, "en-de"),
        ({"to": "ctranslate2", "sample": Path("/nowhere")}, "nowhere"),
    ],
)
def test_wrong_options_are_one_line(options: dict[str, Any], part: str, model_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=part) as caught:
        export_model(model_folder, out=tmp_path / "out", **options)
    assert "\n" not in str(caught.value) and not (tmp_path / "out").exists()


def test_damaged_folders_are_refused(model_folder: Path, tmp_path: Path) -> None:
    weights = model_folder / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(UsageError, match="damaged"):
        export_model(model_folder, "ctranslate2", tmp_path / "out")
    with pytest.raises(UsageError, match="not a folder"):
        export_model(tmp_path / "nothing", "ctranslate2", tmp_path / "out")


def test_a_tagger_is_not_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = publish(tmp_path / "de-en", trained())
    text = (folder / "config.toml").read_text()
    start, end = text.index("[model]"), text.index("\n[", text.index("[model]"))
    (folder / "config.toml").write_text(f'{text[:start]}[model]\nkind = "encoder"\n{text[end:]}')
    with pytest.raises(UsageError, match=TextEncoderDesign.kind):
        read_trained(folder)


# ---------------------------------------------------------------- samples and the command


def test_sentences_come_from_the_file_the_log_or_the_vocabulary(tmp_path: Path) -> None:
    made = sample_sentences(tmp_path, PIECES, None)
    assert made == probes(PIECES) and len(made) >= 5 and all(PIECES.encode(text) for text in made)
    events = [{"event": "validate", "sample": {"source": text}} for text in ("Eins.", "Zwei.", "Eins.")]
    lines = [*map(json.dumps, events), "{broken", '{"sample": 5}', "[]"]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines))
    assert sample_sentences(tmp_path, PIECES, None) == ["Eins.", "Zwei.", *made]
    (tmp_path / "some.txt").write_text("\n a b \n\nc\n")
    assert sample_sentences(tmp_path, PIECES, tmp_path / "some.txt") == ["a b", "c"]
    (tmp_path / "none.txt").write_text("\n\n")
    with pytest.raises(UsageError, match="no sentence"):
        sample_sentences(tmp_path, PIECES, tmp_path / "none.txt")


def test_the_command_tells_how_it_went(model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ctranslate2")
    export(model_folder, to="ctranslate2", out=tmp_path / "out")
    count = len(probes(PIECES))
    assert f"{count} of {count} sentences translated identically" in capsys.readouterr().err


def test_every_kind_of_part_is_tried_or_refused() -> None:
    """A new activation, norm, residual or position must find its place in this file."""
    tried = {part.kind for more in VARIANTS.values() for part in more.values() if hasattr(part, "kind")}
    plain = {part.kind for part in (SMALL.feed_forward, SMALL.norm, SMALL.residual, SMALL.positions)}
    families = [get_args(family) for family in (FeedForward, Norm, Residual, Position)]
    assert {member.kind for family in families for member in family} == tried - {"softmax", "fused"} | plain | REFUSED


def test_the_guide_tells_what_each_target_holds() -> None:
    guide = (Path(__file__).parent.parent / "docs" / "export.md").read_text(encoding="utf-8")
    assert holdings() in guide, holdings()


def holdings() -> str:
    """A table of every kind of part and every target, by asking the targets."""
    families = {"residual": Residual, "norm": Norm, "feed_forward": FeedForward, "positions": Position}
    checks = (check_hub, check_ctranslate2, check_onnx_design)
    lines = ["| part | hf (Marian) | ctranslate2, argos | onnx |", "|---|---|---|---|"]
    for part, family in [*families.items(), ("attention", Mixing)]:
        for member in get_args(family):
            fitting = {"attention": Fused(scaled=False)} if member.kind == "tener" else {}
            field = "encoder_attention" if member.kind == "linformer" else part
            design = with_plain_attention(replace(SMALL, **{field: member()}, **fitting))
            lines.append(f"| {part}: {member.kind} | {' | '.join(holds(check, design) for check in checks)} |")
    return "\n".join(lines)


def check_ctranslate2(design: Any) -> None:
    if part := unsupported_part(design):
        raise UsageError(part)


def check_hub(design: Any) -> None:
    check_marian(design)
    activation_name("Marian", design.feed_forward)


def holds(check: Any, design: Any) -> str:
    try:
        check(design)
    except UsageError:
        return "-"
    return "yes"


REFUSED = {kind for kinds in UNKNOWN.values() for kind in kinds}
