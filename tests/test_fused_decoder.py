"""The lean decoding step: its kernels equal their references, its search says what the ordinary one says.

Kernels run on a card, or anywhere with Triton and TRITON_INTERPRET=1; elsewhere only what needs no kernel is tested.
"""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from captured import Play
from headway.engines.cuda import captured_beam, fused_decoder, indexed_attention
from headway.engines.cuda.beam_buffers import Extent, Trellis, walk
from headway.model.design import EncoderDecoderDesign
from headway.model.feed_forward import Gelu, Relu, Swiglu
from headway.model.kernels import Softmax
from headway.model.models import EncoderDecoder
from headway.model.norms import RMSNorm
from headway.model.positions import Learned, Rotary
from headway.model.residuals import DeepNorm, Pre, Sandwich
from headway.search import Beam, Limits
from headway.text.vocabulary import EOS

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
RUNS = fused_decoder.settle is not None and (torch.cuda.is_available() or os.environ.get("TRITON_INTERPRET") == "1")
kernels = pytest.mark.skipif(not RUNS, reason="needs Triton, and a CUDA device or its interpreter")

PLAIN = EncoderDecoderDesign(width=32, heads=2, encoder_layers=1, decoder_layers=2, feed_forward=Relu(width=64))
PRE = replace(PLAIN, residual=Pre(), norm=RMSNorm(), feed_forward=Swiglu(width=64), key_heads=1, output_bias=True)
DEEP = replace(PLAIN, residual=DeepNorm(), positions=Learned(), feed_forward=Gelu(width=64), bias=False)
DESIGNS = {"post": PLAIN, "pre": replace(PLAIN, residual=Pre()), "rms": PRE, "deep": DEEP}


def build(design: EncoderDecoderDesign, pieces: int = 150) -> EncoderDecoder:
    model = design.build(pieces).to(DEVICE).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # wide enough apart that rounding changes no choice
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def sources(rows: int, length: int, pieces: int = 150) -> torch.Tensor:
    source = torch.randint(4, pieces, (rows, length))
    source[:, -1] = EOS
    source[rows // 2, length // 2 :] = 0
    source[rows // 2, length // 2 - 1] = EOS
    return source


# ---------------------------------------------------------------- without kernels


@pytest.mark.parametrize("name", DESIGNS)
def test_ordinary_parts_are_lean(name: str) -> None:
    assert fused_decoder.unsupported_part(DESIGNS[name].build(50)) is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"residual": Sandwich()}, "SandwichNorm"),
        ({"positions": Rotary()}, "RotaryPositions"),
        ({"cross_attention": Softmax()}, "SoftmaxKernel"),
        ({"width": 24}, "width 12"),
    ],
)
def test_other_parts_are_not(change: dict[str, Any], reason: str) -> None:
    assert reason in (fused_decoder.unsupported_part(replace(PLAIN, **change).build(50)) or "")


def test_without_a_card_the_model_writes_itself() -> None:
    model = PLAIN.build(50)
    assert fused_decoder.unsupported(model, 2) in ("Triton is not installed", "the model is on cpu")
    assert isinstance(captured_beam.leanest_writer(model, Extent(1, 2, 1, 16, 1)), captured_beam.ModelWriter)


def test_norms_follow_the_sublayer_above() -> None:
    model = DESIGNS["pre"].build(50)
    layers = list(fused_decoder.blocks(model))
    norms = [each.norm for each in fused_decoder.joins(model)]
    assert norms[0] is layers[0].around_self.norm
    assert norms[3] is layers[1].around_self.norm
    assert norms[-1] is model.decoder.last_norm
    deep = fused_decoder.joins(DEEP.build(50))
    assert deep[0].norm is None and deep[1].weight == pytest.approx(6**0.25)


def test_walking_back_follows_parents() -> None:
    steps, sentences, size = 6, 3, 4
    parents = np.random.default_rng(0).integers(0, size, (steps, sentences, size))
    lengths, rows = np.array([[6, 2], [1, 4], [3, 6]]), np.array([[0, 3], [1, 1], [2, 0]])
    path = walk(parents, lengths, rows)
    for i in range(sentences):
        for j in range(2):
            row = rows[i, j]
            for t in reversed(range(lengths[i, j])):
                assert path[t, i, j] == row
                row = parents[t, i, row]


# ---------------------------------------------------------------- kernels


def mixed(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float) -> torch.Tensor:
    """q [h e], k and v [s g e]; spelled out."""
    k, v = (x.repeat_interleave(len(q) // x.size(1), dim=1) for x in (k, v))
    return torch.einsum("hs,she->he", (torch.einsum("he,she->hs", q, k) * scale).softmax(dim=-1), v).flatten()


@kernels
@pytest.mark.parametrize(("kind", "bound"), [(torch.float32, 1e-5), (torch.bfloat16, 1e-2)])
@pytest.mark.parametrize("width", [64, 40])  # heads of any width may be asked for
def test_slot_attention_follows_the_index(width: int, kind: torch.dtype, bound: float) -> None:
    from headway.engines.cuda.indexed_keys import slot_attention

    torch.manual_seed(0)
    n, h, s = 6, 3, 48
    q = torch.randn(n, 1, h, width, device=DEVICE, dtype=kind).transpose(1, 2)
    k, v = (torch.randn(n, h, s, width, device=DEVICE, dtype=kind) for _ in range(2))
    origin = torch.randint(0, n, (n, s), device=DEVICE)
    for start in (torch.tensor([[5]], device=DEVICE), torch.randint(0, s, (n, 1), device=DEVICE)):
        wanted = indexed_attention.slot_attention(q.double(), k.double(), v.double(), start, origin, 0.125)
        found = slot_attention(q, k, v, start, origin, 0.125).double()
        assert float((found - wanted).norm() / wanted.norm()) < bound


@kernels
@pytest.mark.parametrize(("beam", "groups"), [(1, 1), (3, 1), (2, 2)])
def test_own_attention_writes_and_looks_back(beam: int, groups: int) -> None:
    assert fused_decoder.own_attention is not None
    heads, width, room, sentences = 4, 16, 48, 2
    rows, key_heads = sentences * beam, heads // groups
    qkv = torch.randn(rows, (heads + 2 * key_heads) * width, device=DEVICE)
    cache = torch.randn(2, rows, key_heads, room, width, device=DEVICE)
    origin = torch.randint(0, beam, (2, rows, room), dtype=torch.int32, device=DEVICE)
    owner, steps = (torch.tensor(x, dtype=torch.int32, device=DEVICE) for x in ([2, 0], [0, 9, 37]))
    before = cache.clone()
    found = fused_decoder.own_attention(qkv, cache, origin, owner, steps, heads, 0.3)
    for row in range(rows):
        t, first = int(steps[owner[row // beam]]), row // beam * beam
        q, k_new, v_new = qkv[row].view(-1, width).split([heads, key_heads, key_heads])
        writers = [first + int(origin[t % 2, row, s]) for s in range(t)]
        k, v = (
            torch.stack([*(before[i, w, :, s] for s, w in enumerate(writers)), new])
            for i, new in enumerate((k_new, v_new))
        )
        torch.testing.assert_close(found[row], mixed(q, k, v, 0.3), atol=1e-5, rtol=1e-4)
        before[0, row, :, t], before[1, row, :, t] = k_new, v_new
    assert torch.equal(cache, before)


@kernels
@pytest.mark.parametrize(("beam", "length", "groups"), [(1, 16, 1), (3, 80, 1), (8, 48, 2)])
def test_source_attention_skips_padding(beam: int, length: int, groups: int) -> None:
    assert fused_decoder.source_attention is not None
    heads, width, sentences = 4, 16, 2
    key_heads = heads // groups
    q = torch.randn(sentences * beam, heads * width, device=DEVICE)
    keys = torch.randn(sentences + 1, length, 2 * key_heads * width, device=DEVICE)
    lengths = torch.tensor([9, length, 5], device=DEVICE)
    owner = torch.tensor([1, 2], dtype=torch.int32, device=DEVICE)
    real = torch.arange(length, device=DEVICE)[None] < lengths[:, None]
    found = fused_decoder.source_attention(q, keys, real, owner, heads, 0.3)
    for row in range(len(q)):
        b = int(owner[row // beam])
        k, v = keys[b, : int(lengths[b])].unflatten(1, (2, key_heads, width)).unbind(1)
        torch.testing.assert_close(found[row], mixed(q[row].view(heads, width), k, v, 0.3), atol=1e-5, rtol=1e-4)


def opened(extent: Extent, caps: list[int], search: Beam) -> Trellis:
    """On the device, as the host opens it."""
    trellis, host = Trellis.empty(extent, DEVICE), Trellis.empty(extent, torch.device("cpu"))
    host.open(torch.tensor(caps), search)
    trellis.restart(host)
    return trellis


@kernels
def test_settling_gives_the_choices_of_the_reference() -> None:
    """Step by step from the same logits, ties and ends among them."""
    assert fused_decoder.settle is not None
    for size, keep, alpha, patience in ((1, 1, 0.6, None), (3, 2, 1.0, None), (4, 4, 0.0, 1.0), (8, 3, 0.6, None)):
        search = Beam(size=size, n_best=keep, alpha=alpha, patience=patience)
        extent = Extent(3, size, keep, 16, 3)
        ours, theirs = (opened(extent, [11, 5], search) for _ in range(2))
        origin = torch.zeros(2, 3 * size, 16, dtype=torch.int32, device=DEVICE)
        read = torch.zeros(3, size, 0, dtype=torch.long, device=DEVICE)
        for step in range(11):
            logits = 2 * torch.randn(3 * size, 200, device=DEVICE)
            logits[:, EOS] += 3
            going = theirs.done == 0
            fused_decoder.settle(logits, ours, origin, search.enough)
            parents = theirs.advance(logits, search).long()
            wide = torch.cat([read, torch.arange(size, device=DEVICE).expand(3, size)[..., None]], dim=2)
            read = wide.gather(1, parents[..., None].expand(-1, -1, step + 1))
            filled = (theirs.ended_scores > -torch.inf)[..., None]
            for each in (ours, theirs):
                each.ended.masked_fill_(~filled, 0)
            for name in ("last", "totals", "step", "ended_scores", "ended", "done", "count"):
                a, b = getattr(ours, name)[going], getattr(theirs, name)[going]
                torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4, msg=f"{name} at {step}, beam {size}")
            assert torch.equal(ours.log[step, :2][:, going], theirs.log[step, :2][:, going])
            assert int(ours.left) == int(theirs.left)
            followed = origin[(step + 1) % 2].view(3, size, 16)[going, :, : step + 1]
            assert size == 1 or torch.equal(followed.long(), read[going])
        assert int(ours.left) == 0


@kernels
def test_ties_go_to_the_lower_row_and_piece() -> None:
    assert fused_decoder.settle is not None
    size, pieces, search = 4, 200, Beam(size=4)
    trellis = opened(Extent(1, size, 1, 16, 1), [9], search)
    trellis.totals.zero_()  # all rows alive and alike
    logits = torch.randint(0, 3, (1, pieces), device=DEVICE).float()
    logits[:, : EOS + 1] = 0
    logits[:, 20::40] = 5
    fused_decoder.settle(logits.repeat(size, 1), trellis, torch.zeros(2, size, 16, dtype=torch.int32, device=DEVICE), 9)
    assert trellis.last.tolist() == [[20, 60, 100, 140]]
    assert trellis.log[0, 1].tolist() == [[0, 0, 0, 0]]
    trellis = opened(Extent(1, size, 1, 16, 1), [9], search)
    trellis.totals.zero_()
    logits[:, 60::40] = 0
    fused_decoder.settle(logits.repeat(size, 1), trellis, torch.zeros(2, size, 16, dtype=torch.int32, device=DEVICE), 9)
    assert trellis.last.tolist() == [[20, 20, 20, 20]]
    assert trellis.log[0, 1].tolist() == [[0, 1, 2, 3]]


# ---------------------------------------------------------------- the whole search


@kernels
@pytest.mark.parametrize(("name", "size", "lanes"), [*product(DESIGNS, [1, 3], [4]), ("post", 3, 2), ("pre", 1, 1)])
def test_lean_search_equals_the_ordinary_one(name: str, size: int, lanes: int) -> None:
    """Also where sentences wait for a lane."""
    model = build(DESIGNS[name])
    search = Beam(size=size, n_best=min(2, size), limits=Limits(ratio=1.0, extra=4))
    source = sources(3, 8)
    shape = captured_beam.room_for(source, search.limits)
    with torch.inference_mode():
        writer = fused_decoder.LeanWriter(model, shape.extent(search)._replace(lanes=lanes))
        recording = captured_beam.Recording.make(writer, search, shape.source, DEVICE)
        recording.reading, recording.writing = Play(recording.read), Play(recording.write)
        found = recording.run(source).hypotheses(len(source))
    for plain, ours in zip(search(model, source.to(DEVICE)), found, strict=True):
        assert [one.ids for one in plain] == [one.ids for one in ours]
        assert [one.finished for one in plain] == [one.finished for one in ours]
        for a, b in zip(plain, ours, strict=True):
            assert a.score == pytest.approx(b.score, abs=1e-3)
            assert a.token_scores == pytest.approx(b.token_scores, abs=1e-3)
