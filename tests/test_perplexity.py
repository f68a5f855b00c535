"""What a text costs a language model: every way of reading against the plainest computation there is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from headway.data.documents import Amounts
from headway.model.design import LanguageModelDesign
from headway.model.feed_forward import Relu
from headway.model.models import LanguageModel
from headway.model.positions import Learned, Rotary, TransformerXL
from headway.tasks.language_model.next_token import InputNoise, MemoryForward, SegmentForward
from headway.tasks.language_model.perplexity import Perplexity, nats, remembered, strided, windows
from headway.text.vocabulary import BOS, EOS, PAD, UNK
from headway.training.forward_pass import ForwardPass, Sums
from headway.training.recurrent_state import preserved, recurrent_state_of

PIECES = 23


def model(seed: int = 0, **changes: Any) -> LanguageModel:
    torch.manual_seed(seed)
    plain: dict[str, Any] = {
        "width": 16, "heads": 2, "layers": 2, "feed_forward": Relu(width=32), "positions": Rotary(), "dropout": 0.0,
    }  # fmt: skip
    return LanguageModelDesign(**{**plain, **changes}).build(PIECES).eval()


def document(length: int, seed: int = 0) -> np.ndarray:
    dice = np.random.default_rng(seed)
    return np.array([BOS, *dice.integers(4, PIECES, length - 2), EOS])


def cost(model: LanguageModel, context: np.ndarray, token: int) -> float:
    """Minus the logarithm of the probability of one token after a context, by the model's plain forward pass."""
    with torch.no_grad():
        return -float(model(torch.from_numpy(context)[None])[0, -1].log_softmax(-1)[token])


# ---------------------------------------------------------------- windows


@pytest.mark.parametrize(("longest", "stride"), [(6, 6), (6, 2), (6, 1), (7, 3), (40, 40), (40, 10), (1, 1)])
def test_windows_equal_brute_force(longest: int, stride: int) -> None:
    """Each token by itself: its window begins `longest - stride` tokens before the part that is counted."""
    net, texts = model().double(), [document(n, n) for n in (2, 5, 17, 30)]
    for ids, found in zip(texts, strided(net, texts, longest, stride), strict=True):
        starts = [max(0, token // stride * stride - (longest - stride)) for token in range(len(ids) - 1)]
        direct = [cost(net, ids[start : i + 1], ids[i + 1]) for i, start in enumerate(starts)]
        assert np.allclose(found, direct, atol=1e-12)


def test_windows_that_move_by_one_give_each_token_all_its_context() -> None:
    net, ids = model(positions=Learned(), longest=6).double(), document(20)
    direct = [cost(net, ids[max(0, i - 5) : i + 1], ids[i + 1]) for i in range(19)]
    assert np.allclose(strided(net, [ids], 6, 1)[0], direct, atol=1e-12)


def test_every_token_is_counted_once() -> None:
    counted = [i for w in windows([50], 16, 4) for i in range(w.counted, w.stop)]
    assert counted == list(range(50))
    assert all(w.stop - w.start <= 16 for w in windows([50], 16, 4))


def test_a_window_over_all_is_the_loss_of_hugging_face() -> None:
    """The same weights in GPT-2, with their own loss."""
    transformers = pytest.importorskip("transformers")
    from headway.exchange.gpt2 import from_gpt2

    torch.manual_seed(1)
    shape = {"vocab_size": PIECES, "n_positions": 32, "n_embd": 16, "n_layer": 2, "n_head": 2}
    theirs = transformers.GPT2LMHeadModel(transformers.GPT2Config(**shape, bos_token_id=BOS, eos_token_id=EOS)).eval()
    design, tensors = from_gpt2(theirs.state_dict(), theirs.config.to_dict())
    ours = design.build(PIECES).eval()
    ours.load_state_dict(tensors)
    ids = document(30)
    with torch.no_grad():
        expected = float(theirs(torch.from_numpy(ids)[None], labels=torch.from_numpy(ids)[None]).loss)
    assert math.isclose(strided(ours, [ids], 32, 32)[0].mean(), expected, rel_tol=1e-5)


# ---------------------------------------------------------------- memory


@pytest.mark.parametrize("positions", [TransformerXL(), Rotary()])
def test_a_memory_of_everything_is_one_pass_over_everything(positions: Any) -> None:
    net, ids = model(positions=positions, memory=50).double(), document(41)
    assert np.allclose(remembered(net, [ids], 7)[0], strided(net, [ids], 50, 50)[0], atol=1e-12)


def test_a_short_memory_of_one_layer_is_a_window() -> None:
    """One layer remembers embeddings, which do not depend on what came before: memory is exactly context."""
    net, ids = model(positions=TransformerXL(), memory=8, layers=1).double(), document(40)
    assert np.allclose(remembered(net, [ids], 4)[0], strided(net, [ids], 12, 4)[0], atol=1e-12)


def test_deeper_layers_remember_further_than_their_memory() -> None:
    """With n layers what is seen reaches n memories back (section 3.2 of the paper)."""
    net, ids = model(positions=TransformerXL(), memory=4, layers=2).double(), document(16)
    other = ids.copy()
    other[6] = 4 + (ids[6] - 3) % (PIECES - 4)
    assert other[6] != ids[6]
    far = [x[13] for x in remembered(net, [ids, other], 4)]  # read at 12..15: 7 tokens after it
    assert abs(far[0] - far[1]) > 1e-9
    window = [x[13] for x in strided(net, [ids, other], 8, 4)]
    assert window[0] == window[1]


@pytest.mark.parametrize(("memory", "segment"), [(4, 4), (7, 3), (2, 5)])
def test_parts_read_side_by_side_are_the_document(memory: int, segment: int) -> None:
    """Long documents and short ones, against one segment after the other."""
    net = model(positions=TransformerXL(), memory=memory, layers=2).double()
    documents = [document(length) for length in (400, 3, 2, 151, 2)]

    @torch.inference_mode()
    def in_one_go(ids: np.ndarray) -> np.ndarray:
        held, lost = list[Tensor](), [np.zeros(0)]
        row = torch.from_numpy(ids)
        for inputs, labels in zip(row[:-1].split(segment), row[1:].split(segment), strict=True):
            hidden, held = net.hidden(inputs[None], held)
            lost.append(nats(net, hidden[0], labels))
        return np.concatenate(lost)

    for found, ids in zip(remembered(net, documents, segment), documents, strict=True):
        assert np.allclose(found, in_one_go(ids), atol=1e-12)


# ---------------------------------------------------------------- training with a memory


def sums(forward: ForwardPass, *tensors: Tensor) -> Sums:
    """Total, cross-entropy and count of a batch, without label smoothing."""
    return forward(forward.batch(*tensors)).loss(0.0)


def segments(rows: int, length: int, count: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(3).integers(4, PIECES, (count, rows, length)))


def test_the_carried_memory_is_the_memory() -> None:
    """Segments through the objective, and through the model's own list of vectors that grows from nothing."""
    net, memory = model(positions=TransformerXL(), memory=6).double(), list[Tensor]()
    objective = MemoryForward(net, InputNoise(), rows=3)
    for number, ids in enumerate(segments(3, 5, 4)):
        hidden, memory = net.hidden(ids[:, :-1], memory)
        expected = torch.nn.functional.cross_entropy(
            net.head(hidden).flatten(0, 1), ids[:, 1:].flatten(), reduction="sum"
        )
        total, _, count = sums(objective, ids[:, :-1], ids[:, 1:], torch.arange(3), torch.full((3,), number == 0))
        assert count == 12 and torch.allclose(total, expected, rtol=1e-6)
    assert objective.recurrent_state["length"].tolist() == [[6, 6, 6]]


def test_a_fresh_row_forgets_and_the_others_do_not() -> None:
    net = model(positions=TransformerXL(), memory=6)
    first, second = segments(2, 5, 2)

    def costs(objective: ForwardPass, *beside: Tensor) -> list[float]:
        """Of the second segment, row by row."""
        with torch.no_grad():
            rows = [[x[i : i + 1] for x in (second, second, *beside)] for i in (0, 1)]
            return [float(sums(objective, *row)[0]) for row in rows]

    totals = []
    for fresh in ([False, False], [True, False], [True, True]):
        objective = MemoryForward(net, InputNoise(), rows=2)
        sums(objective, first, first, torch.arange(2), torch.ones(2, dtype=torch.bool))
        totals.append(costs(objective, torch.arange(2), torch.tensor(fresh)))
    alone = costs(SegmentForward(net, InputNoise()))
    assert totals[2] == pytest.approx(alone, rel=1e-5)
    assert totals[1][0] == pytest.approx(alone[0], rel=1e-5) and totals[1][1] == pytest.approx(totals[0][1], rel=1e-6)
    assert abs(totals[0][0] - alone[0]) > 1e-4


def test_no_gradient_flows_into_the_memory() -> None:
    objective = MemoryForward(model(positions=TransformerXL(), memory=6), InputNoise(), rows=2)
    for number, ids in enumerate(segments(2, 5, 2)):
        total = sums(objective, ids, ids, torch.arange(2), torch.full((2,), number == 0))[0]
        total.backward()  # would fail if the graph of the first segment were still needed
    assert not any(tensor.requires_grad for tensor in objective.recurrent_state.values())


def test_a_row_that_forgets_reads_as_if_it_were_fresh() -> None:
    """With `memory_dropout` of all rows a step is that of segments by themselves; the next one may remember it."""
    net = model(positions=TransformerXL(), memory=6).double()
    first, second, third = segments(2, 5, 3)
    forgetful = MemoryForward(net, InputNoise(memory_dropout=0.999999), rows=2)
    told = MemoryForward(net, InputNoise(), rows=2)
    rows, fresh = torch.arange(2), torch.ones(2, dtype=torch.bool)
    sums(forgetful, first, first, rows, fresh)
    assert torch.allclose(
        sums(forgetful, second, second, rows, ~fresh)[0],
        sums(SegmentForward(net, InputNoise()), second, second)[0],
        rtol=1e-6,
    )
    sums(told, second, second, rows, fresh)  # what a fresh row remembers of it is what a forgetful one does
    forgetful.noise = InputNoise()
    assert forgetful.recurrent_state["length"].tolist() == [[6, 6]]
    assert told.recurrent_state["length"].tolist() == [[5, 5]]
    newest, theirs = (one.recurrent_state["vectors"][..., -5:, :] for one in (forgetful, told))
    assert torch.allclose(newest, theirs)
    alone = sums(SegmentForward(net, InputNoise()), third, third)[0]
    assert not torch.allclose(sums(forgetful, third, third, rows, ~fresh)[0], alone, rtol=1e-6), "it remembers again"


def test_memory_dropout_is_the_same_in_all_passes_of_a_row() -> None:
    kept = InputNoise(memory_dropout=0.3).visible(torch.full((4000,), 6), passes=2)
    assert set(kept.tolist()) == {0, 6} and 0.25 < float((kept == 0).double().mean()) < 0.35
    assert torch.equal(kept[:2000], kept[2000:])


def test_dropout_before_the_head_holds_in_training_only() -> None:
    net, ids = model(head_dropout=0.5), segments(2, 6, 1)[0]
    plain = net.hidden(ids)[0]
    assert torch.equal(plain, net.hidden(ids)[0])
    dropped = net.train().hidden(ids)[0]
    share = float((dropped == 0).double().mean())
    assert 0.3 < share < 0.7 and torch.allclose(dropped[dropped != 0], 2 * plain[dropped != 0], rtol=1e-3)


def test_each_of_two_passes_has_a_memory_of_its_own() -> None:
    """Without dropout both are the same: so are the loss, and what each remembers. With it they are not."""
    net = model(positions=TransformerXL(), memory=6).double()
    once, twice = (MemoryForward(net, InputNoise(), rows=3, r_drop=weight) for weight in (0.0, 5.0))
    batches = [(ids[:, :-1], ids[:, 1:], torch.arange(3)) for ids in segments(3, 5, 3)]
    for number, batch in enumerate(batches):
        fresh = torch.full((3,), number == 0)
        assert torch.allclose(sums(once, *batch, fresh)[0], sums(twice, *batch, fresh)[0], rtol=1e-6)
    first, second = twice.recurrent_state["vectors"].unbind(1)
    assert torch.allclose(first, second) and torch.allclose(first, once.recurrent_state["vectors"][:, 0])
    hidden = MemoryForward(net, InputNoise(word_dropout=0.5), rows=3, r_drop=5.0)
    total, nll, _ = sums(hidden, *batches[-1], torch.zeros(3, dtype=torch.bool))
    first, second = hidden.recurrent_state["vectors"].unbind(1)
    assert not torch.equal(first, second) and total > nll


def test_hidden_pieces_are_unknown_ones() -> None:
    ids = segments(40, 50, 1)[0]
    found = InputNoise(word_dropout=0.2).inputs(ids, PIECES, passes=2)
    assert found.shape == (80, 50) and 0.15 < (found == UNK).double().mean() < 0.25
    assert torch.equal(torch.where(found == UNK, 0, found - ids.repeat(2, 1)), torch.zeros_like(found))
    assert torch.equal(InputNoise().inputs(ids, PIECES, passes=1), ids)


def test_a_hidden_part_of_the_vocabulary_is_hidden_wherever_it_stands() -> None:
    ids = torch.cat([torch.full((30, 1), BOS), torch.randint(4, 900, (30, 99))], dim=1)
    found = InputNoise(vocabulary_dropout=0.2).inputs(ids, 900, passes=2).unflatten(0, (2, 30))
    gone = [set(ids[reading == UNK].tolist()) for reading in found]
    for reading, hidden in zip(found, gone, strict=True):
        assert torch.equal(reading, torch.tensor([[UNK if n in hidden else n for n in row] for row in ids.tolist()]))
        assert 0.15 * 900 < len(hidden) < 0.25 * 900 and BOS not in hidden
    assert gone[0] != gone[1], "each reading has others"


def test_trying_out_leaves_no_trace() -> None:
    objective = MemoryForward(model(positions=TransformerXL(), memory=6), InputNoise(), rows=2)
    ids = segments(2, 5, 1)[0]
    before = {name: (tensor.clone(), tensor.data_ptr()) for name, tensor in recurrent_state_of(objective).items()}
    with preserved(objective.recurrent_state):
        sums(objective, ids, ids, torch.arange(2), torch.zeros(2, dtype=torch.bool))
    for name, tensor in objective.recurrent_state.items():
        assert torch.equal(tensor, before[name][0]) and tensor.data_ptr() == before[name][1]
    assert recurrent_state_of(SegmentForward(objective.model, InputNoise())) == {}


def test_a_step_never_waits_for_its_numbers() -> None:
    """Tensors without contents: whatever looked at a value would fail, and so would a recorded CUDA graph."""
    with FakeTensorMode():
        objective = MemoryForward(model(positions=TransformerXL(), memory=6).train(), InputNoise(), rows=2)
        ids = torch.zeros(2, 5, dtype=torch.long)
        total, _, _ = sums(objective, ids, ids, torch.arange(2), torch.zeros(2, dtype=torch.bool))
        total.backward()


# ---------------------------------------------------------------- units


def test_units() -> None:
    """A coin for each of 8 characters: one bit a character, whatever the pieces are."""
    amounts = Amounts(tokens=4, words=2, characters=8, bytes=10)
    found = Perplexity(8 * math.log(2), amounts)
    assert found.bits_per_character == pytest.approx(1.0) and found.bits_per_byte == pytest.approx(0.8)
    assert found.of_tokens == pytest.approx(2**2) and found.of_words == pytest.approx(2**4)
    assert found.loss == pytest.approx(2 * math.log(2))
    assert PAD == 0
