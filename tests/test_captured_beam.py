"""Recorded beam search: what only recordings can get wrong. Graphs need CUDA; here they are played by functions.

That it finds what plain beam search finds is one of the cases in test_engine_conformance.py.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from captured import play_without_graphs
from graph_replay import Tape
from headway.engines.cuda import captured_beam
from headway.engines.cuda.beam_buffers import Extent, Trellis
from headway.engines.cuda.indexed_attention import slot_attention
from headway.engines.cuda.step_kernels import with_step_kernels
from headway.model.design import EncoderDecoderDesign
from headway.model.feed_forward import Relu
from headway.model.kernels import Fused, Linear, Mixing
from headway.model.models import EncoderDecoder
from headway.search import Beam, Limits
from headway.text.vocabulary import BOS, EOS, PAD

DESIGN = EncoderDecoderDesign(width=32, heads=4, encoder_layers=2, decoder_layers=2, feed_forward=Relu(width=64))


class Taped(captured_beam.Recording):
    """What was done once is done again, blindly: as on a card, no Python of ours runs in a replay."""

    def record(self, pool: Any) -> None:
        self.reading, self.writing = Tape(), Tape()
        with self.reading:
            self.read()
        with self.writing:
            self.write()


def following(model: EncoderDecoder, extent: Extent) -> captured_beam.Writer:
    """Keys stay where they are, as on a card in half precision."""
    return captured_beam.ModelWriter(model, extent, indexed=extent.size > 1)


class QueueWriter:
    """Lanes that pass from sentence to sentence, spelled out: every row is read anew from its beginning."""

    def __init__(self, model: EncoderDecoder, extent: Extent) -> None:
        self.model, self.extent = model, extent

    def read(self, source: torch.Tensor) -> None:
        self.source, self.texts = source, [[[BOS]] * self.extent.size for _ in range(self.extent.lanes)]

    def write(self, trellis: Trellis, search: Beam) -> None:
        owners = trellis.owner.tolist()
        logits = [self.next(owner, text) for owner, texts in zip(owners, self.texts, strict=True) for text in texts]
        parents = trellis.advance(torch.cat(logits), search).tolist()
        for lane, owner in enumerate(owners):
            followed = zip(parents[lane], trellis.last[owner].tolist(), strict=True)
            written = [[*self.texts[lane][parent], piece] for parent, piece in followed]
            self.texts[lane] = written if trellis.owner[lane] == owner else [[BOS]] * search.size

    def next(self, owner: int, text: list[int]) -> torch.Tensor:
        source = self.source[owner]
        return self.model(source[source != PAD][None], torch.tensor([text[: self.extent.room]]))[:, -1]


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> EncoderDecoder:
    play_without_graphs(monkeypatch)
    torch.manual_seed(0)
    return DESIGN.build(200).eval()


@pytest.mark.parametrize("kernel", [Fused(), Linear()])
@pytest.mark.parametrize("size", [1, 3])
def test_a_blind_replay_equals_plain_beam(monkeypatch: pytest.MonkeyPatch, kernel: Mixing, size: int) -> None:
    """Whatever a layer remembers must lie where the recorded step looks for it."""
    monkeypatch.setattr(captured_beam, "Recording", Taped)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 0))
    torch.manual_seed(0)
    model = replace(DESIGN, attention=kernel).build(200).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # so that what was written before matters
            parameter.add_(0.2 * torch.randn_like(parameter))
    search = Beam(size=size, limits=Limits(ratio=1.0, extra=4))
    recorded = captured_beam.CapturedBeam(model, search)
    for source in (sources(3, 8), sources(4, 8)):
        assert [one[0].ids for one in recorded(source)] == [one[0].ids for one in search(model, source)]


def sources(rows: int, length: int) -> torch.Tensor:
    source = torch.randint(4, 200, (rows, length))
    source[:, -1] = EOS
    source[rows // 2, length // 2 :] = 0
    source[rows // 2, length // 2 - 1] = EOS
    return source


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_keys_that_stay_give_what_plain_beam_gives(model: EncoderDecoder, size: int, alpha: float) -> None:
    search = Beam(size=size, n_best=min(3, size), alpha=alpha, limits=Limits(ratio=1.0, extra=8))
    recorded = captured_beam.CapturedBeam(model, search, writer=following)
    for rows in (1, 3, 5):
        source = sources(rows, 10)
        for plain, ours in zip(search(model, source), recorded(source), strict=True):
            assert [one.ids for one in plain] == [one.ids for one in ours]
            assert [one.finished for one in plain] == [one.finished for one in ours]
            for a, b in zip(plain, ours, strict=True):
                assert a.score == pytest.approx(b.score, abs=1e-4)
                assert a.token_scores == pytest.approx(b.token_scores, abs=1e-4)


def often_ending(model: EncoderDecoder) -> EncoderDecoder:
    """Its end is often among the best pieces, and longer outputs would win if they were waited for."""
    with torch.no_grad():
        model.head.bias = torch.nn.Parameter(torch.randn(200))
        model.head.bias[EOS] = 2.3
    return model


def test_a_recording_serves_many_batches_and_old_ones_are_forgotten(model: EncoderDecoder) -> None:
    search = Beam(size=2, limits=Limits(ratio=1.0, extra=8))
    recorded = captured_beam.CapturedBeam(model, search, most=2, writer=following)
    for rows, length in ((3, 9), (4, 12), (2, 9), (4, 20), (4, 40)):
        source = sources(rows, length)
        assert [one[0].ids for one in recorded(source)] == [one[0].ids for one in search(model, source)]
        assert len(recorded.recordings) <= 2


@pytest.mark.parametrize(("size", "lanes"), [(1, 1), (1, 3), (3, 2)])
def test_a_lane_goes_to_the_next_sentence_that_waits(
    monkeypatch: pytest.MonkeyPatch, model: EncoderDecoder, size: int, lanes: int
) -> None:
    """Nine sentences of different length, two or three at a time: each ends as if it had been alone."""
    monkeypatch.setattr(captured_beam, "MOST_ROWS", lanes * size)
    monkeypatch.setattr(
        captured_beam.fused_decoder, "unsupported", lambda *_: None
    )  # so that the batch is not cut first
    search = Beam(size=size, n_best=size, alpha=1.0, limits=Limits(ratio=0.5, extra=3))
    recorded = captured_beam.CapturedBeam(often_ending(model), search, writer=QueueWriter)
    source = torch.randint(4, 200, (9, 12))
    for row in range(9):
        source[row, 12 - row :], source[row, 11 - row] = PAD, EOS
    found = recorded(source)
    (made,) = recorded.recordings.values()
    assert made.trellis.extent.lanes == captured_beam.lanes_for(size) <= lanes and int(made.trellis.left) == 0
    for plain, ours in zip(search(model, source), found, strict=True):
        assert [one.ids for one in plain] == [one.ids for one in ours]
        assert [one.finished for one in plain] == [one.finished for one in ours]
        assert [one.score for one in plain] == pytest.approx([one.score for one in ours], abs=1e-4)
    assert len({len(one.ids) for outputs in found for one in outputs}) > 2


def test_more_than_fits_is_done_in_parts(monkeypatch: pytest.MonkeyPatch, model: EncoderDecoder) -> None:
    monkeypatch.setattr(captured_beam, "MOST_ROWS", 8)
    search = Beam(size=2, limits=Limits(ratio=1.0, extra=8))
    recorded, source = captured_beam.CapturedBeam(model, search, writer=following), sources(11, 9)
    assert [one[0].ids for one in recorded(source)] == [one[0].ids for one in search(model, source)]
    assert {shape.sentences for shape in recorded.recordings} == {4}


def test_keys_are_read_where_they_were_written() -> None:
    """Following the index equals moving the keys."""
    rows, heads, slots, width = 4, 2, 6, 8
    q = torch.randn(rows, heads, 1, width, dtype=torch.float64)
    k, v = (torch.randn(rows, heads, slots, width, dtype=torch.float64) for _ in range(2))
    origin, start = torch.randint(0, rows, (rows, slots)), torch.tensor([[3]])
    mixed = slot_attention(q, k, v, start, origin, 0.5)
    for row in range(rows):
        keys = torch.stack([k[origin[row, s], :, s] for s in range(4)], dim=1)
        values = torch.stack([v[origin[row, s], :, s] for s in range(4)], dim=1)
        weights = (q[row] * 0.5 @ keys.transpose(-1, -2)).softmax(dim=-1)
        torch.testing.assert_close(mixed[row], weights @ values, atol=1e-12, rtol=1e-12)


def test_a_step_has_kernels_of_its_own_and_the_weights_of_the_model() -> None:
    model = DESIGN.build(50)
    twin = with_step_kernels(model, indexed=True)
    assert all(ours is theirs for ours, theirs in zip(twin.parameters(), model.parameters(), strict=True))
    assert all(ours is theirs for ours, theirs in zip(twin.buffers(), model.buffers(), strict=True))
    kernels = [[type(layer.self_attention.kernel).__name__ for layer in one.decoder.layers] for one in (model, twin)]
    assert kernels == [["FusedKernel"] * 2, ["IndexedKernel"] * 2]


class Spy(TorchDispatchMode):
    """Notes the operations on tensors so large that PyTorch shares them out among threads."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ARG002
        result = func(*args, **(kwargs or {}))
        if any(isinstance(one, torch.Tensor) and one.numel() >= 1 << 15 for one in (*args, result)):
            self.seen.append(func.overloadpacket.__name__)
        return result


class Nobody:
    """Writes nothing."""

    extent = Extent(sentences=1024, size=1, keep=1, room=64, lanes=1024)

    def read(self, source: torch.Tensor) -> None: ...

    def write(self, trellis: Trellis, search: Beam) -> None: ...


def test_the_host_needs_one_thread() -> None:
    """Besides views, large tensors are only sent and fetched: no time depends on the number of OpenMP threads."""
    search, source = Beam(size=1, limits=Limits(ratio=1.0, extra=0)), torch.randint(4, 200, (1000, 60))
    recording = captured_beam.Recording.make(Nobody(), search, 64, torch.device("cpu"))
    with Spy() as spy:
        shape = captured_beam.room_for(source, search.limits)
        steps = recording.begin(source)
        recording.result.copy_log(recording.trellis, steps)
        found = recording.result.copy().hypotheses(len(source))
    assert (shape.sentences, shape.target, steps, len(found)) == (1024, 64, 60, 1000)
    views = {"split", "split_with_sizes", "view", "slice", "select", "detach", "alias", "lift_fresh"}
    assert [name for name in spy.seen if name not in views] == ["copy_"] * 2  # the source and the log
