"""A trace tells the truth: every number again, from the model itself or from a formula."""

from __future__ import annotations

import base64
import copy
import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from headway import config
from headway.errors import UsageError
from headway.inspection.attribution import reading_vectors
from headway.inspection.forward_pass import read
from headway.inspection.trace_request import EVERYTHING, Edit, Head, TooLongError, TraceRequest
from headway.model.feed_forward import Gelu, Swiglu
from headway.model.hooks import attention_layers
from headway.model.kernels import Linear, Linformer, Softmax
from headway.model.kernels.scores import Additive, Cosine
from headway.model.norms import BatchNorm, RMSNorm
from headway.model.positions import Alibi, Bucketed, Learned, NoPositions, Rotary, TransformerXL
from headway.model.residuals import DeepNorm, Pre, ReZero, Sandwich
from headway.search import score_texts
from headway.storage.byte_tables import unpack
from headway.tasks.trace import trace
from headway.tasks.translation.trace import differing
from headway.tasks.translation.translator import Translator
from headway.text.vocabulary import BOS, EOS
from looked import SENTENCE, made

CROSS = Head("decoder", 1, "cross", 2)


@pytest.fixture(scope="module")
def translator() -> Translator:
    return made()


@pytest.fixture(scope="module")
def whole(translator: Translator) -> dict[str, Any]:
    return trace(translator, TraceRequest(SENTENCE, include=EVERYTHING, top_k=7))


def source_of(found: dict[str, Any]) -> Tensor:
    return torch.tensor([[piece["id"] for piece in found["source"]["pieces"]]])


def ids_of(found: dict[str, Any]) -> list[int]:
    return [piece["id"] for piece in found["target"]["pieces"]]


@torch.no_grad()
def log_probabilities(translator: Translator, found: dict[str, Any]) -> Tensor:
    """The fast way that training and search go, nothing recorded."""
    return translator.model(source_of(found), torch.tensor([[BOS, *ids_of(found)[:-1]]]))[0].log_softmax(-1)


def values(table: dict[str, Any]) -> Tensor:
    return torch.tensor(table["data"]).view(table["shape"])


def stage_values(stage: dict[str, Any]) -> np.ndarray:
    steps = np.frombuffer(base64.b64decode(stage["data"]), dtype=np.uint8).reshape(stage["shape"])
    return stage["lo"] + steps / 255 * (stage["hi"] - stage["lo"])


# ---------------------------------------------------------------- pieces


def test_pieces_have_the_log_probabilities_of_the_model(translator: Translator, whole: dict[str, Any]) -> None:
    logp = log_probabilities(translator, whole)
    pieces = whole["target"]["pieces"]
    for row, piece in zip(logp, pieces, strict=True):
        assert piece["logp"] == pytest.approx(float(row[piece["id"]]), abs=1e-5)
        assert piece["rank"] == 1 + sum(value > row[piece["id"]] for value in row)
        assert piece["entropy"] == pytest.approx(float(torch.distributions.Categorical(logits=row).entropy()), abs=1e-4)
        best = sorted(range(len(row)), key=lambda i, row=row: -row[i])[:7]
        assert [one["id"] for one in piece["top"]] == best
        assert [one["logp"] for one in piece["top"]] == pytest.approx([float(row[i]) for i in best], abs=1e-5)
    assert whole["target"]["logp"] == pytest.approx(sum(piece["logp"] for piece in pieces), abs=1e-4)
    penalty = ((5 + len(pieces)) / 6) ** 0.6
    assert whole["target"]["score"] == pytest.approx(whole["target"]["logp"] / penalty, abs=1e-5)


def test_it_is_the_translation_of_the_translator_and_its_scores(translator: Translator) -> None:
    """What is said here is what `translate` says and what `score` thinks of it."""
    found = trace(translator, TraceRequest(SENTENCE, beam_size=3))
    usual = translator.translate([SENTENCE], beam=3, n_best=3)[0]
    assert [one["text"] for one in found["alternatives"]] == [usual.text, *(one.text for one in usual.alternatives)]
    assert found["alternatives"][0]["score"] == pytest.approx(usual.score, abs=1e-4)
    text = "Zwei Männer"
    forced = tuple(translator.tokenizers.target.encode(text))
    held = trace(translator, TraceRequest(SENTENCE, prefix=forced))["target"]["pieces"][: len(forced)]
    scored = translator.score([SENTENCE], [text])[0].token_scores[: len(forced)]
    assert [piece["logp"] for piece in held] == pytest.approx(scored, abs=1e-4)


def test_words_and_the_end(whole: dict[str, Any]) -> None:
    *pieces, end = whole["source"]["pieces"]
    assert (end["id"], end["text"], end["word"]) == (EOS, "</s>", -1)
    words: dict[int, str] = {}
    for piece in pieces:
        words[piece["word"]] = words.get(piece["word"], "") + piece["text"].replace("▁", "")
    assert list(words.values()) == SENTENCE.split() and list(words) == list(range(6))


def test_another_hypothesis_is_looked_at(translator: Translator) -> None:
    found = trace(translator, TraceRequest(SENTENCE, hypothesis=2))
    chosen = found["alternatives"][2]
    assert found["target"]["text"] == chosen["text"]
    assert found["target"]["logp"] == pytest.approx(chosen["logp"], abs=1e-4)


# ---------------------------------------------------------------- changes


def test_a_prefix_is_held(translator: Translator) -> None:
    forced = tuple(translator.tokenizers.target.encode("Die Bank"))
    found = trace(translator, TraceRequest(SENTENCE, prefix=forced))
    pieces = found["target"]["pieces"]
    assert tuple(ids_of(found)[: len(forced)]) == forced
    assert [piece["forced"] for piece in pieces] == [t < len(forced) for t in range(len(pieces))]
    plain = trace(translator, TraceRequest(SENTENCE))
    assert found["baseline"]["text"] == plain["target"]["text"]
    assert found["baseline"]["logp"] == pytest.approx(plain["target"]["logp"], abs=1e-4)


def test_silencing_a_head_is_zeroing_its_columns_of_the_output_matrix(translator: Translator) -> None:
    other = copy.deepcopy(translator)
    layer = attention_layers(other.model)[CROSS.attention]
    with torch.no_grad():
        layer.out.weight[:, CROSS.head * layer.head_width : (CROSS.head + 1) * layer.head_width] = 0
    silenced = trace(translator, TraceRequest(SENTENCE, ablate=(CROSS,)))
    zeroed = trace(other, TraceRequest(SENTENCE))
    assert ids_of(silenced) == ids_of(zeroed)
    assert silenced["target"]["logp"] == pytest.approx(zeroed["target"]["logp"], abs=1e-4)
    before = silenced["baseline"]
    ends = trace(translator, TraceRequest(SENTENCE))["target"]["pieces"][-1]["id"] == EOS
    again = score_texts(other.model, source_of(zeroed), [before["ids"]])[0]
    assert before["logp_now"] == pytest.approx(sum(again.token_scores[: len(before["ids"]) + ends]), abs=1e-4)
    assert before["logp_now"] != pytest.approx(before["logp"], abs=1e-3)


def test_edits_replace_and_drop(translator: Translator) -> None:
    tokenizer = translator.tokenizers.source
    place = tokenizer.pieces(SENTENCE).index("▁the")
    found = trace(translator, TraceRequest(SENTENCE, edit=(Edit(0, ""), Edit(place, "little cat"))))
    text = SENTENCE.removeprefix("a ").replace("the", "little cat")
    assert source_of(found).tolist() == [[*tokenizer.encode(text), EOS]]
    assert trace(translator, TraceRequest(text))["target"] == found["target"]
    assert found["baseline"]["text"] == trace(translator, TraceRequest(SENTENCE))["target"]["text"]


def test_what_differs_is_found_though_it_moved() -> None:
    assert differing([5, 6, 7, 3], [5, 9, 6, 7, 3]) == [1]
    assert differing([5, 6, 3], [5, 6, 3]) == []


def test_a_trace_leaves_no_trace_in_other_threads(translator: Translator) -> None:
    """Some silence heads while others look: all get what they would have got alone."""
    requests = [
        TraceRequest(SENTENCE, ablate=heads, beam_size=2, include=("attention", "beam")) for heads in ((), (CROSS,))
    ]
    alone = [trace(translator, request) for request in requests]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda request: trace(translator, request), requests))
    for one, other in zip(alone, together, strict=True):
        assert one["target"]["text"] == other["target"]["text"] and one["attention"] == other["attention"]
        assert one["target"]["logp"] == pytest.approx(other["target"]["logp"], abs=1e-5)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in translator.model.modules())


# ---------------------------------------------------------------- attention and search


def test_weights_add_up_to_one_and_hide_the_future(whole: dict[str, Any]) -> None:
    source, target = len(whole["source"]["pieces"]), len(whole["target"]["pieces"])
    shapes = {"encoder": (source, source), "decoder": (target, target), "cross": (target, source)}
    for name, shape in shapes.items():
        table = unpack(whole["attention"][name])
        assert tuple(table.shape) == (2, 4, *shape)
        assert (table.sum(-1) - 1).abs().max() <= shape[1] / 510 + 1e-6  # each byte is off by half a step at most
    assert (unpack(whole["attention"]["decoder"]).triu(1) == 0).all()


def test_recorded_and_fused_attention_agree(translator: Translator, whole: dict[str, Any]) -> None:
    ids = [piece for piece in ids_of(whole) if piece != EOS]
    reading = read(translator.model, source_of(whole), ids, finished=len(ids) < len(ids_of(whole)))
    torch.testing.assert_close(reading.logp, log_probabilities(translator, whole), rtol=0, atol=1e-5)


def path_to(beam: dict[str, Any], step: int, node: dict[str, Any]) -> list[dict[str, Any]]:
    """From a candidate back to the beginning."""
    if step == 0:
        return [node]
    parent = next(one for one in beam["steps"][step - 1] if one["row"] == node["parent"])
    return [*path_to(beam, step - 1, parent), node]


def test_the_beam_is_a_tree_whose_totals_add_up(translator: Translator) -> None:
    found = trace(translator, TraceRequest(SENTENCE, include=("beam", "attention"), beam_size=3, alpha=1.0))
    beam, ends = found["beam"], []
    for step, candidates in enumerate(beam["steps"]):
        assert sum(one["row"] is not None for one in candidates) <= 3
        for one in candidates:
            path = path_to(beam, step, one)
            assert one["total"] == pytest.approx(sum(node["score"] for node in path), abs=1e-3)
            assert one["normalised"] == pytest.approx(one["total"] * 6 / (5 + step + 1), abs=1e-3)
            ends += [(one["normalised"], path)] if one["fate"] == "finished" else []
    ends.sort(key=lambda pair: -pair[0])
    assert [one["score"] for one in found["alternatives"]] == pytest.approx([e[0] for e in ends[:3]], abs=1e-4)
    assert [node["piece"] for node in ends[0][1]] == ids_of(found)
    mean = unpack(found["attention"]["cross"])[-1].mean(0)  # what a pass over the finished text sees
    for step, node in enumerate(ends[0][1][:-1]):
        seen = np.frombuffer(base64.b64decode(beam["cross"][step][node["row"]]), dtype=np.uint8) / 255
        np.testing.assert_allclose(seen, mean[step], atol=0.01)


# ---------------------------------------------------------------- lens and stages


@pytest.mark.parametrize("choice", [{}, {"residual": Pre()}], ids=["post", "pre"])
def test_the_last_layer_of_the_lens_is_the_output(choice: dict[str, Any]) -> None:
    found = trace(made(**choice), TraceRequest(SENTENCE, include=("lens",), top_k=5))
    assert found["lens"]["layers"] == len(found["lens"]["cells"]) == 2
    for cell, piece in zip(found["lens"]["cells"][-1], found["target"]["pieces"], strict=True):
        assert [one["text"] for one in cell] == [one["text"] for one in piece["top"]]
        assert [one["p"] for one in cell] == pytest.approx([math.exp(one["logp"]) for one in piece["top"]], abs=1e-5)


def test_stages_follow_from_each_other(whole: dict[str, Any], translator: Translator) -> None:
    stages = whole["inside"]["stages"]
    tables = {(s["stack"], s["layer"], s["part"], s["name"], s["head"]): stage_values(s) for s in stages}
    cross = unpack(whole["attention"]["cross"])
    position = whole["inside"]["position"]
    assert position == len(whole["target"]["pieces"]) - 1
    np.testing.assert_allclose(
        tables["decoder", 1, "cross-attention", "weights", None], cross[1, :, position], atol=0.01
    )
    scores = tables["decoder", 1, "cross-attention", "scores", None]
    weights = torch.tensor(scores).softmax(-1)
    np.testing.assert_allclose(weights, cross[1, :, position], atol=0.03)
    norm = tables["decoder", 1, "feed-forward", "norm", None]
    layer = translator.model.decoder.layers[1].get_submodule("around_feed.norm")
    with torch.no_grad():
        again = layer(torch.tensor(tables["decoder", 1, "feed-forward", "residual", None], dtype=torch.float32))
    np.testing.assert_allclose(norm, again, atol=0.05)
    chances = tables["decoder", None, "output", "probabilities", None]
    top = [math.exp(one["logp"]) for one in whole["target"]["pieces"][-1]["top"]]
    np.testing.assert_allclose(chances[0, :7], top, atol=0.01)


def test_stages_come_in_the_order_of_the_placement() -> None:
    def order(**choice: Any) -> list[str]:
        found = trace(made(**choice), TraceRequest(SENTENCE, include=("inside",)))
        return [s["name"] for s in found["inside"]["stages"] if s["part"] == "feed-forward" and s["layer"] == 0][:4]

    assert order() == ["inner", "feed-forward", "residual", "norm"]
    assert order(residual=Pre()) == ["norm", "inner", "feed-forward", "residual"]
    assert order(residual=Sandwich()) == ["norm", "inner", "feed-forward", "norm"]


# ---------------------------------------------------------------- causes


def test_integrated_gradients_are_complete(whole: dict[str, Any]) -> None:
    table = whole["attribution"]["integrated"]
    check = table["check"]
    assert check["found"] == pytest.approx(float(values(table).sum()), abs=1e-3)
    assert check["found"] == pytest.approx(check["expected"], abs=0.02 + 0.03 * abs(check["expected"]))


def test_gradients_are_the_slope_of_the_log_probability(translator: Translator, whole: dict[str, Any]) -> None:
    """The sum over the source of input times gradient is the slope when all its vectors grow together."""
    model, source = copy.deepcopy(translator.model).double(), source_of(whole)
    target = torch.tensor([[BOS, *ids_of(whole)[:-1]]])
    vectors, step = model.source_embedding(source).detach(), 1e-4

    @torch.no_grad()
    def chosen(scale: float) -> Tensor:
        with reading_vectors(model, vectors * scale):
            return model(source, target)[0].log_softmax(-1).gather(1, torch.tensor(ids_of(whole))[:, None])[:, 0]

    slope = (chosen(1 + step) - chosen(1 - step)) / (2 * step)
    found = values(whole["attribution"]["gradient"]).sum(dim=1)
    torch.testing.assert_close(found, slope.float(), rtol=1e-3, atol=1e-3)


def test_occlusion_is_scoring_without_a_piece(translator: Translator, whole: dict[str, Any]) -> None:
    table, source, ids = values(whole["attribution"]["occlusion"]), source_of(whole)[0].tolist(), ids_of(whole)
    before = [piece["logp"] for piece in whole["target"]["pieces"]]
    for place in range(len(source)):
        without = torch.tensor([source[:place] + source[place + 1 :]])
        with torch.no_grad():
            logp = translator.model(without, torch.tensor([[BOS, *ids[:-1]]]))[0].log_softmax(-1)
        expected = [was - float(row[piece]) for was, row, piece in zip(before, logp, ids, strict=True)]
        assert table[:, place].tolist() == pytest.approx(expected, abs=1e-4)


# ---------------------------------------------------------------- every kind of model


@pytest.mark.parametrize(
    "choice",
    [
        {"positions": Rotary(), "residual": Pre(), "norm": RMSNorm(), "feed_forward": Swiglu(), "key_heads": 2},
        {"positions": Alibi(), "residual": Sandwich(), "feed_forward": Gelu()},
        {"positions": Learned(), "residual": ReZero(), "scale_embedding": False},
        {"positions": Bucketed(), "norm": BatchNorm(), "attended_layers": "each", "tie_embeddings": "all"},
        {"positions": TransformerXL(), "residual": DeepNorm()},
        {"positions": NoPositions(), "attention": Linear(), "cross_attention": Linear()},
        {"attention": Softmax(score=Cosine()), "cross_attention": Softmax(score=Additive())},
        {"encoder_attention": Linformer(rank=5)},
    ],
    ids=lambda choice: next(iter(choice.values())).kind,
)
def test_every_kind_of_model_can_be_looked_into(choice: dict[str, Any]) -> None:
    translator = made(**choice)
    found = trace(translator, TraceRequest(SENTENCE, beam_size=2, include=EVERYTHING))
    assert found["model"]["position"] == translator.run.model.positions.kind
    for table in found["attention"].values():
        assert (unpack(table).sum(-1) - 1).abs().max() <= table["shape"][-1] / 510 + 1e-6
    assert len(found["heads"]) == 24
    parts = {stage["part"] for stage in found["inside"]["stages"]}
    assert parts == {"embedding", "self-attention", "cross-attention", "feed-forward", "output"}
    check = found["attribution"]["integrated"]["check"]
    assert check["found"] == pytest.approx(check["expected"], abs=0.1 + 0.08 * abs(check["expected"]))


def test_facts_of_the_model(translator: Translator) -> None:
    found = trace(translator, TraceRequest(SENTENCE, model="mine"))["model"]
    assert found["name"] == "mine" and (found["source"], found["target"]) == ("en", "de")
    assert found["parameters"] == sum(p.numel() for p in translator.model.parameters())
    assert (found["width"], found["heads"], found["inner"], found["position"]) == (32, 4, 64, "sinusoidal")
    assert found["steps"] is None and found["peak_rate"] is None  # never trained


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"q": " \n"}, "empty"),
        ({"beam_size": 11}, "beam_size is 11; it must be from 1 to 10"),
        ({"alpha": 3}, "alpha is 3"),
        ({"top_k": 0}, "top_k"),
        ({"hypothesis": 4}, "hypothesis"),
        ({"position": 99}, "position is 99"),
        ({"prefix": [EOS]}, "prefix"),
        ({"prefix": [100_000]}, "prefix"),
        ({"edit": [{"pos": 40, "piece": "x"}]}, "edit at 40"),
        ({"edit": [{"pos": 0, "piece": "▁a"}] * 33}, "at most 32"),
        ({"ablate": [{"stack": "decoder", "layer": 9, "kind": "cross", "head": 0}]}, "no layer"),
        ({"ablate": [{"stack": "decoder", "layer": 0, "kind": "cross", "head": 4}]}, "heads 0 to 3"),
        ({"include": ["everything"]}, "include"),
        ({"beam": 3}, "unknown key beam"),
    ],
)
def test_wrong_requests_get_one_clear_line(translator: Translator, asked: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said) as refused:
        trace(translator, config.from_dict(TraceRequest, {"q": SENTENCE, **asked}, "request"))
    assert "\n" not in str(refused.value)


def test_long_texts_are_refused(translator: Translator) -> None:
    with pytest.raises(TooLongError, match="at most 128"):
        trace(translator, TraceRequest("dog " * 200))
    with pytest.raises(TooLongError, match="at most 128"):
        TraceRequest(SENTENCE, prefix=(9,) * 129)
    with pytest.raises(UsageError, match="every piece was dropped"):
        trace(translator, TraceRequest("the", edit=(Edit(0, ""),)))


def test_heads_have_short_names() -> None:
    assert Head.parse("decoder.1.cross.2") == CROSS and str(CROSS) == "decoder.1.cross.2"
    for wrong in ("decoder.1.cross", "encoder.0.cross.1", "decoder.x.self.0", ""):
        with pytest.raises(UsageError, match="write stack"):
            Head.parse(wrong)
